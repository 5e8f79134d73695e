"""The plots of a store: net Q against deep Q, rates of candidates, results of games. Also the rows that they draw."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from valuerepair.arrays import Flags, Floats, Ids
from valuerepair.chess.positions import PHASES
from valuerepair.chess.values import Alpha
from valuerepair.errors import ValueRepairError
from valuerepair.question import DEFAULT_THRESHOLD, Question, check_threshold, is_candidate, no_deep_score
from valuerepair.rates import Rate, weighted, wilson_bounds
from valuerepair.report import style
from valuerepair.report.lowess import lowess_line
from valuerepair.store import view
from valuerepair.store.plays import outcomes
from valuerepair.store.store import Store
from valuerepair.text import quantity

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Scored:
    """The rows of a frame that have both values: `net`, `deep` (Q, side to move) and `weight` are [n].

    `rows` [m] marks the frame's rows with both values. `weight` is 1 without weights; `game` [n] numbers the games.
    """

    net: Floats
    deep: Floats
    weight: Floats
    game: Ids
    rows: Flags
    weighted: bool

    @property
    def disagreement(self) -> Floats:
        """[n] net Q - deep Q."""
        return self.net - self.deep

    @property
    def left_out(self) -> int:
        """Rows without a deep Q."""
        return int((~self.rows).sum())

    def rate(self, hits: Flags) -> Rate:
        """The share of `hits` [n], by weight; the interval by games."""
        return weighted(hits, self.weight, self.game)


def scored(frame: pd.DataFrame) -> Scored:
    """The rows of `frame` with both values; without a column `game_id` each row counts as its own game.

    Raises ValueRepairError if no row has both values.
    """
    deep = frame["deep_q"].to_numpy(np.float64)
    net = frame["net_q"].to_numpy(np.float64)
    usable = ~(np.isnan(deep) | np.isnan(net))
    if not usable.any():
        raise ValueRepairError(f"nothing to plot: {no_deep_score(len(frame), frame.attrs.get('q_from', 'cp'))}")
    weight = np.ones(len(frame))
    if "weight" in frame:
        weight = frame["weight"].to_numpy(np.float64)
    game = frame["game_id"].to_numpy(np.int64) if "game_id" in frame else np.arange(len(frame))
    net, deep, weight, game = net[usable], deep[usable], weight[usable], game[usable]
    return Scored(net, deep, weight, game, usable, bool((weight != 1).any()))


def names(frame: pd.DataFrame) -> tuple[str, str]:
    """The names of a frame's net and oracle, safe in a figure."""
    attrs = frame.attrs
    net, oracle = attrs.get("net", {}).get("name", "net"), attrs.get("oracle", {}).get("label", "deep search")
    return style.for_figure(net), style.for_figure(oracle)


def scale(frame: pd.DataFrame) -> str:
    """The source of deep Q."""
    if "alpha" not in frame.attrs:
        return "alpha unknown"
    return Alpha(**frame.attrs["alpha"]).source(frame.attrs.get("q_from", "cp"))


def made_from(frame: pd.DataFrame) -> str:
    """Net, oracle and alpha, for the line below a title."""
    return " · ".join((*names(frame), scale(frame)))


def counted(rows: Scored, threshold: float) -> str:
    """The numbers of positions and candidates, their share by weight, and the positions left out."""
    wrong = is_candidate(rows.disagreement, threshold)
    weighting = " by weight" if rows.weighted else ""
    left_out = f"; {rows.left_out:,} without a deep score left out" if rows.left_out else ""
    return (
        f"{len(wrong):,} positions, {int(wrong.sum()):,} candidates ({100 * rows.rate(wrong).rate:.2f} %{weighting}) "
        f"with |net Q − deep Q| ≥ {threshold:g}{left_out}"
    )


# -- net Q against deep Q ----------------------------------------------------------------------------------------------


def scatter(store: Store, question: Question) -> style.Drawing:
    """`scatter_of` for a store."""
    return scatter_of(view.frame(store, question, text=False), question.threshold)


