"""Several nets on the same positions, by the values that an oracle gave: each later net compared with the first."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from valuerepair.calibration import FEWEST_GAMES, FEWEST_POSITIONS, CrossFit
from valuerepair.chess import values
from valuerepair.chess.origins import GAME
from valuerepair.errors import ValueRepairError
from valuerepair.intervals import (
    Flags,
    Floats,
    Ids,
    Interval,
    Rate,
    bootstrap,
    rare_changes,
    share_change,
    weighted,
)
from valuerepair.judge.by_kind import BetterJudge, KindRow, better_judge, kind_lines, rows_by_kind
from valuerepair.judge.compared_nets import AskedNet, AskedOracle, words_for
from valuerepair.judge.labelled import complete, labels_of, lacks_policy
from valuerepair.judge.labelled import names as label_names
from valuerepair.judge.labels import KINDS, NAMES, OF_POLICY
from valuerepair.judge.q_scale import QScale, q_scale_of
from valuerepair.judge.recalibration import Recalibration, own_curve, recalibrate, sentence
from valuerepair.judge.regret import Regret, regret_lines
from valuerepair.judge.rejudged import Rejudged, rejudged_lines
from valuerepair.judge.split import HeldPart
from valuerepair.question import Calibrated, QFrom, Question, is_candidate
from valuerepair.store.store import Store
from valuerepair.text import json_fields, table_lines

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)

Labels: TypeAlias = Mapping[int, frozenset[str]]  # of candidates, by position_id

# The index is 2 * (the first net is wrong) + (the second net is wrong).
CATEGORIES = ("right both", "newly wrong", "repaired", "still wrong")


@dataclass(frozen=True)
class ComparedScores:
    """The n positions compared, by ascending id, and the values of k nets; Q is for the side to move.

    Columns of positions are [n], `net_q`, `disagreement` and `recalibrated` [k, n]. `recalibrated` is the disagreement
    after the net's Q is mapped by its curve, NaN where there are too few positions for curves. `kind` is one of
    `chess.origins.KINDS`.
    """

    position_id: NDArray[np.int64]
    game_id: Ids
    weight: Floats
    deep_q: Floats
    net_q: Floats
    disagreement: Floats
    recalibrated: Floats
    kind: NDArray[np.object_]

    @property
    def weighted(self) -> bool:
        """Whether the rows stand for unequal shares of what was sampled (screening)."""
        return bool(np.ptp(self.weight) > 0)

    def of_games(self) -> ComparedScores:
        """The positions that stood in a game; only these are a sample of the archive."""
        in_game = self.kind == GAME
        return ComparedScores(**{name: column[..., in_game] for name, column in vars(self).items()})


@dataclass(frozen=True, slots=True)
class NetRate:
    """A net on all positions compared: its candidates, its mean |disagreement|, and the standard deviation of its Q.

    A net whose Q is spread more widely is searched more narrowly by the same settings; see `judge.q_scale`.
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
    that of the mean |disagreement|, with intervals of resampled games. `of_first` and `of_second` are the candidates of
    each net; the second repaired something only if it is right on more of the first's candidates than the first is on
    the second's. `newly` is the share of the second's candidates among the positions that are not the first's.
    `recalibrated` compares the nets after each went through its curve; None where positions are too few for curves.
    `policies`: both nets' priors are in the store; without them `labels` lacks those that need a policy. A search or a
    match with `q_scale` has the second net's Q on the first one's scale; None where it cannot be determined. `by_kind`
    has a row for each kind of position, also for those beside the games; by these rows `judge` says whether the second
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
    recalibrated: Recalibration | None
    policies: bool
    q_scale: QScale | None
    by_kind: list[KindRow]
    judge: BetterJudge
    labels: list[LabelChange] = field(default_factory=list)


