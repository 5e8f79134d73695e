"""`vr export`: the store's scored positions as a file, or as training chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

import valuerepair as vr
from valuerepair import outputs
from valuerepair.cli.group import SectionedCommand
from valuerepair.cli.options import (
    DB,
    FILE,
    SPLIT,
    check_part,
    part_option,
    question,
    split_of,
)
from valuerepair.cli.verbosity import is_quiet, say

if TYPE_CHECKING:
    import pandas as pd

TABLES = ("parquet", "jsonl", "csv")
TRAINERS = ("plain", "bin", "text")
CHUNKS, SUITE = "chunks", "epd"
# Options that say something of chunks alone.
_OF_CHUNKS = ("policy", "result", "share", "draw", "records", "form")


@click.command(
    cls=SectionedCommand,
    sections={
        "Most used": "format output db threshold labels split part",
        "Whose values": "net oracle alpha expanded calibration",
        "Trainers of other engines": "pawn",
        "Training chunks": "policy result share draw records form",
    },
)
@DB
@click.option(
    "--format",
    type=click.Choice((*TABLES, *TRAINERS, CHUNKS, SUITE)),
    help="plain and bin: for Stockfish's trainers; text: for bullet; chunks: for Leela's; epd: candidates to share.  "
    "[default: by the name of FILE, else jsonl]",
)
@click.option(
    "-o",
    "--output",
    type=FILE,
    metavar="FILE",
    help="The file to write, of chunks a new folder.  [default: standard output]",
)
@click.option("--labels", is_flag=True, help="Add columns of labels (docs/methods/judges.md).")
@click.option("--pawn", type=float, help="The score of a pawn in plain, bin and text.  [default: 100]")
@SPLIT(help="A file of vr split: write only what is of one of its parts.")
@part_option("train", help="Which part of the split", usual="train")
@click.option(
    "--policy",
    default="net",
    metavar="net|judge[:SHARE]",
    help="The net's policy, or a share of it for the judge's best move.",
)
@click.option(
    "--result",
    type=click.Choice(["sampled", "judge", "game"]),
    default="sampled",
    help="result_q is 1, 0 or -1 by the judge's chances, the judge's Q, or the game's result.",
)
@click.option(
    "--share", type=float, help="Draw this share of candidates. Chunks cannot weigh that back, as vr train does."
)
@click.option(
    "--draw", type=FILE, metavar="FILE.parquet", help="Draw positions by these weights, in the place of --share."
)
@click.option("--records", type=int, help="Records to write, in as many passes as that takes.  [default: one pass]")
@click.option("--form", type=click.Choice(["tar", "files"]), default="tar", help="In tars, or a file each.")
@question(
    "Only candidates, the largest disagreement first; chunks have all positions, and --share draws candidates.",
    default=None,
)
def command(
    db: str,
    format: str | None,
    output: str | None,
    labels: bool,
    pawn: float | None,
    split: str | None,
    part: str | None,
    question: vr.Question | vr.Worst,
    candidates_only: bool,
    **of_chunks: Any,
) -> None:
    """Write all positions scored by a net and a deep search.

    A row each with all that is known; or, for the trainers of other engines' nets, position, score and result in their
    formats (docs/guide/position-sets.md); or, for trainers of lc0's nets, a training chunk each, whose value is the
    judge's. Chunks are of the positions that vr train --store would learn from, and by the same alpha. EPD is a suite
    of the candidates, with the judge's moves and values: vr remeasure says which of them another net misjudges, too.

    \b
    Example:
      vr export --format csv | head
      vr export -o candidates.parquet --threshold 0.55 --labels
      vr export -o candidates.plain --threshold 0.55 --pawn 361
      vr export -o train.plain --split split.json
      vr export -o blind-spots.epd
      vr export --format chunks --net my-net.pb.gz --split split.json -o judged-chunks
    """
    import sys

    from valuerepair.api.calls import resolved
    from valuerepair.errors import UsageError
    from valuerepair.judge.split import warning_of_held_out
    from valuerepair.store import export
    from valuerepair.store.store import Store

    if output == "-":
        output = None
    check_part(part, split)
    if format is None and (output or "").endswith(".epd"):
        format = SUITE
    if format in (CHUNKS, SUITE) and (labels or pawn is not None):
        raise UsageError(f"--{'labels' if labels else 'pawn'}: says nothing of {format}")
    if format == CHUNKS:
        _write_chunks(db, output, split, part, question, of_chunks)
        return
    context = click.get_current_context()
    for name in _OF_CHUNKS:
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise UsageError(f"--{name}: goes with --format chunks")
    if format == SUITE:
        _check(output, outputs.SUITE)
        _write_suite(db, output, split, part, question)
        return
    for_trainer = format in TRAINERS or (format is None and (output or "").endswith((".plain", ".bin")))
    if for_trainer and labels:
        raise UsageError("--labels: what trainers read has no columns; give --format parquet, jsonl or csv")
    if not for_trainer and pawn is not None:
        raise UsageError("--pawn: tables have the scores as the search gave them; give --format plain, bin or text")
    kept = split_of(split)
    kind = None if for_trainer else export.format_of(output, format)
    _check(output, _of_trainer(output, format) if kind is None else outputs.TABLES[kind])
    if output is None and format in ("parquet", "bin"):
        raise UsageError(f"{format} does not go to standard output; give -o FILE")
    with Store.open(db) as store:
        asked = resolved(store, question)
        frame = store.candidates(asked) if candidates_only else store.frame(asked)
        if kept is not None:
            frame = frame[kept.among(store, frame["position_id"].to_numpy("int64"), part or "train")]
        elif for_trainer and (warning := warning_of_held_out(store, frame["position_id"].to_numpy("int64"))):
            say(warning)
        if labels:
            from valuerepair.judge.labelled import with_labels

            frame = with_labels(store, frame)
    if kind is None:
        _write_for_trainer(frame, format, output, pawn)
    elif output is None:
        export.write_stream(frame, kind, sys.stdout.buffer)
    else:
        export.write_file(frame, kind, output)
        say(f"{output}: {len(frame):,} positions")


def _check(output: str | None, kind: outputs.FileKind) -> None:
    """What is wrong with the place of the file is said before a large store is read."""
    if output is not None:
        outputs.check_output(output, kind)


def _of_trainer(output: str | None, format: str | None) -> outputs.FileKind:
    from valuerepair.training.nnue import format_of

    return outputs.TRAINERS[format_of(output, format)]


def _write_suite(
    db: str, output: str | None, split: str | None, part: str | None, question: vr.Question | vr.Worst
) -> None:
    """Without a threshold of its own a suite has the candidates of the usual one, as the question has."""
    import sys

    from valuerepair.api.calls import resolved
    from valuerepair.books import suite
    from valuerepair.store.store import Store

    kept = split_of(split)
    with Store.open(db) as store:
        asked = resolved(store, question)
        rows = store.candidates(asked)
        if kept is not None:
            rows = rows[kept.among(store, rows["position_id"].to_numpy("int64"), part or "train")]
        if output is None:
            written = suite.write_suite_stream(store, rows, asked.threshold, sys.stdout.buffer)
        else:
            written = suite.write_suite_file(store, rows, asked.threshold, output)
            say(f"{output}: {written.positions:,} blind spots of {written.net}")
    for line in written.lines():
        say(line)


def _write_for_trainer(frame: pd.DataFrame, format: str | None, output: str | None, pawn: float | None) -> None:
    import sys

    from valuerepair.training import nnue

    units = nnue.CENTIPAWNS if pawn is None else pawn
    kind = nnue.format_of(output, format)
    if output is None:
        written = nnue.write_stream(frame, kind, sys.stdout.buffer, units)
    else:
        written = nnue.write_positions(frame, output, kind, units)
        say(f"{output}: {written.positions:,} positions, scores of {units:g} a pawn")
    for line in written.lines():
        say(line)


def _write_chunks(
    db: str,
    output: str | None,
    split: str | None,
    part: str | None,
    question: vr.Question | vr.Worst,
    given: dict[str, Any],
) -> None:
    """Chunks need no threshold: without one they have the candidates of the usual one in the share they have."""
    from valuerepair.api.calls import plain, resolved
    from valuerepair.errors import UsageError
    from valuerepair.store.store import Store
    from valuerepair.training.options import parse_policy
    from valuerepair.training.store_chunks import ChunkOptions, summary

    if output is None:
        raise UsageError("--format chunks: give a new folder with -o")
    outputs.check_folder(output)
    form = given.pop("form")
    _, policy_share = parse_policy(given.pop("policy"), "net", "judge")
    options = ChunkOptions(policy_share=policy_share, part=part or "train", **given)
    with Store.open(db) as store:
        manifest = vr.write_chunks(
            store,
            output,
            resolved(store, question, to_train=True),
            options,
            net=plain(question).net,
            split=split_of(split),
            form=form,
            quiet=is_quiet(),
        )
    for line in summary(manifest, output):
        say(line)
