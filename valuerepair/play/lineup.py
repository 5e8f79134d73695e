"""The sides of a match: from their text to players, with names, limits and identities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from valuerepair.engines.kinds import KINDS, OWN_SEARCH, UCI
from valuerepair.engines.pool import search_seconds
from valuerepair.engines.spec import EngineSpec, is_path
from valuerepair.errors import UsageError, check_least, settings_of
from valuerepair.mcts.params import SearchParams
from valuerepair.nets.devices import usable_cores
from valuerepair.nets.net import Net
from valuerepair.nets.registry import DEFAULT_NET
from valuerepair.play.game import Player
from valuerepair.play.uci_player import UciPlayer

_MOST_ON_CPU = 128  # games at once
EXAMPLE = "for example net=maia-1900,nodes=800,n_scl=5 or stockfish:nodes=1000 or /path/engine,option.Hash=16"
_DEFAULT_OPTIONS = {"Threads": "1", "Hash": "16", "UCI_ShowWDL": "true"}


@dataclass(frozen=True)
class Seat:
    """A player and what its moves depend on, in two lines: two matches with the same lines have the same side.

    `q_scale` is that of the built-in search, None for an engine.
    """

    player: Player
    identity: str
    q_scale: float | None = None


class Lineup:
    """The two players of a match and how many games are played at once; a context manager that closes them."""

    def __init__(
        self,
        sides: Sequence[EngineSpec],
        nodes: int | None,
        jobs: int | None,
        games: int,
        **net_options: Any,
    ) -> None:
        """Opens both players; `nodes` are per move, for a side without a limit of its own.

        By default `jobs` is one game per core, with two nets as many as fill their batches.
        `net_options` are those of `open_net`, for the built-in search. Raises UsageError and ValueRepairError.
        """
        check_least("--jobs", jobs)
        self._net_options = net_options
        self._nets: dict[str, Net] = {}
        self._players: list[Player] = []
        self.abandons_searches = False  # whether `close` abandons searches in flight
        for side in sides:
            if not side.kind.built_in:
                side.kind.program(side)  # checked first: the side may not be an engine at all
        limits = [limits_of(side, nodes) for side in sides]
        try:
            # By nodes the built-in search plays in this process, many games in a batch; by time as ``vr uci``.
            own = [side.kind.built_in and set(limit) == {"nodes"} for side, limit in zip(sides, limits, strict=True)]
            nets = [self._net(side) if is_own else None for side, is_own in zip(sides, own, strict=True)]
            self.jobs = min(jobs, games) if jobs else self._default_jobs(sides, nets, limits, games)
            names = [side.name or (net.identity.name if net else "") for side, net in zip(sides, nets, strict=True)]
            names = distinct(names, sides, limits)
            self.seats: tuple[Seat, ...] = tuple(
                self._seat(side, limit, net, name)
                for side, limit, net, name in zip(sides, limits, nets, names, strict=True)
            )
            names = distinct([seat.player.name for seat in self.seats], sides, limits)
            for seat, name in zip(self.seats, names, strict=True):
                if isinstance(seat.player, UciPlayer):
                    seat.player.name = name
        except BaseException:
            self.close(cancel=True)
            raise

    def close(self, *, cancel: bool = False) -> None:
        """Ends engines and nets; with `cancel` abandons their searches."""
        for player in self._players:
            player.close(cancel=cancel)
        for net in self._nets.values():
            net.close()
        self._players.clear()
        self._nets.clear()

    def lines(self) -> list[str]:
        """The two players, and the number of games at once."""
        a, b = (seat.identity for seat in self.seats)
        return [f"A: {a}", f"B: {b}", "1 game at a time" if self.jobs == 1 else f"{self.jobs} games at once"]

    def __enter__(self) -> Lineup:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(cancel=self.abandons_searches or kind is not None)

    def _net(self, side: EngineSpec) -> Net:
        """The side's net; sides with the same file share one."""
        from valuerepair.nets.net import open_net
        from valuerepair.nets.registry import locate
        from valuerepair.nets.weights import read_net_file

        key = read_net_file(locate(side.weights)).sha256
        if key not in self._nets:
            self._nets[key] = open_net(side.weights, **self._net_options)
        return self._nets[key]

    def _default_jobs(
        self,
        sides: Sequence[EngineSpec],
        nets: Sequence[Net | None],
        limits: Sequence[Mapping[str, int]],
        games: int,
    ) -> int:
        searches = [
            (net, limit["nodes"], params_of(side))
            for side, net, limit in zip(sides, nets, limits, strict=True)
            if net is not None
        ]
        if len(searches) < len(sides):
            threads = [v for side in sides for k, v in side.options.items() if k.lower() == "threads"]
            most_threads = max([int(v) for v in threads if v.isdecimal()] or [1])
            return max(1, min(games, usable_cores() // max(1, most_threads)))
        from valuerepair.play.forest_player import games_at_once

        # One of a game's two players waits while the other thinks. On the CPU, more games at once are not faster.
        most_games = _MOST_ON_CPU if all(net.on_cpu for net, _, _ in searches) else games
        return max(1, min(games, games_at_once(searches), most_games))

    def _seat(self, side: EngineSpec, limits: Mapping[str, int], net: Net | None, name: str) -> Seat:
        if net is None:
            return self._engine(side, limits)
        from valuerepair.play.forest_player import ForestPlayer, search_facts

        params = params_of(side)
        player = ForestPlayer(net, params, limits["nodes"], trees=self.jobs, name=name)
        self._players.append(player)
        facts = search_facts(net, params, limits["nodes"])[1]
        identity = f"{net.identity.name} {_words(facts)} sha256:{net.identity.sha256[:12]}"
        return Seat(player, identity, params.q_scale)

    def _engine(self, side: EngineSpec, limits: Mapping[str, int]) -> Seat:
        kind = side.kind
        file = kind.net(side, DEFAULT_NET)
        setup = kind.launch(side, _DEFAULT_OPTIONS, file)
        net = "" if file is None else file.name
        facts = [*kind.facts(side, setup), *([] if file is None else [f"net sha256:{file.sha256[:12]}"])]
        name, seconds = side.name or (net if kind.built_in else None), search_seconds(limits, side.timeout)
        player = UciPlayer(setup, limits, seconds, name=name)
        self._players.append(player)
        options = {name: value for name, value in player.settings.items() if name != "WeightsFile"}
        words = [player.engine_name, net, _words({**limits, **options}), *side.arguments, *facts]
        identity = " ".join(word for word in words if word)
        return Seat(player, identity)


def parse_side(text: str) -> EngineSpec:
    """Reads a side of a match.

    ``net=NET,nodes=N,...`` with any parameter of the search (`contempt` is `n_scl`) is the built-in search;
    ``stockfish``, ``lc0``, ``mcts`` and ``uci`` are as in ``--deep``, ``KIND:SETTING,...``; a text that begins with a
    path or a name is a UCI engine. Raises UsageError with the error and the choices.
    """
    where, items = f"side {text!r}: ", settings_of(text.strip())
    if not items or not items[0]:
        raise UsageError(f"{where}is empty; {EXAMPLE}")
    word, colon, first = items[0].partition(":")
    kind = KINDS.get(word)
    if kind is not None and kind.searches and (colon or not kind.first_word):
        items = [first, *items[1:]] if first else items[1:]
    elif "=" in items[0] and not is_path(items[0]) and ":" not in items[0].partition("=")[0]:
        kind = OWN_SEARCH
    else:
        kind = UCI
    side = kind.parse(items, where, EXAMPLE)
    if side.trees is not None:
        raise UsageError(f"{where}trees= is not allowed in a match: --jobs says how many games are played at once")
    return side


def params_of(side: EngineSpec) -> SearchParams:
    """Parameters of the built-in search. Raises UsageError."""
    return SearchParams().with_settings(side.options, side.where)


def limits_of(side: EngineSpec, nodes: int | None) -> dict[str, int]:
    """The limits of a side's search: its own, else the match's nodes per move. Raises UsageError without any."""
    if side.limits:
        return dict(side.limits)
    if nodes is None:
        raise UsageError(f"{side.where}has no limit; give --nodes, or the side's own nodes= or movetime=")
    return {"nodes": nodes}


def distinct(names: Sequence[str], sides: Sequence[EngineSpec], limits: Sequence[Mapping[str, int]]) -> list[str]:
    """The names, made different by adding the side's settings or, if these are equal, a number.

    Names of which one is empty, because it is not known yet, stay as they are.
    """
    if len(set(names)) == len(names) or not all(names):
        return list(names)
    longer = [
        name if side.name else f"{name} {_words({**limit, **side.options})}".strip()
        for name, side, limit in zip(names, sides, limits, strict=True)
    ]
    if len(set(longer)) == len(longer):
        return longer
    return [name if i == 0 else f"{name} ({i + 1})" for i, name in enumerate(names)]


def _words(options: Mapping[str, object]) -> str:
    return ",".join(f"{name}={value}" for name, value in options.items())
