"""The same frozen positions under several nets: who is right where, compared in pairs.

Every net is compared with the first one, A. What is reported rests on all positions that the oracle has scored. The
candidates of one net alone are shown too, but as a warning: they were chosen for being that net's worst errors, and
any other net, one of the same strength included, looks better on them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from valuerepair import values
from valuerepair.candidates.asked_nets import AskedNet, AskedOracle, words_for
from valuerepair.candidates.label_changes import LabelChange, label_changes
from valuerepair.candidates.paired import Flags, Floats, Interval, bootstrap, cross, mcnemar, newcombe
from valuerepair.candidates.remeasure_labels import candidate_labels, without_policy
from valuerepair.candidates.selection import selection_weights
from valuerepair.errors import ValueRepairError
from valuerepair.store.queries import QFrom, check_threshold
from valuerepair.store.rates import Rate, weighted, wilson

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.store import Store

_Labelled: TypeAlias = tuple[dict[int, frozenset[str]], bool]

# By code: whether the first and the second net are wrong, 2 * first + second.
CATEGORIES = ("right both", "newly wrong", "repaired", "still wrong")


@dataclass(frozen=True)
class Scores:
    """The positions compared, by id: their numbers, games and weights [n], and the disagreement of each net [k, n]."""

    position_id: NDArray[np.int64]
    game_id: NDArray[np.int64]
    weight: Floats
    disagreement: Floats

    @property
    def weighted(self) -> bool:
        """Whether the rows stand for unequal shares of what was sampled (screening)."""
        return bool(np.ptp(self.weight) > 0)


@dataclass(frozen=True, slots=True)
class NetRate:
    """A net on all positions compared: its candidates and its mean |disagreement|."""

    name: str
    sha256: str
    candidates: Rate
    mean_abs: float


@dataclass(frozen=True, slots=True)
class Selected:
    """The candidates of one net alone: how many, how many of them the other net is right on, both nets' means there.

    The other net looks better than it is: see `Comparison`.
    """

    count: int
    other_right: Rate
    mean_own: float
    mean_other: float


@dataclass(frozen=True, slots=True)
class AtOtherAlpha:
    """The shares of candidates of both nets at the second one's own alpha, and their difference."""

    alpha: float
    origin: str
    shares: tuple[float, float]
    difference: Interval


@dataclass(frozen=True)
class Comparison:
    """A second net against the first, on all positions; differences are second less first.

    `counts` are positions by `CATEGORIES`. `share` is the difference of the shares of candidates with Newcombe's paired
    interval, which takes positions for independent; `share_by_games` has the interval of resampled games. `p` is
    McNemar's exact one, None where rows have unequal weights. `mean_abs` is the difference of the mean |disagreement|,
    over resampled games. `of_first` and `of_second` are the candidates of one net alone; the second repaired something
    only if the first is right on fewer of the second's than the other way round. `newly` are the second's candidates
    among the positions that are not the first's. `policies`: both nets' priors are in the store, and so `labels` has
    what needs them.
    """

    first: str
    second: str
    counts: dict[str, int]
    share: Interval
    share_by_games: Interval
    p: float | None
    mean_abs: Interval
    of_first: Selected
    of_second: Selected
    newly: Rate
    at_own_alpha: AtOtherAlpha | None
    policies: bool
    labels: list[LabelChange] = field(default_factory=list)


@dataclass(frozen=True)
class Remeasured:
    """Nets on the same positions. `left_out` has, by net, the positions without a value of it; these count for none."""

    oracle: str
    alpha: values.Alpha
    alpha_of: str
    q_from: str
    threshold: float
    positions: int
    games: int
    effective: float
    without_q: int
    left_out: dict[str, int]
    nets: list[NetRate]
    comparisons: list[Comparison]
    scores: Scores

    def as_dict(self) -> dict[str, Any]:
        """All but the positions themselves, JSON-able; NaN is None."""
        plain = {name: value for name, value in vars(self).items() if name not in ("scores", "comparisons", "nets")}
        plain["alpha"] = asdict(self.alpha)
        plain["nets"] = [asdict(net) for net in self.nets]
        plain["comparisons"] = [asdict(comparison) for comparison in self.comparisons]
        return {str(name): _without_nan(value) for name, value in plain.items()}


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value


