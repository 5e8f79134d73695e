"""Self-play from the lines of a book: games to a PGN file and a store as they end, resumed where they stopped."""

from __future__ import annotations

import hashlib
import json
import logging
import platform
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from valuerepair import signals
from valuerepair.chess.progress import Progress, format_duration, format_rate
from valuerepair.chess.time_left import Remaining, Turns
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.mcts.forest import forest_bytes
from valuerepair.mcts.params import SearchParams
from valuerepair.nets.net import Net, open_net
from valuerepair.oracles.mcts_oracle import available_memory
from valuerepair.play.figures import PlayedGame, figures, lines, played
from valuerepair.play.forest_player import Fill, ForestPlayer, search_facts
from valuerepair.play.game import GameRecord
from valuerepair.play.openings import Opening
from valuerepair.play.pgn import PgnWriter, WrittenGame, claimed_games, game_text, resumed, run_tags, today
from valuerepair.play.referee import Rules
from valuerepair.play.runner import Pairing, play_games
from valuerepair.store import DEFAULT_PATH
from valuerepair.store.plays import add_plays
from valuerepair.store.rows import RunRecord
from valuerepair.store.store import Store
from valuerepair.version import __version__

log = logging.getLogger(__name__)

# Some of the running searches are answered from the cache: twice as many keep the batches full.
TREES_A_BATCH = 2
_SHARE_OF_MEMORY = 0.5
TICK_S = 1.0


@dataclass(frozen=True)
class Contestant:
    """How the built-in MCTS plays: `nets` are one or two names or files, `how` options of `open_net`.

    It plays `parallel` games at a time, None for as many as fill the nets' batches. With `reuse` trees are kept between
    moves.
    """

    nets: tuple[str | None, ...]
    params: SearchParams
    nodes: int
    parallel: int | None = None
    reuse: bool = False
    how: Mapping[str, Any] = field(default_factory=dict)


