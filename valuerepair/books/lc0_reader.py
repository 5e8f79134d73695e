"""How lc0's opening-book reader reads a FEN and a move, after `src/chess/pgn.h` and `board.cc` of 0.32.1.

lc0 reads less than the PGN standard allows, and misreads some of it silently. These rules give the move that it reads
from a word, or why it refuses the word (an unhandled exception, so the book does not load at all).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import chess

from valuerepair.chess.board import status_error
from valuerepair.text import printable

GAME_PLY_LIMIT = 450  # selfplay/game.cc: a game that reaches it is dropped without a result
RESULTS = frozenset({"1/2-1/2", "1-0", "0-1", "*"})

_PIECES = {"K": chess.KING, "Q": chess.QUEEN, "B": chess.BISHOP, "N": chess.KNIGHT, "R": chess.ROOK}
_PROMOTIONS = {"Q": chess.QUEEN, "B": chess.BISHOP, "N": chess.KNIGHT, "R": chess.ROOK}
# Words that lc0 reads as the standard does: without a full origin, which lc0 does not check, and without a suffix.
_PLAIN_SAN = re.compile(r"(?:[KQRBN]?(?:[a-h]|[1-8])?x?[a-h][1-8](?:=[QRBN])?|O-O(?:-O)?)(?![-a-h1-8x=])")
_SAN_BY_THE_STANDARD = re.compile(r"O-O-O|O-O|[KQRBN]?[a-h]?[1-8]?[-x]?[a-h][1-8](?:=?[QRBN])?")


class Refused(Exception):
    """lc0 throws an exception here, or reads a move that is not the written one. The message is the reason."""


@dataclass(frozen=True, slots=True)
class _MoveSquares:
    """The squares that lc0 reads from a word; None for those that the word does not contain."""

    piece: chess.PieceType
    from_file: int | None
    from_rank: int | None
    to_file: int | None
    to_rank: int | None
    promotion: chess.PieceType | None


def read_move(word: str, board: chess.Board, *, ep_as_given: bool = False) -> chess.Move:
    """The move that lc0 reads from `word` (no move number, two characters or more) on `board`.

    `ep_as_given` is True for the position of a FEN tag, whose e.p. square lc0 takes literally; after a move it keeps
    one only next to an enemy pawn. Raises `Refused` if lc0 throws, or if the move it reads is illegal or not
    the meaning of the word in the PGN standard.
    """
    ep_square = board.ep_square if ep_as_given or board.has_pseudo_legal_en_passant() else None
    move = _castling(word, board) if word.startswith("O-O") else _by_squares(word, board, ep_square)
    if _PLAIN_SAN.match(word) is None:
        _compare_with_the_standard(word, board, move)
    return move


def _castling(word: str, board: chess.Board) -> chess.Move:
    king_file_to = chess.FILE_NAMES.index("c" if word[3:5] == "-O" else "g")
    for move in board.generate_castling_moves():
        if chess.square_file(move.to_square) == king_file_to:
            return move
    raise Refused(f"{word}: castling is illegal here (lc0 plays it unchecked)")


def _by_squares(word: str, board: chess.Board, ep_square: int | None) -> chess.Move:
    written = _squares(word)
    if written.to_file is None or written.to_rank is None:
        raise Refused(explain(word))
    target = chess.square(written.to_file, written.to_rank)
    if written.from_file is None or written.from_rank is None:
        return _search(word, written, target, board, ep_square)
    move = chess.Move(chess.square(written.from_file, written.from_rank), target, written.promotion)
    if not board.is_legal(move):
        raise Refused(f"{word}: illegal move (lc0 plays it unchecked)")
    if board.is_castling(move):
        raise Refused(f"{word}: castling must be written O-O or O-O-O (lc0 moves the king only)")
    if target == ep_square and board.piece_type_at(move.from_square) != chess.PAWN:
        raise Refused(f"{word}: lc0 takes a move to the e.p. square for an e.p. capture")
    return move


def _squares(word: str) -> _MoveSquares:
    """SanToMove's scan: the last two files and ranks, up to the first character it does not know."""
    piece = _PIECES.get(word[0], chess.PAWN)
    files: list[int] = []
    ranks: list[int] = []
    promotion: chess.PieceType | None = None
    promoting = False
    for character in word[1:] if word[0] in _PIECES else word:
        if character == "x":
            continue
        if character == "=":
            promoting = True
        elif "1" <= character <= "8":
            ranks.append(int(character) - 1)
        elif "a" <= character <= "h":
            files.append(chess.FILE_NAMES.index(character))
        else:
            if promoting:
                promotion = _PROMOTIONS.get(character)
            break
    from_file, to_file = ([None, None, *files])[-2:]
    from_rank, to_rank = ([None, None, *ranks])[-2:]
    return _MoveSquares(piece, from_file, from_rank, to_file, to_rank, promotion)


