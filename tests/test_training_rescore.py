"""`vr chunks` of training chunks: the judge's values in chunks that exist, as lc0's rescorer needs them."""

from __future__ import annotations

import gzip
import shutil
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest
from numpy.typing import NDArray

import valuerepair as vr
from tests.chunk_games import ENDING, ENDING_START, GAME, tar_of
from tests.cli_tree import vr as command
from tests.held_out import hold_out, part_of, split
from tests.lc0_rescorer import check_valid, taken
from tests.v6_records import positions_of, read_chunk, records_of, write_chunk
from valuerepair.archives.options import SampleOptions
from valuerepair.chess import v6
from valuerepair.errors import ValueRepairError
from valuerepair.store.store import Store
from valuerepair.training.chunk_files import read_index
from valuerepair.training.judged import held_out_keys
from valuerepair.training.rescore import Rescored, put_values

FORMATS = (1, 2, 3, 4, 5, 132, 133)
GAMES = ((GAME, chess.STARTING_FEN), (ENDING, ENDING_START))


def values_of(n: int, seed: int) -> dict[str, Any]:
    """Values that lc0 could have written: the net's and the search's, and the result of a game that White won."""
    rng = np.random.default_rng(seed)
    q, d = rng.uniform(-0.9, 0.9, (4, n)), rng.uniform(0, 0.1, (4, n))
    values = {f"{name}_{w}": v[i] for i, name in enumerate(("orig", "root", "best")) for w, v in (("q", q), ("d", d))}
    values |= {"played_q": values["best_q"], "played_d": values["best_d"]}
    values |= {"result_q": np.where(np.arange(n) % 2, -1.0, 1.0), "plies_left": np.arange(n, 0, -1), "policy_kld": 0.1}
    return {name: np.asarray(value, np.float32) for name, value in values.items()}


@cache
def without_values(number: int, input_format: int) -> NDArray[np.void]:
    moves, start = GAMES[number]
    return records_of(positions_of(moves, start), moves, input_format)


def game(number: int, input_format: int, seed: int, **more: Any) -> NDArray[np.void]:
    records: NDArray[np.void] = without_values(number, input_format).copy()
    for name, value in (values_of(len(records), seed) | more).items():
        records[name] = value
    return records


def chunks_in(folder: Path, input_format: int, seed: int) -> Path:
    """A folder of two games."""
    folder.mkdir(parents=True)
    for number in range(len(GAMES)):
        write_chunk(folder / f"game_{number:06d}.gz", game(number, input_format, seed + number))
    return folder


def mined(chunks: Path, store: Path, per_game: int | None = None) -> Path:
    """A store whose judge is the search that the chunks recorded, and of which nothing is held out."""
    vr.mine(chunks, store, SampleOptions(per_game=per_game, min_ply=0), deep="recorded")
    return hold_out(store, split())


def rescored(chunks: Path, store: Path, out: Path, **options: Any) -> Rescored:
    written = vr.write_chunks(chunks, out, store=store, **options)
    assert isinstance(written, Rescored)
    return written


@pytest.mark.parametrize("input_format", FORMATS)
def test_values_mined_from_one_format_go_into_any_other(input_format: int, tmp_path: Path) -> None:
    """The store has what format 1 recorded; the same games in another format get it, each record from its mover."""
    store = mined(chunks_in(tmp_path / "judged", 1, 7), tmp_path / "store.db")
    target = chunks_in(tmp_path / "target", input_format, 70)
    summary = rescored(target, store, tmp_path / "out")
    assert summary.changed_chunks == summary.chunks == 2
    assert summary.changed_records == summary.records == len(GAME) + len(ENDING)
    assert summary.positions == summary.records
    for number in range(2):
        wanted = game(number, 1, 7 + number)
        old, new = (read_chunk(folder / f"game_{number:06d}.gz") for folder in (target, tmp_path / "out"))
        check_valid(new)
        np.testing.assert_allclose(new["best_q"], wanted["best_q"], atol=1e-6)
        np.testing.assert_array_equal(new["best_q"], new["root_q"])
        np.testing.assert_array_equal(new["best_q"], new["played_q"])
        # The draws are the net's own, that of the store, as far as Q leaves room for them.
        room = 1 - np.abs(wanted["best_q"])
        np.testing.assert_allclose(new["best_d"], np.minimum(wanted["orig_d"], room), atol=1e-6)
        for name in v6.RECORD.names or ():
            if name not in ("best_q", "best_d", "root_q", "root_d", "played_q", "played_d"):
                np.testing.assert_array_equal(new[name], old[name], name)


