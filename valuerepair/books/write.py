"""Writes books: rows -> PGN and EPD text -> files that appear complete or not at all."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import chess
import numpy as np
import pandas as pd

from valuerepair.archives.epd import CE_MATE, CE_MOST
from valuerepair.books.emit import BookLine, book_lines, epd_entry, epd_text, pgn_entry
from valuerepair.books.options import BookOptions
from valuerepair.books.select import HeldOut, choose_rows, game_name, with_book_columns
from valuerepair.chess.positions import STARTPOS_FEN
from valuerepair.chess.values import OWN_Q, Alpha, q_to_cp
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import check_folder, written_whole
from valuerepair.question import Question
from valuerepair.store import db_option, view
from valuerepair.store.columns import both_q
from valuerepair.store.pairs import net_option, pick, reason_missing
from valuerepair.store.parts import split_of
from valuerepair.store.store import Store
from valuerepair.text import formatted, positions_of_games, quantity
from valuerepair.version import __version__

MANIFEST = "manifest.json"
_MOST_LISTED = 3  # candidates in the tag of a parent
# The columns that `pgn_tags` and `epd_operations` use.
_ENTRY_COLUMNS = (
    "event", "date", "white", "black", "source", "game", "ply", "net_q", "deep_q", "disagreement", "cp",
    "mate", "book_weight", "plies_before", "parent_of",
)  # fmt: skip
# The files of a book, by their ending: the kind of the file, and the function that writes an entry.
_FORMATS: dict[str, Callable[[BookLine, dict[Hashable, Any]], str]] = {
    "pgn": lambda line, row: pgn_entry(line, pgn_tags(row)),
    "epd": lambda line, row: epd_entry(line.fen, epd_operations(row)) + "\n",
}


def write_books(
    store: Store,
    directory: str | Path,
    question: Question | None = None,
    options: BookOptions | None = None,
    on_entry: Callable[[], None] = lambda: None,
) -> Manifest:
    """Writes book.pgn, book.epd and manifest.json into `directory`, made if missing.

    Entry n of the PGN and line n of the EPD name the same position. The new files replace earlier ones at the end, the
    manifest last. Positions of any origin are in it, but only those of the part ``train``. Calls `on_entry` after each
    entry. Raises UsageError, and ValueRepairError if there is nothing to write or the folder is not writable.
    """
    question, options = replace(question or Question(), beside=True), options or BookOptions()
    with store.snapshot():
        every = view.candidates(store, question)
        attrs = {str(name): value for name, value in every.attrs.items()}
        pair = pick(store, attrs["net"]["sha256"], attrs["oracle"]["digest"])
        net_q, deep_q = both_q(store, pair, attrs["alpha"]["value"], question.q_from, beside=True)
        candidates, confirmed = with_book_columns(store, every, options)
        held, split = HeldOut.of(store), split_of(store)
    selection = choose_rows(candidates, options, net_q - deep_q, question.threshold, held)
    rows = selection.book
    starts, movetexts, fens = (rows[column].tolist() for column in ("start_fen", "moves", "fen"))
    lines, records = book_lines(starts, [text.split() for text in movetexts], fens, on_entry), _records(rows)
    contents: dict[str, bytes] = {}
    files: dict[str, BookFile] = {}
    for ending, entry_text in _FORMATS.items():
        content = "".join(entry_text(line, row) for line, row in zip(lines, records, strict=True)).encode()
        contents[f"book.{ending}"] = content
        files[f"book.{ending}"] = describe_file(content, lines, rows["ply"].tolist(), int(rows["game_id"].nunique()))
    manifest = Manifest(
        version=f"valuerepair {__version__}",
        **{name: attrs[name] for name in ("net", "oracle", "alpha", "q_from")},
        threshold=question.threshold,
        confirmed=confirmed.get("confirmed"),
        labels=list(options.labels),
        limit=options.limit,
        split=None if split is None else str(split),
        scored=selection.scored,
        candidates=selection.candidates,
        left_out=selection.left_out,
        parents=asdict(selection.parents),
        files=files,
    )
    contents[MANIFEST] = manifest.to_json().encode()
    _replace_all(Path(directory), contents)
    return manifest


def _records(rows: pd.DataFrame) -> list[dict[Hashable, Any]]:
    """The columns that entries are made of, one dict a row; without the moves, which take much memory."""
    names = [name for name in _ENTRY_COLUMNS if name in rows]
    cells = zip(*(rows[name].tolist() for name in names), strict=True)
    return [dict(zip(names, row, strict=True)) for row in cells]


def game_tags(row: Mapping[Any, Any]) -> dict[str, str]:
    """The tags that all positions of a game share: the seven standard ones, and its archive and number."""
    return {
        "Event": _text(row, "event"),
        "Site": "?",
        "Date": _text(row, "date", "????.??.??"),
        "Round": "?",
        "White": _text(row, "white"),
        "Black": _text(row, "black"),
        "Result": "*",
        "Source": game_name(row),
    }


def pgn_tags(row: Mapping[Any, Any]) -> dict[str, str]:
    """The tags of the game, then the position's values, its weight, and the candidates that it is a parent of."""
    tags = game_tags(row)
    names = {"NetQ": "net_q", "DeepQ": "deep_q", "Disagreement": "disagreement"}
    if not row["plies_before"]:
        tags |= {tag: formatted(row[name], "+.3f") for tag, name in names.items()}
    tags["Weight"] = _weight(row)
    if row["parent_of"]:
        tags["ParentOf"] = _parent_of(row)
    return tags


