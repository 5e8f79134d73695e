"""Where positions come from, and the evaluations recorded for them, as single records and as columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

# How a position was reached. A position of the kind "game" occurred in a game or in a list of positions. The others
# were reached from one of these (`archives.off_game`): by a random legal move, by the policy's 3rd to 6th move, by the
# moves to a node of a short search; or it is a neighbour of a candidate (`vr expand`).
Kind = Literal["game", "random_move", "policy_move", "search_node", "neighbour"]
GAME: Kind = "game"
BESIDE: tuple[Kind, ...] = ("random_move", "policy_move", "search_node")
NEIGHBOUR: Kind = "neighbour"
KINDS: tuple[Kind, ...] = (GAME, *BESIDE)


@dataclass(frozen=True, slots=True)
class Recorded:
    """An evaluation of a position, recorded in its archive, from the side to move.

    `kind` is the kind of record (`archives.options.RECORD_KINDS`), `by` the player who evaluated, if known. `cp`,
    `mate`, `wdl` and `q` are as in `DeepResult`. `depth`, `seldepth` (plies), `nodes` and `time_ms` are 0 if not
    recorded. `net_q` and `net_d` are Q and the probability of a draw by the net, before the search, if recorded.
    `is_scaled` says that the search multiplied the net's Q by a number (`q_scale`).
    """

    kind: str
    cp: int | None = None
    mate: int | None = None
    wdl: tuple[int, int, int] | None = None
    q: float | None = None
    depth: int = 0
    seldepth: int = 0
    nodes: int = 0
    time_ms: int = 0
    best_move: str | None = None
    pv: tuple[str, ...] = ()
    net_q: float | None = None
    net_d: float | None = None
    by: str = ""
    is_scaled: bool = False


@dataclass(frozen=True, slots=True)
class OriginGame:
    """A game that positions come from. The fields are as in `Origin`, where `number` is called `game` and
    `key` `game_key`.

    `key` is a 64-bit hash of its moves, so that a copy in another archive is the same game.
    """

    source: str = ""
    number: int = 0
    offset: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    result: str | None = None
    key: int = 0


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a position was found.

    `source` is the file as the user named it, `game` the 1-based number of the game (or line) in it, `offset` the
    byte at which the game begins in the decompressed stream. `played` is the move made in the position (UCI), `result`
    the result of the game (``1-0``, ``0-1``, ``1/2-1/2`` or ``*``), `recorded` the recorded evaluation. `kind` is how
    the position was reached; for kinds other than ``game`` `recorded` is None, `played` is known only where a neighbour
    lies in its game, and the other fields describe the game that it was reached from. `game_key` is a 64-bit hash of
    the game's moves, see `OriginGame`.
    """

    source: str = ""
    game: int = 0
    offset: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    played: str | None = None
    result: str | None = None
    recorded: Recorded | None = None
    kind: Kind = GAME
    game_key: int = 0

    @property
    def eval_cp(self) -> int | None:
        """The centipawns of the recorded evaluation."""
        return None if self.recorded is None else self.recorded.cp

    @property
    def eval_mate(self) -> int | None:
        """The moves to mate of the recorded evaluation."""
        return None if self.recorded is None else self.recorded.mate


@dataclass(frozen=True, slots=True)
class QColumns(Sequence[Recorded]):
    """n recorded evaluations of one kind, each with a Q, as columns; an index gives one of them as a `Recorded`.

    `q` float64[n], `wdl` int64[n, 3] per mille, `nodes` int64[n], `best_move` UCI texts, `net_q` and `net_d`
    float32[n]; all from the side to move, as in `Recorded`.
    """

    kind: str
    q: NDArray[np.float64]
    wdl: NDArray[np.int64]
    nodes: NDArray[np.int64]
    best_move: Sequence[str | None]
    net_q: NDArray[np.float32]
    net_d: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.q)

    @overload
    def __getitem__(self, i: int) -> Recorded: ...
    @overload
    def __getitem__(self, i: slice) -> QColumns: ...
    def __getitem__(self, i: int | slice) -> Recorded | QColumns:
        if isinstance(i, slice):
            return self.take(np.arange(*i.indices(len(self)), dtype=np.int64))
        win, draw, loss = self.wdl[i].tolist()
        best_move = self.best_move[i]
        return Recorded(
            self.kind,
            wdl=(win, draw, loss),
            q=float(self.q[i]),
            nodes=int(self.nodes[i]),
            best_move=best_move,
            pv=(best_move,) if best_move else (),
            net_q=float(self.net_q[i]),
            net_d=float(self.net_d[i]),
        )

    def take(self, rows: NDArray[np.int64]) -> QColumns:
        """The given rows, in the given order."""
        best_moves = take_rows(self.best_move, rows)
        wdl, nodes = self.wdl[rows], self.nodes[rows]
        return QColumns(self.kind, self.q[rows], wdl, nodes, best_moves, self.net_q[rows], self.net_d[rows])

    @staticmethod
    def concat(parts: Sequence[QColumns]) -> QColumns:
        """The rows of all parts; the parts must be of one kind."""
        q, wdl, nodes, net_q, net_d = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("q", "wdl", "nodes", "net_q", "net_d")
        )
        best_moves = list(chain.from_iterable(part.best_move for part in parts))
        return QColumns(parts[0].kind, q, wdl, nodes, best_moves, net_q, net_d)


