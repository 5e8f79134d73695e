"""Files made of a store: tables, books, suites, splits, figures, the report."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from valuerepair import outputs
from valuerepair.api.calls import Asked, Path, Stored, opened_store, resolved, shown_progress, split_of
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import written_whole
from valuerepair.question import Question
from valuerepair.text import quantity

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.books.options import BookOptions
    from valuerepair.books.suite import WrittenSuite
    from valuerepair.books.write import WrittenBooks
    from valuerepair.judge.split import PartCount, Split, WrittenSplit
    from valuerepair.outputs import FileKind
    from valuerepair.report.page import WrittenPage
    from valuerepair.report.style import Drawing
    from valuerepair.store.store import Store
    from valuerepair.training.nnue import WrittenPositions

log = logging.getLogger(__name__)


def write_books(
    store: Stored,
    directory: Path,
    question: Asked = None,
    options: BookOptions | None = None,
    *,
    split: Split | Path | None = None,
    quiet: bool = True,
) -> WrittenBooks:
    """Writes book.pgn (for lc0), book.epd and manifest.json of a store's candidates into `directory`: `vr books`.

    `question` defines a candidate, `options` choose candidates and form, as in ``BookOptions(parents=2)``. With a
    `split` the book has its part ``train``, and holdout.pgn and holdout.epd the held-out candidates. Labels that need
    the net's policy are completed in the store. Each file appears whole or not at all, the manifest last. `quiet`: no
    progress on standard error. Returns the `WrittenBooks`: `manifest` describes the files, `lines()` are the output of
    `vr books`. Raises UsageError, and ValueRepairError if nothing is left to write or the folder is not writable.
    """
    from valuerepair.books.options import BookOptions
    from valuerepair.books.write import WrittenBooks, check_books, what_next, write_books
    from valuerepair.judge.labelled import complete, lacks_priors
    from valuerepair.judge.labels import OF_POLICY
    from valuerepair.judge.split import split_file

    options, folder = options or BookOptions(), os.fspath(directory)
    check_books(folder)
    held_out, split_path = split_of(split), os.fspath(split) if isinstance(split, str | os.PathLike) else ""
    with opened_store(store) as opened:
        resolved_question = resolved(opened, question)
        lacking = OF_POLICY.intersection(options.labels) and lacks_priors(opened, opened.candidates(resolved_question))
    if lacking:
        with opened_store(store, write=True) as opened:
            complete(opened, opened.candidates(resolved_question), resolved_question.net, quiet=quiet)
    with (
        opened_store(store) as opened,
        shown_progress("Writing", "positions", quiet=quiet) as progress,
    ):
        manifest = write_books(opened, folder, resolved_question, options, held_out, progress.advance)
        next_step = what_next(opened, manifest, folder, split_file(opened) if split is None else split_path)
        return WrittenBooks(folder, manifest, next_step)


def make_split(
    store: Path,
    output: Path = "split.json",
    question: Asked = None,
    *,
    games: float = 0.15,
    families: float = 0.10,
    archives: Iterable[str] = (),
    seed: int = 0,
) -> WrittenSplit:
    """Chooses the part of a store that training never sees, and writes it to the file `output`: `vr split`.

    `games` is the share of games to hold out and `families` that of positions by families of openings and material,
    drawn by `seed`; all positions of `archives` (names) are held out (`choose_split`). The store keeps the path of the
    file. `question`: the candidates to count. Returns the `WrittenSplit`: the `split`, and for each of its `parts` the
    number of positions, games and candidates in the store; its `lines()` are the output of `vr split`. Raises
    UsageError and ValueRepairError.
    """
    from valuerepair.judge.split import (
        WrittenSplit,
        choose_split,
        count_parts,
        keep_split,
        warning_of_change,
        write_split,
    )

    path, file = os.fspath(store), os.fspath(output)
    with opened_store(path) as opened:
        resolved_question = resolved(opened, question)
        split = choose_split(opened, games=games, families=families, archives=archives, seed=seed)
        counts = count_parts(opened, split, resolved_question)
        written = WrittenSplit(
            file, split, counts, resolved_question.threshold, _after_split(opened, resolved_question, counts, file)
        )
        if not outputs.is_stream(file) and (warning := warning_of_change(opened, split)) is not None:
            log.warning(warning)
    write_split(file, split)
    try:
        if outputs.is_stream(file):
            raise ValueRepairError(f"{file}: is not a file that commands could read")
        with opened_store(path, write=True) as opened:
            keep_split(opened, file)
    except ValueRepairError as error:
        log.info(f"{error}; so the store does not keep the path of {file}: give --split to every command")
    return written


def _after_split(store: Store, question: Question, counts: Mapping[str, PartCount], output: str) -> str | None:
    """The next command for the candidates of the part ``train``: `vr expand`, or `vr books` if their net or engine is
    not available."""
    from valuerepair.judge.split import PARTS, TRAIN
    from valuerepair.runs.stored_oracle import can_search_again
    from valuerepair.runs.summary import next_command
    from valuerepair.store.files import from_here

    if not counts[PARTS[TRAIN]].candidates:
        return None
    pair = store.pick(question.net, question.oracle)
    name = "vr expand" if can_search_again(store, *pair) else "vr books"
    alpha, calibrated = store.alpha(*pair, question.alpha), question.calibration == "fitted"
    words = (store.path, store.pair_options(*pair), question.threshold, alpha, question.q_from)
    return next_command(name, *words, calibrated=calibrated, split=from_here(output))


def export(
    store: Stored,
    path: Path | None = None,
    question: Asked = None,
    *,
    format: str | None = None,
    candidates_only: bool = False,
    labels: bool = False,
    split: Split | Path | None = None,
    part: str | None = None,
) -> int:
    """Writes a store's positions as a table, a row with all facts for each: `vr export`.

    `format` is ``parquet``, ``jsonl`` or ``csv``, None: by the name of the file `path`, which appears whole or not at
    all; without a path (or with ``-``) it goes to standard output. The table has all positions scored by the
    `question`'s net and oracle, or its candidates alone, the largest disagreement first; with `labels` also the labels'
    columns, and with a `split` only one `part` of it (None: ``train``). Returns the number of rows. Raises UsageError
    and ValueRepairError.
    """
    from valuerepair.judge.labelled import with_labels
    from valuerepair.judge.split import check_part
    from valuerepair.store.export import format_of, write_stream

    check_part(part, split)
    file, held_out = _file(path), split_of(split)
    kind = format_of(file, format)
    # A wrong path of the file is reported before a large store is read.
    _check_place(file, kind, outputs.TABLES[kind])
    with opened_store(store) as opened:
        frame = _rows_of_part(opened, resolved(opened, question), candidates_only, held_out, part)
        if labels:
            frame = with_labels(opened, frame)
    with _stream(file, outputs.TABLES[kind]) as stream:
        write_stream(frame, kind, stream)
    if file is not None:
        log.info(f"{file}: {len(frame):,} positions")
    return len(frame)


def export_positions(
    store: Stored,
    path: Path | None = None,
    question: Asked = None,
    *,
    format: str | None = None,
    pawn: float = 100.0,
    candidates_only: bool = False,
    split: Split | Path | None = None,
    part: str | None = None,
) -> WrittenPositions:
    """Writes a store's positions with score, move and result for trainers of other engines' nets: `vr export`.

    `format` is ``plain`` or ``bin`` (Stockfish's), or ``text`` (bullet's), None: by the name of `path`; `pawn` is the
    score of a pawn. The rest is as in `export`; `write_positions` writes a frame. Without a split, a remark counts the
    positions that the store's own split holds out. Returns the `WrittenPositions`: the numbers of written and skipped
    positions. Raises UsageError and ValueRepairError.
    """
    from valuerepair.judge.split import check_part, warning_of_held_out
    from valuerepair.training import nnue

    check_part(part, split)
    file, held_out = _file(path), split_of(split)
    kind = nnue.format_of(file, format)
    _check_place(file, kind, outputs.TRAINERS[kind])
    with opened_store(store) as opened:
        frame = _rows_of_part(opened, resolved(opened, question), candidates_only, held_out, part)
        ids = frame["position_id"].to_numpy(np.int64)
        if part in (None, "train") and (warning := warning_of_held_out(opened, ids, held_out)) is not None:
            log.warning(warning)
    with _stream(file, outputs.TRAINERS[kind]) as stream:
        written = nnue.write_stream(frame, kind, stream, pawn)
    if file is not None:
        log.info(f"{file}: {quantity(written.positions, 'position')}, scores of {pawn:g} a pawn")
    for line in written.lines():
        log.info(line)
    return written


def write_suite(
    store: Stored,
    path: Path | None,
    question: Asked = None,
    *,
    split: Split | Path | None = None,
    part: str | None = None,
) -> WrittenSuite:
    """Writes a store's candidates as a suite of EPD to share: `vr export --format epd`.

    With a `split` it has the candidates of its part ``train``, or of another `part` (``held-out``: all held-out ones).
    The file appears whole or not at all; without a path (or with ``-``) it goes to standard output. Returns the
    `WrittenSuite`, which counts the written and the skipped positions. Raises ValueRepairError and UsageError.
    """
    from valuerepair.books.suite import write_suite_stream
    from valuerepair.judge.split import check_part

    check_part(part, split)
    file, held_out = _file(path), split_of(split)
    _check_place(file, "epd", outputs.SUITE)
    with opened_store(store) as opened:
        resolved_question = resolved(opened, question)
        rows = _rows_of_part(opened, resolved_question, True, held_out, part)
        with _stream(file, outputs.SUITE) as stream:
            written = write_suite_stream(opened, rows, resolved_question.threshold, stream)
    if file is not None:
        log.info(f"{file}: {written.positions:,} blind spots of {written.net}")
    for line in written.lines():
        log.info(line)
    return written


def _file(path: Path | None) -> str | None:
    """The file to write; None is standard output."""
    return None if path is None or os.fspath(path) == "-" else os.fspath(path)


@contextmanager
def _stream(file: str | None, kind: FileKind) -> Iterator[IO[bytes]]:
    """Standard output, or a file that appears whole or not at all."""
    if file is None:
        yield sys.stdout.buffer
        return
    with written_whole(file, kind) as partial, partial.open("wb") as stream:
        yield stream


def _check_place(file: str | None, format: str, kind: FileKind) -> None:
    """Raises UsageError if a file of this format cannot be written there."""
    if file is not None:
        outputs.check_output(file, kind)
    elif format in ("parquet", "bin"):
        raise UsageError(f"{format} does not go to standard output; give -o FILE")


def _rows_of_part(
    store: Store, question: Question, candidates_only: bool, split: Split | None, part: str | None
) -> pd.DataFrame:
    """The positions or candidates in a part of the split, by default ``train``; all of them without a split."""
    rows = store.candidates(question) if candidates_only else store.frame(question)
    if split is not None:
        rows = rows[split.among(store, rows["position_id"].to_numpy(np.int64), part or "train")]
    return rows


def plot(kind: str, source: Stored, path: Path | None = None, question: Asked = None, **options: Any) -> Drawing:
    """Draws one of the project's figures: `vr plot`. `path` also writes it (.png, .svg or .pdf).

    `kind` is one of `valuerepair.report.figures.KINDS` (``scatter``, ``calibration``, ...), `source` a store, open
    or by its path, or the file that the kind reads. A kind uses the fields of the `question` that it shows; `options`
    are those of the kind, as `threshold`, `net`, `oracle`, `alpha`, `weighted`. The figure is matplotlib's, made
    without pyplot: a notebook shows it as the last line of a cell; its `description` is what `vr plot` prints of it.
    Raises UsageError for an unknown kind, option or ending, ValueRepairError if there is nothing to draw.
    """
    from valuerepair.report import figures, style

    if path is not None:
        style.format_of(path)
    chosen = figures.kind_of(kind)
    if question is not None and chosen.reads == figures.STORE:
        with opened_store(source) as opened:
            fields = asdict(resolved(opened, question))
        options = {name: value for name, value in fields.items() if name in chosen.options} | options
    figure = figures.draw(kind, source, **options)
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
