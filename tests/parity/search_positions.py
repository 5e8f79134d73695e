"""The 300 positions on which the search is compared with lc0's: made from the project's own games, or constructed.

`positions` is deterministic. The positions themselves are stored in the golden file with lc0's answers, so that a
later change here makes new goldens and never pairs old answers with new positions.
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import chess
import chess.pgn
import zstandard

from tests.lc0_oracle import from_board
from valuerepair.chess.positions import STARTPOS_FEN, Position

GAMES = Path(__file__).parents[2] / "data" / "games.pgn.zst"
TOTAL = 300
# The positions of the golden table that was measured by hand; the searches of all the others are checked by these.
TABLE = {
    "A": STARTPOS_FEN,
    "B": "r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5Q2/PPPP1PPP/RNB1K1NR b KQkq - 3 3",
    "C": "8/8/8/8/4k3/8/4P3/4K3 w - - 0 1",
    "D": "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
}
MATES = (
    "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1",  # back rank, one move
    "3r2k1/5ppp/8/8/8/8/5PPP/6K1 b - - 4 30",
    "6rk/6pp/8/6N1/8/8/8/6K1 w - - 0 1",  # smothered
    "r5rk/6pp/7N/8/2Q5/8/5PPP/6K1 w - - 1 1",
    "5r1k/6pp/7N/8/2Q5/8/5PPP/6K1 w - - 0 1",  # Philidor's legacy
    "r1bqkb1r/pppp1ppp/2n2n2/4p2Q/2B1P3/8/PPPP1PPP/RNB1K1NR w KQkq - 4 4",  # scholar's mate
    "rnbqkbnr/pppp1ppp/8/4p3/6P1/5P2/PPPPP2P/RNBQKBNR b KQkq - 0 2",  # fool's mate
    "8/8/8/8/8/1k6/2r5/K7 b - - 0 1",
    "7k/8/5K2/6Q1/8/8/8/8 w - - 0 1",
    "7k/R7/1R6/8/8/8/8/K7 w - - 98 90",  # the mate comes before the fifty moves are over
    "k7/8/1K6/8/8/8/8/7R w - - 10 60",
    "4k3/8/4K3/8/8/8/8/R7 w - - 97 90",
)
STALEMATES = (
    "7k/5Q2/8/8/8/8/8/K7 w - - 0 1",
    "7k/8/6K1/8/8/8/8/5Q2 w - - 0 1",
    "k7/2Q5/8/8/8/8/8/2K5 w - - 0 1",
    "5k2/5P2/8/5K2/8/8/8/8 b - - 0 1",
    "5k2/5P2/4K3/8/8/8/8/8 w - - 0 1",
    "8/8/8/8/8/1k6/1p6/1K6 b - - 0 1",
    "8/6pk/5pRp/6PK/8/8/8/8 b - - 0 1",
    "6rk/7p/8/8/8/8/p6P/K5R1 b - - 0 1",  # rooks that can be given away for stalemate
    "k7/P7/K7/8/8/7p/8/8 w - - 0 1",
    "8/k1P5/8/1K6/8/8/8/8 w - - 0 1",
    "1k6/1P6/2K5/8/8/8/7r/8 b - - 12 50",
    "8/8/8/8/5k2/7p/5K1P/8 b - - 0 1",
)
ENDINGS = ("KPk", "KPkp", "KPPkp", "KRkr", "KRPkr", "KRPkrp", "KPPkpp", "KRPPkrp", "KQkp", "KRkp", "KBPkp", "KNPkb")
SHORT_MATES = ("KQk", "KRk", "KRRk", "KQkr", "KQkp", "KRRkr", "KQQkb", "KBRkn")
SHUFFLES = (
    STARTPOS_FEN,
    TABLE["D"],
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 10 1",
    "4k3/8/8/8/8/8/4P3/R3K3 w Q - 3 12",
    "r4rk1/pp3ppp/2n5/3q4/8/2N5/PP3PPP/R2Q1RK1 b - - 2 15",
    "8/5k2/8/3r4/8/2R5/5K2/8 w - - 20 60",
    "2k5/8/8/3qq3/8/8/3Q4/2K5 w - - 5 70",
    "6k1/5pp1/7p/8/1Q6/7P/5PP1/q5K1 w - - 6 45",
)


@dataclass(frozen=True)
class Case:
    """One position to search: `name` is unique and stable."""

    name: str
    category: str
    position: Position


def positions() -> list[Case]:
    """All cases in a fixed order that mixes the categories, the golden table first."""
    games = list(_games())
    groups = [
        [Case(name, "table", _bare(fen)) for name, fen in TABLE.items()],
        _from_games(games, "opening", 44, _opening),
        _from_games(games, "middlegame", 58, _middlegame),
        _from_games(games, "endgame", 42, _endgame),
        _mates(games),
        _listed("stalemate", STALEMATES),
        _endings(24),
        _repetitions(games, 40),
        _fifty_moves(games, 36),
    ]
    cases = groups[0] + [case for group in groups[1:] for case in group]
    rest = cases[len(TABLE) :]
    random.Random(1).shuffle(rest)
    chosen = cases[: len(TABLE)] + rest
    assert all(_searchable(chess.Board(case.position.fen)) for case in chosen)
    assert len(chosen) == TOTAL, f"{len(chosen)} positions"
    assert len({(c.position.start_fen, c.position.moves) for c in chosen}) == TOTAL
    return chosen


def _bare(fen: str) -> Position:
    return Position(fen, fen, ())


def _listed(category: str, fens: tuple[str, ...]) -> list[Case]:
    return [Case(f"{category}-{i}", category, _bare(fen)) for i, fen in enumerate(fens)]


def _games() -> Iterator[chess.Board]:
    """The final boards of the project's games, with all moves on their stacks."""
    with zstandard.open(GAMES, "rt", encoding="utf-8") as text:
        stream = io.StringIO(text.read())
    while (game := chess.pgn.read_game(stream)) is not None:
        yield game.end().board()


