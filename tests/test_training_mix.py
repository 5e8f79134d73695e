"""Mixtures: the share by games and by positions, and the same bytes for the same seed."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.mix_sides import folder_of, games_in, records, sides_in
from valuerepair.cli.mix import command
from valuerepair.errors import ValueRepairError
from valuerepair.training.mix import MixOptions, Mixture, mix


@pytest.fixture
def sides(tmp_path: Path) -> MixOptions:
    return sides_in(tmp_path)


def files_in(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def test_share_by_games_is_the_largest_mixture(sides: MixOptions, tmp_path: Path) -> None:
    manifest = mix(sides, tmp_path / "out", quiet=True)
    assert manifest["games"] == 100
    assert manifest["share"]["games"] == 0.4
    games = games_in(tmp_path / "out")
    repair = [game for game in games.values() if game["visits"][0] < 2000]
    assert (len(games), len(repair)) == (100, 40)
    assert sum(map(len, games.values())) == manifest["positions"]
    assert manifest["share"]["positions"] == sum(map(len, repair)) / manifest["positions"] < 0.3
    assert json.loads((tmp_path / "out" / "manifest.json").read_text()) == manifest
    assert any("40.00 % of the games" in line for line in Mixture("out", manifest).lines())


def test_share_by_positions(sides: MixOptions, tmp_path: Path) -> None:
    manifest = mix(replace(sides, by="positions", share=0.2), tmp_path / "out", quiet=True)
    games = games_in(tmp_path / "out").values()
    repair = sum(len(game) for game in games if game["visits"][0] < 2000)
    assert manifest["share"]["positions"] == repair / sum(map(len, games))
    assert abs(manifest["share"]["positions"] - 0.2) < 0.01
    assert manifest["share"]["games"] > 0.2


def test_every_game_comes_whole_and_once(sides: MixOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("valuerepair.training.mix.SHARD_CHUNKS", 30)
    mix(sides, tmp_path / "out", quiet=True)
    contents = {
        bytes(content) for path in tmp_path.glob("*/*.gz") for content in [gzip.decompress(path.read_bytes())]
    } | {records(12, 3000 + i).tobytes() for i in range(50)}
    mixed = [game.tobytes() for game in games_in(tmp_path / "out").values()]
    assert len(set(mixed)) == len(mixed)
    assert set(mixed) <= contents
    rows = pd.read_parquet(tmp_path / "out" / "games.parquet")
    assert rows.game.tolist() == [f"game_{i:08d}.gz" for i in range(100)]
    assert rows.groupby("file").game.count().tolist() == [25] * 4
    assert (rows.side == "repair").sum() == 40
    assert rows.positions.sum() == sum(len(game) for game in games_in(tmp_path / "out").values())


def test_shards_are_shuffled(sides: MixOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("valuerepair.training.mix.SHARD_CHUNKS", 25)
    manifest = mix(sides, tmp_path / "out", quiet=True)
    shares = [file["repair_games"] for file in manifest["files"].values()]
    assert sum(shares) == 40
    assert all(3 <= n <= 17 for n in shares)  # 10 expected; beyond with a chance of 1e-3 had the seed not been fixed


def test_the_seed_draws_the_games_of_both_sides(sides: MixOptions, tmp_path: Path) -> None:
    """Not only their order: of 40 repair and 100 normal games 20 and 30 are taken."""
    taken = []
    for seed in (0, 1):
        mix(replace(sides, total=50, seed=seed), tmp_path / str(seed), quiet=True)
        rows = pq.read_table(tmp_path / str(seed) / "games.parquet").to_pylist()
        taken.append({(row["side"], row["archive"], row["offset"]) for row in rows})
    for name in ("repair", "normal"):
        first, second = ({row for row in rows if row[0] == name} for rows in taken)
        assert len(first) == len(second) > 0
        assert first != second


def test_same_seed_same_bytes_whatever_the_dates_and_places(sides: MixOptions, tmp_path: Path) -> None:
    first, second, other = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    mix(replace(sides, total=50), first, quiet=True)
    for path in tmp_path.glob("normal/*.gz"):
        os.utime(path, (0, 0))
    mix(replace(sides, total=50), second, quiet=True)
    mix(replace(sides, total=50, seed=1), other, quiet=True)
    assert files_in(first) == files_in(second)
    assert files_in(first)["mix-00000.tar"] != files_in(other)["mix-00000.tar"]
    moved = tmp_path / "elsewhere" / "normal"
    shutil.copytree(tmp_path / "normal", moved)
    again = tmp_path / "d"
    mix(replace(sides, total=50, normal=(str(moved),)), again, quiet=True)
    assert files_in(first)["mix-00000.tar"] == files_in(again)["mix-00000.tar"]


def test_a_smaller_mixture_is_part_of_a_larger_one(sides: MixOptions, tmp_path: Path) -> None:
    mix(replace(sides, total=30), tmp_path / "small", quiet=True)
    mix(sides, tmp_path / "large", quiet=True)
    small, large = ({g.tobytes() for g in games_in(tmp_path / name).values()} for name in ("small", "large"))
    assert len(small) == 30
    assert small < large


def test_too_large_a_total_says_what_is_possible(sides: MixOptions, tmp_path: Path) -> None:
    with pytest.raises(ValueRepairError) as refused:
        mix(replace(sides, total=110), tmp_path / "out", quiet=True)
    assert str(refused.value) == (
        "--share 0.4 of 110 games needs 44 repair games, there are 40; at this share 100 in all is the most, "
        "at this total --share 0.0909 to 0.3636"
    )
    mix(replace(sides, total=110, share=0.3636), tmp_path / "out", quiet=True)
    assert not list(tmp_path.glob(".*"))


def test_a_small_share_is_kept_or_refused(tmp_path: Path) -> None:
    """One game of 101 is nearly 1 %, which is not 0.1 %."""
    sides = (folder_of(tmp_path / "r", [2]),), (folder_of(tmp_path / "n", [1] * 100, seed=9),)
    with pytest.raises(ValueRepairError, match=r"--share 0.001: a mixture of 101 games has 0.0099 at the nearest"):
        mix(MixOptions(*sides, 0.001), tmp_path / "out", quiet=True)
    assert mix(MixOptions(*sides, 0.01), tmp_path / "out", quiet=True)["games"] == 100


def test_too_few_games_for_the_share(tmp_path: Path) -> None:
    sides = MixOptions((folder_of(tmp_path / "r", [2]),), (folder_of(tmp_path / "n", [2, 2], seed=9),), 0.4)
    with pytest.raises(
        ValueRepairError, match=r"a mixture of 2 games has 0.5000 at the nearest, 1 repair and 1 normal games"
    ):
        mix(sides, tmp_path / "out", quiet=True)


@given(
    repair=st.lists(st.integers(1, 9), min_size=1, max_size=60),
    normal=st.lists(st.integers(1, 9), min_size=1, max_size=60),
    share=st.floats(0.001, 0.999),
    positions=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_the_share_is_kept_or_refused(repair: list[int], normal: list[int], share: float, positions: bool) -> None:
    """Over any inputs: within the tolerance, never more than there is, and one side is used up to a game."""
    from valuerepair.training.chunk_files import Archives, ChunkIndex, LeftOut
    from valuerepair.training.mix import choose, tolerance

    def index(lengths: list[int], begin: int) -> ChunkIndex:
        n, empty = len(lengths), np.zeros(len(lengths), np.int32)
        digest = np.arange(begin, begin + n).astype(np.uint64)
        archives = Archives([], [])
        return ChunkIndex(
            (), archives, empty, empty.astype(np.int64), empty, np.array(lengths, np.int32), digest, 1, "", LeftOut()
        )

    sides = [index(repair, 0), index(normal, 1000)]
    options = MixOptions(("r",), ("n",), share, by="positions" if positions else "games")
    try:
        choices = choose(sides, options)
    except ValueRepairError:
        # By games no mixture that uses one side up is nearer.
        uses_up = [(len(repair), n) for n in range(1, len(normal) + 1)] + [
            (n, len(normal)) for n in range(1, len(repair))
        ]
        assert positions or min(abs(a / (a + b) - share) for a, b in uses_up) > tolerance(share)
        return
    counts = [choice.positions if positions else choice.games for choice in choices]
    assert abs(counts[0] / sum(counts) - share) <= tolerance(share)
    assert any(choice.games == choice.index.games for choice in choices)
    assert all(len(set(choice.chosen.tolist())) == choice.games for choice in choices)


def test_command_line(sides: MixOptions, tmp_path: Path) -> None:
    arguments = ["--repair", sides.repair[0], "--normal", sides.normal[0], "--share", "0.2"]
    done = CliRunner().invoke(command, [*arguments, "-o", str(tmp_path / "out")], catch_exceptions=False)
    assert done.exit_code == 0
    assert "repair share: 20.00 % of the games" in done.output
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text("utf-8"))
    assert manifest["share"]["games"] == 0.2
