"""manifest.json: what a book is made of, so that it can be made again and its files recognised."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import pandas as pd

from valuerepair import __version__
from valuerepair.books.emit import BookLine
from valuerepair.books.options import BookOptions
from valuerepair.books.rows import games_of
from valuerepair.books.select import Selection
from valuerepair.candidates.parents import parent_weight
from valuerepair.candidates.weights import describe, described
from valuerepair.values import Alpha

_NAMED = 6  # held families in the summary


@dataclass(frozen=True, slots=True)
class BookFile:
    """One written file. `plies` are the game plies of its entries: smallest, median and largest.

    `positions` counts entries, `distinct` the positions that they name.
    """

    sha256: str
    bytes: int
    positions: int
    distinct: int
    games: int
    white_to_move: int
    black_to_move: int
    plies: tuple[int, float, int]
    with_moves: int  # entries that carry moves; the others are a FEN (or the initial position) alone
    from_fen: int  # entries with a FEN tag


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of manifest.json; `files` by name. No time stamp: the same question gives the same bytes.

    `parents` is a `ParentCount`; `diversity` holds `candidates.weights.describe` of book and holdout, over distinct
    positions; `weights` says what they are a function of.
    """

    version: str
    net: dict[str, Any]
    oracle: dict[str, Any]
    alpha: dict[str, Any]
    q_from: str
    threshold: float
    maximum: float
    sign: str
    confirmed: dict[str, Any] | None
    labels: list[str]
    order: str
    form: str
    seed: int
    limit: int | None
    per_game_limit: int | None
    near_duplicates: str
    max_abs_deep_q: float | None
    holdout: float
    holdout_by: str
    held_families: list[str]
    weights: dict[str, Any]
    repeat_by_weight: int | None
    scored: int
    candidates: int
    left_out: dict[str, int]
    parents: dict[str, Any]
    diversity: dict[str, Any]
    files: dict[str, BookFile]

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"

    def summary(self, directory: str) -> list[str]:
        """What was written, and how lc0 plays it, in lines for a terminal."""
        pgn = {name: file for name, file in self.files.items() if name.endswith(".pgn")}
        q = f"net {self.net['name']}, {self.oracle['label']}, {Alpha(**self.alpha).source(self.q_from, 'g')}"
        lines = [f"{self.candidates:,} candidates at {self.threshold:g} of {self.scored:,} scored positions: {q}"]
        if self.left_out:
            lines.append("left out: " + ", ".join(f"{reason} {n:,}" for reason, n in self.left_out.items()))
        lines += self._parent_lines()
        if self.held_families:
            lines.append(
                f"held out: {len(self.held_families):,} {self.holdout_by} families, {_some(self.held_families)}"
            )
        for name, file in pgn.items():
            sides = f"{file.white_to_move:,} white and {file.black_to_move:,} black to move"
            entries = "" if file.positions == file.distinct else f"{file.positions:,} entries of "
            lines.append(f"{directory}/{name}: {entries}{file.distinct:,} positions of {file.games:,} games, {sides}")
            lines += [f"  {line}" for line in described(self.diversity[name.removesuffix(".pgn")])]
        fill = "" if self.net["history_fill"] == "fen_only" else f" --history-fill {self.net['history_fill']}"
        book = f"{directory}/book.pgn --net {self.net['name']}{fill}"
        lines.append(f"next: vr selfplay {book} --nodes 800 --training chunks (with --engine lc0 Leela itself plays)")
        return lines

    def _parent_lines(self) -> list[str]:
        asked, written, left_out = (self.parents[name] for name in ("asked", "written", "left_out"))
        if not asked:
            return []
        reasons = "".join(f", {reason} {n:,}" for reason, n in left_out.items())
        return [f"parents: {written:,} written of {asked:,}{reasons}"]


def _some(names: Sequence[str]) -> str:
    """A list of names, cut where it gets long: the manifest has all."""
    shown = ", ".join(names[:_NAMED])
    return f"{shown} and {len(names) - _NAMED:,} more" if len(names) > _NAMED else shown


def make_manifest(
    attrs: dict[str, Any], options: BookOptions, selection: Selection, files: dict[str, BookFile]
) -> Manifest:
    """The manifest of a book from the frame's `attrs` (see `Store.frame`)."""
    return Manifest(
        version=f"valuerepair {__version__}",
        net=attrs["net"],
        oracle=attrs["oracle"],
        alpha=attrs["alpha"],
        q_from=options.q_from,
        threshold=options.threshold,
        maximum=options.maximum,
        sign=options.sign,
        confirmed=attrs.get("confirmed"),
        labels=list(options.labels),
        order=options.order,
        form=options.form,
        seed=options.seed,
        limit=options.limit,
        per_game_limit=options.per_game_limit,
        near_duplicates=options.near_duplicates,
        max_abs_deep_q=options.max_abs_deep_q,
        holdout=options.holdout,
        holdout_by=options.holdout_by,
        held_families=list(selection.held_families),
        weights=_weights(options),
        repeat_by_weight=options.repeat_by_weight,
        scored=selection.scored,
        candidates=selection.candidates,
        left_out=selection.left_out,
        parents=asdict(selection.parents),
        diversity={
            name: _described(rows)
            for name, rows in (("book", selection.book), ("holdout", selection.holdout))
            if len(rows)
        },
        files=files,
    )


def _weights(options: BookOptions) -> dict[str, Any]:
    """What a candidate's weight is, and the shares of it that its parents have, the nearest first."""
    return {
        "candidate": "1 / (1 + exp(-(|disagreement| - threshold) / softness))",
        "softness": options.softness,
        "parents": [parent_weight(1.0, plies) for plies in range(1, options.parents + 1)],
    }


def _described(rows: pd.DataFrame) -> dict[str, Any]:
    families = {kind: rows[f"{kind}_family"].tolist() for kind in ("opening", "material")}
    return describe(rows["book_weight"].to_numpy(), games_of(rows), families)


def describe_file(content: bytes, lines: Sequence[BookLine], plies: Sequence[int], games: int) -> BookFile:
    """The facts of one file whose entries, at game plies `plies`, are `lines`; a repeated entry is the same object."""
    black = sum(line.fen.split(" ", 2)[1] == "b" for line in lines)
    return BookFile(
        sha256=hashlib.sha256(content).hexdigest(),
        bytes=len(content),
        positions=len(lines),
        distinct=len({id(line) for line in lines}),
        games=games,
        white_to_move=len(lines) - black,
        black_to_move=black,
        plies=(min(plies), float(median(plies)), max(plies)),
        with_moves=sum(bool(line.sans) for line in lines),
        from_fen=sum(line.needs_fen for line in lines),
    )
