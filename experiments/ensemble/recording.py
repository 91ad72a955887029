"""Measurements as lines of JSON, added to as they are made."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

RECORDS = Path(__file__).parent / "records"


def read(path: Path) -> list[dict[str, Any]]:
    """Return all measurements; none if there is no file yet."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def add(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Write measurements that belong together, in one go."""
    path.parent.mkdir(exist_ok=True)
    lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(lines))