@dataclass(frozen=True)
class Remeasured:
    """Nets on the same positions; with a `part` only on the positions of that held-out part (`judge.split`).

    `left_out` has, by name of the net, the number of positions that it has no value of; they are left out for all nets.
    `without_q` positions are left out because the oracle gave no Q of the kind asked for. `cut` of the positions were
    cut by screening and have the value of their last rung. If such positions are asked for, each position counts once;
    otherwise by its weight of screening. `effective` is the number of equal positions that these weights are worth.

    `scores` are of positions of games; only the rows by kind are of `all_kinds`, which also has those beside the games.
    `regret` has an entry for each comparison, `rejudged` is by a deeper judge; both are None unless asked for. With
    `calibration` ``fitted`` everything is by calibrated Q, each net's by its own curve, and `recalibrated` is None.
    """

    oracle: str
    part: str | None
    alpha: values.Alpha
    alpha_of: str
    q_from: QFrom
    calibration: Calibrated
    threshold: float
    positions: int
    cut: int
    games: int
    effective: float
    without_q: int
    left_out: dict[str, int]
    nets: list[NetRate]
    comparisons: list[Comparison]
    scores: ComparedScores
    all_kinds: ComparedScores
    regret: list[Regret] | None = None
    rejudged: Rejudged | None = None

    def lines(self) -> list[str]:
        """Rates and comparisons as text for a terminal."""
        return _lines(self)

    def as_json(self) -> dict[str, Any]:
        """All but the positions themselves, for JSON; NaN is None."""
        without = ("scores", "all_kinds", "regret")
        plain: dict[str, Any] = {name: json_fields(value) for name, value in vars(self).items() if name not in without}
        for fields, comparison in zip(plain["comparisons"], self.comparisons, strict=True):
            if comparison.recalibrated is not None:
                fields["recalibrated"]["sentence"] = sentence(comparison.recalibrated)
        for fields, regret in zip(plain["comparisons"], self.regret or (), strict=False):
            fields["regret"] = json_fields(regret)
        return plain


# -- comparing --------------------------------------------------------------------------------------------------------


def compare(store: Store, nets: Sequence[AskedNet], oracle: AskedOracle, question: Question) -> Remeasured:
    """Compares each net with the first on the positions that the oracle has scored and all nets have a value of.

    If the oracle has a part, only its positions count. One alpha serves all nets. Where the question has none, it is
    the first net's; if that has no saved fit, as after a training, the saved one of the store's net.
    Raises ValueRepairError if there is no such position, or a net has no values in the store.
    """
    names = unique_names(nets)
    missing = next((name for name, net in zip(names, nets, strict=True) if not net.id), None)
    if missing is not None:
        raise ValueRepairError(f"{missing} has no values in {store.path} yet; nothing to compare")
    words = [words_for(store, net, oracle) for net in nets]
    holder = _holder_of_alpha(store, nets[0].id, oracle)
    alpha = store.alpha(holder, oracle.id, question.alpha)
    of_oracle = replace(question, oracle=oracle.digest, alpha=alpha.value)
    all_kinds, cut, without_q = _read(store, words, of_oracle, oracle)
    scores = all_kinds.of_games()
    if not scores.weight.any():
        raise ValueRepairError(_nothing_common(store, names, oracle, without_q, question.q_from))
    wrong = is_candidate(scores.disagreement, question.threshold)
    curves = _curves(scores) if question.calibration == "none" else None
    if curves is not None:
        by_curves = [curve.expected(scores.weight) - scores.deep_q for curve in curves]
        scores = replace(scores, recalibrated=np.stack(by_curves))
    labels = [candidate_labels(store, replace(of_oracle, net=net_words), oracle) for net_words in words]
    comparisons = []
    for i in range(1, len(nets)):
        recalibrated = None if curves is None else _recalibration(scores, curves, i, question.threshold)
        by_kind = _by_kind(all_kinds, i)
        judge = better_judge(by_kind, held_out=oracle.part is not None)
        comparisons.append(_compare(scores, wrong, i, names, recalibrated, (labels[0], labels[i]), by_kind, judge))
    return Remeasured(
        oracle=oracle.label,
        part=None if oracle.part is None else oracle.part.name,
        alpha=alpha,
        alpha_of=names[0] if holder == nets[0].id else "the store's net",
        q_from=question.q_from,
        calibration=question.calibration,
        threshold=question.threshold,
        positions=len(scores.position_id),
        cut=cut,
        games=len(np.unique(scores.game_id)),
        effective=float(scores.weight.sum() ** 2 / (scores.weight**2).sum()),
        without_q=without_q,
        left_out={name: net.missing for name, net in zip(names, nets, strict=True) if net.missing},
        nets=[_net_rate(name, net, scores, i, wrong[i]) for i, (name, net) in enumerate(zip(names, nets, strict=True))],
        comparisons=comparisons,
        scores=scores,
        all_kinds=all_kinds,
    )


