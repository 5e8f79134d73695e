"""Writes books: rows -> PGN and EPD text -> files that appear complete or not at all."""

from __future__ import annotations

import hashlib
import json
import logging
import shlex
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median
from typing import Any

import chess
import msgspec
import numpy as np
import pandas as pd

from valuerepair import outputs
from valuerepair.archives.epd import CE_MATE, CE_MOST
from valuerepair.books.emit import BookLine, book_lines, epd_entry, epd_text, pgn_entry
from valuerepair.books.options import BookOptions
from valuerepair.books.select import Selection, choose_rows, game_name, parent_weight, with_book_columns
from valuerepair.chess.positions import STARTPOS_FEN
from valuerepair.chess.values import OWN_Q, Alpha, q_to_cp
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import written_together
from valuerepair.inputs import read_json
from valuerepair.judge.split import PARTS, TRAIN, Split, warning_of_held_out
from valuerepair.judge.weights import diversity_lines, diversity_of
from valuerepair.nets.planes import FILLS
from valuerepair.question import Question
from valuerepair.store import db_option
from valuerepair.store.columns import GAME_KEY
from valuerepair.store.files import net_option, reason_missing
from valuerepair.store.store import Store
from valuerepair.text import formatted, positions_of_games, quantity
from valuerepair.version import __version__

log = logging.getLogger(__name__)

MANIFEST = "manifest.json"
_MOST_LISTED = 3  # candidates in the tag of a parent
# The columns that `pgn_tags`, `epd_operations` and `_order` use.
_ENTRY_COLUMNS = (
    "event", "date", "white", "black", "source", "game", "ply", "net_q", "calibrated_q", "deep_q", "disagreement",
    "cp", "mate", "book_weight", "plies_before", "parent_of", "copies", "part",
)  # fmt: skip
# The manifest has these columns for each entry of a book with positions of vr expand; a parent has only the root.
_ORIGIN_COLUMNS = ("position_id", "root_id", "step", "inferred")
# Options that have fields of their own in the manifest.
_SEPARATE_OPTIONS = {"confirmed", "labels", "parents", "softness"}
# The files of a book, by their ending: the kind of the file, and the function that writes an entry.
_FORMATS: dict[str, tuple[outputs.FileKind, Callable[[BookLine, dict[Hashable, Any]], str]]] = {
    "pgn": (outputs.BOOK_PGN, lambda line, row: pgn_entry(line, pgn_tags(row))),
    "epd": (outputs.BOOK_EPD, lambda line, row: epd_entry(line.fen, epd_operations(row)) + "\n"),
}
_HOLDOUT_FILES = [f"holdout.{ending}" for ending in _FORMATS]


def write_books(
    store: Store,
    directory: str | Path,
    question: Question | None = None,
    options: BookOptions | None = None,
    split: Split | None = None,
    on_entry: Callable[[], None] = lambda: None,
) -> Manifest:
    """Writes book.pgn, book.epd and manifest.json (and holdout.pgn, holdout.epd) into `directory`, made if missing.

    Entry n of the PGN and line n of the EPD name the same position. The new files replace earlier ones at the end, the
    manifest last; if this book has no holdout, the holdout files of an earlier one are removed. With a `split` the book
    has the part ``train``, and the holdout the positions held out; logs a warning if the store has one and none is
    given. Calls `on_entry` after each entry. Raises UsageError, and ValueRepairError if there is nothing to write or
    the folder is not writable.
    """
    question, options = question or Question(), options or BookOptions()
    if options.per_root is not None and question.expanded == "no":
        raise UsageError(
            f"--per-root {options.per_root}: needs --expanded searched or all; "
            "without it, each candidate is its own root"
        )
    # Of all rows only the column that is counted: the other columns are large, and only candidates need them.
    scored = store.frame(question, only=("disagreement",))
    candidates, confirmed, held_fens = with_book_columns(store, store.candidates(question), options, split)
    for_book = candidates if split is None else candidates[candidates["part"] == PARTS[TRAIN]]
    if (warning := warning_of_held_out(store, for_book["position_id"].to_numpy("int64"), split)) is not None:
        log.warning(warning)
    materials = () if split is None else split.materials
    selection = choose_rows(candidates, options, scored["disagreement"], question.threshold, held_fens, materials)
    contents: dict[str, bytes] = {}
    files: dict[str, BookFile] = {}
    entries: dict[str, list[dict[str, Any]]] = {}
    for name, rows in (("book", selection.book), ("holdout", selection.holdout)):
        if rows.empty:
            continue
        games = int(rows[GAME_KEY].nunique())
        starts, movetexts, fens = (rows[column].tolist() for column in ("start_fen", "moves", "fen"))
        moves = [text.split() if options.form == "moves" else [] for text in movetexts]
        lines, records = book_lines(starts, moves, fens, on_entry), _records(rows)
        order = _order(records)
        for ending, (_, entry_text) in _FORMATS.items():
            texts = [entry_text(line, row) for line, row in zip(lines, records, strict=True)]
            file = f"{name}.{ending}"
            contents[file] = "".join(texts[i] for i in order).encode()
            plies = [records[i]["ply"] for i in order]
            files[file] = describe_file(contents[file], [lines[i] for i in order], plies, games)
        if "root_id" in rows:
            entries[name] = [{key: _json_cell(records[i].get(key)) for key in _ORIGIN_COLUMNS} for i in order]
    attrs = {str(k): v for k, v in scored.attrs.items()} | confirmed
    manifest = make_manifest(attrs, question, options, split, selection, files, entries)
    contents[MANIFEST] = manifest.to_json().encode()
    _replace_all(Path(directory), contents)
    return manifest


