"""Self-play from a book, with training records if requested: one call for the command line and for Python."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from valuerepair.chess import board
from valuerepair.chess.board import parse_fens
from valuerepair.chess.positions import encode_moves
from valuerepair.chess.rows import Keys
from valuerepair.errors import UsageError, ValueRepairError, check_least, check_word
from valuerepair.files import HeldError, claimed
from valuerepair.mcts.params import SearchParams
from valuerepair.mcts.roots import play_game
from valuerepair.play.game import GameRecord
from valuerepair.play.lc0_selfplay import Lc0Source, lc0_settings
from valuerepair.play.openings import read_openings
from valuerepair.play.referee import MAX_PLIES, Rules
from valuerepair.play.selfplay import Chunks, ForestSource, SelfplayEnd, SelfplayPlan, play_selfplay
from valuerepair.progress import Progress
from valuerepair.store import parts
from valuerepair.store.parts import Split
from valuerepair.store.store import Store
from valuerepair.training.chunk_files import BrokenChunk, are_among, pack, unpack
from valuerepair.training.judged import held_out_keys
from valuerepair.training.records import ChunkWriter, RecordFacts

log = logging.getLogger(__name__)


SelfplayEngine = Literal["mcts", "lc0"]


@dataclass(frozen=True, kw_only=True)
class SelfplayOptions:
    """The players and their settings.

    `engine` is the built-in ``mcts``, or ``lc0``, which chooses device and seed itself. `net` is a name or file;
    `params` are those of the search, `rules` end games; `repeat` games are played from each line. `training` is a
    folder for a chunk of records of each game. Raises UsageError.
    """

    engine: SelfplayEngine = "mcts"
    net: str | None = None
    nodes: int = 800
    repeat: int = 1
    params: SearchParams = field(default_factory=SearchParams)
    rules: Rules = field(default_factory=Rules)
    training: str | None = None
    seed: int = 0
    device: str = "auto"
    threads: int | None = None

    @property
    def limited_rules(self) -> Rules:
        """The rules, with lc0's limit of plies unless they have one."""
        return replace(self.rules, max_plies=MAX_PLIES) if self.rules.max_plies is None else self.rules

    def __post_init__(self) -> None:
        check_word("--engine", self.engine, get_args(SelfplayEngine))
        check_least("--repeat", self.repeat)
        if self.training is not None and self.nodes == 1:
            raise UsageError("--nodes 1: training records have shares of visits, which needs at least 2")


def play_book(
    book: str | Path,
    output: str | Path,
    options: SelfplayOptions,
    *,
    store: str | Path | None,
    command: str,
    progress: Progress,
) -> SelfplayEnd:
    """Plays a game from each line of a book, and resumes an earlier call's run in `output` (PGN).

    A `store`, created if missing, also gets the games; if it has a split, training records of a game end before the
    first position that is held out. Raises as `play.selfplay.play_selfplay`, UsageError for a folder of training
    records with the name of `output`, and ValueRepairError for a book that lc0 would misread.
    """
    if options.training is not None and os.path.realpath(options.training) == os.path.realpath(output):
        raise UsageError(f"--training {options.training}: is the file of games too; give a folder of another name")
    openings = read_openings(book, strict=True)
    games, params = len(openings) * options.repeat, options.params
    with ExitStack() as stack:
        source = _source(options, games, output)
        stack.push(source)
        if options.training is not None:
            stack.enter_context(_locked_folder(options.training))
            if params.q_scale != 1:
                log.warning(
                    f"warning: every Q of the training records will be {params.q_scale:g} times the net's, by q_scale"
                )
        seed = options.seed if options.engine == "mcts" else None
        opened = None if store is None else stack.enter_context(Store.open(store, create=True))
        split = None if opened is None or options.training is None else parts.split_of(opened)
        facts = source.facts if split is None else {**source.facts, "Split": split.digest}
        plan = SelfplayPlan(openings, Path(book).name, source.side, facts, games, options.limited_rules, seed)
        if not (params.temperature or params.noise_epsilon or params.n_scl) and (copies := plan.copies()):
            log.info(
                f"{copies:,} of {games:,} games will be copies of others: the search is deterministic; "
                "--temperature 0.5 makes them differ"
            )
        held_out = None if split is None else HeldOutCut(split, held_out_keys(opened))
        chunks = _chunks(options, source, output, held_out)
        end = play_selfplay(plan, source, output, store=opened, chunks=chunks, command=command, progress=progress)
        if held_out is not None and held_out.records:
            left_out, count = held_out.left_out, held_out.records
            log.info(f"held out: {left_out:,} of {count:,} training records of the games played now were left out")
        return end


