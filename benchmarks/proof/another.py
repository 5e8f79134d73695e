"""Another net by the recipe of README's hour (B1, `another`): maia-1100, on master games.

What `vr repair` says of it by kind of position, and its match; then both nets searched narrowly, and on the positions
of README's hour, which are of other games, where those are there (`recipe`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from benchmarks.proof import tables
from benchmarks.proof.arms import ARCHIVES, Step
from benchmarks.proof.player import NARROW, NARROW_GAMES, RECIPE, kind_row, match_row, read_json
from valuerepair.judge.q_scale import for_both
from valuerepair.pipeline.plan import REPAIRED, STORE

PART = "another"
NET = "maia-1100"
# Of the held-out parts of the split, and of the deeper judge: the files of `vr repair`.
_JUDGED = {"games": "held-out games", "families": "held-out families"}
_SCALE, _PLAYED, _REJUDGED = "scale-old.json", "match-old.json", "rejudged.json"
_NODES, _SEED, _ALPHA = 100, "1", "170"


@dataclass(frozen=True, slots=True)
class Another:
    """`data` has the games and the net, `out` is for all that is made."""

    data: Path
    out: Path

    @property
    def folder(self) -> Path:
        return self.out / PART

    @property
    def narrow(self) -> Path:
        """What `vr match --json` says of both nets, searched narrowly."""
        return self.out / f"match-{PART}-narrowest.json"

    @property
    def others(self) -> Path:
        """What `vr remeasure --json` says of both nets on positions of other games."""
        return self.out / f"{PART}-others.json"

    def phases(self, results: Path) -> Iterator[Iterable[Step]]:
        """All of it, in phases: what one has made says what is in the next."""
        old, new = str(self.data / "nets" / f"{NET}.pb.gz"), self.folder / REPAIRED
        words = ["repair", str(self.data / "pgn" / ARCHIVES[-1][0]), "--net", old, "-o", str(self.folder)]
        yield [Step(PART, PART, new, words)]
        if not (self.folder / _SCALE).exists():
            return
        scales = for_both(float(read_json(self.folder / _SCALE)["q_scale"]["value"]))
        sides = [
            f"net={net},nodes={_NODES},q_scale={scale:.3f},{NARROW}"
            for net, scale in zip((new, old), scales, strict=True)
        ]
        words = ["match", *sides, "--games", str(NARROW_GAMES), "--seed", _SEED]
        words += ["-o", str(self.narrow.with_suffix(".pgn")), "--json"]
        yield [Step(PART, self.narrow.stem, self.narrow, words, saves=True)]
        if (store := self.out / RECIPE / STORE).exists():
            words = ["remeasure", "--db", str(store), "--net", old, "--net", str(new), "--alpha", _ALPHA, "--json"]
            yield [Step(PART, self.others.stem, self.others, words, saves=True)]
        made = ["tables", str(self.out), "-o", str(results)]
        yield [Step("measure", "another-tables", results / "another.done", made, "benchmarks.proof.another")]


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def command() -> None:
    """What was measured of another net."""


@command.command("tables")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder.")
def write_tables(folder: Path, output: Path) -> None:
    """Write another-kinds.csv and another-matches.csv, of what is there of FOLDER."""
    import pandas as pd

    another = Another(Path(), folder)
    net = another.folder / REPAIRED
    judged = {another.folder / f"{part}.json": words for part, words in _JUDGED.items()}
    judged[another.others] = "another archive"
    rows = [
        kind_row(NET, net, "first", row) | {"judge": words}
        for path, words in judged.items()
        if path.exists()
        for row in read_json(path)["comparisons"][0]["by_kind"]
    ]
    deeper = read_json(another.folder / _REJUDGED)["rejudged"]["comparisons"][0]["by_kind"]
    rows += [kind_row(NET, net, "deeper", row) for row in deeper]
    matches = {PART: another.folder / _PLAYED, f"{PART}-narrowest": another.narrow}
    played = [match_row(name, path) for name, path in matches.items() if path.exists()]
    tables.write_table(pd.DataFrame(rows), output / f"{PART}-kinds.csv")
    tables.write_table(pd.DataFrame(played), output / f"{PART}-matches.csv")


if __name__ == "__main__":
    tables.run(command, PART)
