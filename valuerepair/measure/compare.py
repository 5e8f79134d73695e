"""Compares several nets on the same positions, by the values of a judge: each later net with the first."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.select import salt, scrambled
from valuerepair.arrays import Flags, Floats, Ids
from valuerepair.chess import values
from valuerepair.chess.origins import GAME, NEIGHBOUR
from valuerepair.errors import ValueRepairError, check_least
from valuerepair.measure.by_kind import BetterJudge, KindRow, better_judge, kind_lines, rows_by_kind
from valuerepair.measure.compared_nets import PARTS, TOGETHER, ComparedNet, ComparedOracle
from valuerepair.measure.labels import (
    OF_POLICY,
    LabelChange,
    Labels,
    label_changes,
    label_lines,
    labels_of,
    names,
    shown_labels,
)
from valuerepair.measure.q_scale import QScale, q_scale_of
from valuerepair.mining.again import search_again
from valuerepair.mining.judges import open_deeper
from valuerepair.mining.summary import NOT_DONE
from valuerepair.progress import Progress
from valuerepair.question import QFrom, Question, is_candidate, no_deep_score
from valuerepair.rates import Interval, Rate, mean, rate_change, weighted
from valuerepair.store import view
from valuerepair.store.alpha import alpha, chosen_alpha
from valuerepair.store.pairs import judge_of
from valuerepair.store.store import Store
from valuerepair.text import json_fields, table_lines

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)

# The index is 2 * (the first net is wrong) + (the second net is wrong).
CATEGORIES = ("right both", "newly wrong", "repaired", "still wrong")


@dataclass(frozen=True)
class ComparedScores:
    """The n positions compared, by ascending id, and the values of k nets; Q is for the side to move.

    Columns of positions are [n], `net_q` and `disagreement` [k, n]. `kind` is one of `chess.origins.KINDS`.
    """

    position_id: NDArray[np.int64]
    game_id: Ids
    weight: Floats
    deep_q: Floats
    net_q: Floats
    disagreement: Floats
    kind: NDArray[np.object_]

    @property
    def weighted(self) -> bool:
        """Whether the rows represent unequal shares of the sample (by screening)."""
        return bool(np.ptp(self.weight) > 0)

    def of_games(self) -> ComparedScores:
        """The positions of games; only these are a sample of the archive."""
        in_game = np.flatnonzero(self.kind == GAME)
        return self.judged(in_game, self.deep_q[in_game])

    def by_kind(self, second: int) -> list[KindRow]:
        """Net `second` against net 0, by kind of position."""
        net_q = self.net_q[0], self.net_q[second]
        return rows_by_kind(net_q, self.deep_q, self.weight, self.game_id, self.kind)

    def judged(self, rows: Ids, deep_q: Floats) -> ComparedScores:
        """The positions in `rows`, by another judge, which gives them `deep_q`."""
        columns = {name: column[..., rows] for name, column in vars(self).items()}
        return ComparedScores(**{**columns, "deep_q": deep_q, "disagreement": columns["net_q"] - deep_q})


@dataclass(frozen=True, slots=True)
class NetRate:
    """A net on all positions compared: its candidates, its mean |disagreement|, and the standard deviation of its Q.

    If a net's Q is spread more widely, the same settings search it more narrowly; see `measure.q_scale`.
    """

    name: str
    sha256: str
    candidates: Rate
    mean_abs: float
    spread: float


@dataclass(frozen=True, slots=True)
class Selected:
    """The candidates of one net: their `count`, and the share of them that the other net is right on.

    `mean_own` is the mean |disagreement| of the net itself on them, `mean_other` that of the other net. On positions
    chosen for one net's errors the other looks better than it is: see `Comparison`.
    """

    count: int
    other_right: Rate
    mean_own: float
    mean_other: float


@dataclass(frozen=True)
class Comparison:
    """A second net against the first, on all positions of games; differences are second minus first.

    `counts` are positions by `CATEGORIES`. `share_by_games` is the difference of the shares of candidates, `mean_abs`
    that of the mean |disagreement|, with intervals by games. `of_first` and `of_second` are the candidates of
    each net; the second repaired something only if it is right on more of the first's candidates than the first is on
    the second's. `newly` is the share of the second's candidates among the positions that are not the first's.
    `policies`: both nets' priors are in the store; without them `labels` lacks those that need a policy. A search or a
    match with `q_scale` has the second net's Q on the first one's scale; None if that cannot be determined. `by_kind`
    has a row for each kind of position, including those beside the games; by these rows `judge` says whether the second
    net is the better judge.
    """

    first: str
    second: str
    counts: dict[str, int]
    share_by_games: Interval
    mean_abs: Interval
    of_first: Selected
    of_second: Selected
    newly: Rate
    policies: bool
    q_scale: QScale | None
    by_kind: list[KindRow]
    judge: BetterJudge
    labels: list[LabelChange] = field(default_factory=list)


@dataclass(frozen=True)
class Compared:
    """Nets on the same positions; with a `part` only on the positions that are held out in it (`store.parts`).

    `left_out` has, by name of the net, the number of positions that it has no value of; they are left out for all nets.
    `without_q` positions are left out because the oracle gave no Q of the requested kind. Each position counts by its
    weight of screening. `effective` is the number of equal positions that these weights are worth.

    `scores` are of positions of games; only the rows by kind are of `all_kinds`, which also has those beside the games.
    `rejudged` is the same by a deeper judge on a plain random sample of the positions, None unless requested.
    """

    oracle: str
    part: str | None
    alpha: values.Alpha
    q_from: QFrom
    threshold: float
    positions: int
    games: int
    effective: float
    without_q: int
    left_out: dict[str, int]
    nets: list[NetRate]
    comparisons: list[Comparison]
    scores: ComparedScores
    all_kinds: ComparedScores
    rejudged: Compared | None = None

    def lines(self) -> list[str]:
        """A line for each net, the comparisons with the first; then the deeper judge, if there is one."""
        named = "" if self.part in (None, TOGETHER) else f" ({self.part})"
        part = "" if self.part is None else f" that are held out{named}"
        positions = f"{self.positions:,} positions{part} of {self.games:,} games, scored by {self.oracle}"
        lines = [f"{positions}; deep Q from {self._scale()}"]
        for name, count in self.left_out.items():
            lines.append(f"  {name}: {count:,} scored positions have no value of it; left out")
        if self.without_q:
            lines.append(f"  {self.without_q:,} positions without a deep Q of the requested kind are left out")
        if self.effective < self.positions * 0.999:
            equal = f"equivalent to {self.effective:,.0f} equal ones"
            lines.append(f"  screened: rows weighted by inverse probability, {equal}")
        columns = f":< | mean |disagreement|:>20.4f | spread of Q:>12.4f | candidates at {self.threshold:g}:<"
        nets = ((net.name, net.mean_abs, net.spread, net.candidates) for net in self.nets)
        lines += ["", *table_lines(columns, nets)]
        keys = {net.name: net.sha256 for net in self.nets}
        for comparison in self.comparisons:
            if keys[comparison.first] == keys[comparison.second]:
                lines += ["", f"A = {comparison.first}, B = {comparison.second}"]
                lines += ["the same net: the files have the same content, so there is nothing to compare"]
            else:
                lines += ["", *_comparison(comparison)]
        if self.rejudged is not None:
            lines += ["", "by a deeper judge, on a random sample of these positions:", *self.rejudged.lines()]
        return lines

    def _scale(self) -> str:
        """How scores became deep Q."""
        if self.q_from == "wdl" or self.alpha.origin == values.OWN_Q:
            return self.alpha.source(self.q_from)
        return f"alpha {self.alpha.value:.1f} for all nets ({self.alpha.origin})"

    def as_json(self) -> dict[str, Any]:
        """All but the positions themselves, for JSON; NaN is None."""
        left_out = ("scores", "all_kinds", "rejudged")
        plain: dict[str, Any] = {name: json_fields(value) for name, value in vars(self).items() if name not in left_out}
        return plain | {"rejudged": None if self.rejudged is None else self.rejudged.as_json()}


def categories(scores: ComparedScores, threshold: float, second: int) -> Ids:
    """[n] indices into `CATEGORIES`, for net `second` against net 0."""
    wrong = is_candidate(scores.disagreement[[0, second]], threshold)
    return np.asarray(2 * wrong[0] + wrong[1], np.int64)


# -- comparing --------------------------------------------------------------------------------------------------------


def compared(store: Store, nets: Sequence[ComparedNet], oracle: ComparedOracle, question: Question) -> Compared:
    """Compares each net with the first on the positions that the judge has scored and all nets have a value of.

    Only positions of the judge's part count. One alpha serves all nets: the question's, else one in use with them, else
    the first net's. Raises ValueRepairError if there is no such position, or a net has no values in the store.
    """
    unique = unique_names(nets)
    missing = next((name for name, net in zip(unique, nets, strict=True) if not net.id), None)
    if missing is not None:
        raise ValueRepairError(f"{missing} has no values in {store.path} yet; nothing to compare")
    pairs = [(net.id, oracle.id) for net in nets]
    chosen = filter(None, (chosen_alpha(store, pair, question.alpha) for pair in pairs))
    shared_alpha = next(chosen, None) or alpha(store, pairs[0])
    shared_question = replace(question, oracle=oracle.digest, alpha=shared_alpha.value)
    questions = [replace(shared_question, net=net.key) for net in nets]
    all_kinds, without_q = _read(store, questions, oracle)
    if not all_kinds.of_games().weight.any():
        raise ValueRepairError(_nothing_common(store, unique, oracle, without_q, question.q_from))
    return _compared(
        all_kinds,
        unique,
        [net.key for net in nets],
        [_candidate_labels(store, net_question, oracle) for net_question in questions],
        oracle=oracle.label,
        part=oracle.part if oracle.is_held_out else None,
        alpha=shared_alpha,
        q_from=question.q_from,
        threshold=question.threshold,
        without_q=without_q,
        left_out={name: net.missing for name, net in zip(unique, nets, strict=True) if net.missing},
    )


def _compared(
    all_kinds: ComparedScores,
    net_names: Sequence[str],
    keys: Sequence[str],
    labels: Sequence[tuple[Labels, bool]],
    *,
    part: str | None,
    threshold: float,
    **facts: Any,
) -> Compared:
    """The comparison of nets by their Q and that of a judge; `facts` are fields of `Compared`."""
    scores = all_kinds.of_games()
    wrong = is_candidate(scores.disagreement, threshold)
    common = _CommonPositions(net_names, scores, all_kinds, threshold, wrong, labels)
    return Compared(
        part=part,
        threshold=threshold,
        positions=len(scores.position_id),
        games=len(np.unique(scores.game_id)),
        effective=float(scores.weight.sum() ** 2 / (scores.weight**2).sum()),
        nets=[common.rate(i, key) for i, key in enumerate(keys)],
        comparisons=[common.compared(i, held_out=part is not None) for i in range(1, len(keys))],
        scores=scores,
        all_kinds=all_kinds,
        **facts,
    )


FEWEST = 100  # positions for a deeper judge: with fewer, intervals hold the true value less often than stated


def judged_again(
    db: str, oracle: ComparedOracle, compared: Compared, deep: str, positions: int, *, command: str, quiet: bool
) -> Compared:
    """The comparison, with that by a deeper judge as `rejudged`: searches, and stores, what the store lacks.

    `deep` is a text of ``--deep``. The judge looks at so many `positions`, a plain random sample, or at all if they are
    fewer; its centipawns become Q by the alpha of the comparison. The same call resumes, and one for more positions
    adds to them. Raises KeyboardInterrupt after a signal, UsageError for fewer than `FEWEST` positions and a judge that
    is no deeper, ValueRepairError if it has a value of no position.
    """
    check_least("--sample", positions, FEWEST)
    all_kinds = compared.all_kinds
    rows = sampled(all_kinds.position_id, positions)
    ids, first_net = all_kinds.position_id[rows], {"sha256": compared.nets[0].sha256}
    with (
        Store.open(db, write=True) as store,
        open_deeper(store, judge_of(store, oracle.id), deep, first_net) as judge,
        Progress("judging again", unit="positions", quiet=quiet) as progress,
    ):
        done = search_again(store, judge_of(store, oracle.id), judge, ids, progress, command)
        if done.stopped:
            log.info(NOT_DONE)
            raise KeyboardInterrupt
        label = judge.identity.label
        scores = _scores(store, store.add_judge(judge.identity), ids)
    deep_q = values.deep_q(scores, compared.alpha.value, compared.q_from)
    judged = ~np.isnan(deep_q)
    sample = all_kinds.judged(rows[judged], deep_q[judged])
    if not sample.of_games().weight.any():
        raise ValueRepairError(f"{label} has no value of any of {len(ids):,} positions")
    again = _compared(
        sample,
        [net.name for net in compared.nets],
        [net.sha256 for net in compared.nets],
        [({}, True)] * len(compared.nets),
        oracle=label,
        part=compared.part,
        alpha=compared.alpha,
        q_from=compared.q_from,
        threshold=compared.threshold,
        without_q=int((~judged).sum()),
        left_out={},
    )
    return replace(compared, rejudged=again)


def sampled(position_id: Ids, count: int) -> Ids:
    """int64[m]: the rows of a plain random sample of the positions [n], ascending: those with the smallest hashes of
    their ids, so that a larger count draws the same ones and others."""
    order = np.argsort(scrambled(position_id.astype(np.uint64) ^ salt("judged again")), kind="stable")
    return np.sort(order[:count])


def _scores(store: Store, judge_id: int, ids: Ids) -> Floats:
    """[n, 6] the judge's scores of the positions `ids` [n], see `chess.values.deep_q`; NaN where there is none."""
    query = """
        SELECT v.cp, v.mate, v.w, v.d, v.l, v.q FROM json_each(?) j
        LEFT JOIN deep_values v ON v.judge_id = ? AND v.position_id = j.value AND v.failed IS NULL ORDER BY j.key
    """
    cells = store.connection.execute(query, (json.dumps(ids.tolist()), judge_id)).fetchall()
    return np.array(cells, np.float64).reshape(-1, 6)