def _search(word: str, written: _MoveSquares, target: int, board: chess.Board, ep_square: int | None) -> chess.Move:
    origins = board.pieces_mask(written.piece, board.turn)
    if written.from_file is not None:
        origins &= chess.BB_FILES[written.from_file]
    if written.from_rank is not None:
        origins &= chess.BB_RANKS[written.from_rank]
    fitting = [
        move
        for move in board.generate_legal_moves(origins, chess.BB_SQUARES[target])
        if move.promotion == written.promotion and not board.is_castling(move)
    ]
    if len(fitting) > 1:
        raise Refused(f"{word}: ambiguous")
    if not fitting:
        raise Refused(explain(word))
    if target == ep_square and written.piece != chess.PAWN:
        raise Refused(f"{word}: lc0 cannot read a piece's move to the e.p. square")
    return fitting[0]


def _compare_with_the_standard(word: str, board: chess.Board, move_read: chess.Move) -> None:
    san = _SAN_BY_THE_STANDARD.match(word)
    try:
        meant = board.parse_san(san[0]) if san else None
    except ValueError:
        meant = None
    if meant != move_read:
        raise Refused(f"{word}: lc0 takes it for {board.san(move_read)}")


_REASONS = (
    (r"\d*\.\.", "a move number for Black, which lc0 cannot read"),
    (r".*[()]", "a variation, which lc0 cannot read"),
    (r"\$", "a NAG, which lc0 cannot read"),
    (r"\[", "a tag that does not begin its line: lc0 takes it for moves"),
    (r"(?:--|Z0|@@@@|null)", "a null move, which lc0 cannot read"),
    (r"0-0", "castling with zeros; lc0 reads O-O and O-O-O"),
    (r"[a-h](?:x[a-h])?[18]\(?[QRBNqrbn]", "a promotion without '='; lc0 reads a8=Q"),
    (r"(?:[a-h]x?[a-h][36])?e\.p", "e.p. spelled out, which lc0 cannot read"),
    (r"(?:\d/\d|[½01]-[½01]|[-+=]+$|[-+]/[-+])", "a result that lc0 does not know (it knows 1-0, 0-1, 1/2-1/2 and *)"),
    (r"\d+$", "a move number without a dot, which lc0 takes for a move"),
    (r"[KQRBN]?[a-h][1-8]-[a-h][1-8]", "long algebraic with a hyphen, which lc0 cannot read"),
    (r"[!?]+$", "an annotation apart from its move, which lc0 takes for a move"),
    (r"[KQRBN]?[a-h]?[1-8]?x?[a-h][1-8]|O-O", "illegal move"),
)


def explain(word: str) -> str:
    """Why lc0 cannot make a move of `word`, in the user's terms."""
    reason = next((text for pattern, text in _REASONS if re.match(pattern, word)), "not a move")
    return f"{printable(word, 24)}: {reason}"


def start_board(fen: str) -> chess.Board:
    """The position of a FEN tag. Raises `Refused` if the position is illegal, or if lc0's FEN parser throws.

    python-chess refuses all that lc0's parser (`ChessBoard::SetFromFen`) does, but for what is checked here.
    """
    reason = status_error(fen)
    if reason is None and not re.fullmatch(r"[A-Za-z0-9/ -]+", fen):
        reason = "lc0 reads only letters, digits, /, - and blanks"
    if reason is None and len(fen.split()) == 4 and not fen.rstrip().endswith("-"):
        reason = "lc0 needs the two clocks after an e.p. square"
    if reason is not None:
        raise Refused(f"bad FEN: {reason}")
    return chess.Board(fen)


def no_game(board: chess.Board, game_ply: int) -> str | None:
    """Why lc0 plays no move from here, so that a book entry would be useless; None if it plays one.

    `game_ply` is lc0's count, the FEN's move number (1 for the initial position) plus the plies since.
    """
    if not any(board.generate_legal_moves()):
        return "checkmate" if board.is_check() else "stalemate"
    if board.is_insufficient_material():
        return "insufficient material"
    if board.halfmove_clock >= 100:
        return "fifty moves without capture or pawn move"
    if board.halfmove_clock >= 8 and board.is_repetition(3):
        return "third repetition"
    if game_ply >= GAME_PLY_LIMIT:
        return f"lc0 drops a game at its ply {GAME_PLY_LIMIT}"
    return None