def scatter_of(frame: pd.DataFrame, threshold: float = DEFAULT_THRESHOLD) -> style.Drawing:
    """Net Q (y) against deep Q (x) of a store's `frame`, both from the side to move.

    Shows the diagonal, the band within which ``|net Q - deep Q| < threshold``, the candidates outside in colour by
    sign, and the lowess line of net Q over deep Q. Uses only the columns net_q, deep_q and weight, and the frame's
    attrs for the subtitle. The line and the rate of candidates are weighted; without the column each row counts as one.

    Raises UsageError for a threshold outside (0, 2], ValueRepairError if no row has a score.

    Artists have a gid: ``positions``, ``optimistic``, ``pessimistic``, ``lowess``, ``diagonal``, ``band``.
    """
    check_threshold(threshold)
    rows = scored(frame)
    wrong = is_candidate(rows.disagreement, threshold)
    with style.house_style():
        figure, axes = style.new_figure(6.4, 7.25)
        _draw_ground(axes, threshold)
        _draw_points(axes, rows, wrong)
        _draw_line(axes, rows)
        # Below the axes: inside, it would hide the worst candidates, which lie in the corners.
        figure.legend(loc="outside lower center", ncols=4, handletextpad=0.4, columnspacing=1.2)
        _label_axes(axes, frame)
        style.title(axes, "Net Q against deep Q", made_from(frame), counted(rows, threshold))
    candidates = quantity(int(wrong.sum()), "candidate")
    return figure.described(f"{quantity(len(wrong), 'position')}, {candidates} at {threshold:g}; {scale(frame)}")


def _draw_line(axes: Axes, rows: Scored) -> None:
    """Draws the lowess line, if there are enough positions."""
    line = lowess_line(rows.deep, rows.net, rows.weight)
    if line is not None:
        words = "lowess of net Q" + (", weighted" if rows.weighted else "")
        axes.plot(*line, color=style.INK, lw=1.8, gid="lowess", label=words)


def _label_axes(axes: Axes, frame: pd.DataFrame) -> None:
    """Labels axes of net Q over deep Q: limits, ticks, names."""
    net, oracle = names(frame)
    axes.set(xlim=(-1.04, 1.04), ylim=(-1.04, 1.04), aspect="equal")
    axes.set_xticks(np.linspace(-1, 1, 5))
    axes.set_yticks(np.linspace(-1, 1, 5))
    axes.set_xlabel(f"deep Q, side to move ({oracle})")
    axes.set_ylabel(f"net Q at one node, side to move ({net})")


def point_of(positions: int) -> tuple[float, float]:
    """Marker size in points and opacity: smaller and paler for more positions."""
    crowd = np.log10(max(positions, 100)) - 2  # 0 for a hundred, 4 for a million
    return float(max(4.0 - 0.7 * crowd, 1.2)), float(np.clip(0.7 - 0.15 * crowd, 0.08, 0.7))


def _draw_points(axes: Axes, rows: Scored, wrong: Flags) -> None:
    """Draws all positions in grey, and over them the candidates, `wrong`, by the sign of the disagreement."""
    size, opacity = point_of(len(wrong))
    # Rasterised: no viewer opens a file of a million points as vectors.
    shape: dict[str, Any] = {"linestyle": "none", "markeredgewidth": 0, "rasterized": True}
    x, y = rows.deep, rows.net
    axes.plot(x[~wrong], y[~wrong], "o", color=style.GREY, ms=size, alpha=opacity, gid="positions", **shape)
    for gid, sign, marker, colour, words in (
        ("optimistic", 1, "^", style.VERMILLION, "net too optimistic"),
        ("pessimistic", -1, "v", style.BLUE, "net too pessimistic"),
    ):
        group = wrong & (np.sign(rows.disagreement) == sign)
        label = f"{words}: {int(group.sum()):,}"
        axes.plot(x[group], y[group], marker, color=colour, ms=size + 1.5, gid=gid, label=label, **shape)


