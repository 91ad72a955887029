"""Files that are there whole or not at all."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_whole(path: str | Path) -> Iterator[Path]:
    """Give a temporary path beside `path` to write to; what stands there at the end takes the place of `path`.

    If the block fails, or Ctrl-C interrupts it, the temporary file goes and `path` stays as it was. If the process
    is killed, `path` is the old file or the new one; a hidden temporary file may be left over.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with written_whole(Path(folder) / "figures.txt") as temporary:
    ...         _ = temporary.write_text("whole")
    ...     (Path(folder) / "figures.txt").read_text(), len(list(Path(folder).iterdir()))
    ('whole', 1)
    """
    path = Path(path)
    # The suffix stays last: some writers choose their format by it.
    temporary = path.with_name(f".{path.stem}.{uuid.uuid4().hex[:12]}.tmp{path.suffix}")
    try:
        yield temporary
        _to_disk(temporary)
        os.replace(temporary, path)
        if os.name == "posix":
            _to_disk(path.parent)  # the new name is in the folder, so the folder has to reach the disk too
    finally:
        temporary.unlink(missing_ok=True)


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