def _curves(scores: ComparedScores) -> list[CrossFit] | None:
    """The curve of each net; None where positions or games are too few."""
    counting = scores.weight > 0
    games = len(np.unique(scores.game_id[counting]))
    if np.count_nonzero(counting) < FEWEST_POSITIONS or games < FEWEST_GAMES:
        return None
    weight, game, deep = scores.weight, scores.game_id, scores.deep_q
    first, *others = scores.net_q
    other_curves = [own_curve(net_q, deep, weight, game, like=first) for net_q in others]
    return [CrossFit(first, deep, weight, game), *other_curves]


def _recalibration(scores: ComparedScores, curves: Sequence[CrossFit], i: int, threshold: float) -> Recalibration:
    """Net i against net 0, both recalibrated."""
    disagreement = scores.disagreement[0], scores.disagreement[i]
    rows = scores.deep_q, scores.weight, scores.game_id
    return recalibrate((curves[0], curves[i]), disagreement, *rows, threshold)


def _by_kind(scores: ComparedScores, i: int) -> list[KindRow]:
    """Net i against net 0, by kind of position."""
    net_q = scores.net_q[0], scores.net_q[i]
    return rows_by_kind(net_q, scores.deep_q, scores.weight, scores.game_id, scores.kind)


def unique_names(nets: Sequence[AskedNet]) -> list[str]:
    """The nets' names; different nets of one name get the beginning of their keys, and if needed the history fill."""
    names = [net.name for net in nets]
    for detail in ("key", "history_fill"):
        ids: dict[str, set[int]] = {}
        for name, net in zip(names, nets, strict=True):
            ids.setdefault(name, set()).add(net.id)
        clashing = {name for name, net_ids in ids.items() if len(net_ids) > 1}
        names = [
            f"{name} ({getattr(net, detail)[:12]})" if name in clashing else name
            for name, net in zip(names, nets, strict=True)
        ]
    return names


def _read(
    store: Store, words: Sequence[str], question: Question, oracle: AskedOracle
) -> tuple[ComparedScores, int, int]:
    """The positions that the oracle has a Q of, and all nets, which are named by `words`, a value.

    Also returns how many of these a ladder cut, and how many positions have values of all nets but no deep Q.
    """
    import pandas as pd

    joined: pd.DataFrame | None = None
    for i, net_words in enumerate(words):
        # "searched" includes the positions beside the games; positions reached from candidates have no kind.
        of_net = replace(question, net=net_words, expanded="searched")
        frame = store.frame(of_net, text=False, cut=oracle.cut).dropna(subset="kind").set_index("position_id")
        net_columns = pd.DataFrame({i: frame["disagreement"], f"q{i}": frame["net_q"]})
        if joined is None:
            joined = net_columns.join(frame[["game_id", "deep_q"]]).assign(
                cut=frame["rung"].notna() if oracle.cut else False, kind=frame["kind"]
            )
        else:
            joined = joined.join(net_columns, how="inner")
    assert joined is not None
    if oracle.part is not None:
        joined = joined[oracle.part.among(joined.index.to_numpy(np.int64))]
    usable = joined[joined[0].notna()]
    numbers = range(len(words))
    disagreement, net_q = (usable[names].to_numpy(np.float64).T for names in ([*numbers], [f"q{i}" for i in numbers]))
    ids = usable.index.to_numpy(np.int64)
    scores = ComparedScores(
        ids,
        usable["game_id"].to_numpy(np.int64),
        np.ones(len(ids)) if oracle.cut else selection_weights(store, oracle.id, ids),
        usable["deep_q"].to_numpy(np.float64),
        net_q,
        disagreement,
        np.full_like(disagreement, np.nan),
        usable["kind"].to_numpy(object),
    )
    return scores, int(usable["cut"].sum()), len(joined) - len(usable)


