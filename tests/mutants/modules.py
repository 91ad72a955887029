"""The modules that promises rest on, each with the tests that must notice every change of it; quick ones come first."""

from pathlib import Path

PROJECT = Path(__file__).parents[2]

_COLUMNS = tuple(
    f"columns/test_{name}.py"
    for name in (
        "record", "conditions", "differences", "onnx_features", "cells", "dates", "frequencies", "pictures",
        "understanding", "preparer", "adding_a_type",
    )
) + tuple(
    f"tables/test_{name}.py" for name in ("awkward_files", "doubtful", "fit_and_score_read_alike", "reading")
)  # fmt: skip
_LIMITS = ("serving/test_promises.py", "serving/test_batching.py", "serving/test_models.py")

# Doctests of the module itself run, too.
TESTS: dict[str, tuple[str, ...]] = {
    "metrics": ("test_metrics.py",),
    "persistence/appending": ("persistence/test_appending.py", "review/test_log.py"),
    "persistence/atomic": ("persistence/test_atomic.py", "persistence/test_nth_failure.py"),
    "persistence/claim": ("persistence/test_claim.py", "persistence/test_nth_failure.py"),
    "persistence/model_file": ("persistence/test_header.py", "persistence/test_model_file.py"),
    "persistence/previous": ("persistence/test_previous.py",),
    "persistence/schema": ("persistence/test_schema.py",),
    "scoring/alerts": ("scoring/test_scorer.py", "scoring/test_table.py"),
    "scoring/scored": ("scoring/test_scorer.py", "scoring/test_novelty.py", "scoring/test_table.py"),
    "scoring/scorer": ("scoring/test_scorer.py", "scoring/test_novelty.py", "scoring/test_table.py"),
    "tables/label_columns": ("tables/test_labels.py",),
    "tables/labels": ("tables/test_labels.py",),
    "tables/words": ("tables/test_labels.py",),
    "web": ("test_web.py", "serving/test_promises.py"),
    "review/log": ("review/test_log.py", "review/test_labels.py"),
    "serving/app": (*_LIMITS, "serving/test_app.py"),
    "serving/models": (*_LIMITS, "serving/test_server.py"),
    "serving/rows": ("serving/test_rows.py", "serving/test_promises.py"),
    "serving/server": ("serving/test_app.py", "serving/test_server.py"),
    **{
        f"columns/{path.stem}": (*_COLUMNS, "tables/test_frames.py") if path.stem == "frames" else _COLUMNS
        for path in sorted((PROJECT / "src" / "dplan" / "columns").glob("[a-z]*.py"))
    },
}


def source(module: str) -> Path:
    """Return the file of a module."""
    return PROJECT / "src" / "dplan" / f"{module}.py"


def files_of_tests(module: str) -> list[Path]:
    """Return the files with the tests of a module."""
    return [source(module), *(PROJECT / "tests" / name for name in TESTS[module])]
