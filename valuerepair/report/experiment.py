"""The rows of an experiment as a table, as CSV and as plots."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.transforms import ScaledTranslation

from valuerepair.errors import ValueRepairError
from valuerepair.files import written_whole
from valuerepair.play.elo import FEWEST, LEVELS, NOT_SHOWN, Estimate, MatchScore, elo_words
from valuerepair.rates import wilson_bounds
from valuerepair.report import style
from valuerepair.text import formatted, quantity, table_lines

TABLE = "table.csv"
PLOT = "plot.png"
Row = Mapping[str, Any]
# Games of a setting run in parallel, so until the last one ends the results are biased towards short games.
UNFINISHED = "* not all games of the setting are over: those that are over are the shorter ones"
_RESULTS = (("wins", "White wins", style.ORANGE, "o"), ("draws", "draws", style.GREY, "s"),
          ("losses", "Black wins", style.BLUE, "^"))  # fmt: skip
_SWEEP_COLUMNS = (
    "setting:<20 | games:>6, | White +W -L =D:>20 | (w+l)/d:>8 | 95 %:>15 | "
    "same to 20:>11 | whole:>7 | interesting/1000:>17 | 95 %:>13 | plies:>6.0f"
)
_MATCH_COLUMNS = "match:<50 | games:>6, | +W -L =D:>18 | points:>8 | Elo at 0.95:>28 | shown at:<"
_REPEATS = (("repeats_20", style.SKY, "to 20 plies"), ("repeats_whole", style.BLUE, "whole"))


@dataclass(frozen=True)
class ExperimentTable:
    """The `rows` of an experiment, one for each setting or match, and the `text` of `vr experiment` on them."""

    rows: Sequence[Row]
    text: Sequence[str]

    def lines(self) -> list[str]:
        """The table for a terminal."""
        return list(self.text)


def selfplay_lines(rows: Sequence[Row]) -> list[str]:
    """The table of self-play, one line per setting; intervals at 0.95."""
    cells: list[Sequence[object]] = []
    for row in rows:
        if not row["games"]:
            cells.append((row["setting"], "not played yet"))
            continue
        score = str(MatchScore(row["wins"], row["draws"], row["losses"]))
        ratio, interesting = formatted(row["ratio"], ".2f", "no draw"), formatted(row["interesting"], ".1f", "-")
        repeats = [formatted(row[name], ".0%", "-") for name in ("repeats_20", "repeats_whole")]
        intervals = _bounds(row, "ratio", 2), _bounds(row, "interesting", 1)
        cells.append(
            (_marked(row), row["games"], score, ratio, intervals[0], *repeats, interesting, intervals[1], row["plies"])
        )
    return [*table_lines(_SWEEP_COLUMNS, cells), *_unfinished(rows)]


def match_lines(rows: Sequence[Row]) -> list[str]:
    """The table of matches: the first side's score, points, Elo at 0.95, and the verdict at each level."""
    cells = []
    for row in rows:
        score = str(MatchScore(row["wins"], row["draws"], row["losses"]))
        points = formatted(row["points"], ".1%", "-")
        verdicts = [(row[f"elo_{round(100 * level)}_verdict"], level) for level in LEVELS]
        words = ", ".join(f"{verdict} {level:.2f}" for verdict, level in verdicts if verdict != NOT_SHOWN) or NOT_SHOWN
        if 0 < row["games"] < FEWEST:
            words = "too few games"
        cells.append((_marked(row), row["games"], score, points, elo_words(_elo(row, 95)), words))
    return [*table_lines(_MATCH_COLUMNS, cells), *_unfinished(rows)]


