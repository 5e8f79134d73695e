"""Self-play from a book, with training records where they are wanted: one call for the command line and for Python."""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from valuerepair.chess.progress import Progress
from valuerepair.errors import UsageError
from valuerepair.mcts.params import SearchParams
from valuerepair.play.lc0_selfplay import Lc0Source, lc0_settings
from valuerepair.play.openings import read_openings
from valuerepair.play.referee import Rules
from valuerepair.play.selfplay import Chunks, Contestant, ForestSource, SelfplayEnd, SelfplayPlan, play_selfplay
from valuerepair.store.store import Store
from valuerepair.training.records import ChunkWriter, RecordFacts

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class SelfplayOptions:
    """Who plays, and how. `engine` is the built-in ``mcts``, or ``lc0``, which takes neither a second net nor kept
    trees, and chooses device and seed itself. `net`, `net2` are names or files; `params` and `rules` say how to search
    and what ends games; `repeat` games are played from each line. `jobs` games go on at once, None: full batches.
    `training` is a folder for a chunk of records of each game. Raises UsageError."""

    engine: Literal["mcts", "lc0"] = "mcts"
    net: str | None = None
    net2: str | None = None
    nodes: int = 800
    repeat: int = 1
    params: SearchParams = field(default_factory=SearchParams)
    rules: Rules = field(default_factory=Rules)
    reuse_tree: bool = False
    jobs: int | None = None
    training: str | None = None
    seed: int = 0
    device: str = "auto"
    threads: int | None = None

    def __post_init__(self) -> None:
        if self.repeat < 1:
            raise UsageError(f"--repeat {self.repeat}: must be at least 1")
        if self.rules.no_resign_share and not self.rules.resign:
            raise UsageError("--no-resign-share: nobody resigns without --resign PERCENT")
        if self.training is not None and self.nodes == 1:
            raise UsageError("--nodes 1: training records have shares of visits, which needs at least 2")
        if self.engine == "lc0" and (self.net2 or self.reuse_tree):
            raise UsageError("--engine lc0: --net2 and --reuse-tree are for --engine mcts")


def play_book(
    book: str | Path,
    output: str | Path,
    options: SelfplayOptions,
    *,
    store: str | Path | None,
    command: str,
    progress: Progress,
) -> SelfplayEnd:
    """Plays a game from each line of a book, and goes on with what an earlier call has left in `output` (PGN).

    With a `store`, made if it is not there, games are kept in it, too. Raises as `play.selfplay.play_selfplay`, and
    ValueRepairError for a book that lc0 would misread.
    """
    openings = read_openings(book, strict=True)
    games, params = len(openings) * options.repeat, options.params
    with ExitStack() as stack:
        source = _source(options, games, output)
        stack.push(source)
        seed = options.seed if options.engine == "mcts" else None
        plan = SelfplayPlan(openings, Path(book).name, source.sides, source.facts, games, options.rules, seed)
        if not (params.temperature or params.noise_epsilon or params.n_scl) and (copies := plan.copies()):
            log.info(
                f"{copies:,} of {games:,} games will be copies of others: the search has no chance in it; "
                "--temperature 0.5 makes them differ"
            )
        kept = None if store is None else stack.enter_context(Store.open(store, create=True))
        chunks = _chunks(options, source, output)
        return play_selfplay(plan, source, output, store=kept, chunks=chunks, command=command, progress=progress)


def _source(options: SelfplayOptions, games: int, output: str | Path) -> ForestSource | Lc0Source:
    params = options.params
    if options.engine == "lc0":
        settings = lc0_settings(options.net, params, options.nodes, options.jobs, options.rules)
        return Lc0Source(settings, options.training, resume=_goes_on(output))
    how = {"device": options.device, "threads": options.threads, "history_fill": params.history_fill}
    both = (options.net, options.net2) if options.net2 else (options.net,)
    who = Contestant(both, params, options.nodes, options.jobs, options.reuse_tree, how)
    return ForestSource(who, options.rules, options.seed, games)


def _chunks(options: SelfplayOptions, source: ForestSource | Lc0Source, output: str | Path) -> Chunks | None:
    """What writes the training records of the built-in MCTS, or knows those that lc0 writes."""
    if isinstance(source, Lc0Source):
        return source.records
    if options.training is None:
        return None
    facts = RecordFacts.of(source.input_format(), source.params)
    return ChunkWriter(options.training, facts, resume=_goes_on(output))


def _goes_on(output: str | Path) -> bool:
    """Whether an earlier run was here: then the folder of training records is not empty.

    A run that was killed leaves its file, be it empty: a game's records come before the game.
    """
    return os.path.isfile(output)
