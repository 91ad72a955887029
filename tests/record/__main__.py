"""Write the record anew: ``python -m tests.record``.

Only for a change that is meant to change what users get: look at the differences in `record.json` one by one, and name
them in CHANGELOG.md. A change of the code that keeps its behaviour keeps the record. The model file is written again
with ``--model`` alone, which nothing but a new format of model files or a new version of the ensemble can ask for.
"""

import json
import sys
import tempfile
from pathlib import Path

from tests.record import made

if __name__ == "__main__":
    found = {}
    if "--model" in sys.argv:
        with tempfile.TemporaryDirectory() as folder:
            made.write_model(Path(folder))
    for name, group in made.GROUPS.items():
        with tempfile.TemporaryDirectory() as folder:
            found[name] = group(Path(folder))
    content = {"environment": made.environment(), **found}
    made.RECORD.write_text(json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True) + "\n", "utf-8")