def _at(end: chess.Board, ply: int) -> chess.Board:
    board = end.root()
    for move in end.move_stack[:ply]:
        board.push(move)
    return board


def _searchable(board: chess.Board) -> bool:
    """Not over for either side, by any rule that a search may know."""
    return not (board.is_game_over() or board.is_repetition(3) or board.halfmove_clock >= 100)


def _opening(board: chess.Board) -> bool:
    return board.ply() <= 16


def _middlegame(board: chess.Board) -> bool:
    return board.ply() > 20 and chess.popcount(board.occupied) > 14


def _endgame(board: chess.Board) -> bool:
    return chess.popcount(board.occupied) <= 12


def _from_games(games: list[chess.Board], category: str, count: int, fits: Callable[[chess.Board], bool]) -> list[Case]:
    """One position a game, colours in turn; every third stands as a bare FEN, some with any e.p. square kept."""
    chance, found = random.Random(category), list[Case]()
    while len(found) < count:
        end = chance.choice(games)
        board = _at(end, chance.randrange(1, len(end.move_stack) + 1))
        if not fits(board) or not _searchable(board) or board.turn != (len(found) % 2 == 0):
            continue
        bare = _bare(board.fen(en_passant="fen" if len(found) % 2 else "legal"))
        position = bare if len(found) % 3 == 0 else from_board(board)
        found.append(Case(f"{category}-{len(found)}", category, position))
    return found


def _mates(games: list[chess.Board]) -> list[Case]:
    """The last moves before mate of our games, listed mates, and random placements with a mate in up to three."""
    chance = random.Random("mate")
    mated = [g for g in games if g.is_checkmate() and len(g.move_stack) > 20]
    found = _listed("mate", MATES)
    for back, end in enumerate(chance.sample(mated, 18)):
        board = _at(end, len(end.move_stack) - (1, 3, 5, 7, 2, 4)[back % 6])
        found.append(Case(f"mate-game-{back}", "mate", _bare(board.fen()) if back % 4 == 3 else from_board(board)))
    while len(found) < 40:
        board = _placed(chance, SHORT_MATES[len(found) % len(SHORT_MATES)])
        if _searchable(board) and any(_mates_in(board, moves) for moves in (1, 2, 3)):
            found.append(Case(f"mate-placed-{len(found)}", "mate", _bare(board.fen())))
    return found


