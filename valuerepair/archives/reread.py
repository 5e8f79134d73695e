"""A second reading, by python-chess, of games that the Rust reader rejects.

That reader wants strict SAN. Archives hold captures without ``x``, promotions without ``=``, UCI moves and results
such as ``1/2``; python-chess reads those, some fifty times slower. It also passes over what it does not know, even
inside a word: of the German ``Sf3`` it plays f3. So its reading counts only when every word of the main line is a move
in English letters, and when it finds no error and as many moves as the text holds.
"""

from __future__ import annotations

import io
import re

import chess
import chess.pgn

from valuerepair.archives.open import read_text

MAX_TEXT = 1 << 20  # bytes; longer texts are hardly games

_ASIDE = re.compile(rb"\{[^}]*\}|;[^\n]*|^%[^\n]*", re.MULTILINE)
_VARIATION = re.compile(rb"\([^()]*\)")
_LETTERS = re.compile(rb"[A-Za-z]|\xe2\x99")  # figurines begin with these two bytes in UTF-8
_MOVE = re.compile(
    rb"(?:\d+\.*)?(?:[NBRQKP]?[a-h]?[1-8]?[-x:]?[a-h][1-8](?:=?[NBRQnbrq])?|[O0]-[O0](?:-[O0])?|e\.p\.|ep)[^A-Za-z]*"
)


class _Strict(chess.pgn.GameBuilder[chess.pgn.Game]):
    """Ends at the first error with a ValueError: behind one python-chess may lose count of the variations."""

    def handle_error(self, error: Exception) -> None:
        raise ValueError(str(error)) from error


def rewrite(text: bytes, body: int, moves: int) -> bytes | None:
    """The game with its main line in strict SAN; None when it cannot be read, or not as `moves` moves.

    `body` is where the movetext begins; headers stay as they are, comments are kept, variations are not.
    """
    if len(text) > MAX_TEXT or not _only_moves(text[body:]):
        return None
    try:
        game = chess.pgn.read_game(io.StringIO(read_text(text)), Visitor=_Strict)
    except ValueError:
        return None
    if game is None or game.end().ply() - game.ply() != moves:
        return None
    if any(not move for move in game.mainline_moves()):
        return None
    exporter = chess.pgn.StringExporter(columns=None, headers=False, variations=False)
    return text[:body].rstrip() + b"\n\n" + game.accept(exporter).encode() + b"\n"


def _only_moves(movetext: bytes) -> bool:
    """Every word of the main line, all that has letters, is a move."""
    movetext = _ASIDE.sub(b" ", movetext)
    inner, left = 1, movetext
    while inner:
        left, inner = _VARIATION.subn(b" ", left)
    return all(_MOVE.fullmatch(word) for word in left.split() if _LETTERS.search(word))
