"""`vr split`: what is kept from training to judge by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

import valuerepair as vr
from valuerepair import outputs
from valuerepair.cli.files import Output
from valuerepair.cli.options import DB, JSON, SEED, question
from valuerepair.cli.verbosity import is_quiet, say
from valuerepair.errors import ValueRepairError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from valuerepair.judge.split import PartCount
    from valuerepair.question import Question
    from valuerepair.store.store import Store


@click.command()
@DB
@click.option(
    "-o", "--output", type=Output(outputs.SPLIT), default="split.json", metavar="FILE", help="The file to write."
)
@click.option("--games", default=0.15, help="Share of games to hold out.")
@click.option("--families", default=0.10, help="Share of positions to hold out by opening or material family.")
@click.option("--archive", multiple=True, metavar="NAME", help="Hold out this whole archive, by its file name.")
@SEED(help="Seed of the draw of games and families.")
@question("|net Q - deep Q| of the candidates to count.", expanded=False)
@JSON
def command(
    db: str,
    output: str,
    games: float,
    families: float,
    archive: tuple[str, ...],
    seed: int,
    question: vr.Question | vr.Worst,
    json: bool,
) -> None:
    """Choose what training never sees, to judge by: games, families of positions, archives.

    Games are drawn by hash, so that adding games moves none to another part. Families of openings and of material are
    drawn until they hold about the share asked for; other positions of their games are neither trained on nor judged
    by. Values play no part in it. The file can be read and edited; vr train, vr expand, vr books, vr export and vr
    remeasure take it as --split. Prints what each part holds.

    \b
    Example:
      vr split -o split.json
      vr split --games 0.2 --families 0 --archive correspondence.pgn
    """
    from dataclasses import asdict
    from json import dumps

    from valuerepair.api.calls import resolved
    from valuerepair.judge.split import choose_split, count_parts, keep_split, parts_lines, write_split
    from valuerepair.store.store import Store

    with Store.open(db) as store:
        asked = resolved(store, question)
        split = choose_split(store, games=games, families=families, archives=archive, seed=seed)
        counts = count_parts(store, split, asked)
        line = _next(store, asked, counts, output)
    write_split(output, split)
    try:
        if outputs.is_stream(output):
            raise ValueRepairError(f"{output}: is no file to read it from")
        with Store.open(db, write=True) as store:
            keep_split(store, output)
    except ValueRepairError as error:
        say(f"{error}; so the store does not know of {output}: name it to every command by --split")
    if json:
        parts = {name: asdict(count) for name, count in counts.items()}
        click.echo(dumps({"output": output, "split": asdict(split), "parts": parts}, indent=2, ensure_ascii=False))
    elif not is_quiet():
        click.echo(
            "\n".join([f"{output}: {split}", *parts_lines(counts, asked.threshold), *line]),
            err=outputs.is_stream(output),
        )


def _next(store: Store, asked: Question, counts: Mapping[str, PartCount], output: str) -> list[str]:
    """What to do with the candidates of the part ``train``: look around them, or, where that takes another engine or
    a net that is not at hand, write a book of them."""
    from valuerepair.judge.split import PARTS, TRAIN
    from valuerepair.runs.same_oracle import can_search_again
    from valuerepair.runs.summary import next_command
    from valuerepair.store.files import from_here

    if not counts[PARTS[TRAIN]].candidates:
        return []
    pair = store.pick(asked.net, asked.oracle)
    name = "vr expand" if can_search_again(store, *pair) else "vr books"
    alpha, calibrated = store.alpha(*pair, asked.alpha), asked.calibration == "fitted"
    words = (store.path, store.pair_options(*pair), asked.threshold, alpha, asked.q_from)
    return [f"next: {next_command(name, *words, calibrated=calibrated, split=from_here(output))}"]
