"""Writes books: rows -> PGN and EPD text that lc0's reader and other tools read as intended -> whole files.

An entry has all moves from the initial position. If lc0 would misread that, the entry begins later: at the first
position after the obstacle with White to move, as a FEN tag, or at the position itself, as a FEN tag and ``*``.
Obstacles are a FEN start with Black to move (lc0 mirrors the moves) and a piece's move to the square of a possible e.p.
capture (`Nd6` after `d7d5` next to a pawn on e5: lc0 0.32.1 throws).
"""

from __future__ import annotations

import hashlib
import json
import shlex
import textwrap
import unicodedata
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pandas as pd

from valuerepair.archives.epd import CE_MATE, CE_MOST
from valuerepair.books.check import GAME_PLY_LIMIT, game_ply, on_ep_square
from valuerepair.books.choose import BookOptions, Choice, choose, game_name
from valuerepair.chess.positions import STARTPOS_FEN
from valuerepair.chess.values import OWN_Q, Alpha, q_to_cp
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import check_folder, written_whole
from valuerepair.question import Question
from valuerepair.store import db_option
from valuerepair.store.pairs import net_option, reason_missing
from valuerepair.store.store import Store
from valuerepair.text import formatted, positions_of_games, quantity
from valuerepair.version import __version__

PGN, EPD, MANIFEST = "book.pgn", "book.epd", "manifest.json"
WRAP_COLUMNS = 79
MAX_TAG_LENGTH = 200
_MOST_LISTED = 3  # candidates in the tag of a parent


