"""All plots: of a store (net Q against deep Q, rates, results), a training, a match, a sweep, a comparison of nets.

Functions return a `style.Drawing`, drawn without pyplot; its artists have a gid, by which tests and users find them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.transforms import ScaledTranslation

from valuerepair.arrays import Flags, Floats
from valuerepair.chess.positions import PHASES
from valuerepair.chess.values import Alpha
from valuerepair.errors import ValueRepairError
from valuerepair.mining.screening import not_finished_by
from valuerepair.question import DEFAULT_THRESHOLD, Question, check_threshold, is_candidate, no_deep_score
from valuerepair.rates import Rate, weighted, wilson_bounds
from valuerepair.report import style
from valuerepair.report.lowess import lowess_line
from valuerepair.store import view
from valuerepair.store.pairs import judge_of, pick
from valuerepair.store.plays import outcomes
from valuerepair.store.store import Store
from valuerepair.text import formatted, positions_of_games, printable, quantity

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.measure.compare import Compared, Comparison, OriginRow
    from valuerepair.play.elo import Estimate
    from valuerepair.play.standing import Standing
    from valuerepair.training.train import Training

Row = Mapping[str, Any]


# -- the rows of a store's frame ---------------------------------------------------------------------------------------


def _scored(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with both values. Without a column weight each counts as one, without game_id as a game of its own.

    Raises ValueRepairError if there is none.
    """
    rows = frame[frame["net_q"].notna() & frame["deep_q"].notna()]
    if rows.empty:
        raise ValueRepairError(f"nothing to plot: {no_deep_score(len(frame), frame.attrs.get('q_from', 'cp'))}")
    usual = {"weight": 1.0, "game_id": np.arange(len(rows))}
    complete: pd.DataFrame = rows.assign(**{name: column for name, column in usual.items() if name not in rows})
    return complete


def _off(rows: pd.DataFrame) -> Floats:
    """[n] net Q - deep Q."""
    off: Floats = rows["net_q"].to_numpy(np.float64) - rows["deep_q"].to_numpy(np.float64)
    return off


def _rate(rows: pd.DataFrame, hits: Flags, members: Flags | None = None) -> Rate:
    """The share of `hits` [n] among the rows, or among some of them, by weight; its interval by games."""
    inside = slice(None) if members is None else members
    return weighted(hits[inside], rows["weight"].to_numpy(float)[inside], rows["game_id"].to_numpy(np.int64)[inside])


def _names(frame: pd.DataFrame) -> tuple[str, str]:
    """The names of a frame's net and judge, safe in a figure."""
    attrs = frame.attrs
    net, judge = attrs.get("net", {}).get("name", "net"), attrs.get("oracle", {}).get("label", "deep search")
    return style.for_figure(net), style.for_figure(judge)


def _scale(frame: pd.DataFrame) -> str:
    """The source of deep Q."""
    known = frame.attrs.get("alpha")
    return Alpha(**known).source(frame.attrs.get("q_from", "cp")) if known else "alpha unknown"


def _made_from(frame: pd.DataFrame) -> str:
    return " · ".join((*_names(frame), _scale(frame)))


# -- net Q against deep Q ----------------------------------------------------------------------------------------------


def scatter(store: Store, question: Question) -> style.Drawing:
    """`scatter_of` for a store."""
    return scatter_of(view.frame(store, question, text=False), question.threshold)


