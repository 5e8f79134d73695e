"""The results of a run, and a check that its evaluations are from the side to move."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.rows import ReadReport
from valuerepair.arrays import Flags, Floats
from valuerepair.chess import values
from valuerepair.chess.origins import Kind
from valuerepair.chess.values import DEFAULT_ALPHA, Alpha
from valuerepair.engines.kinds import kind_of
from valuerepair.question import QFrom, Question, is_candidate
from valuerepair.rates import Z95, Rate, loose_bound_words
from valuerepair.store import db_option
from valuerepair.store.columns import both_q, columns
from valuerepair.store.rows import Run
from valuerepair.store.store import Store
from valuerepair.text import format_duration, format_rate, quantity


def resume_line(run: Run) -> str:
    """The message of a run that resumes an earlier one, or repeats one that is complete."""
    if run.state != "finished":
        return f"resuming: {run.scored:,} already scored"
    scored, sampled, cut = (run.counts.get(name, 0) for name in ("scored", "sampled", "cut"))
    and_cut = f", {cut:,} cut by screening" if cut else ""
    return f"this run is complete; looking for new positions: {scored:,} of {sampled:,} already scored{and_cut}"


# The beginnings of the reasons for which `vr mine` rejects games and positions, and the filters that cause them.
_FILTERS = {
    "Elo below ": "--min-elo",
    "no Elo": "--min-elo",
    "other players": "player of SampleOptions",
    "other result": "result of SampleOptions",
    "no result": "result of SampleOptions",
    "other time control": "--time-control",
    "no known time control": "--time-control",
    "before ply ": "min_ply of SampleOptions",
    "after ply ": "max_ply of SampleOptions",
    "fewer than ": "min_pieces of SampleOptions",
    "more than ": "max_pieces of SampleOptions",
    "capture or promotion played": "quiet of SampleOptions",
    "in check": "no_check of SampleOptions",
}


def nothing_sampled(paths: Sequence[str], report: ReadReport) -> str:
    """The error of a run that sampled no position, with the filter that rejected most, if any did."""
    names = ", ".join(paths[:3]) + (", ..." if len(paths) > 3 else "")
    reasons = (report.rejected + report.rejected_positions).most_common()
    why = f" ({', '.join(f'{count:,} {reason}' for reason, count in reasons[:4])})" if reasons else ""
    rejecting = (name for reason, _ in reasons for begin, name in _FILTERS.items() if reason.startswith(begin))
    name = next(rejecting, "")
    return f"{names}: no position to mine in {quantity(report.games, 'game')}{why}{name and f'; relax {name}'}"


def next_command(
    name: str,
    store: str,
    pair: Sequence[str],
    threshold: float,
    alpha: Alpha,
    q_from: str,
    *,
    expanded: str = "no",
    split: str = "",
) -> str:
    """The command `name` (``vr books``) for the question that a run answered, to be pasted into a shell.

    It leaves out options at their defaults and those that the store knows.

    `pair` are the options that choose net and oracle (`Store.pair_options`), `split` is the file of the store's split.
    """
    words = [*db_option(store), *pair, "--threshold", f"{threshold:g}"]
    if q_from != "cp":
        words += ["--alpha", q_from]
    elif alpha.origin == "given":
        words += ["--alpha", f"{alpha.value:g}"]
    if expanded != "no":
        words += ["--expanded", expanded]
    if split:
        words += ["--split", split]
    return f"{name} {shlex.join(words)}"


NOT_DONE = "not done yet: run the same command again to resume"


@dataclass(frozen=True)
class MineSummary:
    """The end of one run.

    `sampled` positions were drawn; `scored` of them have net and deep value, `failed` could not be searched, `cut` left
    the screening ladder before the full search; `earlier` of those scored and cut are from earlier runs. `candidates`
    is the rate at the threshold, by `alpha`, among positions of games; `beside` has that of each other kind. `nodes`
    and `seconds` are of this run only. `workers` is the number of searches at a time, None if evaluations were recorded
    and nothing was searched; `remarks` are on these evaluations, or on the ladder. `turned` are warnings that values
    seem to be from another point of view; then no next command is proposed. `pair` are the options that choose net and
    oracle, empty if the store needs none; `split` is the file of the store's split. `state` is ``finished``,
    ``interrupted`` (by a signal) or ``limited`` (by `limit`).
    """

    run_id: int
    state: str
    store: str
    report: ReadReport
    sampled: int
    scored: int
    earlier: int
    cut: int
    failed: int
    candidates: Rate
    beside: Mapping[Kind, Rate]
    threshold: float
    alpha: Alpha
    q_from: str
    net: str
    provider: str
    oracle: str
    workers: int | None
    nodes: int
    seconds: float
    remarks: Sequence[str]
    turned: Sequence[str]
    pair: Sequence[str]
    split: str

    def counts(self) -> dict[str, Any]:
        """The counts that the store records; they do not depend on how often the run was interrupted."""
        return {
            "sampled": self.sampled,
            "scored": self.scored,
            "cut": self.cut,
            "failed": self.failed,
            "games": self.report.games,
            "games_rejected": dict(self.report.rejected),
            "positions_rejected": dict(self.report.rejected_positions),
            "truncated": [list(cut) for cut in self.report.truncated],
        }

    def lines(self) -> list[str]:
        """The summary for a terminal, with what to do next."""
        speed = f", {format_rate(self.nodes / self.seconds)}" if self.seconds and self.nodes else ""
        if self.workers is None and self.seconds:
            speed = f", {quantity(round(self.report.looked_at / self.seconds), 'position')} read per second"
        cut = f"{self.cut:,} cut by screening, " if self.cut else ""
        scored = f"scored: {self.scored:,} of {self.sampled:,}, {cut}{self.failed:,} failed"
        earlier = f", {self.earlier:,} of them before" if self.earlier else ""
        why_loose = loose_bound_words(self.candidates.few_drawn)
        at_once = "" if self.workers is None else f", {self.workers} at once"
        return [
            *self.report.lines(),
            f"net: {self.net} on {self.provider}",
            f"deep: {self.oracle}{at_once}",
            *self.remarks,
            *self.turned,
            f"{scored}{earlier}; {format_duration(self.seconds)}{speed}",
            f"deep Q from: {self.alpha.source(self.q_from)}",
            f"candidates at {self.threshold:g}: {self.candidates}{f'; {why_loose}' if why_loose else ''}",
            *(f"beside the games ({kind}): {rate}" for kind, rate in self.beside.items()),
            *self._next(),
        ]

    def _next(self) -> list[str]:
        if self.state != "finished":
            return [NOT_DONE]
        if self.turned:
            return []
        if self.candidates.count or any(rate.count for rate in self.beside.values()):
            words = (self.store, self.pair, self.threshold, self.alpha, self.q_from)
            expanded = "no" if self.candidates.count else "searched"
            books = next_command("vr books", *words, expanded=expanded, split=self.split)
            return [f"next: {books}"]
        stats = shlex.join(["vr", "stats", *db_option(self.store)])
        return [f"no candidates at {self.threshold:g}: mine more, or see other thresholds by {stats}"]


_MORE = 256

Deep: TypeAlias = tuple[float | None, ...]  # cp, mate, win, draw, loss, own Q


class ValuePairs:
    """Joins net value and deep value of each position, whichever comes first; `count` is the number of pairs so far."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._net: dict[int, float] = {}
        self._deep: dict[int, Deep] = {}
        self._without: set[int] = set()  # positions on which the net failed
        self._fresh: list[tuple[float | None, ...]] = []
        self.count = 0

    @property
    def open(self) -> int:
        """The number of positions with a deep value that wait for the net's."""
        return len(self._deep)

    def add_net(self, position_id: int, net_q: float) -> None:
        """Adds the net's value of a position."""
        deep = self._deep.pop(position_id, None)
        if deep is None:
            self._net[position_id] = net_q
        else:
            self._add(net_q, deep)

    def add_deep(self, position_id: int, deep: Deep) -> None:
        """Adds the deep value of a position."""
        net_q = self._net.pop(position_id, None)
        if position_id in self._without:
            return
        if net_q is None:
            self._deep[position_id] = deep
        else:
            self._add(net_q, deep)

    def _add(self, net_q: float, deep: Deep) -> None:
        self._fresh.append((net_q, *deep))
        self.count += 1

    def drop(self, position_id: int) -> None:
        """Forgets a position that gets no deep value."""
        self._net.pop(position_id, None)

    def found(self, alpha: float) -> int:
        """The number of candidates, by this alpha, among the pairs that came since the last call."""
        net_q, *scores = np.array(self._fresh, np.float64).reshape(-1, 7).T
        self._fresh.clear()
        deep_q = values.deep_q(np.stack(scores, 1), alpha, self._question.q_from)
        return int(is_candidate(net_q - deep_q, self._question.threshold).sum())


