"""A match of two sides: games from a book with both colours, written as they end, resumed, and stopped by a test."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import random
import re
import time
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from valuerepair import signals
from valuerepair.books.emit import MAX_TAG_LENGTH, one_line
from valuerepair.chess.progress import Progress
from valuerepair.chess.time_left import Turns
from valuerepair.errors import UsageError, check_least, check_word
from valuerepair.play.breadth import breadth_tags
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
from valuerepair.play.pgn import (
    PgnWriter,
    WrittenGame,
    claimed_games,
    game_text,
    resumed,
    run_tags,
    today,
)
from valuerepair.play.referee import Rules
from valuerepair.play.runner import Pairing, each_timed, play_games
from valuerepair.play.sprt import GO_ON, Sprt, parse_sprt
from valuerepair.play.standing import Played, Standing, level_lines, progress_note, report_lines
from valuerepair.play.time_control import TimeControl, parse_control
from valuerepair.text import quantity
from valuerepair.version import __version__

log = logging.getLogger(__name__)

SEQUENTIAL, SHUFFLED, ODDS = "sequential", "shuffled", "odds"
TICK_S = 0.5
BUILT_IN = "built-in"
_NAMED_FILE = re.compile(r"(\S.*?)#([0-9a-f]{12})(?: |$)")  # in a tag of files


@dataclass(frozen=True)
class MatchPlan:
    """The games to play: `games` in all, from the openings, by `rules`; `control` None: each side has its own limit.

    Games 2k and 2k + 1 have the same opening; the first side has White in even games. Openings come in the book's
    order, or `shuffled` by the seed, differently each time through the book. In the order `odds` each opening is played
    once, the first side with less material: pairs have only one game. `book` names the openings in PGN. With `sprt` the
    match ends once the test has decided. Raises UsageError for an odd number of games, for less than two games, and for
    openings of even material in the order `odds`.
    """

    openings: Sequence[Opening]
    games: int
    book: str = BUILT_IN
    order: str = SEQUENTIAL
    control: TimeControl | None = None
    rules: Rules = field(default_factory=Rules)
    sprt: Sprt | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_word("--order", self.order, (SEQUENTIAL, SHUFFLED, ODDS))
        if self.order == ODDS:
            check_least("--games", self.games)
            for opening in self.openings:
                if white_material(opening.fen) == 0:
                    raise UsageError(f"line {opening.number + 1} gives no odds: {opening.fen}")
        elif self.games < 2 or self.games % 2:
            raise UsageError(f"--games {self.games}: must be even and at least 2, as each opening has both colours")

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of its games."""
        if self.order != ODDS:
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
        return self.openings[_order(len(self.openings), turn, self.seed)[line] if self.order == SHUFFLED else line]

    def remark(self) -> list[str]:
        """Remarks on the openings for the user; may be empty."""
        pairs = self.games if self.order == ODDS else self.games // 2
        lines = []
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
    built-in lines; `nodes` or `tc` (``10+0.1``) limits the sides whose text has no limit; `sprt` is a test,
    ``elo0=0,elo1=5``; the others are as in `MatchPlan` and `Lineup`."""

    games: int | None = None
    openings: str | None = None
    order: str = SEQUENTIAL
    nodes: str | None = None
    tc: str | None = None
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
            self.order,
            parse_control(self.nodes, self.tc),
            self.rules,
            parse_sprt(self.sprt) if self.sprt is not None else None,
            self.seed,
        )


def play_sides(sides: Sequence[str], options: MatchOptions, path: str | Path, *, progress: Progress) -> MatchEnd:
    """The match of two sides, given as the text of `vr match`: opens them, and logs the players. See `play_match`."""
    a, b = (parse_side(side) for side in sides)
    plan = options.plan()
    device_options = {"device": options.device, "threads": options.threads}
    with Lineup([a, b], plan.control, options.jobs, plan.games, **device_options) as lineup:
        log.info("\n".join([*lineup.lines(), *plan.remark()]))
        return play_match(plan, lineup, path, progress=progress)


def play_match(plan: MatchPlan, lineup: Lineup, path: str | Path, *, progress: Progress) -> MatchEnd:
    """Plays the games of the match that are not in the PGN file `path` yet, and appends each as it ends.

    SIGINT and SIGTERM end the run: running games are abandoned, finished ones are all in the file. Raises
    UsageError for a file of another match, naming the difference, and ValueRepairError for one that another process
    writes.
    """
    names = lineup.seats[0].player.name, lineup.seats[1].player.name
    standing = Standing(names, plan.sprt, paired=plan.order != ODDS)
    with claimed_games(path):
        facts = _Facts(plan, lineup)
        planned = f"{quantity(plan.games, 'game')}; give more --games"
        done, size = resumed(Path(path), max(plan.numbers), planned, facts.difference)
        if (changed := facts.changed_file(done)) is not None:
            raise UsageError(f"{path}: {changed}; put the former file back, or give another -o FILE")
        if done:
            facts.keep_names(done[0])
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
    turns, noted_at = Turns(lineup.jobs, share=lineup.share), 0.0
    progress.advance(standing.games)

    def tick(ended: int = 0) -> None:
        nonlocal noted_at
        if ended or time.monotonic() - noted_at >= TICK_S:
            noted_at = time.monotonic()
            remaining = turns.remaining(plan.games - standing.games)
            progress.note(progress_note(standing, plan.games, remaining))
            progress.advance(ended)

    with signals.left_to_loop():
        games = play_games(
            each_timed(plan.pairings(done), turns),
            [seat.player for seat in lineup.seats],
            plan.rules,
            lineup.jobs,
            seed=plan.seed,
            clock=plan.control if plan.control is not None and plan.control.by_clock else None,
            on_move=tick,
            halted=lambda: signals.count() > 0 or standing.verdict != GO_ON,
        )
        try:
            for record in games:
                text = game_text(record, facts.tags(record), timed=True)
                writer.write(text)
                standing.add(Played.of_written(WrittenGame.of_text(text)))
                turns.ended(record.number)
                tick(1)
        finally:
            games.close()
            lineup.abandons_searches = turns.running > 0
        return signals.count() > 0


class _Facts:
    """The tags of this match's games. `run` is a digest of those that must not change from run to run."""

    def __init__(self, plan: MatchPlan, lineup: Lineup) -> None:
        self._names = [seat.player.name for seat in lineup.seats]
        self._sides = [seat.identity for seat in lineup.seats]
        self._files = [seat.files for seat in lineup.seats]
        self._openings = {opening.number: opening for opening in plan.openings}
        control = plan.control.tag if plan.control is not None else "-"
        shared = run_tags(plan.book, plan.openings, plan.seed, plan.rules)
        self.common = {"Book": shared["Book"], "BookOrder": plan.order, **shared, "TimeControl": control}
        limits = str(plan.control) if plan.control is not None else "-"
        facts = json.dumps([self._names, self._sides, self.common, limits])
        self.run = hashlib.sha256(facts.encode()).hexdigest()[:16]

    def keep_names(self, game: WrittenGame) -> None:
        """Names the players of the games to come as in an earlier game: earlier versions cut names."""
        white, black = game.tags["White"], game.tags["Black"]
        self._names = [black, white] if game.number % 2 else [white, black]

    def sides(self, number: int) -> dict[str, str]:
        """Tags of the game's players: their names and identities."""
        white, black = number % 2, 1 - number % 2
        return {
            "White": self._names[white],
            "Black": self._names[black],
            "WhiteSide": self._sides[white],
            "BlackSide": self._sides[black],
        }

    def files(self, number: int) -> dict[str, str]:
        """The tags that identify the contents of the players' files; a player without files has no tag.

        Files that changed since their engine started are left out: the engine writes them.
        """
        texts = [" ".join(file.content for file in files if not file.changed) for files in self._files]
        return {name: texts[side] for side in (0, 1) if texts[side] for name in [_files_tag(side, number)]}

    def tags(self, record: GameRecord) -> dict[str, str]:
        """All tags of a game besides the standard ones."""
        opening = self._openings[record.opening]
        named = {name: opening.tags[name] for name in ("ECO", "Opening", "Variation") if name in opening.tags}
        sides = {**self.sides(record.number), **self.files(record.number)}
        head = {"Event": "vr match", "Site": f"valuerepair {__version__}", "Date": today()}
        return {**head, "Run": self.run, **sides, **self.common, **named, **breadth_tags(record)}

    def difference(self, game: WrittenGame) -> str | None:
        """The first difference between a written game and this match, in words; None if it is a game of this match."""
        number = game.number
        tags = {**self.sides(number), **self.common}
        for name, now in tags.items():
            if not game.has(name, now):
                before, colour = game.tags.get(name, "not given"), name.removesuffix("Side")
                side = {("White", "Black")[number % 2]: "side A", ("Black", "White")[number % 2]: "side B"}.get(colour)
                return f"{side or name} was {before!r} and now is {now!r}"
        if game.tags["Run"] == self.run:
            return None
        if any(len(now) > len(game.tags.get(name, "")) == MAX_TAG_LENGTH for name, now in tags.items()):
            return f"its limits, or names or settings beyond {MAX_TAG_LENGTH} characters, were different"
        return "its limits were different"

    def changed_file(self, games: Sequence[WrittenGame]) -> str | None:
        """The first file of a side that has changed since the written games, in words; None without such a file.

        A file that some game does not name is left out: its engine wrote it before that game ended, or the game is of
        an earlier version, which named no files.
        """
        for side, files in enumerate(self._files):
            texts = dict.fromkeys(game.tags.get(_files_tag(side, game.number), "") for game in games)
            written = [dict(_NAMED_FILE.findall(text)) for text in texts]
            now = dict(_NAMED_FILE.findall(one_line(" ".join(file.content for file in files))))
            for game_files in written:
                for name, digest in game_files.items():
                    if all(name in others for others in written) and now.get(name) != digest:
                        is_now = f"is {name}#{now[name]}" if name in now else "is missing"
                        return f"a file of side {'AB'[side]} was {name}#{digest} and now {is_now}"
        return None


def _files_tag(side: int, number: int) -> str:
    """The tag for the files of a side (0 or 1) in a game: the first side has White in even games."""
    return "WhiteFiles" if number % 2 == side else "BlackFiles"