def scatter_of(frame: pd.DataFrame, threshold: float = DEFAULT_THRESHOLD) -> style.Drawing:
    """Net Q (y) against deep Q (x) of a store's `frame`, both from the side to move.

    Shows the diagonal, the band within which ``|net Q - deep Q| < threshold``, the candidates outside in colour by
    sign, and the lowess line of net Q over deep Q. Uses only the columns net_q, deep_q, weight and game_id, and the
    frame's attrs for the subtitle. The line and the rate of candidates are weighted; without the column each row counts
    as one.

    Raises UsageError for a threshold outside (0, 2], ValueRepairError if no row has a score.

    Artists have a gid: ``positions``, ``optimistic``, ``pessimistic``, ``lowess``, ``diagonal``, ``band``.
    """
    check_threshold(threshold)
    rows = _scored(frame)
    x, y, weight = (rows[name].to_numpy(np.float64) for name in ("deep_q", "net_q", "weight"))
    off, is_weighted = y - x, bool((weight != 1).any())
    wrong = is_candidate(off, threshold)
    size, opacity = _point_of(len(rows))
    with style.house_style():
        figure = style.Drawing(6.4, 7.25)
        axes = figure.add_subplot()
        ends = np.array([-1.0, 1.0])
        axes.fill_between(ends, ends - threshold, ends + threshold, color=style.PALE, lw=0, gid="band",
                          label=f"within ±{threshold:g}")  # fmt: skip
        axes.plot(ends, ends, color=style.GREY, lw=0.8, ls="--", gid="diagonal")
        axes.plot(x[~wrong], y[~wrong], "o", color=style.GREY, ms=size, alpha=opacity, gid="positions", **style.POINTS)
        for gid, group, marker, colour in (
            ("optimistic", wrong & (off > 0), "^", style.VERMILLION),
            ("pessimistic", wrong & (off < 0), "v", style.BLUE),
        ):
            label = f"net too {gid}: {int(group.sum()):,}"
            axes.plot(x[group], y[group], marker, color=colour, ms=size + 1.5, gid=gid, label=label, **style.POINTS)
        if (line := lowess_line(x, y, weight)) is not None:
            words = "lowess of net Q" + (", weighted" if is_weighted else "")
            axes.plot(*line, color=style.INK, lw=1.8, gid="lowess", label=words)
        # Below the axes: inside, it would hide the worst candidates, which lie in the corners.
        figure.legend(loc="outside lower center", ncols=4, handletextpad=0.4, columnspacing=1.2)
        net, judge = _names(frame)
        ticks = np.linspace(-1, 1, 5)
        axes.set(xlim=(-1.04, 1.04), ylim=(-1.04, 1.04), aspect="equal", xticks=ticks, yticks=ticks)
        axes.set(xlabel=f"deep Q, side to move ({judge})", ylabel=f"net Q at one node, side to move ({net})")
        missing = len(frame) - len(rows)
        count = f"{len(rows):,} positions, {int(wrong.sum()):,} candidates ({100 * _rate(rows, wrong).rate:.2f} %"
        count += f"{' by weight' if is_weighted else ''}) with |net Q − deep Q| ≥ {threshold:g}"
        count += f"; {missing:,} without a deep score left out" if missing else ""
        style.title(axes, "Net Q against deep Q", _made_from(frame), count)
    candidates = quantity(int(wrong.sum()), "candidate")
    figure.description = f"{quantity(len(rows), 'position')}, {candidates} at {threshold:g}; {_scale(frame)}"
    return figure


def _point_of(positions: int) -> tuple[float, float]:
    """Marker size in points and opacity: smaller and paler for more positions."""
    crowd = np.log10(max(positions, 100)) - 2  # 0 for a hundred, 4 for a million
    return float(max(4.0 - 0.7 * crowd, 1.2)), float(np.clip(0.7 - 0.15 * crowd, 0.08, 0.7))


# -- rates of candidates -----------------------------------------------------------------------------------------------

_THRESHOLDS = np.arange(1, 41) / 20
_MEN = ((2, 5), (6, 7), (8, 11), (12, 15), (16, 19), (20, 23), (24, 27), (28, 31), (32, 32))


