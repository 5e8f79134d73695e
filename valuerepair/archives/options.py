"""Options for sampling archives, and for the evaluations that archives already hold."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from valuerepair.errors import UsageError

if TYPE_CHECKING:
    from valuerepair.chess.origins import Kind, Recorded

SPEEDS = ("bullet", "blitz", "rapid", "classical", "correspondence")
EXPECTED_MOVES = 40  # lichess's estimate of a game's length: base + 40 increments
# Estimated seconds below which a game belongs to a class (lichess-org/scalachess, Speed).
_LIMITS = (("bullet", 180), ("blitz", 480), ("rapid", 1500))
DAY = 86_400
_PHASE = re.compile(r"(?:(?P<moves>\d+)/)?(?P<base>\d+(?:\.\d+)?)(?:\+(?P<increment>\d+(?:\.\d+)?))?$")
_PER_MOVE = re.compile(r"(?P<base>\d+(?:\.\d+)?)/move$")


def parse_time_control(text: str) -> tuple[float, float] | None:
    """(estimated seconds for 40 moves without increment, increment in seconds); None if the text is not a time control.

    Reads ``180+2``, ``300``, ``40/7200:3600`` (phases), ``0.25/move``, hourglass ``*180``. Days per move, as in
    ``1/259200``, come out as 40 times as long.
    """
    text = text.strip().lstrip("*")
    per_move = _PER_MOVE.match(text)
    if per_move:
        return EXPECTED_MOVES * float(per_move["base"]), 0.0
    phases = [_PHASE.match(phase) for phase in text.split(":")]
    seconds, increment, moves_left = 0.0, 0.0, float(EXPECTED_MOVES)
    for number, phase in enumerate(phases, 1):
        if phase is None:
            return None
        increment = max(increment, float(phase["increment"] or 0))
        moves = float(phase["moves"] or 0) or moves_left
        if moves_left > 0:
            # The last phase repeats until the game ends; the time of a phase is available from its first move on.
            seconds += float(phase["base"]) * (max(moves_left / moves, 1.0) if number == len(phases) else 1.0)
            moves_left -= moves
    return seconds, increment


def speed(text: str) -> str | None:
    """The class of a TimeControl tag, by lichess's estimate ``base + 40 * increment``; None if the tag is unknown."""
    text = text.strip()
    if text == "-":
        return "correspondence"
    parsed = parse_time_control(text)
    if parsed is None:
        return None
    base, increment = parsed
    if base >= DAY:
        return "correspondence"
    estimate = base + EXPECTED_MOVES * increment
    return next((name for name, limit in _LIMITS if estimate < limit), "classical")


def fits_time_control(text: str, wanted: str) -> bool | None:
    """Whether the tag fits a wanted class or literal control (joined by commas); None if the tag is unknown."""
    tag_speed = speed(text)
    if tag_speed is None:
        return None
    parts = [part.strip() for part in wanted.split(",")]
    literal = (parse_time_control(part) for part in parts if part not in SPEEDS)
    return tag_speed in parts or (text != "-" and parse_time_control(text) in literal)


RESULTS = ("1-0", "0-1", "1/2-1/2", "decisive")
HEADER_FILTERS = ("min_elo", "result", "time_control", "player")  # options of `SampleOptions`