def _nothing_common(store: Store, names: Sequence[str], oracle: AskedOracle, without_q: int, q_from: QFrom) -> str:
    """The message of an error: why there is no position to compare the nets on."""
    if without_q:
        other = "wdl" if q_from == "cp" else "auto"
        return f"none of the {without_q:,} positions has a deep score from {q_from}; try --alpha {other}"
    return (
        f"no position in {store.path} scored by {oracle.label} has a value of each of {', '.join(names)}; "
        "give the nets' files, so that what is missing can be computed"
    )


def _net_rate(name: str, net: AskedNet, scores: ComparedScores, i: int, wrong: Flags) -> NetRate:
    mean, mean_q = (float(np.average(x, weights=scores.weight)) for x in (abs(scores.disagreement[i]), scores.net_q[i]))
    spread = float(np.sqrt(np.average((scores.net_q[i] - mean_q) ** 2, weights=scores.weight)))
    return NetRate(name, net.key, weighted(wrong, scores.weight, scores.game_id), mean, spread)


def _compare(
    scores: ComparedScores,
    wrong: Flags,
    i: int,
    names: Sequence[str],
    recalibrated: Recalibration | None,
    labels: Sequence[tuple[Labels, bool]],
    by_kind: list[KindRow],
    judge: BetterJudge,
) -> Comparison:
    """The comparison of net i with net 0; `wrong` [k, n] marks the candidates of each net.

    `labels` are those of both nets' candidates, each with whether the net's policy is known for all.
    """
    first, second, weight, game = wrong[0], wrong[i], scores.weight, scores.game_id
    size = np.abs(scores.disagreement)
    counts = np.bincount(2 * first + second, minlength=4).tolist()
    differences = np.stack([size[i] - size[0], second.astype(np.float64) - first], 1)
    mean_abs, by_games = bootstrap(differences, weight, game)
    compared_ids = set(scores.position_id.tolist())
    policies = all(has_policies for _, has_policies in labels)
    unknown = frozenset[str]() if policies else OF_POLICY
    first_labels, second_labels = (
        {number: words - unknown for number, words in by_id.items() if number in compared_ids} for by_id, _ in labels
    )
    return Comparison(
        first=names[0],
        second=names[i],
        counts=dict(zip(CATEGORIES, counts, strict=True)),
        share_by_games=share_change(by_games, weight, game),
        mean_abs=mean_abs,
        of_first=_select(first, second, size[0], size[i], weight, game),
        of_second=_select(second, first, size[i], size[0], weight, game),
        newly=weighted(second[~first], weight[~first], game[~first]),
        recalibrated=recalibrated,
        policies=policies,
        q_scale=_q_scale(scores, i),
        by_kind=by_kind,
        judge=judge,
        labels=label_changes(first_labels, second_labels, scores.position_id, weight, game),
    )


def _q_scale(scores: ComparedScores, i: int) -> QScale | None:
    try:
        return q_scale_of(scores.net_q[i], scores.net_q[0], scores.game_id, scores.weight)
    except ValueRepairError:
        return None


def _select(own: Flags, other: Flags, size: Floats, size_other: Floats, weight: Floats, game: Ids) -> Selected:
    """The candidates `own` [n] of a net whose |disagreement| is `size`, and the `other` net on them."""
    own_weight = weight[own]
    means = [
        float(np.average(sizes[own], weights=own_weight)) if len(own_weight) else float("nan")
        for sizes in (size, size_other)
    ]
    return Selected(int(own.sum()), weighted(~other[own], own_weight, game[own]), *means)