def rates(store: Store, question: Question) -> style.Drawing:
    """The rates of the positions with ``|net Q - deep Q|`` at or above a threshold, with 95 % intervals.

    Axes have the labels ``threshold`` (a curve for all and for each sign), ``phase``, ``side``, ``men`` (kings and
    pawns included) and ``label`` (shares of the candidates, those of blindness of the candidates with a known policy:
    docs/methods.md). Curves have the gid ``all``, ``optimistic`` and ``pessimistic``, their bands the same with
    ``-interval``; bars have ``bar-0``, ``bar-1``, ... and ``interval-0``, ...; the rate of all positions is
    ``overall``. On the logarithmic scale a rate of 0 has no point.
    """
    frame = view.frame(store, question, text=False)
    rows = _scored(frame)
    wrong = is_candidate(_off(rows), question.threshold)
    overall = _rate(rows, wrong)
    groups: dict[str, list[tuple[str, Any]]] = {
        "Phase": [(phase, rows["phase"] == phase) for phase in PHASES],
        "Side to move": [(name, rows["side"] == name[0].lower()) for name in ("White", "Black")],
        "Men on the board": [
            (f"{low} to {high}" if low < high else f"{low}", rows["pieces"].between(low, high)) for low, high in _MEN
        ],
    }
    with style.house_style():
        figure = style.Drawing(11.0, 9.5)
        panels = figure.subplot_mosaic("tl;ml;ps", height_ratios=(4, 3.4, 1.4))
        for letter, name in {"t": "threshold", "p": "phase", "s": "side", "m": "men", "l": "label"}.items():
            panels[letter].set_label(name)
        _draw_thresholds(panels["t"], rows, question.threshold)
        for title, members in groups.items():
            found = [(word, _rate(rows, wrong, inside.to_numpy())) for word, inside in members]
            _draw_bars(panels[title[0].lower()], title, [(word, rate) for word, rate in found if rate.total], overall)
        _draw_bars(panels["l"], "Labels of the candidates", _labels(store, question))
        words = f"{len(rows):,} positions; |net Q − deep Q| ≥ {question.threshold:g}: {overall.percent}"
        by_weight = "; by weight" if (rows["weight"] != 1).any() else ""
        title = f"Rates of candidates\n{_made_from(frame)}\n{words}, dashed{by_weight}"
        figure.suptitle(title, x=0.01, ha="left", fontsize=9.5)
    figure.description = "; ".join(filter(None, [words, _scale(frame), _not_finished(store, frame)]))
    return figure


def _not_finished(store: Store, frame: pd.DataFrame) -> str:
    """A warning if the judge's screening is not finished; else empty."""
    return not_finished_by(store, judge_of(store, pick(store, None, frame.attrs["oracle"]["digest"])[1]))


def _labels(store: Store, question: Question) -> list[tuple[str, Rate]]:
    """The share of the candidates that have each label; only candidates have any, so texts are read for them alone."""
    from valuerepair.measure.labels import labels_of
    from valuerepair.report.stats import label_shares

    candidates = view.candidates(store, question)
    if not len(candidates):
        return []
    shares = label_shares(candidates, question.threshold, labels_of(store, candidates))
    return [(name, rate) for name, rate in shares["label"].items() if rate.count]


def _draw_thresholds(axes: Axes, rows: pd.DataFrame, threshold: float) -> None:
    off = _off(rows)
    end = max(threshold, 0.5)  # beyond the largest disagreement the plot would be empty
    for gid, label, members, colour, marker in (
        ("all", "all candidates", np.ones(len(off), np.bool_), style.INK, "o"),
        ("optimistic", "net too optimistic", off > 0, style.VERMILLION, "^"),
        ("pessimistic", "net too pessimistic", off < 0, style.BLUE, "v"),
    ):
        found = [(t, _rate(rows, is_candidate(off, t) & members)) for t in _THRESHOLDS.tolist()]
        points = [(t, rate) for t, rate in found if rate.rate > 0]
        end = max([end, *(t for t, _ in points)])
        x, shares = [t for t, _ in points], [rate.rate for _, rate in points]
        # A bound of 0 has no place on a logarithmic scale; the band ends at a hundredth of the rate.
        low, high = [max(rate.low, rate.rate / 100) for _, rate in points], [rate.high for _, rate in points]
        axes.fill_between(x, low, high, color=colour, alpha=0.15, lw=0, gid=f"{gid}-interval")
        axes.plot(x, shares, marker, ls="-", lw=1.2, ms=3.5, color=colour, gid=gid, label=label)
        if gid == "all" and points:  # without a positive rate a logarithmic scale has no range
            axes.set_yscale("log")
    axes.axvline(threshold, color=style.GREY, lw=0.8, ls="--", gid="threshold")
    style.in_percent(axes.yaxis)
    axes.set(xlim=(0, min(end + 0.1, 2)), xlabel="threshold of |net Q − deep Q|", title="Threshold")
    axes.legend(loc="upper right")


def _draw_bars(axes: Axes, title: str, found: Sequence[tuple[str, Rate]], overall: Rate | None = None) -> None:
    """A bar for each rate with its interval, and the counts beside it."""
    top = max((rate.high for _, rate in found if not math.isnan(rate.rate)), default=1.0)
    for i, (_, rate) in enumerate(found):
        (bar,) = axes.barh(i, rate.rate, 0.62, color=style.SKY)
        bar.set_gid(f"bar-{i}")
        axes.plot([rate.low, rate.high], [i, i], color=style.INK, lw=1.2, gid=f"interval-{i}")
        axes.annotate(f"{rate.count:,} of {rate.total:,}", (rate.high, i), xytext=(5, 0), va="center",
                      textcoords="offset points", fontsize=7.5)  # fmt: skip
    if overall is not None:
        axes.axvline(overall.rate, color=style.GREY, lw=0.9, ls="--", gid="overall")
    axes.set_yticks(range(len(found)), [name for name, _ in found])
    style.in_percent(axes.xaxis)
    nothing = "" if found else ": no candidate has any"
    axes.set(xlim=(0, 1.3 * top), ylim=(max(len(found), 1) - 0.4, -0.6), title=f"{title}{nothing}")


