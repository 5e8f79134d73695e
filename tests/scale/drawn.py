"""Values that a net and a search might have given: made up, but with the spread and the tails of real ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Floats
from valuerepair.chess import values
from valuerepair.chess.board import legal_moves, parse_fens
from valuerepair.chess.positions import PositionBatch, decode_move, decode_moves
from valuerepair.nets.net import NetValues
from valuerepair.store.rows import FULL, DeepResult, Run
from valuerepair.store.screening import Passage, add_passage
from valuerepair.store.store import Store

ALPHA = 180.0
NODES, SECOND_NODES = 1_000_000, 10_000_000
RUNGS = (1_000, 10_000, 100_000)
AUDIT = 0.05
_LINE_PLIES = 12
_MATES, _BAD = 0.02, 0.045  # shares of positions


@dataclass(frozen=True, slots=True)
class Drawn:
    """Values of n positions: of the net, and of the search as `cp` and `mate` [n], NaN for nothing.

    `cut` [n]: the ladder cut it; `screened` [n]: it went up the ladder; `wrong` [n]: net and search are far apart.
    """

    net: NetValues
    cp: Floats
    mate: Floats
    best: list[str | None]
    lines: list[tuple[str, ...]]
    cut: NDArray[np.bool_]
    screened: NDArray[np.bool_]

    def result(self, i: int, nodes: int) -> DeepResult:
        """What the search of so many nodes says of a position; small ones say much the same as the whole one."""
        q = 0.0 if np.isnan(self.cp[i]) else float(values.cp_to_q(self.cp[i], ALPHA))
        drawn = round(1000 * (1 - abs(q)) * 0.6)
        win = round((1000 - drawn) * (1 + q) / 2)
        mate = None if np.isnan(self.mate[i]) else int(self.mate[i])
        wdl = (win, drawn, 1000 - drawn - win) if mate is None else (1000 * (mate > 0), 0, 1000 * (mate <= 0))
        cp = int(self.cp[i]) if mate is None else None
        return DeepResult(cp, mate, wdl, None, 24, 31, nodes + i % 97, nodes // 900, self.best[i], self.lines[i])


def draw(batch: PositionBatch, dice: np.random.Generator, cut: NDArray[np.bool_], screened: NDArray[np.bool_]) -> Drawn:
    """Values for positions of games, in the order of their games."""
    n = len(batch)
    cp = np.clip(np.round(dice.standard_t(3, n) * 110), -1500, 1500)
    cp[dice.random(n) < 0.1] = 0  # dead draws
    mate = np.where(dice.random(n) < _MATES, dice.integers(1, 12, n) * dice.choice([-1, 1], n), np.nan)
    cp[~np.isnan(mate)] = np.nan
    deep = np.where(np.isnan(mate), np.tanh(np.nan_to_num(cp) / (2 * ALPHA)), np.sign(np.nan_to_num(mate)))
    spread = np.where(dice.random(n) < _BAD, 0.75, 0.11)
    q = np.clip(0.9 * deep + dice.normal(0, 1, n) * spread, -0.98, 0.98)
    d = (1 - np.abs(q)) * dice.uniform(0.3, 0.8, n)
    wdl = np.stack([(1 - d + q) / 2, d, (1 - d - q) / 2], 1)
    boards = parse_fens(batch.fen)
    moves, cuts = legal_moves(boards)
    lines = continuations(batch, _LINE_PLIES)
    counts = np.diff(cuts)
    any_move = moves[np.minimum(cuts[:-1] + dice.integers(0, np.maximum(counts, 1)), len(moves) - 1)]
    some = counts > 0
    p = dice.beta(4, 4, n)
    nothing = np.full(n, np.nan, np.float32)
    net = NetValues(
        q.astype(np.float32), wdl.astype(np.float32), np.where(some, any_move, 0).astype(np.uint16),
        np.where(some, p, np.nan).astype(np.float32), np.where(some, 2.5 * (1 - p), 0).astype(np.float32), nothing,
    )  # fmt: skip
    best = [line[0] if line else decode_move(int(move)) if has else None
            for line, move, has in zip(lines, any_move.tolist(), some.tolist(), strict=True)]  # fmt: skip
    whole = [line or ((move,) if move else ()) for line, move in zip(lines, best, strict=True)]
    return Drawn(net, cp, mate, best, whole, cut, screened)


def continuations(batch: PositionBatch, plies: int) -> list[tuple[str, ...]]:
    """What was played on from each position, as far as later rows of its game know; legal, as a search's line is."""
    longest: dict[tuple[str, int], int] = {}
    for i, origin in enumerate(batch.origin):
        longest[origin.source, origin.game] = i  # rows of a game follow each other, the longest history last
    lines: list[tuple[str, ...]] = []
    for i, origin in enumerate(batch.origin):
        last = longest[origin.source, origin.game]
        own = batch.moves[batch.offsets[i] : batch.offsets[i + 1]]
        game = batch.moves[batch.offsets[last] : batch.offsets[last + 1]]
        # A random continuation has a history of its own.
        same = batch.start_fen[i] == batch.start_fen[last] and np.array_equal(game[: len(own)], own)
        line = decode_moves(game[len(own) : len(own) + plies]) if same else ()
        lines.append(line or ((origin.played,) if origin.played else ()))
    return lines


def save_searches(
    store: Store, which: tuple[int, int, int], ids: NDArray[np.int64], drawn: Drawn, run: Run, dice: np.random.Generator
) -> None:
    """Keeps whole searches, and of positions that went up the ladder the rungs and what became of them.

    `which`: the numbers of the net, the oracle and the screen.
    """
    net_id, oracle_id, screen_id = which
    for i, number in enumerate(ids.tolist()):
        if not drawn.cut[i]:
            store.add_deep(number, oracle_id, drawn.result(i, NODES), run, FULL)
        if drawn.screened[i]:
            audited = not drawn.cut[i] and dice.random() < AUDIT
            leaves = drawn.cut[i] or audited
            at = int(dice.integers(0, len(RUNGS))) if leaves else len(RUNGS) - 1
            for rung in RUNGS if audited or not leaves else RUNGS[: at + 1]:
                store.add_deep(number, oracle_id, drawn.result(i, rung), run, str(rung))
            nodes = RUNGS[at] if drawn.cut[i] else NODES
            chance = float(dice.uniform(0, 0.02)) if leaves else None
            passage = Passage(
                number, screen_id, RUNGS[at] if leaves else None, chance, nodes, not drawn.cut[i],
                AUDIT if leaves else 1.0,
            )  # fmt: skip
            add_passage(store, net_id, oracle_id, passage, run)
