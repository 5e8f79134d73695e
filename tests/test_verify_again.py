"""`vr store check` making searches again, against an oracle that answers as the store says, or not quite."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cli_tree import SAMPLE
from valuerepair.chess.positions import Position
from valuerepair.oracles.oracle import Climb
from valuerepair.runs import check_store, same_oracle
from valuerepair.store.integrity import StoreCheck
from valuerepair.store.rows import DeepResult
from valuerepair.store.store import Store

ORACLE = 1


@dataclass
class Recalled:
    """An oracle that gives what the store has of a position, changed by `change`; with `climb`, as the real ones."""

    path: Path
    change: Callable[[DeepResult], DeepResult | None]
    digest: str = ""
    asked: list[str] = field(default_factory=list)
    rungs: list[list[int]] = field(default_factory=list)

    @property
    def identity(self) -> Any:
        return SimpleNamespace(digest=self.digest, label="recalled", sha256="f" * 64)

    def climb(self, position: Position, rungs: list[int], go: object) -> Future[Any]:
        self.rungs.append(rungs)
        found = self.submit(position).result()
        done: Future[Any] = Future()
        done.set_result(Climb((found,), whole=True) if found is not None else None)
        return done

    def submit(self, position: Position) -> Future[Any]:
        self.asked.append(position.fen)
        with closing(sqlite3.connect(self.path)) as connection:
            cp, mate, w, d, loss, best = connection.execute(
                "SELECT cp, mate, w, d, l, best_move FROM deep_values v JOIN positions p ON p.id = v.position_id "
                "WHERE oracle_id = ? AND stage = 'full' AND fen = ?",
                (ORACLE, position.fen),
            ).fetchone()
        done: Future[Any] = Future()
        wdl = None if w is None else (w, d, loss)
        done.set_result(self.change(DeepResult(cp, mate, wdl, None, 1, 1, 1, 1, best, ())))
        return done

    def close(self) -> None:
        return None


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = Path(shutil.copy(SAMPLE, tmp_path / "v.db"))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM deep_values WHERE stage NOT GLOB '[0-9]*' AND stage <> 'full' OR oracle_id > 1")
        connection.execute("DELETE FROM deep_values WHERE cp IS NULL OR abs(cp) > 300")
        connection.commit()
    return path


def again(
    db: Path,
    change: Callable[[DeepResult], DeepResult | None],
    patch: pytest.MonkeyPatch,
    *,
    seed: int = 0,
    other: str = "",
) -> tuple[StoreCheck, Recalled]:
    with Store.open(db, is_raw=True) as store:
        (digest,) = store.connection.execute("SELECT digest FROM oracles WHERE id = ?", (ORACLE,)).fetchone()
        oracle = Recalled(db, change, other or digest)
        patch.setattr(same_oracle, "open_oracle", lambda *given, **named: oracle)
        return check_store.deep_checks(store, 5, seed, {})[0], oracle


def test_equal_searches_are_right_and_go_by_the_rungs_they_went_by(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check, oracle = again(db, lambda result: result, monkeypatch)
    assert (check.checked, check.wrong, check.unchecked) == (5, 0, 0)
    assert "must be equal" in check.note
    assert oracle.rungs
    assert all(rungs == sorted(rungs) and rungs for rungs in oracle.rungs)


def test_what_a_ladder_cut_and_another_run_searched_is_searched_without_its_rungs(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So ``--screen off`` leaves it: the rungs' values are there, the whole search is no part of the ladder's."""
    with closing(sqlite3.connect(db)) as connection:
        connection.execute("DELETE FROM screened WHERE position_id % 2")
        connection.execute("UPDATE screened SET searched = 0, cut_at = 1000, chance = 0.01, probability = 0.1")
        connection.commit()
    check, oracle = again(db, lambda result: result, monkeypatch)
    assert (check.checked, check.wrong) == (5, 0)
    assert oracle.rungs == []


@pytest.mark.parametrize(("taken_over", "by_rungs"), [(True, True), (False, False)])
def test_second_looks_are_searched_as_they_were(
    db: Path, monkeypatch: pytest.MonkeyPatch, taken_over: bool, by_rungs: bool
) -> None:
    """Those taken over from a whole search by the rungs that it went by, if any; those that `vr confirm` made without,
    also where a ladder searched the same position by rungs later."""
    with closing(sqlite3.connect(db)) as connection:
        connection.execute("CREATE TEMP TABLE looks AS SELECT * FROM deep_values WHERE stage = 'full'")
        connection.execute("UPDATE looks SET stage = 'second'" + ("" if taken_over else ", cp = cp + 1"))
        connection.execute("INSERT INTO deep_values SELECT * FROM looks")
        connection.commit()
    with Store.open(db, is_raw=True) as store:
        (position,) = store.connection.execute(
            "SELECT min(position_id) FROM deep_values WHERE stage = 'second'"
        ).fetchone()
        _, _, rungs = check_store._stored(store, ORACLE, position, "second")
    assert bool(rungs) == by_rungs


@pytest.mark.parametrize(
    "change",
    [
        lambda result: replace(result, cp=result.cp + 1),
        lambda result: replace(result, best_move="a1a2"),
        lambda result: replace(result, wdl=(0, 999, 1)),
        lambda result: None,
    ],
    ids=["score", "move", "wdl", "no answer"],
)
def test_what_differs_at_all_is_wrong_of_searches_by_nodes(
    change: Callable[[DeepResult], DeepResult | None], db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check, _ = again(db, change, monkeypatch)
    assert (check.checked, check.wrong) == (5, 5)
    assert check.example


@pytest.mark.parametrize(("limits", "options"), [('{"movetime":100}', "{}"), ('{"nodes":9}', '{"Threads":"2"}')])
@pytest.mark.parametrize(("cp", "wrong"), [(20, 0), (5000, 5), (None, 5)])
def test_of_searches_that_do_not_repeat_themselves_only_what_is_far_off_is_wrong(
    limits: str, options: str, cp: int | None, wrong: int, db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(db)) as connection:
        connection.execute("UPDATE oracles SET limits = ?, options = ? WHERE id = 1", (limits, options))
        connection.execute("UPDATE deep_values SET cp = 10")
        connection.commit()
    check, _ = again(db, lambda result: None if cp is None else replace(result, cp=cp), monkeypatch)
    assert (check.checked, check.wrong) == (5, wrong)
    assert "not reproducible" in check.note


def test_another_engine_checks_nothing(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check, oracle = again(db, lambda result: None, monkeypatch, other="0" * 64)
    assert (check.checked, check.wrong, check.unchecked, oracle.asked) == (0, 0, 5, [])
    assert "what is here is another: recalled" in check.note


def test_another_seed_draws_another_sample_and_the_same_one_the_same(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, same, other = (again(db, lambda result: result, monkeypatch, seed=seed)[1].asked for seed in (0, 0, 1))
    assert first == same
    assert first != other