def _draw_ground(axes: Axes, threshold: float) -> None:
    """Draws the ground below the points: the band of agreement and the diagonal."""
    ends = np.array([-1.0, 1.0])
    shape: dict[str, Any] = {"color": style.PALE, "lw": 0, "gid": "band", "label": f"within ±{threshold:g}"}
    axes.fill_between(ends, ends - threshold, ends + threshold, **shape)
    axes.plot(ends, ends, color=style.GREY, lw=0.8, ls="--", gid="diagonal")


# -- rates of candidates -----------------------------------------------------------------------------------------------

_THRESHOLDS = np.arange(1, 41) / 20
_MEN = ((2, 5), (6, 7), (8, 11), (12, 15), (16, 19), (20, 23), (24, 27), (28, 31), (32, 32))
_LINES = (
    ("all", "all candidates", style.INK, "o"),
    ("optimistic", "net too optimistic", style.VERMILLION, "^"),
    ("pessimistic", "net too pessimistic", style.BLUE, "v"),
)


def rates(store: Store, question: Question) -> style.Drawing:
    """The rates of the positions with ``|net Q - deep Q|`` at or above a threshold, with 95 % intervals.

    Axes have the labels ``threshold`` (a curve for all and for each sign), ``phase``, ``side``, ``men`` (kings and
    pawns included) and ``label`` (shares of the candidates, those of blindness of the candidates with a known policy:
    docs/methods.md). Curves have the gid ``all``, ``optimistic`` and ``pessimistic``, their bands the same with
    ``-interval``; bars have ``bar-0``, ``bar-1``, ... and ``interval-0``, ...; the rate of all positions is
    ``overall``. On the logarithmic scale a rate of 0 has no point.
    """
    frame = view.frame(store, question, text=False)
    rows = scored(frame)
    wrong = is_candidate(rows.disagreement, question.threshold)
    overall = rows.rate(wrong)
    with style.house_style():
        figure = style.Drawing(11.0, 9.5)
        by_letter = figure.subplot_mosaic("tl;ml;ps", height_ratios=(4, 3.4, 1.4))
        panels = {name: by_letter[name[0]] for name in ("threshold", "phase", "side", "men", "label")}
        for name, axes in panels.items():
            axes.set_label(name)
        _draw_thresholds(panels["threshold"], rows, question.threshold)
        for name, title, groups in _groups(frame):
            rates = [(word, _rate(rows, wrong, members)) for word, members in groups]
            _draw_bars(panels[name], title, [(word, rate) for word, rate in rates if rate.total], overall)
        _draw_bars(panels["label"], "Labels of the candidates", _labels(store, question))
        words = f"{len(wrong):,} positions; |net Q − deep Q| ≥ {question.threshold:g}: {overall.percent}"
        by_weight = "; by weight" if rows.weighted else ""
        title = f"Rates of candidates\n{made_from(frame)}\n{words}, dashed{by_weight}"
        figure.suptitle(title, x=0.01, ha="left", fontsize=9.5)
    return figure.described(f"{words}; {scale(frame)}")


def _groups(frame: pd.DataFrame) -> Iterable[tuple[str, str, Sequence[tuple[str, Flags]]]]:
    """The panels of bars: name, title, and the rows of the frame in each group."""
    men = frame["pieces"].to_numpy()
    yield "phase", "Phase", [(phase, (frame["phase"] == phase).to_numpy()) for phase in PHASES]
    sides = (("White", "w"), ("Black", "b"))
    yield "side", "Side to move", [(name, (frame["side"] == side).to_numpy()) for name, side in sides]
    yield (
        "men",
        "Men on the board",
        [(f"{low} to {high}" if low < high else f"{low}", (men >= low) & (men <= high)) for low, high in _MEN],
    )


def _rate(rows: Scored, wrong: Flags, members: Flags) -> Rate:
    """The rate of candidates among these rows of the frame."""
    inside = members[rows.rows]
    return weighted(wrong[inside], rows.weight[inside], rows.game[inside])


