"""What the matches of the proof came to: `python -m benchmarks.proof.matches`, from their games."""

from __future__ import annotations

from pathlib import Path

import click

import valuerepair as vr
from benchmarks.proof import tables

AGAINST = ("control", "original")
_LEVEL = 0.95


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder.")
def command(folder: Path, output: Path) -> None:
    """Write matches.csv from the match-control.pgn and match-original.pgn of FOLDER, as far as they are there.

    Elo of the repaired net, with its interval at 95 % by pairs of games.
    """
    import pandas as pd

    rows = []
    for name in AGAINST:
        path = folder / f"match-{name}.pgn"
        if path.exists():
            found = vr.elo(path).one().as_json()
            elo = next(each for each in found["elo"] if each["level"] == _LEVEL)
            rows.append(
                {
                    "against": name,
                    "games": found["games"],
                    **{k: found["score"][k] for k in ("wins", "draws", "losses")},
                }
                | {"elo": elo["value"], "low": elo["low"], "high": elo["high"]}
            )
    output.mkdir(parents=True, exist_ok=True)
    tables.write_table(pd.DataFrame(rows), output / "matches.csv")
    click.echo(f"{output / 'matches.csv'}: {len(rows)} matches")


if __name__ == "__main__":
    tables.run(command, "matches")
