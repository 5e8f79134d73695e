"""Games as PGN with a comment on the values of each move; a crash loses at most the game being written."""

from __future__ import annotations

import os
import re
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import chess

from valuerepair.books.write import one_line, tag_lines
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import HeldError, claimed
from valuerepair.play.game import (
    CRASHED,
    ILLEGAL_MOVE,
    OUT_OF_TIME,
    RESIGNED,
    RULES,
    STOPPED,
    TOO_LONG,
    GameRecord,
    Thought,
)
from valuerepair.play.openings import Opening, book_digest
from valuerepair.play.referee import Rules

WRAP_COLUMNS = 100
_GAME = b"[Event "
# Tags with texts of books and engines, which may be of any length and are cut. The others, which say what played, are
# not.
_CUT = {"ECO", "Opening", "Variation", "Source", "Ending"}
_COMMENT = re.compile(r"\{[^}]*\}")
_NO_BREAK = "\0"  # a blank at which a line must not end
# PGN's words (supplement to the standard, 1994); all other endings are adjudications.
_TERMINATION = {
    **dict.fromkeys((*RULES, RESIGNED), "normal"),
    OUT_OF_TIME: "time forfeit",
    ILLEGAL_MOVE: "rules infraction",
    CRASHED: "abandoned",
    TOO_LONG: "unterminated",
    STOPPED: "unterminated",
}


def today() -> str:
    """The tag Date of a game that ends now, local time. Equal games of different days differ only in this tag."""
    return time.strftime("%Y.%m.%d")


def game_text(game: GameRecord, tags: Mapping[str, str], *, timed: bool = False) -> str:
    """A game as PGN: the seven standard tags, `tags`, tags of its ending, moves with comments, and a blank line.

    The comment of a book move is ``book``. That of a played move has the values of the position before it, for the side
    to move: ``q`` in [-1, 1], ``wdl`` per mille, ``n`` (nodes) and, of our own search, ``net``, the net's value
    alone. If the search prefers the move it also has ``[%eval]``, as lichess writes it: pawns or moves to mate, for
    White after the move (missing after a mate), then the depth of the search if it has one. With `timed` it has
    ``[%emt]``, the time of the move as h:mm:ss.sss; games that must be equal from run to run cannot have it.
    """
    all_tags = {
        "Event": tags.get("Event", "?"),
        "Site": tags.get("Site", "?"),
        "Date": tags.get("Date", "????.??.??"),
        "Round": str(game.number + 1),
        "White": game.white,
        "Black": game.black,
        "Result": game.result,
        **{name: text for name, text in tags.items() if name not in ("Event", "Site", "Date")},
    }
    all_tags |= {
        "BookLine": str(game.opening + 1),
        "BookPlies": str(len(game.book)),
        "PlyCount": str(len(game.moves)),
        "Termination": _TERMINATION.get(game.ending, "adjudication"),
        "Ending": game.ending + (f": {game.detail}" if game.detail else ""),
    }
    if game.would_resign is not None:
        all_tags["WouldResign"] = "{} {}".format(*game.would_resign)
    return "\n".join(
        [*tag_lines(all_tags, game.start_fen, all_tags.keys() - _CUT), "", *_movetext(game, timed), "", ""]
    )


def _movetext(game: GameRecord, timed: bool) -> list[str]:
    board, words = chess.Board(game.start_fen), []
    for i, uci in enumerate(game.moves):
        if board.turn or not i:
            words.append(f"{board.fullmove_number}{'.' if board.turn else '...'}")
        move = chess.Move.from_uci(uci)
        words.append(board.san(move))
        board.push(move)
        if i < len(game.book):
            words.append("{book}")
        else:
            words.append(_comment(game.thoughts[i - len(game.book)], not board.turn, timed))
    return _wrapped(" ".join([*(word for word in words if word), game.result]))


def _wrapped(text: str) -> list[str]:
    """Lines of at most `WRAP_COLUMNS`. No line begins with ``[``: a bracket stays in one line with its brace."""
    lines = textwrap.wrap(text, WRAP_COLUMNS, break_on_hyphens=False, break_long_words=False)
    return [line.replace(_NO_BREAK, " ") for line in lines]


def _comment(thought: Thought, white: bool, timed: bool) -> str:
    marks, words = [], []
    if thought.search is None or thought.move == thought.search.best_move:
        marks += _eval(thought, white)
    if timed and thought.seconds:
        marks.append(f"[%emt {_clock_time(thought.seconds)}]")
    if marks:
        words.append(" ".join(marks).replace(" ", _NO_BREAK))
    if thought.q is not None:
        words.append(f"q={thought.q:+.4f}")
    if thought.wdl is not None:
        words.append("wdl={}/{}/{}".format(*thought.wdl))
    if thought.nodes:
        words.append(f"n={thought.nodes}")
    if thought.search is not None:
        words.append(f"net={thought.search.net_wl:+.4f}")
    return "{" + " ".join(words) + "}" if words else ""


def _eval(thought: Thought, white: bool) -> list[str]:
    sign, depth = 1 if white else -1, f",{thought.depth}" if thought.depth else ""
    if thought.mate is not None:
        # After the move a mate by the mover is one move nearer; a mate by the other side is as far as before.
        moves = thought.mate - (thought.mate > 0)
        return [f"[%eval #{sign * moves}{depth}]"] if moves else []
    return [] if thought.cp is None else [f"[%eval {sign * thought.cp / 100:.2f}{depth}]"]


def _clock_time(seconds: float) -> str:
    """h:mm:ss.sss."""
    whole_seconds, thousandths = divmod(round(1000 * seconds), 1000)
    minutes, seconds_left = divmod(whole_seconds, 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds_left:02}.{thousandths:03}"


