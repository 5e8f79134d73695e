"""The public Python interface, behind ``import valuerepair``: a store to read, nets to ask, books to make."""

from __future__ import annotations

import logging
import math
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from valuerepair.archives.options import SampleOptions
from valuerepair.chess.origins import Origin
from valuerepair.chess.positions import Position, PositionBatch, decode_move
from valuerepair.errors import UsageError
from valuerepair.question import Question
from valuerepair.store import plays
from valuerepair.store.store import Store

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from valuerepair.books.options import BookOptions
    from valuerepair.books.suite import MeasuredSuite, WrittenSuite
    from valuerepair.books.write import Manifest
    from valuerepair.judge.compare import Remeasured
    from valuerepair.judge.split import Split
    from valuerepair.mcts.params import SearchParams
    from valuerepair.nets.net import Net
    from valuerepair.oracles.searching import Searched
    from valuerepair.pipeline.page import RepairOutcome
    from valuerepair.play.crosstable import Crosstable
    from valuerepair.play.match import MatchEnd, MatchOptions
    from valuerepair.play.match_length import MatchLength
    from valuerepair.play.selfplay import SelfplayEnd
    from valuerepair.report.page import WrittenPage
    from valuerepair.runs.confirmed import Confirmed
    from valuerepair.runs.expansion import ExpandSummary
    from valuerepair.runs.regret import RegretOptions
    from valuerepair.runs.rejudge import RejudgeOptions
    from valuerepair.runs.summary import MineSummary
    from valuerepair.training.chunk_output import ChunkForm
    from valuerepair.training.game_chunks import GameChunkOptions
    from valuerepair.training.options import TrainOptions
    from valuerepair.training.rescore import Fields, Rescored
    from valuerepair.training.selfplay import SelfplayOptions
    from valuerepair.training.store_chunks import ChunkOptions

log = logging.getLogger(__name__)

DEFAULT_NODES = 800
# One position: text as `vr eval` takes it, a position, or a candidate.
One: TypeAlias = "str | Position | Candidate"
# One or many, or a frame of a store with its texts.
Positions: TypeAlias = "One | Iterable[One] | pd.DataFrame"


def evaluate(positions: Positions, net: str | Net | None = None) -> pd.DataFrame:
    """What a net thinks of positions before it searches (one node): a row each, in their order.

    `positions`: one or many; each a text (a FEN, an EPD line, ``startpos moves e2e4``), a `Position` or a `Candidate`;
    or a frame of `MinedStore.frame`, whose index the result has, so that it can be joined. What is known of the history
    goes into the net. `net` is a name or a file (.pb.gz, .pb, .onnx), None the default net, pulled once; or an open
    `Net`, which saves opening it again and is not closed.

    Columns, from the side to move: fen; q in [-1, 1]; w, d, l (probabilities, NaN of nets with a scalar head); best,
    the move of the highest prior (UCI, None where the game is over), best_p its prior, entropy of the policy (nats),
    moves_left (plies, NaN of nets that do not say). attrs: net {name, sha256, history_fill}.

    Raises UsageError for a text that is no position, ValueRepairError for what is no net.
    """
    import pandas as pd

    rows = list(read_positions(positions))
    with _opened(net) as used:
        found = used.evaluate(PositionBatch.from_positions(rows))
        about = {"name": used.identity.name, "sha256": used.identity.key, "history_fill": used.history_fill}
    best = [decode_move(move) if move else None for move in found.best_move.tolist()]
    table: pd.DataFrame = pd.DataFrame(
        {
            "fen": [row.fen for row in rows],
            "q": found.q,
            **{name: found.wdl[:, i] for i, name in enumerate("wdl")},
            "best": pd.Series(best, dtype=object),
            **{name: getattr(found, name) for name in ("best_p", "entropy", "moves_left")},
        }
    )
    if isinstance(positions, pd.DataFrame):
        table.index = positions.index
    table.attrs["net"] = about
    return table


def search(
    positions: Positions,
    nodes: int | None = None,
    net: str | Net | None = None,
    params: SearchParams | None = None,
    *,
    seconds: float | None = None,
    tree_nodes: int = 0,
) -> list[Searched]:
    """Searches positions by the built-in MCTS: a `Searched` each, in their order.

    `positions` and `net` are as in `evaluate`. Each search ends at `nodes` visits of its root (800 where neither limit
    is given) or after `seconds`. `params` are lc0's parameters and those of this project, as in
    ``SearchParams(certainty=True, cpuct=2.5)``. Many positions without `seconds` grow at once, in common batches; with
    `tree_nodes` one after the other, and `tree` keeps so many nodes of each, the most visited ones (`write_tree`).

    Of each, `result` is a `SearchResult` (q, best_move, moves with visits and priors, ...) with values from the side to
    move (`q` of the best move, ±1 where it is proven to win or lose; `root_q` the mean over all visits), or None where
    `reason` says why there was nothing to search (the game is over). Raises UsageError for a wrong position, limit or
    parameter, ValueRepairError for what is no net.
    """
    from valuerepair.mcts.params import SearchParams
    from valuerepair.oracles.searching import search_positions

    chosen = params or SearchParams()
    chosen.check()
    if nodes is not None and nodes < 1:
        raise UsageError(f"nodes={nodes}: must be at least 1")
    if seconds is not None and not seconds > 0:
        raise UsageError(f"seconds={seconds:g}: must be above 0")
    limit = DEFAULT_NODES if nodes is None and seconds is None else nodes
    rows = list(read_positions(positions))
    with _opened(net) as used:
        return list(search_positions(used, chosen, rows, nodes=limit, seconds=seconds, tree_nodes=tree_nodes))


