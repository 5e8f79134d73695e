"""The same frozen positions under several nets: who is right where, who repaired what, compared in pairs."""

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
from valuerepair.judge.labelled import complete, labels_of, lacks_policy, names
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

# By code: whether the first and the second net are wrong, 2 * first + second.
CATEGORIES = ("right both", "newly wrong", "repaired", "still wrong")


@dataclass(frozen=True)
class ComparedScores:
    """The positions compared, by id: their numbers, games, weights, deep Q [n]; Q and disagreement of each net [k, n].

    `recalibrated` [k, n] is the disagreement of each net once its Q goes through its curve, NaN where positions are too
    few for one. `kind` [n] is the kind of each position (`chess.origins.KINDS`).
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
        """Those that stood in a game: what is said of the archive is said of them alone."""
        of = self.kind == GAME
        return ComparedScores(**{name: column[..., of] for name, column in vars(self).items()})


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
    """The candidates of one net alone: how many, how many of them the other net is right on, both nets' means there.

    The other net looks better than it is: see `Comparison`.
    """

    count: int
    other_right: Rate
    mean_own: float
    mean_other: float


@dataclass(frozen=True)
class Comparison:
    """A second net against the first, on all positions of games; differences are second less first.

    `counts` are positions by `CATEGORIES`. `share_by_games` is the difference of the shares of candidates, `mean_abs`
    that of the mean |disagreement|, with intervals of resampled games. `of_first` and `of_second` are the candidates of
    one net alone; the second repaired something only if the first is right on fewer of the second's than the other way
    round. `newly` are the second's candidates among the positions that are not the first's. `recalibrated` says what
    remains once both nets are, None where positions are too few for curves. `policies`: both nets' priors are in the
    store, and so `labels` has what needs them. `q_scale` brings the second net's Q on the first one's scale, in a
    search or a match; None where it cannot be told. `by_kind` has a row for each kind of position, those beside the
    games too, and `judge` says by these whether the second net is the better judge.
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
    """Nets on the same positions, with a `part` on those that are held out so (`judge.split`). `left_out` has, by net,
    the positions without a value of it; these count for none. `cut` of the positions have the value of the last rung of
    a ladder; where it is asked for these each counts for one, else screened ones by their weights.

    `scores` are of positions of games, which all but the rows by kind are about; `all_kinds` has those beside them,
    too. `regret`, of each comparison, and `rejudged`, by a deeper judge, are None where they were not asked for.
    With `calibration` ``fitted`` all of it is by calibrated Q, each net's by its own curve, and `recalibrated` is None.
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
        """All but the positions themselves, JSON-able; NaN is None."""
        without = ("scores", "all_kinds", "regret")
        plain: dict[str, Any] = {name: json_fields(value) for name, value in vars(self).items() if name not in without}
        for each, comparison in zip(plain["comparisons"], self.comparisons, strict=True):
            if comparison.recalibrated is not None:
                each["recalibrated"]["sentence"] = sentence(comparison.recalibrated)
        for each, regret in zip(plain["comparisons"], self.regret or (), strict=False):
            each["regret"] = json_fields(regret)
        return plain


# -- comparing --------------------------------------------------------------------------------------------------------


def compare(store: Store, nets: Sequence[AskedNet], oracle: AskedOracle, question: Question) -> Remeasured:
    """Compares `nets` with the first of them on the positions that all have a value of, with a part of the oracle's on
    those of this part alone.

    An alpha of None is for all nets the first one's, or the saved one of the store's net where the first has no saved
    fit (a net that was just trained has none).
    Raises ValueRepairError when there is none.
    """
    names = unique_names(nets)
    missing = next((name for name, net in zip(names, nets, strict=True) if not net.id), None)
    if missing is not None:
        raise ValueRepairError(f"{missing} has no values in {store.path} yet; nothing to compare")
    words = [words_for(store, net, oracle) for net in nets]
    holder = _holder_of_alpha(store, nets[0].id, oracle)
    alpha = store.alpha(holder, oracle.id, question.alpha)
    of_oracle = replace(question, oracle=oracle.digest, alpha=alpha.value)
    everything, cut, without_q = _read(store, words, of_oracle, oracle)
    scores = everything.of_games()
    if not scores.weight.any():
        raise ValueRepairError(_nothing_common(store, names, oracle, without_q, question.q_from))
    wrong = is_candidate(scores.disagreement, question.threshold)
    curves = _curves(scores) if question.calibration == "none" else None
    if curves is not None:
        by_curves = [curve.expected(scores.weight) - scores.deep_q for curve in curves]
        scores = replace(scores, recalibrated=np.stack(by_curves))
    labels = [candidate_labels(store, replace(of_oracle, net=each), oracle) for each in words]
    comparisons = []
    for i in range(1, len(nets)):
        beyond = None if curves is None else _recalibration(scores, curves, i, question.threshold)
        by_kind = _by_kind(everything, i)
        judge = better_judge(by_kind, held_out=oracle.part is not None)
        comparisons.append(_compare(scores, wrong, i, names, beyond, (labels[0], labels[i]), by_kind, judge))
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
        all_kinds=everything,
    )


def _curves(scores: ComparedScores) -> list[CrossFit] | None:
    """The curve of each net; None where positions or games are too few."""
    standing = scores.weight > 0
    games = len(np.unique(scores.game_id[standing]))
    if np.count_nonzero(standing) < FEWEST_POSITIONS or games < FEWEST_GAMES:
        return None
    weight, game, deep = scores.weight, scores.game_id, scores.deep_q
    first, *others = scores.net_q
    drawn = [own_curve(net_q, deep, weight, game, like=first) for net_q in others]
    return [CrossFit(first, deep, weight, game), *drawn]


def _recalibration(scores: ComparedScores, curves: Sequence[CrossFit], i: int, threshold: float) -> Recalibration:
    disagreement = scores.disagreement[0], scores.disagreement[i]
    rows = scores.deep_q, scores.weight, scores.game_id
    return recalibrate((curves[0], curves[i]), disagreement, *rows, threshold)


def _by_kind(scores: ComparedScores, i: int) -> list[KindRow]:
    """Net i beside net 0, by kind of position."""
    net_q = scores.net_q[0], scores.net_q[i]
    return rows_by_kind(net_q, scores.deep_q, scores.weight, scores.game_id, scores.kind)


def unique_names(nets: Sequence[AskedNet]) -> list[str]:
    """The nets' names; where two different nets have the same, with the beginning of the hash, or the history fill."""
    names = [net.name for net in nets]
    for detail in ("key", "history_fill"):
        clashing = {n for n in names if len({nets[i].id for i, name in enumerate(names) if name == n}) > 1}
        names = [
            f"{name} ({getattr(net, detail)[:12]})" if name in clashing else name
            for name, net in zip(names, nets, strict=True)
        ]
    return names


