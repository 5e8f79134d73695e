"""A store open for reading: frames with what is known about each row, and candidates as records."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from valuerepair.errors import UsageError
from valuerepair.positions import Origin, Position
from valuerepair.store import plays
from valuerepair.store.queries import QFrom
from valuerepair.store.store import Store

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_THRESHOLD = 0.55


@dataclass(frozen=True, slots=True)
class Candidate:
    """A position that net and deep search judge differently. All values are from its side to move, Q in [-1, 1].

    `deep_q` comes from `cp` (centipawns) or `mate` (moves, negative: mated) or the search's own Q; `moves` (UCI) lead
    from `start_fen` to `fen`; `ply` counts half-moves since move 1. `net_best`, `deep_best` and `played` are the moves
    that the net's policy, the search and the game chose, None where unknown; `pv` is the search's line. `weight` is how
    many positions the row stands for (screening; 1 without). `labels` are the words of `vr books --label`, `verdict` is
    one of ``search right``, ``net right``, ``unresolved``, or None where no second look was taken.
    """

    position_id: int
    fen: str
    start_fen: str
    moves: tuple[str, ...]
    history_known: bool
    ply: int
    phase: str
    net_q: float
    deep_q: float
    cp: int | None
    mate: int | None
    net_best: str | None
    deep_best: str | None
    played: str | None
    pv: tuple[str, ...]
    weight: float
    labels: frozenset[str]
    verdict: str | None
    source: str
    game: int
    white: str | None
    black: str | None
    result: str | None

    @property
    def disagreement(self) -> float:
        """net Q - deep Q, in [-2, 2]; above 0 the net is too optimistic."""
        return self.net_q - self.deep_q

    @property
    def white_to_move(self) -> bool:
        """Whose view all values are from."""
        return self.fen.split(" ", 2)[1] == "w"

    @property
    def position(self) -> Position:
        """The position with its history, as `valuerepair.evaluate` and `valuerepair.search` take it."""
        origin = Origin(source=self.source, game=self.game, played=self.played, result=self.result)
        return Position(
            self.fen, self.start_fen, self.moves, ply=self.ply, history_known=self.history_known, origin=origin
        )


class MinedStore(Store):
    """A store open for reading: `frame`, `candidates`, `iter_candidates`, `stats`, `nets`, `oracles`.

    Open it by `valuerepair.open_store`; use it from one thread, and close it or use it as a context manager. Reading
    does not disturb a `vr mine` that is writing to the same file.

    Everywhere `net` and `oracle` are words for one of each: a name, a label, the beginning of a hash; None is the pair
    with most scored positions. `alpha` are centipawns of the logistic to Q, None the stored or fitted ones. `q_from` is
    where deep Q comes from, ``cp`` or ``wdl``.
    """

    def frame(
        self,
        net: str | None = None,
        oracle: str | None = None,
        alpha: float | None = None,
        q_from: QFrom = "cp",
        *,
        text: bool = True,
        only: Sequence[str] | None = None,
        labels: bool = False,
        verdicts: bool = False,
        outcomes: bool = False,
    ) -> pd.DataFrame:
        """All positions scored by net and oracle, one row each, by position_id: a tidy frame (see `queries.frame`).

        Values are from the side to move: `net_q`, `deep_q` in [-1, 1], `disagreement` = net_q - deep_q. `weight` is how
        many positions the row stands for: rates and means need it where screening cut. `text=False` leaves FENs, moves
        and names out, which is faster; `only` reads the columns it names, which is fastest.

        - `labels` joins the columns of `candidates.labels.label_frame`, and ``labels``, their words as a frozenset.
        - `verdicts` joins ``verdict``, ``second_q`` and the other columns of `candidates.verdict.evidence`.
        - `outcomes` joins ``z``, the mean result of the games played from the position (for its side to move, in
          [-1, 1], NaN without any), and ``z_games``, their number.

        attrs: net, oracle, alpha {value, origin}, q_from. Raises ValueRepairError where nothing is scored or a word
        fits nothing, UsageError for `only` with anything to join.
        """
        if only is not None and (labels or verdicts or outcomes):
            raise UsageError("only= reads single columns, and labels, verdicts and outcomes are joined to whole rows")
        found = super().frame(net, oracle, alpha, q_from, text=text or labels, only=only)
        return self._joined(found, labels, verdicts, outcomes)

    def candidates(
        self,
        threshold: float = DEFAULT_THRESHOLD,
        net: str | None = None,
        oracle: str | None = None,
        alpha: float | None = None,
        q_from: QFrom = "cp",
        *,
        labels: bool = False,
        verdicts: bool = False,
        outcomes: bool = False,
    ) -> pd.DataFrame:
        """The rows of `frame` with ``|disagreement| >= threshold``, the largest first.

        Raises UsageError for a threshold outside (0, 2].
        """
        return self._joined(super().candidates(threshold, net, oracle, alpha, q_from), labels, verdicts, outcomes)

    def iter_candidates(
        self,
        threshold: float = DEFAULT_THRESHOLD,
        net: str | None = None,
        oracle: str | None = None,
        alpha: float | None = None,
        q_from: QFrom = "cp",
    ) -> Iterator[Candidate]:
        """The candidates as `Candidate` records with labels and verdicts, the largest disagreement first."""
        frame = self.candidates(threshold, net, oracle, alpha, q_from, labels=True, verdicts=True)
        return (_candidate(row) for row in frame.to_dict("records"))

    def _joined(self, frame: pd.DataFrame, labels: bool, verdicts: bool, results: bool) -> pd.DataFrame:
        """The frame with what was asked for as further columns; the attrs stay."""
        import pandas as pd

        joined = frame
        if labels:
            from valuerepair.candidates.labelled import names, with_labels

            joined = with_labels(self, frame)
            joined = joined.assign(labels=pd.Series(names(joined), joined.index, object))
        if verdicts:
            from valuerepair.candidates import verdict

            joined = joined.join(verdict.evidence(self, frame))
        if results:
            found = plays.outcomes(self)
            ids = frame["position_id"]
            joined = joined.assign(
                z=ids.map(dict(zip(found.ids.tolist(), found.z.tolist(), strict=True))).astype(np.float64),
                z_games=ids.map(dict(zip(found.ids.tolist(), found.games.tolist(), strict=True))).fillna(0).astype(int),
            )
        joined.attrs.update(frame.attrs)
        return joined


def open_store(path: str | os.PathLike[str] = "valuerepair.db") -> MinedStore:
    """Opens the store at `path` for reading; close it, or use it as a context manager.

    Raises ValueRepairError, one line each: no such file, not a store, written by a newer version, no permission.
    """
    return MinedStore.open(path)


def _candidate(row: Mapping[Any, Any]) -> Candidate:
    taken = ("position_id", "fen", "start_fen", "history_known", "ply", "phase", "net_q", "deep_q", "weight", "labels",
             "source", "game", "net_best", "deep_best", "played", "white", "black", "result", "verdict")  # fmt: skip
    return Candidate(
        **{name: row[name] for name in taken},
        moves=tuple(row["moves"].split()),
        pv=tuple(row["pv"].split()),
        cp=None if math.isnan(row["cp"]) else int(row["cp"]),
        mate=None if math.isnan(row["mate"]) else int(row["mate"]),
    )
