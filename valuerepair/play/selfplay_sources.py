"""Who plays in self-play: the built-in MCTS with one net or two, or the real lc0."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from valuerepair.errors import UsageError
from valuerepair.mcts.forest import forest_bytes
from valuerepair.mcts.params import SearchParams
from valuerepair.nets.net import Net, open_net
from valuerepair.nets.registry import locate
from valuerepair.nets.weights import read_net_file
from valuerepair.oracles.mcts_oracle import available_memory
from valuerepair.play.forest_player import Fill, ForestPlayer, search_facts
from valuerepair.play.lc0_options import PARALLEL_GAMES, Lc0Settings, search_options
from valuerepair.play.lc0_selfplay import Lc0Chunks, play_with_lc0
from valuerepair.play.openings import Opening
from valuerepair.play.record import GameRecord
from valuerepair.play.referee import Rules
from valuerepair.play.runner import Pairing, play_games

# Of the searches that go on at once some wait for what is known already: more of them keep the batches full.
TREES_A_BATCH = 2
_SHARE_OF_MEMORY = 0.5


@dataclass(frozen=True)
class Contestant:
    """How the built-in MCTS plays: `nets` are names or files, one or one a side; `how` are options of `open_net`.

    `parallel` games at once, None for as many as fill the nets' batches. With `reuse` trees are kept between moves.
    """

    nets: tuple[str | None, ...]
    params: SearchParams
    nodes: int
    parallel: int | None = None
    reuse: bool = False
    how: Mapping[str, Any] = field(default_factory=dict)


class ForestSource:
    """Games of the built-in MCTS. A context manager: it opens the nets, and closes them."""

    def __init__(self, who: Contestant, rules: Rules, seed: int, games: int, say: Callable[[str], None]) -> None:
        """Raises UsageError and ValueRepairError, as nets and searches do."""
        if who.nodes < 1:
            raise UsageError(f"--nodes {who.nodes}: must be at least 1")
        if who.parallel is not None and who.parallel < 1:
            raise UsageError(f"--jobs {who.parallel}: must be at least 1")
        self._rules, self._seed = rules, seed
        self._stack = ExitStack()
        try:
            nets = [self._stack.enter_context(open_net(spec, **who.how, say=say)) for spec in who.nets]
            for net in nets:
                net.tune()
            self.params = replace(who.params, history_fill=nets[0].history_fill)
            self.jobs = min(games, who.parallel or _affordable(nets, who.nodes, self.params))
            self.nets = nets
            self.sides, self.facts = _identity(nets, self.params, who)
            self._players = [self._player(net, who, name, say) for net, name in zip(nets, _names(nets), strict=True)]
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _player(self, net: Net, who: Contestant, name: str, say: Callable[[str], None]) -> ForestPlayer:
        player = ForestPlayer(net, self.params, who.nodes, trees=self.jobs, name=name, reuse=who.reuse, say=say)
        self._stack.callback(player.close, cancel=True)
        return player


def _affordable(nets: Sequence[Net], nodes: int, params: SearchParams) -> int:
    """So many games at once as fill the batches, if memory allows."""
    wanted = max(TREES_A_BATCH * net.session.streams * net.batch_size for net in nets)
    there = _SHARE_OF_MEMORY * (available_memory() or 8 << 30) / len(nets)
    return max(1, min(wanted, int(there // forest_bytes(1, nodes, params))))


def _names(nets: Sequence[Net]) -> list[str]:
    names = [net.identity.name for net in nets]
    return [f"{name} ({i})" for i, name in enumerate(names, 1)] if len(set(names)) < len(names) else names


def _identity(nets: Sequence[Net], params: SearchParams, who: Contestant) -> tuple[tuple[str, str], dict[str, str]]:
    """What the sides' nets are, and what else the moves depend on: nodes, parameters, device, the search's revision."""
    engine, facts = search_facts(nets[0], params, who.nodes)
    sides = [f"{net.identity.name} sha256:{net.identity.key[:16]}" for net in nets]
    words = [f"{name}={text}" for name, text in facts.items()]
    words += ["reuse=1"] if who.reuse else []
    return (sides[0], sides[-1]), {"Engine": engine, "Search": " ".join(words)}


class Lc0Source:
    """Games of the real `lc0 selfplay`; it writes its own training records to `chunks`, where given: `records`."""

    fill = None

    def __init__(self, settings: Lc0Settings, chunks: str | None, resume: bool) -> None:
        net = read_net_file(settings.weights)
        side = f"{net.name} sha256:{net.sha256[:16]}"
        self.sides, self.jobs = (side, side), settings.parallel
        plain = Lc0Settings(settings.weights)
        names = ("minibatch", "temperature", "noise", "history_fill", "resign", "syzygy")
        words = [
            f"{name}={getattr(settings, name)}" for name in names if getattr(settings, name) != getattr(plain, name)
        ]
        words += [option for option in settings.extra if option not in search_options(SearchParams())]
        self.facts = {"Engine": "lc0", "Search": " ".join([f"visits={settings.visits}", *words])}
        self._settings, self._chunks, self._resume = settings, chunks, resume
        self.records = Lc0Chunks(chunks) if chunks is not None else None

    def games(self, coming: Iterable[Pairing], halted: Callable[[], bool]) -> Iterator[GameRecord]:
        pairings = list(coming)
        openings: list[Opening] = [pairing.opening for pairing in pairings]
        numbers = [pairing.number for pairing in pairings]
        yield from play_with_lc0(
            openings, self._settings, numbers=numbers, chunks=self._chunks, resume=self._resume, stop=halted
        )

    def __enter__(self) -> Lc0Source:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


def lc0_settings(
    net: str | None, params: SearchParams, nodes: int, parallel: int | None, rules: Rules, say: Callable[[str], None]
) -> Lc0Settings:
    """The same search for lc0. Raises UsageError for what lc0 has not: search-contempt, certainty, adjudication."""
    foreign = [name for name in ("certainty", "lookahead", "auto_extend", "n_scl") if getattr(params, name)]
    if foreign:
        raise UsageError(f"--engine lc0: it has no {foreign[0]}; leave it out, or play with --engine mcts")
    if rules.draw or rules.win or rules.no_resign_share or rules.max_plies != Rules().max_plies:
        raise UsageError("--engine lc0: it ends games its own way; of the rules only --resign can be given")
    return Lc0Settings(
        locate(net, say),
        nodes,
        parallel or PARALLEL_GAMES,
        params.minibatch_size,
        params.temperature,
        params.noise_epsilon,
        params.history_fill,
        rules.resign,
        params.syzygy or rules.syzygy,
        extra=search_options(params),
        name=f"lc0 {Path(net).name if net else 'maia-1900'}",
    )