def read_positions(positions: Positions) -> Iterator[Position]:
    """The positions that one or many texts, positions or candidates mean, or the rows of a store's frame.

    Raises UsageError for a text that is no position and for a frame without its texts.
    """
    import pandas as pd

    if isinstance(positions, str | Position | Candidate):
        yield _position(positions)
    elif isinstance(positions, pd.DataFrame):
        yield from _of_frame(positions)
    else:
        yield from map(_position, positions)


def _position(one: One) -> Position:
    if isinstance(one, Position):
        return one
    if isinstance(one, Candidate):
        return one.position
    if isinstance(one, str):
        from valuerepair.nets.position_text import read_argument

        return read_argument(one, ())
    raise UsageError(f"{one!r}: give a FEN, a Position or a Candidate")


def _of_frame(frame: pd.DataFrame) -> Iterator[Position]:
    columns = ("fen", "start_fen", "moves", "ply", "history_known")
    if absent := [name for name in columns if name not in frame.columns]:
        raise UsageError(f"this frame has no column {absent[0]!r}; take one of store.frame() with its texts")
    for fen, start_fen, moves, ply, known in frame[list(columns)].itertuples(index=False):
        yield Position(fen, start_fen, tuple(moves.split()), int(ply), history_known=bool(known))


@contextmanager
def _opened(net: str | Net | None) -> Iterator[Net]:
    """The net that is meant; closed afterwards if it was opened here."""
    from valuerepair.nets.net import Net, open_net

    if isinstance(net, Net):
        yield net
        return
    with open_net(net) as used:
        yield used


Path: TypeAlias = "str | os.PathLike[str]"
# A store that is open, or the path of one.
Stored: TypeAlias = "Store | Path"


def mine(
    archives: Path | Iterable[Path],
    store: Path = "valuerepair.db",
    sample: SampleOptions | None = None,
    *,
    net: str | None = None,
    deep: str | None = None,
    question: Question | None = None,
    screen: str = "auto",
    recall: float = 0.98,
    audit: float = 0.02,
    limit: int | None = None,
    workers: int | None = None,
    quiet: bool = True,
) -> MineSummary:
    """Scores positions of archives by a net at one node and by a deep search, and keeps all in `store`: `vr mine`.

    `archives` are files or folders; `sample` says which positions, None: one of each game. `net` is a name or file,
    `deep` a deep search as ``stockfish:nodes=100000``, None what this machine has. `screen` (``auto``, ``off``, nodes
    of rungs), `recall` and `audit` are those of `vr mine`; `question`: what counts as a candidate; its net and oracle
    are not looked at. `limit`: at most so many deep searches this time. `quiet`: no progress on standard error.

    The store is made if it is not there; the same call goes on with what an interrupted one has left. An interruption
    (Ctrl-C) ends it as a `KeyboardInterrupt`, with everything scored so far kept. Returns the `MineSummary`, whose
    `lines()` are what `vr mine` says. Raises ValueRepairError and UsageError.
    """
    from valuerepair.archives.open import total_bytes
    from valuerepair.chess.progress import Progress, remarks_to
    from valuerepair.runs.evaluators import open_run
    from valuerepair.runs.options import MineOptions
    from valuerepair.screening.model import parse_screen

    paths = _paths(archives)
    options = MineOptions(
        question=question or Question(),
        sample=sample or SampleOptions(),
        limit=limit,
        screen=parse_screen(screen, recall, audit),
        command=f"{shlex.join(['vr', 'mine', *paths])} (from Python)",
    )
    total_bytes(paths)  # raises for a missing file, before anything is made or loaded
    with (
        Store.open(store, create=True) as opened,
        Progress("mining", unit="positions", quiet=quiet, own_eta=True) as progress,
        nullcontext() if quiet else remarks_to(progress.say),
        open_run(paths, deep, net, workers) as run,
    ):
        summary = run.run(paths, run.fitting(options), opened, progress)
    if summary.state == "interrupted":
        raise KeyboardInterrupt
    return summary


