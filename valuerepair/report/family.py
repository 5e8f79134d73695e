"""The tree of positions that vr expand reached from a root candidate: as rows, as text and as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Any, Literal, NamedTuple, get_args

import chess
import numpy as np

from valuerepair.chess import values
from valuerepair.question import Question, is_candidate
from valuerepair.store import reached
from valuerepair.store.reached import Member
from valuerepair.store.rows import INFERRED, STEPS
from valuerepair.store.store import Store
from valuerepair.text import finite

Mark = Literal["candidate", "inferred candidate", "none", "inferred none", "cut", "failed", "not searched"]
ALL_MARKS: tuple[Mark, ...] = get_args(Mark)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A position of a family, in its tree.

    `level` is the depth in the tree (root: 0), `after` the parent's index in the list of leaves (root: -1). `distance`
    is in plies; for children it is the rank of the policy's move. `later`: the position comes after its parent in the
    game. `move` (SAN) leads to this position, or, if it comes before its parent, was played in it. Values are from the
    side to move, None if missing. `calibrated_q` is None unless the question asks for it; then `disagreement` is
    calibrated Q - deep Q, else net Q - deep Q.
    """

    position_id: int
    parent_id: int | None
    level: int
    after: int
    step: str | None
    distance: int | None
    round: int | None
    later: bool
    move: str
    fen: str
    net_q: float | None
    calibrated_q: float | None
    deep_q: float | None
    disagreement: float | None
    mark: Mark

    @property
    def candidate(self) -> bool:
        return self.mark in ("candidate", "inferred candidate")

    @property
    def inferred(self) -> bool:
        return self.mark in ("inferred candidate", "inferred none")


def family_of(store: Store, position_id: int, question: Question) -> list[Leaf]:
    """The family of a position for the question's net and oracle, in the order of the tree; empty without a family.

    Raises ValueRepairError if this net and oracle have scored no position.
    """
    pair = store.pick(question.net, question.oracle)
    root = reached.roots_of(store, *pair, [position_id]).get(position_id)
    if root is None:
        return []
    if (tree := trees(store, pair, [root], question).get(root)) is None:
        raise store.connection.lost()
    return tree


def trees(store: Store, pair: tuple[int, int], roots: Sequence[int], question: Question) -> dict[int, list[Leaf]]:
    """The families of these roots, by root, each in the order of its tree."""
    alpha = store.alpha(*pair, question.alpha).value
    by_root = {root: members for root, members in reached.members(store, *pair, roots).items() if len(members) > 1}
    net_q = {m.position_id: m.net_q for members in by_root.values() for m in members if m.net_q is not None}
    net_q = dict(zip(net_q, store.judged_q(question, [*net_q], [*net_q.values()]).tolist(), strict=True))
    return {root: list(_tree(members, net_q, alpha, question)) for root, members in by_root.items()}


def _tree(members: Sequence[Member], net_q: Mapping[int, float], alpha: float, question: Question) -> Iterator[Leaf]:
    """The leaves of a family from the root on, parents before children."""
    ids = {member.position_id for member in members}
    children: dict[int, list[Member]] = {}
    root, *others = members
    for member in others:
        # The parent may be missing from a merged store.
        parent_id = member.parent_id if member.parent_id in ids else root.position_id
        children.setdefault(parent_id or 0, []).append(member)
    stack: list[tuple[Member, Member | None, int, int]] = [(root, None, 0, -1)]
    listed, count_before = {root.position_id}, 0
    while stack:
        member, parent, level, after = stack.pop()
        yield _leaf(member, parent, level, after, net_q, alpha, question)
        new = [child for child in children.get(member.position_id, []) if child.position_id not in listed]
        listed |= {child.position_id for child in new}
        new.sort(key=lambda child: (STEPS.index(child.step or "game"), child.distance, child.position_id), reverse=True)
        stack += [(child, member, level + 1, count_before) for child in new]
        count_before += 1


def _leaf(
    member: Member,
    parent: Member | None,
    level: int,
    after: int,
    net_q: Mapping[int, float],
    alpha: float,
    question: Question,
) -> Leaf:
    deep_q = finite(float(values.deep_q(np.array(member.deep, np.float64), alpha, question.q_from)))
    q = net_q.get(member.position_id)
    disagreement = None if q is None or deep_q is None else q - deep_q
    later, move = (True, "") if parent is None else _move(parent, member)
    return Leaf(
        member.position_id,
        member.parent_id,
        level,
        after,
        member.step,
        member.distance,
        member.round,
        later,
        move,
        member.fen,
        member.net_q,
        q if question.calibration == "fitted" else None,
        deep_q,
        disagreement,
        _mark(member, disagreement, question.threshold),
    )


