"""Mixtures: the share by games and by positions, the same bytes for the same seed, and what cannot be mixed."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.chunk_games import records_in, tar_of
from tests.cli_tree import vr
from valuerepair.chess import v6
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.training import mix as mixing
from valuerepair.training.chunk_files import Archives, BrokenChunk, ChunkIndex, LeftOut, pack, unpack
from valuerepair.training.chunk_output import UNFINISHED
from valuerepair.training.mix import Mixture, choose, mix, tolerance


def records(n: int, seed: int, input_format: int = 1) -> NDArray[np.void]:
    """n records that no game has, but whose layout is right."""
    made = np.zeros(n, v6.RECORD)
    made["version"], made["input_format"] = 6, input_format
    made["visits"], made["plies_left"] = seed, np.arange(n, 0, -1)
    return made


def folder_of(path: Path, lengths: list[int], seed: int = 0, input_format: int = 1) -> str:
    """Loose chunks of so many records."""
    path.mkdir(parents=True)
    for i, n in enumerate(lengths):
        (path / f"game_{i:06d}.gz").write_bytes(pack(records(n, seed + i, input_format)))
    return str(path)


class Sides(NamedTuple):
    """Folders to mix."""

    repair: tuple[str, ...]
    normal: tuple[str, ...]


@pytest.fixture
def sides(tmp_path: Path) -> Sides:
    """40 short repair games; 100 longer normal ones, half of them in a tar as lc0's server makes them."""
    repair = folder_of(tmp_path / "repair", [3 + i % 5 for i in range(40)], seed=1000)
    folder_of(tmp_path / "normal", [10 + i % 7 for i in range(50)], seed=2000)
    files = {"run/LICENSE": b"text"} | {f"run/training.{i}.gz": pack(records(12, 3000 + i)) for i in range(50)}
    tar_of(tmp_path / "normal" / "run.tar", files, tarfile.GNU_FORMAT)
    return Sides((repair,), (str(tmp_path / "normal"),))


def mixed(sides: Sides, out: Path, share: float = 0.4, seed: int = 0) -> Mixture:
    return mix(*sides, out, share=share, seed=seed, quiet=True)


def test_it_is_the_largest_mixture_of_whole_games_with_the_share(
    sides: Sides, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mixing, "SHARD_CHUNKS", 30)
    words = ["mix", "--repair", *sides.repair, "--normal", *sides.normal, "--share", "0.4", "-o", str(tmp_path / "out")]
    code, printed, err = vr(words, capsys)
    assert code == 0, err
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    games = records_in(tmp_path / "out")
    repair = [game for game in games.values() if game["visits"][0] < 2000]
    assert list(games) == [f"game_{i:08d}.gz" for i in range(100)]
    assert (manifest["games"], len(repair), manifest["share"]["games"]) == (100, 40, 0.4)
    assert sum(map(len, games.values())) == manifest["positions"]
    of_positions = sum(map(len, repair)) / manifest["positions"]
    assert manifest["share"]["positions"] == of_positions < 0.3
    assert "40.00 % of the games" in printed
    assert f"{100 * of_positions:.2f} % of the positions" in printed
    assert [file["games"] for file in manifest["files"].values()] == [25] * 4
    of_tars = [file["repair_games"] for file in manifest["files"].values()]
    assert sum(of_tars) == 40
    assert all(3 <= n <= 17 for n in of_tars)  # 10 expected: they are shuffled
    contents = {gzip.decompress(path.read_bytes()) for path in tmp_path.glob("*/*.gz")}
    contents |= {records(12, 3000 + i).tobytes() for i in range(50)}
    written = [game.tobytes() for game in games.values()]
    assert len(set(written)) == len(written)
    assert set(written) <= contents


