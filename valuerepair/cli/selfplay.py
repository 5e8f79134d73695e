"""`vr selfplay`: games from the lines of a book."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import ExitStack
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from valuerepair.cli.completion import folders, nets
from valuerepair.cli.options import (
    DB,
    FILE,
    HISTORY_FILL,
    JOBS,
    JSON,
    NET,
    SEED,
    SET,
    device_options,
    rules_of,
    rules_options,
    settings_of,
)
from valuerepair.cli.verbosity import is_quiet, say
from valuerepair.store import DEFAULT_PATH

if TYPE_CHECKING:
    from valuerepair.mcts.params import SearchParams
    from valuerepair.play.lc0_selfplay import Lc0Source
    from valuerepair.play.referee import Rules
    from valuerepair.play.selfplay import ForestSource


@click.command()
@click.argument("book", type=FILE, metavar="BOOK")
@click.option("-o", "--output", type=FILE, default="selfplay.pgn", help="PGN of the games; an earlier run goes on.")
@click.option("--engine", type=click.Choice(["mcts", "lc0"]), default="mcts", help="Who plays.")
@NET
@click.option(
    "--net2", metavar="NET", shell_complete=nets, help="A second net: the two play each other, colours in turn."
)
@click.option("--nodes", type=int, default=800, help="Visits of the root per move.")
@click.option("--repeat", type=int, default=1, help="Games from each line of the book.")
@click.option("--temperature", metavar="T", help="Draw moves by visits^(1/T).  [default: 0, the best move]")
@SET
@HISTORY_FILL
@click.option("--reuse-tree", is_flag=True, help="Keep a game's tree from move to move; its visits count.")
@rules_options(max_plies=450)
@click.option("--no-resign-share", default=0.0, help="Share of games in which nobody may resign.")
@JOBS(help="Games at once.  [default: full batches of the net]")
@click.option(
    "--training",
    shell_complete=folders,
    metavar="DIR",
    help="Write lc0 training records to this folder, one chunk per game.",
)
@DB
@click.option("--no-db", is_flag=True, help="Keep nothing in a store.")
@SEED(help="Seed of temperature and noise.")
@device_options()
@JSON
def command(book: str, **given: Any) -> None:
    """Play a game from each line of a book, by default at temperature 0, so that results are as accurate as possible.

    BOOK is a PGN book that lc0 can read (vr books check), or an EPD file. Games go to a PGN file as they end, with Q,
    W/D/L and nodes of each move, and to the store; vr stats then compares results with the values. The same command
    continues a run that was stopped.

    \b
    Example:
      vr selfplay valuerepair-books/book.pgn --net my-net.pb.gz --nodes 800
      vr selfplay book.pgn --nodes 200 --repeat 4 --temperature 0.5 --resign 2 --no-resign-share 0.2
      vr selfplay book.pgn --nodes 800 --training chunks --syzygy ~/syzygy
      vr selfplay book.pgn --engine lc0 --nodes 800 --training chunks
    """
    from valuerepair.mcts.params import SearchParams

    params = SearchParams().with_settings(settings_of(given, ("temperature", "syzygy", "history_fill")))
    rules = rules_of(given)
    from valuerepair.chess.progress import Progress
    from valuerepair.errors import UsageError
    from valuerepair.play.figures import figures, lines
    from valuerepair.play.openings import read_openings
    from valuerepair.play.selfplay import SelfplayPlan, play_selfplay
    from valuerepair.store.store import Store

    openings = read_openings(book, strict=True)
    if given["repeat"] < 1:
        raise UsageError(f"--repeat {given['repeat']}: must be at least 1")
    if rules.no_resign_share and not rules.resign:
        raise UsageError("--no-resign-share: nobody resigns without --resign PERCENT")
    if given["training"] is not None and given["nodes"] == 1:
        raise UsageError("--nodes 1: training records have shares of visits, which needs at least 2")
    games = len(openings) * given["repeat"]
    quiet = is_quiet() or given["json"]
    with ExitStack() as stack:
        progress = stack.enter_context(Progress("Self-play", None, "games", quiet=quiet, own_eta=True))
        source = _source(given, params, rules, games)
        stack.push(source)
        seed = given["seed"] if given["engine"] == "mcts" else None
        plan = SelfplayPlan(openings, PurePath(book).name, source.sides, source.facts, games, rules, seed)
        if not (params.temperature or params.noise_epsilon or params.n_scl) and (copies := plan.copies()):
            say(
                f"{copies:,} of {games:,} games will be copies of others: the search has no chance in it; "
                "--temperature 0.5 makes them differ"
            )
        store = None if given["no_db"] else stack.enter_context(Store.open(given["db"], create=True))
        end = play_selfplay(
            plan,
            source,
            given["output"],
            store=store,
            chunks=_chunks(given, source),
            command=shlex.join(["vr", *sys.argv[1:]]),
            progress=progress,
        )
    told = {**figures(end.games), "planned": end.planned, "interrupted": end.interrupted, **end.speed}
    if given["json"]:
        click.echo(json.dumps(told))
    else:
        known = "" if given["db"] == DEFAULT_PATH else f" --db {shlex.quote(given['db'])}"
        following = [] if given["no_db"] or end.interrupted else [f"next: vr stats{known}"]
        click.echo("\n".join([*lines(told), *_speed(told, end.before), *following]))
    if end.interrupted:
        click.echo(
            f"{given['output']}: {len(end.games):,} of {end.planned:,} games; give the same command again to go on",
            err=True,
        )
        click.get_current_context().exit(130)


def _source(given: dict[str, Any], params: SearchParams, rules: Rules, games: int) -> ForestSource | Lc0Source:
    from valuerepair.errors import UsageError
    from valuerepair.play.lc0_selfplay import Lc0Source, lc0_settings
    from valuerepair.play.selfplay import Contestant, ForestSource

    if given["engine"] == "lc0":
        if given["net2"] or given["reuse_tree"]:
            raise UsageError("--engine lc0: --net2 and --reuse-tree are for --engine mcts")
        said = click.get_current_context().get_parameter_source  # a configuration's are for all commands
        if ParameterSource.COMMANDLINE in (said("device"), said("threads")):
            raise UsageError("--engine lc0: --device and --threads are for --engine mcts; lc0 chooses its own backend")
        if said("seed") == ParameterSource.COMMANDLINE:
            raise UsageError("--engine lc0: --seed is for --engine mcts; lc0 cannot be given one")
        settings = lc0_settings(given["net"], params, given["nodes"], given["jobs"], rules)
        return Lc0Source(settings, given["training"], resume=_goes_on(given["output"]))
    how = {**{name: given[name] for name in ("device", "threads")}, "history_fill": params.history_fill}
    both = (given["net"], given["net2"]) if given["net2"] else (given["net"],)
    who = Contestant(both, params, given["nodes"], given["jobs"], given["reuse_tree"], how)
    return ForestSource(who, rules, given["seed"], games)


def _goes_on(output: str) -> bool:
    """Whether an earlier run was here: then the folder of training records is not empty.

    A run that was killed leaves its file, be it empty: a game's records come before the game.
    """
    return Path(output).is_file()


def _chunks(given: dict[str, Any], source: ForestSource | Lc0Source) -> Any:
    """What writes the training records of the built-in MCTS, or knows those that lc0 writes."""
    from valuerepair.play.lc0_selfplay import Lc0Source

    if isinstance(source, Lc0Source):
        return source.records
    if given["training"] is None:
        return None
    from valuerepair.training.records import ChunkWriter, RecordFacts

    facts = RecordFacts.of(source.input_format(), source.params)
    return ChunkWriter(given["training"], facts, resume=_goes_on(given["output"]))


def _speed(told: dict[str, Any], before: int) -> list[str]:
    if told["games"] == before or not told["nodes_per_second"]:
        return []
    from valuerepair.chess.progress import format_duration, format_rate

    fill = f", batches {100 * told['batch_fill']:.0f} % full" if told["batch_fill"] is not None else ""
    known = told["known_evaluations"]
    fill += f", {100 * known:.0f} % of evaluations known from before" if known is not None else ""
    rate, hours = format_rate(told["nodes_per_second"]), told["games_per_hour"]
    return [f"  {told['games'] - before:,} in {format_duration(told['seconds'])}: {hours:,.0f} games/h, {rate}{fill}"]
