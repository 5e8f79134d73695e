"""Nets asked about positions: `evaluate` at one node, `search` by the built-in MCTS."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from valuerepair.api.stores import Candidate
from valuerepair.chess.positions import Position, PositionBatch, decode_move
from valuerepair.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.mcts.params import SearchParams
    from valuerepair.nets.net import Net
    from valuerepair.oracles.searching import Searched

DEFAULT_NODES = 800
# One position: text as `vr eval` takes it, a position, or a candidate.
One: TypeAlias = "str | Position | Candidate"
# One or many, or a frame of a store with its texts.
Positions: TypeAlias = "One | Iterable[One] | pd.DataFrame"


def evaluate(positions: Positions, net: str | Net | None = None) -> pd.DataFrame:
    """What a net thinks of positions before it searches (one node): a row each, in their order.

    `positions`: one or many; each a text (a FEN, an EPD line, ``startpos moves e2e4``), a `Position` or a `Candidate`;
    or a frame of `MinedStore.frame`, whose index the result has, so that it can be joined. What is known of the history
    goes into the net. `net` is a name or a file (.pb.gz, .pb, .onnx), None the default net, pulled once; or an open
    `Net`, which saves opening it again and is not closed.

    Columns, from the side to move: fen; q in [-1, 1]; w, d, l (probabilities, NaN of nets with a scalar head); best,
    the move of the highest prior (UCI, None where the game is over), best_p its prior, entropy of the policy (nats),
    moves_left (plies, NaN of nets that do not say). attrs: net {name, sha256, history_fill}.

    Raises UsageError for a text that is no position, ValueRepairError for what is no net.
    """
    import pandas as pd

    rows = list(read_positions(positions))
    with _opened(net) as used:
        found = used.evaluate(PositionBatch.from_positions(rows))
        about = {"name": used.identity.name, "sha256": used.identity.key, "history_fill": used.history_fill}
    best = [decode_move(move) if move else None for move in found.best_move.tolist()]
    table: pd.DataFrame = pd.DataFrame(
        {
            "fen": [row.fen for row in rows],
            "q": found.q,
            **{name: found.wdl[:, i] for i, name in enumerate("wdl")},
            "best": pd.Series(best, dtype=object),
            **{name: getattr(found, name) for name in ("best_p", "entropy", "moves_left")},
        }
    )
    if isinstance(positions, pd.DataFrame):
        table.index = positions.index
    table.attrs["net"] = about
    return table


def search(
    positions: Positions,
    nodes: int | None = None,
    net: str | Net | None = None,
    params: SearchParams | None = None,
    *,
    seconds: float | None = None,
    tree_nodes: int = 0,
) -> list[Searched]:
    """Searches positions by the built-in MCTS: a `Searched` each, in their order.

    `positions` and `net` are as in `evaluate`. Each search ends at `nodes` visits of its root (800 where neither limit
    is given) or after `seconds`. `params` are lc0's parameters and those of this project, as in
    ``SearchParams(certainty=True, cpuct=2.5)``. Many positions without `seconds` grow at once, in common batches; with
    `tree_nodes` one after the other, and `tree` keeps so many nodes of each, the most visited ones (`write_tree`).

    Of each, `result` is a `SearchResult` (q, best_move, moves with visits and priors, ...) with values from the side to
    move (`q` of the best move, ±1 where it is proven to win or lose; `root_q` the mean over all visits), or None where
    `reason` says why there was nothing to search (the game is over). Raises UsageError for a wrong position, limit or
    parameter, ValueRepairError for what is no net.
    """
    from valuerepair.mcts.params import SearchParams
    from valuerepair.oracles.searching import search_positions

    chosen = params or SearchParams()
    chosen.check()
    if nodes is not None and nodes < 1:
        raise UsageError(f"nodes={nodes}: must be at least 1")
    if seconds is not None and not seconds > 0:
        raise UsageError(f"seconds={seconds:g}: must be above 0")
    limit = DEFAULT_NODES if nodes is None and seconds is None else nodes
    rows = list(read_positions(positions))
    with _opened(net) as used:
        return list(search_positions(used, chosen, rows, nodes=limit, seconds=seconds, tree_nodes=tree_nodes))


def read_positions(positions: Positions) -> Iterator[Position]:
    """The positions that one or many texts, positions or candidates mean, or the rows of a store's frame.

    Raises UsageError for a text that is no position and for a frame without its texts.
    """
    import pandas as pd

    if isinstance(positions, str | Position | Candidate):
        yield _position(positions)
    elif isinstance(positions, pd.DataFrame):
        yield from _of_frame(positions)
    else:
        yield from map(_position, positions)


def _position(one: One) -> Position:
    if isinstance(one, Position):
        return one
    if isinstance(one, Candidate):
        return one.position
    if isinstance(one, str):
        from valuerepair.nets.position_text import read_argument

        return read_argument(one, ())
    raise UsageError(f"{one!r}: give a FEN, a Position or a Candidate")


def _of_frame(frame: pd.DataFrame) -> Iterator[Position]:
    columns = ("fen", "start_fen", "moves", "ply", "history_known")
    if absent := [name for name in columns if name not in frame.columns]:
        raise UsageError(f"this frame has no column {absent[0]!r}; take one of store.frame() with its texts")
    for fen, start_fen, moves, ply, known in frame[list(columns)].itertuples(index=False):
        yield Position(fen, start_fen, tuple(moves.split()), int(ply), history_known=bool(known))


@contextmanager
def _opened(net: str | Net | None) -> Iterator[Net]:
    """The net that is meant; closed afterwards if it was opened here."""
    from valuerepair.nets.net import Net, open_net

    if isinstance(net, Net):
        yield net
        return
    with open_net(net) as used:
        yield used
