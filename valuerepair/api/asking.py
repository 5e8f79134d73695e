"""Values of positions by a net: `evaluate` at one node, `search` by the built-in MCTS; both also one by one."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from valuerepair.api.calls import Path
from valuerepair.api.stores import Candidate
from valuerepair.chess.positions import Position, PositionBatch, decode_move, decode_moves
from valuerepair.errors import UsageError, check_least
from valuerepair.text import wdl_words

if TYPE_CHECKING:
    import pandas as pd
    from chess import Board

    from valuerepair.mcts.params import SearchParams
    from valuerepair.nets.net import Net, NetIdentity
    from valuerepair.nets.options import Heads
    from valuerepair.oracles.searching import Searched

log = logging.getLogger(__name__)

DEFAULT_NODES = 800
_MOST_SECONDS = 1e7
_AT_ONCE = 4096  # positions of a batch for the net
_TREE_NODES = 2000  # the most visited positions of a search whose tree is written
# A position: a text as for `vr eval`, a board, a position, or a candidate.
PositionLike: TypeAlias = "str | Board | Position | Candidate"
# One or many of them, or a frame of a store with its text columns.
Positions: TypeAlias = "PositionLike | Iterable[PositionLike] | pd.DataFrame"


def evaluate(positions: Positions, net: Path | Net | None = None) -> pd.DataFrame:
    """A net's values of positions without search (one node): a row for each position, in their order.

    `positions`: one or many; each a text (a FEN, an EPD line, ``startpos moves e2e4``), a ``Board`` of python-chess
    with the moves played on it, a `Position` or a `Candidate`; or a frame of `MinedStore.frame`, whose index the result
    has, so that it can be joined. The net reads the known history. `net` is a name or a file (.pb.gz, .pb, .onnx), None
    the default net, downloaded once; or an open `Net`, which stays open.

    Columns, from the side to move: fen; q in [-1, 1]; w, d, l (probabilities, NaN for nets with a scalar head); best,
    the move of the highest prior (UCI, None if the game is over), best_p its prior, entropy of the policy (nats),
    moves_left (plies, NaN for nets without this head). attrs: net {name, sha256, history_fill}.

    Raises UsageError for a text that is not a position, ValueRepairError for a file that is not a net.
    """
    import pandas as pd

    rows = list(_positions(positions))
    with _opened(net) as opened:
        values = opened.evaluate(PositionBatch.from_positions(rows))
        net_attrs = {"name": opened.identity.name, "sha256": opened.identity.key, "history_fill": opened.history_fill}
    best = [decode_move(move) if move else None for move in values.best_move.tolist()]
    table: pd.DataFrame = pd.DataFrame(
        {
            "fen": [row.fen for row in rows],
            "q": values.q,
            **{name: values.wdl[:, i] for i, name in enumerate("wdl")},
            "best": pd.Series(best, dtype=object),
            **{name: getattr(values, name) for name in ("best_p", "entropy", "moves_left")},
        }
    )
    if isinstance(positions, pd.DataFrame):
        table.index = positions.index
    table.attrs["net"] = net_attrs
    return table


@dataclass(frozen=True, slots=True)
class EvaluatedPosition:
    """A net's values of a position without search, from the side to move.

    `q` lies in [-1, 1]; `wdl` are probabilities, None for nets with a scalar head; `moves_left` plies, None for nets
    without this head; `entropy` is that of the policy in nats; `top` the moves of the highest priors: (UCI, SAN,
    prior). `reason` says why the game is over, "" if it is not; the net's values take no account of it.
    """

    position: Position
    net: NetIdentity
    q: float
    wdl: tuple[float, ...] | None
    moves_left: float | None
    entropy: float
    top: tuple[tuple[str, str, float], ...]
    reason: str = ""

    def lines(self) -> list[str]:
        """All values for a terminal, and an empty line."""
        wdl = "" if self.wdl is None else f"   {wdl_words(self.wdl)}"
        moves = [f"  {san:8}{uci:6}{100 * p:6.2f} %" for uci, san, p in self.top]
        over = [f"  {self.reason}"] if self.reason else []
        return [self.position.fen, f"  Q {self.q:+.4f}{wdl}", *over, *moves, ""]

    def as_json(self) -> dict[str, Any]:
        """All values."""
        return {
            "fen": self.position.fen,
            "start_fen": self.position.start_fen,
            "moves": list(self.position.moves),
            "net": self.net.name,
            "net_sha256": self.net.sha256,
            "q": self.q,
            "wdl": None if self.wdl is None else list(self.wdl),
            "moves_left": self.moves_left,
            "entropy": self.entropy,
            "top": [{"uci": uci, "san": san, "p": p} for uci, san, p in self.top],
            **({"error": self.reason} if self.reason else {}),
        }


def evaluate_each(
    positions: Positions,
    net: Path | Net | None = None,
    *,
    top: int = 5,
    heads: Heads | None = None,
    device: str = "auto",
) -> Iterator[EvaluatedPosition]:
    """A net's values of each position, with its `top` moves, one by one: `vr eval`.

    `positions` and `net` are as in `evaluate`; the positions of a file are ``read_positions("some.epd")``. `heads` and
    `device` apply to a net that is opened here. Raises as `evaluate`; a wrong first position is reported before the net
    is opened.
    """
    unread = _positions(positions)
    batch = list(islice(unread, 1))  # raises for a wrong position before the net is opened
    with _opened(net, heads, device) as opened:
        identity = opened.identity
        log.info(f"{identity.name} ({identity.value_head} value head) on {opened.where}; from the side to move")
        while batch:
            yield from _evaluated(opened, batch, top)
            batch = list(islice(unread, _AT_ONCE))


def _evaluated(net: Net, positions: list[Position], top: int) -> Iterator[EvaluatedPosition]:
    from chess import Board

    from valuerepair.chess.position_text import san
    from valuerepair.oracles.oracle import game_over

    values, (moves, offsets, p) = net.evaluate_with_priors(PositionBatch.from_positions(positions))
    for i, position in enumerate(positions):
        row = slice(offsets[i], offsets[i + 1])
        order = np.argsort(-p[row], kind="stable")[:top]
        best = moves[row][order]
        yield EvaluatedPosition(
            position,
            net.identity,
            float(values.q[i]),
            None if np.isnan(values.wdl[i, 0]) else tuple(values.wdl[i].tolist()),
            None if np.isnan(values.moves_left[i]) else float(values.moves_left[i]),
            float(values.entropy[i]),
            tuple(zip(decode_moves(best), san(position, best), p[row][order].tolist(), strict=True)),
            "" if offsets[i] < offsets[i + 1] else game_over(Board(position.fen)) or "",
        )


def search(
    positions: Positions,
    nodes: int | None = None,
    net: Path | Net | None = None,
    params: SearchParams | None = None,
    *,
    seconds: float | None = None,
    tree_nodes: int = 0,
) -> list[Searched]:
    """Searches positions by the built-in MCTS: a `Searched` for each, in their order.

    `positions` and `net` are as in `evaluate`. Each search ends at `nodes` visits of its root (800 without either
    limit) or after `seconds`. `params` are lc0's parameters and those of this project, as in
    ``SearchParams(certainty=True, cpuct=2.5)``. Many positions are searched at once, in common batches; but one after
    the other with `seconds` or `tree_nodes`. With `tree_nodes` the `tree` of each result keeps that number of its most
    visited nodes (`write_tree`).

    Each `result` is a `SearchResult` (q, best_move, moves with visits and priors, ...) with values from the side to
    move (`q` of the best move, ±1 for a proven win or loss; `root_q` the mean over all visits), or None if there was
    nothing to search because the game is over; then `reason` says so. Raises UsageError for a wrong position, limit or
    parameter, ValueRepairError for a file that is not a net.
    """
    rows = list(_positions(positions))
    return list(search_each(rows, nodes, net, params, seconds=seconds, tree_nodes=tree_nodes)) if rows else []


def search_each(
    positions: Positions,
    nodes: int | None = None,
    net: Path | Net | None = None,
    params: SearchParams | None = None,
    *,
    seconds: float | None = None,
    tree_nodes: int = 0,
    tree: Path | None = None,
    heads: Heads | None = None,
    device: str = "auto",
) -> Iterator[Searched]:
    """As `search`, but yields each `Searched` once it is done, and reads positions only when needed: `vr search`.

    The positions of a file are ``read_positions("some.epd")``. `tree` is a file (.json, .html) for the tree of the
    first position. `heads` and `device` apply to a net that is opened here. Raises as `search`; a wrong first position
    is reported before the net is opened.
    """
    from valuerepair.mcts.params import SearchParams
    from valuerepair.oracles.searching import search_positions
    from valuerepair.report import search_tree

    chosen = params or SearchParams()
    chosen.check()
    check_least("--nodes", nodes)
    if seconds is not None and not 0 < seconds < _MOST_SECONDS:
        raise UsageError(f"--time {seconds:g}: must be a number of seconds above 0")
    limit = DEFAULT_NODES if nodes is None and seconds is None else nodes
    if tree is not None:
        search_tree.kind_of(tree)
        tree_nodes = tree_nodes or _TREE_NODES
    unread = _positions(positions)
    checked = chain(list(islice(unread, 1)), unread)
    with _opened(net, heads, device) as opened:
        for searched in search_positions(opened, chosen, checked, nodes=limit, seconds=seconds, tree_nodes=tree_nodes):
            if tree is not None and searched.tree is not None:
                search_tree.write_tree(searched, tree)
                tree = None
            yield searched


def _positions(positions: Positions) -> Iterator[Position]:
    """The positions of one or many texts, positions or candidates, or of the rows of a store's frame.

    Raises UsageError for a text that is not a position and for a frame without text columns.
    """
    import pandas as pd
    from chess import Board

    if isinstance(positions, str | Board | Position | Candidate):
        yield _position(positions)
    elif isinstance(positions, pd.DataFrame):
        yield from _positions_of_frame(positions)
    else:
        yield from map(_position, positions)


def _position(position: PositionLike) -> Position:
    if isinstance(position, Position):
        return position
    if isinstance(position, Candidate):
        return position.position
    from chess import Board

    from valuerepair.chess.position_text import read_argument

    if isinstance(position, str):
        return read_argument(position)
    if type(position) is Board and not position.chess960:
        return read_argument(position.root().fen(), [move.uci() for move in position.move_stack])
    raise UsageError(f"{position!r}: give a FEN, a board of standard chess, a Position or a Candidate")


def _positions_of_frame(frame: pd.DataFrame) -> Iterator[Position]:
    columns = ("fen", "start_fen", "moves", "ply", "history_known")
    if absent := [name for name in columns if name not in frame.columns]:
        raise UsageError(f"this frame has no column {absent[0]!r}; give one of store.frame() without text=False")
    for fen, start_fen, moves, ply, history_known in frame[list(columns)].itertuples(index=False):
        yield Position(fen, start_fen, tuple(moves.split()), int(ply), history_known=bool(history_known))


@contextmanager
def _opened(net: Path | Net | None, heads: Heads | None = None, device: str = "auto") -> Iterator[Net]:
    """The open net; closed afterwards if it was opened here."""
    from valuerepair.nets.net import Net, open_net
    from valuerepair.nets.options import Heads

    if isinstance(net, Net):
        yield net
        return
    chosen = heads or Heads()
    with open_net(net, device=device, value_head=chosen.value, policy_head=chosen.policy) as opened:
        yield opened