@dataclass(frozen=True, slots=True)
class BookFile:
    """A file of a book, and the number of its entries."""

    sha256: str
    positions: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of manifest.json, without a time stamp: the same question gives the same bytes.

    `asked` are the `BookOptions` and where deep Q comes from; `split` says in words what is held out; `left_out` counts
    the `candidates` that are not in the book, by reason; `files` has each file by its name.
    """

    version: str
    net: dict[str, str]
    judge: dict[str, str]
    alpha: dict[str, Any]
    threshold: float
    asked: dict[str, Any]
    split: str | None
    candidates: int
    left_out: dict[str, int]
    files: dict[str, BookFile]


@dataclass(frozen=True, slots=True)
class WrittenBooks:
    """A book in a `directory`: its manifest, how many games and positions with White to move it has, what to do next.

    `parents` are the positions that are no candidates.
    """

    directory: str
    manifest: Manifest
    games: int
    white_to_move: int
    parents: int
    next_steps: Sequence[str]

    def lines(self) -> list[str]:
        """For a terminal."""
        made, positions = self.manifest, self.manifest.files[PGN].positions
        alpha = Alpha(**made.alpha).source(made.asked["q_from"])
        candidates = f"{quantity(made.candidates, 'candidate')} at {made.threshold:g}"
        lines = [f"{candidates}: net {made.net['name']}, {made.judge['label']}, {alpha}"]
        if made.left_out:
            lines.append("left out: " + ", ".join(f"{reason} {n:,}" for reason, n in made.left_out.items()))
        if self.parents:
            lines.append(f"parents: {self.parents:,}")
        if made.split is not None:
            lines.append(made.split)
        sides = f"{self.white_to_move:,} white and {positions - self.white_to_move:,} black to move"
        book = f"{self.directory}/{PGN}: {positions_of_games(positions, self.games)}, {sides}"
        return [*lines, book, *self.next_steps]


def write_books(
    store: Store,
    directory: str | Path,
    question: Question | None = None,
    options: BookOptions | None = None,
    on_entry: Callable[[], None] = lambda: None,
) -> WrittenBooks:
    """Writes book.pgn, book.epd and manifest.json into `directory`, made if missing.

    Entry n of the PGN and line n of the EPD name the same position. The new files replace earlier ones at the end, the
    manifest last. Positions of any origin are in it, but only those of the part ``train``. Calls `on_entry` after each
    entry. Raises UsageError, and ValueRepairError if there is nothing to write or the folder is not writable.
    """
    question, options = question or Question(), options or BookOptions()
    choice = choose(store, question, options)
    pgn, epd, white = list[str](), list[str](), 0
    for row in choice.rows:
        line = BookLine.of(row["start_fen"], row["moves"].split(), row["fen"])
        pgn.append(pgn_entry(line, pgn_tags(row)))
        epd.append(epd_line(chess.Board(line.fen), epd_operations(row, choice.attrs["alpha"])))
        white += " w " in line.fen
        on_entry()
    contents = {PGN: "".join(pgn).encode(), EPD: "".join(epd).encode()}
    manifest = _manifest(choice, question, options, contents)
    text = json.dumps(asdict(manifest), indent=2, ensure_ascii=False) + "\n"
    _replace_all(Path(directory), contents | {MANIFEST: text.encode()})
    games, parents = len({row["game_id"] for row in choice.rows}), sum(row["plies_before"] > 0 for row in choice.rows)
    folder = str(directory)
    return WrittenBooks(folder, manifest, games, white, parents, _what_next(store, manifest, folder))


def _manifest(choice: Choice, question: Question, options: BookOptions, contents: Mapping[str, bytes]) -> Manifest:
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    return Manifest(
        version=f"valuerepair {__version__}",
        net=choice.attrs["net"],
        judge=choice.attrs["oracle"],
        alpha=choice.attrs["alpha"],
        threshold=question.threshold,
        asked={"q_from": question.q_from, **asdict(options)},
        split=choice.split,
        candidates=choice.candidates,
        left_out=choice.left_out,
        files={name: BookFile(sha256, len(choice.rows)) for name, sha256 in hashes.items()},
    )


def check_books(directory: str | Path) -> None:
    """Raises UsageError if `write_books` would not replace the files in the folder, or cannot write there.

    It replaces those of a book that its manifest names.
    """
    check_folder(directory)
    folder = Path(directory)
    try:
        named = (folder / MANIFEST).read_text("utf-8", "replace")
    except OSError:
        named = ""
    for name in (PGN, EPD, MANIFEST):
        if (folder / name).exists() and f'"{PGN}"' not in named:
            raise UsageError(f"{folder / name}: already exists; remove it, or give another folder")


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


def _what_next(store: Store, manifest: Manifest, directory: str) -> list[str]:
    """What to do next with a book, in lines for a terminal; ``next:`` is followed by a command."""
    book, sha256 = shlex.quote(f"{directory}/{PGN}"), manifest.net["sha256"]
    net = net_option(store, sha256)
    words = ["vr selfplay", book, "--net", "FILE" if net is None else shlex.quote(net), "--nodes 800"]
    games, chunks = "selfplay.pgn", "book-chunks"
    if Path(games).exists() or Path(chunks).exists():  # of another book, whose games must not mix with these
        digest = manifest.files[PGN].sha256[:6]
        games, chunks = f"selfplay-{digest}.pgn", f"{chunks}-{digest}"
        words += ["-o", games]
    command = " ".join([*words, "--training", chunks, *map(shlex.quote, db_option(store.path))])
    if net is None:
        return [f"{reason_missing(store, manifest.net['name'], sha256)}: to play games from the book, {command}"]
    return ["to let lc0 play, add --engine lc0 to the next command", f"next: {command}"]


# -- an entry ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BookLine:
    """The moves of an entry: their start, the SAN moves, and the position they reach (FENs with legal e.p. only)."""

    start_fen: str
    sans: tuple[str, ...]
    fen: str

    @staticmethod
    def of(start_fen: str, moves: Sequence[str], fen: str) -> BookLine:
        """The line that reaches `fen` from `start_fen` by `moves` (UCI), as far as lc0 reads it; with no moves, or too
        many for lc0, the position alone. The moves must lead there: the store checks the histories that it reads."""
        board = chess.Board(start_fen if moves else fen)
        start, sans = "", list[str]()  # no start: lc0 cannot read on from here
        for move in map(chess.Move.from_uci, moves):
            if on_ep_square(board, move):
                start, sans = "", []
            elif not start and board.turn == chess.WHITE:
                start = board.fen()
            if start:
                sans.append(board.san_and_push(move))
            else:
                board.push(move)
        end = board.fen()
        if not sans or game_ply(start) + len(sans) >= GAME_PLY_LIMIT:
            return BookLine(end, (), end)
        return BookLine(start, tuple(sans), end)


def pgn_entry(line: BookLine, tags: Mapping[str, str]) -> str:
    """One PGN game: `tags`, a FEN tag if the line does not begin at the initial position, the moves, ``*``.

    Result is always ``*``: the game that follows is not yet played. Moves are wrapped, tags never.
    """
    words, number = [*line.sans, "*"], game_ply(line.start_fen)
    for i in range(0, len(line.sans), 2):
        words[i] = f"{number + i // 2}. {words[i]}"
    moves = textwrap.wrap(" ".join(words), WRAP_COLUMNS, break_long_words=False, break_on_hyphens=False)
    return "\n".join([*tag_lines(tags, line.start_fen), "", *moves, "", ""])


def tag_lines(tags: Mapping[str, str], start_fen: str = STARTPOS_FEN, whole: Container[str] = frozenset()) -> list[str]:
    """The lines of PGN tags; with the tags of the start if it is not the initial position.

    Values are cut to `MAX_TAG_LENGTH` characters, except those of the tags that are `whole`.
    """
    lines = [f'[{name} "{_tag_value(text, None if name in whole else MAX_TAG_LENGTH)}"]' for name, text in tags.items()]
    return lines if start_fen == STARTPOS_FEN else [*lines, '[SetUp "1"]', f'[FEN "{start_fen}"]']


@lru_cache(65_536)  # most texts repeat those of the previous entry
def _tag_value(text: str, most: int | None) -> str:
    """`text` for the quotes of a tag."""
    return one_line(text)[:most].replace("\\", "\\\\").replace('"', '\\"')


def one_line(text: str) -> str:
    """Without line breaks, control characters and lone surrogates, which break readers or the encoding."""
    if text.isascii() and text.isprintable():  # nearly every text
        return " ".join(text.split())
    printable = (" " if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") else c for c in text)
    return " ".join("".join(printable).split())


def pgn_tags(row: Mapping[Any, Any]) -> dict[str, str]:
    """The tags of the game, then the position's values, its weight, and the candidates that it is a parent of."""
    tags = {
        "Event": _text(row, "event"),
        "Site": "?",
        "Date": _text(row, "date", "????.??.??"),
        "Round": "?",
        "White": _text(row, "white"),
        "Black": _text(row, "black"),
        "Result": "*",
        "Source": game_name(row),
    }
    if not row["plies_before"]:
        names = {"NetQ": "net_q", "DeepQ": "deep_q", "Disagreement": "disagreement"}
        tags |= {tag: formatted(row[name], "+.3f") for tag, name in names.items()}
    tags["Weight"] = f"{row['book_weight']:.4f}"
    if row["parent_of"]:
        tags["ParentOf"] = _parent_of(row)
    return tags


