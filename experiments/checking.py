"""Check a results file: that its cells exist, their metrics are possible, and the rows behind them agree."""

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cells import Cell, identity, row_counts, run_cell
from experiments.data.sources import describe, source_name
from experiments.methods import method_names
from experiments.results import Results
from experiments.suites import SUITES, Plan, cells_of

__all__ = ["Checked", "check"]

_MOST_TASKS = 30
_TOLERANCE = 1e-5  # areas are recorded with six decimals, and two rows that almost tie may change places


@dataclass(frozen=True)
class Checked:
    """What was found.

    Attributes
    ----------
    n_cells : int
        Finished cells in the file.
    problems : list of str
        What is wrong; empty if nothing is.
    missing : dict
        By suite and method: cells of the suite that the file does not have.
    """

    n_cells: int
    problems: list[str]
    missing: dict[tuple[str, str], int]


def check(place: str | Path, home: Path | None = None, rerun: int = 0) -> Checked:
    """Check the results in a folder or file.

    Parameters
    ----------
    place : path
        A journal, or its folder.
    home : path, optional
        The folder of the data sets; the rows behind a sample of the cells are drawn again from it.
    rerun : int, default=0
        Number of cells to run again and compare.

    Returns
    -------
    Checked

    Examples
    --------
    >>> import tempfile
    >>> from experiments.runner import run
    >>> plan = Plan(("unknown",), methods=("LogisticBaseline",), runs=1, datasets=("covertype-mini",))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = run(plan, folder)
    ...     checked = check(folder, rerun=1)
    >>> checked.n_cells, checked.problems
    (6, [])
    """
    results = Results.read(place)
    today = _cells_of_today(results, home)
    problems = [f"{len(results.failed)} cells failed"] if results.failed else []
    known = []
    for record in results.cells:
        cell = today.get(identity(record))
        if cell is None:
            problems.append(f"{_name(record)} is not a cell of the suite")
        else:
            problems.extend(f"{_name(record)}: {problem}" for problem in _impossible(record))
            known.append((record, cell))
    problems.extend(_data_problems(results, home))
    problems.extend(_row_problems(known, home))
    for record, cell in _spread(known, rerun):
        problems.extend(_rerun_problems(record, run_cell(cell, home)))
    there = {identity(record) for record in results.cells}
    missing = Counter((cell.suite, cell.method) for key, cell in today.items() if key not in there)
    return Checked(len(results.cells), problems, dict(missing))


def _cells_of_today(results: Results, home: Path | None) -> dict[tuple[str, str], Cell]:
    """List all cells of the suites in the file, for the methods, seeds, labels and parameters in it."""
    found: dict[tuple[str, str], Cell] = {}
    groups: dict[tuple[str, int | None], list[dict[str, Any]]] = {}
    for record in results.cells:
        if record["suite"] in SUITES:
            verdicts = record.get("changed", {}).get("n_verdicts")
            groups.setdefault((record["suite"], verdicts), []).append(record)
    for (suite, verdicts), own in groups.items():
        seeds = [record["seed"] for record in own]
        methods = [
            method for method in dict.fromkeys(record["method"] for record in own) if method in method_names()
        ]
        xs = tuple(int(x) for x in dict.fromkeys(record["x"] for record in own) if x is not None)
        plan = Plan(
            (suite,),
            methods=tuple(methods),
            runs=max(seeds) - min(seeds) + 1,
            first_seed=min(seeds),
            protocols=tuple(dict.fromkeys(record["protocol"] for record in own)),
            labels=tuple(dict.fromkeys((*SUITES[suite].labels, *xs))) if SUITES[suite].labels else (),
            per_refit=xs if suite == "discovery" else (),
            verdicts=verdicts,
        )
        for dataset in dict.fromkeys(source_name(record["scenario"]).rpartition("/")[2] for record in own):
            with contextlib.suppress(ValueError):  # not a data set of the suite, and so are its cells
                for cell in cells_of(replace(plan, datasets=(dataset,)), home):
                    found[identity(cell.record())] = cell
    return found


