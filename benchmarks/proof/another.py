"""Another net by the recipe of README's hour: maia-1100, on master games (B1, `another`); and a second round from
the net that this made, on other positions of the same games (B6, `again`).

What `vr repair` says of each by kind of position, and its match; then a match by narrow settings, or against the net of
before the first round; and both on the positions of README's hour, which are of other games, where those are there
(`recipe`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from benchmarks.proof import tables
from benchmarks.proof.arms import ARCHIVES, Step
from benchmarks.proof.player import (
    NARROW,
    NARROW_GAMES,
    RECIPE,
    SCALE_GAMES,
    SCALE_NODES,
    kind_row,
    match_row,
    read_json,
)
from valuerepair.judge.q_scale import for_both
from valuerepair.pipeline.plan import REPAIRED, STORE

ANOTHER, AGAIN = "another", "again"
NET = "maia-1100"
# Of the held-out parts of the split, and of the deeper judge: the files of `vr repair`.
_JUDGED = {"games": "held-out games", "families": "held-out families"}
_SCALE, _PLAYED, _REJUDGED = "scale-old.json", "match-old.json", "rejudged.json"
_NODES, _GAMES, _SEED, _ALPHA = 100, 600, "1", "170"


@dataclass(frozen=True, slots=True)
class Another:
    """`data` has the games and the net, `out` is for all that is made."""

    data: Path
    out: Path

    @property
    def original(self) -> Path:
        return self.data / "nets" / f"{NET}.pb.gz"

    def folder(self, part: str) -> Path:
        return self.out / part

    def net(self, part: str) -> Path:
        """The net that `vr repair` wrote."""
        return self.folder(part) / REPAIRED

    @property
    def narrow(self) -> Path:
        """What `vr match --json` says of both nets of `another`, searched narrowly."""
        return self.out / f"match-{ANOTHER}-narrowest.json"

    @property
    def quick(self) -> Path:
        """Of the net of the second round against the original, for the scale of Q."""
        return self.out / f"match-{AGAIN}-scale.json"

    @property
    def original_played(self) -> Path:
        """Of the same, with Q as steep."""
        return self.out / f"match-{AGAIN}-original.json"

    def others(self, part: str) -> Path:
        """What `vr remeasure --json` says of old and new net on positions of other games."""
        return self.out / f"{part}-others.json"

    def first_round(self, results: Path) -> Iterator[Iterable[Step]]:
        """All of `another`, in phases: what one has made says what is in the next."""
        yield [self._repaired(ANOTHER, self.original)]
        scale = self.folder(ANOTHER) / _SCALE
        if not scale.exists():
            return
        yield [self._match(ANOTHER, self.narrow, NARROW_GAMES, _sides_at(_NODES, scale, f",{NARROW}"))]
        yield self._judged_elsewhere(ANOTHER, self.original)
        yield [_tables(self.out, results)]

    def second_round(self, results: Path) -> Iterator[Iterable[Step]]:
        """All of `again`."""
        yield [self._repaired(AGAIN, self.net(ANOTHER))]
        yield [self._match(AGAIN, self.quick, SCALE_GAMES, [f",nodes={SCALE_NODES}"] * 2)]
        if not self.quick.exists():
            return
        yield [self._match(AGAIN, self.original_played, _GAMES, _sides_at(_NODES, self.quick))]
        yield self._judged_elsewhere(AGAIN, self.net(ANOTHER))
        yield [_tables(self.out, results)]

    def _repaired(self, part: str, old: Path) -> Step:
        words = ["repair", str(self.data / "pgn" / ARCHIVES[-1][0]), "--net", str(old), "-o", str(self.folder(part))]
        return Step(part, part, self.net(part), words)

    def _match(self, part: str, output: Path, games: int, settings: Iterable[str]) -> Step:
        """The net of the part against the original, with the settings of each."""
        sides = [f"net={net}{more}" for net, more in zip((self.net(part), self.original), settings, strict=True)]
        words = ["match", *sides, "--games", str(games), "--seed", _SEED]
        return Step(part, output.stem, output, [*words, "-o", str(output.with_suffix(".pgn")), "--json"], saves=True)

    def _judged_elsewhere(self, part: str, old: Path) -> Iterator[Step]:
        if not (store := self.out / RECIPE / STORE).exists():
            return
        words = ["remeasure", "--db", str(store), "--net", str(old), "--net", str(self.net(part)), "--alpha", _ALPHA]
        output = self.others(part)
        yield Step(part, output.stem, output, [*words, "--json"], saves=True)


def _sides_at(nodes: int, scale: Path, more: str = "") -> list[str]:
    """Settings of new and old net, their Q as steep in the positions of a match."""
    scales = for_both(float(read_json(scale)["q_scale"]["value"]))
    return [f",nodes={nodes},q_scale={scale:.3f}{more}" for scale in scales]


def _tables(out: Path, results: Path) -> Step:
    words = ["tables", str(out), "-o", str(results)]
    return Step("measure", "another-tables", results / "another.done", words, "benchmarks.proof.another")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def command() -> None:
    """What was measured of another net."""


@command.command("tables")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder.")
def write_tables(folder: Path, output: Path) -> None:
    """Write another-kinds.csv, another-matches.csv, again-kinds.csv and so on, of what is there of FOLDER."""
    import pandas as pd

    another = Another(Path(), folder)
    beyond = {ANOTHER: {"narrowest": another.narrow}, AGAIN: {"original": another.original_played}}
    for part, matches in beyond.items():
        if not another.net(part).exists():
            continue
        tables.write_table(pd.DataFrame(_kinds(another, part)), output / f"{part}-kinds.csv")
        played = {part: another.folder(part) / _PLAYED} | {f"{part}-{name}": path for name, path in matches.items()}
        rows = [match_row(name, path) for name, path in played.items() if path.exists()]
        tables.write_table(pd.DataFrame(rows), output / f"{part}-matches.csv")


def _kinds(another: Another, part: str) -> Iterator[dict[str, Any]]:
    """Rows of what `vr repair` and `vr remeasure` say of the new net, by kind of position."""
    judged = {another.folder(part) / f"{name}.json": words for name, words in _JUDGED.items()}
    judged[another.others(part)] = "another archive"
    name, net = NET if part == ANOTHER else f"{NET}, {part}", another.net(part)
    for path, words in judged.items():
        if path.exists():
            for row in read_json(path)["comparisons"][0]["by_kind"]:
                yield kind_row(name, net, "first", row) | {"judge": words}
    for row in read_json(another.folder(part) / _REJUDGED)["rejudged"]["comparisons"][0]["by_kind"]:
        yield kind_row(name, net, "deeper", row)


if __name__ == "__main__":
    tables.run(command, ANOTHER)