def _holder_of_alpha(store: Store, first: int, oracle: AskedOracle) -> int:
    """The net whose alpha holds for all: the first, unless only the store's net, of most positions, has a saved fit."""
    if store.chosen_alpha(first, oracle.id) is not None:
        return first
    usual = store.pick(None, oracle.digest)[0]
    return first if store.chosen_alpha(usual, oracle.id) is None else usual


_QUERY = """
    SELECT position_id, max(cut_at IS NULL), max(searched) AS "screened.searched",
        max(probability) AS "screened.probability" FROM screened
    WHERE oracle_id = ? GROUP BY position_id
"""


def selection_weights(store: Store, oracle_id: int, position_ids: NDArray[np.int64]) -> NDArray[np.float64]:
    """[n] how many positions each position that this oracle searched in full stands for.

    This is `audit_weights` for the ladders of all nets; with one net's ladder both are the weights of `Store.frame`. A
    ladder chooses positions by one net's signals, and the other nets are compared on the same choice; but a net that
    screened nothing has only weights of 1 in `Store.frame`. A position weighs 1 if it reached the end of any ladder.
    Otherwise it counts by its largest probability of an audit: audits are drawn by seed and position, so with one seed
    the smaller draw is part of the larger.
    """
    rows = store.connection.execute(_QUERY, (oracle_id,)).fetchall()
    cut = [(position, 1.0 / p if searched else 0.0) for position, reached_end, searched, p in rows if not reached_end]
    total = sum(inverse for _, inverse in cut) or 1.0  # where no cut position was searched, all their weights are 0
    weight = {position: len(cut) / total * inverse for position, inverse in cut}
    return np.array([weight.get(position, 1.0) for position in position_ids.tolist()], np.float64)


@dataclass(frozen=True, slots=True)
class LabelChange:
    """A label under two nets.

    `label` is one of `labels.NAMES` or of `labels.KINDS` (``family:French Defense``). `first` and `second` count
    the candidates of each net with it, `both` those of both, `repaired` those of the first alone, `newly` those of the
    second alone. `change` is the share of the second's minus that of the first's in all positions, with an interval of
    resampled games.
    """

    label: str
    first: int
    second: int
    both: int
    repaired: int
    newly: int
    change: Interval


def label_changes(first: Labels, second: Labels, position_id: Ids, weight: Floats, game: Ids) -> list[LabelChange]:
    """The changes of all labels: those of `labels.NAMES` in their order, then the others, the most frequent first.

    `first` and `second` have the labels of each net's candidates by position_id; `position_id`, `weight` and `game`
    [n] are of every position compared.
    """
    counts = Counter(name for side in (first, second) for labels in side.values() for name in labels)
    rank = {name: i for i, name in enumerate(NAMES)}
    names = sorted(counts, key=lambda name: (rank.get(name, len(rank)), -counts[name], name))
    ids = [_ids_of(side) for side in (first, second)]
    row_of = dict(zip(position_id.tolist(), range(len(position_id)), strict=True))
    label_counts, rows, columns, steps = [], list[int](), list[int](), list[float]()
    for column, name in enumerate(names):
        by_first, by_second = (side.get(name, set()) for side in ids)
        repaired, newly = sorted(by_first - by_second), sorted(by_second - by_first)
        rows += [row_of[number] for number in (*repaired, *newly)]
        columns += [column] * (len(repaired) + len(newly))
        steps += [-1.0] * len(repaired) + [1.0] * len(newly)
        both = len(by_first & by_second)
        label_counts.append((name, len(by_first), len(by_second), both, len(repaired), len(newly)))
    cells = np.array(rows, np.int64), np.array(columns, np.int64), np.array(steps)
    changes = rare_changes(*cells, len(names), weight, game)
    return [LabelChange(*numbers, change) for numbers, change in zip(label_counts, changes, strict=True)]