@pytest.mark.parametrize("input_format", FORMATS)
def test_lc0s_rescorer_takes_it(input_format: int, tmp_path: Path) -> None:
    chunks = chunks_in(tmp_path / "chunks", input_format, 5)
    store = mined(chunks_in(tmp_path / "judged", 1, 50), tmp_path / "store.db", per_game=20)
    for result in ("game", "judge"):
        assert rescored(chunks, store, tmp_path / result, result=result).changed_records == 38
        for path in (tmp_path / result).glob("*.gz"):
            check_valid(read_chunk(path))
    for result in ("game", "judge"):
        assert taken(tmp_path / result, tmp_path / f"{result}-by-lc0") == 2


def test_other_records_and_other_chunks_stay_to_the_byte(tmp_path: Path) -> None:
    store = mined(write_chunk(tmp_path / "game_000009.gz", game(0, 1, 3)), tmp_path / "store.db", per_game=4)
    chunks = chunks_in(tmp_path / "chunks", 1, 40)
    summary = rescored(chunks, store, tmp_path / "out")
    assert (summary.changed_chunks, summary.changed_records) == (1, 4)
    first, second = "game_000000.gz", "game_000001.gz"
    assert (chunks / second).read_bytes() == (tmp_path / "out" / second).read_bytes()
    assert (chunks / second).stat().st_mtime_ns == (tmp_path / "out" / second).stat().st_mtime_ns
    old, new = read_chunk(chunks / first), read_chunk(tmp_path / "out" / first)
    same = old.view(np.uint8).reshape(len(old), -1) == new.view(np.uint8).reshape(len(new), -1)
    assert (~same.all(1)).sum() == 4
    change = np.abs(new["best_q"] - old["best_q"])
    assert summary.mean_change["q"] == pytest.approx(change[~same.all(1)].mean(), rel=1e-5)
    assert f"4 of {summary.records} records of 1 of 2 chunks" in summary.lines()[0]


@pytest.mark.parametrize("field", ["best_q", "result_q"])
def test_an_infinite_value_that_would_be_replaced_is_named(field: str, tmp_path: Path) -> None:
    """The mean change was infinite, and no JSON."""
    chunks = chunks_in(tmp_path / "chunks", 1, 1)
    store = mined(chunks, tmp_path / "a.db")
    path = min(chunks.glob("*.gz"))
    records = read_chunk(path).copy()
    records[field] = np.inf
    path.write_bytes(gzip.compress(records.tobytes(), mtime=0))
    with pytest.raises(ValueRepairError, match=rf"{path.name}: record 1 of {len(records)}: {field} is inf"):
        rescored(chunks, store, tmp_path / "out", result="judge")
    assert not (tmp_path / "out").exists()


def test_results_are_sampled_with_the_judges_chances(tmp_path: Path) -> None:
    """Over many chunks of the same game the mean result of a record is the judge's value of it."""
    (tmp_path / "chunks").mkdir()
    for number in range(200):
        write_chunk(tmp_path / "chunks" / f"game_{number:06d}.gz", game(0, 1, 1000 + number))
    store = mined(write_chunk(tmp_path / "judged.gz", game(0, 1, 50)), tmp_path / "store.db", per_game=90)
    summary = rescored(tmp_path / "chunks", store, tmp_path / "out", result="judge")
    judged = game(0, 1, 50)
    new = np.stack([read_chunk(path) for path in sorted((tmp_path / "out").glob("*.gz"))])
    assert summary.changed_records == new.size
    assert np.isin(new["result_q"], (-1, 0, 1)).all()
    np.testing.assert_array_equal(new["result_d"], new["result_q"] == 0)
    # Each of the means is off by a tenth at most in about 95 of 100 cases, their mean by far less.
    off = new["result_q"].mean(0) - judged["best_q"]
    assert np.abs(off).max() < 0.25
    assert abs(off.mean()) < 0.05