# -- results of games --------------------------------------------------------------------------------------------------

BINS = 10


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
    count = f"{games:,} decided games from {len(z):,} positions"
    with style.house_style():
        figure = style.Drawing(6.4, 6.8)
        axes = figure.add_subplot()
        axes.plot([-1, 1], [-1, 1], color=style.GREY, lw=0.8, ls="--", gid="diagonal")
        for gid, colour, marker in (("deep", style.BLUE, "o"), ("net", style.VERMILLION, "^")):
            q = rows[f"{gid}_q"].to_numpy(np.float64)
            label = f"{gid} Q; mean (Z − Q)²: {((z - q) ** 2).mean():.3f}"
            numbers, mean_q, mean_z, low, high = _binned(q, z)
            axes.vlines(mean_q, low, high, colour, lw=0.9, gid=f"{gid}-intervals")
            axes.plot(mean_q, mean_z, marker, color=colour, ms=6, ls="-", lw=0.8, gid=gid, label=label)
            for number, x, y in zip(numbers, mean_q, mean_z, strict=True):
                axes.annotate(f"{number:,.0f}", (x, y), xytext=(5, 4 if gid == "net" else -10),
                              textcoords="offset points", fontsize=7, color=colour,
                              path_effects=[withStroke(linewidth=2.5, foreground="white")])  # fmt: skip
        axes.set(xlim=(-1.04, 1.04), ylim=(-1.04, 1.04), aspect="equal")
        axes.set(xlabel="Q of the position, mean of each bin", ylabel="Z of its games, mean of each bin")
        figure.legend(loc="outside lower center", ncols=2)  # inside, it would hide the bins at the ends
        words = f"{count}, for the side to move; numbers: positions of a bin"
        style.title(axes, "Results of games against Q", _made_from(frame), words)
    figure.description = f"{count}, {' and '.join(_names(frame))}; {_scale(frame)}"
    return figure


def _binned(q: Floats, z: Floats) -> Floats:
    """[5, bins]: number, mean Q, mean Z and the ends of its 95 % interval, of the positions in each part of [-1, 1].

    There are `BINS` equal parts, in ascending order, without empty ones; `q` [n] are values, `z` [n] mean results.

    The interval is Wilson's, for the share of the points ``(z + 1) / 2`` with each position as one trial. A result in
    [0, 1] varies at most as much as a result of 0 or 1, so draws make the interval too wide, never too narrow. It also
    holds for a single position and for equal results.
    """
    bins = np.clip(np.digitize(q, np.linspace(-1, 1, BINS + 1)), 1, BINS)  # Q = 1 belongs to the last bin
    rows = []
    for members in (bins == number for number in np.unique(bins)):
        mean_z = z[members].mean()
        low, high = wilson_bounds(float(mean_z + 1) / 2, int(members.sum()))
        rows.append((members.sum(), q[members].mean(), mean_z, 2 * low - 1, 2 * high - 1))
    columns: Floats = np.array(rows, np.float64).T
    return columns


# -- a training --------------------------------------------------------------------------------------------------------


