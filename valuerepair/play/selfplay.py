"""Self-play from the lines of a book: each finished game goes to a PGN file and a store; a stopped run resumes."""

from __future__ import annotations

import hashlib
import json
import logging
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from valuerepair import stop
from valuerepair.errors import UsageError, check_least
from valuerepair.mcts.params import SearchParams
from valuerepair.nets.net import Net, open_net
from valuerepair.play.elo import MatchScore
from valuerepair.play.figures import PlayedGame, figures, lines
from valuerepair.play.forest_player import Fill, ForestPlayer, games_at_once, search_facts
from valuerepair.play.game import GameRecord
from valuerepair.play.openings import Opening, opening_of
from valuerepair.play.pgn import PgnWriter, WrittenGame, claimed_games, game_text, resumed, run_tags, today
from valuerepair.play.referee import MAX_PLIES, Rules
from valuerepair.play.runner import Pairing, play_games
from valuerepair.progress import Progress
from valuerepair.store import db_option
from valuerepair.store.plays import add_plays
from valuerepair.store.rows import Run, RunRecord
from valuerepair.store.store import Store
from valuerepair.text import format_duration, format_rate, quantity
from valuerepair.version import __version__

log = logging.getLogger(__name__)

TICK_S = 1.0


class ForestSource:
    """Games of the built-in MCTS. A context manager that closes the nets it has opened.

    `net` is a name or file. It plays as many games at a time as fill the net's batches. `net_options` are those of
    `open_net`.
    """

    def __init__(
        self,
        net: str | None,
        params: SearchParams,
        nodes: int,
        *,
        games: int,
        rules: Rules,
        seed: int = 0,
        **net_options: Any,
    ) -> None:
        """Raises UsageError and ValueRepairError, as nets and searches do."""
        check_least("--nodes", nodes)
        self._rules, self._seed = rules, seed
        self.net = open_net(net, **net_options)
        try:
            self.params = params
            self.jobs = min(games, games_at_once([(self.net, nodes, self.params)]))
            self.side, self.facts = _identity(self.net, self.params, nodes)
            self._player = ForestPlayer(self.net, self.params, nodes, trees=self.jobs)
        except BaseException:
            self.net.close()
            raise

    def games(self, pairings: Iterable[Pairing], halted: Callable[[], bool]) -> Iterator[GameRecord]:
        with closing(
            play_games(pairings, [self._player], self._rules, self.jobs, seed=self._seed, halted=halted)
        ) as games:
            yield from games

    @property
    def fill(self) -> Fill:
        return self._player.fill

    def __enter__(self) -> ForestSource:
        return self

    def __exit__(self, *_: object) -> None:
        self._player.close(cancel=True)
        self.net.close()


def _identity(net: Net, params: SearchParams, nodes: int) -> tuple[str, dict[str, str]]:
    """The net; and tags for the rest that the moves depend on: nodes, parameters, device, search."""
    engine, facts = search_facts(net, params, nodes)
    words = [f"{name}={text}" for name, text in sorted(facts.items(), key=lambda fact: (fact[0] != "nodes", fact[0]))]
    return f"{net.identity.name} sha256:{net.identity.key[:16]}", {"Engine": engine, "Search": " ".join(words)}


class GameSource(Protocol):
    """Plays games: begins them in order, `jobs` at a time, and yields each game as it ends."""

    def games(self, pairings: Iterable[Pairing], halted: Callable[[], bool]) -> Iterator[GameRecord]: ...
    @property
    def fill(self) -> Fill | None: ...
    @property
    def jobs(self) -> int: ...


_HELD_OUT = "held out"  # the tag Chunk of a game whose records are all held out


class Chunks(Protocol):
    """Writes training records: `training.records.ChunkWriter` and `play.lc0_selfplay.Lc0Chunks`.

    `write` returns the file of a game's records, None without records. The file does not exist if all of the game's
    records are held out.
    """

    def write(self, game: GameRecord) -> Path | None: ...
    def path(self, number: int) -> Path: ...


