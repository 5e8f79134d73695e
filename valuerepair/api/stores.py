"""A store open for reading: its rows as frames, its candidates as records, its figures."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from valuerepair.api.calls import (
    Asked,
    Path,
    Stored,
    asked_with,
    opened_store,
    paths_of,
    plain,
    resolved,
)
from valuerepair.chess.origins import Origin
from valuerepair.chess.positions import Position
from valuerepair.chess.values import DEFAULT_ALPHA, OF_WDL, Alpha, FitTo
from valuerepair.errors import UsageError, check_least, check_word, nearest
from valuerepair.question import DEFAULT_THRESHOLD, Question, check_threshold
from valuerepair.store import alpha as alphas
from valuerepair.store import plays, view
from valuerepair.store.pairs import judge_of, net_key, pick
from valuerepair.store.store import Store

if TYPE_CHECKING:
    import pandas as pd
    from chess import Board

    from valuerepair.report.show import ShownPosition
    from valuerepair.report.stats import StoreStats
    from valuerepair.store.merge import Merged

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A position that net and deep search judge differently. All values are from its side to move, Q in [-1, 1].

    `deep_q` comes from `cp` (centipawns) or `mate` (moves, negative: mated) or the search's own Q; `disagreement` is
    net Q - deep Q, in [-2, 2], above 0 if the net is too optimistic;
    `moves` (UCI) lead from `start_fen` to `fen`; `ply` counts half-moves since move 1. `net_best`, `deep_best` and
    `played` are the moves that the net's policy, the search and the game chose, None if unknown; `pv` is the search's
    line. `weight` is the number of positions that the row represents (1 without screening). `labels` are the words of
    `vr books --label`, `verdict` is one of ``search right``, ``net right``, ``unclear``, or None without a second
    look.
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
    disagreement: float
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
    def white_to_move(self) -> bool:
        """Whether White is the side to move, from which all values are."""
        return self.fen.split(" ", 2)[1] == "w"

    @property
    def position(self) -> Position:
        """The position with its history, an argument of `valuerepair.evaluate` and `valuerepair.search`."""
        origin = Origin(source=self.source, game=self.game, played=self.played, result=self.result)
        return Position(
            self.fen, self.start_fen, self.moves, ply=self.ply, history_known=self.history_known, origin=origin
        )


class MinedStore(Store):
    """A store open for reading: `frame`, `candidates`, `iter_candidates`, `stats`.

    Open it by `valuerepair.open_store`; use it from one thread, and close it or use it as a context manager. Reading
    does not disturb a `vr mine` that is writing to the same file.

    A `Question` says which net and judge, which alpha and which threshold; None is what is in use (`vr stats --use`).
    `Worst` takes a share of the positions instead of a threshold. Anything else raises UsageError.
    """

    def frame(
        self,
        question: Asked = None,
        *,
        text: bool = True,
        only: Sequence[str] | None = None,
        screened: bool = False,
        labels: bool = False,
        verdicts: bool = False,
        outcomes: bool = False,
    ) -> pd.DataFrame:
        """All positions scored by net and judge, one row each, by position_id: a tidy frame (see `store.view.frame`).

        Values are from the side to move: `net_q`, `deep_q` in [-1, 1], `disagreement` = net_q - deep_q. `weight` is the
        number of positions that the row represents: rates and means need it after screening. `text=False` omits FENs,
        moves and names, which is faster; `only` reads the columns it names, which is fastest. `screened` adds the
        positions that screening left out, with the values of the short search, a column `screened` and weight 0, so
        that rates do not change.

        - `labels` joins the columns of `measure.labels.labels_of`, and ``labels``, their words as a frozenset.
        - `verdicts` joins ``verdict``, ``second_q`` and the other columns of the second looks.
        - `outcomes` joins ``z``, the mean result of the games played from the position (for its side to move, in
          [-1, 1], NaN without any), and ``z_games``, their number.

        attrs: net, oracle (the judge), alpha {value, origin}, q_from. Raises ValueRepairError if no position is scored
        or a name matches none, UsageError for `only` with columns to join or with an unknown column.
        """
        if only is not None and (labels or verdicts or outcomes):
            raise UsageError("only= reads single columns, and labels, verdicts and outcomes are joined to whole rows")
        columns = (*view.COLUMNS, *view.MORE)
        if unknown := next((name for name in only or () if name not in columns), None):
            raise UsageError(f"only= names columns of a frame, not {unknown!r}{nearest(unknown, columns)}")
        frame = view.frame(self, resolved(self, question), text=text or labels, only=only, screened=screened)
        return self._joined(frame, labels, verdicts, outcomes)

    def candidates(
        self, question: Asked = None, *, labels: bool = False, verdicts: bool = False, outcomes: bool = False
    ) -> pd.DataFrame:
        """The rows of `frame` with ``|disagreement| >= question.threshold``, the largest first."""
        return self._joined(view.candidates(self, resolved(self, question)), labels, verdicts, outcomes)

    def iter_candidates(self, question: Asked = None) -> Iterator[Candidate]:
        """The candidates as `Candidate` records with labels and verdicts, the largest disagreement first."""
        frame = self.candidates(question, labels=True, verdicts=True)
        return (_candidate(row) for row in frame.to_dict("records"))

    def stats(self, question: Asked = None) -> dict[str, Any]:
        """The contents of the store, JSON-able: `vr stats --json`."""
        from valuerepair.report.stats import store_stats

        return store_stats(self, resolved(self, question)).as_json()

    def _joined(self, frame: pd.DataFrame, labels: bool, verdicts: bool, outcomes: bool) -> pd.DataFrame:
        """The frame with the requested columns joined; the attrs stay."""
        import pandas as pd

        joined = frame
        if labels:
            from valuerepair.measure.labels import names, with_labels

            joined = with_labels(self, frame)
            joined = joined.assign(labels=pd.Series(names(joined), joined.index, object))
        if verdicts:
            from valuerepair.mining import again

            joined = joined.join(again.evidence(self, frame))
        if outcomes:
            played = plays.outcomes(self)
            ids, played_ids = frame["position_id"], played.ids.tolist()
            mean_z = dict(zip(played_ids, played.z.tolist(), strict=True))
            games = dict(zip(played_ids, played.games.tolist(), strict=True))
            joined = joined.assign(z=ids.map(mean_z).astype(np.float64), z_games=ids.map(games).fillna(0).astype(int))
        joined.attrs.update(frame.attrs)
        return joined


def stats(
    store: Stored = "valuerepair.db",
    question: Asked = None,
    *,
    worst: int = 0,
    use: Mapping[str, str] | None = None,
) -> StoreStats:
    """How often the net is wrong, how sure that is, where, what kind of errors, who was right, the cost: `vr stats`.

    `use` says what this and all later questions to the store use, as the words of `vr stats --use`:
    ``{"alpha": "slope", "threshold": "0.4"}``. `worst` is the number of candidates to list, the largest disagreement
    first.

    Returns the `StoreStats`: `lines()` is the output of `vr stats`, `details()` what ``-v`` adds, `as_json()` all.
    Raises UsageError for wrong arguments, ValueRepairError for a net or a judge that has no values.
    """
    from valuerepair.report.stats import store_stats

    check_least("--worst", worst, 0)
    for name in use or ():
        check_word("--use", name, _IN_USE)
    if use:
        with opened_store(store, write=True) as opened, opened.writing():
            question = _use(opened, question, use)
        log.info(f"in use: {', '.join(f'{name} {words}' for name, words in use.items())}")
    with opened_store(store) as opened, opened.snapshot():
        return store_stats(opened, resolved(opened, question), worst=worst)


_IN_USE = ("net", "judge", "threshold", "alpha")  # alpha last: it is that of the judge


def _use(store: Store, question: Asked, use: Mapping[str, str]) -> Asked:
    """Sets what is in use. Returns the question, with the new threshold if there is one."""
    for name, words in sorted(use.items(), key=lambda item: _IN_USE.index(item[0])):
        if words == "auto":
            store.use(**{name: None})
            question = asked_with(question, threshold=DEFAULT_THRESHOLD) if name == "threshold" else question
        elif name == "threshold":
            try:
                threshold = float(words)
            except ValueError:
                raise UsageError(f"--use threshold={words}: give a number; worst:2% is for one command") from None
            check_threshold(threshold)
            store.use(threshold=threshold)
            question = asked_with(question, threshold=threshold)
        elif name == "net":
            net_id = pick(store, words)[0]
            store.use(net=net_key(store, net_id))
        elif name == "judge":
            store.use(judge=judge_of(store, pick(store, None, words)[1]).digest)
        else:
            _use_alpha(store, plain(question), words)
    return question


def _use_alpha(store: Store, question: Question, words: str) -> None:
    """Puts an alpha in use: a number, a fit (slope, results), or Q from W/D/L (wdl)."""
    pair = pick(store, question.net, question.oracle)
    if words == "wdl":
        alphas.use_alpha(store, pair, Alpha(DEFAULT_ALPHA, OF_WDL), q_from="wdl")
    elif (name := next((name for name in get_args(FitTo) if name == words), None)) is not None:
        alphas.use_fit(store, pair, name)
    else:
        try:
            alphas.use_alpha(store, pair, Alpha(float(words), "given"))
        except ValueError:
            raise UsageError(f"--use alpha={words}: give centipawns, slope, results, wdl or auto") from None


def show(
    store: Stored,
    position: str | int | Board | Position | Candidate,
    question: Asked = None,
    *,
    svg: Path | None = None,
) -> ShownPosition:
    """All facts of a store about one position: `vr show`.

    `position` is a FEN, an EPD line, the position_id of one in the store, a ``Board`` of python-chess, a `Position` or
    a `Candidate`. `svg` is a file for the board with arrows.

    Returns the `ShownPosition`: `facts`, values from the side to move; `lines()` is the board and the facts as text,
    `as_json()` is the output of `vr show --json`. Raises UsageError for an illegal position, ValueRepairError for one
    that the store does not have.
    """
    from valuerepair.report.show import ShownPosition, describe

    if svg is not None and not os.fspath(svg).lower().endswith(".svg"):
        raise UsageError(f"--svg {os.fspath(svg)}: its name ends in .svg")
    with opened_store(store) as opened:
        result = ShownPosition(describe(opened, _query_text(position), resolved(opened, question)))
    if svg is not None:
        result.write_svg(svg)
    return result


def merge_stores(stores: Path | Iterable[Path], output: Path = "merged.db") -> Merged:
    """Merges stores, for example those of several machines, into a new one, or into one that exists: `vr merge`.

    Positions, games, nets and judges are known by their content, so merging a store twice changes nothing. A value
    counts before a failed search; of different values the first store's stay. The result appears whole or not at all.
    Returns `Merged`: the `rows`, those `added`, and the `contradictions`.
    Raises ValueRepairError for files that cannot be merged.
    """
    from valuerepair.store.merge import merge

    return merge(paths_of(stores), os.fspath(output))


def open_store(path: Path = "valuerepair.db") -> MinedStore:
    """Opens the store at `path` for reading; close it, or use it as a context manager.

    Raises ValueRepairError, one line each: no such file, not a store, written by a newer version, no permission.
    """
    return MinedStore.open(path)


def _query_text(position: object) -> str:
    """A position as a text for `report.show.find_position`: the FEN, the position_id, or the text itself."""
    fen = getattr(position, "fen", position)
    return str(fen() if callable(fen) else fen)  # a chess.Board's is a method


def _candidate(row: Mapping[Any, Any]) -> Candidate:
    columns = ("position_id", "fen", "start_fen", "history_known", "ply", "phase", "net_q", "deep_q", "disagreement",
             "weight", "labels",
             "source", "game", "net_best", "deep_best", "played", "white", "black", "result", "verdict")  # fmt: skip
    return Candidate(
        **{name: row[name] for name in columns},
        moves=tuple(row["moves"].split()),
        pv=tuple(row["pv"].split()),
        cp=None if math.isnan(row["cp"]) else int(row["cp"]),
        mate=None if math.isnan(row["mate"]) else int(row["mate"]),
    )
