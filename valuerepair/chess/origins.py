"""Where positions were found, and which evaluations are recorded there: as records, and as columns of many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

# How a position came about: it stood in a game (or in a list of positions); it was reached from such a one by a legal
# move drawn at random, by the policy's 3rd to 6th move, or in a short search of the net (`archives.aside`).
Kind = Literal["game", "aside", "policy", "search"]
GAME: Kind = "game"
BESIDE: tuple[Kind, ...] = ("aside", "policy", "search")
KINDS: tuple[Kind, ...] = (GAME, *BESIDE)


@dataclass(frozen=True, slots=True)
class Recorded:
    """An evaluation of a position that its archive holds, from the side to move.

    `kind` is the kind of record (`valuerepair.archives.options.KINDS`), `by` who evaluated, where that is
    known. `cp`, `mate`, `wdl` and `q` are as in `DeepResult`; of `depth`, `seldepth` (plies), `nodes`
    and `time_ms` 0 says that it was not recorded. `net_q` and `net_d` are the net's own value and its probability of a
    draw before the search, where the record has those too.
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


@dataclass(frozen=True, slots=True)
class OriginGame:
    """A game in which positions were found; the fields are those of `Origin`, `number` is its `game`."""

    source: str = ""
    number: int = 0
    offset: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    result: str | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a position was found.

    `source` is the file as the user named it, `game` the 1-based number of the game (or line) in it, `offset` the
    byte at which it begins in the decompressed stream. `played` is the move made there (UCI), `result` the game's
    (``1-0``, ``0-1``, ``1/2-1/2`` or ``*``). A `recorded` evaluation is None where there is none. `kind` is how the
    position came about; of one beside a game the other fields are of that game, and nothing was played or recorded.
    """

    source: str = ""
    game: int = 0
    offset: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    played: str | None = None
    result: str | None = None
    recorded: Recorded | None = None
    kind: Kind = GAME

    @property
    def eval_cp(self) -> int | None:
        """The centipawns of the recorded evaluation."""
        return None if self.recorded is None else self.recorded.cp

    @property
    def eval_mate(self) -> int | None:
        """The moves to mate of the recorded evaluation."""
        return None if self.recorded is None else self.recorded.mate

    @property
    def game_of(self) -> OriginGame:
        """The game it was found in."""
        return OriginGame(self.source, self.game, self.offset, self.headers, self.result)


@dataclass(frozen=True, slots=True)
class QColumns(Sequence[Recorded]):
    """n recorded evaluations of one kind that are Q already, as columns: a row becomes a `Recorded` when asked for.

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
        best = self.best_move[i]
        return Recorded(
            self.kind,
            wdl=(win, draw, loss),
            q=float(self.q[i]),
            nodes=int(self.nodes[i]),
            best_move=best,
            pv=(best,) if best else (),
            net_q=float(self.net_q[i]),
            net_d=float(self.net_d[i]),
        )

    def take(self, rows: NDArray[np.int64]) -> QColumns:
        """The given rows, in the given order."""
        best = picked(self.best_move, rows)
        wdl, nodes = self.wdl[rows], self.nodes[rows]
        return QColumns(self.kind, self.q[rows], wdl, nodes, best, self.net_q[rows], self.net_d[rows])

    @staticmethod
    def concat(parts: Sequence[QColumns]) -> QColumns:
        """The rows of all parts, which are of one kind."""
        q, wdl, nodes, net_q, net_d = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("q", "wdl", "nodes", "net_q", "net_d")
        )
        best = list(chain.from_iterable(part.best_move for part in parts))
        return QColumns(parts[0].kind, q, wdl, nodes, best, net_q, net_d)


RecordedColumn = Sequence[Recorded | None] | QColumns
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Origins(Sequence[Origin]):
    """n origins as columns: a row becomes an `Origin` when asked for. `game` has the same object for rows of one game
    that lie together; `recorded` is None where no row has an evaluation, `kinds` where all stood in games."""

    game: Sequence[OriginGame]
    played: Sequence[str | None]
    recorded: RecordedColumn | None = None
    kinds: Sequence[Kind] | None = None

    @staticmethod
    def of(origins: Sequence[Origin]) -> Origins:
        """The columns of any origins."""
        if isinstance(origins, Origins):
            return origins
        kinds = [origin.kind for origin in origins]
        return Origins(
            _runs(origin.game_of for origin in origins),
            [origin.played for origin in origins],
            [origin.recorded for origin in origins],
            kinds if any(kind != GAME for kind in kinds) else None,
        )

    @property
    def kind(self) -> Sequence[Kind]:
        """[n] how each position came about."""
        return [GAME] * len(self) if self.kinds is None else self.kinds

    def scores(self, name: Literal["cp", "mate"]) -> list[int | None]:
        """[n] centipawns or moves to mate of the evaluations."""
        if self.recorded is None or isinstance(self.recorded, QColumns):
            return [None] * len(self)
        return [None if found is None else getattr(found, name) for found in self.recorded]

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
        return Origin(game.source, game.number, game.offset, game.headers, self.played[i], game.result, recorded, kind)

    def take(self, rows: NDArray[np.int64]) -> Origins:
        """The given rows, in the given order."""
        recorded: RecordedColumn | None = self.recorded
        if recorded is not None:
            recorded = recorded.take(rows) if isinstance(recorded, QColumns) else picked(recorded, rows)
        kinds = None if self.kinds is None else picked(self.kinds, rows)
        return Origins(picked(self.game, rows), picked(self.played, rows), recorded, kinds)

    @staticmethod
    def concat(parts: Sequence[Origins]) -> Origins:
        """The rows of all parts, in order."""

        def joined(name: str, missing: Any = None) -> Any:
            columns = [getattr(part, name) for part in parts]
            if all(column is None for column in columns):
                return None
            rows = zip(parts, columns, strict=True)
            return list(chain(*([missing] * len(part) if column is None else column for part, column in rows)))

        found = [part.recorded for part in parts]
        columns = [part for part in found if isinstance(part, QColumns)]
        of_one_kind = len(columns) == len(found) and len({part.kind for part in columns}) == 1
        recorded = QColumns.concat(columns) if of_one_kind else joined("recorded")
        return Origins(joined("game"), joined("played"), recorded, joined("kinds", GAME))


def _runs(games: Iterable[OriginGame]) -> list[OriginGame]:
    """Equal games that lie together as one object."""
    found: list[OriginGame] = []
    for game in games:
        found.append(found[-1] if found and found[-1] == game else game)
    return found


def picked(column: Sequence[T], rows: NDArray[np.int64]) -> list[T]:
    """The given rows of a column of objects."""
    return [column[i] for i in rows.tolist()]
