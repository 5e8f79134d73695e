"""`vr split`: what is kept from training to judge by."""

from __future__ import annotations

import click

from valuerepair.cli.options import DB, FILE, JSON, SEED, QuestionOptions, question
from valuerepair.cli.verbosity import is_quiet


@click.command()
@DB
@click.option("-o", "--output", type=FILE, default="split.json", metavar="FILE", help="The file to write.")
@click.option("--games", default=0.15, help="Share of games to hold out.")
@click.option("--families", default=0.10, help="Share of positions to hold out by opening or material family.")
@click.option("--archive", multiple=True, metavar="NAME", help="Hold out this whole archive, by its file name.")
@SEED(help="Seed of the draw of games and families.")
@question("|net Q - deep Q| of the candidates to count.")
@JSON
def command(
    db: str,
    output: str,
    games: float,
    families: float,
    archive: tuple[str, ...],
    seed: int,
    question: QuestionOptions,
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

    from valuerepair.judge.split import choose_split, count_parts, parts_lines, write_split
    from valuerepair.store.store import Store

    with Store.open(db) as store:
        asked = question.resolved(store)
        split = choose_split(store, games=games, families=families, archives=archive, seed=seed)
        counts = count_parts(store, split, asked)
    write_split(output, split)
    if json:
        parts = {name: asdict(count) for name, count in counts.items()}
        click.echo(dumps({"output": output, "split": asdict(split), "parts": parts}, indent=2, ensure_ascii=False))
    elif not is_quiet():
        click.echo("\n".join([f"{output}: {split}", *parts_lines(counts, asked.threshold)]))