def _labels(store: Store, question: Question) -> list[tuple[str, Rate]]:
    """The share of the candidates that have each label; only candidates have any, so texts are read for them alone."""
    from valuerepair.measure.labels import labels_of
    from valuerepair.report.stats import label_shares

    candidates = view.candidates(store, question)
    if not len(candidates):
        return []
    shares = label_shares(candidates, question.threshold, labels_of(store, candidates))
    return [(name, rate) for name, rate in shares["label"].items() if rate.count]


def _draw_thresholds(axes: Axes, rows: Scored, threshold: float) -> None:
    disagreement = rows.disagreement
    end = max(threshold, 0.5)  # beyond the largest disagreement the plot would be empty
    by_sign = (np.ones(len(disagreement), np.bool_), disagreement > 0, disagreement < 0)
    for (gid, label, colour, marker), members in zip(_LINES, by_sign, strict=True):
        rates = [rows.rate(is_candidate(disagreement, t) & members) for t in _THRESHOLDS]
        points = [(t, rate) for t, rate in zip(_THRESHOLDS.tolist(), rates, strict=True) if rate.rate > 0]
        end = max([end, *(t for t, _ in points)])
        x, shares = [t for t, _ in points], [rate.rate for _, rate in points]
        # A bound of 0 has no place on a logarithmic scale; the band ends at a hundredth of the rate.
        low, high = [max(rate.low, rate.rate / 100) for _, rate in points], [rate.high for _, rate in points]
        axes.fill_between(x, low, high, color=colour, alpha=0.15, lw=0, gid=f"{gid}-interval")
        axes.plot(x, shares, marker, ls="-", lw=1.2, ms=3.5, color=colour, gid=gid, label=label)
    axes.axvline(threshold, color=style.GREY, lw=0.8, ls="--", gid="threshold")
    # Without a positive rate a logarithmic scale has no range.
    if rows.rate(is_candidate(disagreement, _THRESHOLDS[0])).rate > 0:
        axes.set_yscale("log")
    style.in_percent(axes.yaxis)
    axes.set(xlim=(0, min(end + 0.1, 2)), xlabel="threshold of |net Q − deep Q|", title="Threshold")
    axes.legend(loc="upper right")


def _draw_bars(axes: Axes, title: str, rates: Sequence[tuple[str, Rate]], overall: Rate | None = None) -> None:
    """A bar for each rate with its interval, and the counts beside it."""
    top = max((rate.high for _, rate in rates if rate.rate == rate.rate), default=1.0)
    for i, (_, rate) in enumerate(rates):
        (bar,) = axes.barh(i, rate.rate, 0.62, color=style.SKY)
        bar.set_gid(f"bar-{i}")
        axes.plot([rate.low, rate.high], [i, i], color=style.INK, lw=1.2, gid=f"interval-{i}")
        axes.annotate(f"{rate.count:,} of {rate.total:,}", (rate.high, i), xytext=(5, 0), va="center",
                      textcoords="offset points", fontsize=7.5)  # fmt: skip
    if overall is not None:
        axes.axvline(overall.rate, color=style.GREY, lw=0.9, ls="--", gid="overall")
    axes.set_yticks(range(len(rates)), [name for name, _ in rates])
    style.in_percent(axes.xaxis)
    nothing = "" if rates else ": no candidate has any"
    axes.set(xlim=(0, 1.3 * top), ylim=(max(len(rates), 1) - 0.4, -0.6), title=f"{title}{nothing}")


# -- results of games --------------------------------------------------------------------------------------------------

BINS = 10


class Bin(NamedTuple):
    """The positions with Q in one of `BINS` equal parts of [-1, 1]: their number, mean Q, mean Z and its 95 % interval.

    Q and the result Z are for the side to move.
    """

    positions: int
    q: float
    z: float
    low: float
    high: float


