"""The search of one position, as an engine does it: until a limit or a stop, with the tree kept between moves."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from valuerepair.chess.board import legal_moves, parse_fens
from valuerepair.chess.positions import Position, decode_moves
from valuerepair.errors import UsageError
from valuerepair.mcts.evaluator import LeafEvaluator
from valuerepair.mcts.forest import Forest, play
from valuerepair.mcts.params import SearchParams
from valuerepair.mcts.result import SearchResult

FIRST_ROOM = 10_000  # the visits that a tree has room for at first


class Search:
    """The search of one position at a time. Not to be shared between threads.

    A tree has at most `room` visits; its memory grows with it. `nodes_before` are the visits that the root had when its
    last search began.
    """

    def __init__(self, evaluator: LeafEvaluator, params: SearchParams | None = None, *, nodes: int = 1_000_000) -> None:
        """`nodes` is the `room` of a tree. Raises UsageError for parameters that make no sense."""
        self._forest = Forest(evaluator, params, trees=1, nodes=min(nodes, FIRST_ROOM))
        self.room = nodes
        self._slot: int | None = None
        self._position: Position | None = None
        self._restricted = False
        self.nodes_before = 0

    @property
    def nodes(self) -> int:
        """Visits of the root so far, including those kept from the last position."""
        return 0 if self._slot is None else self._forest.visits(self._slot)

    def set_position(self, position: Position) -> bool:
        """Sets the position to search; True if a part of the previous tree can be used for it.

        That is so if the position comes later in the same game. Raises ValueRepairError for an illegal or finished
        position; the previous one then stays set.
        """
        play(position)
        is_later = self._advance_to(position)
        if not is_later:
            self.forget()
        self._position = position
        return is_later

    def forget(self) -> None:
        """Drops the tree."""
        if self._slot is not None:
            self._forest.release(self._slot)
            self._slot = None
        self._restricted = False

    def run(
        self,
        *,
        nodes: int | None = None,
        seconds: float | None = None,
        stop: Callable[[], bool] = lambda: False,
        on_info: Callable[[SearchResult], None] | None = None,
        info_seconds: float = 1.0,
        root_moves: Sequence[str] = (),
        lines: int = 1,
    ) -> SearchResult:
        """Searches until the root has `nodes` visits (reused ones count), `seconds` passed, or `stop` returns True.

        There is always one evaluation. With certainty it ends when the root is proven. `on_info` gets a result every
        `info_seconds`; only `root_moves` (UCI) are searched, if given; `lines` moves get a principal line. Raises
        UsageError where no position was set, or a root move is not legal.
        """
        slot = self._begin(self.room if nodes is None else min(nodes, self.room), root_moves)
        started = last_info = time.monotonic()
        while not self._forest.is_done(slot):
            self._forest.play_round()
            now = time.monotonic()
            if stop() or (seconds is not None and now - started >= seconds):
                break
            if on_info is not None and now - last_info >= info_seconds:
                last_info = now
                on_info(self._forest.result(slot, lines))
        return self._forest.result(slot, lines)

    def _begin(self, nodes: int, root_moves: Sequence[str]) -> int:
        """Makes a tree ready for the search; returns its slot."""
        if self._position is None:
            raise UsageError("no position to search")
        if self._slot is not None and (root_moves or self._restricted):
            self.forget()  # a tree that has only some root moves cannot be used for other moves
        self.nodes_before = self.nodes
        if self._slot is not None:
            self._forest.go_on(self._slot, nodes)
            return self._slot
        legal = decode_moves(legal_moves(parse_fens([self._position.fen]))[0]) if root_moves else ()
        if wrong := [move for move in root_moves if move not in legal]:
            raise UsageError(f"{wrong[0]}: not a legal move in {self._position.fen}")
        slot = self._slot = self._forest.add(self._position, nodes, root_moves=root_moves)
        self._restricted = bool(root_moves)
        return slot

    def _advance_to(self, position: Position) -> bool:
        """Makes the node of a later position of the same game the root; False if the tree has no such node."""
        last = self._position
        if last is None or self._slot is None or self._restricted or last.start_fen != position.start_fen:
            return False
        if position.moves[: len(last.moves)] != last.moves:
            return False
        new_moves = position.moves[len(last.moves) :]
        return not new_moves or self._forest.advance(self._slot, position, new_moves)
