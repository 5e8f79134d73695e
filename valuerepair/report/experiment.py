"""The rows of an experiment as a table and as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from valuerepair.errors import ValueRepairError
from valuerepair.files import written_whole
from valuerepair.play.elo import FEWEST, LEVELS, NOT_SHOWN, Estimate, MatchScore, elo_words
from valuerepair.text import formatted, table_lines

TABLE = "table.csv"
PLOT = "plot.png"
Row = Mapping[str, Any]
# Games of a setting run in parallel, so until the last one ends the results are biased towards short games.
UNFINISHED = "* not all games of the setting are over: those that are over are the shorter ones"
_SWEEP_COLUMNS = (
    "setting:<20 | games:>6, | White +W -L =D:>20 | (w+l)/d:>8 | 95 %:>15 | "
    "same to 20:>11 | whole:>7 | interesting/1000:>17 | 95 %:>13 | plies:>6.0f"
)
_MATCH_COLUMNS = "match:<50 | games:>6, | +W -L =D:>18 | points:>8 | Elo at 0.95:>28 | shown at:<"


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
        cells.append((_marked(row), row["games"], score, points, elo_words(elo_of(row, 95)), words))
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


def _marked(row: Row) -> str:
    return f"{row['setting']}{'*' * (0 < row['games'] < row['planned'])}"


def _unfinished(rows: Sequence[Row]) -> list[str]:
    return [UNFINISHED] * any(0 < row["games"] < row["planned"] for row in rows)


def _bounds(row: Row, name: str, digits: int) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    if low is None:
        return "-"
    return f"above {low:.{digits}f}" if high is None else f"{low:.{digits}f} to {high:.{digits}f}"


def elo_of(row: Row, level: int) -> Estimate:
    """Elo with its interval; a None in a row is infinite, or unknown if all three are None."""
    value, low, high = row["elo"], row[f"elo_{level}_low"], row[f"elo_{level}_high"]
    if value is None and low is None and high is None:
        return Estimate(math.nan, math.nan, math.nan)
    if value is None:
        value = math.inf if high is None else -math.inf
    return Estimate(value, -math.inf if low is None else low, math.inf if high is None else high)