@dataclass(frozen=True)
class _CommonPositions:
    """k nets on the same positions; net 0 is the one that the others are compared with.

    `scores` are of the positions of games; `wrong` [k, n] marks each net's candidates among them. `labels` are those of
    each net's candidates, with whether the net's policy is known for all.
    """

    names: Sequence[str]
    scores: ComparedScores
    all_kinds: ComparedScores
    threshold: float
    wrong: Flags
    labels: Sequence[tuple[Labels, bool]]

    def rate(self, i: int, key: str) -> NetRate:
        """Net i, which the store knows by this key."""
        weight, net_q, size = self.scores.weight, self.scores.net_q[i], np.abs(self.scores.disagreement[i])
        mean_abs, mean_q = (float(np.average(x, weights=weight)) for x in (size, net_q))
        spread = float(np.sqrt(np.average((net_q - mean_q) ** 2, weights=weight)))
        return NetRate(self.names[i], key, weighted(self.wrong[i], weight, self.scores.game_id), mean_abs, spread)

    def compared(self, i: int, *, held_out: bool) -> Comparison:
        """Net i against net 0."""
        scores, first, second = self.scores, self.wrong[0], self.wrong[i]
        weight, game, size = scores.weight, scores.game_id, np.abs(scores.disagreement)
        changes = second.astype(np.float64) - first
        counts = np.bincount(categories(scores, self.threshold, i), minlength=len(CATEGORIES)).tolist()
        by_kind = self.all_kinds.by_kind(i)
        policies = self.labels[0][1] and self.labels[i][1]
        return Comparison(
            first=self.names[0],
            second=self.names[i],
            counts=dict(zip(CATEGORIES, counts, strict=True)),
            share_by_games=rate_change(changes, weight, game),
            mean_abs=mean(size[i] - size[0], weight, game),
            of_first=self._selected(0, i),
            of_second=self._selected(i, 0),
            newly=weighted(second[~first], weight[~first], game[~first]),
            policies=policies,
            q_scale=self._q_scale(i),
            by_kind=by_kind,
            judge=better_judge(by_kind, held_out=held_out),
            labels=self._label_changes(i, frozenset() if policies else OF_POLICY),
        )

    def _selected(self, own: int, other: int) -> Selected:
        """The candidates of net `own`, and the other net on them."""
        chosen = self.wrong[own]
        weight, game = self.scores.weight[chosen], self.scores.game_id[chosen]
        sizes = [np.abs(self.scores.disagreement[net][chosen]) for net in (own, other)]
        means = [float(np.average(size, weights=weight)) if len(weight) else float("nan") for size in sizes]
        return Selected(len(weight), weighted(~self.wrong[other][chosen], weight, game), *means)

    def _q_scale(self, i: int) -> QScale | None:
        with contextlib.suppress(ValueRepairError):
            return q_scale_of(self.scores.net_q[i], self.scores.net_q[0], self.scores.game_id, self.scores.weight)
        return None

    def _label_changes(self, i: int, unknown: frozenset[str]) -> list[LabelChange]:
        """The changes of all labels but the `unknown` ones."""
        ids = set(self.scores.position_id.tolist())
        first, second = (
            {number: labels - unknown for number, labels in self.labels[net][0].items() if number in ids}
            for net in (0, i)
        )
        return label_changes(first, second, self.scores.position_id, self.scores.weight, self.scores.game_id)