@dataclass(frozen=True)
class SelfplayPlan:
    """The games of a run: `games` from the openings in turn, the whole book before any line is played again.

    `side` identifies the net that plays both sides. `facts` are tags of every game that must not change when a run is
    resumed: the search, and the rest that moves depend on. `seed` is None for a search without a seed (lc0).
    """

    openings: Sequence[Opening]
    book: str
    side: str
    facts: Mapping[str, str]
    games: int
    rules: Rules = field(default_factory=lambda: Rules(max_plies=MAX_PLIES))
    seed: int | None = 0

    def pairing(self, number: int) -> Pairing:
        """Game `number` of the run."""
        return Pairing(number, self.openings[number % len(self.openings)], 0, 0)

    def copies(self) -> int:
        """The number of games with the opening of an earlier game; without randomness they repeat it."""
        return self.games - len({opening_of(line.start_fen, line.moves) for line in self.openings[: self.games]})

    @property
    def common(self) -> dict[str, str]:
        """The tags that all games of this run share; a file of games with other tags belongs to another run."""
        tags = run_tags(self.book, self.openings, self.seed or 0, self.rules)
        if self.seed is None:
            del tags["Seed"]
        return {**tags, **self.facts}

    @property
    def run(self) -> str:
        """A digest of everything that the games depend on."""
        return hashlib.sha256(json.dumps([self.common, [self.side] * 2]).encode()).hexdigest()[:16]

    def tags(self, number: int) -> dict[str, str]:
        """The tags of a game that are known before it is played."""
        tags = self.pairing(number).opening.tags
        nets = {"WhiteNet": self.side, "BlackNet": self.side}
        opening = {name: text for name, text in tags.items() if name in ("ECO", "Opening", "Source")}
        fixed = {"Event": "vr selfplay", "Site": f"valuerepair {__version__}", "Run": self.run}
        return {**fixed, **nets, **self.common, **opening}


@dataclass(frozen=True)
class SelfplayEnd:
    """The state of a run: all its `games` so far, of which earlier runs played `before`; speeds are of this run.
    `store` is the path of the store that also has the games, `path` their PGN file, `net` who plays itself."""

    games: Sequence[PlayedGame]
    planned: int
    before: int
    interrupted: bool
    nodes: int
    seconds: float
    fill: Fill | None
    store: str | None
    path: str
    net: str

    @property
    def speed(self) -> dict[str, Any]:
        """The speed of this run, the filled share of its batches, and the share of its evaluations from the cache."""
        new, fill = len(self.games) - self.before, self.fill
        return {
            "seconds": self.seconds,
            "nodes_per_second": self.nodes / self.seconds if self.seconds else None,
            "games_per_hour": 3600 * new / self.seconds if self.seconds else None,
            "batch_fill": fill.share if fill is not None and fill.runs else None,
            "known_evaluations": fill.cached / fill.leaves if fill is not None and fill.leaves else None,
        }

    def as_json(self) -> dict[str, Any]:
        """The figures of all games (`play.figures.figures`), the number of planned games, and the speed of this run."""
        return {**figures(self.games), "planned": self.planned, "interrupted": self.interrupted, **self.speed}

    def lines(self) -> list[str]:
        """The figures of `as_json` as text, and the next command."""
        text, new = lines(figures(self.games)), len(self.games) - self.before
        text.append(f"{self.path}: games of {self.net} against itself")
        if new and self.nodes:
            speed = self.speed
            filled, cached = speed["batch_fill"], speed["known_evaluations"]
            more = f", batches {100 * filled:.0f} % full" if filled is not None else ""
            more += f", {100 * cached:.0f} % of evaluations from the cache" if cached is not None else ""
            rate = f"{speed['games_per_hour']:,.0f} games/h, {format_rate(speed['nodes_per_second'])}"
            text.append(f"  {new:,} in {format_duration(self.seconds)}: {rate}{more}")
        if self.store is not None and not self.interrupted:
            text.append(f"next: {shlex.join(['vr', 'stats', *db_option(self.store)])}")
        return text


def play_selfplay(
    plan: SelfplayPlan,
    source: GameSource,
    path: str | Path,
    *,
    store: Store | None = None,
    chunks: Chunks | None = None,
    command: str = "vr selfplay",
    progress: Progress,
) -> SelfplayEnd:
    """Plays the games of the plan that the PGN file `path` does not have yet.

    A finished game goes to `chunks`, then to the file, then to `store`: a game in the file is in all three. SIGINT and
    SIGTERM end the run; the next run plays its unfinished games again. Raises UsageError for a file or chunks of
    another run (a net swapped, another book), ValueRepairError for a file that cannot be written.
    """
    with claimed_games(path):
        planned = f"{quantity(plan.games, 'game')}; give more of them (--repeat)"
        identity = plan.run
        games, size = resumed(
            Path(path),
            plan.games - 1,
            planned,
            lambda game: None if game.tags["Run"] == identity else _difference(game, plan),
        )
        written = [PlayedGame.of_written(game) for game in games]
        if chunks is not None:
            _check_chunks(Path(path), games, chunks)
        if written:
            resuming = "; resuming" if len(written) < plan.games else ""
            log.info(f"{path}: {len(written):,} of {plan.games:,} games are played already{resuming}")
        with _recorded(plan, store, command) as run, closing(PgnWriter(path, size)) as writer:
            output = _GameOutput(plan, writer, store, run, chunks)
            output.add(written)  # the store may lack the last games
            end = _play(plan, source, output, len(written), progress)
            if run is not None:
                run.state = "interrupted" if end.interrupted else "finished"
            return end