def confirm(
    store: Path,
    question: Question | None = None,
    *,
    deep: str | None = None,
    nodes: int | None = None,
    times: float | None = None,
    limit: int | None = None,
    retry_failed: bool = False,
    workers: int | None = None,
    show: int = 5,
    quiet: bool = True,
) -> Confirmed:
    """Looks at a store's candidates again by a deeper search, and says who was right: `vr confirm`.

    How deep the second look is: `nodes`, or `times` those of the first one (10 where neither is given), or by another
    search, `deep`. `question.net` may be the net's file, for searches with it. At most `limit` candidates are looked at
    this time; `retry_failed` searches again what an engine failed on. `show` of the worst cases of each verdict are in
    the report. `quiet`: no progress on standard error.

    The same call goes on with what an interrupted one has left. An interruption (Ctrl-C) ends it as a
    `KeyboardInterrupt`, with every second look kept. Returns a `Confirmed`: `summary` of this call, `verdicts` (rates
    with intervals), the whole `report`; its `lines()` are what `vr confirm` says. Raises ValueRepairError where there
    is no candidate, and UsageError.
    """
    from valuerepair.chess.progress import Progress, remarks_to
    from valuerepair.runs.confirm import ConfirmOptions, confirm_candidates
    from valuerepair.runs.second_oracle import Depth

    path, depth = os.fspath(store), Depth(deep, nodes, times)
    options = ConfirmOptions(limit, retry_failed, f"{shlex.join(['vr', 'confirm', '--db', path])} (from Python)")
    with (
        Store.open(path, write=True) as opened,
        Progress("confirming", unit="searches", quiet=quiet) as progress,
        nullcontext() if quiet else remarks_to(progress.say),
    ):
        asked = question or Question()
        confirmed = confirm_candidates(opened, asked, depth, options, workers=workers, show=show, progress=progress)
    if confirmed.summary.state == "interrupted":
        raise KeyboardInterrupt
    return confirmed


def expand(
    store: Path,
    question: Question | None = None,
    *,
    by: str = "line,parents,children,game",
    rounds: int = 2,
    nodes: int | None = None,
    positions: int | None = None,
    audit: float = 0.05,
    deep: str | None = None,
    workers: int | None = None,
    seed: int = 0,
    split: Split | None = None,
    quiet: bool = True,
) -> ExpandSummary:
    """Goes out from a store's candidates to what lies around them, and keeps what it finds: `vr expand`.

    `question`: whose candidates, and what counts as one. `by` are the steps, `rounds` how many of them; `nodes` or
    `positions` end it, in all. `audit` is the share of inferred candidates that is searched, 1 for all. `deep` says
    where the engine is, if the store does not know. With a `split` it goes out from candidates of its part ``train``
    alone. The same call goes on with what an interrupted one has left. An interruption (Ctrl-C) ends it as a
    `KeyboardInterrupt`, with everything found so far kept. Returns the `ExpandSummary`, whose `lines()` are what
    `vr expand` says. Raises ValueRepairError and UsageError.
    """
    from valuerepair.chess.progress import Progress, remarks_to
    from valuerepair.runs.expand import ExpandOptions
    from valuerepair.runs.expand_store import open_expansion
    from valuerepair.runs.neighbourhood import parse_steps

    path, asked = os.fspath(store), question or Question()
    options = ExpandOptions(
        steps=parse_steps(by),
        rounds=rounds,
        nodes=nodes,
        positions=positions,
        audit=audit,
        seed=seed,
        split=split,
        command=f"{shlex.join(['vr', 'expand', '--db', path])} (from Python)",
    )
    with (
        Store.open(path, write=True) as opened,
        Progress("expanding", unit="positions", quiet=quiet, own_eta=True) as progress,
        nullcontext() if quiet else remarks_to(progress.say),
        open_expansion(opened, asked, deep=deep, workers=workers) as work,
    ):
        summary = work(options, progress)
    if summary.state == "interrupted":
        raise KeyboardInterrupt
    return summary


def remeasure(
    store: Path,
    nets: Sequence[str],
    question: Question | None = None,
    *,
    split: Split | None = None,
    part: str = "held-out",
    cut: bool = False,
    regret: RegretOptions | None = None,
    rejudge: RejudgeOptions | None = None,
    quiet: bool = True,
) -> Remeasured:
    """The same positions under several nets, each compared with the first in pairs: `vr remeasure`.

    `nets` are two or more files or names. Values and policies that the store lacks are computed and kept, where a net's
    file is known; only then is the store written to. `question.oracle` is whose scores count, None the one with most;
    its net is not looked at. The result has the rates (`nets`), the comparisons with intervals (`comparisons`) and the
    rows (`scores`). Judge by all positions: the first net's own candidates were chosen for being its worst errors, and
    any other net looks better on them. `recalibrated` of a comparison is what remains once each net's Q went through a
    curve of its own. With a `split` the positions are those that it holds out, or one `part` of them: ``games``,
    ``families``, ``archives``. With `cut` (``--all``) what screening cut is among them, by the value of its last rung,
    and each position counts for one. `by_kind` and `judge` of a comparison say of each kind of position whether the net
    is the better judge. With `regret`, as in ``RegretOptions(nodes=100)``, both nets also search, and `regret` of the
    result says which chooses worse moves. With `rejudge`, as in ``RejudgeOptions("stockfish:nodes=1000000")``, a deeper
    oracle judges positions again, and `rejudged` has the comparison by it. Raises UsageError for words that mean no
    net, ValueRepairError where there is nothing to compare.
    """
    from valuerepair.judge.compare import compare, complete_policies
    from valuerepair.judge.compared_nets import find_nets, find_oracle, measure_missing
    from valuerepair.judge.split import HeldPart

    path, question = os.fspath(store), question or Question()
    command = f"{shlex.join(['vr', 'remeasure', *(f'--net={net}' for net in nets)])} (from Python)"
    with Store.open(path) as opened:
        held = None if split is None else HeldPart.of(opened, split, part)
        which = find_oracle(opened, question.oracle, nets, held, cut)
        asked = find_nets(opened, nets, which)
    measure_missing(path, asked, which, command=command, quiet=quiet)
    with Store.open(path) as opened:
        asked = find_nets(opened, nets, which)
    complete_policies(path, asked, which, question, quiet=quiet)
    with Store.open(path) as opened:
        found = compare(opened, asked, which, question)
    if regret is not None:
        from valuerepair.runs.regret import measure_regret

        found = measure_regret(path, asked, which, found, regret, command=command, quiet=quiet)
    if rejudge is not None:
        from valuerepair.runs import rejudge as deeper

        found = deeper.rejudge(path, which, found, rejudge, command=command, quiet=quiet)
    return found