def unique_names(nets: Sequence[ComparedNet]) -> list[str]:
    """The nets' names; different nets of one name get the beginning of their keys."""
    keys: dict[str, set[str]] = {}
    for net in nets:
        keys.setdefault(net.name, set()).add(net.key)
    return [f"{net.name} ({net.key[:12]})" if len(keys[net.name]) > 1 else net.name for net in nets]


def _read(store: Store, questions: Sequence[Question], oracle: ComparedOracle) -> tuple[ComparedScores, int]:
    """The positions that have a Q of the judge and a value of each net; each net has its question.

    Also returns how many positions have values of all nets but no deep Q.
    """
    only = ["position_id", "game_id", "kind", "part", "net_q", "deep_q", "disagreement", "weight"]
    frames = [view.frame(store, replace(question, beside=True), only=only) for question in questions]
    frames = [frame.set_index("position_id") for frame in frames]
    common = reduce(lambda index, other: index.intersection(other), (frame.index for frame in frames))
    of_first = frames[0].loc[common]
    is_compared = (of_first["kind"] != NEIGHBOUR).to_numpy()
    if (parts := PARTS[oracle.part]) is not None:
        is_compared = is_compared & of_first["part"].isin(parts).to_numpy()
    usable = common[is_compared & of_first["disagreement"].notna().to_numpy()]
    of_first = frames[0].loc[usable]
    net_q, disagreement = (
        np.stack([frame.loc[usable, name].to_numpy(np.float64) for frame in frames])
        for name in ("net_q", "disagreement")
    )
    scores = ComparedScores(
        usable.to_numpy(np.int64),
        of_first["game_id"].to_numpy(np.int64),
        of_first["weight"].to_numpy(np.float64),
        of_first["deep_q"].to_numpy(np.float64),
        net_q,
        disagreement,
        of_first["kind"].to_numpy(object),
    )
    return scores, int(is_compared.sum()) - len(usable)


