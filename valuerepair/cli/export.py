"""`vr export`: the store's scored positions as a file, or as training chunks."""

from __future__ import annotations

from typing import Any

import click

import valuerepair as vr
from valuerepair.cli.group import SectionedCommand
from valuerepair.cli.options import DB, EXPANDED, FILE, SPLIT, part_option, question, typed
from valuerepair.cli.printing import is_quiet
from valuerepair.errors import UsageError
from valuerepair.training.options import parse_policy

TABLES = ("parquet", "jsonl", "csv")
TRAINERS = ("plain", "bin", "text")
CHUNKS, SUITE = "chunks", "epd"


@click.command(
    cls=SectionedCommand,
    sections={
        "Most used": "format output db threshold labels split part",
        "Whose values": "net oracle alpha expanded calibration",
        "Trainers of other engines": "pawn",
        "Training chunks": "policy result form",
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
    help="The file to write; for chunks, a new folder.  [default: standard output]",
)
@click.option("--labels", is_flag=True, help="Add columns of labels (docs/methods/judges.md).")
@click.option("--pawn", type=float, help="The score of a pawn in plain, bin and text.  [default: 100]")
@SPLIT(help="A file of vr split: write only the positions of one of its parts.")
@part_option("train", help="Which part of the split", default="train")
@click.option(
    "--policy",
    default="net",
    metavar="net|judge[:SHARE]",
    help="The written policy: the net's, or the net's with a share for the judge's best move.",
)
@click.option(
    "--result",
    type=click.Choice(["sampled", "judge", "game"]),
    default="sampled",
    help="result_q: 1, 0 or -1 drawn by the judge's W/D/L, the judge's Q, or the game's result.",
)
@click.option("--form", type=click.Choice(["tar", "files"]), default="tar", help="Write tars, or one file per chunk.")
@question(
    "Write only candidates, the largest disagreement first. With --format chunks: what its manifest counts.",
    default=None,
    expanded=f"{EXPANDED} --format chunks includes positions beside the games in any case.",
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
    **chunk_options: Any,
) -> None:
    """Write all positions scored by a net and a deep search.

    A table has a row per position with everything known about it. The formats for other engines' trainers have
    position, score and result (docs/guide/position-sets.md). Chunks, for trainers of lc0's nets, have the positions
    that vr train --store would learn from, by the same alpha, each with the judge's value. EPD is a suite of the
    candidates with the judge's moves and values; vr remeasure says which of them another net misjudges, too.

    \b
    Example:
      vr export --format csv | head
      vr export -o candidates.parquet --threshold 0.55 --labels
      vr export -o candidates.plain --threshold 0.55 --pawn 361
      vr export -o train.plain --split split.json
      vr export -o blind-spots.epd
      vr export --format chunks --net my-net.pb.gz --split split.json -o judged-chunks
      vr export --format chunks --net my-net.pb.gz --result judge -o judged-chunks
    """
    if format is None and (output or "").endswith(".epd"):
        format = SUITE
    if format in (CHUNKS, SUITE) and (labels or pawn is not None):
        raise UsageError(f"--{'labels' if labels else 'pawn'}: does not apply to {format}")
    chosen: dict[str, Any] = {"split": split, "part": part}
    if format == CHUNKS:
        if output in (None, "-"):
            raise UsageError("--format chunks: give a new folder with -o")
        form, (_, share) = chunk_options.pop("form"), parse_policy(chunk_options.pop("policy"), "net", "judge")
        options = vr.ChunkOptions(policy_share=share, part=part or "train", **chunk_options)
        # Without --threshold, candidates are those of the default threshold.
        vr.write_chunks(db, output, question, options, split=split, form=form, quiet=is_quiet())
    elif for_chunks := typed(*chunk_options):
        raise UsageError(f"{for_chunks[0]}: needs --format chunks")
    elif format == SUITE:
        vr.write_suite(db, output, question, **chosen)
    elif format in TRAINERS or (format is None and (output or "").endswith((".plain", ".bin"))):
        if labels:
            raise UsageError("--labels: these formats have no columns; give --format parquet, jsonl or csv")
        if pawn is not None:
            chosen["pawn"] = pawn
        vr.export_positions(db, output, question, format=format, candidates_only=candidates_only, **chosen)
    elif pawn is not None:
        raise UsageError("--pawn: tables have the scores as the search gave them; give --format plain, bin or text")
    else:
        vr.export(db, output, question, format=format, candidates_only=candidates_only, labels=labels, **chosen)