def remeasure_suite(
    suite: Path,
    nets: str | Sequence[str],
    *,
    threshold: float | None = None,
    alpha: float | None = None,
) -> MeasuredSuite:
    """Which blind spots of a suite (`write_suite`) other nets share: `vr remeasure SUITE`.

    `suite` is an EPD file with values (ce, dm, bm #N), `nets` are files or names. `threshold` and `alpha` are those
    that the suite names, unless given. A blind spot is shared where the net's Q is as wrong, in the same direction.

    Returns a `MeasuredSuite`: `shares`, a rate with its interval by games for each net; `rows`, a frame of all
    positions, with `q_N` and `shared_N` of each net from 1; `lines()` and `as_dict()` are what `vr remeasure` says.
    Raises UsageError for what is no net or file, ValueRepairError for a file without values.
    """
    from valuerepair.books.suite import measure_suite

    given = [nets] if isinstance(nets, str) else list(nets)
    return measure_suite(os.fspath(suite), given, threshold=threshold, alpha=alpha)


def train(
    net: str,
    output: Path,
    chunks: Path | Iterable[Path] = (),
    store: Path | None = None,
    question: Question | None = None,
    options: TrainOptions | None = None,
    *,
    split: Split | None = None,
    quiet: bool = True,
) -> pd.DataFrame:
    """Trains a net (.pb.gz) on training chunks, on a store, or on both, and writes the new one to `output`: `vr train`.

    `chunks` are folders and tars, `store` a store that has values of this net; `question` says which of its positions
    are candidates (with its alpha None, by a stored fit to the slope or to results, else by 170), `options` how to
    train, as in ``TrainOptions(steps=500, only="value")``, `split` what it never sees of the store. The same call goes
    on with what an interrupted one has left. `quiet`: no progress on standard error.

    Returns the curve: a row each time the net was judged, the first of the old net: `step`, `lr`, `train_loss` (mean
    since the row before), and of games held out `loss`, `value`, `policy`, `moves_left`, `policy_kl`, `top_1`,
    `judge_move`, `mean_dq`, `rate`, `rate_calibrated`, `newly_wrong`. attrs: net, options, games, `amplitude`
    (`lambda`, and `measures` of what was written), and `written`: the step whose net was written, and by how much (`q`,
    `p`) the file is off the trained parameters. Raises ValueRepairError and UsageError.
    """
    from valuerepair.training.train import train

    paths = [] if chunks == () else _paths(chunks)
    where = os.fspath(store) if store is not None else None
    return train(net, output, paths, where, question, options, split=split, quiet=quiet).curve


def write_chunks(
    store: Stored,
    folder: Path,
    question: Question | None = None,
    options: ChunkOptions | None = None,
    *,
    net: str | None = None,
    split: Split | None = None,
    form: ChunkForm = "tar",
    device: str = "auto",
    threads: int | None = None,
    quiet: bool = True,
) -> dict[str, Any]:
    """Writes a store's judged positions as lc0's training chunks, one record each: `vr export --format chunks`.

    The positions are those that `train` learns from, by the same alpha, and their value is the judge's. `question` says
    which of them are candidates, `options` (`ChunkOptions`) which are drawn and what their records say. `net` is the
    file of the question's net, whose policy is needed (None: where the store knows it to be). With a `split` positions
    are of its part to train on, or of `options.part`. `form` is ``tar`` or ``files``; `folder` must be new, or what an
    interrupted call has left, which is gone on with. `quiet`: no progress on standard error.

    Returns what manifest.json in the folder says. Raises UsageError and ValueRepairError.
    """
    from valuerepair.chess.progress import Progress
    from valuerepair.judge.labelled import open_stored
    from valuerepair.training.store_chunks import write_chunks

    asked = question or Question()
    with _open(store) as opened:
        asked, said = opened.for_training(asked)
        which = opened.frame(asked, text=False, only=("position_id",)).attrs["net"]
        with (
            open_stored(opened, which, net, device=device, threads=threads) as used,
            Progress("writing", unit="chunks", quiet=quiet) as progress,
        ):
            for line in said:
                log.info(line)
            return write_chunks(opened, folder, used, asked, options, split=split, form=form, progress=progress)


