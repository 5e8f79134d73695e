"""What is made of a store: tables, books, the split, figures, the report."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, NamedTuple

import numpy as np

from valuerepair.api.calls import Asked, Path, Stored, opened_store, resolved, shown_progress
from valuerepair.errors import UsageError, check_word
from valuerepair.files import check_output, written_whole
from valuerepair.question import Question, is_candidate
from valuerepair.report import OF_FILES, OF_STORE
from valuerepair.store import db_option
from valuerepair.store.store import Store
from valuerepair.text import table_lines

if TYPE_CHECKING:
    from valuerepair.books.choose import BookOptions
    from valuerepair.books.write import WrittenBooks
    from valuerepair.report.page import WrittenPage
    from valuerepair.report.style import Drawing
    from valuerepair.store.parts import Split

log = logging.getLogger(__name__)


def write_books(
    store: Stored,
    directory: Path,
    question: Asked = None,
    options: BookOptions | None = None,
    *,
    quiet: bool = True,
) -> WrittenBooks:
    """Writes book.pgn (for lc0), book.epd and manifest.json of a store's candidates into `directory`: `vr books`.

    `question` defines a candidate, `options` choose candidates, as in ``BookOptions(parents=2)``; those that the store
    holds out are left out. Each file appears whole or not at all, the manifest last. `quiet`: no progress on standard
    error. Returns the `WrittenBooks`: `manifest` describes the files, `lines()` are the output of `vr books`. Raises
    UsageError, and ValueRepairError if nothing is left to write or the folder is not writable.
    """
    from valuerepair.books.write import check_books, write_books

    folder = os.fspath(directory)
    check_books(folder)
    with (
        opened_store(store) as opened,
        shown_progress("Writing", "positions", quiet=quiet) as progress,
    ):
        return write_books(opened, folder, resolved(opened, question), options, progress.advance)


def split(store: Stored, *, games: float = 0.15, families: float = 0.10, seed: int = 0) -> ChosenSplit:
    """Chooses the part of a store that training never sees, and keeps the choice in the store: `vr split`.

    `games` is the share of games to hold out and `families` that of positions by families of openings and material,
    drawn by `seed` (`store.parts.choose`). Returns the `ChosenSplit`: the `split`, and for each of its `parts` the
    number of positions, games and candidates; its `lines()` are the output of `vr split`. Raises UsageError and
    ValueRepairError.
    """
    from valuerepair.store import parts

    with opened_store(store, write=True) as opened:
        earlier = parts.split_of(opened)
        chosen = parts.choose(opened, games=games, families=families, seed=seed)
        opened.commit()
        if earlier not in (None, chosen):
            log.info(f"this replaces a choice ({earlier}): a net trained by it may have seen what is held out now")
        question = resolved(opened, None)
        counts = _parts(opened, question)
        next_step = shlex.join(["vr", "books", *db_option(opened.path)]) if counts[parts.TRAIN].candidates else None
        return ChosenSplit(opened.path, chosen, question.threshold, counts, next_step)


class PartCount(NamedTuple):
    """What a store has of a part; `candidates` is None if nothing is scored yet."""

    positions: int
    games: int
    candidates: int | None


@dataclass(frozen=True, slots=True)
class ChosenSplit:
    """What is held out of the `store`, what it has of each part, by its name, with candidates at the `threshold`, and
    the next command: None if there is no candidate to train on."""

    store: str
    split: Split
    threshold: float
    parts: Mapping[str, PartCount]
    next_step: str | None

    def lines(self) -> list[str]:
        """For a terminal."""
        scored = all(count.candidates is not None for count in self.parts.values())
        head = f"candidates at {self.threshold:g}" if scored else ""
        rows = (
            (name, count.positions, count.games, "" if count.candidates is None else count.candidates)
            for name, count in self.parts.items()
        )
        next_lines = [] if self.next_step is None else [f"next: {self.next_step}"]
        columns = f":<10 | positions:>11, | games:>11, | {head}:>19,"
        return [f"{self.store}: {self.split}", *table_lines(columns, rows), *next_lines]


def _parts(store: Store, question: Question) -> dict[str, PartCount]:
    """What the store has of each part."""
    from valuerepair.store.pairs import pair_of
    from valuerepair.store.parts import PARTS
    from valuerepair.store.view import frame

    query = "SELECT part, count(*), count(DISTINCT game_id) FROM positions GROUP BY part"
    counts = {part: (positions, games) for part, positions, games in store.connection.execute(query)}
    if pair_of(store, None, None) is None:
        return {part: PartCount(*counts.get(part, (0, 0)), None) for part in PARTS}
    scored = frame(store, replace(question, beside=True), only=("part", "disagreement"))
    candidates = scored["part"][is_candidate(scored["disagreement"], question.threshold)].value_counts()
    return {part: PartCount(*counts.get(part, (0, 0)), int(candidates.get(part, 0))) for part in PARTS}


def export(
    store: Stored,
    path: Path | None = None,
    question: Asked = None,
    *,
    candidates_only: bool = False,
    part: str | None = None,
) -> int:
    """Writes a store's positions as a table, a row with all facts and labels for each: `vr export`.

    The name of the file `path` says the form: ``.parquet``, ``.jsonl``, ``.csv``, or ``.epd`` for the candidates alone
    as lines of EPD. The file appears whole or not at all; without a path, JSON lines go to standard output. The table
    has all positions scored by the `question`'s net and judge, or its candidates alone, the largest disagreement first;
    with a `part` only those of ``train``, ``games``, ``families``, or ``held-out``, which is both. A column
    ``disagreement_weight`` has the soft weight of each position (`measure.weights.weights_of`). Returns the number of
    rows. Raises UsageError and ValueRepairError.
    """
    from valuerepair.books.write import candidate_epd
    from valuerepair.measure.labels import with_labels
    from valuerepair.measure.weights import weights_of
    from valuerepair.store.parts import FAMILIES, GAMES, HELD_OUT, TRAIN, split_of
    from valuerepair.store.view import candidates, format_of, frame, write_stream

    check_word("--part", part or TRAIN, (TRAIN, GAMES, FAMILIES, "held-out"))
    file = None if path is None else os.fspath(path)
    # A wrong path of the file is reported before a large store is read.
    form = "jsonl" if file is None else format_of(file, "epd")
    if file is not None:
        check_output(file)
    with opened_store(store) as opened:
        asked = replace(resolved(opened, question), beside=True)
        rows = candidates(opened, asked) if candidates_only or form == "epd" else frame(opened, asked)
        if part is not None:
            if split_of(opened) is None:
                log.info("nothing is held out in the store: vr split holds some positions out")
            rows = rows[rows["part"].isin(HELD_OUT if part == "held-out" else (part,))]
        if form != "epd":
            rows = with_labels(opened, rows)
            weights = weights_of(rows["disagreement"].to_numpy(np.float64), asked.threshold)
            rows = rows.assign(disagreement_weight=weights)
    with _stream(file) as stream:
        if form == "epd":
            alpha = rows.attrs["alpha"]
            stream.writelines(candidate_epd(row, alpha).encode() for row in rows.to_dict("records"))
        else:
            write_stream(rows, form, stream)
    if file is not None:
        log.info(f"{file}: {len(rows):,} positions")
    return len(rows)


@contextmanager
def _stream(file: str | None) -> Iterator[IO[bytes]]:
    """Standard output, or a file that appears whole or not at all."""
    if file is None:
        yield sys.stdout.buffer
        return
    with written_whole(file) as partial, partial.open("wb") as stream:
        yield stream


def plot(kind: str, source: Stored, path: Path | None = None, question: Asked = None) -> Drawing:
    """Draws one of the project's figures: `vr plot`. `path` also writes it (.png, .svg or .pdf).

    `kind` is ``scatter``, ``rates`` or ``results`` of a store, open or by its path; or ``training``, ``match`` or
    ``sweep`` of the file or folder `source`. The figure is matplotlib's, made without pyplot: a notebook shows it as
    the last line of a cell; its `description` is what `vr plot` prints of it. Raises UsageError for an unknown kind or
    ending, ValueRepairError if there is nothing to draw.
    """
    check_word("plot", kind, (*OF_STORE, *OF_FILES))
    from valuerepair.report import plots, style

    if path is not None:
        style.format_of(path)
    if kind in OF_STORE:
        with opened_store(source) as opened:
            figure: Drawing = getattr(plots, kind)(opened, resolved(opened, question))
    elif isinstance(source, Store):
        raise UsageError(f"the kind {kind} reads {OF_FILES[kind]}, not a store: give its path")
    else:
        figure = getattr(plots, kind)(os.fspath(source))
    if path is not None:
        style.save(figure, path)
    return figure


def write_report(
    store: Stored, path: Path = "report.html", question: Asked = None, *, quiet: bool = True
) -> WrittenPage:
    """Writes the report on a store, one HTML file that needs no network: `vr report`. It appears whole or not at all.

    `quiet`: no progress on standard error. Returns its numbers of positions and candidates, and its size. Raises
    ValueRepairError if no position is scored.
    """
    from valuerepair.report import page

    with opened_store(store) as opened, shown_progress("report", "", quiet=quiet) as progress:
        return page.write(opened, path, resolved(opened, question), on_step=progress.stage)