def _ids_of(side: Labels) -> dict[str, set[int]]:
    """The positions with each label."""
    by_label: dict[str, set[int]] = {}
    for number, labels in side.items():
        for name in labels:
            by_label.setdefault(name, set()).add(number)
    return by_label


def _candidates(store: Store, question: Question, part: HeldPart | None) -> pd.DataFrame:
    """The candidates of a net; with a part only those in it."""
    frame = store.candidates(question)
    return frame if part is None else frame[part.among(frame["position_id"].to_numpy(np.int64))]


def candidate_labels(store: Store, question: Question, oracle: AskedOracle) -> tuple[Labels, bool]:
    """The labels (`labelled.names`) of a net's candidates by position_id, and whether its policy is known for all."""
    frame = _candidates(store, question, oracle.part)
    labels = dict(zip(frame["position_id"].tolist(), label_names(labels_of(store, frame)), strict=True))
    return labels, not lacks_policy(store, frame)


def complete_policies(
    db: str,
    nets: Sequence[AskedNet],
    oracle: AskedOracle,
    question: Question,
    *,
    quiet: bool = False,
    **net_options: Any,
) -> None:
    """Computes the priors of each net's candidates that the store lacks.

    The store is opened for writing only if something is missing. If a net's policy cannot be computed, the log says so,
    and only the labels that need it are missing. An alpha of None is chosen as in `compare`.
    """
    of_oracle = None
    for net in {net.id: net for net in nets if net.id}.values():
        with Store.open(db) as store:
            if of_oracle is None:
                alpha = store.alpha(_holder_of_alpha(store, nets[0].id, oracle), oracle.id, question.alpha).value
                of_oracle = replace(question, oracle=oracle.digest, alpha=alpha)
            frame = _candidates(store, replace(of_oracle, net=words_for(store, net, oracle)), oracle.part)
            if not lacks_policy(store, frame):
                continue
        try:
            with Store.open(db, write=True) as store:
                complete(store, frame, net.path or None, quiet=quiet, **net_options)
        except ValueRepairError as error:
            log.info(f"the policy of {net.name} stays unknown, and with it the labels that need it: {error}")


_COLUMNS = ("position_id", "fen", "side", "phase", "source", "game", "ply", "deep_q", "deep_best", "pv")


def wrong_positions(
    store: Store, nets: Sequence[AskedNet], oracle: AskedOracle, remeasured: Remeasured
) -> pd.DataFrame:
    """One row for each position that any net is wrong on, by id; values are for the side to move.

    The columns are those of the store and ``weight``. Each net has a number N in the order of `nets`, from 1, and the
    columns ``net_N`` (its name), ``disagreement_N`` and ``recalibrated_N`` (the disagreement after its Q is mapped by
    its curve, NaN without one). From the second net on there is ``category_N``, against the first net, and for
    positions repaired or newly wrong ``beyond_scale_N``: whether the wrong net stays wrong with its own curve.
    """
    import pandas as pd

    question = Question(
        oracle=oracle.digest,
        alpha=remeasured.alpha.value,
        q_from=remeasured.q_from,
        threshold=remeasured.threshold,
        calibration=remeasured.calibration,
    )
    frames = [store.candidates(replace(question, net=words_for(store, net, oracle))) for net in nets]
    if oracle.cut:
        question = replace(question, net=words_for(store, nets[0], oracle))
        frames.append(store.frame(question, only=(*_COLUMNS, "rung"), cut=True).dropna(subset="rung"))
    stored = pd.concat([frame[list(_COLUMNS)] for frame in frames])
    stored = stored.drop_duplicates("position_id").set_index("position_id")
    scores = remeasured.scores
    wrong = is_candidate(scores.disagreement, remeasured.threshold)
    rows = np.flatnonzero(wrong.any(0))
    table = stored.loc[scores.position_id[rows]].reset_index().assign(weight=scores.weight[rows])
    names = np.array(CATEGORIES, object)
    without_curve = np.isnan(scores.recalibrated[0, rows])
    stays_wrong = is_candidate(scores.recalibrated[:, rows], remeasured.threshold)
    for i, net in enumerate(remeasured.nets):
        table[f"net_{i + 1}"] = net.name
        table[f"disagreement_{i + 1}"] = scores.disagreement[i, rows]
        table[f"recalibrated_{i + 1}"] = scores.recalibrated[i, rows]
        if i:
            table[f"category_{i + 1}"] = names[2 * wrong[0, rows] + wrong[i, rows]]
            same = wrong[0, rows] == wrong[i, rows]
            beyond_scale = np.where(wrong[0, rows], stays_wrong[0], stays_wrong[i])
            table[f"beyond_scale_{i + 1}"] = np.where(without_curve | same, None, beyond_scale)
    result: pd.DataFrame = table
    return result