def training(path: str) -> style.Drawing:
    """Three panels over the steps: losses; candidates; the change of the policy and the error of the value.

    `path` is that of the new net, or of the curve's file beside it. A vertical line marks the step that was written.
    Artists have a gid: ``loss``, ``train_loss``, ``rate``, ``mean_dq``, ``policy_kl``, ``written``. Raises
    ValueRepairError for another file.
    """
    from valuerepair.training.train import read_curve

    curve = read_curve(path)
    about, rows = curve.about, curve.rows
    net, output = about["net"]["name"], about["output"]
    summary = f"{rows[-1]['step']:,} of {about['options']['steps']:,} steps, {_training_words(curve)}"
    judged = "loss" in rows[0]
    with style.house_style():
        figure = style.Drawing(12.5 if judged else 5.5, 4.4)
        panels = figure.subplots(1, 3 if judged else 1, squeeze=False)[0]
        _draw_curves(panels[0], rows, {"train_loss": "of training", "loss": "of games held out"}, "loss")
        if judged:
            _draw_curves(panels[1], rows, {"rate": "candidates"}, "% of the positions held out", 100)
            changes = {"policy_kl": "KL to the old policy (nats)", "mean_dq": "mean |net Q − deep Q|"}
            _draw_curves(panels[2], rows, changes, "")
        for panel in panels:
            panel.set_xlabel("step")
            if about.get("written") is not None:
                panel.axvline(about["written"]["step"], color=style.GREY, lw=0.9, ls="--", gid="written")
        style.title(panels[0], "Training", f"{style.for_figure(net)} to {style.for_figure(output)}", summary)
    figure.description = f"{printable(net)} to {printable(output)}: {printable(summary)}"
    return figure


def _training_words(curve: Training) -> str:
    first, last = curve.rows[0], curve.rows[-1]
    if last["step"] == 0:
        return "no step yet"
    if "loss" not in first:
        return f"loss {last['train_loss']:.4f}"
    best = min(curve.rows, key=lambda row: row["loss"])
    if amplitude := curve.about.get("amplitude"):  # the net that was written
        measures = amplitude.get("measures") or {}
        best = {**best, **{name: value for name, value in measures.items() if value is not None}}
    words = f"loss of held-out games {first['loss']:.4f} to {best['loss']:.4f}"
    if first["mean_dq"] is not None:
        words += f", mean |net Q − deep Q| {first['mean_dq']:.4f} to {best['mean_dq']:.4f}"
    return words


def _draw_curves(axes: Axes, rows: Sequence[Row], names: Row, label: str, factor: float = 1) -> None:
    for (name, words), marker in zip(names.items(), "osv", strict=False):
        points = [(row["step"], factor * row[name]) for row in rows if row.get(name) is not None]
        if points:
            axes.plot(*zip(*points, strict=True), marker=marker, ms=3, lw=1.4, label=words, gid=name)
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0 if factor != 1 or not label else None)
    if axes.lines:
        axes.legend()


# -- a match -----------------------------------------------------------------------------------------------------------

_POINTS = 300
_LEVELS = ((0.99, 0.12), (0.95, 0.22))  # level, opacity of its band
_OPEN = 400.0  # Elo: how far the scale extends beyond a finite bound if the other one is infinite
# Games so far, and Elo with its interval at each level.
_CoursePoint: TypeAlias = "tuple[int, tuple[Estimate, ...]]"


def match(path: str) -> style.Drawing:
    """Elo of the first player after each pair of a match's PGN, with bands at 0.95 and 0.99.

    Games are in the order of their numbers, not of their ends: short games end first, and would bias the result. The
    last point is the match's result. Artists have a gid: ``elo``, ``band-0.95``, ``band-0.99``, ``zero``. Raises
    ValueRepairError for a file that `vr match` did not write, and for one without a decided game.
    """
    from valuerepair.play.elo import elo_interval, elo_words, few_words

    standing, course = _course_of(path)
    first, second = (style.for_figure(name) for name in standing.names)
    words = f"{quantity(standing.games, 'game')}, {standing.tally.score}: "
    words += f"Elo {elo_words(elo_interval(standing.results, 0.95))} at 0.95, of {standing.unit}"
    with style.house_style():
        figure = style.Drawing(7.6, 4.8)
        axes = figure.add_subplot()
        axes.axhline(0, color=style.GREY, lw=0.8, ls="--", gid="zero")
        _draw_course(axes, course)
        axes.set(xlabel="games", ylabel=f"Elo of {first}")
        axes.legend(loc="best")
        style.title(axes, "Elo over the games of a match", f"{first} against {second}", words)
    remark = few_words(standing.results)
    first, second = (printable(name) for name in standing.names)
    figure.description = f"{first} against {second}: {words}" + (f"; {remark}" if remark else "")
    return figure