def rescore(
    chunks: Path | Iterable[Path],
    store: Stored,
    out: Path,
    question: Question | None = None,
    *,
    fields: Fields = "q",
    candidates_only: bool = False,
    split: Split | None = None,
    quiet: bool = True,
) -> Rescored:
    """Puts the judge's values into training chunks that exist: `vr rescore`.

    `chunks` are folders and tars of lc0's training chunks; `out` is a new folder, which gets all of them under their
    names. Records of positions that the store has judged get the judge's value in `fields`: ``q`` (best_*, root_*, and
    played_* moved with them), ``result`` (result_*) or ``both``; all others stay to the byte. `question` says whose
    values, by the alpha that `train` learns by; with `candidates_only` its candidates alone. With a `split` only
    positions of its part to train on give their values. Returns the `Rescored`, whose `lines()` are what `vr rescore`
    says. Raises UsageError and ValueRepairError.
    """
    from valuerepair.training.rescore import rescore

    with _open(store) as opened:
        return rescore(
            _paths(chunks),
            opened,
            os.fspath(out),
            question,
            fields=fields,
            candidates_only=candidates_only,
            split=split,
            quiet=quiet,
        )


def write_game_chunks(
    archives: Path | Iterable[Path],
    folder: Path,
    sample: SampleOptions | None = None,
    options: GameChunkOptions | None = None,
    *,
    net: str | None = None,
    store: Stored | None = None,
    question: Question | None = None,
    split: Split | None = None,
    form: ChunkForm = "tar",
    device: str = "auto",
    threads: int | None = None,
    quiet: bool = True,
) -> dict[str, Any]:
    """Writes games of archives as training chunks, one a game, in order: `vr chunks`.

    `archives` are files or folders; `sample` says which games (its filters by headers, its share and seed), `options`
    what the records say, as in ``GameChunkOptions(policy="judge", policy_share=0.5)``. `net` gives the input format,
    and the policy where the options ask for it; what the judge of the `store` says of a position (by `question`) goes
    before the evaluation that the game holds. Games that the `split` holds out are left out. `form`: ``tar``, or
    ``files`` for a file a game. `quiet`: no progress on standard error.

    Returns what manifest.json in the folder says. The same call goes on with what an interrupted one has left. An
    interruption (Ctrl-C) ends it as a `KeyboardInterrupt`; complete tars stay. Raises ValueRepairError and UsageError.
    """
    from valuerepair.chess.progress import Progress
    from valuerepair.training.game_chunks import write_game_chunks

    with (
        nullcontext() if store is None else _open(store) as opened,
        Progress("chunks", None, "bytes", quiet=quiet) as progress,
    ):
        written = write_game_chunks(
            _paths(archives),
            folder,
            sample,
            options,
            net=net,
            store=opened,
            question=question,
            split=split,
            form=form,
            device=device,
            threads=threads,
            progress=progress,
        )
    if written.manifest is None:
        raise KeyboardInterrupt
    return written.manifest


def repair(
    archives: Path | Iterable[Path] = (),
    net: str | None = None,
    output: Path = "repair",
    *,
    budget: str | None = None,
    deep: str | None = None,
    test_deep: str | None = None,
    control: bool | None = None,
    threshold: float | None = None,
    normal: Path | Iterable[Path] = (),
    seed: int | None = None,
    store: Path | None = None,
    cluster: str | None = None,
    quiet: bool = True,
) -> RepairOutcome:
    """Repairs a net from games to a report, in the folder `output`: `vr repair`, whose commands it runs as processes.

    What is not given is what the folder's repair.toml says, else the usual: `net` maia-1900, `budget` ``1h``, `deep`
    the judge of this machine, `test_deep` the same judge at more nodes, `threshold` 0.55. `control`: also train a net
    without candidates. `store` is one that was mined already, whose copy it takes instead of
    `archives`. `normal` are training chunks of ordinary games; `cluster` is where Dask
    mines. The same call, or one with the folder alone, goes on with what an interrupted one has left.

    Returns the `RepairOutcome`: whether the net is shown to be a `better_judge` and a `better_player`, the net
    `repaired`, what was `judged` with intervals, the `matches`, the `page`; its `lines()` are what `vr repair` says.
    Raises UsageError for what makes no sense, ValueRepairError where a stage fails, whose message stands on standard
    error.
    """
    from pathlib import Path as Folder

    from valuerepair.pipeline.page import finish
    from valuerepair.pipeline.run import planned, read_settings, run

    where = None if store is None else os.fspath(store)
    given: dict[str, object] = {"store": where, "net": net, "budget": budget, "deep": deep, "test_deep": test_deep}
    given |= {"control": control, "threshold": threshold, "seed": seed}
    several = {"archives": tuple(_paths(archives)), "normal": tuple(_paths(normal))}
    said = {name: value for name, value in {**several, **given}.items() if value not in (None, ())}
    folder = Folder(output)
    found = planned(folder, read_settings(folder, said), cluster=cluster, quiet=quiet)
    run(found, quiet=quiet)
    return finish(found)


