"""The demo on the embedded data: train, score, evaluate, compare, plot."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from dplan._kernels.compiling import compiling
from dplan.arrays import highest_first
from dplan.cli._terminal import progress_bar, training_progress
from dplan.datasets import Task, scenario
from dplan.detectors._registry import list_detectors
from dplan.detectors.dplan import DPLAN
from dplan.exceptions import needs
from dplan.metrics import RankedScores
from dplan.persistence.atomic import atomic_write

TASK = "covertype-mini/cottonwood-v1"

Scores = NDArray[np.float64]


def run(output: Path, seed: int = 0) -> None:
    """Run the demo: print the results and write a plot to the folder `output`."""
    console = Console()
    task = scenario(TASK, seed=seed)
    _print_task(console, task)
    detector = _train(task, seed)
    scores = detector.anomaly_score(task.X_test)
    console.print(_evaluation(task, scores))
    console.print(_top_rows(task, scores))
    _compare(console, task, seed)
    console.print(_draw(output / "dplan-demo.png", task, detector, scores), markup=False, soft_wrap=True)


def _names(task: Task, numbers: tuple[int, ...]) -> str:
    return ", ".join(task.classes[number] for number in numbers)


def _print_task(console: Console, task: Task) -> None:
    labelled = int((task.y > 0).sum())
    console.print(
        f"Forest cover types, a sample of Covertype (CC BY 4.0, see src/dplan/datasets/README.md).\n"
        f"Training: {labelled} labelled anomalies ({_names(task, task.known)}) and {len(task.y) - labelled:,} "
        f"unlabelled rows, {task.contamination:.0%} of them hidden anomalies of all classes.\n"
        f"Test: {len(task.y_test):,} rows, of which {task.known_mask.sum()} are {_names(task, task.known)} "
        f"and {task.unknown_mask.sum()} are {_names(task, task.unknown)}, a class without labels.",
        soft_wrap=True,
    )


def _train(task: Task, seed: int) -> DPLAN:
    detector = DPLAN(random_state=seed)
    with training_progress(detector) as stage:
        stage("training")
        return detector.fit(task.X, task.y)


def _evaluation(task: Task, scores: Scores) -> Table:
    table = Table(title="DPLAN on the test rows", title_justify="left")
    for heading in ("", "rows", "AUC-PR", "AUC-ROC"):
        table.add_column(heading, justify="left" if not heading else "right")
    for (name, counted, _), areas in zip(_groups(task), _areas(task, scores), strict=True):
        table.add_row(name, str(counted.sum()), *(f"{area:.3f}" for area in areas))
    return table


def _areas(task: Task, scores: Scores) -> list[tuple[float, float]]:
    """Return AUC-PR and AUC-ROC of each group of anomalies against the normal rows."""
    ranked, normal = RankedScores(scores), task.y_test == 0
    return [ranked.areas(counted, normal) or (np.nan, np.nan) for _, counted, _ in _groups(task)]


def _groups(task: Task) -> list[tuple[str, NDArray[np.bool_], str]]:
    """Return groups of test anomalies: name, rows, colour."""
    return [
        ("all anomalies", task.y_test > 0, "black"),
        (f"known: {_names(task, task.known)}", task.known_mask, "#d1495b"),
        (f"unknown: {_names(task, task.unknown)}", task.unknown_mask, "#edae49"),
    ]


def _compare(console: Console, task: Task, seed: int) -> None:
    # Without a frame, to fit into 80 columns.
    title = "All detectors on the same rows"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("\ndetector", no_wrap=True)
    for curve in ("AUC-PR", "AUC-ROC"):
        for heading in (f"{curve}\nall", "\nknown", "\nunknown"):
            table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("fit\ns", "score\ns"):
        table.add_column(heading, justify="right", no_wrap=True)
    entries = list_detectors()
    with progress_bar() as progress:
        for done, entry in enumerate(entries):
            progress(f"Fitting {entry.name}", done, len(entries))
            detector = entry.create(random_state=seed)
            with threadpool_limits(1):
                started = compiling.clock()
                detector.fit(task.X, task.y)
                fitted = compiling.clock()
                scores = detector.anomaly_score(task.X_test)
                scored = compiling.clock()
            areas = [f"{area:.3f}" for curve in zip(*_areas(task, scores), strict=True) for area in curve]
            table.add_row(entry.name, *areas, f"{fitted - started:.2f}", f"{scored - fitted:.3f}")
    console.print(table)


def _top_rows(task: Task, scores: Scores) -> Table:
    shown = ("Elevation", "Slope", "Horizontal_Distance_To_Hydrology", "Horizontal_Distance_To_Roadways")
    table = Table(title="The ten most anomalous test rows", title_justify="left")
    headings = ("rank", "score", "elevation", "slope", "to water", "to road", "class")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "class" else "right")
    order = highest_first(scores)[:10]
    values = task.features_test.select(shown)[order].rows()
    for rank, (row, cells) in enumerate(zip(order, values, strict=True), start=1):
        truth = task.classes[task.y_test[row]]
        table.add_row(str(rank), f"{scores[row]:.3f}", *(f"{cell:,}" for cell in cells), truth)
    return table


def _draw(picture: Path, task: Task, detector: DPLAN, scores: Scores) -> str:
    """Write the plot, if matplotlib is installed, and return a message about it."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return f"No plot: {needs('drawing it', 'matplotlib')}"

    figure = Figure(figsize=(13, 4.2), layout="constrained")
    spread, curve, learning = figure.subplots(1, 3)
    ranked = RankedScores(scores)
    bins = np.linspace(scores.min(), scores.max(), 50)
    normal: NDArray[np.bool_] = task.y_test == 0
    (everything, known, unknown) = _groups(task)
    for counted, label, colour in (
        (normal, "normal rows", "#9aa5b1"),
        (known[1], f"{_names(task, task.known)} (60 labelled)", known[2]),
        (unknown[1], f"{_names(task, task.unknown)} (never labelled)", unknown[2]),
    ):
        spread.hist(scores[counted], bins=bins, density=True, alpha=0.65, color=colour, label=label)
    spread.set(title="Scores of held-out rows", xlabel="anomaly score Q(s, anomalous)", yticks=[])
    spread.set_ylabel("density per group")
    spread.legend(frameon=False)

    areas = _areas(task, scores)
    for (name, counted, colour), (area, _) in zip((everything, known, unknown), areas, strict=True):
        precision, recall = ranked.precision_recall(counted, normal)
        curve.plot(recall, precision, color=colour, label=f"{name} ({area:.2f})")
    curve.set(title="Precision and recall (AUC-PR)", xlabel="recall", ylabel="precision", ylim=(0, 1.02))
    curve.legend(frameon=False, loc="lower left")

    history = detector.history_
    steps = np.arange(1, len(history["reward"]) + 1) * detector.episode_steps
    learning.axvspan(0, detector.warmup_steps, color="#ececec")
    learning.text(
        detector.warmup_steps / 2, max(history["reward"]), "warm-up: no learning yet", ha="center", va="top"
    )
    learning.plot(steps, history["reward"], marker="o", color="#00798c")
    learning.set(title="Learning", xlabel="step", ylabel="reward per episode", xlim=(0, steps[-1]))
    learning.set_xticks(np.linspace(0, steps[-1], 5))
    for axes in (spread, curve, learning):
        axes.spines[["top", "right"]].set_visible(False)
    picture.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(picture) as temporary:
        figure.savefig(temporary, dpi=110)
    return f"Wrote {picture}"