@dataclass(frozen=True, slots=True)
class SampleOptions:
    """Which positions of which games to sample.

    per_game: at most n positions of each game, drawn uniformly from its eligible plies; None: all.
    positions: at most n positions in total, drawn uniformly from all distinct positions that pass the other options;
      None: all. Usually combined with ``per_game=None``.
    game_share: the share of games to parse, drawn by seed.
    min_ply, max_ply: half-moves since move 1, inclusive. They apply to games; bare FENs have no ply.
    min_elo: both players have at least this rating. result, time_control (a class such as ``blitz``, several joined
      by commas, or the literal ``180+2``), player (part of either name, any case): by the game's headers.
    no_check: the side to move is not in check. quiet: the move played is not a capture or a promotion either.
    min_pieces, max_pieces: men on the board, kings and pawns included, inclusive.
    recorded: only positions with a recorded evaluation of this kind; None: all positions.
    every_evaluation: positions keep the evaluations in comments, of any one kind a game; otherwise only evaluations of
      the kind `recorded`, and without it those that lichess writes.
    off_game: the share of positions beside the games: 0.5 in the default mixture of kinds, or a share for each
      kind: ``random_move:0.25,search_node:0.1``, also as a mapping (`archives.off_game`). None:
      only positions of games.
    max_bytes: at most n unpacked bytes of each archive; the rest counts as broken off. None: all.
    seed: the same seed gives the same positions, with any number of (parsing) `threads`.

    Raises UsageError for invalid values.
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
    every_evaluation: bool = False
    off_game: float | str | Mapping[str, float] | None = None
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
        if self.shares_beside and self.recorded is not None:
            raise UsageError(
                "--off-game: positions that were not played have no recorded evaluation; give an engine by --deep"
            )
        if self.result is not None and self.result not in RESULTS:
            raise UsageError(f"--result {self.result}: give one of {', '.join(RESULTS)}")
        for part in self.time_control.split(",") if self.time_control is not None else ():
            if part.strip() not in SPEEDS and parse_time_control(part) is None:
                raise UsageError(f"--time-control {part}: give one of {', '.join(SPEEDS)}, or one like 180+2")

    @property
    def shares_beside(self) -> dict[Kind, float]:
        """The share of each kind of position beside the games; empty without any."""
        from valuerepair.archives.off_game import parse_shares

        return {} if self.off_game is None else parse_shares(self.off_game)

    @property
    def filters_headers(self) -> bool:
        """Whether there is a filter by headers."""
        return any(getattr(self, name) is not None for name in HEADER_FILTERS)


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


View = Literal["white", "mover"]
VIEWS: tuple[View, ...] = ("white", "mover")

EVAL, CUTECHESS, TCEC, SELFPLAY = "eval", "cutechess", "tcec", "selfplay"
EPD, DUMP, CHUNKS = "epd", "dump", "chunks"


class RecordKind(NamedTuple):
    """A kind of record: its description in words, and the side from whose view it is written."""

    description: str
    view: View


RECORD_KINDS = {
    EVAL: RecordKind("[%eval] comments of PGN files, as lichess writes them", "white"),
    CUTECHESS: RecordKind("{+0.65/12 1.2s} comments of PGN files, as cutechess writes them", "mover"),
    TCEC: RecordKind("{d=16, ..., wv=0.43, ...} comments of PGN files, as TCEC writes them", "white"),
    SELFPLAY: RecordKind("{q=+0.03 ... net=+0.07} comments of PGN files, as vr selfplay writes them", "mover"),
    EPD: RecordKind("ce, dm and bm #N of EPD files", "mover"),
    DUMP: RecordKind("lichess's evaluation dump (.jsonl)", "white"),
    CHUNKS: RecordKind("lc0 training chunks", "mover"),
}
COMMENT_KINDS = (EVAL, CUTECHESS, TCEC, SELFPLAY)

OTHER_KIND = "evaluations of another kind"
NONE_RECORDED = "no recorded evaluation"


@dataclass(frozen=True, slots=True)
class RecordedOptions:
    """Which recorded evaluations to use, all of one kind; positions without one are not sampled.

    view: the side from whose view they are written, if it differs from the usual one of the kind. depth: True for
    evaluations with a depth, False for those without, None for both. min_depth (plies) and min_nodes leave out smaller
    or unknown numbers. by: part of the name, in any case, of the player whose evaluations to use (not for eval).
    """

    kind: str
    view: View | None = None
    depth: bool | None = None
    min_depth: int | None = None
    min_nodes: int | None = None
    by: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in RECORD_KINDS:
            raise UsageError(f"no kind {self.kind!r} of recorded evaluations; there are {', '.join(RECORD_KINDS)}")
        if self.by is not None and self.kind not in (CUTECHESS, TCEC, SELFPLAY):
            raise UsageError(f"by={self.by}: only cutechess, tcec and selfplay comments say which player evaluated")

    def sign(self, white_to_move: bool) -> int:
        """1 if a score is written from the view of the side to move, otherwise -1."""
        return 1 if white_to_move or (self.view or RECORD_KINDS[self.kind].view) == "mover" else -1

    def reject(self, recorded: Recorded | None) -> str | None:
        """Why an evaluation is not used; None if it is."""
        if recorded is None:
            return NONE_RECORDED
        if self.depth is not None and self.depth != (recorded.depth > 0):
            return "evaluation without a depth" if self.depth else "evaluation with a depth, unlike the first ones"
        if self.min_depth is not None and recorded.depth < self.min_depth:
            return f"evaluation of less than depth {self.min_depth}"
        if self.min_nodes is not None and recorded.nodes < self.min_nodes:
            return f"evaluation of fewer than {self.min_nodes:,} nodes"
        if recorded.is_scaled:
            return "evaluation of a search that scaled the net's Q (q_scale)"
        if self.by is not None and self.by.casefold() not in recorded.by.casefold():
            return "evaluation by another player"
        return None
