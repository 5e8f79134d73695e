"""manifest.json: what a book is made of, so that it can be made again and its files recognised."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from valuerepair import __version__
from valuerepair.books.emit import BookLine
from valuerepair.books.select import BookOptions, Selection


@dataclass(frozen=True, slots=True)
class BookFile:
    """One written file. `plies` are the game plies of its positions: smallest, median and largest."""

    sha256: str
    bytes: int
    positions: int
    games: int
    white_to_move: int
    black_to_move: int
    plies: tuple[int, float, int]
    with_moves: int  # entries that carry moves; the others are a FEN (or the initial position) alone
    from_fen: int  # entries with a FEN tag


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of manifest.json; `files` by name. No time stamp: the same question gives the same bytes."""

    version: str
    net: dict[str, Any]
    oracle: dict[str, Any]
    alpha: dict[str, Any]
    q_from: str
    threshold: float
    maximum: float
    sign: str
    order: str
    form: str
    seed: int
    limit: int | None
    per_game_limit: int | None
    max_abs_deep_q: float | None
    holdout: float
    scored: int
    candidates: int
    left_out: dict[str, int]
    files: dict[str, BookFile]

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"

    def summary(self, directory: str) -> list[str]:
        """What was written, and how lc0 plays it, in lines for a terminal."""
        pgn = {name: file for name, file in self.files.items() if name.endswith(".pgn")}
        q = f"net {self.net['name']}, {self.oracle['label']}, alpha {self.alpha['value']:g} ({self.alpha['origin']})"
        lines = [f"{self.candidates:,} candidates at {self.threshold:g} of {self.scored:,} scored positions: {q}"]
        if self.left_out:
            lines.append("left out: " + ", ".join(f"{reason} {n:,}" for reason, n in self.left_out.items()))
        for name, file in pgn.items():
            sides = f"{file.white_to_move:,} white and {file.black_to_move:,} black to move"
            lines.append(f"{directory}/{name}: {file.positions:,} positions of {file.games:,} games, {sides}")
        book = f"--weights=NET.pb.gz --openings-pgn={directory}/book.pgn --games=-2"  # once through the book
        lines.append(f"next: lc0 selfplay {book} --history-fill-new={self.net['history_fill']} --visits=800 --training")
        return lines


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
        order=options.order,
        form=options.form,
        seed=options.seed,
        limit=options.limit,
        per_game_limit=options.per_game_limit,
        max_abs_deep_q=options.max_abs_deep_q,
        holdout=options.holdout,
        scored=selection.scored,
        candidates=selection.candidates,
        left_out=selection.left_out,
        files=files,
    )


def describe_file(content: bytes, lines: Sequence[BookLine], plies: Sequence[int], games: int) -> BookFile:
    """The facts of one file whose entries are `lines`."""
    black = sum(line.fen.split(" ", 2)[1] == "b" for line in lines)
    return BookFile(
        sha256=hashlib.sha256(content).hexdigest(),
        bytes=len(content),
        positions=len(lines),
        games=games,
        white_to_move=len(lines) - black,
        black_to_move=black,
        plies=(min(plies), float(median(plies)), max(plies)),
        with_moves=sum(bool(line.sans) for line in lines),
        from_fen=sum(line.needs_fen for line in lines),
    )
