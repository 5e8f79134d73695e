"""Files made of a store: tables, books, splits, figures, the report."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

import numpy as np

from valuerepair.api.calls import Asked, Path, Stored, opened_store, resolved, shown_progress, split_of
from valuerepair.errors import ValueRepairError
from valuerepair.files import check_output, written_whole
from valuerepair.store.store import Store

if TYPE_CHECKING:
    from valuerepair.books.options import BookOptions
    from valuerepair.books.write import WrittenBooks
    from valuerepair.judge.split import PartCount, Split, WrittenSplit
    from valuerepair.report.page import WrittenPage
    from valuerepair.report.style import Drawing

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

    `question` defines a candidate, `options` choose candidates, as in ``BookOptions(parents=2)``. With a `split` the
    book has its part ``train``. Labels that need the net's policy are completed in the store. Each file appears whole
    or not at all, the manifest last. `quiet`: no progress on standard error. Returns the `WrittenBooks`: `manifest`
    describes the files, `lines()` are the output of `vr books`. Raises UsageError, and ValueRepairError if nothing is
    left to write or the folder is not writable.
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
    store: Path, output: Path = "split.json", *, games: float = 0.15, families: float = 0.10, seed: int = 0
) -> WrittenSplit:
    """Chooses the part of a store that training never sees, and writes it to the file `output`: `vr split`.

    `games` is the share of games to hold out and `families` that of positions by families of openings and material,
    drawn by `seed` (`choose_split`). The store keeps the path of the file. Returns the `WrittenSplit`: the `split`, and
    for each of its `parts` the number of positions, games and candidates in the store; its `lines()` are the output of
    `vr split`. Raises UsageError and ValueRepairError.
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
        split = choose_split(opened, games=games, families=families, seed=seed)
        counts = count_parts(opened, split)
        written = WrittenSplit(file, split, counts, _after_split(opened, counts, file))
        if (warning := warning_of_change(opened, split)) is not None:
            log.warning(warning)
    write_split(file, split)
    try:
        with opened_store(path, write=True) as opened:
            keep_split(opened, file)
    except ValueRepairError as error:
        log.info(f"{error}; so the store does not keep the path of {file}: give --split to every command")
    return written


def _after_split(store: Store, counts: Mapping[str, PartCount], output: str) -> str | None:
    """The next command for the candidates of the part ``train``: `vr expand`, or `vr books` if their net or engine is
    not available."""
    from valuerepair.judge.split import PARTS, TRAIN
    from valuerepair.runs.stored_oracle import can_search_again
    from valuerepair.store import db_option
    from valuerepair.store.files import from_here

    if not counts[PARTS[TRAIN]].candidates:
        return None
    name = "expand" if can_search_again(store, *store.pick(None, None)) else "books"
    return shlex.join(["vr", name, *db_option(store.path), "--split", from_here(output)])


def export(
    store: Stored,
    path: Path | None = None,
    question: Asked = None,
    *,
    candidates_only: bool = False,
    split: Split | Path | None = None,
    part: str | None = None,
) -> int:
    """Writes a store's positions as a table, a row with all facts and labels for each: `vr export`.

    The name of the file `path` says the form: ``.parquet``, ``.jsonl``, ``.csv``, or ``.epd`` for the candidates alone
    as lines of EPD. The file appears whole or not at all; without a path, JSON lines go to standard output. The table
    has all positions scored by the `question`'s net and oracle, or its candidates alone, the largest disagreement
    first; with a `split` only one `part` of it (None: ``train``). A column ``disagreement_weight`` has the soft weight
    of each position (`judge.weights.weights_of`). Returns the number of rows. Raises UsageError and ValueRepairError.
    """
    from valuerepair.books.write import candidate_epd
    from valuerepair.judge.labelled import with_labels
    from valuerepair.judge.split import check_part
    from valuerepair.judge.weights import weights_of
    from valuerepair.store.export import format_of, write_stream

    check_part(part, split)
    file, held_out = None if path is None else os.fspath(path), split_of(split)
    # A wrong path of the file is reported before a large store is read.
    form = "jsonl" if file is None else format_of(file)
    if file is not None:
        check_output(file)
    with opened_store(store) as opened:
        resolved_question = resolved(opened, question)
        rows = (
            opened.candidates(resolved_question)
            if candidates_only or form == "epd"
            else opened.frame(resolved_question)
        )
        if held_out is not None:
            rows = rows[held_out.among(opened, rows["position_id"].to_numpy(np.int64), part or "train")]
        if form != "epd":
            rows = with_labels(opened, rows)
            weights = weights_of(rows["disagreement"].to_numpy(np.float64), resolved_question.threshold)
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

    `kind` is one of `valuerepair.report.figures.KINDS` (``scatter``, ``rates``, ...), `source` a store, open or by its
    path, or the file that the kind reads. The figure is matplotlib's, made without pyplot: a notebook shows it as the
    last line of a cell; its `description` is what `vr plot` prints of it. Raises UsageError for an unknown kind or
    ending, ValueRepairError if there is nothing to draw.
    """
    from valuerepair.report import figures, style

    if path is not None:
        style.format_of(path)
    if figures.kind_of(kind).reads == figures.STORE:
        with opened_store(source) as opened:
            figure = figures.draw(kind, opened, resolved(opened, question))
    else:
        figure = figures.draw(kind, os.fspath(source) if not isinstance(source, Store) else source)
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