def _mark(member: Member, disagreement: float | None, threshold: float) -> Mark:
    if disagreement is not None:
        candidate = is_candidate(disagreement, threshold)
        if member.stage == INFERRED:
            return "inferred candidate" if candidate else "inferred none"
        return "candidate" if candidate else "none"
    if member.failure is not None:
        return "failed"
    return "not searched" if member.cut_at is None else "cut"


def _move(parent: Member, member: Member) -> tuple[bool, str]:
    """`Leaf.later` and `Leaf.move` of a position."""
    same_start, moves, parent_moves = parent.start_fen == member.start_fen, member.moves, parent.moves
    if same_start and len(moves) > len(parent_moves) and moves[: len(parent_moves)] == parent_moves:
        return True, _san(parent.fen, moves[len(parent_moves) :])
    if same_start and moves == parent_moves[: len(moves)]:
        return False, _san(member.fen, parent_moves[len(moves) : len(moves) + 1])
    # The store has the position with another history.
    return member.step != "parent", ""


def _san(fen: str, moves: Sequence[str]) -> str:
    """The last of the moves in SAN, with its number; empty if they are not legal here."""
    board = chess.Board(fen)
    try:
        for move in moves[:-1]:
            board.push_uci(move)
        number = f"{board.fullmove_number}.{'' if board.turn else '..'}"
        return f"{number} {board.san(board.parse_uci(moves[-1]))}"
    except (ValueError, IndexError):
        return ""


# -- text -------------------------------------------------------------------------------------------------------------

# The sign of each mark, the sign in ASCII, and its meaning.
MARKS: Mapping[Mark, tuple[str, str, str]] = {
    "candidate": ("●", "#", "candidate"),
    "inferred candidate": ("◐", "+", "candidate by an inferred value"),
    "none": ("○", "o", "no candidate"),
    "inferred none": ("◌", ".", "none by an inferred value"),
    "cut": ("×", "x", "cut by the ladder"),
    "failed": ("!", "!", "search failed"),
    "not searched": ("·", "-", "not searched"),
}


def lines(leaves: Sequence[Leaf], position_id: int, threshold: float, *, unicode: bool = True) -> list[str]:
    """The tree as text for a terminal, with a mark at the position `position_id`."""
    if not leaves:
        return ["family    none: vr expand reached nothing from it"]
    candidates = sum(leaf.candidate for leaf in leaves)
    inferred = sum(leaf.mark == "inferred candidate" for leaf in leaves)
    marks = {mark: sign if unicode else plain for mark, (sign, plain, _) in MARKS.items()}
    left_parts = [
        f"{stem}{marks[leaf.mark]} {way(leaf)}" for stem, leaf in zip(_stems(leaves, unicode), leaves, strict=True)
    ]
    width = max(map(len, left_parts))
    text_lines = [
        f"family    of position {leaves[0].position_id}: {len(leaves) - 1:,} positions reached from it; "
        f"candidates at {threshold:g}: {candidates:,}, {inferred:,} of them by inferred values",
    ]
    for text, leaf in zip(left_parts, leaves, strict=True):
        end = "  <- this one" if leaf.position_id == position_id else ""
        text_lines.append(f"{text:<{width}}  {leaf.position_id:>7}  {_values(leaf)}{end}".rstrip())
    present = {leaf.mark for leaf in leaves}
    legend = "  ".join(f"{marks[mark]} {words}" for mark, (_, _, words) in MARKS.items() if mark in present)
    return [*text_lines, legend]


def way(leaf: Leaf) -> str:
    """The way in which a position was reached, in words."""
    if leaf.step is None:
        return "root"
    plies = "1 ply" if leaf.distance == 1 else f"{leaf.distance} plies"
    if leaf.step == "child":
        return f"child {leaf.distance}  {leaf.move}".rstrip()
    if leaf.step == "line":
        return f"line {leaf.distance}  {leaf.move}".rstrip()
    when = f"{plies} on" if leaf.later else f"{plies} before"
    return f"{leaf.step}, {when}  {leaf.move}".rstrip()


def _values(leaf: Leaf) -> str:
    net, deep = ("   ?  " if q is None else f"{q:+.3f}" for q in (leaf.net_q, leaf.deep_q))
    calibrated = "" if leaf.calibrated_q is None else f" (calibrated {leaf.calibrated_q:+.3f})"
    disagreement = "" if leaf.disagreement is None else f"  {leaf.disagreement:+.3f}"
    return f"net {net}{calibrated}  deep {deep}{disagreement}"