def epd_operations(row: Mapping[Any, Any]) -> dict[str, str | int]:
    """`id`, and `ce` or `dm` of the judge; in comments the values (`c0`), the weight (`c1`) and the candidates that it
    is a parent of (`c2`).

    `ce` is in centipawns; `dm` is written if the side to move mates. A parent has no values.
    """
    operations: dict[str, str | int] = {"id": f"{game_name(row)} ply {row['ply']}", "c1": f"weight {_weight(row)}"}
    if row["parent_of"]:
        operations["c2"] = _parent_of(row)
    if row["plies_before"]:
        return operations
    names = {"net_q": "net_q", "deep_q": "deep_q", "difference": "disagreement"}
    operations["c0"] = " ".join(f"{word} {formatted(row[name], '+.3f')}" for word, name in names.items())
    if pd.notna(row.get("cp")):
        operations["ce"] = int(row["cp"])
    elif pd.notna(row.get("mate")) and row["mate"] > 0:
        operations["dm"] = int(row["mate"])
    return operations


def candidate_epd(row: Mapping[Any, Any], alpha: Mapping[str, Any]) -> str:
    """A row of `view.candidates` as a line of EPD: `id` (game and ply), `bm` (the judge's best move), `ce` or `dm`.

    `dm` is written if the side to move mates; if it is mated, `ce` is that of the EPD standard. The `ce` of a judge
    whose Q is no function of its centipawns is computed from its Q. `alpha` is that of the frame's attrs. Raises
    ValueRepairError for a move that cannot be played.
    """
    board = chess.Board(row["fen"])
    operations: dict[str, Any] = {"hmvc": board.halfmove_clock, "fmvn": board.fullmove_number}
    operations["id"] = epd_text(f"{game_name(row)} ply {row['ply']}")
    if isinstance(row["deep_best"], str):
        try:
            operations["bm"] = [board.parse_uci(row["deep_best"])]
        except ValueError as error:
            raise ValueRepairError(f"a stored move cannot be played: {error}; mine its game again") from None
    mate, cp = row["mate"], row["cp"]
    if pd.notna(mate):
        operations |= {"dm": int(mate)} if mate > 0 else {"ce": -max(CE_MATE + 2 * int(mate), CE_MOST + 1)}
    else:
        if pd.isna(cp) or alpha["origin"] == OWN_Q:
            cp = q_to_cp(row["deep_q"], alpha["value"])
        operations["ce"] = int(np.clip(np.rint(cp), -CE_MOST, CE_MOST))
    line: str = board.epd(**dict(sorted(operations.items())))
    return line + "\n"


def _weight(row: Mapping[Any, Any]) -> str:
    return f"{row['book_weight']:.4f}"


def _parent_of(row: Mapping[Any, Any]) -> str:
    """The candidates that a position is a parent of: those that fit into a tag, and the number of others."""
    candidates = row["parent_of"].split(", ")
    first = ", ".join(candidates[:_MOST_LISTED])
    more = len(candidates) - _MOST_LISTED
    return f"{first} and {more} more" if more > 0 else first


def _text(row: Mapping[Any, Any], name: str, missing: str = "?") -> str:
    value = row.get(name)
    return value if isinstance(value, str) and value.strip() else missing


def _replace_all(directory: Path, contents: dict[str, bytes]) -> None:
    is_new = not directory.exists()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():  # the manifest comes last: it names the others
            with written_whole(directory / name) as partial:
                partial.write_bytes(content)
    except OSError as error:
        if is_new:
            with suppress(OSError):
                directory.rmdir()
        raise ValueRepairError(f"{directory}: cannot write the book: {error.strerror or error}") from None


