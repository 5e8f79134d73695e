"""Does `vr repair` repair? Nets, archives and seeds in, the table of README.md ("Does it work?") out, as Markdown.

    python -m benchmarks.repair_table data/wild.pgn.zst data/games.pgn.zst --net maia-1900 --seed 0 --seed 1 -o table

Each net is repaired with each seed. Old and new net then play two matches: with lc0's default settings, and with a
narrower search. Both nets of a match are searched equally broadly, by the scale of Q that a quick match tells. Each
step is a command of `vr` in a folder of its own, is printed before it runs, and resumes: stop with Ctrl-C, and the same
command continues. An hour for each net and seed, and some three for its matches, on two cores.
"""

from __future__ import annotations

import json
import shlex
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import click
from scipy.stats import t as student

SCALE_NODES, SCALE_GAMES = 5, 200  # of the quick match
LEVEL = 0.95
NARROW = "cpuct=0.62,fpu_value=0.12"  # by which maia-1900 plays best: docs/results.md
HEADER = """\
| net | trained on | better judge? | Elo, lc0's default settings | Elo, narrower search |
|---|---|---|---|---|"""


@dataclass(frozen=True, slots=True)
class Interval:
    """A difference in Elo with its 95 % interval; an end is None where it is infinite."""

    value: float | None
    low: float | None
    high: float | None

    def __str__(self) -> str:
        """As in README.md: bold if the interval excludes 0."""
        value, low, high = (
            "infinite" if number is None else f"{number:+.0f}".replace("-", "−")
            for number in (self.value, self.low, self.high)
        )
        text = f"{value} ({low} to {high})"
        shown = (self.low is not None and self.low > 0) or (self.high is not None and self.high < 0)
        return f"**{text}**" if shown else text


@dataclass(frozen=True, slots=True)
class Row:
    """What one repair was worth. `judge` is what `vr repair` says of the claim "better judge"."""

    net: str
    seed: int
    judge: str
    default: Interval
    narrow: Interval