# Labels with fewer candidates of both nets together are not printed; JSON has all.
FEWEST_SHOWN = 3
MOST_FAMILIES = 5
_FAMILIES = ("family", "pieces")


def _lines(remeasured: Remeasured) -> list[str]:
    """A line for each net, the comparisons with the first net, then regret and the deeper judge if there are any."""
    part = "" if remeasured.part is None else f" that are held out ({remeasured.part})"
    positions = f"{remeasured.positions:,} positions{part} of {remeasured.games:,} games, scored by {remeasured.oracle}"
    if remeasured.cut:
        positions += f" ({remeasured.cut:,} that screening cut, by their last rung)"
    lines = [f"{positions}; deep Q from {_scale(remeasured)}"]
    for name, count in remeasured.left_out.items():
        lines.append(f"  {name}: {count:,} scored positions have no value of it; left out")
    if remeasured.without_q:
        lines.append(f"  {remeasured.without_q:,} positions without a deep Q of the kind asked for are left out")
    if remeasured.effective < remeasured.positions * 0.999:
        lines.append(f"  screened: rows weighted by inverse probability, worth {remeasured.effective:,.0f} equal ones")
    columns = f":< | mean |disagreement|:>20.4f | spread of Q:>12.4f | candidates at {remeasured.threshold:g}:<"
    nets = ((net.name, net.mean_abs, net.spread, net.candidates) for net in remeasured.nets)
    lines += ["", *table_lines(columns, nets)]
    keys = {net.name: net.sha256 for net in remeasured.nets}
    for comparison in remeasured.comparisons:
        if keys[comparison.first] == keys[comparison.second]:
            lines += ["", f"A = {comparison.first}, B = {comparison.second}"]
            lines += ["one net: the files have the same content, so there is nothing to compare"]
        else:
            lines += ["", *_comparison(comparison, remeasured.calibration)]
    for regret in remeasured.regret or ():
        lines += ["", *regret_lines(regret)]
    if remeasured.rejudged is not None:
        lines += ["", *rejudged_lines(remeasured.rejudged)]
    return lines


def _scale(remeasured: Remeasured) -> str:
    """How scores became deep Q, and whether net Q is calibrated."""
    alpha = remeasured.alpha
    calibrated = "; each net's Q calibrated" if remeasured.calibration == "fitted" else ""
    if remeasured.q_from == "wdl" or alpha.origin == values.OWN_Q:
        return alpha.source(remeasured.q_from) + calibrated
    whose = "" if alpha.origin == "given" else f", that of {remeasured.alpha_of}"
    return f"alpha {alpha.value:.1f} for all nets ({alpha.origin}{whose}){calibrated}"