def _name(record: dict[str, Any]) -> str:
    x = "" if record["x"] is None else f", x = {record['x']:g}"
    return f"{record['suite']}: {record['method']} on {record['scenario']}{x}, seed {record['seed']}"


def _impossible(record: dict[str, Any]) -> Iterator[str]:
    """Find metrics that no scores can have."""
    if record["suite"] == "discovery":
        finds = record["finds"]
        if finds != sorted(set(finds)) or any(not 1 <= find <= record["verdicts"] for find in finds):
            yield "finds are not increasing numbers of verdicts"
        if len(finds) > record["anomalies"]:
            yield f"{len(finds)} anomalies found of {record['anomalies']}"
        for n, count in record["found"].items():
            if count != sum(find <= int(n) for find in finds):
                yield f"found after {n} verdicts is {count}, which is not what finds says"
        return
    if record["suite"] == "estimates":
        most = record["estimate"]["budget"] if record["estimate"] else 0
        if not 0 <= record["right"] <= min(most, record["anomalies"]):
            yield f"{record['right']} of {most} alerts are right"
        return
    arms = record.get("arms", ())
    for name, value in (item for some in (record, *arms) for item in some.items()):
        if name.startswith(("auc_pr", "auc_roc")) and value is not None and not 0 <= value <= 1:
            yield f"{name} is {value}"
    for arm in arms:
        if not arm["finds"] <= arm["judged"] <= arm["n"]:
            yield f"{arm['judged']} verdicts and {arm['finds']} finds of {arm['n']} {arm['kind']}"


def _data_problems(results: Results, home: Path | None) -> Iterator[str]:
    """Compare the data with what the cells were run on."""
    recorded = {name: digest for run in results.runs for name, digest in run["data"].items()}
    for name, digest in recorded.items():
        found, _ = describe(name, home)
        if found != digest:
            yield f"data {name} is {found} here, {digest} in the file"


def _row_problems(cells: Sequence[tuple[dict[str, Any], Cell]], home: Path | None) -> Iterator[str]:
    """Draw the rows behind some cells again, and compare their numbers."""
    by_rows: dict[Any, list[tuple[dict[str, Any], Cell]]] = {}
    for record, cell in cells:
        own = cell.suite if cell.suite in ("discovery", "after-review", "estimates") else ""
        by_rows.setdefault((own, cell.rows), []).append((record, cell))
    for same in _spread(list(by_rows.values()), _MOST_TASKS):
        here = row_counts(same[0][1], home)
        for (record, _), (name, count) in product(same, here.items()):
            if record.get(name, count) != count:
                yield f"{_name(record)}: {name} is {record[name]}, should be {count}"


def _rerun_problems(record: dict[str, Any], outcome: dict[str, Any]) -> Iterator[str]:
    if outcome["status"] != "done":
        yield f"{_name(record)}: failed when run again: {outcome['error']}"
    elif record["suite"] == "discovery":
        if outcome["finds"] != record["finds"]:
            yield f"{_name(record)}: other finds when run again"
    elif record["suite"] == "estimates":
        if (outcome["estimate"], outcome["right"]) != (record["estimate"], record["right"]):
            yield f"{_name(record)}: another estimate when run again"
    else:
        for metric in ("auc_pr", "auc_roc"):
            if abs(outcome[metric] - record[metric]) > _TOLERANCE:
                yield f"{_name(record)}: {metric} is {record[metric]:.6f}, {outcome[metric]:.6f} when run again"
        for then, now in zip(record.get("arms", ()), outcome.get("arms", ()), strict=True):
            if abs(then["auc_pr"] - now["auc_pr"]) > _TOLERANCE:
                yield f"{_name(record)}: other results after {then['n']} {then['kind']} when run again"


def _spread(items: Sequence[Any], n: int) -> list[Any]:
    """Return up to n items, evenly spread."""
    places = np.linspace(0, len(items) - 1, min(n, len(items))).round().astype(int)
    return [items[place] for place in places]