def _nothing_common(store: Store, names: Sequence[str], oracle: ComparedOracle, without_q: int, q_from: QFrom) -> str:
    """An error message: why there is no position to compare the nets on."""
    if without_q:
        return no_deep_score(without_q, q_from)
    return (
        f"no position in {store.path} scored by {oracle.label} has a value of each of {', '.join(names)}; "
        "give the nets' files, so that what is missing can be computed"
    )


def _candidate_labels(store: Store, question: Question, oracle: ComparedOracle) -> tuple[Labels, bool]:
    """The labels (`labels.names`) of a net's candidates by position_id, and whether its policy is known for all."""
    frame, parts = view.candidates(store, question), PARTS[oracle.part]
    if parts is not None:
        frame = frame[frame["part"].isin(parts)]
    labels = labels_of(store, frame)
    is_known = labels["blind"].notna() | frame["deep_best"].isna()
    return dict(zip(frame["position_id"].tolist(), names(labels), strict=True)), bool(is_known.all())


_COLUMNS = ("position_id", "fen", "side", "phase", "source", "game", "ply", "deep_q", "deep_best", "pv")


def wrong_positions(
    store: Store, nets: Sequence[ComparedNet], oracle: ComparedOracle, result: Compared
) -> pd.DataFrame:
    """One row for each position that any net is wrong on, by id; values are for the side to move.

    The columns are those of the store and ``weight``. Each net has a number N in the order of `nets`, from 1, and the
    columns ``net_N`` (its name) and ``disagreement_N``; from the second net on also ``category_N``, against the first.
    """
    import pandas as pd

    question = Question(
        oracle=oracle.digest, alpha=result.alpha.value, q_from=result.q_from, threshold=result.threshold
    )
    frames = [view.candidates(store, replace(question, net=net.key)) for net in nets]
    stored = pd.concat([frame[list(_COLUMNS)] for frame in frames])
    stored = stored.drop_duplicates("position_id").set_index("position_id")
    scores = result.scores
    wrong = is_candidate(scores.disagreement, result.threshold)
    rows = np.flatnonzero(wrong.any(0))
    table: pd.DataFrame = stored.loc[scores.position_id[rows]].reset_index().assign(weight=scores.weight[rows])
    categories_in_words = np.array(CATEGORIES, object)
    for i, net in enumerate(result.nets):
        table[f"net_{i + 1}"] = net.name
        table[f"disagreement_{i + 1}"] = scores.disagreement[i, rows]
        if i:
            table[f"category_{i + 1}"] = categories_in_words[categories(scores, result.threshold, i)[rows]]
    return table


