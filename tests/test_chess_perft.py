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


# chessprogramming.org/Perft_Results: leaves of depth 1, 2, ...
PUBLISHED = {
    chess.STARTING_FEN: (20, 400, 8902, 197281, 4865609, 119060324),
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1": (48, 2039, 97862, 4085603, 193690690),
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1": (14, 191, 2812, 43238, 674624, 11030083),
    "r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1": (6, 264, 9467, 422333, 15833292),
    "r2q1rk1/pP1p2pp/Q4n2/bbp1p3/Np6/1B3NBn/pPPP1PPP/R3K2R b KQ - 0 1": (6, 264, 9467, 422333, 15833292),
    "rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8": (44, 1486, 62379, 2103487, 89941194),
    "r4rk1/1pp1qppp/p1np1n2/2b1p1B1/2B1P1b1/P1NP1N2/1PP1QPPP/R4RK1 w - - 0 10": (46, 2079, 89890, 3894594, 164075551),
}


@pytest.mark.parametrize("fen", PUBLISHED)
def test_the_published_counts_are_ours(fen: str) -> None:
    row = rules.parse_fens([fen])
    assert tuple(rules.perft(row, depth) for depth in range(1, len(PUBLISHED[fen]) + 1)) == PUBLISHED[fen]


@pytest.mark.slow
def test_perft_of_the_suites_as_deep_as_a_night_affords(shared_data: Path) -> None:
    counts = list(perft_parity.count(chosen(shared_data, dict(perft_parity.NIGHTLY), {}), threads=2))
    assert sum(c.ours for c in counts) > 4 * 10**11
    assert {(c.entry.name, c.entry.depth) for c in counts} >= {("perft.epd", 8), ("perft-marcel.epd", 6)}
    assert_right(counts)


def test_perft_of_no_moves_is_one_and_of_a_mate_nothing() -> None:
    mated = rules.parse_fens(["7k/6Q1/6K1/8/8/8/8/8 b - - 0 1"])
    assert [rules.perft(mated, depth) for depth in range(4)] == [1, 0, 0, 0]