def _records(rows: pd.DataFrame) -> list[dict[Hashable, Any]]:
    """The columns that entries are made of, one dict a row; without the moves, which take much memory."""
    names = [name for name in (*_ENTRY_COLUMNS, *_ORIGIN_COLUMNS) if name in rows]
    cells = zip(*(rows[name].tolist() for name in names), strict=True)
    return [dict(zip(names, row, strict=True)) for row in cells]


def _json_cell(cell: Any) -> Any:
    """A cell for JSON, None if missing. Whole numbers may be floats: pandas converts them if some are missing."""
    return None if pd.isna(cell) else int(cell) if isinstance(cell, float) else cell


def _order(records: list[dict[Hashable, Any]]) -> list[int]:
    """The row of each entry, in order: first all rows, then again those with two copies or more, and so on.

    lc0 plays a book from its beginning, so even a short run plays every position before it repeats any.
    """
    copies = [row.get("copies", 1) for row in records]
    return [i for nth in range(max(copies)) for i, number in enumerate(copies) if nth < number]


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
    """The tags of the game, then the position's values, its weight, the candidates that it is a parent of, and the part
    of the split that holds it out."""
    tags = game_tags(row)
    names = {"NetQ": "net_q", "CalibratedQ": "calibrated_q", "DeepQ": "deep_q", "Disagreement": "disagreement"}
    if not row["plies_before"]:
        tags |= {tag: formatted(row[name], "+.3f") for tag, name in names.items() if name in row}
    tags["Weight"] = _weight(row)
    if row["parent_of"]:
        tags["ParentOf"] = _parent_of(row)
    if _of_held_part(row):
        tags["Part"] = row["part"]
    return tags


def epd_operations(row: Mapping[Any, Any]) -> dict[str, str | int]:
    """`id`; comments `c0` (the values), `c1` (the weight), `c2` (the candidates that it is a parent of) and `c3` (the
    part of the split, if held out); `ce` or `dm` of the oracle.

    `ce` is in centipawns; `dm` is written if the side to move mates. A parent has no values.
    """
    operations: dict[str, str | int] = {"id": f"{game_name(row)} ply {row['ply']}", "c1": f"weight {_weight(row)}"}
    if row["parent_of"]:
        operations["c2"] = _parent_of(row)
    if _of_held_part(row):
        operations["c3"] = f"part {row['part']}"
    if row["plies_before"]:
        return operations
    names = {"net_q": "net_q", "calibrated_q": "calibrated_q", "deep_q": "deep_q", "difference": "disagreement"}
    operations["c0"] = " ".join(f"{word} {formatted(row[name], '+.3f')}" for word, name in names.items() if name in row)
    if pd.notna(row.get("cp")):
        operations["ce"] = int(row["cp"])
    elif pd.notna(row.get("mate")) and row["mate"] > 0:
        operations["dm"] = int(row["mate"])
    return operations