@dataclass(frozen=True, slots=True)
class WrittenGame:
    """A game of a file: its tags, and its text from the tags to the blank line at the end."""

    tags: Mapping[str, str]
    text: str

    @staticmethod
    def of_text(text: str) -> WrittenGame:
        """Parses a game as `game_text` writes it."""
        lines = text.split("\n\n", 1)[0].split("\n")
        tags = dict(line[1:-2].split(' "', 1) for line in lines if line[-2:] == '"]' and ' "' in line)
        return WrittenGame(
            {name: value.replace('\\"', '"').replace("\\\\", "\\") for name, value in tags.items()}, text
        )

    @property
    def number(self) -> int:
        """The game's number in its run, from 0."""
        return int(self.tags["Round"]) - 1

    def has(self, name: str, text: str) -> bool:
        """Whether the tag was written for this text; for an empty text there is no tag."""
        return self.tags.get(name, "") == one_line(text)

    @property
    def sans(self) -> tuple[str, ...]:
        """All moves in SAN, those of the book first."""
        return sans_of(self.text.split("\n\n", 1)[1])


def sans_of(movetext: str) -> tuple[str, ...]:
    """The moves in SAN of a game as `game_text` writes it, without comments, move numbers and result."""
    return tuple(word for word in _COMMENT.sub(" ", movetext).split() if word[0].isalpha())


def read_written(path: Path) -> tuple[list[WrittenGame], int]:
    """The complete games of a file of `PgnWriter`, and their length in bytes; a cut-off game may follow them.

    Raises ValueRepairError for any other file.
    """
    raw = path.read_bytes()
    games, end = [], 0

    def foreign_text() -> ValueRepairError:
        return ValueRepairError(
            f"{path}: at byte {end} there is no game of vr selfplay or vr match; give another -o FILE"
        )

    while end < len(raw):
        moves = raw.find(b"\n\n", end)
        stop = raw.find(b"\n\n", moves + 2) if moves >= 0 else -1
        if stop < 0:
            break
        game = WrittenGame.of_text(raw[end : stop + 2].decode("utf-8", "replace"))
        if not game.text.startswith("[Event ") or not game.tags.get("Round", "").isdecimal() or "Run" not in game.tags:
            raise foreign_text()
        games.append(game)
        end = stop + 2
    unread = raw[end : end + len(_GAME)]
    if not _GAME.startswith(unread) and unread.strip(b"\0"):  # a power cut leaves zeros
        raise foreign_text()
    return games, end


def resumed(
    path: Path, last: int, planned: str, difference: Callable[[WrittenGame], str | None]
) -> tuple[list[WrittenGame], int]:
    """The games of a run in a file, by number, and their length in bytes, without a cut-off game.

    Raises UsageError for a game of another run (`difference` says what differs; None for a game of this run) and for a
    game number above `last`, ValueRepairError for a repeated game; `planned` says in the message how many games are
    planned and how to play more.
    """
    games, size = read_written(path)
    games.sort(key=lambda game: game.number)
    for game in games:
        if (reason := difference(game)) is not None:
            raise UsageError(f"{path}: game {game.number + 1} is of another run: {reason}; give another -o FILE")
    if len({game.number for game in games}) < len(games):
        raise ValueRepairError(f"{path}: has a game twice; give another -o FILE")
    if games and games[-1].number > last:
        raise UsageError(f"{path}: has more than {planned} or another -o FILE")
    return games, size


def run_tags(book: str, openings: Sequence[Opening], seed: int, rules: Rules) -> dict[str, str]:
    """Tags that all games of a run share."""
    text = " ".join(f"{name}={value}" for name, value in asdict(rules).items() if value)
    lines = f"{book} {len(openings)} lines sha256:{book_digest(openings)}"
    return {"Book": lines, "Seed": str(seed), "Rules": text or "-"}


@contextmanager
def claimed_games(path: str | os.PathLike[str]) -> Iterator[None]:
    """Locks a file of games against other processes (`files.claimed`). Raises ValueRepairError if it is locked."""
    with ExitStack() as stack:
        try:
            stack.enter_context(claimed(path))
        except HeldError:
            raise ValueRepairError(
                f"{path}: another vr is writing it; wait until it ends, or give another -o FILE"
            ) from None
        except OSError as error:
            raise ValueRepairError(f"{path}: {error.strerror}; give another -o FILE") from None
        yield


class PgnWriter:
    """Appends games to a file, each with one write; creates the file if it does not exist."""

    def __init__(self, path: str | os.PathLike[str], keep: int = 0) -> None:
        """Opens the file and truncates it to its first `keep` bytes. Raises ValueRepairError."""
        self.path = Path(path)
        self._file = -1
        with _disk(self.path):
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o666)
            os.ftruncate(self._file, keep)
            os.lseek(self._file, 0, os.SEEK_END)

    def write(self, text: str) -> None:
        """Appends a game completely or, if the disk is full, not at all. Raises ValueRepairError."""
        begin, unwritten = os.lseek(self._file, 0, os.SEEK_CUR), memoryview(text.encode())
        with _disk(self.path):
            try:
                while unwritten:
                    unwritten = unwritten[os.write(self._file, unwritten) :]
            except BaseException:
                os.ftruncate(self._file, begin)
                os.lseek(self._file, begin, os.SEEK_SET)
                raise

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


@contextmanager
def _disk(path: Path) -> Iterator[None]:
    """Turns an OSError into a ValueRepairError that says that the games are kept."""
    try:
        yield
    except OSError as error:
        raise ValueRepairError(
            f"{path}: {error.strerror}; the games so far are kept: make room (or give another -o FILE), and run the "
            "same command again to resume"
        ) from None
