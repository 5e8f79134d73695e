"""The matches of the proof, and what they came to: `python -m benchmarks.proof.matches play|table`."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import click

import valuerepair as vr
from benchmarks.proof import tables
from benchmarks.proof.arms import MATCHES

_LEVEL = 0.95
# Games between two looks at the interval.
_BLOCK = 200


def _nets(path: Path) -> dict[str, str]:
    """Player -> the beginning of the SHA-256 of its net, as the first game has them."""
    head = path.read_text("utf-8").partition("\n\n")[0]
    tags = dict(re.findall(r'^\[(\w+) "(.*)"\]$', head, re.MULTILINE))
    digests = {
        tags.get(colour): re.search(r"sha256:(\w+)", tags.get(f"{colour}Side", "")) for colour in ("White", "Black")
    }
    return {str(name): net[1] for name, net in digests.items() if net}


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def command() -> None:
    """Play the matches of the proof, or write their table."""


@command.command()
@click.argument("sides", nargs=2)
@click.option("--openings", required=True, type=click.Path(dir_okay=False), help="As in vr match.")
@click.option("--device", default="auto", show_default=True, help="As in vr match.")
@click.option("--within", type=float, default=15, show_default=True, help="Elo on each side of the estimate.")
@click.option("--games", type=click.IntRange(min=2), default=2_000, show_default=True, help="At most.")
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="PGN.")
def play(sides: tuple[str, str], openings: str, device: str, within: float, games: int, output: Path) -> None:
    """Play SIDES until the 95 % interval of Elo is narrow enough.

    When it stops depends on the width of the interval alone, not on who leads.
    """
    for so_far in range(_BLOCK, games + _BLOCK, _BLOCK):
        options = ["--openings", openings, "--device", device, "--games", str(min(so_far, games)), "-o", str(output)]
        subprocess.run([sys.executable, "-m", "valuerepair", "match", *sides, *options], check=True)
        elo, _ = vr.elo(output).one().levels[_LEVEL]
        if elo.high - elo.low <= 2 * within:
            return


@command.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder.")
def table(folder: Path, output: Path) -> None:
    """Write matches.csv from the match-NAME.pgn of FOLDER, as far as they are there.

    Elo of the first side, with its interval at 95 % by pairs of games; and the beginnings of both nets' SHA-256.
    """
    import pandas as pd

    rows = []
    for name, (side, other) in MATCHES.items():
        path = folder / f"match-{name}.pgn"
        if path.exists():
            match = vr.elo(path).one()
            elo, _ = match.levels[_LEVEL]
            row = {"side": side, "against": other, "games": match.games, **asdict(match.tally.score)}
            row |= {"elo": elo.value, "low": elo.low, "high": elo.high}
            nets = _nets(path)
            rows.append(row | {f"net_{i}": nets.get(name, "") for i, name in enumerate(match.names, 1)})
    output.mkdir(parents=True, exist_ok=True)
    tables.write_table(pd.DataFrame(rows), output / "matches.csv")
    click.echo(f"{output / 'matches.csv'}: {len(rows)} matches")


if __name__ == "__main__":
    tables.run(command, "matches")