def candidate_epd(row: Mapping[Any, Any], alpha: Mapping[str, Any]) -> str:
    """A row of `Store.candidates` as a line of EPD: `id` (game and ply), `bm` (the judge's best move), `ce` or `dm`.

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


def _of_held_part(row: Mapping[Any, Any]) -> bool:
    """Whether the split holds the row out; a parent has no part."""
    return isinstance(row.get("part"), str) and row["part"] != PARTS[TRAIN]


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
        stale = _stale_holdouts(directory, contents)
        with written_together({directory / name: _kind(name) for name in contents}) as partials:
            for partial, content in zip(partials, contents.values(), strict=True):
                partial.write_bytes(content)
        for path in stale:
            path.unlink(missing_ok=True)
    except OSError as error:
        if is_new:
            with suppress(OSError):
                directory.rmdir()
        raise ValueRepairError(f"{directory}: cannot write the book: {error.strerror or error}") from None


def check_books(directory: str | Path) -> None:
    """Raises UsageError if `write_books` would not replace the files in the folder, or cannot write there."""
    outputs.check_folder(directory)
    if Path(directory).exists():
        for name in (*(f"book.{ending}" for ending in _FORMATS), *_HOLDOUT_FILES, MANIFEST):
            outputs.check_regular(Path(directory) / name, _kind(name))


def _kind(name: str) -> outputs.FileKind:
    return outputs.MANIFEST if name == MANIFEST else _FORMATS[name.rpartition(".")[2]][0]


def _stale_holdouts(directory: Path, contents: dict[str, bytes]) -> list[Path]:
    """Holdout files that an earlier book's manifest lists and that this book does not write."""
    try:
        listed = read_json(directory / MANIFEST, _EarlierBook, "a manifest of a book", most=_MOST_MANIFEST).files
    except (OSError, ValueRepairError):
        return []
    return [directory / name for name in _HOLDOUT_FILES if name in listed and name not in contents]


class _EarlierBook(msgspec.Struct):
    files: dict[str, Any]


_MOST_MANIFEST = 256 << 20  # bytes: with positions of vr expand it has some lines for each entry