class SeenPositions:
    """The positions that a run has seen. It needs one byte per position of the store."""

    def __init__(self) -> None:
        self._seen = np.zeros(_MORE, np.bool_)

    def first(self, position_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of [n] positions that the run sees for the first time, in their order."""
        room = int(position_ids.max(initial=0)) + 1
        if room > len(self._seen):
            self._seen = np.concatenate([self._seen, np.zeros(max(room, len(self._seen)), np.bool_)])
        rows = np.sort(np.unique(position_ids, return_index=True)[1])
        rows = rows[~self._seen[position_ids[rows]]]
        self._seen[position_ids[rows]] = True
        return rows

    def among(self, position_ids: NDArray[np.int64]) -> Flags:
        """bool[n]: which of these the run has seen."""
        within = position_ids < len(self._seen)
        return within & self._seen[np.where(within, position_ids, 0)]


# -- the point of view ------------------------------------------------------------------------------------------------

# A game's result for White, as a cell of the table g.
RESULT = "CASE g.result WHEN '1-0' THEN 1.0 WHEN '0-1' THEN -1.0 WHEN '1/2-1/2' THEN 0.0 END"
# The positions of a side, and games, that are needed to judge. Values disagree if their correlation is surely below the
# bound.
ENOUGH, ENOUGH_GAMES = 100, 50
NO_CORRELATION = 0.2
# The positions that are needed to see that scores have the wrong sign.
_ENOUGH_REVERSED = 30


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far evaluations agree with a reference: Pearson's correlation `r` over `n` positions, with the bounds `low`
    and `high` of its 95 % interval (Fisher's z)."""

    r: float
    n: int
    low: float
    high: float

    @property
    def disagrees(self) -> bool:
        """Whether they surely do not agree."""
        return self.n >= ENOUGH and self.high < NO_CORRELATION

    @property
    def is_reversed(self) -> bool:
        """Whether they surely contradict each other: the correlation is below 0."""
        return self.n >= _ENOUGH_REVERSED and self.high < 0

    def __str__(self) -> str:
        return f"{self.r:.2f} of {self.n:,}"


def agreement(q: Floats, reference: Floats) -> Agreement:
    """The correlation over the rows where both are numbers. If one is constant it is NaN, which never `disagrees`."""
    both = ~(np.isnan(q) | np.isnan(reference))
    x, y = q[both], reference[both]
    if len(x) < 4 or not x.std() or not y.std():
        return Agreement(np.nan, len(x), np.nan, np.nan)
    # By hand, because loading scipy.stats takes half a second.
    r = float(np.corrcoef(x, y)[0, 1])
    with np.errstate(divide="ignore"):  # of values that lie on a line
        low, high = np.tanh(np.arctanh(r) + np.array([-Z95, Z95]) / np.sqrt(len(x) - 3))
    return Agreement(r, len(x), float(low), float(high))


def by_side(white: Flags, q: Floats, reference: Floats) -> dict[str, Agreement]:
    """How far values [n] agree with `reference` [n], both from the side to move, separately for White to move
    (`white` [n]) and Black to move."""
    return {name: agreement(q[rows], reference[rows]) for name, rows in (("White", white), ("Black", ~white))}


def view_warning(
    sides: Mapping[str, Agreement], wrong: Sequence[str], q_name: str, reference_name: str, advice: Mapping[str, str]
) -> str | None:
    """The warning that values do not agree with a reference, both given by name; None if no side is `wrong`.

    `sides` is `by_side`, `wrong` names sides of it; `advice` says what to do if ``White``, ``Black`` or ``both`` are.
    """
    if not wrong:
        return None
    if len(wrong) == 2:
        return (
            f"warning: {q_name} do not agree with {reference_name} (correlation {sides['White']} where White is to "
            f"move, {sides['Black']} where Black is): {advice['both']}"
        )
    (name,) = wrong
    other = "Black" if name == "White" else "White"
    return (
        f"warning: where {name} is to move {q_name} do not agree with {reference_name} (correlation {sides[name]}), "
        f"where {other} is to move they do ({sides[other]}); {advice[name]}"
    )


def engine_view(store: Store, pair: tuple[int, int], q_from: QFrom) -> list[str]:
    """Warnings if an engine seems not to score from the side to move; `pair` are net and oracle in the store.

    Only kinds that accept any program are checked. Scores are compared with the results of the games; if that shows no
    fault, the oracle with the net. All sampled positions count, those that a ladder cut too: it favours
    positions where the two differ.
    """
    connection = store.connection
    query = "SELECT n.name, o.label, o.kind FROM nets n, oracles o WHERE n.id = ? AND o.id = ?"
    name, label, kind = connection.execute(query, pair).fetchone()
    if not kind_of(kind).any_engine:
        return []
    net_q, deep_q = both_q(connection, *pair, DEFAULT_ALPHA, q_from, cut=True)
    read = columns(connection, *pair, ("side_code", "game_id"), cut=True)
    white, games = read["side_code"] == 0, read["game_id"]
    scores, warning = f"the scores of the deep search ({label})", None
    if len(np.unique(games)) >= ENOUGH_GAMES:  # positions of one game have one result
        ids, outcomes = connection.numbers(f"SELECT g.id, {RESULT} FROM games g ORDER BY g.id", {})
        outcome = outcomes[np.searchsorted(ids, games)]
        result = np.where(white, outcome, -outcome)
        warning = _reversal(white, deep_q, result, scores, "the results of the games")
    warning = warning or _reversal(white, net_q, deep_q, scores, f"the net ({name})")
    return [warning] if warning else []


def _reversal(white: Flags, q: Floats, reference: Floats, q_name: str, reference_name: str) -> str | None:
    """A warning if these values contradict `reference` for a side to move, unless that may be chance."""
    sides = by_side(white, q, reference)
    wrong = [name for name, agreed in sides.items() if agreed.is_reversed]
    if len(wrong) == 1 and not any(agreed.low > 0 for agreed in sides.values()):
        return None
    views = {"Black": "White's view", "White": "Black's view", "both": "the view of the side that is not to move"}
    remedy = "but a UCI score is from the side to move: correct that and mine again"
    advice = {side: f"the engine seems to score from {view}, {remedy}" for side, view in views.items()}
    return view_warning(sides, wrong, q_name, reference_name, advice)
