"""Perft: published tables, whole suites, and python-chess's own counts."""

from __future__ import annotations

from pathlib import Path

import chess
import pytest

from tests.parity import perft_parity
from tests.parity.perft_parity import Counted, Entry
from valuerepair.chess import board as rules

QUICK_LEAVES = 200_000


def chosen(shared_data: Path, limits: dict[str, int], every: dict[str, int]) -> list[Entry]:
    """Entries of each suite with at most so many leaves, every so-manieth of them."""
    entries = []
    for name, limit in limits.items():
        fitting = [e for e in perft_parity.entries(shared_data / "epd" / name) if e.leaves <= limit]
        entries += fitting[:: every.get(name, 1)]
    return entries


def assert_right(counts: list[Counted]) -> None:
    wrong = [f"{c.entry.fen} depth {c.entry.depth}: {c.ours}, not {c.entry.leaves}" for c in counts if c.wrong]
    assert not wrong, "\n".join(wrong[:20])


def test_perft_of_every_position_of_the_suites(shared_data: Path) -> None:
    """All counts of up to 200,000 leaves; the en-passant suite has few of those, so also every 25th of its larger."""
    limits = dict.fromkeys(perft_parity.SUITES, QUICK_LEAVES)
    large = chosen(shared_data, {perft_parity.SUITES[3]: 10**7}, {perft_parity.SUITES[3]: 25})
    counts = list(perft_parity.count(chosen(shared_data, limits, {}) + large))
    assert len({c.entry.fen for c in counts}) > 7500
    assert sum(c.ours for c in counts) > 600_000_000
    assert_right(counts)


@pytest.mark.slow
def test_perft_of_the_suites_as_deep_as_a_night_affords(shared_data: Path) -> None:
    counts = list(perft_parity.count(chosen(shared_data, dict(perft_parity.NIGHTLY), {}), threads=2))
    assert sum(c.ours for c in counts) > 4 * 10**11
    assert {(c.entry.name, c.entry.depth) for c in counts} >= {("perft.epd", 8), ("perft-marcel.epd", 6)}
    assert_right(counts)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_wrong_count_is_found(threads: int) -> None:
    entries = [Entry("x", chess.STARTING_FEN, depth, leaves) for depth, leaves in ((1, 20), (2, 401), (3, 8902))]
    counts = list(perft_parity.count(entries, threads))
    assert [c.entry.depth for c in counts if c.wrong] == [2]
    assert [line.split()[-1] for line in perft_parity.table(counts)[1:]] == ["0", "1", "0"]


def test_perft_of_no_moves_is_one_and_of_a_mate_nothing() -> None:
    mated = rules.parse_fens(["7k/6Q1/6K1/8/8/8/8/8 b - - 0 1"])
    assert [rules.perft(mated, depth) for depth in range(4)] == [1, 0, 0, 0]
