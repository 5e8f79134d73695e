"""What to take from archives: the options of sampling, checked when they are made."""

from __future__ import annotations

from dataclasses import dataclass

from valuerepair.archives.recorded_options import RecordedOptions
from valuerepair.archives.time_control import SPEEDS, parse_time_control
from valuerepair.errors import UsageError

RESULTS = ("1-0", "0-1", "1/2-1/2", "decisive")


@dataclass(frozen=True, slots=True)
class SampleOptions:
    """Which positions of which games.

    per_game: at most so many positions of a game, drawn evenly from its eligible plies; None takes all.
    positions: so many of the whole run, uniform over all distinct positions that the other options leave; None takes
      all. Usually goes with ``per_game=None``.
    game_share: the share of games looked at, drawn by seed; the others are not parsed.
    min_ply, max_ply: half-moves since move 1, inclusive. They bound plies of games; bare FENs have none.
    min_elo: both players have at least this rating. result, time_control (a class such as ``blitz``, several joined
      by commas, or the literal ``180+2``), player (part of either name, any case): by the game's headers.
    no_check: the side to move is not in check. quiet: nor is the move played a capture or a promotion.
    min_pieces, max_pieces: men on the board, kings and pawns included, inclusive.
    recorded: only positions with a recorded evaluation of this kind; None asks for none.
    max_bytes: at most so many unpacked bytes of each archive are read, the rest counts as broken off; None: all.
    seed: the same seed gives the same positions, whatever `threads` (parsing threads) is.

    Raises UsageError for values that make no sense.
    """

    per_game: int | None = 1
    positions: int | None = None
    game_share: float = 1.0
    min_ply: int = 8
    max_ply: int | None = None
    min_elo: int | None = None
    result: str | None = None
    time_control: str | None = None
    player: str | None = None
    no_check: bool = False
    quiet: bool = False
    min_pieces: int | None = None
    max_pieces: int | None = None
    recorded: RecordedOptions | None = None
    max_bytes: int | None = None
    seed: int = 0
    threads: int = 2

    def __post_init__(self) -> None:
        for name in ("per_game", "positions", "max_bytes", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{_option(name)} {value}: give at least 1")
        for low, high in (("min_ply", "max_ply"), ("min_pieces", "max_pieces")):
            least, most = getattr(self, low), getattr(self, high)
            if least is not None and most is not None and least > most:
                raise UsageError(f"{_option(low)} {least} is above {_option(high)} {most}: no position fits")
        if not 0 < self.game_share <= 1:
            raise UsageError(f"--game-share {self.game_share}: give a share above 0, up to 1")
        if self.result is not None and self.result not in RESULTS:
            raise UsageError(f"--result {self.result}: give one of {', '.join(RESULTS)}")
        for part in (self.time_control or "").split(",") if self.time_control is not None else ():
            if part.strip() not in SPEEDS and parse_time_control(part) is None:
                raise UsageError(f"--time-control {part}: give one of {', '.join(SPEEDS)}, or one like 180+2")

    @property
    def filters_headers(self) -> bool:
        """Some games are left out by their headers."""
        return not (self.min_elo is None and self.result is None and self.time_control is None and self.player is None)


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