def check_books(directory: str | Path) -> None:
    """Raises UsageError if `write_books` would not replace the files in the folder, or cannot write there.

    It replaces those of a book with its manifest.
    """
    check_folder(directory)
    folder = Path(directory)
    if not (folder / MANIFEST).exists():
        for ending in _FORMATS:
            if (folder / f"book.{ending}").exists():
                raise UsageError(f"{folder}/book.{ending}: already exists; remove it, or give another folder")


@dataclass(frozen=True, slots=True)
class BookFile:
    """A file of a book. `positions` counts its entries; `plies` are the smallest, median and largest ply in the game of
    an entry."""

    sha256: str
    bytes: int
    positions: int
    games: int
    white_to_move: int
    black_to_move: int
    plies: tuple[int, float, int]
    with_moves: int  # entries with moves; the others are only a FEN (or the initial position)
    from_fen: int  # entries with a FEN tag


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of manifest.json, without a time stamp: the same question gives the same bytes.

    `files` has each file by its name, `parents` the fields of a `ParentCount`; `split` says in words what is held out.
    """

    version: str
    net: dict[str, Any]
    oracle: dict[str, Any]
    alpha: dict[str, Any]
    q_from: str
    threshold: float
    confirmed: dict[str, Any] | None
    labels: list[str]
    limit: int | None
    split: str | None
    scored: int
    candidates: int
    left_out: dict[str, int]
    parents: dict[str, Any]
    files: dict[str, BookFile]

    def to_json(self) -> str:
        """The text of manifest.json."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"

    def summary(self, directory: str) -> list[str]:
        """The contents of the files, in lines for a terminal."""
        values = f"net {self.net['name']}, {self.oracle['label']}, {Alpha(**self.alpha).source(self.q_from)}"
        candidates, scored = quantity(self.candidates, "candidate"), quantity(self.scored, "scored position")
        lines = [f"{candidates} at {self.threshold:g} of {scored}: {values}"]
        if self.left_out:
            lines.append("left out: " + ", ".join(f"{reason} {n:,}" for reason, n in self.left_out.items()))
        lines += self._parent_lines()
        if self.split is not None:
            lines.append(self.split)
        file = self.files["book.pgn"]
        sides = f"{file.white_to_move:,} white and {file.black_to_move:,} black to move"
        return [*lines, f"{directory}/book.pgn: {positions_of_games(file.positions, file.games)}, {sides}"]

    def _parent_lines(self) -> list[str]:
        asked, written, left_out = (self.parents[name] for name in ("asked", "written", "left_out"))
        if not asked:
            return []
        reasons = "".join(f", {reason} {n:,}" for reason, n in left_out.items())
        return [f"parents: {written:,} written of {asked:,}{reasons}"]


@dataclass(frozen=True, slots=True)
class WrittenBooks:
    """A book in a `directory`, and for a terminal what to do next."""

    directory: str
    manifest: Manifest
    next_steps: Sequence[str]

    def lines(self) -> list[str]:
        """The contents of the files, and what to do next."""
        return [*self.manifest.summary(self.directory), *self.next_steps]


def what_next(store: Store, manifest: Manifest, directory: str) -> list[str]:
    """What to do next with a book, in lines for a terminal; ``next:`` is followed by a command."""
    book, sha256 = shlex.quote(f"{directory}/book.pgn"), manifest.net["sha256"]
    net = net_option(store, sha256)
    words = ["vr selfplay", book, "--net", "FILE" if net is None else shlex.quote(net), "--nodes 800"]
    games, chunks = "selfplay.pgn", "book-chunks"
    if Path(games).exists() or Path(chunks).exists():  # of another book, whose games must not mix with these
        digest = manifest.files["book.pgn"].sha256[:6]
        games, chunks = f"selfplay-{digest}.pgn", f"{chunks}-{digest}"
        words += ["-o", games]
    words += ["--training", chunks, *map(shlex.quote, db_option(store.path))]
    if net is None:
        return [
            f"{reason_missing(store, manifest.net['name'], sha256)}: to play games from the book, {' '.join(words)}"
        ]
    return ["to let lc0 play, add --engine lc0 to the next command", f"next: {' '.join(words)}"]


def describe_file(content: bytes, lines: Sequence[BookLine], plies: Sequence[int], games: int) -> BookFile:
    """Describes a file with the entries `lines`, which have these `plies` in their games."""
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
        from_fen=sum(line.start_fen != STARTPOS_FEN for line in lines),
    )