def _mates_in(board: chess.Board, moves: int) -> bool:
    """Whether the side to move can force mate in at most so many moves."""
    for move in list(board.legal_moves):
        board.push(move)
        mate = board.is_checkmate() or (
            moves > 1 and bool(replies := list(board.legal_moves)) and all(_answers(board, r, moves) for r in replies)
        )
        board.pop()
        if mate:
            return True
    return False


def _answers(board: chess.Board, reply: chess.Move, moves: int) -> bool:
    board.push(reply)
    mate = _mates_in(board, moves - 1)
    board.pop()
    return mate


def _placed(chance: random.Random, pieces: str) -> chess.Board:
    """A legal random placement of the pieces (as in ``KRPkr``), either side to move, either colour the stronger."""
    while True:
        board = chess.Board(None)
        for square, symbol in zip(chance.sample(range(64), len(pieces)), pieces, strict=True):
            board.set_piece_at(square, chess.Piece.from_symbol(symbol))
        board.turn = chance.random() < 0.5
        if chance.random() < 0.5:
            board = board.mirror()
        if board.is_valid():
            return board


def _endings(count: int) -> list[Case]:
    chance, found = random.Random("ending"), list[Case]()
    while len(found) < count:
        board = _placed(chance, ENDINGS[len(found) % len(ENDINGS)])
        board.halfmove_clock, board.fullmove_number = chance.randrange(30), 60
        if _searchable(board):
            found.append(Case(f"ending-{len(found)}", "ending", _bare(board.fen())))
    return found


def _repetitions(games: list[chess.Board], count: int) -> list[Case]:
    """Games in which both sides move pieces to and fro before the position: some position of the line stands twice."""
    chance, found = random.Random("repetition"), list[Case]()
    while len(found) < count:
        number = len(found)
        if number % 2:
            end = chance.choice(games)
            board = _at(end, chance.randrange(len(end.move_stack)))
        else:
            board = chess.Board(SHUFFLES[number // 2 % len(SHUFFLES)])
        _shuffle(board, chance, 4 + chance.randrange(10))
        if _searchable(board) and board.turn == (number % 4 < 2) and _twice(board):
            found.append(Case(f"repetition-{number}", "repetition", from_board(board)))
    return found


def _shuffle(board: chess.Board, chance: random.Random, plies: int) -> None:
    """Plays quiet moves, most of which take back the same side's last one."""
    for _ in range(plies):
        quiet = [m for m in board.legal_moves if not board.is_zeroing(m)]
        if not quiet:
            return
        back = None
        if len(board.move_stack) > 1 and chance.random() < 0.85:
            last = board.move_stack[-2]
            back = chess.Move(last.to_square, last.from_square)
        board.push(back if back in quiet else chance.choice(quiet))


def _twice(board: chess.Board) -> bool:
    """Whether the last reversible stretch contains some position twice, so that one move may make it three."""
    past = board.copy()
    keys = [past.epd()]
    for _ in range(min(board.halfmove_clock, len(board.move_stack))):
        past.pop()
        keys.append(past.epd())
    return len(set(keys)) < len(keys)


def _fifty_moves(games: list[chess.Board], count: int) -> list[Case]:
    """Clocks of 90 to 99: endgames and middlegames as FENs, and lines that end there after quiet moves."""
    chance, found = random.Random("fifty"), list[Case]()
    while len(found) < count:
        number = len(found)
        if number % 2:
            board = _placed(chance, (*ENDINGS, *SHORT_MATES)[chance.randrange(20)])
        else:
            end = chance.choice(games)
            board = chess.Board(_at(end, chance.randrange(30, len(end.move_stack))).fen(en_passant="fen"))
        clock = 90 + number % 10
        played = (0, 0, 5, 9)[number % 4]
        board.ep_square, board.halfmove_clock, board.fullmove_number = None, clock - played, 80
        board = chess.Board(board.fen())
        for _ in range(played):
            quiet = [m for m in board.legal_moves if not board.is_zeroing(m)]
            if quiet:
                board.push(chance.choice(quiet))
        if board.halfmove_clock == clock and _searchable(board) and board.is_valid():
            found.append(Case(f"fifty-{number}", "fifty", from_board(board)))
    return found
