"""Values of positions by a net: at one node, or by the built-in search; as a frame, or one by one."""

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
    from valuerepair.oracles.searching import Searched

log = logging.getLogger(__name__)

_AT_ONCE = 4096  # positions of a batch for the net
_SHOWN = 5  # moves for a terminal
# A position: a text as for `vr eval`, a board, a position, or a candidate.
PositionLike: TypeAlias = "str | Board | Position | Candidate"
# One or many of them, or a frame of a store with its text columns.
Positions: TypeAlias = "PositionLike | Iterable[PositionLike] | pd.DataFrame"


def evaluate(
    positions: Positions,
    net: Path | Net | None = None,
    nodes: int = 1,
    params: SearchParams | None = None,
    *,
    device: str = "auto",
) -> pd.DataFrame:
    """Values of positions, a row for each in their order: by the net alone (1 node), or by a search of `nodes` visits.

    `positions`: one or many; each a text (a FEN, an EPD line, ``startpos moves e2e4``), a ``Board`` of python-chess
    with the moves played on it, a `Position` or a `Candidate`; or a frame of `MinedStore.frame`, whose index the result
    has, so that it can be joined. The net reads the known history. `net` is a name or a file (.pb.gz, .pb, .onnx), None
    the default net, downloaded once; or an open `Net`, which stays open. `params` are lc0's parameters and those of
    this project, as in ``SearchParams(certainty=True, cpuct=2.5)``. `device` applies to a net that is opened here.

    Columns, from the side to move: fen; q in [-1, 1]; w, d, l (probabilities, NaN for nets with a scalar head); best, a
    move (UCI, None if the game is over). Of the net alone: best_p, the prior of its best move, moves_left (plies, NaN
    for nets without this head). Of a search, with NaN or None where the game is over: q
    is that of the best move, ±1 for a proven win or loss, root_q the mean over all visits, net_q the net's own; nodes,
    evaluations, certain (the proven result), mate (moves) and moves, a list of `RootMove`. attrs: net {name, sha256}.

    Raises UsageError for a text that is not a position and for wrong parameters, ValueRepairError for a file that is
    not a net.
    """
    import pandas as pd

    rows = list(_positions(positions))
    with _opened(net, device) as opened:
        table: pd.DataFrame
        if nodes == 1:
            table = _frame_of_net(opened, rows)
        else:
            records = _searched(opened, iter(rows), nodes, params)
            table = pd.DataFrame([_row(record) for record in records], columns=list(_COLUMNS))
        table.attrs["net"] = {"name": opened.identity.name, "sha256": opened.identity.key}
    if isinstance(positions, pd.DataFrame):
        table.index = positions.index
    return table


def evaluate_each(
    positions: Positions,
    net: Path | Net | None = None,
    nodes: int = 1,
    params: SearchParams | None = None,
    *,
    device: str = "auto",
) -> Iterator[EvaluatedPosition | Searched]:
    """As `evaluate`, but yields a record of each position once it is known, and reads positions only when needed.

    At one node it is an `EvaluatedPosition`, else a `Searched`, whose `result` (a `SearchResult`) has the moves with
    visits and priors; it is None where the game is over, as `reason` says. Many positions are searched at once, in
    common batches. The positions of a file are ``read_positions("some.epd")``. Raises as `evaluate`; a wrong first
    position is reported before the net is opened.
    """
    unread = _positions(positions)
    checked = chain(list(islice(unread, 1)), unread)
    with _opened(net, device) as opened:
        if nodes != 1:
            yield from _searched(opened, checked, nodes, params)
            return
        identity = opened.identity
        log.info(f"{identity.name} ({identity.value_head} value head) on {opened.where}; from the side to move")
        size = 1  # the first one at once
        while batch := list(islice(checked, size)):
            yield from _evaluated(opened, batch)
            size = _AT_ONCE


