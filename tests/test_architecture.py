"""The rooms' arrows: a room imports only from rooms below it, and nothing goes round in a circle."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import valuerepair

ROOT = Path(valuerepair.__file__).parent
PACKAGE = "valuerepair"

# From the ground up, each a module or a package directly below valuerepair/; rooms of one floor may use each other.
FLOORS = (
    {"command", "errors", "signals", "arrays", "version"},
    {"identity", "outputs"},
    {"text"},
    {"files", "cores", "inputs", "intervals"},
    {"chess"},
    {"question", "calibration"},
    {"archives", "nets"},
    {"mcts"},
    {"engines"},
    {"store"},
    {"oracles"},
    {"screening"},
    {"judge"},
    {"runs"},
    {"cluster"},
    {"books"},
    {"play"},
    {"training"},
    {"report"},
    {"pipeline"},
    {"api"},
    {"doctor", "selftest"},
    {"cli"},
)
# Arrows upward that still stand: "importing module -> room". This list only gets shorter.
STANDING: set[str] = set()
# Rooms whose __init__.py still holds more than a docstring, and the command line, which is what `vr` starts. As above.
STANDING_FRONTS = {"cli", "store"}
# What a command may import beside the public names: the ground, itself, and what is needed to declare options.
OF_COMMANDS = ("cli", "command", "errors", "outputs", "question", "signals", "version",
               "files.read_toml", "store.DEFAULT_PATH", "nets.options", "archives.options",
               "books.options", "report.figures", "training.options", "play.referee.parse_draw_rule")  # fmt: skip
# Commands that still do more than options -> one call of a public function -> print. This set only gets shorter.
NOT_YET_ONE_CALL = {"completion", "uci"}
Graph = Mapping[str, set[str]]


def floor_of(room: str) -> int:
    return next(number for number, rooms in enumerate(FLOORS) if room in rooms)


def room_of(module: str) -> str:
    """Of `valuerepair.store.file` it is `store`."""
    return module.split(".")[1]


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    """Every module of the package below valuerepair/__init__.py, by its dotted name."""
    modules = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        modules[".".join(parts).removesuffix(".__init__")] = ast.parse(path.read_text("utf-8"), str(path))
    assert len(modules) > 100
    # The first offers the names of all rooms, the second is `python -m valuerepair`.
    return {name: tree for name, tree in modules.items() if name not in (PACKAGE, f"{PACKAGE}.__main__")}


def statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """What is carried out when a module is loaded: what lies in functions is not, nor what only type checkers read."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If) and ast.unparse(statement.test).endswith("TYPE_CHECKING"):
            yield from statements(statement.orelse)
        elif not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            for inner in ast.iter_child_nodes(statement):
                if isinstance(inner, ast.stmt):
                    yield from statements([inner])
                elif isinstance(inner, ast.ExceptHandler):
                    yield from statements(inner.body)


def imported(nodes: Iterable[ast.AST], modules: Iterable[str]) -> Iterator[str]:
    """The modules of the package that these name."""
    module_names = set(modules)
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import at line {node.lineno}"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            # What is no module is a name within one.
            yield from (module_names & {name if name in module_names else str(node.module) for name in names})
        elif isinstance(node, ast.Import):
            yield from (module_names & {alias.name for alias in node.names})


def when_used(trees: Mapping[str, ast.Module]) -> Graph:
    """All that a module imports, also within its functions."""
    return {name: set(imported(ast.walk(tree), trees)) for name, tree in trees.items()}


def when_loaded(trees: Mapping[str, ast.Module]) -> Graph:
    """What a module imports as it is loaded itself, and the packages that are loaded on the way there."""
    graph = {name: set(imported(statements(tree.body), trees)) for name, tree in trees.items()}
    for name, others in graph.items():
        packages = {other.rpartition(".")[0] for other in others} & set(trees)
        # Its own package is being loaded already.
        others |= {package for package in packages if not f"{name}.".startswith(f"{package}.")}
    return graph


def upward(graph: Graph) -> set[str]:
    """Arrows to a room that stands above."""
    return {
        f"{name.removeprefix(f'{PACKAGE}.')} -> {room_of(other)}"
        for name, others in graph.items()
        for other in others
        if floor_of(room_of(other)) > floor_of(room_of(name))
    }