def epd_operations(row: Mapping[Any, Any], alpha: Mapping[str, Any]) -> dict[str, Any]:
    """`id`, and the judge's score (`score_operation`); in comments the values (`c0`), the weight (`c1`) and the
    candidates that it is a parent of (`c2`). A parent has no values."""
    operations: dict[str, Any] = {"id": f"{game_name(row)} ply {row['ply']}", "c1": f"weight {row['book_weight']:.4f}"}
    if row["parent_of"]:
        operations["c2"] = _parent_of(row)
    if row["plies_before"]:
        return operations
    names = {"net_q": "net_q", "deep_q": "deep_q", "difference": "disagreement"}
    operations["c0"] = " ".join(f"{word} {formatted(row[name], '+.3f')}" for word, name in names.items())
    return operations | score_operation(row, alpha)


def score_operation(row: Mapping[Any, Any], alpha: Mapping[str, Any]) -> dict[str, int]:
    """The judge's score in a row of a frame (`store.view`): `ce` in centipawns, or `dm` if the side to move mates.

    If it is mated, `ce` is that of the EPD standard. The `ce` of a judge whose Q is no function of its centipawns is
    computed from its Q; `alpha` is that of the frame's attrs.
    """
    mate, cp = row["mate"], row["cp"]
    if pd.notna(mate):
        return {"dm": int(mate)} if mate > 0 else {"ce": -max(CE_MATE + 2 * int(mate), CE_MOST + 1)}
    if pd.isna(cp) or alpha["origin"] == OWN_Q:
        cp = q_to_cp(row["deep_q"], alpha["value"])
    return {"ce": int(np.clip(np.rint(cp), -CE_MOST, CE_MOST))}


def _parent_of(row: Mapping[Any, Any]) -> str:
    """The candidates that a position is a parent of: those that fit into a tag, and the number of others."""
    candidates = row["parent_of"].split(", ")
    more = len(candidates) - _MOST_LISTED
    return ", ".join(candidates[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def _text(row: Mapping[Any, Any], name: str, missing: str = "?") -> str:
    value = row.get(name)
    return value if isinstance(value, str) and value.strip() else missing


def epd_line(board: chess.Board, operations: Mapping[str, Any]) -> str:
    """A line of EPD: the position, then the clocks (`hmvc`, `fmvn`) and `operations`, by name.

    EPD has no escapes, so the quotes in a text become ' and semicolons become commas.
    """
    every = {"hmvc": board.halfmove_clock, "fmvn": board.fullmove_number, **operations}
    for name, value in every.items():
        if isinstance(value, str):
            text = one_line(value)[:MAX_TAG_LENGTH]
            every[name] = text.replace('"', "'").replace(";", ",").replace("\\", "/")
    return f"{board.epd(**dict(sorted(every.items())))}\n"


def candidate_epd(row: Mapping[Any, Any], alpha: Mapping[str, Any]) -> str:
    """A row of `view.candidates` as a line of EPD: `id` (game and ply), `bm` (the judge's best move), and its score.

    Raises ValueRepairError for a move that cannot be played.
    """
    board = chess.Board(row["fen"])
    operations: dict[str, Any] = {"id": f"{game_name(row)} ply {row['ply']}"}
    if isinstance(row["deep_best"], str):
        try:
            operations["bm"] = [board.parse_uci(row["deep_best"])]
        except ValueError as error:
            raise ValueRepairError(f"a stored move cannot be played: {error}; mine its game again") from None
    return epd_line(board, operations | score_operation(row, alpha))