def _stems(leaves: Sequence[Leaf], unicode: bool) -> Iterator[str]:
    """The line drawing before each position."""
    down, along, last = ("│  ", "├─ ", "└─ ") if unicode else ("|  ", "|- ", "`- ")
    ends = {leaf.after: i for i, leaf in enumerate(leaves)}  # the last child of each parent
    open_levels: list[bool] = []
    for i, leaf in enumerate(leaves):
        if leaf.level == 0:
            yield ""
            continue
        del open_levels[leaf.level - 1 :]
        is_last = ends[leaf.after] == i
        yield "".join(down if more else "   " for more in open_levels) + (last if is_last else along)
        open_levels.append(not is_last)


COLUMNS = (
    "position_id", "parent_id", "step", "distance", "round", "move", "fen", "net_q", "deep_q", "disagreement",
    "candidate", "inferred", "mark",
)  # fmt: skip


def leaf_rows(leaves: Sequence[Leaf]) -> list[dict[str, Any]]:
    """JSON-able: for each position a dict with the keys `COLUMNS`."""
    return [{name: getattr(leaf, name) for name in COLUMNS} for leaf in leaves]


# -- the picture ------------------------------------------------------------------------------------------------------

_GAME = 0


class TreePlace(NamedTuple):
    """The place of a drawn position: horizontally in plies from the root, vertically in lanes. `after` is the index of
    the position from which a stroke leads to this one (-1: no stroke).

    The game is in lane 0. Each other line and each child continues in the lane of its parent or begins a new lane.
    """

    ply: int
    lane: int
    after: int


def places(leaves: Sequence[Leaf]) -> list[TreePlace]:
    """The places of a family's positions, in the order of `leaves`; all differ."""
    drawn = [TreePlace(0, _GAME, -1)] * len(leaves)
    occupied = {(0, _GAME)}
    # Nearer to the root first: positions of the first round get the lanes next to it.
    for parent in sorted(range(len(leaves)), key=lambda i: (leaves[i].level, i)):
        for branch in _branches(leaves, parent):
            origin = drawn[parent]
            plies = [origin.ply + _ply_offset(leaves[i]) for i in branch]
            lane = _lane(leaves[branch[0]].step, origin, plies, occupied)
            after = parent
            for i, ply in zip(branch, plies, strict=True):
                drawn[i] = TreePlace(ply, lane, after)
                after = i
            # A line occupies its lane from end to end; in the game's lane only the positions occupy a place.
            first = origin.ply + (1 if plies[-1] > origin.ply else -1)
            stretch = range(min(first, plies[-1]), max(first, plies[-1]) + 1)
            occupied |= {(ply, lane) for ply in (plies if lane == _GAME else stretch)}
    return drawn


def _branches(leaves: Sequence[Leaf], parent: int) -> Iterator[list[int]]:
    """The positions reached from a parent, in groups that are each drawn as one stroke."""
    children = [i for i, leaf in enumerate(leaves) if leaf.after == parent]
    game = [i for i in children if leaves[i].step in ("parent", "game")]
    for later in (False, True):
        yield from _distinct([i for i in game if leaves[i].later == later], leaves)
    yield from _distinct([i for i in children if leaves[i].step == "line"], leaves)
    yield from ([i] for i in children if leaves[i].step == "child")


def _distinct(group: Sequence[int], leaves: Sequence[Leaf]) -> Iterator[list[int]]:
    """A group with one position at each distance, sorted by distance; then each other position as its own group."""
    group = sorted(group, key=lambda i: _plies(leaves[i]))
    distinct = [i for k, i in enumerate(group) if k == 0 or _plies(leaves[i]) != _plies(leaves[group[k - 1]])]
    if distinct:
        yield distinct
    yield from ([i] for i in group if i not in distinct)


def _plies(leaf: Leaf) -> int:
    """The distance to the parent in plies, at least 1."""
    return max(leaf.distance or 1, 1)


def _ply_offset(leaf: Leaf) -> int:
    """The plies from the parent to this position, negative for earlier ones."""
    if leaf.step == "child":
        return 1
    return _plies(leaf) if leaf.later else -_plies(leaf)


def _lane(step: str | None, parent: TreePlace, plies: Sequence[int], occupied: set[tuple[int, int]]) -> int:
    """The nearest lane that is free from end to end: above the game for lines, below it for children; branches of these
    are further out."""
    first = parent.ply + (1 if plies[-1] > parent.ply else -1)
    if step in ("parent", "game") and not any((ply, parent.lane) in occupied for ply in plies):
        return parent.lane
    low, high = min(first, plies[-1]), max(first, plies[-1])
    away = -1 if parent.lane < 0 or (parent.lane == _GAME and step == "line") else 1
    own_lane = [0] if step == "line" and parent.lane != _GAME else []

    def is_free(lane: int) -> bool:
        ends = {(ply, lane) for ply in range(low - 1, high + 2)} - {(parent.ply, parent.lane)}
        return lane != _GAME and not ends & occupied

    return next(filter(is_free, (parent.lane + away * offset for offset in chain(own_lane, count(1)))))