def selfplay(
    book: Path,
    output: Path = "games.pgn",
    store: Path | None = "valuerepair.db",
    options: SelfplayOptions | None = None,
    *,
    quiet: bool = True,
) -> SelfplayEnd:
    """Plays a game from each line of a book, into the PGN file `output`: `vr selfplay`.

    `book` is a PGN book that lc0 can read, or an EPD file. `options` say who plays and how, as in
    ``SelfplayOptions(net="my-net.pb.gz", nodes=800, training="chunks")``. With a `store`, made if it is not there,
    games are kept in it, too. `quiet`: no progress on standard error.

    The same call goes on with what an interrupted one has left. An interruption (Ctrl-C) ends it as a
    `KeyboardInterrupt`, with all games that have ended kept. Returns the `SelfplayEnd`, all `games` of the run;
    `as_json()` has their figures, and `lines()` are what `vr selfplay` says. Raises ValueRepairError and UsageError.
    """
    from valuerepair.chess.progress import Progress, remarks_to
    from valuerepair.training.selfplay import SelfplayOptions, play_book

    paths = os.fspath(book), os.fspath(output)
    command = f"{shlex.join(['vr', 'selfplay', paths[0], '-o', paths[1]])} (from Python)"
    where = None if store is None else os.fspath(store)
    with (
        Progress("Self-play", None, "games", quiet=quiet, own_eta=True) as progress,
        nullcontext() if quiet else remarks_to(progress.say),
    ):
        end = play_book(*paths, options or SelfplayOptions(), store=where, command=command, progress=progress)
    if end.interrupted:
        raise KeyboardInterrupt
    return end


def match(
    a: str, b: str, output: Path = "match.pgn", options: MatchOptions | None = None, *, quiet: bool = True
) -> MatchEnd:
    """Two sides play each other, into the PGN file `output`: `vr match`.

    A side is ``net=my-net.pb.gz,nodes=100`` or an engine, ``stockfish:nodes=1000`` or ``/path/engine``, with a limit of
    its own or that of `options`, which are those of the command, as in ``MatchOptions(games=200, nodes="100",
    openings="book.pgn", sprt="elo0=0,elo1=5")``. `quiet`: no progress on standard error.

    The same call goes on with what an interrupted one has left, and with more games further. An interruption (Ctrl-C)
    ends it as a `KeyboardInterrupt`, with all games that have ended kept. Returns the `MatchEnd`, whose `standing` has
    the results, Elo with intervals (`levels`) and the verdict of the test; `as_json()` and `lines()` are what
    `vr match` says. Raises ValueRepairError and UsageError.
    """
    from valuerepair.chess.progress import Progress, remarks_to
    from valuerepair.play.match import MatchOptions, play_sides

    with (
        Progress("match", unit="games", quiet=quiet, own_eta=True) as progress,
        nullcontext() if quiet else remarks_to(progress.say),
    ):
        end = play_sides((a, b), options or MatchOptions(), os.fspath(output), progress=progress)
    if end.interrupted:
        raise KeyboardInterrupt
    return end


def elo(games: Path | Iterable[Path], player: str | None = None, *, sprt: str | None = None) -> Crosstable:
    """What the games of PGN files show, whoever played them: `vr elo`.

    `games` are files (packed or not) and folders. `player` is whose games count, and whose side is taken; without it a
    match of two is seen from its first side, and of several players there are only the `matches`. `sprt` is a test,
    ``elo0=0,elo1=5``.

    Returns a `Crosstable`: `whole` is the match of two, or `player` against all others, with `results`, `levels` (Elo
    with its interval and a verdict at each level), `normalized`, `tally` (by colour, by pairs), `by_ending`, `faults`,
    `verdict` (of the test); `matches` are those of each two players. `lines()` and `as_json()` are what `vr elo` says.
    Raises UsageError for a missing file or player, ValueRepairError for files without a match.
    """
    from valuerepair.play.crosstable import crosstable
    from valuerepair.play.sprt import parse_sprt

    return crosstable(_paths(games), player, parse_sprt(sprt) if sprt is not None else None)


def plan_match(
    elo: float | None = None,
    *,
    draws: float | None = None,
    like: Crosstable | None = None,
    sprt: str | None = None,
    seconds: float | None = None,
    jobs: int = 1,
) -> MatchLength:
    """How many games (and hours) it takes to show a difference of `elo`: `vr elo --resolve`.

    Games come out with this share of `draws`, or as they did in ``like=vr.elo("first-games.pgn")``; `sprt` is a test
    whose length is to be said, also without `elo`, `seconds` what a game takes, `jobs` how many are played at once.

    Returns a `MatchLength`: `games` by level, for each of the chances of `valuerepair.play.match_length.POWERS` to show
    the difference; `tests` (games on average, chance of H1) at the test's elo0, in the middle, at its elo1, and at
    `elo`; `hours(games)`.
    Raises UsageError for what makes no sense, ValueRepairError where `like` has too few games.
    """
    from valuerepair.play.match_length import match_length
    from valuerepair.play.sprt import parse_sprt

    test = parse_sprt(sprt) if sprt is not None else None
    return match_length(elo, draws=draws, like=like, sprt=test, seconds=seconds, jobs=jobs)


def write_books(store: Stored, directory: Path, options: BookOptions | None = None) -> Manifest:
    """Writes book.pgn (for lc0), book.epd and manifest.json of a store's candidates into `directory`: `vr books`.

    `options` as in ``BookOptions(question=Question(threshold=0.6), parents=2)``. Each file appears whole or not at
    all, the manifest last. Returns the manifest, whose `files` say what was written. Raises ValueRepairError where
    nothing is left to write or the folder cannot be written to.
    """
    from valuerepair.books.options import BookOptions
    from valuerepair.books.write import write_books

    with _open(store) as opened:
        return write_books(opened, options or BookOptions(), os.fspath(directory))