def bins_of(q: Floats, z: Floats) -> list[Bin]:
    """The bins with positions in them, in ascending order; `q` [n] are the positions' values, `z` [n] mean results.

    The interval is Wilson's, for the share of the points ``(z + 1) / 2`` with each position as one trial. A result in
    [0, 1] varies at most as much as a result of 0 or 1, so draws make the interval too wide, never too narrow. It also
    holds for a single position and for equal results.
    """
    edges, bins = np.linspace(-1, 1, BINS + 1), []
    bin_numbers = np.clip(np.digitize(q, edges) - 1, 0, BINS - 1)  # Q = 1 belongs to the last bin
    for number in np.unique(bin_numbers):
        in_bin = bin_numbers == number
        positions, mean_z = int(in_bin.sum()), float(z[in_bin].mean())
        low, high = wilson_bounds((mean_z + 1) / 2, positions)
        bins.append(Bin(positions, float(q[in_bin].mean()), mean_z, 2 * low - 1, 2 * high - 1))
    return bins


def results(store: Store, question: Question) -> style.Drawing:
    """Mean Z of the games played from positions (y) against their Q by net and search (x), side to move.

    A position counts once, with the mean of its decided games. On the diagonal Q equals Z.
    Artists have a gid: ``net``, ``deep``, each also with ``-intervals``, and ``diagonal``. Raises ValueRepairError if
    no decided game was played from a position with both values.
    """
    frame = view.frame(store, question, text=False)
    played = outcomes(store)
    usable = frame[~frame["disagreement"].isna()].set_index("position_id")
    in_frame = np.isin(played.ids, usable.index.to_numpy())
    if not in_frame.any():
        raise ValueRepairError(
            f"{store.path}: no decided games from its positions; vr selfplay BOOK --db {store.path} plays them"
        )
    rows, z, games = usable.loc[played.ids[in_frame]], played.z[in_frame], int(played.games[in_frame].sum())
    with style.house_style():
        figure, axes = style.new_figure(6.4, 6.8)
        axes.plot([-1, 1], [-1, 1], color=style.GREY, lw=0.8, ls="--", gid="diagonal")
        for gid, colour, marker, name in (
            ("deep", style.BLUE, "o", "deep Q"),
            ("net", style.VERMILLION, "^", "net Q"),
        ):
            q = rows[f"{gid}_q"].to_numpy(np.float64)
            squared_error = float(((z - q) ** 2).mean())
            _draw_bins(axes, bins_of(q, z), colour, marker, gid, f"{name}; mean (Z − Q)²: {squared_error:.3f}")
        axes.set(xlim=(-1.04, 1.04), ylim=(-1.04, 1.04), aspect="equal")
        axes.set(xlabel="Q of the position, mean of each bin", ylabel="Z of its games, mean of each bin")
        figure.legend(loc="outside lower center", ncols=2)  # inside, it would hide the bins at the ends
        style.title(
            axes,
            "Results of games against Q",
            made_from(frame),
            f"{games:,} decided games from {len(z):,} positions, for the side to move; numbers: positions of a bin",
        )
    net, oracle = names(frame)
    return figure.described(f"{games:,} decided games from {len(z):,} positions, {net} and {oracle}; {scale(frame)}")


def _draw_bins(axes: Axes, bins: list[Bin], colour: str, marker: str, gid: str, label: str) -> None:
    _, mean_q, mean_z, low, high = zip(*bins, strict=True)
    axes.vlines(mean_q, low, high, colour, lw=0.9, gid=f"{gid}-intervals")
    axes.plot(mean_q, mean_z, marker, color=colour, ms=6, ls="-", lw=0.8, gid=gid, label=label)
    for q_bin in bins:
        axes.annotate(f"{q_bin.positions:,}", (q_bin.q, q_bin.z), xytext=(5, 4 if gid == "net" else -10),
                      textcoords="offset points", fontsize=7, color=colour,
                      path_effects=[withStroke(linewidth=2.5, foreground="white")])  # fmt: skip
