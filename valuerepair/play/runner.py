"""The one loop that plays games of self-play and matches: many at once; players answer with futures.

All game logic runs in the caller's thread; players have their own threads or processes. A game depends on its opening,
its players and its own seed, not on other games or on speed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from valuerepair.play.game import ILLEGAL_MOVE, RESIGNED, Fault, Game, GameRecord, Player, Thought
from valuerepair.play.openings import Opening
from valuerepair.play.referee import GameEnd, Referee, Rules, own_q, winner

POLL_S = 0.2  # how soon a halt is noticed while no move comes
_MASK = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Pairing:
    """A game to play: its number in the run, its opening, and the indices of its players."""

    number: int
    opening: Opening
    white: int
    black: int


def game_seed(seed: int, number: int) -> int:
    """A game's seed, 0 to 2^63 - 1, from the run's seed and the game's number (splitmix64, Steele et al. 2014)."""
    word = (seed * 0xD1342543DE82EF95 + (number + 1) * 0x9E3779B97F4A7C15) & _MASK
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    word = (word ^ word >> 27) * 0x94D049BB133111EB & _MASK
    return (word ^ word >> 31) >> 1


@dataclass(eq=False, slots=True)
class _Live:
    """A game being played."""

    pairing: Pairing
    game: Game
    seed: int
    plays_on: bool
    thoughts: list[Thought] = field(default_factory=list)
    white_qs: list[float | None] = field(default_factory=list)
    would_resign: tuple[int, str] | None = None


@dataclass
class _GamesInPlay:
    """The games that `play_games` plays."""

    coming: Iterator[Pairing]
    players: Sequence[Player]
    referee: Referee
    jobs: int
    seed: int
    on_move: Callable[[], None]
    halted: Callable[[], bool]

    def __post_init__(self) -> None:
        self._live: set[_Live] = set()
        self._answers: SimpleQueue[tuple[_Live, Future[Thought]]] = SimpleQueue()
        self._ended: list[GameRecord] = []

    def play(self) -> Generator[GameRecord]:
        """Yields each game as it ends; at its own end it abandons the games being played."""
        try:
            while True:
                self._begin_games()
                if self._ended:
                    yield self._ended.pop(0)
                elif not self._live or self.halted():
                    return
                else:
                    with suppress(Empty):
                        self._receive(*self._answers.get(timeout=POLL_S))
        finally:
            for live in self._live:
                self._forget(live)

    def _begin_games(self) -> None:
        while len(self._live) < self.jobs and not self.halted() and (pairing := next(self.coming, None)) is not None:
            seed, plays_on = game_seed(self.seed, pairing.number), self.referee.plays_on(pairing.number)
            live = _Live(pairing, Game(pairing.opening), seed, plays_on)
            self._live.add(live)
            self._request_move(live)

    def _request_move(self, live: _Live) -> None:
        """Requests the next move, or ends the game."""
        verdict = self.referee.verdict(live.game, live.white_qs)
        if verdict is not None:
            self._end(live, verdict)
            return
        pairing = live.pairing
        player = self.players[pairing.white if live.game.white_to_move else pairing.black]
        future = player.think(pairing.number, live.game.position(), live.seed)
        future.add_done_callback(lambda done: self._answers.put((live, done)))

    def _receive(self, live: _Live, answer: Future[Thought]) -> None:
        white = live.game.white_to_move
        try:
            thought = answer.result()
        except Fault as fault:
            self._end(live, GameEnd(winner(not white), fault.ending, str(fault)))
            return
        if self.referee.resigns(thought):
            if not live.plays_on:
                self._end(live, GameEnd(winner(not white), RESIGNED))
                return
            live.would_resign = live.would_resign or (len(live.game.moves), "white" if white else "black")
        if not live.game.push(thought.move):
            self._end(live, GameEnd(winner(not white), ILLEGAL_MOVE, f"{thought.move} in {live.game.fen}"))
            return
        q = own_q(thought)
        live.thoughts.append(thought)
        live.white_qs.append(q if q is None or white else -q)
        self.on_move()
        self._request_move(live)

    def _end(self, live: _Live, verdict: GameEnd) -> None:
        self._live.discard(live)
        self._forget(live)
        pairing = live.pairing
        self._ended.append(
            GameRecord(
                pairing.number,
                pairing.opening.number,
                pairing.opening.start_fen,
                pairing.opening.moves,
                tuple(live.thoughts),
                self.players[pairing.white].name,
                self.players[pairing.black].name,
                verdict.result,
                verdict.ending,
                verdict.detail,
                live.would_resign,
            )
        )

    def _forget(self, live: _Live) -> None:
        for player in {live.pairing.white, live.pairing.black}:
            self.players[player].forget(live.pairing.number)


def play_games(
    pairings: Iterable[Pairing],
    players: Sequence[Player],
    rules: Rules,
    jobs: int,
    *,
    seed: int,
    on_move: Callable[[], None] = lambda: None,
    halted: Callable[[], bool] = lambda: False,
) -> Generator[GameRecord]:
    """Plays the games, `jobs` at once, and yields each as it ends; a game that is over in its opening has no thoughts.

    A player's Fault and an illegal move lose the game. `on_move` is called after every move; once `halted` returns True
    it yields no more games and abandons the running ones. Raises the errors of players' futures, except Fault. Close
    the result (or exhaust it) before the players.
    """
    return _GamesInPlay(iter(pairings), players, Referee(rules, seed), jobs, seed, on_move, halted).play()