def _comparison(pair: Comparison) -> Iterator[str]:
    counts = pair.counts
    yield f"A = {pair.first}, B = {pair.second}"
    yield "all positions (judge by these; B - A, with 95 % intervals by games; below 0 is a repair)"
    changes = (("candidates", pair.share_by_games.points), ("mean |disagreement|", pair.mean_abs))
    yield from table_lines(":<21 | :<", changes, "  ")
    yield (
        f"  repaired (only A wrong) {counts['repaired']:,}, newly wrong (only B) {counts['newly wrong']:,}, "
        f"still wrong {counts['still wrong']:,}, right both {counts['right both']:,}"
    )
    if pair.q_scale is not None and pair.q_scale.differs:
        scale, net = (pair.q_scale, "B") if pair.q_scale.value < 1 else (pair.q_scale.inverse, "A")
        yield f"  q_scale={scale} for {net} makes both nets' Q equally steep, and searches equally broad (vr match)"
    yield "chosen by one net (any other net looks better there: regression to the mean; compare the two shares)"
    yield f"  of A's {pair.of_first.count:,} candidates, B is right on {_selected_words(pair.of_first)}"
    yield f"  of B's {pair.of_second.count:,} candidates, A is right on {_selected_words(pair.of_second)}"
    yield f"  of the positions that are not A's candidates, B is newly wrong on {pair.newly}"
    label_figures = shown_labels(pair.labels)
    if label_figures:
        yield from label_lines(label_figures)
        if not pair.policies:
            yield "  blindness is left out: the store lacks the policy of a net"
    yield from kind_lines(pair.by_kind)
    yield pair.judge.sentence
    yield from (f"  {note}" for note in pair.judge.notes)


def _selected_words(selected: Selected) -> str:
    if not selected.count:
        return "none"
    return f"{selected.other_right}; mean |disagreement| {selected.mean_own:.3f} -> {selected.mean_other:.3f}"
