"""Games ply by ply: what a net, or its search, and a store's judge say of each position: `vr eval GAME.pgn`."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import chess
import numpy as np

from valuerepair.api.asking import EvaluatedPosition, evaluate_each
from valuerepair.api.calls import Path, paths_of, resolved
from valuerepair.errors import TruncatedInput, ValueRepairError, one_line
from valuerepair.files import check_input
from valuerepair.text import finite, printable

if TYPE_CHECKING:
    from valuerepair.archives.rows import ReadReport
    from valuerepair.chess.positions import Position
    from valuerepair.mcts.params import SearchParams
    from valuerepair.nets.net import Net
    from valuerepair.oracles.searching import Searched

log = logging.getLogger(__name__)

_NAME = 60  # the most characters to show of a player
# A judge's value of the position with this key (signed, as in a store).
_VALUE = """
SELECT v.cp, v.mate, v.w, v.d, v.l, v.q FROM positions p
JOIN deep_values v ON v.position_id = p.id AND v.judge_id = ? AND v.failed IS NULL WHERE p.key = ?
"""


@dataclass(frozen=True, slots=True)
class Ply:
    """A move of a game, and what was said of the position in which it was played; values are from the side to move.

    The origin of `evaluated.position` is the game with the move. `judge_q` in [-1, 1] is that of the store's judge,
    None without one. `first`: the game's first move.
    """

    evaluated: EvaluatedPosition | Searched
    judge_q: float | None
    first: bool

    def lines(self) -> list[str]:
        """A line for the move, after one for its game: number, move, side, Q, another best move with its prior."""
        board, origin = chess.Board(self.evaluated.position.fen), self.evaluated.position.origin
        dots = "." if board.turn else "..."
        words = f"{board.fullmove_number:>4}{dots:<3} {self._san(board):<8}{'White' if board.turn else 'Black'}"
        words += f"  {self._said(board):<42}"
        if self.judge_q is not None:
            words += f"judge {self.judge_q:+.4f}"
        if not self.first:
            return [words.rstrip()]
        white, black = (printable(origin.headers.get(name, "?"), _NAME) for name in ("White", "Black"))
        return [f"game {origin.game} of {origin.source}: {white} - {black}  {origin.result or '*'}", words.rstrip()]

    def as_json(self) -> dict[str, Any]:
        """The record of the position, with source, game, ply, the move played, and `judge_q`."""
        position, origin = self.evaluated.position, self.evaluated.position.origin
        about = {"source": origin.source, "game": origin.game, "ply": position.ply}
        played = {"uci": origin.played, "san": self._san(chess.Board(position.fen))}
        return about | {"played": played, "judge_q": self.judge_q} | self.evaluated.as_json()

    def _san(self, board: chess.Board) -> str:
        return board.san(chess.Move.from_uci(self.evaluated.position.origin.played or ""))

    def _said(self, board: chess.Board) -> str:
        """Q of the net or of its search, and its best move if another one was played."""
        evaluated = self.evaluated
        if isinstance(evaluated, EvaluatedPosition):
            name, q = "net", evaluated.q
            best, _, prior = evaluated.top[0]
        elif (result := evaluated.result) is None:
            return evaluated.reason
        else:
            name, q, best = "search", result.q, result.best_move
            prior = next(move.net_prior for move in result.moves if move.move == best)
        words = f"{name} {q:+.4f}"
        if best == self.evaluated.position.origin.played:
            return words
        return f"{words}  best {board.san(chess.Move.from_uci(best)):<8}{100 * prior:6.2f} %"


def evaluate_games(
    paths: Path | Sequence[Path],
    net: Path | Net | None = None,
    nodes: int = 1,
    params: SearchParams | None = None,
    *,
    db: Path,
    device: str = "auto",
) -> Iterator[Ply]:
    """Every move of every game of PGN archives, in their order, as soon as its position is evaluated.

    Net, nodes, params and device are as in `evaluate_each`. The store `db` is only read, and need not exist: where the
    judge in use has a value of a position, the ply has its Q. Games that cannot be read are left out, and said in one
    line at the end. Raises UsageError for a missing file, ValueRepairError for files without a readable game,
    TruncatedInput at the end if a file is broken off.
    """
    from valuerepair.archives.rows import ReadReport

    names = paths_of(paths)
    for name in names:
        check_input(name)
    report = ReadReport()
    with ExitStack() as held:
        judge_q, last = None, None
        for evaluated in evaluate_each(_positions(names, report), net, nodes, params, device=device):
            judge_q = judge_q or _judge(db, held)
            game = evaluated.position.origin.source, evaluated.position.origin.game
            yield Ply(evaluated, judge_q(evaluated.position), game != last)
            last = game
    if left_out := sum(report.rejected.values()):
        source, offset, reason = report.examples[0]
        where = f"the first, at byte {offset:,} of {source}"
        line = f"{left_out:,} of {report.games:,} games cannot be read; {where}: {one_line(reason)}"
        if not report.positions:
            raise ValueRepairError(line)
        log.warning(line)
    if report.truncated:
        source, where = report.truncated[0]
        raise TruncatedInput(f"{source}: {where}; everything before that was used")


def _positions(paths: Sequence[str], report: ReadReport) -> Iterator[Position]:
    """The positions in which the moves of all games were played."""
    from valuerepair.archives.options import SampleOptions
    from valuerepair.archives.sampling import read_whole_games

    for rows in read_whole_games(paths, SampleOptions(), report):
        yield from rows.batch(np.ones(len(rows.keys), np.bool_))


def _judge(db: Path, held: ExitStack) -> Callable[[Position], float | None]:
    """Q of a position by the judge in use in a store, from the side to move; says which, or why there is none."""
    from valuerepair.chess.values import deep_q
    from valuerepair.store.alpha import alpha
    from valuerepair.store.pairs import judge_of, pick
    from valuerepair.store.rows import signed
    from valuerepair.store.store import Store

    if not os.path.exists(db):
        return lambda _: None
    try:
        store = held.enter_context(Store.open(db))
        question = resolved(store, None)
        pair = pick(store)
        scale = alpha(store, pair, question.alpha)
    except ValueRepairError as error:
        log.info(f"without a judge: {error}")
        return lambda _: None
    label = judge_of(store, pair[1]).label
    log.info(f"judge: {label} of {store.path}, {scale.source(question.q_from)}")

    def judge_q(position: Position) -> float | None:
        key = signed(np.array([position.key], np.uint64))[0]
        row = store.connection.execute(_VALUE, (pair[1], key)).fetchone()
        return row and finite(float(deep_q(np.array(row, np.float64), scale.value, question.q_from)))

    return judge_q