def between_rooms(graph: Graph) -> Graph:
    rooms: dict[str, set[str]] = {room_of(name): set() for name in graph}
    for name, others in graph.items():
        rooms[room_of(name)] |= {room_of(other) for other in others} - {room_of(name)}
    return rooms


def beside_the_front(tree: ast.Module) -> set[str]:
    """What a command imports of the rooms, beside public names and `OF_COMMANDS`."""
    names = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    inner = {name.removeprefix(f"{PACKAGE}.") for name in names if name.startswith(f"{PACKAGE}.")}
    return {
        name
        for name in inner
        if name not in valuerepair.__all__ and not any(f"{name}.".startswith(f"{room}.") for room in OF_COMMANDS)
    }


def circles(graph: Graph) -> set[frozenset[str]]:
    """Groups of those that lead to each other."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        ahead = [start]
        while ahead:
            new = graph[ahead.pop()] - seen
            seen |= new
            ahead += new
        return seen

    ends = {name: reached(name) for name in graph}
    return {frozenset(other for other in ends[name] if name in ends[other]) for name in graph if name in ends[name]}


def test_every_file_lies_in_a_known_room(trees: dict[str, ast.Module]) -> None:
    assert {room_of(name) for name in trees} <= set().union(*FLOORS)


def test_rooms_import_only_from_rooms_below(trees: dict[str, ast.Module]) -> None:
    imports = upward(when_used(trees))
    new, gone = sorted(imports - STANDING), sorted(STANDING - imports)
    assert not new, "import upward:\n" + "\n".join(new)
    assert not gone, "no longer there, take them out of STANDING:\n" + "\n".join(gone)


def test_rooms_of_one_floor_use_each_other_in_one_direction(trees: dict[str, ast.Module]) -> None:
    rooms = between_rooms(when_used(trees))
    for floor in FLOORS:
        assert not circles({room: rooms[room] & floor for room in rooms if room in floor})


def test_no_modules_import_each_other_when_loaded(trees: dict[str, ast.Module]) -> None:
    assert not circles(when_loaded(trees))


def test_the_front_of_a_room_is_a_docstring(trees: dict[str, ast.Module]) -> None:
    """A name is imported from the module that defines it."""
    fronts = [name for name in trees if (ROOT.parent / name.replace(".", "/") / "__init__.py").exists()]
    assert len(fronts) > 10
    full = {name for name in fronts if len(trees[name].body) > 1 or ast.get_docstring(trees[name]) is None}
    assert {room_of(name) for name in full} == STANDING_FRONTS


def test_a_command_is_one_call_of_a_public_function(trees: dict[str, ast.Module]) -> None:
    """The command line can do nothing that Python cannot: it imports public names, and what declares options."""
    commands = {name: tree for name, tree in trees.items() if name.startswith(f"{PACKAGE}.cli.")}
    assert len(commands) > 30
    more = {name.rpartition(".")[2]: rooms for name, tree in commands.items() if (rooms := beside_the_front(tree))}
    new, gone = {name: more[name] for name in more.keys() - NOT_YET_ONE_CALL}, NOT_YET_ONE_CALL - more.keys()
    assert not new, f"imports of the rooms: {new}"
    assert not gone, f"one call now, take them out of NOT_YET_ONE_CALL: {sorted(gone)}"


def test_an_import_beside_the_front_is_found_out() -> None:
    text = "import valuerepair as vr\nfrom valuerepair import outputs, train\nfrom valuerepair.cli.options import DB\n"
    text += "from valuerepair.store import DEFAULT_PATH\ndef run():\n    from valuerepair.store.store import Store\n"
    text += "    from valuerepair import runs\n    import valuerepair.question_marks\n"
    assert beside_the_front(ast.parse(text)) == {"store.store.Store", "runs", "question_marks"}


def test_a_class_name_has_one_meaning(trees: dict[str, ast.Module]) -> None:
    """Private classes included: `_Job` beside `Job` would be two meanings of a word."""
    classes = [node.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    assert len(classes) > 300
    words = Counter(name.lstrip("_") for name in classes)
    assert [word for word, count in words.items() if count > 1] == []


def test_the_name_of_an_array_type_has_one_meaning(trees: dict[str, ast.Module]) -> None:
    text = "\n".join(ast.unparse(tree) for tree in trees.values())
    names = Counter(re.findall(r"^(\w+) = NDArray\[", text, re.MULTILINE))
    assert len(names) > 10
    assert [name for name, count in names.items() if count > 1] == []


def test_an_arrow_upward_and_a_circle_are_found_out() -> None:
    texts = {
        "store": "",
        "store.file": "def read():\n    from valuerepair.play.match import Match",
        "play.match": "from valuerepair.store import file\ntry:\n    import valuerepair.play.elo\nexcept E:\n    ...",
        "play.elo": "if TYPE_CHECKING:\n    import valuerepair.cli\nelse:\n    import valuerepair.play.match",
        "cli": "def main(): ...",
    }
    trees = {f"{PACKAGE}.{name}": ast.parse(text) for name, text in texts.items()}
    assert upward(when_used(trees)) == {"store.file -> play", "play.elo -> cli"}
    assert circles(between_rooms(when_used(trees))) == {frozenset({"store", "play"})}
    assert circles(when_loaded(trees)) == {frozenset({"valuerepair.play.match", "valuerepair.play.elo"})}


def test_the_package_imports_neither_its_tests_nor_its_benchmarks() -> None:
    outside = re.compile(r"^\s*(from|import) (tests|benchmarks)\b", re.MULTILINE)
    assert not [path for path in ROOT.rglob("*.py") if outside.search(path.read_text("utf-8"))]


# The only imports under another name: what everybody writes so, and what a module cannot do without.
ALIASES = {
    "numpy as np", "pandas as pd", "pyarrow as pa", "pyarrow.parquet as pq", "jax.numpy as jnp", "valuerepair as vr",
    "matplotlib.pyplot as plt",
    "collections.abc.Set as AbstractSet",
    "tomli as tomllib",  # before Python 3.11
    "rust_pgn_reader_python_binding as rust", "valuerepair.nets.onnx_model as om",
    "valuerepair.chess.make.insufficient_material as is_dead",  # the kernel of the function of that name
}  # fmt: skip


def aliases(tree: ast.Module) -> set[str]:
    """What a module imports under another name."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            home = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            names |= {f"{home}{alias.name} as {alias.asname}" for alias in node.names if alias.asname}
    return names