class ForestSource:
    """Games of the built-in MCTS. A context manager: it opens the nets, and closes them."""

    def __init__(self, who: Contestant, rules: Rules, seed: int, games: int) -> None:
        """Raises UsageError and ValueRepairError, as nets and searches do."""
        if who.nodes < 1:
            raise UsageError(f"--nodes {who.nodes}: must be at least 1")
        if who.parallel is not None and who.parallel < 1:
            raise UsageError(f"--jobs {who.parallel}: must be at least 1")
        self._rules, self._seed = rules, seed
        self._stack = ExitStack()
        try:
            nets = [self._stack.enter_context(open_net(spec, **who.how)) for spec in who.nets]
            for net in nets:
                net.tune()
            self.params = replace(who.params, history_fill=nets[0].history_fill)
            self.jobs = min(games, who.parallel or _affordable(nets, who.nodes, self.params))
            self.nets = nets
            self.sides, self.facts = _identity(nets, self.params, who)
            self._players: list[ForestPlayer] = []
            for net, name in zip(nets, _names(nets), strict=True):
                player = ForestPlayer(net, self.params, who.nodes, trees=self.jobs, name=name, reuse=who.reuse)
                self._stack.callback(player.close, cancel=True)
                self._players.append(player)
        except BaseException:
            self._stack.close()
            raise

    def games(self, coming: Iterable[Pairing], halted: Callable[[], bool]) -> Iterator[GameRecord]:
        two = [self._players[0], self._players[-1]]
        with closing(play_games(coming, two, self._rules, self.jobs, seed=self._seed, halted=halted)) as games:
            yield from games

    def input_format(self) -> int:
        """Of the planes of training records. Raises UsageError where two nets differ: the records are of one format."""
        first, *others = (net.identity.input_format for net in self.nets)
        if others not in ([], [first]):
            raise UsageError(f"--training: the nets have input formats {first} and {others[0]}; records are of one")
        return first

    @property
    def fill(self) -> Fill:
        fills = [player.fill for player in self._players]
        leaves, known, runs = (sum(each[i] for each in fills) for i in range(3))
        return Fill(leaves, known, runs, max(each.batch for each in fills))

    def __enter__(self) -> ForestSource:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _affordable(nets: Sequence[Net], nodes: int, params: SearchParams) -> int:
    """The number of games at a time that fills the batches, if memory allows."""
    wanted = max(TREES_A_BATCH * net.session.streams * net.batch_size for net in nets)
    memory = _SHARE_OF_MEMORY * (available_memory() or 8 << 30) / len(nets)
    return max(1, min(wanted, int(memory // forest_bytes(1, nodes, params))))


def _names(nets: Sequence[Net]) -> list[str]:
    names = [net.identity.name for net in nets]
    return [f"{name} ({i})" for i, name in enumerate(names, 1)] if len(set(names)) < len(names) else names


def _identity(nets: Sequence[Net], params: SearchParams, who: Contestant) -> tuple[tuple[str, str], dict[str, str]]:
    """The sides' nets, and what else the moves depend on: nodes, parameters, device, the search's revision."""
    engine, facts = search_facts(nets[0], params, who.nodes)
    sides = [f"{net.identity.name} sha256:{net.identity.key[:16]}" for net in nets]
    words = [f"{name}={text}" for name, text in sorted(facts.items(), key=lambda fact: (fact[0] != "nodes", fact[0]))]
    words += ["reuse=1"] if who.reuse else []
    return (sides[0], sides[-1]), {"Engine": engine, "Search": " ".join(words)}


class GameSource(Protocol):
    """Plays games: begins them in order, `jobs` at a time, and yields each as it ends."""

    def games(self, coming: Iterable[Pairing], halted: Callable[[], bool]) -> Iterator[GameRecord]: ...
    @property
    def fill(self) -> Fill | None: ...
    @property
    def jobs(self) -> int: ...


_HELD_OUT = "held out"  # the tag Chunk of a game whose records all are


class Chunks(Protocol):
    """Writes training records: `write` gives the file of a game's records, None if it has none. The file does not exist
    if all of the game's records are held out.

    `training.records.ChunkWriter` is one, `play.lc0_selfplay.Lc0Chunks` another; `training.selfplay.TrainingPart`
    holds out positions.
    """

    def write(self, game: GameRecord) -> Path | None: ...
    def path(self, number: int) -> Path: ...


@dataclass(frozen=True)
class SelfplayPlan:
    """What is played: `games` from the openings in turn, the whole book before any line for the second time.

    `sides` names what plays White and Black of even games, both alike or changing places; `facts` are tags that every
    game has and that must not change from run to run (the search, and whatever else its moves depend on). `seed`
    is None where the search takes none (lc0).
    """

    openings: Sequence[Opening]
    book: str
    sides: tuple[str, str]
    facts: Mapping[str, str]
    games: int
    rules: Rules = field(default_factory=Rules)
    seed: int | None = 0

    def pairing(self, number: int) -> Pairing:
        """Game `number` of the run. With two players each has both colours, of a line in turn."""
        turn, line = divmod(number, len(self.openings))
        white = (turn + line) % 2
        return Pairing(number, self.openings[line], white, 1 - white)

    def copies(self) -> int:
        """How many games have the line and the players of an earlier one: without chance they are the same game."""
        pairings = [self.pairing(number) for number in range(self.games)]
        return self.games - len({(p.opening.start_fen, p.opening.moves, self.sides[p.white]) for p in pairings})

    @property
    def common(self) -> dict[str, str]:
        """Tags that all games of this run share: what says that a file is of this run."""
        tags = run_tags(self.book, self.openings, self.seed or 0, self.rules)
        if self.seed is None:
            del tags["Seed"]
        return {**tags, **self.facts}

    @property
    def run(self) -> str:
        """The digest of all that games depend on."""
        return hashlib.sha256(json.dumps([self.common, self.sides]).encode()).hexdigest()[:16]

    def tags(self, number: int) -> dict[str, str]:
        """The tags of a game beside those of its own."""
        pairing = self.pairing(number)
        nets = {"WhiteNet": self.sides[pairing.white], "BlackNet": self.sides[pairing.black]}
        named = {name: text for name, text in pairing.opening.tags.items() if name in ("ECO", "Opening", "Source")}
        head = {"Event": "vr selfplay", "Site": f"valuerepair {__version__}", "Run": self.run}
        return {**head, **nets, **self.common, **named}


@dataclass(frozen=True)
class SelfplayEnd:
    """The state of a run: all its `games` so far, of which earlier runs played `before`; speeds are of this run.
    `store` is the path of the store that has the games, too."""

    games: Sequence[PlayedGame]
    planned: int
    before: int
    interrupted: bool
    nodes: int
    seconds: float
    fill: Fill | None
    store: str | None = None

    @property
    def speed(self) -> dict[str, Any]:
        """Nodes and games of this run by time, how full the net's batches were, what it knew already; JSON-able."""
        new, fill = len(self.games) - self.before, self.fill
        return {
            "seconds": self.seconds,
            "nodes_per_second": self.nodes / self.seconds if self.seconds else None,
            "games_per_hour": 3600 * new / self.seconds if self.seconds else None,
            "batch_fill": fill.share if fill is not None and fill.runs else None,
            "known_evaluations": fill.known / fill.leaves if fill is not None and fill.leaves else None,
        }

    def as_json(self) -> dict[str, Any]:
        """The figures of all games (`play.figures.figures`), how many were planned, and the speed of this run."""
        return {**figures(self.games), "planned": self.planned, "interrupted": self.interrupted, **self.speed}

    def lines(self) -> list[str]:
        """`as_json` for the user, and what to do next."""
        said, new = lines(figures(self.games)), len(self.games) - self.before
        if new and self.nodes:
            speed = self.speed
            filled, known = speed["batch_fill"], speed["known_evaluations"]
            more = f", batches {100 * filled:.0f} % full" if filled is not None else ""
            more += f", {100 * known:.0f} % of evaluations known from before" if known is not None else ""
            rate = f"{speed['games_per_hour']:,.0f} games/h, {format_rate(speed['nodes_per_second'])}"
            said.append(f"  {new:,} in {format_duration(self.seconds)}: {rate}{more}")
        if self.store is not None and not self.interrupted:
            said.append(f"next: vr stats{'' if self.store == DEFAULT_PATH else f' --db {shlex.quote(self.store)}'}")
        return said


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
    """Plays what of the plan is not in the PGN file `path` yet.

    A game that ends goes to `chunks`, then to the file, then to `store`, so that what a file has is everywhere. SIGINT
    and SIGTERM end the run; games being played are given up, and played again by the next one. Raises ValueRepairError
    for a file of another run (a net swapped, another book) and where it cannot be written, UsageError for chunks of
    another.
    """
    with claimed_games(path):
        asked = f"{plan.games} games; give more of them (--repeat)"
        games, size = resumed(Path(path), plan.run, plan.games - 1, asked, lambda game: _difference(game, plan))
        written = [played(game) for game in games]
        if chunks is not None:
            _check_chunks(Path(path), games, chunks)
        if written:
            log.info(f"{path}: {len(written):,} of {plan.games:,} games are played already; going on")
        keeper = _Keeper(plan, PgnWriter(path, size), store, chunks, command)
        try:
            keeper.note(written)  # the store may lack the last of them
            return _play(plan, source, keeper, len(written), progress)
        except BaseException:
            with suppress(ValueRepairError):
                keeper.end("interrupted")
            raise
        finally:
            keeper.close()


def _play(plan: SelfplayPlan, source: GameSource, keeper: _Keeper, before: int, progress: Progress) -> SelfplayEnd:
    begun = time.monotonic()
    done, turns = {game.number for game in keeper.games}, Turns(source.jobs, shared=True)
    shown, nodes = 0.0, 0

    def coming() -> Iterator[Pairing]:
        for number in range(plan.games):
            if number not in done:
                turns.comes(number)
                yield plan.pairing(number)

    progress.set_total(plan.games)
    progress.advance(before)
    with signals.counted():
        for record in source.games(coming(), lambda: signals.count() > 0):
            keeper.keep(record)
            nodes += sum(thought.nodes for thought in record.thoughts)
            now = time.monotonic()
            turns.ended(record.number, len(record.thoughts))
            if now - shown >= TICK_S:
                shown = now
                left = turns.remaining(plan.games - len(keeper.games))
                progress.note(_note(keeper.games, nodes / (now - begun), left))
            progress.advance()
        interrupted = signals.count() > 0
    keeper.end("interrupted" if interrupted else "finished")
    seconds, store = time.monotonic() - begun, None if keeper.store is None else keeper.store.path
    return SelfplayEnd(keeper.games, plan.games, before, interrupted, nodes, seconds, source.fill, store)


def _note(games: Sequence[PlayedGame], rate: float, left: Remaining | None) -> str:
    """Results so far, nodes a second, and the time left by the model of games side by side."""
    wins, losses = (sum(game.result == result for game in games) for result in ("1-0", "0-1"))
    about = f", about {format_duration(left.seconds)} left" if left is not None else ""
    draws = sum(game.z == 0 for game in games)
    return f"+{wins:,} ={draws:,} -{losses:,}, {rate:,.0f} nodes/s{about}"


class _Keeper:
    """Keeps games: training records, PGN, store."""

    def __init__(
        self, plan: SelfplayPlan, writer: PgnWriter, store: Store | None, chunks: Chunks | None, command: str
    ) -> None:
        self.games: list[PlayedGame] = []
        self._plan, self._writer, self.store, self._chunks = plan, writer, store, chunks
        self._run = None
        if store is not None:
            versions = {"valuerepair": __version__, "python": platform.python_version()}
            options = {**plan.common, "sides": plan.sides, "games": plan.games}
            self._run = store.begin_run(RunRecord(plan.run, command, options, plan.seed or 0, versions))

    def keep(self, record: GameRecord) -> None:
        """A game has ended."""
        tags = {**self._plan.tags(record.number), "Date": today()}
        if self._chunks is not None and (chunk := self._chunks.write(record)) is not None:
            tags["Chunk"] = chunk.name if chunk.exists() else _HELD_OUT
        text = game_text(record, tags)
        self._writer.write(text)
        self.note([played(WrittenGame.of_text(text))])

    def end(self, state: str) -> None:
        """The run ends."""
        if self.store is not None and self._run is not None:
            self.store.end_run(self._run, state, {"games": len(self.games), "planned": self._plan.games})

    def close(self) -> None:
        self._writer.close()

    def note(self, games: Sequence[PlayedGame]) -> None:
        """Adds games that are in the file: to those of the run, and to the store."""
        self.games += games
        if self.store is not None and self._run is not None and games:
            openings = [self._plan.openings[game.opening] for game in games]
            add_plays(
                self.store,
                self._run,
                [game.play(opening.key, opening.fen) for game, opening in zip(games, openings, strict=True)],
            )
            self.store.commit_if_due()


def _check_chunks(path: Path, games: Sequence[WrittenGame], chunks: Chunks) -> None:
    """Raises UsageError where a game of the file lacks its training records, or the folder has those of others.

    One chunk more than the file knows is what a kill leaves: a game's records come before the game.
    """
    known = set()
    for game in games:
        if game.tags.get("Chunk") == _HELD_OUT:
            continue
        chunk, end = chunks.path(game.number), played(game)
        # 0.1.0 wrote neither tag: there any game that was decided may have records.
        of_old = "Date" not in game.tags and end.z is not None and end.plies > 0
        if "Chunk" in game.tags or of_old:
            known.add(game.tags.get("Chunk", chunk.name))
            if not chunk.exists():
                raise UsageError(
                    f"{chunk} is not there, but its game, Round {game.number + 1}, is in {path}: give the folder of "
                    "its training records, or another -o FILE"
                )
        elif end.z is not None and end.plies:
            raise UsageError(
                f"{path}: Round {game.number + 1} was played without training records; leave out --training, or give "
                "another -o FILE"
            )
    folder = chunks.path(0).parent
    others = sorted(chunk.name for chunk in folder.glob("game_*.gz") if chunk.name not in known)
    if len(others) > 1:
        raise UsageError(
            f"{folder}: {others[0]} and {len(others) - 1:,} more are not of games in {path}: give the folder of its "
            "training records, or another -o FILE"
        )


def _difference(game: WrittenGame, plan: SelfplayPlan) -> str:
    """The first difference between a written game and this run, in words."""
    now = plan.tags(game.number)
    for name in ("WhiteNet", "BlackNet"):
        if game.tags.get(name) != now[name]:
            was = game.tags.get(name, "not given")
            return f"the net was {was}, now it is {now[name]}, and must not change within a run"
    for name in (*plan.common, "Seed"):
        if game.tags.get(name) != now.get(name):
            return f"its {name} is {game.tags.get(name, 'not given')!r}, now it is {now.get(name, 'not given')!r}"
    return "they were not played by vr selfplay"