@dataclass(frozen=True, slots=True)
class RemeasureOptions:
    """`alpha` None: the first net's own, for all nets. Raises UsageError for a threshold outside (0, 2]."""

    threshold: float = 0.55
    alpha: float | None = None
    q_from: QFrom = "cp"
    seed: int = 0

    def __post_init__(self) -> None:
        check_threshold(self.threshold)


# -- comparing --------------------------------------------------------------------------------------------------------


def compare(store: Store, nets: Sequence[AskedNet], oracle: AskedOracle, options: RemeasureOptions) -> Remeasured:
    """Compares `nets` with the first of them on the positions that all have a value of.

    Raises ValueRepairError when there is none.
    """
    names = unique_names(nets)
    missing = next((name for name, net in zip(names, nets, strict=True) if not net.id), None)
    if missing is not None:
        raise ValueRepairError(f"{missing} has no values in {store.path} yet; nothing to compare")
    words = [words_for(store, net, oracle) for net in nets]
    alpha = store.alpha(nets[0].id, oracle.id, options.alpha)
    scores, without_q = _read(store, words, oracle, alpha.value, options.q_from)
    if not scores.weight.any():
        raise ValueRepairError(_nothing_common(store, names, oracle, without_q, options.q_from))
    wrong = np.abs(scores.disagreement) >= options.threshold
    labels = [candidate_labels(store, each, oracle, options.threshold, alpha.value, options.q_from) for each in words]
    comparisons = []
    for i in range(1, len(nets)):
        own = None
        if options.alpha is None and options.q_from == "cp":
            own = _at_own_alpha(store, nets[i], (words[0], words[i]), oracle, alpha, options)
        comparisons.append(_compare(scores, wrong, i, names, own, (labels[0], labels[i]), options))
    return Remeasured(
        oracle=oracle.label,
        alpha=alpha,
        alpha_of=names[0],
        q_from=options.q_from,
        threshold=options.threshold,
        positions=len(scores.position_id),
        games=len(np.unique(scores.game_id)),
        effective=float(scores.weight.sum() ** 2 / (scores.weight**2).sum()),
        without_q=without_q,
        left_out={name: net.missing for name, net in zip(names, nets, strict=True) if net.missing},
        nets=[_net_rate(name, net, scores, i, wrong[i]) for i, (name, net) in enumerate(zip(names, nets, strict=True))],
        comparisons=comparisons,
        scores=scores,
    )


def unique_names(nets: Sequence[AskedNet]) -> list[str]:
    """The nets' names; where two different nets have the same, with the beginning of the hash, or the history fill."""
    names = [net.name for net in nets]
    for detail in ("key", "history_fill"):
        clashing = {n for n in names if len({nets[i].id for i, name in enumerate(names) if name == n}) > 1}
        names = [
            f"{name} ({getattr(net, detail)[:10]})" if name in clashing else name
            for name, net in zip(names, nets, strict=True)
        ]
    return names


def _read(store: Store, words: Sequence[str], oracle: AskedOracle, alpha: float, q_from: QFrom) -> tuple[Scores, int]:
    """The positions that all nets have a value of and the oracle a Q, and how many are without such a Q."""
    import pandas as pd

    joined: pd.DataFrame | None = None
    for i, each in enumerate(words):
        frame = store.frame(each, oracle.digest, alpha, q_from, text=False).set_index("position_id")
        own = pd.DataFrame({i: frame["disagreement"]})
        joined = own.assign(game_id=frame["game_id"]) if joined is None else joined.join(own, how="inner")
    assert joined is not None
    usable = joined[joined[0].notna()]
    scores = Scores(
        usable.index.to_numpy(np.int64),
        usable["game_id"].to_numpy(np.int64),
        selection_weights(store, oracle.id, usable.index.to_numpy(np.int64)),
        usable[list(range(len(words)))].to_numpy(np.float64).T,
    )
    return scores, len(joined) - len(usable)