def _searched(net: Net, positions: Iterator[Position], nodes: int, params: SearchParams | None) -> Iterator[Searched]:
    from valuerepair.mcts.params import SearchParams
    from valuerepair.oracles.searching import search_positions

    check_least("--nodes", nodes)
    chosen = params or SearchParams()
    chosen.check()
    return search_positions(net, chosen, positions, nodes)


def _frame_of_net(net: Net, positions: list[Position]) -> pd.DataFrame:
    import pandas as pd

    values = net.evaluate(PositionBatch.from_positions(positions))
    best = [decode_move(move) if move else None for move in values.best_move.tolist()]
    table: pd.DataFrame = pd.DataFrame(
        {
            "fen": [position.fen for position in positions],
            "q": values.q,
            **{name: values.wdl[:, i] for i, name in enumerate("wdl")},
            "best": pd.Series(best, dtype=object),
            **{name: getattr(values, name) for name in ("best_p", "moves_left")},
        }
    )
    return table


_COLUMNS = ("fen", "q", "w", "d", "l", "best", "root_q", "net_q", "nodes", "evaluations", "certain", "mate", "moves")


def _row(searched: Searched) -> dict[str, Any]:
    """`_COLUMNS` of a searched position; the first alone where the game is over."""
    row: dict[str, Any] = {"fen": searched.position.fen}
    if (result := searched.result) is None:
        return row
    wdl = dict(zip("wdl", result.value.wdl, strict=True))
    names = ("q", "root_q", "net_q", "nodes", "evaluations", "certain", "mate", "moves")
    return row | wdl | {name: getattr(result, name) for name in names} | {"best": result.best_move}


@dataclass(frozen=True, slots=True)
class EvaluatedPosition:
    """A net's values of a position without search, from the side to move.

    `q` lies in [-1, 1]; `wdl` are probabilities, None for nets with a scalar head; `moves_left` plies, None for nets
    without this head; `top` the legal moves by their priors: (UCI, SAN, prior). `reason` says why the game is over, ""
    if it is not; the net's values take no account of it.
    """

    position: Position
    net: NetIdentity
    q: float
    wdl: tuple[float, ...] | None
    moves_left: float | None
    top: tuple[tuple[str, str, float], ...]
    reason: str = ""

    def lines(self) -> list[str]:
        """The values for a terminal, the moves of the highest priors, and an empty line."""
        wdl = "" if self.wdl is None else f"   {wdl_words(self.wdl)}"
        moves = [f"  {san:8}{uci:6}{100 * p:6.2f} %" for uci, san, p in self.top[:_SHOWN]]
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
            "top": [{"uci": uci, "san": san, "p": p} for uci, san, p in self.top],
            **({"error": self.reason} if self.reason else {}),
        }


def _evaluated(net: Net, positions: list[Position]) -> Iterator[EvaluatedPosition]:
    from chess import Board

    from valuerepair.chess.position_text import san
    from valuerepair.oracles.oracle import game_over

    values, (moves, offsets, p) = net.evaluate_with_priors(PositionBatch.from_positions(positions))
    for i, position in enumerate(positions):
        row = slice(offsets[i], offsets[i + 1])
        order = np.argsort(-p[row], kind="stable")
        best = moves[row][order]
        yield EvaluatedPosition(
            position,
            net.identity,
            float(values.q[i]),
            None if np.isnan(values.wdl[i, 0]) else tuple(values.wdl[i].tolist()),
            None if np.isnan(values.moves_left[i]) else float(values.moves_left[i]),
            tuple(zip(decode_moves(best), san(position, best), p[row][order].tolist(), strict=True)),
            "" if offsets[i] < offsets[i + 1] else game_over(Board(position.fen)) or "",
        )


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
def _opened(net: Path | Net | None, device: str) -> Iterator[Net]:
    """The open net; closed afterwards if it was opened here."""
    from valuerepair.nets.net import Net, open_net

    if isinstance(net, Net):
        yield net
        return
    with open_net(net, device=device) as opened:
        yield opened