@dataclass(frozen=True, slots=True)
class Experiment:
    """What is asked: the archives to learn from, sizes, and how matches are played; `program` are the words of `vr`."""

    archives: Sequence[str]
    folder: Path
    repair: Sequence[str]
    games: int
    nodes: int
    narrow: str
    openings: Sequence[str]
    program: Sequence[str]

    def row(self, net: str, seed: int) -> Row:
        """Repairs a net and plays its two matches, or goes on where an earlier call was stopped.

        Raises click.ClickException if a command fails.
        """
        folder = self.folder / f"{name_of(net)}-{seed}"
        words = ["repair", *self.archives, "-o", str(folder), "--net", net, "--seed", str(seed), *self.repair]
        judge = claim(self.run(words), "better judge")
        new = str(folder / "repaired.pb.gz")
        quick = self.match(folder / "quick.pgn", new, net, [f"nodes={SCALE_NODES}"] * 2, SCALE_GAMES, seed)
        sides = [f"nodes={self.nodes},q_scale={scale:.3f}" for scale in both_scales(quick["q_scale"]["value"])]
        default = self.match(folder / "default.pgn", new, net, sides, self.games, seed)
        sides = [f"{side},{self.narrow}" for side in sides]
        narrow = self.match(folder / "narrow.pgn", new, net, sides, self.games, seed)
        return Row(name_of(net), seed, judge, elo_of(default), elo_of(narrow))

    def match(self, pgn: Path, new: str, old: str, sides: Sequence[str], games: int, seed: int) -> Any:
        """What `vr match --json` prints of a match of the new net against the old one; its games are kept in `pgn`."""
        players = [f"net={net},{side}" for net, side in zip((new, old), sides, strict=True)]
        words = ["match", *players, "--games", str(games), "--seed", str(seed), *self.openings, "-o", str(pgn)]
        return json.loads(self.run([*words, "--json"]))

    def run(self, words: Sequence[str]) -> str:
        """What a command of `vr` prints; progress and errors go to the terminal."""
        click.echo(f"$ {shlex.join(['vr', *words])}", err=True)
        done = subprocess.run([*self.program, *words], stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise click.ClickException(
                f"vr {words[0]} ended with exit code {done.returncode}; the same command continues"
            )
        return done.stdout


def name_of(net: str) -> str:
    """A net's name without folder and suffixes."""
    return Path(net).name.split(".pb")[0].split(".onnx")[0]


def claim(printed: str, what: str) -> str:
    """Whether `vr repair` says that something is shown: "shown" or "not shown"."""
    for line in printed.splitlines():
        head, _, rest = line.partition(":")
        if head == what:
            return rest.partition(";")[0].strip()
    raise click.ClickException(f"vr repair printed no line {what!r}")


def both_scales(q_scale: float) -> tuple[float, float]:
    """`q_scale` of the new and of the old net, from that which makes the new one's Q as steep as the old one's.

    The flatter net keeps its Q, because a search clips a Q beyond 1.
    """
    return min(q_scale, 1.0), min(1 / q_scale, 1.0)


def elo_of(match: Any) -> Interval:
    """Elo of a match with its 95 % interval."""
    elo = next(elo for elo in match["elo"] if elo["level"] == LEVEL)
    return Interval(elo["value"], elo["low"], elo["high"])


def mean_of(intervals: Sequence[Interval]) -> Interval:
    """The mean over seeds. Its interval is Student's t of the seeds' values, so it counts both games and seeds."""
    values = [interval.value for interval in intervals if interval.value is not None]
    if len(values) < len(intervals):
        return Interval(None, None, None)
    mean, count = statistics.fmean(values), len(values)
    half = float(student.ppf((1 + LEVEL) / 2, count - 1)) * statistics.stdev(values) / count**0.5
    return Interval(mean, mean - half, mean + half)


def table(rows: Sequence[Row], trained_on: str) -> str:
    """The table of README.md: a row for each net and seed and, of a net with several seeds, one for their mean."""
    lines = [HEADER]
    for net, group in groupby(rows, lambda row: row.net):
        of_net = list(group)
        lines += [
            f"| {net}, seed {row.seed} | {trained_on} | {row.judge} | {row.default} | {row.narrow} |" for row in of_net
        ]
        if len(of_net) > 1:
            shown = sum(row.judge == "shown" for row in of_net)
            means = mean_of([row.default for row in of_net]), mean_of([row.narrow for row in of_net])
            judge = f"shown in {shown} of {len(of_net)}"
            lines.append(f"| {net}, mean of {len(of_net)} seeds | {trained_on} | {judge} | {means[0]} | {means[1]} |")
    return "\n".join(lines) + "\n"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("archives", nargs=-1, required=True)
@click.option("--net", "nets", multiple=True, default=["maia-1900"], show_default=True, help="A net to repair.")
@click.option("--seed", "seeds", type=int, multiple=True, default=[0], show_default=True, help="A seed for each net.")
@click.option("-o", "--output", "folder", type=click.Path(path_type=Path), default=Path("table"), show_default=True)
@click.option("--positions", type=int, default=None, help="As in vr repair.")
@click.option("--deep", default=None, help="As in vr repair.")
@click.option("--games", default=500, show_default=True, help="Games of each match.")
@click.option("--nodes", default=100, show_default=True, help="Nodes of each move.")
@click.option("--narrow", default=NARROW, show_default=True, help="Settings of both nets in the second match.")
@click.option("--openings", default=None, help="As in vr match; held-out games are best.")
@click.option("--program", default=shlex.join([sys.executable, "-m", "valuerepair"]), help="The vr to run.")
def command(
    archives: tuple[str, ...],
    nets: tuple[str, ...],
    seeds: tuple[int, ...],
    folder: Path,
    positions: int | None,
    deep: str | None,
    games: int,
    nodes: int,
    narrow: str,
    openings: str | None,
    program: str,
) -> None:
    """Repair each net with each seed, play two matches of each, and print README's table."""
    sizes = ["--positions", str(positions)] if positions else []
    judge = ["--deep", deep] if deep else []
    book = ["--openings", openings] if openings else []
    folder.mkdir(parents=True, exist_ok=True)
    asked = Experiment(archives, folder, [*sizes, *judge], games, nodes, narrow, book, shlex.split(program))
    rows = [asked.row(net, seed) for net in nets for seed in seeds]
    click.echo(table(rows, ", ".join(Path(archive).name for archive in archives)), nl=False)


if __name__ == "__main__":
    command(prog_name="python -m benchmarks.repair_table")
