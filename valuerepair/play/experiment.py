"""Experiments: self-play runs or matches, one for each setting, and the results of each as a row of a table.

The games of every setting are a PGN file in the experiment's folder, so the same command continues where it stopped.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from valuerepair.engines.spec import EngineSpec
from valuerepair.errors import UsageError, check_least
from valuerepair.mcts.params import SearchParams
from valuerepair.play.elo import share_interval
from valuerepair.play.figures import PlayedGame, disagreements, figures
from valuerepair.play.lineup import Lineup, params_of, parse_side
from valuerepair.play.match import BUILT_IN, MatchPlan, play_match
from valuerepair.play.openings import Opening, built_in_openings, read_openings
from valuerepair.play.pgn import read_written
from valuerepair.play.referee import MAX_PLIES, Rules
from valuerepair.play.selfplay import ForestSource, SelfplayPlan, play_selfplay
from valuerepair.play.standing import Played, Standing
from valuerepair.progress import Progress
from valuerepair.text import finite

log = logging.getLogger(__name__)

Row = dict[str, Any]
# The settings that a sweep of self-play compares by default.
DEFAULT_SETTINGS = (
    *(f"n_scl={n}" for n in ("5", "10", "32", "100", "inf")),
    *(f"temperature={tau}" for tau in ("0.25", "0.5", "0.75", "1")),
)
REPEAT_DEPTHS = ("10", "20", "40", "whole")


@dataclass(frozen=True, kw_only=True)
class ExperimentOptions:
    """The options that all settings of an experiment share, as typed.

    `openings` is a PGN, EPD or FEN file, None the built-in list; `lines` of them are played, evenly spread; `net` is a
    name or file; `nodes` are per move, for settings without their own; `games` are per setting.
    """

    openings: str | None = None
    lines: int = 50
    net: str | None = None
    nodes: int = 200
    games: int = 200


@dataclass
class Experiment:
    """The runs of all settings: `games` per setting from `openings`, with `nodes` unless a setting has its own.

    An interruption sets `stopped`: from then on no games are played, and rows show the games in the folder.
    """

    folder: Path
    openings: Sequence[Opening]
    book: str
    nodes: int
    games: int
    net: str | None = None
    quiet: bool = False
    stopped: bool = False

    def __post_init__(self) -> None:
        """Raises UsageError."""
        check_least("--games", self.games)
        check_least("--nodes", self.nodes)

    def selfplay(self, setting: EngineSpec, threshold: float) -> Row:
        """The row of a setting that plays itself. Raises UsageError and ValueRepairError, as self-play does."""
        path, name = self._path(name_of(setting)), name_of(setting)
        nodes = setting.limits.get("nodes", self.nodes)
        if self.stopped:
            written = read_written(path)[0] if path.exists() else []
            games: Sequence[PlayedGame] = [PlayedGame.of_written(game) for game in written]
        else:
            net, params = setting.weights or self.net, params_of(setting)
            with (
                self._progress(name) as progress,
                ForestSource(net, params, nodes, games=self.games, rules=Rules(max_plies=MAX_PLIES)) as source,
            ):
                self.folder.mkdir(parents=True, exist_ok=True)  # only now: a missing net must not leave a folder
                plan = SelfplayPlan(self.openings, self.book, source.side, source.facts, self.games)
                end = play_selfplay(plan, source, path, progress=progress)
            games, self.stopped = end.games, end.interrupted
        return selfplay_row(setting, games, threshold) | {"nodes": nodes, "planned": self.games}

    def match(self, first: EngineSpec, second: EngineSpec, *, odds: bool = False) -> Row:
        """The row of a match. With `odds` the first side has less material. Raises UsageError and ValueRepairError."""
        first, second = (
            replace(side, weights=side.weights or (self.net if side.kind.built_in else None), name=name_of(side))
            for side in (first, second)
        )
        path, rules = self._path(f"{first.name} against {second.name}"), Rules(max_plies=MAX_PLIES)
        plan = MatchPlan(self.openings, self.games, self.book, odds, self.nodes, rules)
        for line in plan.remark():
            log.info(line)
        if self.stopped:
            standing = Standing((str(first.name), str(second.name)))
            for game in read_written(path)[0] if path.exists() else ():
                standing.add(Played.of_written(game))
        else:
            with (
                Lineup([first, second], self.nodes, None, self.games) as lineup,
                self._progress(path.stem) as progress,
            ):
                self.folder.mkdir(parents=True, exist_ok=True)
                end = play_match(plan, lineup, path, progress=progress)
            standing, self.stopped = end.standing, end.interrupted
        return match_row(first, second, standing) | {"planned": self.games}

    def equal_temperature(self, setting: EngineSpec, rows: Sequence[Row]) -> tuple[float, bool] | None:
        """The temperature with the same (w + l) / d as `setting`, to two decimals; whether it lies between two `rows`.

        None if no ratio is finite. A match that has begun keeps its temperature.
        """
        # The setting without contempt is the one with temperature 0.
        points = [
            (float(row["value"]) if row["kind"] == "temperature" else 0.0, float(row["ratio"]))
            for row in rows
            if row["ratio"] and (row["kind"] == "temperature" or row["plain"])
        ]
        ratio = next((row["ratio"] for row in rows if row["setting"] == name_of(setting)), None)
        try:
            temperature, inside = equal_ratio_temperature(ratio or 0.0, points)
        except ValueError:
            return None
        for path in sorted(self.folder.glob("*-against-temperature=*.pgn")):
            played = path.stem.rpartition("=")[2]
            if path == self._path(f"{name_of(setting)} against temperature={played}"):
                temperature = float(played)
        return round(temperature, 2), inside

    def _path(self, name: str) -> Path:
        """The file of a setting's games."""
        return self.folder / f"{re.sub('[^A-Za-z0-9_.=+]+', '-', name)}.pgn"

    def _progress(self, name: str) -> Progress:
        return Progress(name, None, "games", quiet=self.quiet)