@contextmanager
def _recorded(plan: SelfplayPlan, store: Store | None, command: str) -> Iterator[Run | None]:
    """The run in the store, if there is one."""
    if store is None:
        yield None
        return
    options = {**plan.common, "sides": [plan.side] * 2, "games": plan.games, "seed": plan.seed}
    with store.running(RunRecord.of(plan.run, command, options)) as run:
        yield run


def _play(plan: SelfplayPlan, source: GameSource, output: _GameOutput, before: int, progress: Progress) -> SelfplayEnd:
    begun = time.monotonic()
    done, noted_at, nodes = {game.number for game in output.games}, 0.0, 0
    pairings = (plan.pairing(number) for number in range(plan.games) if number not in done)
    progress.jobs = source.jobs
    progress.set_total(plan.games, done=before)
    with stop.flag():
        for record in source.games(pairings, lambda: stop.asked()):
            output.write(record)
            nodes += sum(thought.nodes for thought in record.thoughts)
            now = time.monotonic()
            if now - noted_at >= TICK_S:
                noted_at = now
                progress.note(_note(output.games, nodes / (now - begun)))
            progress.advance()
        interrupted = stop.asked()
    seconds, store = time.monotonic() - begun, None if output.store is None else output.store.path
    return SelfplayEnd(
        output.games,
        plan.games,
        before,
        interrupted,
        nodes,
        seconds,
        source.fill,
        store,
        output.path,
        plan.side.partition(" ")[0],
    )


def _note(games: Sequence[PlayedGame], rate: float) -> str:
    """The results so far and nodes per second."""
    wins, losses = (sum(game.result == result for game in games) for result in ("1-0", "0-1"))
    draws = sum(game.z == 0 for game in games)
    return f"{MatchScore(wins, draws, losses)}, {rate:,.0f} nodes/s"


class _GameOutput:
    """Writes games to the training records, the PGN file and the store."""

    def __init__(
        self, plan: SelfplayPlan, writer: PgnWriter, store: Store | None, run: Run | None, chunks: Chunks | None
    ) -> None:
        self.games: list[PlayedGame] = []
        self._plan, self._writer, self.store, self._run, self._chunks = plan, writer, store, run, chunks
        self.path = str(writer.path)

    def write(self, record: GameRecord) -> None:
        """Writes a finished game."""
        tags = {**self._plan.tags(record.number), "Date": today()}
        if self._chunks is not None and (chunk := self._chunks.write(record)) is not None:
            tags["Chunk"] = chunk.name if chunk.exists() else _HELD_OUT
        text = game_text(record, tags)
        self._writer.write(text)
        self.add([PlayedGame.of_written(WrittenGame.of_text(text))])

    def add(self, games: Sequence[PlayedGame]) -> None:
        """Adds games of the file to those of the run and to the store."""
        self.games += games
        if self.store is not None and self._run is not None:
            self._run.counts.update(games=len(self.games), planned=self._plan.games)
            openings = [self._plan.openings[game.opening] for game in games]
            add_plays(
                self.store,
                self._run,
                [game.play(opening.key, opening.fen) for game, opening in zip(games, openings, strict=True)],
            )
            self.store.commit_if_due()


def _check_chunks(path: Path, games: Sequence[WrittenGame], chunks: Chunks) -> None:
    """Raises UsageError if a game of the file lacks its training records."""
    for game in games:
        played, chunk = PlayedGame.of_written(game), game.tags.get("Chunk")
        has_records = played.z is not None and played.plies > 0
        if has_records and chunk != _HELD_OUT and (chunk is None or not chunks.path(game.number).exists()):
            raise UsageError(
                f"{path}: Round {game.number + 1} has no training records in {chunks.path(0).parent}: give the folder "
                "that has them, or another -o FILE"
            )


def _difference(game: WrittenGame, plan: SelfplayPlan) -> str:
    """The first difference between a written game and this run, in words."""
    planned = plan.tags(game.number)
    for name in ("WhiteNet", "BlackNet"):
        if not game.has(name, planned[name]):
            written = game.tags.get(name, "not given")
            return f"the net was {written}, now it is {planned[name]}, and must not change within a run"
    for name in (*plan.common, "Seed"):
        if not game.has(name, planned.get(name, "")):
            return f"its {name} is {game.tags.get(name, 'not given')!r}, now it is {planned.get(name, 'not given')!r}"
    return "it was not played by vr selfplay"