@dataclass(frozen=True, slots=True)
class BookFile:
    """A file of a book. `positions` counts its entries, `distinct` their positions, as entries may be repeated.

    `plies` are the smallest, median and largest ply in the game of an entry.
    """

    sha256: str
    bytes: int
    positions: int
    distinct: int
    games: int
    white_to_move: int
    black_to_move: int
    plies: tuple[int, float, int]
    with_moves: int  # entries with moves; the others are only a FEN (or the initial position)
    from_fen: int  # entries with a FEN tag


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of manifest.json, without a time stamp: the same question gives the same bytes.

    The file has a key for each of the `options`. `files` has each file by its name, `parents` the fields of a
    `ParentCount`, `diversity` what `judge.weights.diversity_of` gives for book and holdout, `weights` the formula of
    the weights. For a book with positions of vr expand, `entries` has the origin of each entry of book and holdout, in
    order: position_id, root_id, step, inferred.
    """

    version: str
    net: dict[str, Any]
    oracle: dict[str, Any]
    alpha: dict[str, Any]
    q_from: str
    calibration: dict[str, Any] | None
    threshold: float
    expanded: str
    options: dict[str, Any]
    confirmed: dict[str, Any] | None
    labels: list[str]
    split: dict[str, Any] | None
    weights: dict[str, Any]
    scored: int
    candidates: int
    left_out: dict[str, int]
    parents: dict[str, Any]
    diversity: dict[str, Any]
    entries: dict[str, list[dict[str, Any]]]
    files: dict[str, BookFile]

    def to_json(self) -> str:
        """The text of manifest.json."""
        manifest = asdict(self)
        options = manifest.pop("options")
        return json.dumps(manifest | options, indent=2, ensure_ascii=False) + "\n"

    def summary(self, directory: str) -> list[str]:
        """The contents of the files, in lines for a terminal."""
        pgn = {name: file for name, file in self.files.items() if name.endswith(".pgn")}
        values = f"net {self.net['name']}, {self.oracle['label']}, {Alpha(**self.alpha).source(self.q_from)}"
        if self.calibration is not None:
            values += f"; net Q calibrated, {self.calibration['origin']}"
        candidates, scored = quantity(self.candidates, "candidate"), quantity(self.scored, "scored position")
        lines = [f"{candidates} at {self.threshold:g} of {scored}: {values}"]
        if self.left_out:
            lines.append("left out: " + ", ".join(f"{reason} {n:,}" for reason, n in self.left_out.items()))
        lines += self._parent_lines()
        if self.split is not None:
            lines.append(str(Split(**self.split)))
        for name, file in pgn.items():
            sides = f"{file.white_to_move:,} white and {file.black_to_move:,} black to move"
            entries = "" if file.positions == file.distinct else f"{file.positions:,} entries of "
            lines.append(f"{directory}/{name}: {entries}{positions_of_games(file.distinct, file.games)}, {sides}")
        return lines

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

    def details(self) -> list[str]:
        """How diverse book and holdout are."""
        diversity = self.manifest.diversity
        return [f"{name}: {line}" for name, figures in diversity.items() for line in diversity_lines(figures)]


def what_next(store: Store, manifest: Manifest, directory: str, split: str = "") -> list[str]:
    """What to do next with a book, in lines for a terminal; ``next:`` is followed by a command.

    `split` is the file of the split that training uses, empty for none.
    """
    book, sha256 = shlex.quote(f"{directory}/book.pgn"), manifest.net["sha256"]
    net = net_option(store, sha256)
    words = ["vr selfplay", book, "--net", "FILE" if net is None else shlex.quote(net), "--nodes 800"]
    if (fill := manifest.net["history_fill"]) in FILLS and fill != "fen_only":
        words += ["--set", f"history_fill={fill}"]
    # At temperature 0 two copies of an entry give the same game twice.
    if any(file.positions > file.distinct for file in manifest.files.values()):
        words += ["--temperature 0.5"]
    games, chunks = "selfplay.pgn", "book-chunks"
    if Path(games).exists() or Path(chunks).exists():  # of another book, whose games must not mix with these
        digest = manifest.files["book.pgn"].sha256[:6]
        games, chunks = f"selfplay-{digest}.pgn", f"{chunks}-{digest}"
        words += ["-o", games]
    words += ["--training", chunks, *(["--split", shlex.quote(split)] if split else [])]
    words += map(shlex.quote, db_option(store.path))
    if net is None:
        return [
            f"{reason_missing(store, manifest.net['name'], sha256)}: to play games from the book, {' '.join(words)}"
        ]
    return ["to let lc0 play, add --engine lc0 to the next command", f"next: {' '.join(words)}"]


def make_manifest(
    attrs: dict[str, Any],
    question: Question,
    options: BookOptions,
    split: Split | None,
    selection: Selection,
    files: dict[str, BookFile],
    entries: dict[str, list[dict[str, Any]]],
) -> Manifest:
    """The manifest of a book from the frame's `attrs` (see `Store.frame`)."""
    return Manifest(
        version=f"valuerepair {__version__}",
        net=attrs["net"],
        oracle=attrs["oracle"],
        alpha=attrs["alpha"],
        calibration=attrs["calibration"],
        **{name: getattr(question, name) for name in ("q_from", "threshold", "expanded")},
        options={
            option.name: getattr(options, option.name)
            for option in fields(options)
            if option.name not in _SEPARATE_OPTIONS
        },
        confirmed=attrs.get("confirmed"),
        labels=list(options.labels),
        split=None if split is None else asdict(split),
        weights=_weights(options),
        scored=selection.scored,
        candidates=selection.candidates,
        left_out=selection.left_out,
        parents=asdict(selection.parents),
        diversity={
            name: _diversity(rows)
            for name, rows in (("book", selection.book), ("holdout", selection.holdout))
            if len(rows)
        },
        entries=entries,
        files=files,
    )


def _weights(options: BookOptions) -> dict[str, Any]:
    """The formula of a candidate's weight, and the shares of its parents in it, the nearest first."""
    return {
        "candidate": "1 / (1 + exp(-(|disagreement| - threshold) / softness))",
        "softness": options.softness,
        "parents": [parent_weight(1.0, plies) for plies in range(1, options.parents + 1)],
    }


def _diversity(rows: pd.DataFrame) -> dict[str, Any]:
    families = {kind: rows[f"{kind}_family"].tolist() for kind in ("opening", "material")}
    if "root_id" in rows:
        families["root"] = [str(root) for root in rows["root_id"].tolist()]
    return diversity_of(rows["book_weight"].to_numpy(), rows[GAME_KEY].astype(str), families)


def describe_file(content: bytes, lines: Sequence[BookLine], plies: Sequence[int], games: int) -> BookFile:
    """Describes a file with the entries `lines`, which have these `plies` in their games; copies are one object."""
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
        from_fen=sum(line.start_fen != STARTPOS_FEN for line in lines),
    )
