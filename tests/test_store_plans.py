"""The plans of a store's queries: no look at all rows of a large table where an index or the key serves, no large sort.

Asked of the planner (``EXPLAIN QUERY PLAN``) for the statements that the commands really give to SQLite, recorded while
they run: a query that is added or changed is checked without being named here.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from valuerepair.books.options import BookOptions
from valuerepair.books.write import write_books
from valuerepair.question import Question
from valuerepair.report import figures
from valuerepair.report import page as page_module
from valuerepair.report import stats as stats_module
from valuerepair.report.stats import store_figures
from valuerepair.store import columns, queries, screening, selection
from valuerepair.store.queries import one_position, played_from
from valuerepair.store.rows import value_condition
from valuerepair.store.store import Store

SAMPLE = Path(__file__).parents[1] / "data" / "sample.db"
THRESHOLD = 0.35
# Tables of a row a position, or more.
LARGE = frozenset({"positions", "net_values", "deep_values", "screened", "priors", "failures", "games"})
# A walk over a whole table that is the question itself: its rows are all asked for, in the order of its key.
WHOLE = {
    "positions": (columns.POSITION_ROWS, columns.KIND_ROWS, "count(*) FROM positions", "FROM positions p JOIN games g"),
    "games": (columns.GAMES, "count(*) FROM games"),
}
Work = Callable[[Store, Path], object]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that all commands find something in."""
    copied = tmp_path_factory.mktemp("plans") / "store.db"
    shutil.copy(SAMPLE, copied)
    Store.open(copied, write=True).close()  # brings it to the present version
    return copied


def stats(store: Store, folder: Path) -> object:
    stored = store_figures(store, Question(threshold=THRESHOLD))
    return stored, stats_module.sections(store, store.candidates(Question(threshold=THRESHOLD)), THRESHOLD)


def books(store: Store, folder: Path) -> object:
    return write_books(store, folder / "book", Question(threshold=THRESHOLD), BookOptions(confirmed=True))


def plots(store: Store, folder: Path) -> object:
    return [figures.draw(kind, store, Question(threshold=THRESHOLD)) for kind in ("scatter", "rates", "results")]


def page(store: Store, folder: Path) -> object:
    return page_module.write(store, folder / "report.html", Question(threshold=THRESHOLD))


def show(store: Store, folder: Path) -> object:
    net_id, oracle_id = store.pick()
    return one_position(store, 3, net_id, oracle_id), played_from(store, 3)


def export(store: Store, folder: Path) -> object:
    return store.frame()


def expanded(store: Store, folder: Path) -> object:
    question = Question(threshold=THRESHOLD, expanded="all")
    return store.frame(question), store.candidates(question)


def cut(store: Store, folder: Path) -> object:
    return store.frame(Question(threshold=THRESHOLD), cut=True)


WORKS: dict[str, Work] = {
    "stats": stats, "books": books, "plots": plots, "report": page, "show": show, "export": export,
    "expanded": expanded, "cut": cut,
}  # fmt: skip


@cache
def statements(path: Path, name: str) -> list[str]:
    """What this one of `WORKS` asks the store, with its parameters filled in, each statement once."""
    texts: dict[str, None] = {}
    with Store.open(path) as store, TemporaryDirectory() as folder:
        store.connection.set_trace_callback(lambda text: texts.setdefault(text))
        WORKS[name](store, Path(folder))
        store.connection.set_trace_callback(None)
    return [text for text in texts if text.lstrip().upper().startswith(("SELECT", "WITH"))]


def steps(connection: sqlite3.Connection, statement: str) -> Iterator[str]:
    """The steps of the plan, tables by their own names."""
    aliases = {alias: table for table, alias in re.findall(r"\b(?:FROM|JOIN)\s+(\w+)\s+(?:AS\s+)?(\w)\b", statement)}
    for *_, detail in connection.execute(f"EXPLAIN QUERY PLAN {statement}"):
        yield re.sub(r"^(SCAN|SEARCH) (\w+)", lambda m: f"{m[1]} {aliases.get(m[2], m[2])}", detail)


def faults(connection: sqlite3.Connection, statement: str) -> list[str]:
    """Steps that look at all rows of a large table for no reason, and sorts of such rows."""
    plain = " ".join(statement.split())
    bad_steps = []
    for step in steps(connection, statement):
        table = re.match(r"SCAN (\w+)", step)
        if (
            table
            and table[1] in LARGE
            and not any(" ".join(pattern.split()) in plain for pattern in WHOLE.get(table[1], ()))
        ):
            bad_steps.append(step)
        # Of the names of archives, and of rows found one by one through a list, there are few.
        few = (
            "DISTINCT source" in plain or "json_each" in plain or "GROUP BY g.source" in plain or "FROM plays" in plain
        )
        # Values of three stages, of one oracle, are brought into one order: only where positions of vr expand are asked
        # for, and of the stages each comes in that order by its key.
        few = few or "v.stage = CASE WHEN EXISTS" in plain
        if "TEMP B-TREE" in step and not few:
            bad_steps.append(step)
    return bad_steps


@pytest.mark.parametrize("name", WORKS)
@pytest.mark.slow
def test_no_command_looks_at_more_than_it_must(name: str, path: Path) -> None:
    texts = statements(path, name)
    assert len(texts) > 3
    with Store.open(path) as store:
        bad = {text: bad_steps for text in texts if (bad_steps := faults(store.connection, text))}
    assert bad == {}


def test_the_constants_of_the_modules_are_what_runs(path: Path) -> None:
    texts = [" ".join(text.split()) for name in ("stats", "plots") for text in statements(path, name)]
    deep = columns.DEEP_ROWS.format(counts=value_condition("no", "v.position_id"))
    of_columns = (columns.NET_ROWS, deep, selection.OF_LADDER, columns.POSITION_ROWS, columns.GAMES, columns.WORD_ROWS)
    for constant in (*of_columns, screening.PASSAGES, screening.SINCE, columns.STAGES, queries.SCORED):
        pattern = re.escape(" ".join(constant.split()))
        pattern = re.sub(r":\w+|\\\?", "('[^']*'|[0-9]+)", pattern)
        assert any(re.search(pattern, text) for text in texts), constant


def test_positions_of_no_game_are_read_from_their_own_index(path: Path) -> None:
    with Store.open(path) as store:
        walk = ["SCAN positions USING COVERING INDEX positions_beside"]
        assert list(steps(store.connection, columns.KIND_ROWS)) == walk


def test_words_come_from_their_index(path: Path) -> None:
    with Store.open(path) as store:
        plan = list(steps(store.connection, columns.WORD_ROWS.replace(":phase", "'endgame'").replace(":side", "'w'")))
    assert plan == ["SEARCH positions USING COVERING INDEX positions_by_phase (phase=? AND side=?)"]
