"""What the real lc0 makes of a book: runs `lc0 selfplay` and reads its `gameready` lines.

``python -m tests.lc0_selfplay LC0 BOOK`` fails unless it plays a game from every entry, of which there is at least one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import chess

# Entries that end soon, with castling, en passant, a promotion, repetitions, moves of the book and Black to move.
ENDINGS = """[FEN "4k3/8/8/8/8/8/4P3/4K3 w - - 5 39"]

1. e4 Kd7 *

[FEN "r3k2r/8/8/3pP3/8/8/8/R3K2R w KQkq d6 0 20"]

*

[FEN "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 11 3"]

*

[FEN "8/P1k5/8/8/8/8/1p4K1/8 b - - 0 50"]

*

"""
OPENINGS = """1. e4 c5 2. Nf3 d6 *

[FEN "r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5Q2/PPPP1PPP/RNB1K1NR b KQkq - 3 3"]

*

1. e4 Nf6 2. e5 d5 3. d4 Nc6 4. Nc3 Be6 5. Nf3 Qd7 6. Bd3 O-O-O 7. O-O *

"""
_RESULTS = {"whitewon": "1-0", "blackwon": "0-1", "draw": "1/2-1/2"}


@dataclass(frozen=True)
class Played:
    """One game as lc0 reports it: its start, the number of book plies and all moves (castling as king takes rook).

    `chunk` is the file of its training records, where lc0 wrote one.
    """

    start_fen: str
    book_plies: int
    moves: tuple[str, ...]
    result: str = "*"
    chunk: Path | None = None

    @property
    def book_end(self) -> str:
        """FEN (legal e.p. only) where the book ends; says so when lc0 played a move that is illegal in chess."""
        board = chess.Board(self.start_fen)
        for move in self.moves[: self.book_plies]:
            try:
                board.push_uci(move)
            except ValueError:
                return f"illegal {move} in {board.fen()}"
        return board.fen()


def play(lc0: str, book: Path, *options: str, games: int = -2) -> list[Played] | None:
    """The games lc0 plays from `book`, one an entry, in order; None when it throws. Default: each is resigned at once.

    The trivial backend needs no net and reads a book in a fraction of a second.
    """
    arguments = [lc0, "selfplay", f"--openings-pgn={book}", "--openings-mode=sequential", f"--games={games}"]
    arguments += ["--parallelism=1", "--temperature=0", "--noise-epsilon=0"]
    arguments += options or ("--backend=trivial", "--visits=1", "--resign-percentage=100")
    if "--training" in options:
        (book.parent / "lc0").mkdir(exist_ok=True)  # the records go below it
    environment = {**os.environ, "XDG_CACHE_HOME": str(book.parent)}
    done = subprocess.run(
        arguments, capture_output=True, text=True, timeout=120, check=False, cwd=book.parent, env=environment
    )
    if done.returncode != 0:
        assert "xception" in done.stderr or done.returncode in (134, -6, 139, -11), done.stderr
        return None
    return [_played(line) for line in done.stdout.splitlines() if line.startswith("gameready ")]


def _played(line: str) -> Played:
    head, _, fen = line.partition(" from_fen ")
    head, _, moves = head.partition(" moves ")
    words = head.split()
    plies = int(words[words.index("play_start_ply") + 1])
    result = _RESULTS[words[words.index("result") + 1]]
    chunk = Path(words[words.index("trainingfile") + 1]) if "trainingfile" in words else None
    return Played(fen or chess.STARTING_FEN, plies, tuple(moves.split()), result, chunk)


def main(lc0: str, book: Path) -> str | None:
    """Plays a game from every entry of a book of `vr books`, and says what is wrong."""
    meant = [chess.Board.from_epd(line)[0].fen() for line in book.with_suffix(".epd").read_text().splitlines()]
    played = play(str(Path(lc0).absolute()), book.absolute())
    begun = [game.book_end for game in played or ()]
    print(f"lc0 played {len(begun)} games from {book}, which has {len(meant)} entries")
    return None if meant and begun == meant else f"{book}: lc0 begins at {begun}, not at {meant}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
