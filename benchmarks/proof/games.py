"""Games that are learned from and games that are held out, in two files: `python -m benchmarks.proof.games`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import click
import zstandard

from benchmarks.proof.arms import ARCHIVES, Step
from benchmarks.proof.tables import run
from valuerepair.files import written_whole

TRAIN, TEST = "train.pgn", "test.pgn"
_ARCHIVE = ARCHIVES[-1][0]
_HELD_OUT = 10  # every tenth game


def dividing(data: Path, out: Path) -> Step:
    """The step that divides the games of the master archive of `data`."""
    words = [str(data / "pgn" / _ARCHIVE), "--train", str(out / TRAIN), "--test", str(out / TEST)]
    return Step("games", "divide", out / TRAIN, words, "benchmarks.proof.games")


def divide(archive: Path, train: Path, test: Path) -> tuple[int, int]:
    """Writes every tenth game of a .pgn.zst into `test`, the others into `train`. Returns how many each has."""
    with archive.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as stream:
        text: bytes = stream.read()
    cuts = [0, *(at + 1 for at in _places(text, b"\n[Event ")), len(text)]
    games = [text[begin:end] for begin, end in pairwise(cuts) if end > begin]
    test_games = games[::_HELD_OUT]
    train_games = [game for number, game in enumerate(games) if number % _HELD_OUT]
    for path, some in ((test, test_games), (train, train_games)):  # what says that it is done comes last
        with written_whole(path, None) as partial:
            partial.write_bytes(b"".join(some))
    return len(train_games), len(test_games)


def _places(text: bytes, wanted: bytes) -> Iterator[int]:
    at = text.find(wanted)
    while at >= 0:
        yield at
        at = text.find(wanted, at + 1)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.argument("archive", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--train", required=True, type=click.Path(dir_okay=False, path_type=Path), help="PGN.")
@click.option("--test", required=True, type=click.Path(dir_okay=False, path_type=Path), help="PGN.")
def command(archive: Path, train: Path, test: Path) -> None:
    """Divide the games of ARCHIVE, a .pgn.zst: every tenth is held out."""
    learned, held_out = divide(archive, train, test)
    click.echo(f"{train}: {learned:,} games; {test}: {held_out:,}")


if __name__ == "__main__":
    run(command, "games")
