"""Positions beside the games: a search evaluates them, but they are rarely played.

A share of the positions drawn from archives is followed by moves: by one random legal move (``random_move``), by the
policy's 3rd to 6th move (``policy_move``), or by the moves to a node of a short search of the net (``search_node``).
What happens to a position depends only on its key and the seed, so it is the same in any order and on any number of
threads. The other positions are the same as without `--off-game`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.select import U64, salt, scrambled
from valuerepair.arrays import Moves
from valuerepair.chess.board import legal_moves, parse_fens
from valuerepair.chess.origins import BESIDE, Kind
from valuerepair.chess.positions import PositionBatch
from valuerepair.chess.reached import positions_after
from valuerepair.errors import UsageError

Shares: TypeAlias = Mapping[Kind, float]  # kind of `BESIDE` -> share of all drawn positions
# The default mixture of kinds.
MIXTURE: Shares = {"random_move": 0.5, "policy_move": 0.25, "search_node": 0.25}
# The kinds that need a net.
OF_NET: tuple[Kind, ...] = ("policy_move", "search_node")
OVER = {kind: f"over after the move ({kind})" for kind in BESIDE}
NO_MOVE: dict[Kind, str] = {
    "policy_move": "fewer than three legal moves (policy_move)",
    "search_node": "no node below it (search_node)",
}
# The words by which the moves are drawn: the first edition's names of the kinds.
_DRAWN_BY: Mapping[Kind, str] = {"random_move": "aside", "policy_move": "policy", "search_node": "search"}
_EXAMPLES = "give a share of the positions, as 0.5, or of each kind, as random_move:0.25,policy_move:0.1"


class NetLines(Protocol):
    """Moves beside a game that a net would consider; `draws` uint64[n] choose among several."""

    def policy(self, batch: PositionBatch, draws: U64) -> Sequence[Moves]:
        """[n] a move of each position, the policy's 3rd to 6th; empty if the position has fewer than three moves."""

    def search(self, batch: PositionBatch, draws: U64) -> Sequence[Moves]:
        """[n] the moves from each position to a node of a short search; empty if the search has no node below it."""


def parse_shares(shares: float | str | Mapping[str, float]) -> dict[Kind, float]:
    """The share of each kind: ``0.5`` means the default mixture, ``random_move:0.25,search_node:0.1`` gives each
    share.

    Raises UsageError for an unknown kind, a share that is not above 0, and shares of more than 1 in total.
    """
    if isinstance(shares, str):
        parts = [part.strip().partition(":") for part in shares.split(",")]
        try:
            if len(parts) == 1 and not parts[0][1]:
                return parse_shares(float(parts[0][0]))
            if len({kind for kind, _, _ in parts}) < len(parts):
                raise UsageError(f"--off-game {shares}: gives a kind twice")
            return parse_shares({kind: float(share) for kind, _, share in parts})
        except ValueError:
            raise UsageError(f"--off-game {shares}: {_EXAMPLES}") from None
    if not isinstance(shares, Mapping):
        return parse_shares({kind: float(shares) * part for kind, part in MIXTURE.items()})
    if unknown := [kind for kind in shares if kind not in BESIDE]:
        raise UsageError(f"--off-game {unknown[0]}: the kinds are {', '.join(BESIDE)}; {_EXAMPLES}")
    if not all(0 < share <= 1 for share in shares.values()) or math.fsum(shares.values()) > 1 + 1e-9:
        raise UsageError(f"--off-game: shares lie above 0, and their sum is at most 1; {_EXAMPLES}")
    return {kind: float(shares[kind]) for kind in BESIDE if kind in shares}


def drawn_kinds(keys: U64, shares: Shares, seed: int) -> NDArray[np.int64]:
    """[n] the kind of each position as an index into `BESIDE`; ``len(BESIDE)`` if it stays in its game."""
    ends = np.cumsum([shares.get(kind, 0.0) for kind in BESIDE])
    if ends[-1] > 1 - 1e-9:
        ends[-1] = 1.0
    uniform = (scrambled(keys ^ salt(seed, "beside")) >> np.uint64(11)).astype(np.float64) / 2.0**53
    kinds: NDArray[np.int64] = np.searchsorted(ends, uniform, side="right").astype(np.int64)
    return kinds


def random_moves(batch: PositionBatch, draws: U64) -> list[Moves]:
    """[n] a legal move of each position; empty if it has none."""
    moves, offsets = legal_moves(parse_fens(batch.fen))
    counts = np.diff(offsets).astype(np.uint64)
    drawn = offsets[:-1] + (draws % np.maximum(counts, np.uint64(1))).astype(np.int64)
    return [moves[i : i + (count > 0)] for i, count in zip(drawn.tolist(), counts.tolist(), strict=True)]


def beside(
    batch: PositionBatch, shares: Shares, seed: int, net: NetLines | None = None
) -> tuple[PositionBatch, NDArray[np.int64], Counter[str]]:
    """Plays moves from these shares of the positions; the other positions stay as they are.

    Returns the m positions; int64[m], the row of `batch` that each comes from, ascending; and the numbers of positions
    left out, by reason: the game is over after the move, or there is no move to play.

    Raises UsageError for the kinds of `OF_NET` without a `net`.
    """
    kinds, left_out = drawn_kinds(batch.key, shares, seed), Counter[str]()
    stays = np.flatnonzero(kinds == len(BESIDE))
    parts, rows = [batch.take(stays)], [stays]
    for number, kind in enumerate(BESIDE):
        chosen = np.flatnonzero(kinds == number)
        if len(chosen):
            reached, reached_rows = _followed(batch.take(chosen), kind, seed, net, left_out)
            parts.append(reached)
            rows.append(chosen[reached_rows])
    order = np.argsort(np.concatenate(rows), kind="stable")
    return PositionBatch.concat(parts).take(order), np.concatenate(rows)[order], left_out


def _followed(
    batch: PositionBatch, kind: Kind, seed: int, net: NetLines | None, left_out: Counter[str]
) -> tuple[PositionBatch, NDArray[np.int64]]:
    """The positions after the moves of a kind, and the rows of `batch` that they come from."""
    draws = scrambled(batch.key ^ salt(seed, _DRAWN_BY[kind]))
    if kind == "random_move":
        lines: Sequence[Moves] = random_moves(batch, draws)
    else:
        if net is None:
            raise UsageError(f"--off-game: the kind {kind} needs a net")
        lines = net.policy(batch, draws) if kind == "policy_move" else net.search(batch, draws)
    movable = np.array([i for i, line in enumerate(lines) if len(line)], np.int64)
    reached, rows = positions_after(batch.take(movable), [lines[i] for i in movable.tolist()])
    left_out[NO_MOVE.get(kind, OVER[kind])] += len(batch) - len(movable)
    left_out[OVER[kind]] += len(movable) - len(rows)
    origins = replace(reached.origin, kinds=[kind] * len(rows))
    return replace(reached, origin=origins), movable[rows]
