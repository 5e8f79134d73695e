"""Ends games: by the rules of chess, tablebases, adjudication by both sides' values, resignation, too many moves."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import chess
import chess.syzygy

from valuerepair.chess import values
from valuerepair.errors import UsageError, ValueRepairError, finite, one_line
from valuerepair.play.game import DRAW_AGREED, TABLEBASE, TOO_LONG, Game, Thought

MAX_PLIES = 450  # of self-play; lc0's, selfplay/game.cc
NO_RESIGN_SHARE = 0.2  # of games of self-play, if there is resignation
RULE_SETTINGS = ("max_plies", "syzygy")  # fields of `Rules` that are written NAME=VALUE
DRAW, WHITE_WON, BLACK_WON, UNDECIDED = "1/2-1/2", "1-0", "0-1", "*"
# python-chess does not check the content of tables, so that reading a damaged one can raise any of these errors.
_DAMAGE = (OSError, ValueError, LookupError, ArithmeticError, AssertionError, RecursionError, struct.error)


@dataclass(frozen=True, slots=True)
class DrawRule:
    """From the game's move `from_move` on, the game is a draw once |Q| was at most `q` for `plies` plies in a row."""

    from_move: int
    plies: int
    q: float

    def holds(self, game: Game, qs: Sequence[float | None]) -> bool:
        """Whether the game is a draw now; `qs` are the values of the moves played."""
        if len(qs) < self.plies or len(game.moves) < 2 * (self.from_move - 1):
            return False
        return all(q is not None and abs(q) <= self.q for q in qs[-self.plies :])


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that end a game besides those of chess.

    - `max_plies`: a game of this many moves, including those of the book, ends undecided; 0 for no limit. None is
      `MAX_PLIES` in self-play, and no limit in matches.
    - `draw`: adjudication by the players' own values.
    - `syzygy`: folders of tables, separated as in PATH; a game ends when they know its value: right after a capture or
      a pawn move, without castling rights.
    - `resign`: a side resigns instead of moving when its chance, 100 (1 + Q) / 2, is below this percentage (lc0's
      ``--resign-percentage``). In a share `no_resign_share` of the games no side resigns: these record the first
      resignation that was due, for the rate of wrong ones.
    """

    max_plies: int | None = None
    draw: DrawRule | None = None
    syzygy: str = ""
    resign: float = 0.0
    no_resign_share: float = 0.0

    def __post_init__(self) -> None:
        """Raises UsageError for invalid values."""
        if (self.max_plies or 0) < 0:
            raise UsageError(f"max_plies {self.max_plies}: must be at least 0 (no limit)")
        if not 0 <= self.resign < 50:
            raise UsageError(f"resign {self.resign:g}: per cent of winning chance, at least 0 and below 50")
        if not 0 <= self.no_resign_share <= 1:
            raise UsageError(f"no_resign_share {self.no_resign_share:g}: must be from 0 to 1")
        if self.draw is not None and not (self.draw.plies >= 1 and 0 <= self.draw.q <= 1):
            raise UsageError(f"{self.draw}: at least 1 ply, and Q from 0 to 1")

    def with_settings(self, settings: Mapping[str, str]) -> Rules:
        """These rules with those of `RULE_SETTINGS` that are given as text. Raises UsageError."""
        rules, plies = self, settings.get("max_plies")
        if plies is not None:
            if not plies.isdecimal():
                raise UsageError(f"max_plies={plies}: must be a whole number, at least 0 (no limit)")
            rules = replace(rules, max_plies=int(plies))
        return replace(rules, syzygy=settings.get("syzygy", rules.syzygy))


@dataclass(frozen=True, slots=True)
class GameEnd:
    """How a game ended: `result` as in PGN, `ending` a word of `play.game`."""

    result: str
    ending: str
    detail: str = ""


def own_q(thought: Thought) -> float | None:
    """The player's Q from its own side: the one it gave, else of its mate, WDL or centipawns (by the default alpha).

    None if it gave no value.
    """
    if thought.q is not None:
        return thought.q
    if thought.mate is not None:
        return float(values.mate_to_q(thought.mate))
    if thought.wdl is not None:
        return float(values.wdl_to_q(thought.wdl))
    return None if thought.cp is None else float(values.cp_to_q(thought.cp, values.DEFAULT_ALPHA))


class Tables:
    """The tables in some folders; an empty path has no tables. `men` is the largest number of men that a table has."""

    def __init__(self, path: str) -> None:
        """`path` lists folders as PATH does. Raises UsageError if a folder is missing or no folder has a table."""
        self.men = 0
        folders = [Path(folder).expanduser() for folder in path.split(os.pathsep) if folder]
        if not folders:
            return
        self._tables = chess.syzygy.Tablebase()
        for folder in folders:
            if not folder.is_dir():
                raise UsageError(f"syzygy={folder}: no such folder")
            self._tables.add_directory(str(folder))
        if not self._tables.wdl:
            raise UsageError(f"syzygy={path}: no Syzygy tables (*.rtbw) there")
        # A table is named after its men, as in KRPvKR.
        self.men = max(len(name) - 1 for name in self._tables.wdl)

    def probe(self, fen: str) -> int | None:
        """The result for the side to move, 1, 0 or -1, if the 50-move count is 0; None without a table.

        Cursed wins and blessed losses, which the 50-move rule turns into draws, are draws as in lc0. Raises
        ValueRepairError for a damaged table.
        """
        try:
            wdl = self._tables.get_wdl(chess.Board(fen))
        except _DAMAGE as error:
            raise ValueRepairError(f"syzygy: a damaged table, probed for {fen}: {one_line(error)}") from None
        return None if wdl is None else (wdl == 2) - (wdl == -2)


class Referee:
    """Applies `Rules` to games. `seed` draws the games in which no side resigns."""

    def __init__(self, rules: Rules, seed: int) -> None:
        """Raises UsageError for folders without tables."""
        self.rules, self._seed = rules, seed
        self._tables = Tables(rules.syzygy)

    def plays_on(self, number: int) -> bool:
        """Whether no side resigns in this game; drawn by its number, so that the order of games does not matter."""
        word = hashlib.sha256(f"resign {self._seed} {number}".encode()).digest()[:8]
        return int.from_bytes(word, "big") < self.rules.no_resign_share * 2**64

    def resigns(self, thought: Thought) -> bool:
        """Whether the side to move resigns instead of playing its move."""
        q = own_q(thought)
        return self.rules.resign > 0 and q is not None and 50 * (1 + q) < self.rules.resign

    def verdict(self, game: Game, white_qs: Sequence[float | None]) -> GameEnd | None:
        """The end of the game at this position, or None. `white_qs` are the values of the moves played, for White."""
        if (over := game.ending()) is not None:
            return GameEnd(*over)
        if (result := self._table_result(game)) is not None:
            return GameEnd(result, TABLEBASE)
        if (draw := self.rules.draw) is not None and draw.holds(game, white_qs):
            return GameEnd(DRAW, DRAW_AGREED, f"|Q| at most {draw.q:g} for {draw.plies} plies")
        if self.rules.max_plies and len(game.moves) >= self.rules.max_plies:
            return GameEnd(UNDECIDED, TOO_LONG, f"{len(game.moves)} plies")
        return None

    def _table_result(self, game: Game) -> str | None:
        if not self._tables.men or not game.fits_tablebase or game.men > self._tables.men:
            return None
        value = self._tables.probe(game.fen)
        if value is None:
            return None
        return DRAW if value == 0 else winner((value > 0) == game.white_to_move)


def winner(white: bool) -> str:
    """The result if this side has won."""
    return WHITE_WON if white else BLACK_WON


def parse_draw_rule(text: str) -> DrawRule:
    """Parses ``MOVE,PLIES,Q`` (``40,8,0.05``), see `DrawRule`. Raises UsageError."""
    parts = text.split(",")
    if len(parts) != 3 or not all(part.strip().isdecimal() for part in parts[:2]):
        raise UsageError(f"--draw {text}: give MOVE,PLIES,Q, for example 40,8,0.05")
    move, plies, q = (finite(part, f"--draw {text}: {part}") for part in parts)
    return DrawRule(int(move), int(plies), q)