def _comparison(pair: Comparison, calibration: Calibrated) -> Iterator[str]:
    counts = pair.counts
    yield f"A = {pair.first}, B = {pair.second}"
    yield "all positions (judge by these; B - A, with 95 % intervals of resampled games; below 0 is a repair)"
    yield f"  candidates             {pair.share_by_games.points}"
    yield f"  mean |disagreement|    {pair.mean_abs}"
    yield (
        f"  repaired (only A wrong) {counts['repaired']:,}, newly wrong (only B) {counts['newly wrong']:,}, "
        f"still wrong {counts['still wrong']:,}, right both {counts['right both']:,}"
    )
    if pair.q_scale is not None and pair.q_scale.differs:
        scale, net = (pair.q_scale, "B") if pair.q_scale.value < 1 else (pair.q_scale.inverse, "A")
        yield f"  Q of both is as steep with q_scale={scale} for {net}: then a search is as broad (vr match)"
    yield "chosen by one net (any other net looks better there: regression to the mean; compare the two shares)"
    yield f"  of A's {pair.of_first.count:,} candidates, B is right on {_selected_words(pair.of_first)}"
    yield f"  of B's {pair.of_second.count:,} candidates, A is right on {_selected_words(pair.of_second)}"
    yield f"  of the positions that are not A's candidates, B is newly wrong on {pair.newly}"
    if calibration == "none":
        yield from _recalibrated_lines(pair)
    shown = shown_labels(pair.labels)
    if shown:
        yield from _labels(shown)
        if not pair.policies:
            yield "  blindness is left out: the policy of both nets is needed (vr stats --labels --net FILE)"
    yield from kind_lines(pair.by_kind)
    yield pair.judge.sentence
    yield from (f"  {note}" for note in pair.judge.notes)


def _recalibrated_lines(pair: Comparison) -> Iterator[str]:
    """The comparison after both nets are recalibrated: what is more than a change of scale."""
    recalibrated = pair.recalibrated
    if recalibrated is None:
        yield (
            f"recalibrated: too few positions for curves that could tell scale from repair ({FEWEST_POSITIONS} of "
            f"{FEWEST_GAMES} games are needed)"
        )
        return
    yield "recalibrated: each net's Q goes through a curve of its own, fitted to other games (B - A, as above)"
    for name, net in (("A", recalibrated.first), ("B", recalibrated.second)):
        yield f"  {name}                      {net.candidates}; mean |disagreement| {net.mean_abs:.4f}"
    yield f"  candidates             {recalibrated.share.points}"
    yield f"  mean |disagreement|    {recalibrated.mean_abs}"
    yield f"  of A's candidates, A's own curve repairs {recalibrated.of_first}"
    if recalibrated.repaired.total:
        yield f"  of those that B repaired, A's own curve leaves wrong {recalibrated.repaired}"
    if recalibrated.newly.total:
        yield f"  of those that B made wrong, B's own curve leaves wrong {recalibrated.newly}"
    yield sentence(recalibrated)


def _selected_words(selected: Selected) -> str:
    if not selected.count:
        return "none"
    return f"{selected.other_right}; mean |disagreement| {selected.mean_own:.3f} -> {selected.mean_other:.3f}"


def shown_labels(labels: list[LabelChange]) -> list[LabelChange]:
    """The labels with enough candidates, without ECO codes and exact material; of families only the most frequent."""
    rows: list[LabelChange] = []
    families: dict[str, list[LabelChange]] = {kind: [] for kind in _FAMILIES}
    for change in labels:
        if change.first + change.second - change.both < FEWEST_SHOWN:
            continue
        kind = change.label.partition(":")[0]
        if kind in families:
            families[kind].append(change)
        elif kind not in KINDS:
            rows.append(change)
    return rows + [change for kind in _FAMILIES for change in families[kind][:MOST_FAMILIES]]


_LABEL_COLUMNS = ":<20 | A wrong:>8, | repaired:>8, | still:>6, | newly:>6, | B wrong:>8, | B - A:<"


def _labels(rows: list[LabelChange]) -> Iterator[str]:
    yield "by label of the error, counted over all positions (many rows: some differ by chance)"
    cells = ((row.label, row.first, row.repaired, row.both, row.newly, row.second, row.change.points) for row in rows)
    yield from table_lines(_LABEL_COLUMNS, cells, "  ")