def name_of(side: EngineSpec) -> str:
    """The side's name, or its settings: ``nodes=10 n_scl=5``."""
    file = side.path or side.weights
    words = [Path(file).name if file else "" if side.kind.built_in else side.kind.name]
    words += [f"{name}={value}" for name, value in {**side.limits, **side.options}.items()]
    return side.name or " ".join(word for word in words if word) or "plain"


def setting_of(text: str) -> EngineSpec:
    """Parses a setting of our own search, as a side of a match: ``nodes=100,temperature=1``. Raises UsageError."""
    side = parse_side(text)
    if not side.kind.built_in or "movetime" in side.limits:
        raise UsageError(
            f"{text}: only the built-in search plays itself, by nodes: give its parameters, NAME=VALUE,..."
        )
    return side


def choose_openings(book: str | None, most: int) -> tuple[list[Opening], str]:
    """At most `most` lines of a book or of the built-in ones, evenly spread, and the book's name.

    Logs if there are fewer. Raises UsageError for `most` below 1, ValueRepairError for a book that cannot be read.
    """
    check_least("--lines", most)
    openings = read_openings(book) if book is not None else built_in_openings()
    if most > len(openings):
        log.info(f"the book has only {len(openings):,} lines, not {most:,}; all are played")
    chosen = np.unique(np.linspace(0, len(openings) - 1, min(most, len(openings))).round().astype(int)).tolist()
    return [openings[number] for number in chosen], Path(book).name if book is not None else BUILT_IN


def selfplay_row(setting: EngineSpec, games: Sequence[PlayedGame], threshold: float) -> Row:
    """The results of a setting's self-play games; intervals at 0.95, None for unknown and infinite values.

    `kind` and `value` are the setting's parameter if it has just one; the value None is infinity. `repeats` are the
    shares of games that equal an earlier one, among the games with an earlier game of their opening. `interesting` is
    the number of positions, in a thousand, whose net value and search value are at least `threshold` apart.
    """
    kind, value = next(iter(setting.options.items())) if len(setting.options) == 1 else ("setting", "")
    results, apart, openings = figures(games), disagreements(games, threshold), len({game.beginning for game in games})
    row = {"kind": kind, "setting": name_of(setting), "value": number(value), "games": len(games)}
    row |= {name: results[name] for name in ("undecided", "wins", "draws", "losses")} | {"openings": openings}
    row |= {f"ratio{end}": results[f"decisive_ratio{end}"] for end in ("", "_low", "_high")}
    later = len(games) - openings
    row |= {f"repeats_{d}": results["repeated"][d] * len(games) / later if later else None for d in REPEAT_DEPTHS}
    for end, share in (("", apart.rate), ("_low", apart.low), ("_high", apart.high)):
        row[f"interesting{end}"] = number(1000 * share)
    row |= {"threshold": threshold, "positions": apart.total, "plies": results["mean_plies"]}
    return row | {"plain": params_of(setting) == SearchParams()}


def match_row(first: EngineSpec, second: EngineSpec, standing: Standing) -> Row:
    """The result of a match for the first side; None for unknown and infinite values. `value` are the first's nodes.

    `effective_moves` are the effective root moves of the first side's searches, `effective_moves_second` the other's.
    """
    results, share = standing.as_json(), share_interval(standing.results)
    row: Row = {"kind": "match", "setting": f"{first.name} against {second.name}", "value": first.limits.get("nodes")}
    row |= {"first": first.name, "second": second.name, "games": standing.games, "undecided": results["undecided"]}
    row |= results["score"] | {"pairs": " ".join(map(str, results["pentanomial"]))}
    row |= {"intervals_of": results["intervals_of"]}
    row |= {f"points{end}": number(value) for end, value in zip(("", "_low", "_high"), share, strict=True)}
    row |= {"los": results["los"], "elo": results["elo"][0]["value"]}
    row["effective_moves"], row["effective_moves_second"] = results["effective_root_moves"]
    for level in results["elo"]:
        name = f"elo_{round(100 * level['level'])}"
        row |= {
            f"{name}_low": level["low"],
            f"{name}_high": level["high"],
            f"{name}_verdict": level["verdict"],
        }
    return row


def number(text: str | float) -> float | None:
    """A finite number, or None."""
    try:
        return finite(float(text))
    except ValueError:
        return None


def equal_ratio_temperature(target: float, sweeps: Sequence[tuple[float, float]]) -> tuple[float, bool]:
    """The temperature whose (w + l) / d is `target`, and whether `target` lies within the measured ratios.

    `sweeps` are (temperature, ratio). The logarithm of the ratio is interpolated linearly; the lowest crossing counts.
    Outside the measured ratios it is the temperature of the nearest one. Raises ValueError without a finite ratio
    above 0.
    """
    points = sorted((tau, math.log(ratio)) for tau, ratio in sweeps if 0 < ratio < math.inf)
    if not points or not 0 < target < math.inf:
        raise ValueError("no temperature of equal ratio: a ratio is 0 or has no draws")
    log_target = math.log(target)
    for (tau, low), (next_tau, high) in pairwise(points):
        if min(low, high) <= log_target <= max(low, high):
            return (tau + (next_tau - tau) * (log_target - low) / (high - low) if high != low else tau), True
    return min(points, key=lambda point: abs(point[1] - log_target))[0], False