def test_same_seed_same_bytes_whatever_the_dates_and_places(sides: Sides, tmp_path: Path) -> None:
    """Another seed draws other games, not only in another order: of 100 normal games 93 are not taken."""
    share = 0.85
    tars = {}
    mixed(sides, tmp_path / "a", share)
    for path in tmp_path.glob("normal/*.gz"):
        os.utime(path, (0, 0))
    moved = shutil.copytree(tmp_path / "normal", tmp_path / "elsewhere" / "normal")
    mixed(sides._replace(normal=(str(moved),)), tmp_path / "b", share)
    mixed(sides, tmp_path / "c", share, seed=1)
    for name in "abc":
        tars[name] = (tmp_path / name / "mix-00000.tar").read_bytes()
    assert tars["a"] == tars["b"] != tars["c"]
    first, other = ({game.tobytes() for game in records_in(tmp_path / name).values()} for name in "ac")
    assert len(first) == len(other) == 47
    assert 0 < len(first & other) < 47


@given(
    repair=st.integers(1, 60),
    normal=st.integers(1, 60),
    share=st.floats(0.001, 0.999),
)
@settings(max_examples=60, deadline=None)
def test_the_share_is_kept_or_refused(repair: int, normal: int, share: float) -> None:
    """Over any inputs: within the tolerance, never more than there is, and one side is used up."""

    def index(n: int, begin: int) -> ChunkIndex:
        empty, digest = np.zeros(n, np.int32), np.arange(begin, begin + n).astype(np.uint64)
        return ChunkIndex(
            (), Archives([], []), empty, empty.astype(np.int64), empty, empty + 1, digest, 1, "", LeftOut()
        )

    try:
        chosen = choose([index(repair, 0), index(normal, 1000)], share, 0)
    except ValueRepairError:
        # No mixture that uses one side up is nearer.
        uses_up = [(repair, n) for n in range(1, normal + 1)] + [(n, normal) for n in range(1, repair)]
        assert min(abs(a / (a + b) - share) for a, b in uses_up) > tolerance(share)
        return
    counts = [len(rows) for rows in chosen]
    assert abs(counts[0] / sum(counts) - share) <= tolerance(share)
    assert counts[0] == repair or counts[1] == normal
    assert all(len(set(rows.tolist())) == len(rows) for rows in chosen)


# -- what cannot be mixed ---------------------------------------------------------------------------------------------


def test_a_share_that_the_games_cannot_give(tmp_path: Path) -> None:
    """One game of 101 is nearly 1 %, which is not 0.1 %."""
    sides = Sides((folder_of(tmp_path / "r", [2]),), (folder_of(tmp_path / "n", [1] * 100, seed=9),))
    with pytest.raises(ValueRepairError, match=r"--share 0.001: .* 101 games has 0.0099"):
        mixed(sides, tmp_path / "out", 0.001)
    assert mixed(sides, tmp_path / "out", 0.01).manifest["games"] == 100
    with pytest.raises(UsageError, match="--share 1"):
        mixed(sides, tmp_path / "out2", 1.0)