def _course_of(path: str) -> tuple[Standing, list[_CoursePoint]]:
    """The standing after all games of a match's PGN, and its course: a point for each pair, and the end.

    A long match has about `_POINTS` points after its first `_POINTS` games, not one for each pair.
    """
    from valuerepair.play.elo import elo_interval
    from valuerepair.play.pgn import read_written
    from valuerepair.play.standing import Played, Standing

    if not Path(path).is_file():
        raise ValueRepairError(f"{path}: no such file")
    written, _ = read_written(Path(path))
    written.sort(key=lambda game: game.number)
    if not written or any("BookOrder" not in game.tags for game in written):
        raise ValueRepairError(f"{path}: not the games of vr match")
    white, black = (written[0].tags[colour] for colour in ("White", "Black"))
    standing = Standing((black, white) if written[0].number % 2 else (white, black))
    course = list[_CoursePoint]()
    for i, game in enumerate(written):
        pairs = standing.tally.pairs.pairs
        standing.add(Played.of_written(game))
        is_complete = standing.tally.pairs.pairs > pairs or not standing.tally.pairs.pairs
        is_due = i < _POINTS or pairs % (1 + len(written) // (2 * _POINTS)) == 0
        if standing.tally.score.games and ((is_complete and is_due) or i + 1 == len(written)):
            of_all = standing.results  # read once: the property counts all games
            course.append((i + 1, tuple(elo_interval(of_all, level) for level, _ in _LEVELS)))
    if not course:
        raise ValueRepairError(f"{path}: {quantity(len(written), 'game')}, none decided")
    return standing, course


def _draw_course(axes: Axes, course: Sequence[_CoursePoint]) -> None:
    """Draws line and bands. Infinite bounds (all won, all lost) end at the edge; infinite values have no point.

    The scale holds 0 and the widest intervals of the later half of the games: those of the first games are so wide that
    they would flatten the rest. If a bound is infinite, it ends `_OPEN` beyond the other one.
    """
    x = [games for games, _ in course]
    widest = [intervals[0] for games, intervals in course if 2 * games >= x[-1]]
    lows = [bound.low if math.isfinite(bound.low) else bound.high - _OPEN for bound in widest]
    highs = [bound.high if math.isfinite(bound.high) else bound.low + _OPEN for bound in widest]
    bounds = [0.0, *(bound for bound in (*lows, *highs) if math.isfinite(bound))]
    if len(bounds) == 1:
        bounds = [-_OPEN, _OPEN]
    margin = max(0.08 * (max(bounds) - min(bounds)), 10.0)
    bottom, top = min(bounds) - margin, max(bounds) + margin
    for i, (level, opacity) in enumerate(_LEVELS):
        ends = np.array([(intervals[i].low, intervals[i].high) for _, intervals in course])
        low, high = np.nan_to_num(ends, posinf=top, neginf=bottom).T
        label = f"interval at {level}"
        axes.fill_between(x, low, high, color=style.BLUE, alpha=opacity, lw=0, gid=f"band-{level}", label=label)
    values = np.array([intervals[0].value for _, intervals in course])
    values[np.isinf(values)] = np.nan
    axes.plot(x, values, color=style.INK, lw=1.4, gid="elo", label="Elo")
    axes.plot(x[-1], values[-1], "o", color=style.INK, ms=4)
    axes.set_ylim(bottom, top)


# -- a sweep -----------------------------------------------------------------------------------------------------------

_RESULTS = (("wins", "White wins", style.ORANGE, "o"), ("draws", "draws", style.GREY, "s"),
            ("losses", "Black wins", style.BLUE, "^"))  # fmt: skip
_REPEATS = (("repeats_20", style.SKY, "to 20 plies"), ("repeats_whole", style.BLUE, "whole"))


def sweep(path: str) -> style.Drawing:
    """Draws the self-play in the folder of a `vr experiment`, see `sweep_of`. Raises ValueRepairError."""
    from valuerepair.report.experiment import read_table

    return sweep_of([row for row in read_table(path) if row["kind"] != "match"])


def sweep_of(rows: Sequence[Row]) -> style.Drawing:
    """Self-play: W/D/L by each varied parameter, and repeated games; matches: Elo of the first side.

    Artists have the gid of their line: ``White wins``, ``draws``, ``Black wins``. Bars are intervals at 0.95.
    """
    matches, played = ([row for row in rows if (row["kind"] == "match") is is_match] for is_match in (True, False))
    panels: list[Callable[[Axes], None]] = []
    for kind in dict.fromkeys(row["kind"] for row in played):
        # The setting without contempt and temperature has a place on every axis.
        points = [(0.0 if row["kind"] != kind else row["value"], row) for row in played
                  if row["kind"] == kind or (row["plain"] and kind == "temperature")]  # fmt: skip
        points.sort(key=lambda point: math.inf if point[0] is None else point[0])
        panels.append(partial(_draw_results, points=points, name=kind))
    panels += [partial(_draw_repeats, rows=played)] if played else []
    panels += [partial(_draw_matches, rows=matches)] if matches else []
    columns = min(len(panels), 2) or 1
    lines = -(-len(panels) // columns) or 1
    with style.house_style():
        figure = style.Drawing(5.75 * columns, 4.3 * lines)
        axes = figure.subplots(lines, columns, squeeze=False).ravel()
        for draw, place in zip(panels, axes, strict=False):
            draw(place)
        for unused in axes[len(panels) :]:
            unused.set_axis_off()
    games = sum(round(row["games"]) for row in played)
    figure.description = f"{quantity(games, 'game')} at {quantity(len(played), 'setting')}"
    return figure


def _draw_results(axes: Axes, points: Sequence[tuple[float | None, Row]], name: str) -> None:
    """Draws the shares of White's wins, draws and losses against the setting, and (w + l) / d above each."""
    counted = [(x, row, row["wins"] + row["draws"] + row["losses"]) for x, (_, row) in enumerate(points)]
    with_games = [point for point in counted if point[2]]
    for place, (result, label, colour, marker) in enumerate(_RESULTS if with_games else ()):
        shares = np.array([row[result] / games for _, row, games in with_games])
        bounds = [wilson_bounds(share, games) for share, (_, _, games) in zip(shares, with_games, strict=True)]
        margins = np.abs(np.array(bounds).T - shares)
        line = axes.errorbar([x for x, _, _ in with_games], shares, margins, color=colour, marker=marker, ms=5, lw=1.2,
                             elinewidth=0.8, label=label, gid=label)  # fmt: skip
        # Side by side: results of equal share would hide one another.
        shift = ScaledTranslation((place - 1) * 5 / 72, 0, axes.figure.dpi_scale_trans)
        for artist in line.get_children():
            artist.set_transform(artist.get_transform() + shift)
    for x, row, _ in with_games:
        axes.annotate(formatted(row["ratio"], ".2f", "inf"), (x, 1.0), ha="center", va="bottom", fontsize=7.5)
    unknown = {"setting": "", "n_scl": "∞"}.get(name, "-")
    labels = [(unknown or row["setting"]) if value is None else f"{value:g}" for value, row in points]
    axes.set_xticks(range(len(points)), labels)
    axes.set(ylim=(0, 1.2), yticks=[0, 0.2, 0.4, 0.6, 0.8, 1], xlabel=name, ylabel="share of games")
    if with_games:
        axes.legend(loc="upper center", ncols=3)
    games, nodes = sum(point[2] for point in with_games), {round(row["nodes"]) for _, row in points}
    searched = f" {nodes.pop()} nodes," if len(nodes) == 1 else ""
    words = f"self-play,{searched} {games:,.0f} games; numbers: (w + l) / d, decided games to draws"
    style.title(axes, f"Results against {name}", words)


def _draw_repeats(axes: Axes, rows: Sequence[Row]) -> None:
    """Draws the shares of games repeated to 20 plies after the book and completely, a row for each setting."""
    for offset, (key, colour, label) in enumerate(_REPEATS):
        places = [i + 0.38 * offset - 0.19 for i in range(len(rows))]
        axes.barh(places, [row[key] or 0.0 for row in rows], 0.36, color=colour, label=label, gid=key)
    axes.set_yticks(range(len(rows)), [row["setting"] for row in rows])
    axes.set(xlim=(0, 1), ylim=(len(rows) - 0.4, -0.6), xlabel="share of games with an earlier one of their opening")
    axes.legend(loc="lower right")
    style.title(axes, "Repeated games", "identical to an earlier game from the same opening")


def _draw_matches(axes: Axes, rows: Sequence[Row]) -> None:
    """Draws Elo of the first side with intervals: thick at 0.90, thin at 0.99. A match with only wins has no point."""
    from valuerepair.report.experiment import elo_of

    axes.axvline(0, color=style.GREY, lw=0.8)
    decided = [row for row in rows if row["games"] > row["undecided"]]
    for i, row in enumerate(decided):
        for level, width in ((99, 1.0), (90, 3.0)):
            value, *ends = elo_of(row, level)
            axes.plot(np.clip(ends, -1200, 1200), [i, i], color=style.GREEN, lw=width, solid_capstyle="butt")
        if math.isfinite(value):
            axes.plot(max(min(value, 1200), -1200), i, "o", color=style.INK, ms=5, gid=f"match-{i}")
        words = f"+{row['wins']:g} -{row['losses']:g} ={row['draws']:g}, {100 * row['points']:.1f} %"
        axes.annotate(words, (0.99, i), xycoords=("axes fraction", "data"),
                      xytext=(0, 6), textcoords="offset points", fontsize=7, ha="right")  # fmt: skip
    axes.set_yticks(range(len(decided)), [row["first"] for row in decided])
    axes.set(ylim=(len(decided) - 0.4, -0.6), xlabel="Elo of the first side")
    against = ", ".join(dict.fromkeys(row["second"] for row in decided))
    words = f"against {against}; thick: interval at 0.90, thin: at 0.99" if decided else "not played"
    style.title(axes, "Matches", words)


# -- a comparison of nets ----------------------------------------------------------------------------------------------

# Category -> colour, marker; in the order of drawing.
_LOOKS = {
    "right both": (style.GREY, "o"),
    "still wrong": (style.BLUE, "s"),
    "repaired": (style.GREEN, "v"),
    "newly wrong": (style.VERMILLION, "^"),
}
_SIZE = 5.6  # inches of a panel


def compared(found: Compared) -> style.Drawing:
    """A row for each comparison, and in it a panel for each origin: candidates at the question's threshold.

    A point is the second net's disagreement (y) against the first's (x), both net Q - deep Q from the side to move;
    positions on the diagonal did not change. Artists have a gid: ``right-both``, ``still-wrong``, ``repaired``,
    ``newly-wrong``, numbered from the second panel on.
    """
    rows, origins = len(found.comparisons), len(found.comparisons[0].by_origin)
    with style.house_style():
        figure = style.Drawing(_SIZE * origins, _SIZE * rows)
        axes = figure.subplots(rows, origins, squeeze=False)
        for i, pair in enumerate(found.comparisons):
            for j, row in enumerate(pair.by_origin):
                number = i * origins + j
                _draw_compared(axes[i, j], found, pair, row, i + 1, f"-{number + 1}" if number else "")
    return figure


def _draw_compared(axes: Axes, found: Compared, pair: Comparison, row: OriginRow, second: int, suffix: str) -> None:
    from valuerepair.measure.compare import CATEGORIES, WORDS, categories

    threshold, positions = found.threshold, found.positions.of(row.origin)
    x, y = positions.disagreement[[0, second]]
    # What is no candidate of either net, and the diagonal.
    limit = max(1.05, threshold * 1.2, 1.05 * float(np.abs([x, y]).max()))
    axes.fill_between([-threshold, threshold], -threshold, threshold, color=style.PALE, lw=0, gid=f"band{suffix}")
    for place in (-threshold, threshold):
        axes.axvline(place, color=style.GREY, lw=0.5)
        axes.axhline(place, color=style.GREY, lw=0.5)
    axes.plot([-limit, limit], [-limit, limit], color=style.GREY, lw=0.8, ls="--", gid=f"diagonal{suffix}")
    axes.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal")
    size, opacity = _point_of(row.positions)
    codes = categories(positions, threshold, second)
    for category, (colour, marker) in _LOOKS.items():
        members = codes == CATEGORIES.index(category)
        looks: dict[str, Any] = (
            {"ms": size, "alpha": opacity} if category == "right both" else {"ms": size + 2, "alpha": 0.85}
        )
        axes.plot(x[members], y[members], marker, color=colour, gid=category.replace(" ", "-") + suffix,
                  label=f"{category}: {members.sum():,}", **looks, **style.POINTS)  # fmt: skip
    axes.set(xlabel=f"net Q − deep Q, {pair.first}", ylabel=f"net Q − deep Q, {pair.second}")
    axes.legend(loc="upper left", handletextpad=0.3)
    count = f"{WORDS[row.origin]}: {positions_of_games(row.positions, row.games)}{found.which}"
    scale = found.alpha.source(found.q_from)
    rule = f"candidates: |net Q − deep Q| ≥ {threshold:g}"
    style.title(axes, f"{pair.second} against {pair.first}", f"{found.judge} · {scale}", count, rule)