def write_suite(
    store: Stored, path: Path, question: Question | None = None, *, split: Split | None = None, part: str = "train"
) -> WrittenSuite:
    """Writes a store's candidates as a suite of EPD to share: `vr export --format epd`.

    With a `split` it has the candidates of its part ``train``, or of another `part` (``held-out``: all that is held
    out). The file appears whole or not at all. Returns the `WrittenSuite`, which counts what was written and left out.
    Raises ValueRepairError and UsageError.
    """
    from valuerepair.books.suite import write_suite_file

    asked = question or Question()
    with _open(store) as opened:
        rows = opened.candidates(asked)
        if split is not None:
            rows = rows[split.among(opened, rows["position_id"].to_numpy(np.int64), part)]
        return write_suite_file(opened, rows, asked.threshold, path)


def plot(kind: str, source: Stored, path: Path | None = None, **options: Any) -> Figure:
    """Draws one of the project's figures: `vr plot`. `path` also writes it (.png, .svg or .pdf).

    `kind` is one of `valuerepair.report.figures.KINDS` (``scatter``, ``calibration``, ...), `source` a store, open
    or by its path, or the file that the kind reads. `options` are those of the kind, as `threshold`, `net`, `oracle`,
    `alpha`, `weighted`. The figure is matplotlib's, made without pyplot: as the last line of a notebook's cell it is
    shown. Raises UsageError for another kind, option or ending, ValueRepairError where there is nothing to draw.
    """
    from valuerepair.report import figures, style

    if path is not None:
        style.format_of(path)
    figure = figures.draw(kind, source, **options)
    if path is not None:
        style.save(figure, path)
    return figure


def plot_remeasured(found: Remeasured, path: Path | None = None) -> Figure:
    """Draws a comparison of nets (`remeasure`): `vr remeasure --plot`. `path` also writes it (.png, .svg or .pdf).

    Left every position, one net's disagreement against the other's; right what changed by label, with intervals.
    """
    from valuerepair.report import remeasure_plot, style

    if path is not None:
        style.format_of(path)
    figure = remeasure_plot.draw(found)
    if path is not None:
        style.save(figure, path)
    return figure


def write_report(store: Stored, path: Path = "report.html", question: Question | None = None) -> WrittenPage:
    """Writes the report on a store, one HTML file that needs no network: `vr report`. It appears whole or not at all.

    Returns how many positions and candidates it holds, and its size. Raises ValueRepairError where nothing is scored.
    """
    from valuerepair.report import page

    with _open(store) as opened:
        return page.write(opened, path, question)


@contextmanager
def _open(store: Stored) -> Iterator[Store]:
    """The store that is meant; closed afterwards if it was opened here."""
    if isinstance(store, Store):
        yield store
        return
    with Store.open(store) as opened:
        yield opened