def test_what_is_imported_keeps_its_name(trees: dict[str, ast.Module]) -> None:
    names = aliases(ast.parse("import numpy as np\ndef read():\n    from valuerepair.report import stats as text_of"))
    assert names == {"numpy as np", "valuerepair.report.stats as text_of"}
    assert {name: extra for name, tree in trees.items() if (extra := aliases(tree) - ALIASES)} == {}


# Names with a dot in docstrings that are not this package's.
FOREIGN = {"chess/v6.py: np.unpackbits",
           "report/figures.py: figure.savefig", "archives/sampling.py: report.truncated"}  # fmt: skip


@cache
def defined_in(path: Path) -> set[str]:
    """What a file defines: functions, classes, methods, names and attributes that are assigned."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.id if isinstance(node, ast.Name) else node.attr)
    return names


@cache
def paths_by_name() -> dict[str, Path]:
    """The files of the package, by their names below it with dots."""
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in ROOT.rglob("*.py")}


def unresolved(text: str) -> list[str]:
    """The `module.name` in backticks of a text that no module of the package has."""
    wrong = []
    for name in re.findall(r"`((?:valuerepair\.)?[a-z]\w*(?:\.[A-Za-z_]\w*)+)`", text):
        parts = name.removeprefix("valuerepair.").split(".")
        ends = [".".join(parts[:k]) for k in range(len(parts), 0, -1)]
        places = [(end, path) for end in ends for key, path in paths_by_name().items() if f".{key}".endswith(f".{end}")]
        rest = {end: parts[end.count(".") + 1 :] for end in ends}
        public = name.startswith("valuerepair.") and len(parts) == 1 and parts[0] in valuerepair.__all__
        if not public and not any(not rest[end] or rest[end][0] in defined_in(path) for end, path in places):
            wrong.append(name)
    return wrong


def test_modules_that_docstrings_name_are_there() -> None:
    assert unresolved("`candidates.weights`, `judge.weights`, `judge.weights.nothing`, `nets.net.Net.evaluate`") == [
        "candidates.weights",
        "judge.weights.nothing",
    ]
    wrong = {
        f"{path.relative_to(ROOT).as_posix()}: {name}"
        for path in ROOT.rglob("*.py")
        for name in unresolved(path.read_text("utf-8"))
        if name.rpartition(".")[2] not in {"py", "md", "h", "cc", "json", "pgn", "epd", "toml", "db"}
    }
    assert wrong == FOREIGN