def test_what_a_deblunder_makes_of_the_move_played_stays_as_it_was() -> None:
    records = game(0, 1, 1)
    records["best_q"], records["played_q"], records["played_d"] = 0.2, 0.2, 0.3
    records["played_q"][1:4], records["played_idx"][1:4] = (-0.1, -1.0, 0.1), 0
    wdl = np.tile(np.array([[0.05, 0.1, 0.85]], np.float32), (len(records), 1))
    put_values(records, np.arange(len(records)), wdl, np.zeros(len(records)), "game")
    np.testing.assert_allclose(records["best_q"], -0.8, atol=1e-6)
    np.testing.assert_allclose(records["played_q"][[0, 3, 4]], [-0.8, -0.9, -0.8], atol=1e-6)
    # No mate where there was none, and one where there was.
    assert -1 < records["played_q"][1] < -0.99
    assert records["played_q"][2] == -1
    # As likely a draw as before, as far as Q leaves room.
    np.testing.assert_allclose(records["played_d"][[0, 1, 2, 3]], [0.1, 1 + records["played_q"][1], 0, 0.1], atol=1e-6)


def test_a_proven_win_or_loss_stays() -> None:
    """The judge's centipawns are less than a proof; of a draw, which can be a repetition, the judge's value is put."""
    records = game(0, 1, 1)
    records["invariance_info"][:4] |= v6.BEST_PROVEN
    for name in ("best", "root", "played"):
        records[f"{name}_q"][:4], records[f"{name}_d"][:4] = [1, -1, 0, 0.4], [0, 0, 1, 0.2]
    before = records.copy()
    wdl = np.tile(np.array([[0.8, 0.1, 0.1]], np.float32), (len(records), 1))
    put_values(records, np.arange(len(records)), wdl, np.zeros(len(records)), "game")
    np.testing.assert_array_equal(records[:2], before[:2])
    np.testing.assert_allclose(records["best_q"][2:], 0.7, atol=1e-6)
    assert not (records["invariance_info"][2:] & v6.BEST_PROVEN).any()
    check_valid(records)


SHUFFLE = ["g1f3", "g8f6", "f3g1", "f6g8", "g1f3", "g8f6", "e2e4"]


def test_a_repeated_position_is_another_one(tmp_path: Path) -> None:
    """After the shuffle the initial position occurs again: its value was judged without."""
    positions = positions_of(SHUFFLE)
    records = records_of(positions, SHUFFLE, **values_of(len(SHUFFLE), 2))
    judged = write_chunk(tmp_path / "game_000000.gz", records[:2])
    store = mined(judged, tmp_path / "store.db")
    chunks = tmp_path / "chunks"
    chunks.mkdir()
    write_chunk(chunks / "game_000000.gz", records)
    summary = rescored(chunks, store, tmp_path / "out")
    assert (summary.changed_records, summary.otherwise) == (2, 2)


@pytest.mark.parametrize(("clock", "taken"), [(3, 1), (20, 1), (21, 0), (90, 0)])
def test_a_clock_that_is_near_the_fifty_moves_is_told_apart(clock: int, taken: int, tmp_path: Path) -> None:
    fen = "8/5k2/8/8/3R4/8/2K5/8 w - - {} 60"
    one, other = (records_of(positions_of(["d4d5"], fen.format(n)), ["d4d5"], **values_of(1, n)) for n in (3, clock))
    store = mined(write_chunk(tmp_path / "game_000000.gz", one), tmp_path / "store.db")
    chunk = write_chunk(tmp_path / "game_000001.gz", other)
    assert rescored(chunk, store, tmp_path / "out").changed_records == taken


