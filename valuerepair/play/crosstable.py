"""The results in a PGN: the table of one match, a line for each pair of players, or one player against all others."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.play.elo import FEWEST, elo_interval, elo_words, los_words, moments
from valuerepair.play.match_pgn import Match, TaggedGame, counted_games, joined_matches, matches_of, read_games
from valuerepair.play.sprt import Sprt
from valuerepair.play.standing import POINTS, Standing, level_lines, report_lines, score_words
from valuerepair.text import printable, quantity, table_lines

log = logging.getLogger(__name__)

OTHERS = "all others"
_MOST_LINES = 40
_LONGEST_LINE = 2000
_MOST_NAMED = 8


@dataclass(frozen=True)
class Crosstable:
    """The matches between players, with their results.

    `matches` has a standing for each pair of players, the most games first; with a `player` (None: all) only its
    matches. `whole` is the one table to show: the match of two players, or `player` against all others; None with
    several players and no `player`. `undecided` are the games without a result, `games` counts all. `without_moves`
    counts, by ending, the games that were left out because they have no move. `seconds` is the mean duration of a game,
    None if the file does not have it.
    """

    games: int
    player: str | None
    matches: tuple[Standing, ...]
    whole: Standing | None
    undecided: tuple[TaggedGame, ...]
    seconds: float | None
    without_moves: Counter[str] = field(default_factory=Counter)

    @property
    def players(self) -> list[str]:
        """All names, in the order of `matches`."""
        return list(dict.fromkeys(name for match in self.matches for name in match.names))

    def one(self) -> Standing:
        """`whole`. Raises UsageError with several players and no `player`."""
        if self.whole is None:
            raise UsageError(f"there are {len(self.players):,} players; say --player NAME ({self.players[0]}, ...)")
        return self.whole

    def lines(self) -> list[str]:
        """The table of `whole`, one line per match if there are several, and games without a result."""
        lines = report_lines(self.whole) if self.whole is not None else []
        if len(self.matches) > 1:
            lines += self._match_lines()
        if self.undecided:
            named = ", ".join(f"game {game.place:,} ({game.ending})" for game in self.undecided[:_MOST_NAMED])
            more = len(self.undecided) - _MOST_NAMED
            lines.append(f"without a result: {named}" + (f" and {more:,} more" if more > 0 else ""))
        if count := self.without_moves.total():
            endings = ", ".join(f"{ending} {number:,}" for ending, number in self.without_moves.most_common())
            lines.append(f"left out: {quantity(count, 'game')} without a move ({endings})")
        return [printable(line, _LONGEST_LINE) for line in lines]

    def details(self) -> list[str]:
        """Normalized Elo of `whole`, and its interval and verdict at each level."""
        return [] if self.whole is None else level_lines(self.whole)

    def as_json(self) -> dict[str, Any]:
        """All figures; each match in the form of `Standing.as_json`."""
        return {
            "games": self.games,
            "players": self.players,
            "undecided": [{"game": game.place, "ending": game.ending} for game in self.undecided],
            "without_moves": dict(self.without_moves),
            "mean_seconds": self.seconds,
            "whole": None if self.whole is None else self.whole.as_json(),
            "matches": [match.as_json() for match in self.matches],
        }

    def _match_lines(self) -> list[str]:
        listed = self.matches[:_MOST_LINES]
        lines = [f"{len(self.players):,} players, {len(self.matches):,} matches, {self.games:,} games; Elo at 0.95:"]
        cells = ((" against ".join(m.names), m.games, score_words(m.tally.score), _elo(m)) for m in listed)
        lines += table_lines(":< | :>8, | :< | :<", cells, "  ")
        if len(self.matches) > len(listed):
            lines.append(f"  {len(self.matches) - len(listed):,} more, of fewer games")
        if self.player is None:
            lines.append(f"for the whole table of one against all others: --player NAME ({self.players[0]}, ...)")
        return lines


def _elo(match: Standing) -> str:
    if moments(match.results)[0] < FEWEST:
        return f"too few {match.unit}"
    return f"{elo_words(elo_interval(match.results))}, LOS {los_words(match.results)} (of {match.counted_units})"


def crosstable(
    paths: Sequence[str],
    player: str | None,
    sprt: Sprt | None,
    *,
    on_games: Callable[[int], object],
) -> Crosstable:
    """The results of the games in PGN files; `paths` and `on_games` are those of `match_pgn.read_games`.

    With a `player` only its games count, seen from its side; `sprt` tests `whole`. Raises UsageError for an unknown
    player and for a test of several players, ValueRepairError for files without a match.
    """
    games, without_moves = counted_games(list(read_games(paths, on_games)))
    matches = matches_of(games, player)
    if not matches:
        raise _no_match(paths, games, player)
    _remark_on_case(matches)
    match: Match | None = None
    if len(matches) == 1:
        match = matches[0]
    elif player is not None:
        match = joined_matches(matches, (player, OTHERS))
    if sprt is not None and match is None:
        raise UsageError(f"--sprt: there are {len(matches):,} matches; say --player NAME")
    joined = _standing(match, sprt) if match is not None else None
    standings = [joined] if len(matches) == 1 and joined is not None else [_standing(match) for match in matches]
    pairings = {frozenset(m.names) for m in matches}
    counted = [game for game in games if frozenset((game.white, game.black)) in pairings]
    undecided = tuple(game for game in counted if game.result not in POINTS)
    if len(undecided) == len(counted):
        raise ValueRepairError(f"{', '.join(paths)}: {quantity(len(counted), 'game')}, none decided")
    seconds = [game.seconds for game in counted if game.seconds is not None]
    return Crosstable(
        len(counted),
        player,
        tuple(sorted(standings, key=lambda match: -match.games)),
        joined,
        undecided,
        sum(seconds) / len(seconds) if seconds else None,
        without_moves,
    )


def _standing(match: Match, sprt: Sprt | None = None) -> Standing:
    return Standing.after(match.names, match.counted, sprt, paired=match.paired)


def _remark_on_case(matches: Sequence[Match]) -> None:
    """Logs the names that differ only in upper and lower case, which is usually a mistake."""
    spellings: dict[str, list[str]] = {}
    for name in dict.fromkeys(name for match in matches for name in match.names):
        spellings.setdefault(name.casefold(), []).append(name)
    if alike := [" and ".join(names) for names in spellings.values() if len(names) > 1]:
        more = f" and {len(alike) - _MOST_NAMED:,} more" if len(alike) > _MOST_NAMED else ""
        log.info(f"counted as different players: {', '.join(alike[:_MOST_NAMED])}{more}")


def _no_match(paths: Sequence[str], games: Sequence[TaggedGame], player: str | None) -> Exception:
    """The error for files without a match."""
    files = ", ".join(paths)
    names = sorted({name for game in games for name in (game.white, game.black)})
    if player is None or player in names:
        return ValueRepairError(f"{files}: one player plays itself, so there is no Elo")
    similar = [name for name in names if player.casefold() in name.casefold()]
    proposed = similar or names
    listed = ", ".join(proposed[:_MOST_NAMED]) + (", ..." if len(proposed) > _MOST_NAMED else "")
    advice = f"did you mean {listed}?" if similar else f"there are {listed}"
    return UsageError(f"--player {player}: has no game in {files}; {advice}")
