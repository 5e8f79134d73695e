"""The table that `vr experiment contempt` writes, read again: what its plots need of it."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from pathlib import Path

from valuerepair.errors import ValueRepairError
from valuerepair.play.elo import Interval, Score
from valuerepair.play.experiment import kept_identity
from valuerepair.play.experiment_contempt import ContemptReport
from valuerepair.play.experiment_measures import REPEAT_PLIES, WHOLE, Sweep

TABLE = "table.csv"
_KINDS = ("n_scl", "temperature")


def read_sweeps(path: str) -> ContemptReport:
    """The sweeps of an experiment's folder, or of its table.csv; the match is left out.

    What the table does not have is 0 nodes of a sweep, and 0 nodes of the report where the folder has no games (any
    more). Raises ValueRepairError for what is no such folder or table.
    """
    table = Path(path) / TABLE if Path(path).is_dir() else Path(path)
    try:
        with table.open(encoding="utf-8", newline="") as lines:
            rows = [row for row in csv.DictReader(lines) if row.get("kind") in _KINDS]
    except FileNotFoundError:
        raise ValueRepairError(f"there is no {table}; vr experiment contempt --out FOLDER makes it") from None
    except (UnicodeDecodeError, csv.Error):
        rows = []
    if not rows:
        raise ValueRepairError(f"{table}: no sweeps in it; give the folder of a vr experiment contempt")
    found: dict[str, list[tuple[float, Sweep]]] = {kind: [] for kind in _KINDS}
    for line, row in enumerate(rows, 2):
        try:
            # Infinity is written as nothing.
            found[row["kind"]].append((_number(row["value"], math.inf), _sweep(row)))
        except (KeyError, ValueError, TypeError):
            raise ValueRepairError(f"{table}: line {line} is no row of vr experiment contempt") from None
    return ContemptReport(found["n_scl"], found["temperature"], None, True, _nodes(table.parent, rows[0]["setting"]))


def _sweep(row: Mapping[str, str]) -> Sweep:
    score = Score(int(row["wins"]), int(row["draws"]), int(row["losses"]))
    return Sweep(
        row["setting"],
        score,
        int(row["undecided"]),
        int(row["openings"]),
        Interval(score.decisive_ratio, _number(row["ratio_low"], math.nan), _number(row["ratio_high"], math.inf)),
        {str(plies): _number(row[f"repeats_{plies}"], math.nan) for plies in (*REPEAT_PLIES, WHOLE)},
        Interval(*(_number(row[f"interesting{end}"], math.nan) for end in ("", "_low", "_high"))),
        float(row["threshold"]),
        int(row["positions"]),
        _number(row["plies"], math.nan),
        0,
        int(row["planned"]),
    )


def _number(text: str, missing: float) -> float:
    return float(text) if text else missing


def _nodes(folder: Path, setting: str) -> int:
    """Nodes a move of the experiment's games; 0 where that is not known."""
    try:
        kept = kept_identity(folder, setting)
        return int(kept["sides"][0]["nodes"]) if kept else 0
    except (ValueError, KeyError, IndexError, TypeError, OSError):
        return 0