def write_table(rows: Sequence[Row], folder: Path) -> list[Row]:
    """Writes rows of any columns as CSV, with empty cells for columns that a row lacks, and returns all its rows.

    Rows of other settings that the folder's table has already stay, after these. It replaces only a table of this
    `kind`: self-play and matches have different columns. Raises UsageError for another file, and ValueRepairError for
    a table that it cannot read.
    """
    settings = {row["setting"] for row in rows}
    earlier = _cells(folder / TABLE) if (folder / TABLE).exists() else []
    other_rows = [cells for cells in earlier if cells.get("setting") not in settings]
    parsed = _parsed(other_rows, folder / TABLE)
    text = io.StringIO()
    columns = list(dict.fromkeys(name for row in (*rows, *other_rows) for name in row))
    writer = csv.DictWriter(text, columns, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows([*rows, *other_rows])
    with written_whole(folder / TABLE) as partial:
        partial.write_text(text.getvalue(), "utf-8")
    return [*rows, *parsed]


def read_table(path: str) -> list[Row]:
    """The rows of an experiment's folder, or of its table.csv. Raises ValueRepairError for any other file."""
    table = Path(path) / TABLE if Path(path).is_dir() else Path(path)
    try:
        rows = _cells(table)
    except FileNotFoundError:
        raise ValueRepairError(f"there is no {table}; vr experiment selfplay -o FOLDER makes it") from None
    if not any(row.get("ratio") is not None and row.get("kind") != "match" for row in rows):
        raise ValueRepairError(f"{table}: no sweeps in it; give the folder of a vr experiment selfplay")
    return _parsed(rows, table)


def _cells(table: Path) -> list[dict[str, str]]:
    """The rows of a table as text; none of a file that is not text."""
    try:
        return list(csv.DictReader(io.StringIO(table.read_text("utf-8"), newline="")))
    except (UnicodeDecodeError, csv.Error):
        return []


def _parsed(rows: Sequence[Mapping[str, str]], table: Path) -> list[Row]:
    """The rows that `selfplay_row` or `match_row` made, from their text. Raises ValueRepairError."""
    words = ("kind", "setting", "first", "second", "pairs", "intervals_of", "plain")
    parsed: list[Row] = []
    for line, row in enumerate(rows, 2):
        try:
            cells = {k: v if k in words or "verdict" in k else float(v) if v else None for k, v in row.items()}
            parsed.append(cells | {"plain": row.get("plain") == "True"})
        except (ValueError, TypeError):
            raise ValueRepairError(f"{table}: line {line} is not a row of vr experiment") from None
    return parsed


def drawing(path: str) -> style.Drawing:
    """Draws the table in the folder of a `vr experiment`, see `draw`. Raises ValueRepairError."""
    rows = [row for row in read_table(path) if row["kind"] != "match"]
    games = sum(round(row["games"]) for row in rows)
    return draw(rows).described(f"{quantity(games, 'game')} at {quantity(len(rows), 'setting')}")


def draw(rows: Sequence[Row]) -> style.Drawing:
    """Self-play: W/D/L by each varied parameter, and repeated games; matches: Elo of the first side.

    Artists have the gid of their line: ``White wins``, ``draws``, ``Black wins``. Bars are intervals at 0.95.
    """
    matches, played = ([row for row in rows if (row["kind"] == "match") is is_match] for is_match in (True, False))
    kinds = list(dict.fromkeys(row["kind"] for row in played))
    panels = max(len(kinds) + bool(played) + bool(matches), 1)
    with style.house_style():
        columns = min(panels, 2)
        rows_of_panels = -(-panels // columns)
        figure = style.Drawing(5.75 * columns, 4.3 * rows_of_panels)
        axes = list(figure.subplots(rows_of_panels, columns, squeeze=False).ravel())
        for kind in kinds:
            # The setting without contempt and temperature has a place on every axis.
            points = [(0.0 if row["kind"] != kind else row["value"], row) for row in played
                      if row["kind"] == kind or (row["plain"] and kind == "temperature")]  # fmt: skip
            points.sort(key=lambda point: math.inf if point[0] is None else point[0])
            _draw_results(axes.pop(0), points, kind)
        if played:
            _draw_repeats(axes.pop(0), played)
        if matches:
            _draw_matches(axes.pop(0), matches)
        for unused in axes:
            unused.set_axis_off()
    return figure


def _marked(row: Row) -> str:
    return f"{row['setting']}{'*' * (0 < row['games'] < row['planned'])}"


def _unfinished(rows: Sequence[Row]) -> list[str]:
    return [UNFINISHED] * any(0 < row["games"] < row["planned"] for row in rows)


def _bounds(row: Row, name: str, digits: int) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    if low is None:
        return "-"
    return f"above {low:.{digits}f}" if high is None else f"{low:.{digits}f} to {high:.{digits}f}"


def _elo(row: Row, level: int) -> Estimate:
    """Elo with its interval; a None in a row is infinite, or unknown if all three are None."""
    value, low, high = row["elo"], row[f"elo_{level}_low"], row[f"elo_{level}_high"]
    if value is None and low is None and high is None:
        return Estimate(math.nan, math.nan, math.nan)
    if value is None:
        value = math.inf if high is None else -math.inf
    return Estimate(value, -math.inf if low is None else low, math.inf if high is None else high)


def _draw_results(axes: Axes, points: Sequence[tuple[float | None, Row]], name: str) -> None:
    """Draws the shares of White's wins, draws and losses against the setting, and (w + l) / d above each."""
    counted = [(x, row, row["wins"] + row["draws"] + row["losses"]) for x, (_, row) in enumerate(points)]
    with_games = [point for point in counted if point[2]]
    for place, (result, label, colour, marker) in enumerate(_RESULTS):
        if not with_games:
            break
        shares = [row[result] / games for _, row, games in with_games]
        bounds = [wilson_bounds(share, games) for share, (_, _, games) in zip(shares, with_games, strict=True)]
        margins = [[s - low for s, (low, _) in zip(shares, bounds, strict=True)],
                   [high - s for s, (_, high) in zip(shares, bounds, strict=True)]]  # fmt: skip
        line = axes.errorbar([x for x, _, _ in with_games], shares, margins, color=colour, marker=marker, ms=5, lw=1.2,
                             elinewidth=0.8, label=label, gid=label)  # fmt: skip
        # Side by side: results of equal share would hide one another.
        shift = ScaledTranslation((place - 1) * 5 / 72, 0, axes.figure.dpi_scale_trans)
        for artist in line.get_children():
            artist.set_transform(artist.get_transform() + shift)
    for x, row, _ in with_games:
        ratio = formatted(row["ratio"], ".2f", "inf")
        axes.annotate(ratio, (x, 1.0), ha="center", va="bottom", fontsize=7.5)
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
    axes.axvline(0, color=style.GREY, lw=0.8)
    decided = [row for row in rows if row["games"] > row["undecided"]]
    for i, row in enumerate(decided):
        for level, width in ((99, 1.0), (90, 3.0)):
            value, low, high = _elo(row, level)
            ends = [max(low, -1200), min(high, 1200)]
            axes.plot(ends, [i, i], color=style.GREEN, lw=width, solid_capstyle="butt")
        if math.isfinite(value):
            axes.plot(max(min(value, 1200), -1200), i, "o", color=style.INK, ms=5, gid=f"match-{i}")
        words = f"+{row['wins']:g} -{row['losses']:g} ={row['draws']:g}, {100 * row['points']:.1f} %"
        axes.annotate(words, (0.99, i), xycoords=("axes fraction", "data"),
                      xytext=(0, 6), textcoords="offset points", fontsize=7, ha="right")  # fmt: skip
    axes.set_yticks(range(len(decided)), [row["first"] for row in decided])
    axes.set(ylim=(len(decided) - 0.4, -0.6), xlabel="Elo of the first side")
    against = ", ".join(dict.fromkeys(row["second"] for row in decided))
    style.title(
        axes, "Matches", f"against {against}; thick: interval at 0.90, thin: at 0.99" if decided else "not played"
    )