def _read(
    store: Store, words: Sequence[str], question: Question, oracle: AskedOracle
) -> tuple[ComparedScores, int, int]:
    """The positions that all nets (by their words) have a value of and the oracle a Q; how many of them a ladder cut,
    and how many have no such Q."""
    import pandas as pd

    joined: pd.DataFrame | None = None
    for i, each in enumerate(words):
        # What lies beside the games is among what expansions searched; what they reached from candidates has no kind.
        of_net = replace(question, net=each, expanded="searched")
        frame = store.frame(of_net, text=False, cut=oracle.cut).dropna(subset="kind").set_index("position_id")
        own = pd.DataFrame({i: frame["disagreement"], f"q{i}": frame["net_q"]})
        if joined is None:
            joined = own.join(frame[["game_id", "deep_q"]]).assign(
                cut=frame["rung"].notna() if oracle.cut else False, kind=frame["kind"]
            )
        else:
            joined = joined.join(own, how="inner")
    assert joined is not None
    if oracle.part is not None:
        joined = joined[oracle.part.among(joined.index.to_numpy(np.int64))]
    usable = joined[joined[0].notna()]
    every = range(len(words))
    disagreement, net_q = (usable[names].to_numpy(np.float64).T for names in ([*every], [f"q{i}" for i in every]))
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
    beyond: Recalibration | None,
    labels: Sequence[tuple[Labels, bool]],
    by_kind: list[KindRow],
    judge: BetterJudge,
) -> Comparison:
    """The comparison of net i with net 0."""
    first, second, weight, game = wrong[0], wrong[i], scores.weight, scores.game_id
    size = np.abs(scores.disagreement)
    counts = np.bincount(2 * first + second, minlength=4).tolist()
    moved = np.stack([size[i] - size[0], second.astype(np.float64) - first], 1)
    mean_abs, by_games = bootstrap(moved, weight, game)
    there = set(scores.position_id.tolist())
    policies = all(known for _, known in labels)
    unknown = frozenset[str]() if policies else OF_POLICY
    first_labels, second_labels = (
        {number: each - unknown for number, each in labelled.items() if number in there} for labelled, _ in labels
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
        recalibrated=beyond,
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
    mass = weight[own]
    means = [float(np.average(each[own], weights=mass)) if len(mass) else float("nan") for each in (size, size_other)]
    return Selected(int(own.sum()), weighted(~other[own], mass, game[own]), *means)


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
    """[n] how many positions each stands for that was searched in full by this oracle: `audit_weights`, but of the
    ladders of all nets. With one net's ladder they are the weights of `Store.frame`.

    A ladder chooses by one net's signals, and the positions are a sample chosen so for every other net too: its own
    weights in `Store.frame`, of a net that screened nothing, would all be 1. Of several nets' ladders one that the
    position did not leave is enough; else the largest probability counts, for audits are drawn by seed and position, so
    that with one seed the smaller draw is part of the larger.
    """
    rows = store.connection.execute(_QUERY, (oracle_id,)).fetchall()
    cut = [(position, 1.0 / p if searched else 0.0) for position, whole, searched, p in rows if not whole]
    standing = sum(inverse for _, inverse in cut) or 1.0  # where none was searched, none stands for any
    weight = {position: len(cut) / standing * inverse for position, inverse in cut}
    return np.array([weight.get(position, 1.0) for position in position_ids.tolist()], np.float64)


@dataclass(frozen=True, slots=True)
class LabelChange:
    """A label under two nets.

    `label` is one of `labels.NAMES` or of `labels.KINDS` (``family:French Defense``). `first` and `second` count
    the candidates of each net with it, `both` those of both, `repaired` those of the first alone, `newly` those of the
    second alone. `change` is the paired difference of the shares of all positions, games resampled.
    """

    label: str
    first: int
    second: int
    both: int
    repaired: int
    newly: int
    change: Interval


def label_changes(first: Labels, second: Labels, position_id: Ids, weight: Floats, game: Ids) -> list[LabelChange]:
    """The changes of every label: those of `labels.NAMES` in their order, then the others, the most frequent first.

    `first` and `second` have the labels of each net's candidates by position_id; `position_id`, `weight` and `game`
    [n] are of every position compared.
    """
    counts = Counter(name for side in (first, second) for labels in side.values() for name in labels)
    rank = {name: i for i, name in enumerate(NAMES)}
    names = sorted(counts, key=lambda name: (rank.get(name, len(rank)), -counts[name], name))
    ids = [_ids_of(side) for side in (first, second)]
    row_of = dict(zip(position_id.tolist(), range(len(position_id)), strict=True))
    counts_of, rows, columns, moves = [], list[int](), list[int](), list[float]()
    for column, name in enumerate(names):
        one, other = (side.get(name, set()) for side in ids)
        repaired, newly = sorted(one - other), sorted(other - one)
        rows += [row_of[number] for number in (*repaired, *newly)]
        columns += [column] * (len(repaired) + len(newly))
        moves += [-1.0] * len(repaired) + [1.0] * len(newly)
        counts_of.append((name, len(one), len(other), len(one & other), len(repaired), len(newly)))
    cells = np.array(rows, np.int64), np.array(columns, np.int64), np.array(moves)
    changes = rare_changes(*cells, len(names), weight, game)
    return [LabelChange(*of_label, change) for of_label, change in zip(counts_of, changes, strict=True)]


def _ids_of(side: Labels) -> dict[str, set[int]]:
    by_label: dict[str, set[int]] = {}
    for number, labels in side.items():
        for name in labels:
            by_label.setdefault(name, set()).add(number)
    return by_label


def _candidates(store: Store, question: Question, part: HeldPart | None) -> pd.DataFrame:
    """The candidates of a net, of the part alone if there is one."""
    frame = store.candidates(question)
    return frame if part is None else frame[part.among(frame["position_id"].to_numpy(np.int64))]


def candidate_labels(store: Store, question: Question, oracle: AskedOracle) -> tuple[Labels, bool]:
    """The labels (`labelled.names`) of a net's candidates by position_id, and whether its policy is known for all."""
    frame = _candidates(store, question, oracle.part)
    labels = dict(zip(frame["position_id"].tolist(), names(labels_of(store, frame)), strict=True))
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
    """Computes the priors of each net's candidates that the store lacks, where the net's file is known.

    The store is opened for writing only if something is missing. A policy that cannot be had is said, and costs no
    more than its labels. An alpha of None is the first net's.
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
    """One row for each position that any net is wrong on, by id; values from the side to move.

    Beside what the store says of the position: ``weight``, and for each net, numbered as asked from 1, ``net_N`` (its
    name), ``disagreement_N`` and ``recalibrated_N``, the same through the net's curve (NaN: none); from the second on
    ``category_N``, against the first, and of what is repaired or newly wrong ``beyond_scale_N``: whether the net that
    is wrong stays so through its own curve.
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
    known = pd.concat([frame[list(_COLUMNS)] for frame in frames])
    known = known.drop_duplicates("position_id").set_index("position_id")
    scores = remeasured.scores
    wrong = is_candidate(scores.disagreement, remeasured.threshold)
    rows = np.flatnonzero(wrong.any(0))
    table = known.loc[scores.position_id[rows]].reset_index().assign(weight=scores.weight[rows])
    names = np.array(CATEGORIES, object)
    unknown = np.isnan(scores.recalibrated[0, rows])
    stays = is_candidate(scores.recalibrated[:, rows], remeasured.threshold)
    for i, net in enumerate(remeasured.nets):
        table[f"net_{i + 1}"] = net.name
        table[f"disagreement_{i + 1}"] = scores.disagreement[i, rows]
        table[f"recalibrated_{i + 1}"] = scores.recalibrated[i, rows]
        if i:
            table[f"category_{i + 1}"] = names[2 * wrong[0, rows] + wrong[i, rows]]
            same = wrong[0, rows] == wrong[i, rows]
            kept = np.where(wrong[0, rows], stays[0], stays[i])
            table[f"beyond_scale_{i + 1}"] = np.where(unknown | same, None, kept)
    result: pd.DataFrame = table
    return result


# Labels with fewer candidates of both nets together say nothing on a terminal; JSON has them all.
FEWEST_SHOWN = 3
MOST_FAMILIES = 5
_FAMILIES = ("family", "pieces")


def _lines(remeasured: Remeasured) -> list[str]:
    """The nets on all positions, then each comparison: on all positions first, then on what one net chose."""
    held = "" if remeasured.part is None else f" that are held out ({remeasured.part})"
    what = f"{remeasured.positions:,} positions{held} of {remeasured.games:,} games, scored by {remeasured.oracle}"
    if remeasured.cut:
        what += f" ({remeasured.cut:,} that screening cut, by their last rung)"
    lines = [f"{what}; deep Q from {_scale(remeasured)}"]
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
    """What is more than scale."""
    beyond = pair.recalibrated
    if beyond is None:
        yield (
            f"recalibrated: too few positions for curves that could tell scale from repair ({FEWEST_POSITIONS} of "
            f"{FEWEST_GAMES} games are needed)"
        )
        return
    yield "recalibrated: each net's Q goes through a curve of its own, fitted to other games (B - A, as above)"
    yield f"  A                      {beyond.first.candidates}; mean |disagreement| {beyond.first.mean_abs:.4f}"
    yield f"  B                      {beyond.second.candidates}; mean |disagreement| {beyond.second.mean_abs:.4f}"
    yield f"  candidates             {beyond.share.points}"
    yield f"  mean |disagreement|    {beyond.mean_abs}"
    yield f"  of A's candidates, A's own curve repairs {beyond.of_first}"
    if beyond.repaired.total:
        yield f"  of those that B repaired, A's own curve leaves wrong {beyond.repaired}"
    if beyond.newly.total:
        yield f"  of those that B made wrong, B's own curve leaves wrong {beyond.newly}"
    yield sentence(beyond)


def _selected_words(chosen: Selected) -> str:
    if not chosen.count:
        return "none"
    return f"{chosen.other_right}; mean |disagreement| {chosen.mean_own:.3f} -> {chosen.mean_other:.3f}"


def shown_labels(labels: list[LabelChange]) -> list[LabelChange]:
    """The labels with enough candidates; of families the most frequent. ECO codes and exact material are too fine."""
    rows: list[LabelChange] = []
    taken: dict[str, list[LabelChange]] = {kind: [] for kind in _FAMILIES}
    for change in labels:
        if change.first + change.second - change.both < FEWEST_SHOWN:
            continue
        kind = change.label.partition(":")[0]
        if kind in taken:
            taken[kind].append(change)
        elif kind not in KINDS:
            rows.append(change)
    return rows + [change for kind in _FAMILIES for change in taken[kind][:MOST_FAMILIES]]


_LABEL_COLUMNS = ":<20 | A wrong:>8, | repaired:>8, | still:>6, | newly:>6, | B wrong:>8, | B - A:<"


def _labels(rows: list[LabelChange]) -> Iterator[str]:
    yield "by label of the error, counted over all positions (many rows: some differ by chance)"
    cells = ((row.label, row.first, row.repaired, row.both, row.newly, row.second, row.change.points) for row in rows)
    yield from table_lines(_LABEL_COLUMNS, cells, "  ")
