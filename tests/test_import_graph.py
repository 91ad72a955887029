"""Imports point downwards: no room of the package knows a room above it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import dplan

PACKAGE = Path(dplan.__file__).parent

# From the ground floor up. A module may import its own room and the floors below it; rooms on one floor do not know
# each other.
FLOORS = (
    {"_version", "arrays", "estimators", "text"},
    {"exceptions"},
    {"_kernels", "_html", "persistence"},
    {"agent"},
    {"detectors"},
    {"metrics", "gym", "explain", "likeness"},
    {"query"},
    {"columns"},
    {"tables"},
    {"rules"},
    {"datasets"},
    {"scoring"},
    {"kinds"},
    {"web"},
    {"mlflow", "notebook", "report", "review", "serving", "spark"},
    {"plot"},
    {"cli"},
)
# Ways up, each for one call: people look for it among the methods of a model, and it is loaded when it is called.
DOORS = {
    "tables.interface": {"kinds", "kinds.finding", "notebook.alerts", "notebook.summary"},
    "kinds.finding": {"notebook.kinds"},
}
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(part for part in parts if part != "__init__")] = path
    return found


MODULES = modules()


def imported(path: Path) -> Iterator[str]:
    """Yield what a module imports of this package, wherever in the module the import stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name.split(".")[0] == "dplan":
                yield module_of(name.removeprefix("dplan").removeprefix("."))


def module_of(name: str) -> str:
    """Return the module that holds a name: the longest beginning that is one."""
    while name not in MODULES:
        name = name.rpartition(".")[0]
    return name


GRAPH = {name: sorted(set(imported(path)) - DOORS.get(name, set())) for name, path in MODULES.items()}


def test_a_way_up_is_taken_inside_a_function():
    for name, above in DOORS.items():
        assert above <= set(imported(MODULES[name])), "not used any more"
        tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
        at_once = [node.module for node in tree.body if isinstance(node, ast.ImportFrom)]
        assert not above & {module_of(str(module).removeprefix("dplan.")) for module in at_once}


def test_every_room_has_a_floor():
    rooms = {name.split(".")[0] for name in MODULES} - {"", "__main__"}
    assert rooms <= set(FLOOR)


@pytest.mark.parametrize("name", [name for name in MODULES if name not in ("", "__main__")])
def test_imports_point_downwards(name):
    room = name.split(".")[0]
    for other in GRAPH[name]:
        other_room = other.split(".")[0]
        assert other, f"{name} imports from the package's front door; name the module instead"
        assert room == other_room or FLOOR[other_room] < FLOOR[room], (
            f"{name} imports {other}, which is not below it"
        )


def test_no_module_imports_itself_by_a_detour():
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join((*path[path.index(name) :], name))
        if name not in done:
            for other in GRAPH[name]:
                visit(other, (*path, name))
            done.add(name)

    for name in MODULES:
        visit(name, ())


@pytest.mark.parametrize("start", ["tables.input", "datasets"])
def test_data_know_no_detector(start):
    waiting = [name for name in MODULES if name == start or name.startswith(f"{start}.")]
    reached: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += GRAPH[name]
    assert not [name for name in reached if name.split(".")[0] in ("detectors", "agent", "explain")]


@pytest.mark.parametrize("name", MODULES)
def test_the_package_does_not_know_the_experiments(name):
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
    found = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    found |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not [module for module in found if module.split(".")[0] == "experiments"]
