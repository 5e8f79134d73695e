"""A match of two sides: games from a book with both colours, written as they end, resumed, and stopped by a test."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import random
import re
import time
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from valuerepair import stop
from valuerepair.engines.spec import count
from valuerepair.errors import UsageError, check_least
from valuerepair.play.breadth import breadth_tags
from valuerepair.play.elo import GO_ON, Sprt, parse_sprt
from valuerepair.play.game import GameRecord
from valuerepair.play.lineup import Lineup, parse_side
from valuerepair.play.openings import (
    Opening,
    built_in_openings,
    check_playable,
    opening_of,
    read_openings,
    white_material,
)
from valuerepair.play.pgn import PgnWriter, WrittenGame, claimed_games, game_text, resumed, run_tags, today
from valuerepair.play.referee import RULE_SETTINGS, Rules
from valuerepair.play.runner import Pairing, play_games
from valuerepair.play.standing import Played, Standing, level_lines, progress_note, report_lines
from valuerepair.progress import Progress
from valuerepair.text import quantity
from valuerepair.version import __version__

log = logging.getLogger(__name__)

TICK_S = 0.5
# 1.96 standard deviations of a game's points, 0.41, by 1,600 / ln 10 Elo a point at an even score, with a margin.
_ELO_OF_ONE_GAME = 600
BUILT_IN = "built-in"
# In the text of a side; it holds for the games.
_RULE = re.compile(rf"(?:^|,)({'|'.join(RULE_SETTINGS)})=((?:\\,|[^,])*)")


@dataclass(frozen=True)
class MatchPlan:
    """The games to play: `games` in all, from the openings, by `rules`; `nodes` per move, for sides without a limit.

    Games 2k and 2k + 1 have the same opening; the first side has White in even games. Openings come in the book's
    order; a `seed` other than 0 shuffles them, differently each time through the book. With `odds` each opening is
    played once, the first side with less material: pairs have only one game. `book` names the openings in PGN. With
    `sprt` the match ends once the test has decided. Raises UsageError for an odd number of games, for less than two
    games, and for `odds` with openings of even material.
    """

    openings: Sequence[Opening]
    games: int
    book: str = BUILT_IN
    odds: bool = False
    nodes: int | None = None
    rules: Rules = field(default_factory=Rules)
    sprt: Sprt | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.odds:
            check_least("--games", self.games)
            for opening in self.openings:
                if white_material(opening.fen) == 0:
                    raise UsageError(f"line {opening.number + 1} gives no odds: {opening.fen}")
        elif self.games < 2 or self.games % 2:
            raise UsageError(f"--games {self.games}: must be even and at least 2, as each opening has both colours")

    @property
    def order(self) -> str:
        """The order of the openings, in a word."""
        return "odds" if self.odds else "shuffled" if self.seed else "sequential"

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of its games."""
        if not self.odds:
            return range(self.games)
        return [2 * pair + (white_material(self.opening(pair).fen) > 0) for pair in range(self.games)]

    def pairings(self, done: Container[int] = ()) -> Iterator[Pairing]:
        """The games whose numbers are not in `done`."""
        for number in self.numbers:
            if number not in done:
                yield Pairing(number, self.opening(number // 2), number % 2, 1 - number % 2)

    def opening(self, pair: int) -> Opening:
        """The opening of a pair of games."""
        turn, line = divmod(pair, len(self.openings))
        return self.openings[_order(len(self.openings), turn, self.seed)[line] if self.seed else line]

    def remark(self) -> list[str]:
        """Remarks for the user: what so many games can show, and the openings."""
        pairs = self.games if self.odds else self.games // 2
        lines = [f"{quantity(self.games, 'game')} show differences of some {shown_elo(self.games)} Elo"]
        if self.book == BUILT_IN:
            lines.append(
                f"openings: {len(self.openings):,} built-in lines, one per ECO code; --openings BOOK for others"
            )
        played = [self.opening(pair) for pair in range(min(pairs, len(self.openings)))]
        different = len({opening_of(opening.start_fen, opening.moves) for opening in played})
        if pairs > different:
            lines.append(
                f"{quantity(self.games, 'game')} from {quantity(different, 'opening')}, so games by nodes and without "
                "temperature are repeated; intervals are over openings, an SPRT counts copies as new games"
            )
        return lines


def shown_elo(games: int) -> int:
    """About half the width, in Elo, of the interval at 0.95 of so many games, a third of them drawn."""
    return round(_ELO_OF_ONE_GAME / math.sqrt(games))


@cache
def _order(count: int, turn: int, seed: int) -> list[int]:
    order = list(range(count))
    random.Random(f"{seed} {turn}").shuffle(order)
    return order


@dataclass(frozen=True)
class MatchEnd:
    """The state of a match at the end of a run: earlier runs played `before` of its games.

    `q_scales` are the sides' settings `q_scale`, None for engines.
    """

    standing: Standing
    games: int
    before: int
    interrupted: bool
    path: Path
    q_scales: tuple[float | None, float | None]

    @property
    def advised(self) -> tuple[int, float] | None:
        """The side (0 or 1) to change, and its `q_scale` for a match at equal breadth.

        It is the side with the steeper Q, so that no Q is cut off at 1. None if the scales of Q are about the same, or
        too uncertain.
        """
        scale = self.standing.q_scale
        if scale is None or not scale.differs:
            return None
        side, times = (0, scale.value) if scale.value < 1 else (1, 1 / scale.value)
        before = self.q_scales[side]
        return None if before is None else (side, round(before * times, 2))

    def lines(self) -> list[str]:
        """For the user: the standing, and the file of the games."""
        file_line = [f"games in {self.path}"] if self.standing.games else []
        return [*report_lines(self.standing), *self._advice(), *file_line]

    def details(self) -> list[str]:
        """Normalized Elo, and the interval and verdict at each level."""
        return level_lines(self.standing)

    def _advice(self) -> list[str]:
        """How much steeper one net's Q is, and the setting that compensates for it."""
        if self.advised is None or (scale := self.standing.q_scale) is None:
            return []
        side, setting = self.advised
        steeper, flatter = self.standing.names[side], self.standing.names[1 - side]
        times = scale.inverse if side == 0 else scale
        return [
            f"Q of {steeper} is {times} times as steep as that of {flatter}, so by the same settings it is searched "
            f"more narrowly; for a match at equal breadth give {steeper} q_scale={setting:g}"
        ]

    def as_json(self) -> dict[str, Any]:
        """All figures of `Standing.as_json`, the number of planned games, and the file."""
        figures = {**self.standing.as_json(), "planned": self.games, "pgn": str(self.path)}
        if self.advised is not None:
            side, setting = self.advised
            figures["advised"] = {"player": self.standing.names[side], "q_scale": setting}
        return figures


@dataclass(frozen=True, kw_only=True)
class MatchOptions:
    """A match as typed. `games` is by default two per opening; `openings` is a PGN, EPD or FEN file, by default the
    built-in lines; `nodes` (``800``, ``10k``) limit the sides whose text has no limit; `sprt` is a test,
    ``elo0=0,elo1=5``; the others are as in `MatchPlan` and `Lineup`."""

    games: int | None = None
    openings: str | None = None
    nodes: str | None = None
    rules: Rules = field(default_factory=Rules)
    sprt: str | None = None
    jobs: int | None = None
    seed: int = 0
    device: str = "auto"
    threads: int | None = None

    def plan(self) -> MatchPlan:
        """The games to play. Raises UsageError and ValueRepairError."""
        openings = read_openings(self.openings) if self.openings is not None else built_in_openings()
        check_playable(openings, self.openings)
        return MatchPlan(
            openings,
            self.games if self.games is not None else 2 * len(openings),
            os.path.basename(self.openings) if self.openings is not None else BUILT_IN,
            nodes=None if self.nodes is None else count(self.nodes, f"--nodes {self.nodes}"),
            rules=self.rules,
            sprt=parse_sprt(self.sprt) if self.sprt is not None else None,
            seed=self.seed,
        )


def play_sides(sides: Sequence[str], options: MatchOptions, path: str | Path, *, progress: Progress) -> MatchEnd:
    """The match of two sides, given as the text of `vr match`: opens them, and logs the players. See `play_match`."""
    texts, rules = without_rules(sides, options.rules)
    players, plan = [parse_side(text) for text in texts], replace(options, rules=rules).plan()
    device_options = {"device": options.device, "threads": options.threads}
    with Lineup(players, plan.nodes, options.jobs, plan.games, **device_options) as lineup:
        log.info("\n".join([*lineup.lines(), *plan.remark()]))
        return play_match(plan, lineup, path, progress=progress)


def without_rules(sides: Sequence[str], rules: Rules) -> tuple[list[str], Rules]:
    """The texts of the sides without ``syzygy=FOLDERS`` and ``max_plies=N``, and the rules of the games with these.

    Raises UsageError for an invalid number of plies.
    """
    found = {name: value.replace("\\,", ",") for side in sides for name, value in _RULE.findall(side)}
    return [_RULE.sub("", side).removeprefix(",") for side in sides], rules.with_settings(found)


def play_match(plan: MatchPlan, lineup: Lineup, path: str | Path, *, progress: Progress) -> MatchEnd:
    """Plays the games of the match that are not in the PGN file `path` yet, and appends each as it ends.

    SIGINT and SIGTERM end the run: running games are abandoned, finished ones are all in the file. Raises
    UsageError for a file of another match, naming the difference, and ValueRepairError for one that another process
    writes.
    """
    names = lineup.seats[0].player.name, lineup.seats[1].player.name
    standing = Standing(names, plan.sprt, paired=not plan.odds)
    with claimed_games(path):
        facts = _Facts(plan, lineup)
        planned = f"{quantity(plan.games, 'game')}; give more --games"
        done, size = resumed(Path(path), max(plan.numbers), planned, facts.difference)
        for game in done:
            standing.add(Played.of_written(game))
        if done:
            resuming = "; resuming" if len(done) < plan.games and standing.verdict == GO_ON else ""
            log.info(f"{path}: {len(done):,} of {plan.games:,} games are played already{resuming}")
        writer = PgnWriter(path, size)
        try:
            interrupted = _play(plan, lineup, {game.number for game in done}, standing, writer, facts, progress)
        finally:
            writer.close()
    scales = lineup.seats[0].q_scale, lineup.seats[1].q_scale
    return MatchEnd(standing, plan.games, len(done), interrupted, Path(path), scales)


def _play(
    plan: MatchPlan,
    lineup: Lineup,
    done: set[int],
    standing: Standing,
    writer: PgnWriter,
    facts: _Facts,
    progress: Progress,
) -> bool:
    """Plays and writes the games; returns whether a signal interrupted it."""
    noted_at, progress.jobs = 0.0, lineup.jobs
    progress.set_total(plan.games, done=standing.games)

    def tick(ended: int = 0) -> None:
        nonlocal noted_at
        if ended or time.monotonic() - noted_at >= TICK_S:
            noted_at = time.monotonic()
            progress.note(progress_note(standing))
            progress.advance(ended)

    with stop.flag():
        games = play_games(
            plan.pairings(done),
            [seat.player for seat in lineup.seats],
            plan.rules,
            lineup.jobs,
            seed=plan.seed,
            on_move=tick,
            halted=lambda: stop.asked() or standing.verdict != GO_ON,
        )
        try:
            for record in games:
                text = game_text(record, facts.tags(record), timed=True)
                writer.write(text)
                standing.add(Played.of_written(WrittenGame.of_text(text)))
                tick(1)
        finally:
            games.close()
            lineup.abandons_searches = standing.games < plan.games
        return stop.asked()


class _Facts:
    """The tags of this match's games. `run` is a digest of those that must not change from run to run."""

    def __init__(self, plan: MatchPlan, lineup: Lineup) -> None:
        self._names = [seat.player.name for seat in lineup.seats]
        self._sides = [seat.identity for seat in lineup.seats]
        self._openings = {opening.number: opening for opening in plan.openings}
        shared = run_tags(plan.book, plan.openings, plan.seed, plan.rules)
        self.common = {"Book": shared["Book"], "BookOrder": plan.order, **shared}
        facts = json.dumps([self._names, self._sides, self.common, plan.nodes])
        self.run = hashlib.sha256(facts.encode()).hexdigest()[:16]

    def sides(self, number: int) -> dict[str, str]:
        """Tags of the game's players: their names and identities."""
        white, black = number % 2, 1 - number % 2
        return {
            "White": self._names[white],
            "Black": self._names[black],
            "WhiteSide": self._sides[white],
            "BlackSide": self._sides[black],
        }

    def tags(self, record: GameRecord) -> dict[str, str]:
        """All tags of a game besides the standard ones."""
        opening = self._openings[record.opening]
        named = {name: opening.tags[name] for name in ("ECO", "Opening", "Variation") if name in opening.tags}
        head = {"Event": "vr match", "Site": f"valuerepair {__version__}", "Date": today()}
        return {**head, "Run": self.run, **self.sides(record.number), **self.common, **named, **breadth_tags(record)}

    def difference(self, game: WrittenGame) -> str | None:
        """The first difference between a written game and this match, in words; None if it is a game of this match."""
        if game.tags["Run"] == self.run:
            return None
        sides = dict(zip(("White", "Black"), "BA" if game.number % 2 else "AB", strict=True))
        for name, now in {**self.sides(game.number), **self.common}.items():
            if not game.has(name, now):
                side = sides.get(name.removesuffix("Side"))
                before = game.tags.get(name, "not given")
                return f"{f'side {side}' if side else name} was {before!r} and now is {now!r}"
        return "its limits were different"