def _paths(archives: Path | Iterable[Path]) -> list[str]:
    given = [archives] if isinstance(archives, str | os.PathLike) else archives
    return [os.fspath(each) for each in given]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A position that net and deep search judge differently. All values are from its side to move, Q in [-1, 1].

    `deep_q` comes from `cp` (centipawns) or `mate` (moves, negative: mated) or the search's own Q; `disagreement` is
    net Q - deep Q, in [-2, 2], above 0 where the net is too optimistic, and of the calibrated net Q where the question
    asks for that; `moves` (UCI) lead from `start_fen` to `fen`; `ply` counts half-moves since move 1. `net_best`,
    `deep_best` and `played` are the moves that the net's policy, the search and the game chose, None where unknown;
    `pv` is the search's line. `weight` is how many positions the row stands for (screening; 1 without). `labels` are
    the words of `vr books --label`, `verdict` is one of ``search right``, ``net right``, ``unresolved``, or None where
    no second look was taken.
    """

    position_id: int
    fen: str
    start_fen: str
    moves: tuple[str, ...]
    history_known: bool
    ply: int
    phase: str
    net_q: float
    deep_q: float
    disagreement: float
    cp: int | None
    mate: int | None
    net_best: str | None
    deep_best: str | None
    played: str | None
    pv: tuple[str, ...]
    weight: float
    labels: frozenset[str]
    verdict: str | None
    source: str
    game: int
    white: str | None
    black: str | None
    result: str | None

    @property
    def white_to_move(self) -> bool:
        """Whose view all values are from."""
        return self.fen.split(" ", 2)[1] == "w"

    @property
    def position(self) -> Position:
        """The position with its history, as `valuerepair.evaluate` and `valuerepair.search` take it."""
        origin = Origin(source=self.source, game=self.game, played=self.played, result=self.result)
        return Position(
            self.fen, self.start_fen, self.moves, ply=self.ply, history_known=self.history_known, origin=origin
        )


class MinedStore(Store):
    """A store open for reading: `frame`, `candidates`, `iter_candidates`, `family`, `stats`, `nets`, `oracles`.

    Open it by `valuerepair.open_store`; use it from one thread, and close it or use it as a context manager. Reading
    does not disturb a `vr mine` that is writing to the same file.

    A `Question` says which net and oracle, which alpha and which threshold; None is the pair with most scored positions
    at the default threshold.
    """

    def frame(
        self,
        question: Question | None = None,
        *,
        text: bool = True,
        only: Sequence[str] | None = None,
        cut: bool = False,
        labels: bool = False,
        verdicts: bool = False,
        outcomes: bool = False,
    ) -> pd.DataFrame:
        """All positions scored by net and oracle, one row each, by position_id: a tidy frame (see `queries.frame`).

        Values are from the side to move: `net_q`, `deep_q` in [-1, 1], `disagreement` = net_q - deep_q. `weight` is how
        many positions the row stands for: rates and means need it where screening cut. `text=False` leaves FENs, moves
        and names out, which is faster; `only` reads the columns it names, which is fastest. `cut` adds the positions
        that screening cut: `deep_q`, `nodes`, `deep_best` are of the last rung, whose nodes stand in a column `rung`
        (NaN: searched in full), and `weight` is 0, so that rates stay as they are.

        - `labels` joins the columns of `judge.labels.label_frame`, and ``labels``, their words as a frozenset.
        - `verdicts` joins ``verdict``, ``second_q`` and the other columns of `judge.verdict.evidence`.
        - `outcomes` joins ``z``, the mean result of the games played from the position (for its side to move, in
          [-1, 1], NaN without any), and ``z_games``, their number.

        attrs: net, oracle, alpha {value, origin}, q_from, calibration. Raises ValueRepairError where nothing is scored
        or a word fits nothing, UsageError for `only` with anything to join.
        """
        if only is not None and (labels or verdicts or outcomes):
            raise UsageError("only= reads single columns, and labels, verdicts and outcomes are joined to whole rows")
        frame = super().frame(question, text=text or labels, only=only, cut=cut)
        return self._joined(frame, labels, verdicts, outcomes)

    def candidates(
        self, question: Question | None = None, *, labels: bool = False, verdicts: bool = False, outcomes: bool = False
    ) -> pd.DataFrame:
        """The rows of `frame` with ``|disagreement| >= question.threshold``, the largest first."""
        return self._joined(super().candidates(question), labels, verdicts, outcomes)

    def iter_candidates(self, question: Question | None = None) -> Iterator[Candidate]:
        """The candidates as `Candidate` records with labels and verdicts, the largest disagreement first."""
        frame = self.candidates(question, labels=True, verdicts=True)
        return (_candidate(row) for row in frame.to_dict("records"))

    def stats(self, question: Question | None = None) -> dict[str, Any]:
        """What is in the store, JSON-able: `vr stats --json` without labels, verdicts and games."""
        from valuerepair.report.stats import store_figures

        return store_figures(self, question)

    def family(self, position_id: int, question: Question | None = None) -> pd.DataFrame:
        """The tree of the root that a position was reached from by `vr expand`, or that it is itself: a row a position.

        In the order of the tree, the root first: position_id, parent_id, step, distance, round, move (SAN), fen, net_q,
        deep_q, disagreement, candidate, inferred, mark. Values are from the side to move. Empty where there is none.
        """
        import pandas as pd

        from valuerepair.report.family import COLUMNS, family_of, told

        rows = told(family_of(self, position_id, question or Question()))
        whole = {"parent_id": "Int64", "distance": "Int64", "round": "Int64"}  # the root has none
        table: pd.DataFrame = pd.DataFrame(rows, columns=list(COLUMNS)).astype(whole)
        return table

    def _joined(self, frame: pd.DataFrame, labels: bool, verdicts: bool, results: bool) -> pd.DataFrame:
        """The frame with what was asked for as further columns; the attrs stay."""
        import pandas as pd

        joined = frame
        if labels:
            from valuerepair.judge.labelled import names, with_labels

            joined = with_labels(self, frame)
            joined = joined.assign(labels=pd.Series(names(joined), joined.index, object))
        if verdicts:
            from valuerepair.judge import verdict

            joined = joined.join(verdict.evidence(self, frame))
        if results:
            found = plays.outcomes(self)
            ids = frame["position_id"]
            joined = joined.assign(
                z=ids.map(dict(zip(found.ids.tolist(), found.z.tolist(), strict=True))).astype(np.float64),
                z_games=ids.map(dict(zip(found.ids.tolist(), found.games.tolist(), strict=True))).fillna(0).astype(int),
            )
        joined.attrs.update(frame.attrs)
        return joined


def open_store(path: str | os.PathLike[str] = "valuerepair.db") -> MinedStore:
    """Opens the store at `path` for reading; close it, or use it as a context manager.

    Raises ValueRepairError, one line each: no such file, not a store, written by a newer version, no permission.
    """
    return MinedStore.open(path)


def _candidate(row: Mapping[Any, Any]) -> Candidate:
    taken = ("position_id", "fen", "start_fen", "history_known", "ply", "phase", "net_q", "deep_q", "disagreement",
             "weight", "labels",
             "source", "game", "net_best", "deep_best", "played", "white", "black", "result", "verdict")  # fmt: skip
    return Candidate(
        **{name: row[name] for name in taken},
        moves=tuple(row["moves"].split()),
        pv=tuple(row["pv"].split()),
        cp=None if math.isnan(row["cp"]) else int(row["cp"]),
        mate=None if math.isnan(row["mate"]) else int(row["mate"]),
    )