def _nothing_common(store: Store, names: Sequence[str], oracle: AskedOracle, without_q: int, q_from: QFrom) -> str:
    if without_q:
        other = "wdl" if q_from == "cp" else "cp"
        return f"none of the {without_q:,} positions has a deep score from {q_from}; try --q-from {other}"
    return (
        f"no position in {store.path} scored by {oracle.label} has a value of each of {', '.join(names)}; "
        "give the nets' files, so that what is missing can be computed"
    )


def _net_rate(name: str, net: AskedNet, scores: Scores, i: int, wrong: Flags) -> NetRate:
    mean = float(np.average(np.abs(scores.disagreement[i]), weights=scores.weight))
    return NetRate(name, net.key, _rate(wrong, scores.weight), mean)


def _rate(hits: Flags, weights: Floats) -> Rate:
    return weighted(hits, weights) if len(hits) else wilson(0, 0)


def _compare(
    scores: Scores,
    wrong: Flags,
    i: int,
    names: Sequence[str],
    own: AtOtherAlpha | None,
    labels: tuple[_Labelled, _Labelled],
    options: RemeasureOptions,
) -> Comparison:
    """The comparison of net i with net 0."""
    import pandas as pd

    first, second, weight = wrong[0], wrong[i], scores.weight
    size = np.abs(scores.disagreement)
    counts = np.bincount(2 * first + second, minlength=4).tolist()
    moved = np.stack([size[i] - size[0], second.astype(np.float64) - first], 1)
    mean_abs, by_games = bootstrap(moved, weight, scores.game_id, seed=options.seed)
    weights = pd.Series(weight, scores.position_id)
    policies = all(known for _, known in labels)
    named = [found if policies else without_policy(found) for found, _ in labels]
    compared = [{number: each for number, each in found.items() if number in weights.index} for found in named]
    return Comparison(
        first=names[0],
        second=names[i],
        counts=dict(zip(CATEGORIES, counts, strict=True)),
        share=newcombe(cross(first, second, weight)),
        share_by_games=by_games,
        p=None if scores.weighted else mcnemar(counts[2], counts[1]),
        mean_abs=mean_abs,
        of_first=_selected(first, second, size[0], size[i], weight),
        of_second=_selected(second, first, size[i], size[0], weight),
        newly=_rate(second[~first], weight[~first]),
        at_own_alpha=own,
        policies=policies,
        labels=label_changes(compared[0], compared[1], weights),
    )


def _selected(own: Flags, other: Flags, size: Floats, size_other: Floats, weight: Floats) -> Selected:
    rows, mass = own, weight[own]
    means = [float(np.average(each[rows], weights=mass)) if len(mass) else float("nan") for each in (size, size_other)]
    return Selected(int(own.sum()), _rate(~other[rows], mass), *means)


def _at_own_alpha(
    store: Store,
    net: AskedNet,
    words: tuple[str, str],
    oracle: AskedOracle,
    used: values.Alpha,
    options: RemeasureOptions,
) -> AtOtherAlpha | None:
    """The shares at the net's own alpha; None where that is the one in use."""
    own = store.alpha(net.id, oracle.id)
    if math.isclose(own.value, used.value, rel_tol=0.001):
        return None
    scores, _ = _read(store, words, oracle, own.value, options.q_from)
    first, second = np.abs(scores.disagreement) >= options.threshold
    table = cross(first, second, scores.weight)
    return AtOtherAlpha(own.value, own.origin, table.shares, newcombe(table))
