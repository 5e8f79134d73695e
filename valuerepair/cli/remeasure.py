"""`vr remeasure`: the same positions under several nets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from valuerepair import outputs
from valuerepair.cli.completion import nets
from valuerepair.cli.files import Output
from valuerepair.cli.options import (
    ALPHA,
    ARCHIVE,
    CALIBRATION,
    DB,
    DEEP,
    JSON,
    ORACLE,
    PLOT_FILE,
    SPLIT,
    QuestionOptions,
    check_part,
    device_option,
    part_option,
    plain_threshold,
    split_of,
    threshold_option,
)
from valuerepair.cli.verbosity import is_quiet, say

if TYPE_CHECKING:
    from valuerepair.runs.regret import RegretOptions
    from valuerepair.runs.rejudge import RejudgeOptions

# What asks the store alone.
_OF_STORE = ("db", "oracle", "calibration", "split", "part", "plot", "regret", "regret_positions", "deep", "rejudge")


@click.command()
@click.argument("suite", type=ARCHIVE, required=False, metavar="[SUITE]")
@click.option(
    "--net",
    multiple=True,
    shell_complete=nets,
    help="A net by file, name or SHA-256; give at least two, the first is A. For a suite one is enough.",
)
@DB
@ORACLE
@ALPHA
@CALIBRATION
@SPLIT(help="A file of vr split: compare only on what it holds out.")
@part_option(help="Which held-out part", usual="held-out")
@threshold_option("|net Q - deep Q| of a candidate; a share is of A's positions.")
@click.option("--plot", type=PLOT_FILE, metavar="FILE", help="Also draw it, as .png, .svg or .pdf.")
@click.option(
    "-o",
    "--output",
    type=Output(outputs.TABLES),
    metavar="FILE",
    help="Write the positions that any net is wrong on, or all of a suite: .parquet, .jsonl or .csv.",
)
@click.option(
    "--regret",
    type=int,
    metavar="NODES",
    help="Also search with each net, so many nodes a position, and judge the moves where they differ.",
)
@click.option(
    "--regret-positions", type=int, metavar="N", help="Positions of each kind to search for it.  [default: 500]"
)
@DEEP(help="Who judges the moves of --regret, as in `vr mine`.  [default: the oracle that is compared with]")
@click.option(
    "--rejudge",
    metavar="SPEC",
    help="Also have a deeper oracle judge some of the positions, as --deep of `vr mine`: stockfish:nodes=1000000.",
)
@click.option("--rejudge-positions", type=int, metavar="N", help="Positions to judge again.  [default: 2000]")
@click.option("--all", is_flag=True, help="Also what screening cut, by the value of its last rung.")
@device_option(reference=True)
@JSON
def command(
    suite: str | None,
    net: tuple[str, ...],
    db: str,
    oracle: str | None,
    plot: str | None,
    output: str | None,
    json: bool,
    **given: Any,
) -> None:
    """Compare nets on the positions of a store: who repaired what, by label, with paired intervals.

    Every net is compared with the first, A. Values that the store lacks are computed from the net's file and stored;
    stop with Ctrl-C, and the same command continues. Judge by all positions: A's candidates were chosen for being A's
    worst errors, and any other net looks better on them. At the end each net's Q is calibrated by a curve of its own,
    fitted to other games: what B repairs beyond that is more than a change of scale. With --calibration fitted the
    whole comparison is by such curves. Then there is a row for each kind of position, in games and beside them, and
    whether B is the better judge of them all. With --regret both nets also search, at equal breadth, and where they
    choose different moves the judge says which of them loses more. With --rejudge a deeper oracle judges positions
    again: where two nets' verdicts differ, where one is near the threshold, and some of all others; the nets are then
    compared by it, each position weighed by its inverse chance. A net may be an engine's own evaluation,
    uci:ENGINE,nodes=1.

    SUITE is an EPD file with values (ce, dm, bm #N), as vr export -o suite.epd writes it. It needs no store: each net
    evaluates its positions, and shares a blind spot where its Q is as wrong, in the same direction.

    \b
    Example:
      vr remeasure --net old.pb.gz --net new.pb.gz
      vr remeasure --net old.pb.gz --net new.pb.gz --split split.json --regret 100
      vr remeasure --net old.pb.gz --net new.pb.gz --split split.json --rejudge stockfish:nodes=1000000
      vr remeasure --net old.pb.gz --net control.pb.gz --net new.pb.gz --split split.json --part families
      vr remeasure --net maia-1900 --net new.pb.gz --threshold 0.4 --plot repaired.svg -o wrong.csv
      vr remeasure blind-spots.epd --net my-net.pb.gz -o shared.csv
    """
    import shlex
    import sys
    from json import dumps

    from valuerepair.judge.compare import compare, comparison_lines, complete_policies, wrong_positions
    from valuerepair.judge.compared_nets import find_nets, find_oracle, measure_missing
    from valuerepair.judge.split import TOGETHER, HeldPart
    from valuerepair.store.export import format_of, write_file
    from valuerepair.store.store import Store

    if suite is not None:
        _measure_suite(suite, net, output, json, given)
        return
    scale = given["alpha"]
    # What is wrong with the command line is said before a net runs.
    kind = format_of(output, None) if output is not None else None
    if plot is not None:
        from valuerepair.report import style

        style.format_of(plot)

    check_part(given["part"], given["split"])
    regret = _regret_options(given["regret"], given["regret_positions"], given["deep"])
    rejudged = _rejudge_options(given["rejudge"], given["rejudge_positions"])
    split = split_of(given["split"])
    with Store.open(db) as store:
        part = None if split is None else HeldPart.of(store, split, given["part"] or TOGETHER)
        chosen = find_oracle(store, oracle, net, part, cut=given["all"])
        asked = find_nets(store, net, chosen)
    for number, copy in enumerate(asked):
        if same := next((earlier for earlier in asked[:number] if earlier.key == copy.key), None):
            say(f"{copy.name} and {same.name} are one net: the files have the same content")
    net_options = {"device": given["device"]}
    measure_missing(db, asked, chosen, command=shlex.join(["vr", *sys.argv[1:]]), quiet=is_quiet(), **net_options)
    with Store.open(db) as store:
        asked = find_nets(store, net, chosen)
        first = QuestionOptions(
            asked[0].key,
            chosen.digest,
            scale.alpha,
            scale.q_from,
            given["threshold"],
            calibration=given["calibration"],
        )
        question = first.resolved(store)
    complete_policies(db, asked, chosen, question, quiet=is_quiet(), **net_options)
    with Store.open(db) as store:
        found = compare(store, asked, chosen, question)
        rows = wrong_positions(store, asked, chosen, found) if output is not None else None
    if regret is not None:
        from valuerepair.runs.regret import measure_regret

        found = measure_regret(
            db, asked, chosen, found, regret, command=shlex.join(["vr", *sys.argv[1:]]), quiet=is_quiet(), **net_options
        )
    if rejudged is not None:
        from valuerepair.runs.rejudge import rejudge

        found = rejudge(db, chosen, found, rejudged, command=shlex.join(["vr", *sys.argv[1:]]), quiet=is_quiet())
    if rows is not None and kind is not None and output is not None:
        write_file(rows, kind, output)
        say(f"{output}: {len(rows):,} positions")
    if plot is not None:
        from valuerepair.report import remeasure_plot

        style.save(remeasure_plot.draw(found), plot)
        say(plot)
    click.echo(dumps(found.as_dict(), indent=2) if json else "\n".join(comparison_lines(found)))


def _regret_options(nodes: int | None, positions: int | None, deep: str | None) -> RegretOptions | None:
    """What `--regret` asks for; None without it."""
    from valuerepair.engines.kinds import parse_spec
    from valuerepair.errors import UsageError
    from valuerepair.runs.regret import POSITIONS, RegretOptions

    if nodes is None:
        for name, value in (("--regret-positions", positions), ("--deep", deep)):
            if value is not None:
                raise UsageError(f"{name}: belongs to --regret NODES")
        return None
    if deep is not None:
        parse_spec(deep)
    return RegretOptions(nodes, POSITIONS if positions is None else positions, deep)


def _rejudge_options(deep: str | None, positions: int | None) -> RejudgeOptions | None:
    """What `--rejudge` asks for; None without it."""
    from valuerepair.engines.kinds import parse_spec
    from valuerepair.errors import UsageError
    from valuerepair.runs.rejudge import POSITIONS, RejudgeOptions

    if deep is None:
        if positions is not None:
            raise UsageError("--rejudge-positions: belongs to --rejudge SPEC")
        return None
    try:
        parse_spec(deep)
    except UsageError as error:
        raise UsageError(str(error).replace("--deep", "--rejudge", 1)) from None
    return RejudgeOptions(deep, POSITIONS if positions is None else positions)


def _measure_suite(suite: str, nets: tuple[str, ...], output: str | None, json: bool, given: dict[str, Any]) -> None:
    """Nets on a suite. Threshold and scale are those of the suite, unless they are typed."""
    from json import dumps

    from valuerepair.books.suite import measure_suite
    from valuerepair.errors import UsageError
    from valuerepair.store.export import format_of, write_file

    source_of = click.get_current_context().get_parameter_source
    for name in _OF_STORE:
        if source_of(name) is ParameterSource.COMMANDLINE:
            option = name.replace("_", "-")
            raise UsageError(f"--{option}: asks a store, and a suite is none; vr mine --deep recorded makes one of it")
    if given["alpha"].q_from == "wdl":
        raise UsageError("--alpha wdl: a suite has no W/D/L; give a number of centipawns")
    if not nets:
        raise UsageError("give the net to ask: --net my-net.pb.gz")
    kind = format_of(output, None) if output is not None else None
    threshold_is_typed = source_of("threshold") is ParameterSource.COMMANDLINE
    found = measure_suite(
        suite,
        nets,
        threshold=plain_threshold(given["threshold"]) if threshold_is_typed else None,
        alpha=given["alpha"].alpha,
        device=given["device"],
    )
    if output is not None and kind is not None:
        write_file(found.rows, kind, output)
        say(f"{output}: {len(found.rows):,} positions")
    click.echo(dumps(found.as_dict(), indent=2) if json else "\n".join(found.lines()))