RecordedColumn = Sequence[Recorded | None] | QColumns
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Origins(Sequence[Origin]):
    """n origins as columns; an index gives one of them as an `Origin`.

    Consecutive rows of one game share its object in `game`. `recorded` is None if no row has an evaluation. `kinds` is
    None if every row is of the kind ``game``; `kind` gives the kinds in any case.
    """

    game: Sequence[OriginGame]
    played: Sequence[str | None]
    recorded: RecordedColumn | None = None
    kinds: Sequence[Kind] | None = None

    @staticmethod
    def unknown(n: int) -> Origins:
        """The origins of n positions without any information about them."""
        return Origins([OriginGame()] * n, [None] * n)

    @staticmethod
    def of(origins: Sequence[Origin]) -> Origins:
        """The given origins as columns."""
        kinds = [origin.kind for origin in origins]
        return Origins(
            _shared_games(OriginGame(o.source, o.game, o.offset, o.headers, o.result, o.game_key) for o in origins),
            [origin.played for origin in origins],
            [origin.recorded for origin in origins],
            kinds if any(kind != GAME for kind in kinds) else None,
        )

    @property
    def kind(self) -> Sequence[Kind]:
        """[n] how each position was reached, also where `kinds` is None."""
        return [GAME] * len(self) if self.kinds is None else self.kinds

    def scores(self, name: Literal["cp", "mate"]) -> list[int | None]:
        """[n] the centipawns or the moves to mate of each evaluation, None without an evaluation."""
        if self.recorded is None or isinstance(self.recorded, QColumns):
            return [None] * len(self)
        return [None if recorded is None else getattr(recorded, name) for recorded in self.recorded]

    def __len__(self) -> int:
        return len(self.game)

    @overload
    def __getitem__(self, i: int) -> Origin: ...
    @overload
    def __getitem__(self, i: slice) -> Origins: ...
    def __getitem__(self, i: int | slice) -> Origin | Origins:
        if isinstance(i, slice):
            return self.take(np.arange(*i.indices(len(self)), dtype=np.int64))
        game, recorded = self.game[i], None if self.recorded is None else self.recorded[i]
        kind = GAME if self.kinds is None else self.kinds[i]
        about = game.source, game.number, game.offset, game.headers, self.played[i], game.result
        return Origin(*about, recorded, kind, game.key)

    def take(self, rows: NDArray[np.int64]) -> Origins:
        """The given rows, in the given order."""
        recorded: RecordedColumn | None = self.recorded
        if recorded is not None:
            recorded = recorded.take(rows) if isinstance(recorded, QColumns) else take_rows(recorded, rows)
        kinds = None if self.kinds is None else take_rows(self.kinds, rows)
        return Origins(take_rows(self.game, rows), take_rows(self.played, rows), recorded, kinds)

    @staticmethod
    def concat(parts: Sequence[Origins]) -> Origins:
        """The rows of all parts, in order."""

        def joined(name: str, missing: Any = None) -> Any:
            columns = [getattr(part, name) for part in parts]
            if all(column is None for column in columns):
                return None
            rows = zip(parts, columns, strict=True)
            return list(chain(*([missing] * len(part) if column is None else column for part, column in rows)))

        q_columns = [part.recorded for part in parts if isinstance(part.recorded, QColumns)]
        same_kind = len(q_columns) == len(parts) and len({part.kind for part in q_columns}) == 1
        recorded = QColumns.concat(q_columns) if same_kind else joined("recorded")
        return Origins(joined("game"), joined("played"), recorded, joined("kinds", GAME))


def _shared_games(games: Iterable[OriginGame]) -> list[OriginGame]:
    """The games, with one object for consecutive equal games."""
    shared: list[OriginGame] = []
    for game in games:
        shared.append(shared[-1] if shared and shared[-1] == game else game)
    return shared


def take_rows(column: Sequence[T], rows: NDArray[np.int64]) -> list[T]:
    """The given rows of a column of objects."""
    return [column[i] for i in rows.tolist()]