@contextmanager
def _locked_folder(folder: str | Path) -> Iterator[None]:
    """Makes and locks a folder of training records: another run would write files of the same names.

    Raises UsageError for a file, ValueRepairError if another run has the folder, or if nothing can be written there.
    """
    with ExitStack() as stack:
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            stack.enter_context(claimed(Path(folder, ".lock")))
        except FileExistsError:
            raise UsageError(f"{folder}: is a file; training records need a folder") from None
        except HeldError:
            raise ValueRepairError(
                f"--training {folder}: another vr writes there; wait until it ends, or give another folder"
            ) from None
        except OSError as error:
            raise ValueRepairError(f"{folder}: {error.strerror}: training records cannot be written there") from None
        yield


class HeldOutCut:
    """Finds the first position of a game that is held out: one of a held-out family of the `split`, or with its board
    key in `keys`. `left_out` counts the training records that were cut off from there on, `records` those of all games.
    """

    def __init__(self, split: Split, keys: Keys) -> None:
        self._split, self._held = split, keys
        self.records = self.left_out = 0

    def cut(self, game: GameRecord, chunk: Path) -> None:
        """Cuts the chunk that lc0 wrote for a game; removes it if all of it is held out. Raises ValueRepairError."""
        try:
            records = unpack(chunk.read_bytes())
            free = self.free(game, len(records))
            if not free:
                chunk.unlink()
            elif free < len(records):
                chunk.write_bytes(pack(records[:free]))
        except (BrokenChunk, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise ValueRepairError(f"{chunk}: {reason}; what is held out cannot be cut from it") from None

    def free(self, game: GameRecord, count: int) -> int:
        """The number of a game's `count` records before the first held-out position.

        Raises ValueRepairError if a move has no record.
        """
        plies = len(game.book) + np.arange(len(game.thoughts))
        searched = np.array([thought.search is not None for thought in game.thoughts])
        record_plies = plies[searched] if searched.any() else plies  # lc0 writes a record a move, but no search
        if len(record_plies) != count:
            raise ValueRepairError(f"game {game.number}: {count} records of {len(record_plies)} moves")
        boards = play_game(parse_fens([game.start_fen]), encode_moves(game.moves))[:-1]
        held = self._split.of_held_families(boards) | are_among(board.keys(boards), self._held)
        held[: record_plies[0]] = False  # positions of the book, which have no records
        free = int(np.searchsorted(record_plies, np.argmax(held))) if held.any() else count
        self.records += count
        self.left_out += count - free
        return free


def _source(options: SelfplayOptions, games: int, output: str | Path) -> ForestSource | Lc0Source:
    params = options.params
    if options.engine == "lc0":
        settings = lc0_settings(options.net, params, options.nodes, options.limited_rules)
        return Lc0Source(settings, options.training, resume=_has_begun(output))
    return ForestSource(
        options.net,
        params,
        options.nodes,
        games=games,
        rules=options.limited_rules,
        seed=options.seed,
        device=options.device,
        threads=options.threads,
    )


def _chunks(
    options: SelfplayOptions, source: ForestSource | Lc0Source, output: str | Path, held_out: HeldOutCut | None
) -> Chunks | None:
    """The writer of training records for the built-in MCTS, or the object that handles those that lc0 writes."""
    if isinstance(source, Lc0Source):
        if source.records is not None and held_out is not None:
            source.records.cut = held_out.cut
        return source.records
    if options.training is None:
        return None
    facts = RecordFacts.of(source.net.identity.input_format, source.params)
    resume = _has_begun(output)
    if held_out is None:
        return ChunkWriter(options.training, facts, resume=resume)
    return ChunkWriter(options.training, facts, resume=resume, free=held_out.free)


def _has_begun(output: str | Path) -> bool:
    """Whether an earlier run has begun: then the folder of training records may not be empty.

    A killed run leaves its file, perhaps an empty one: a game's records are written before the game.
    """
    return os.path.isfile(output)
