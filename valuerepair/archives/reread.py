"""A second reading, by python-chess, of games that the Rust reader rejects.

That reader wants strict SAN. Archives hold captures without ``x``, promotions without ``=``, UCI moves and results
such as ``1/2``; python-chess reads those, some fifty times slower. It also passes over words it does not know, so its
reading counts only when it finds no error and as many moves as the text holds.
"""

from __future__ import annotations

import io

import chess
import chess.pgn

from valuerepair.archives.open import read_text

MAX_TEXT = 1 << 20  # bytes; longer texts are hardly games


class _Quiet(chess.pgn.GameBuilder[chess.pgn.Game]):
    """Builds the game without logging what is wrong in it: `errors` has that."""

    def handle_error(self, error: Exception) -> None:
        self.game.errors.append(error)


def rewrite(text: bytes, body: int, moves: int) -> bytes | None:
    """The game with its main line in strict SAN; None when it cannot be read, or not as `moves` moves.

    `body` is where the movetext begins; headers stay as they are, comments are kept, variations are not.
    """
    if len(text) > MAX_TEXT:
        return None
    try:
        game = chess.pgn.read_game(io.StringIO(read_text(text)), Visitor=_Quiet)
    except ValueError:
        return None
    if game is None or game.errors or game.end().ply() - game.ply() != moves:
        return None
    if any(not move for move in game.mainline_moves()):
        return None
    exporter = chess.pgn.StringExporter(columns=None, headers=False, variations=False)
    return text[:body].rstrip() + b"\n\n" + game.accept(exporter).encode() + b"\n"
