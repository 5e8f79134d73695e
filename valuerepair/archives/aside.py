"""Positions beside the games: what a search evaluates, and hardly anybody played.

Of the positions that are drawn from archives a share is followed by moves: by one legal move drawn at random
(``aside``), by the policy's 3rd to 6th move (``policy``), or by those to a node of a short search of the net
(``search``). Which position is followed by what depends on its key and the seed alone, so it is the same in any order
and on any number of threads, and without a share the positions are those that are left.
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
from valuerepair.chess.board import legal_moves, parse_fens
from valuerepair.chess.origins import BESIDE, GAME, Kind
from valuerepair.chess.positions import Moves, PositionBatch
from valuerepair.chess.reached import followed
from valuerepair.errors import UsageError

Shares: TypeAlias = Mapping[Kind, float]  # of the kinds of `BESIDE`, of all that is drawn
# Which kinds a share takes where it does not say so.
MIXTURE: Shares = {"aside": 0.5, "policy": 0.25, "search": 0.25}
# The kinds that need the policy, or a search, of a net.
OF_NET: tuple[Kind, ...] = ("policy", "search")
OVER = {kind: f"over after the move ({kind})" for kind in BESIDE}
NO_MOVE: dict[Kind, str] = {"policy": "fewer than three legal moves (policy)", "search": "no node below it (search)"}
_EXAMPLES = "give a share of the positions, as 0.5, or of each kind, as aside:0.25,policy:0.1,search:0.25"


class NetLines(Protocol):
    """What a net would look at beside a game; `draws` uint64[n] decide where there are several such positions."""

    def policy(self, batch: PositionBatch, draws: U64) -> Sequence[Moves]:
        """[n] the move; none where there is no such move."""

    def search(self, batch: PositionBatch, draws: U64) -> Sequence[Moves]:
        """[n] the moves to a node; none where there is no such node."""


def parse_shares(asked: float | str | Mapping[str, float]) -> dict[Kind, float]:
    """The share of each kind: ``0.5`` takes the usual mixture, ``aside:0.25,search:0.1`` says it exactly.

    Raises UsageError for words that are no kinds, and shares that are not above 0 or more than 1 together.
    """
    if isinstance(asked, str):
        parts = [part.strip().partition(":") for part in asked.split(",")]
        try:
            if len(parts) == 1 and not parts[0][1]:
                return parse_shares(float(parts[0][0]))
            if len({kind for kind, _, _ in parts}) < len(parts):
                raise UsageError(f"--aside {asked}: gives a kind twice")
            return parse_shares({kind: float(share) for kind, _, share in parts})
        except ValueError:
            old = "; --aside without a value was what --aside aside:1 is now" if ":" not in asked else ""
            raise UsageError(f"--aside {asked}: {_EXAMPLES}{old}") from None
    if isinstance(asked, bool):
        raise UsageError(f"--aside {asked}: {_EXAMPLES}; what True was before is aside:1 now")
    if not isinstance(asked, Mapping):
        return parse_shares({kind: float(asked) * part for kind, part in MIXTURE.items()})
    if unknown := [kind for kind in asked if kind not in BESIDE]:
        raise UsageError(f"--aside {unknown[0]}: there are the kinds {', '.join(BESIDE)}; {_EXAMPLES}")
    if not all(0 < share <= 1 for share in asked.values()) or math.fsum(asked.values()) > 1 + 1e-9:
        raise UsageError(f"--aside: shares lie above 0, and together they are at most 1; {_EXAMPLES}")
    return {kind: float(asked[kind]) for kind in BESIDE if kind in asked}


def drawn_kinds(keys: U64, shares: Shares, seed: int) -> NDArray[np.int64]:
    """[n] what each position becomes, an index into `BESIDE`, or ``len(BESIDE)`` where it stays as it stood."""
    ends = np.cumsum([shares.get(kind, 0.0) for kind in BESIDE])
    if ends[-1] > 1 - 1e-9:
        ends[-1] = 1.0
    uniform = (scrambled(keys ^ salt(seed, "beside")) >> np.uint64(11)).astype(np.float64) / 2.0**53
    kinds: NDArray[np.int64] = np.searchsorted(ends, uniform, side="right").astype(np.int64)
    return kinds


def random_moves(batch: PositionBatch, draws: U64) -> list[Moves]:
    """[n] a legal move each, no move where there is none."""
    moves, offsets = legal_moves(parse_fens(batch.fen))
    counts = np.diff(offsets).astype(np.uint64)
    at = offsets[:-1] + (draws % np.maximum(counts, np.uint64(1))).astype(np.int64)
    return [moves[i : i + (count > 0)] for i, count in zip(at.tolist(), counts.tolist(), strict=True)]


def beside(
    batch: PositionBatch, shares: Shares, seed: int, net: NetLines | None = None
) -> tuple[PositionBatch, NDArray[np.int64], Counter[str]]:
    """The positions, of which these shares are followed by moves; which rows these are, int64[m], in their order; and
    why others are left out: the game is over after the move, or there is no such move.

    Raises UsageError for the kinds of `OF_NET` without a `net`.
    """
    kinds, lost = drawn_kinds(batch.key, shares, seed), Counter[str]()
    stays = np.flatnonzero(kinds == len(BESIDE))
    parts, rows = [batch.take(stays)], [stays]
    for number, kind in enumerate(BESIDE):
        chosen = np.flatnonzero(kinds == number)
        if len(chosen):
            reached, kept = _followed(batch.take(chosen), kind, seed, net, lost)
            parts.append(reached)
            rows.append(chosen[kept])
    order = np.argsort(np.concatenate(rows), kind="stable")
    return PositionBatch.concat(parts).take(order), np.concatenate(rows)[order], lost


def _followed(
    batch: PositionBatch, kind: Kind, seed: int, net: NetLines | None, lost: Counter[str]
) -> tuple[PositionBatch, NDArray[np.int64]]:
    """The positions after the moves of a kind, and which rows these are."""
    draws = scrambled(batch.key ^ salt(seed, kind))
    if kind == "aside":
        lines: Sequence[Moves] = random_moves(batch, draws)
    else:
        if net is None:
            raise UsageError(f"--aside: the kind {kind} needs a net")
        lines = getattr(net, kind)(batch, draws)
    there = np.array([i for i, line in enumerate(lines) if len(line)], np.int64)
    reached, rows = followed(batch.take(there), [lines[i] for i in there.tolist()])
    lost[NO_MOVE.get(kind, OVER[kind])] += len(batch) - len(there)
    lost[OVER[kind]] += len(there) - len(rows)
    origins = replace(reached.origins, kinds=[kind] * len(rows))
    return replace(reached, origin=origins), there[rows]


def stood_in_game(batch: PositionBatch) -> NDArray[np.bool_]:
    """[n] whether each is of the kind ``game``."""
    return np.array([kind == GAME for kind in batch.origins.kind], np.bool_)