def test_input_formats_are_not_mixed(sides: Sides, tmp_path: Path) -> None:
    canonical = folder_of(tmp_path / "canonical", [5] * 9, input_format=3)
    for repair, normal in ((sides.repair, (canonical,)), ((*sides.repair, canonical), sides.normal)):
        with pytest.raises(ValueRepairError, match=r"input format classical .* canonical"):
            mixed(Sides(repair, normal), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def spoiled() -> dict[str, bytes]:
    good, old, two = pack(records(4, 7)), records(4, 7), records(4, 7)
    old["version"], two["input_format"][2] = 5, 3
    return {
        "cut off": good[: len(good) // 2],
        "damaged gzip stream": good[:30] + b"\xff" * 8 + good[38:],
        "no training chunk": gzip.compress(b"text, and much of it"),
        "training data of version 5": pack(old),
        "damaged records": pack(two),
        "not a whole number of records": gzip.compress(records(4, 7).tobytes() + b"x"),
        "not packed with gzip": records(4, 7).tobytes(),
        "bytes after its end": good + good,
        "longer than a game": gzip.compress(records(1, 7).tobytes() * 8193, 1),
    }


def test_why_a_chunk_cannot_be_used() -> None:
    for reason, content in spoiled().items():
        with pytest.raises(BrokenChunk, match=f"^{reason}$"):
            unpack(content)


def test_broken_chunks_are_left_out_and_counted(sides: Sides, tmp_path: Path) -> None:
    """Also those behind the place where a tar breaks off."""
    for i, reason in enumerate(("cut off", "no training chunk", "cut off")):
        (tmp_path / "repair" / f"training.{i}.gz").write_bytes(spoiled()[reason])
    tar = tmp_path / "normal" / "run.tar"
    tar.write_bytes(tar.read_bytes()[:20_000])
    mixture = mixed(sides, tmp_path / "out")
    repair, normal = (mixture.manifest["inputs"][name] for name in ("repair", "normal"))
    assert repair["left_out"] == {"cut off": 2, "no training chunk": 1}
    assert repair["left_out_first"][0] == "training.0.gz: cut off"
    assert 50 < normal["games"] < 100
    ((broken, how),) = mixture.broken_off
    assert broken == str(tar)
    assert re.fullmatch(r"the tar archive breaks off at byte [\d,]+", how)
    (only := tmp_path / "only").mkdir()
    (only / "training.1.gz").write_bytes(spoiled()["cut off"])
    with pytest.raises(ValueRepairError, match="no usable chunk: cut off 1"):
        mixed(sides._replace(repair=(str(only),)), tmp_path / "out2")


def test_what_are_no_chunks(sides: Sides, tmp_path: Path) -> None:
    """Games, packed tars, missing and empty folders."""
    (tmp_path / "games.pgn").write_bytes(b"1. e4 e5 *")
    (tmp_path / "games.pgn.gz").write_bytes(gzip.compress(b"1. e4 e5 *"))
    (tmp_path / "run.tar.gz").write_bytes(gzip.compress((tmp_path / "normal" / "run.tar").read_bytes()))
    (tmp_path / "bare").mkdir()
    for name in ("games.pgn", "games.pgn.gz", "run.tar.gz", "bare", "nowhere"):
        with pytest.raises((UsageError, ValueRepairError), match=f"{name}: "):
            mixed(sides._replace(normal=(str(tmp_path / name),)), tmp_path / "out")


def test_a_folder_that_was_not_finished_is_told(sides: Sides, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    (tmp_path / "normal" / UNFINISHED).write_text("{}")
    mixed(sides, tmp_path / "out")
    [line] = [record.getMessage() for record in caplog.records]
    assert str(tmp_path / "normal") in line


def test_chunks_on_both_sides_are_told(sides: Sides, tmp_path: Path) -> None:
    for path in sorted(tmp_path.glob("repair/*.gz"))[:5]:
        shutil.copy(path, tmp_path / "normal" / f"x{path.name}")
    (tmp_path / "repair" / "game_900000.gz").write_bytes((tmp_path / "repair" / "game_000000.gz").read_bytes())
    mixture = mixed(sides, tmp_path / "out", 0.28)
    assert mixture.manifest["same_content"] == {"within_repair": 1, "within_normal": 0, "in_both": 5}
    assert any("warning: 5 chunks" in line for line in mixture.lines())


def test_a_chunk_that_changes_meanwhile(sides: Sides, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def meddle(*arguments: Any) -> Any:
        (tmp_path / "repair" / "game_000003.gz").write_bytes(pack(records(6, 5)))
        return choose(*arguments)

    monkeypatch.setattr(mixing, "choose", meddle)
    with pytest.raises(ValueRepairError, match=r"game_000003.gz: was changed"):
        mixed(sides, tmp_path / "out")


# -- the folder -------------------------------------------------------------------------------------------------------


def test_only_a_new_or_empty_folder_is_taken(sides: Sides, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    for name in ("file", "full"):
        with pytest.raises(UsageError, match=name):
            mixed(sides, tmp_path / name)
    assert (tmp_path / "full" / "mine").read_text() == (tmp_path / "file").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    mixed(sides, tmp_path / "empty")
    assert (tmp_path / "empty" / "manifest.json").exists()


def test_nothing_is_left_when_it_fails(sides: Sides, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("valuerepair.training.chunk_output.TarShard.add", full)
        with pytest.raises(ValueRepairError, match="No space left on device"):
            mixed(sides, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".*"))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 0, 10))
    with pytest.raises(ValueRepairError, match=r"0\.\d*[1-9]\d* MB are needed, 0.00 MB are free"):
        mixed(sides, tmp_path / "out")
