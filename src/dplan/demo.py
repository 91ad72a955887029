"""The main job from beginning to end, on the embedded data: train, score, judge, look."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from sklearn.metrics import average_precision_score, roc_auc_score

from dplan.data import Task, scenario
from dplan.detectors._base import Detector
from dplan.detectors.dplan import DPLAN

TASK = "covertype-mini/cottonwood-v1"

Scores = NDArray[np.float64]


def run(output: Path, seed: int = 0) -> None:
    """Run the demo: print what happens and write a plot into the folder `output`."""
    console = Console()
    task = scenario(TASK, seed=seed)
    _introduce(console, task)
    detector = _train(console, task, seed)
    scores = detector.anomaly_score(task.X_test)
    console.print(_judgement(task, scores))
    console.print(_top_rows(task, scores))
    picture = output / "dplan-demo.png"
    if _draw(picture, task, detector, scores):
        console.print(f"Wrote {picture}", soft_wrap=True)
    else:
        advice = "No plot: matplotlib is not installed. Install it with: pip install 'dplan-ad[plot]'"
        console.print(advice, markup=False, soft_wrap=True)


def groups(task: Task) -> dict[str, NDArray[np.bool_]]:
    """Return which test anomalies count, per row of the judgement.

    Examples
    --------
    >>> from dplan.data import scenario
    >>> list(groups(scenario("covertype-mini/cottonwood-v1")))
    ['all anomalies', 'known: cottonwood', 'unknown: douglas-fir']
    """
    anomalous: NDArray[np.bool_] = task.y_test > 0
    return {
        "all anomalies": anomalous,
        f"known: {_names(task, task.known)}": task.known_mask,
        f"unknown: {_names(task, task.unknown)}": task.unknown_mask,
    }


def areas(task: Task, counted: NDArray[np.bool_], scores: Scores) -> tuple[float, float]:
    """Return AUC-PR and AUC-ROC of some anomalies against the normal test rows; other anomalies are left out."""
    judged = counted | (task.y_test == 0)
    truth = counted[judged]
    return (
        float(average_precision_score(truth, scores[judged])),
        float(roc_auc_score(truth, scores[judged])),
    )


def _names(task: Task, numbers: tuple[int, ...]) -> str:
    return ", ".join(task.classes[number] for number in numbers)


def _introduce(console: Console, task: Task) -> None:
    labelled = int((task.y > 0).sum())
    console.print(
        f"Forest cover types, a cut of Covertype (CC BY 4.0, see src/dplan/data/README.md).\n"
        f"Training: {labelled} labelled anomalies ({_names(task, task.known)}) and {len(task.y) - labelled:,} "
        f"unlabelled rows, {task.contamination:.0%} of them hidden anomalies of all classes.\n"
        f"Test: {len(task.y_test):,} rows, of which {task.known_mask.sum()} are {_names(task, task.known)} "
        f"and {task.unknown_mask.sum()} are {_names(task, task.unknown)}, which no label ever showed.",
        soft_wrap=True,
    )


def _train(console: Console, task: Task, seed: int) -> DPLAN:
    columns = (
        TextColumn("[progress.description]{task.description}"),
        BarColumn(),
        TextColumn("episode {task.completed}/{task.total}  reward {task.fields[reward]:.0f}"),
        TimeElapsedColumn(),
    )
    detector = DPLAN(random_state=seed)
    with Progress(*columns, console=console) as progress:
        episodes = -(-detector.n_steps // detector.episode_steps)
        bar = progress.add_task("Training DPLAN", total=episodes, reward=0.0)

        def advance(_: Detector, figures: Mapping[str, float]) -> None:
            progress.update(bar, advance=1, reward=figures["reward"])

        detector.set_params(callback=advance).fit(task.X, task.y)
    return detector


def _judgement(task: Task, scores: Scores) -> Table:
    table = Table(title="How well the test anomalies rank")
    for heading in ("", "rows", "AUC-PR", "AUC-ROC"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, counted in groups(task).items():
        precision_recall, roc = areas(task, counted, scores)
        table.add_row(name, str(counted.sum()), f"{precision_recall:.3f}", f"{roc:.3f}")
    return table


def _top_rows(task: Task, scores: Scores) -> Table:
    shown = ("Elevation", "Slope", "Horizontal_Distance_To_Hydrology", "Horizontal_Distance_To_Roadways")
    table = Table(title="The ten most anomalous test rows")
    headings = ("rank", "score", "elevation", "slope", "to water", "to road", "what it is")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "what it is" else "right")
    order = np.argsort(-scores)[:10]
    values = task.features_test.select(shown)[order].rows()
    for rank, (row, cells) in enumerate(zip(order, values, strict=True), start=1):
        truth = task.classes[task.y_test[row]]
        table.add_row(str(rank), f"{scores[row]:.3f}", *(f"{cell:,}" for cell in cells), truth)
    return table


def _draw(picture: Path, task: Task, detector: DPLAN, scores: Scores) -> bool:
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return False
    from sklearn.metrics import precision_recall_curve

    colours = {"normal": "#9aa5b1", "known": "#d1495b", "unknown": "#edae49"}
    figure = Figure(figsize=(13, 4.2), layout="constrained")
    spread, curve, learning = figure.subplots(1, 3)
    parts = {
        "normal": (task.y_test == 0, "normal rows"),
        "known": (task.known_mask, f"{_names(task, task.known)} (60 labelled)"),
        "unknown": (task.unknown_mask, f"{_names(task, task.unknown)} (never labelled)"),
    }
    bins = np.linspace(scores.min(), scores.max(), 50)
    for kind, (counted, label) in parts.items():
        spread.hist(scores[counted], bins=bins, density=True, alpha=0.65, color=colours[kind], label=label)
    spread.set(title="Scores of held-out rows", xlabel="anomaly score Q(s, anomalous)", yticks=[])
    spread.set_ylabel("density per group")
    spread.legend(frameon=False)

    for (name, counted), colour in zip(
        groups(task).items(), ("black", *list(colours.values())[1:]), strict=True
    ):
        judged = counted | (task.y_test == 0)
        precision, recall, _ = precision_recall_curve(counted[judged], scores[judged])
        area = areas(task, counted, scores)[0]
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
    figure.savefig(picture, dpi=110)
    return True