def test_tars_folders_and_what_is_broken(tmp_path: Path) -> None:
    chunks = chunks_in(tmp_path / "data" / "deep" / "er", 1, 3)
    packed = {path.name: path.read_bytes() for path in sorted(chunks.iterdir())}
    long = "x" * 120 + "/training.7.gz"
    tar_of(tmp_path / "data" / "a.tar", {**packed, "game_000002.gz": b"\x1f\x8bno", long: packed["game_000001.gz"]})
    (tmp_path / "data" / "deep" / "game_000005.gz").write_bytes(packed["game_000000.gz"][:500])
    store = mined(chunks, tmp_path / "store.db", per_game=1)
    summary = rescored(tmp_path / "data", store, tmp_path / "out")
    assert (summary.chunks, summary.changed_chunks) == (5, 5)
    assert summary.left_out == {"damaged gzip stream": 1, "cut off": 1}
    files = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert files == {"a.tar", "deep/er/game_000000.gz", "deep/er/game_000001.gz"}
    with tarfile.open(tmp_path / "out" / "a.tar") as tar:
        names = tar.getnames()
    assert names[:2] == ["game_000000.gz", "game_000001.gz"]
    assert len(names[2]) == 100
    assert long.endswith(names[2])


def test_a_game_that_is_held_out_is_not_written(tmp_path: Path) -> None:
    chunks = chunks_in(tmp_path / "chunks", 1, 3)
    store = mined(chunks, tmp_path / "store.db")
    for seed in range(50):
        hold_out(store, split(games=0.5, seed=seed))
        parts = part_of(store)
        if parts[ENDING_START.rsplit(" ", 2)[0]] == "train" != parts[chess.STARTING_FEN.rsplit(" ", 2)[0]]:
            break
    summary = rescored(chunks, store, tmp_path / "out")
    assert summary.changed_records == [*parts.values()].count("train") == len(ENDING)
    assert (summary.chunks, summary.held_out) == (1, 1)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["game_000001.gz"]
    assert "left out: 1 chunk held out by the split" in summary.lines()
    with Store.open(store) as opened:
        keys = held_out_keys(opened)
    assert read_index([str(chunks)], held_out=keys).left_out.reasons == {"with a held-out position": 1}
    assert read_index([str(tmp_path / "out")], held_out=keys).games == 1


def test_commands_fail_after_what_came_before_the_end_of_a_cut_tar(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    chunks = chunks_in(tmp_path / "chunks", 1, 3)
    store = mined(chunks, tmp_path / "store.db")
    cut = tar_of(tmp_path / "all.tar", {path.name: path.read_bytes() for path in sorted(chunks.iterdir())})
    with tarfile.open(cut) as tar:
        second = tar.getmembers()[1].offset_data
    cut.write_bytes(cut.read_bytes()[: second + 100])
    for words in (
        f"chunks {cut} --db {store} -o {tmp_path / 'rescored'}",
        f"mix --repair {chunks} --normal {cut} --share 0.5 -o {tmp_path / 'mixture'}",
    ):
        code, _, error = command([*words.split(), "-q"], capfd)
        assert code == 1, error
        assert f"{cut}: the tar archive breaks off at byte " in error
    assert len(list((tmp_path / "mixture").glob("*.tar"))) == 1


def test_command_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    chunks = chunks_in(tmp_path / "chunks", 1, 3)
    store, out = mined(chunks, tmp_path / "store.db", per_game=2), tmp_path / "out"
    whole = len(GAME) + len(ENDING)
    code, printed, _ = command(f"chunks {chunks} --db {store} -o {out}".split(), capfd)
    assert code == 0
    assert f"4 of {whole} records of 2 of 2 chunks have the judge's value; mean |change| of q 0.0000" in printed
    code, _, error = command(f"chunks {chunks} --db {store} -o {out}".split(), capfd)
    assert code == 2
    assert str(out) in error
    more = shutil.copytree(chunks, tmp_path / "more")
    code, _, error = command(f"chunks {chunks} {more} --db {store} -o {tmp_path / 'none'}".split(), capfd)
    assert code == 2
    assert "game_000000.gz" in error
    assert not (tmp_path / "none").exists()
