"""Files made of a store: books, suites, figures, the report."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from valuerepair.api.calls import Asked, Path, Stored, opened_store, resolved, shown_progress
from valuerepair.question import Question

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from valuerepair.books.options import BookOptions
    from valuerepair.books.suite import WrittenSuite
    from valuerepair.books.write import Manifest
    from valuerepair.judge.split import Split
    from valuerepair.report.drawing import Drawing
    from valuerepair.report.page import WrittenPage


def write_books(store: Stored, directory: Path, options: BookOptions | None = None) -> Manifest:
    """Writes book.pgn (for lc0), book.epd and manifest.json of a store's candidates into `directory`: `vr books`.

    `options` as in ``BookOptions(question=Question(threshold=0.6), parents=2)``. Each file appears whole or not at
    all, the manifest last. Returns the manifest, whose `files` say what was written. Raises ValueRepairError where
    nothing is left to write or the folder cannot be written to.
    """
    from valuerepair.books.options import BookOptions
    from valuerepair.books.write import write_books

    with opened_store(store) as opened:
        return write_books(opened, options or BookOptions(), os.fspath(directory))


def write_suite(
    store: Stored, path: Path, question: Question | None = None, *, split: Split | None = None, part: str = "train"
) -> WrittenSuite:
    """Writes a store's candidates as a suite of EPD to share: `vr export --format epd`.

    With a `split` it has the candidates of its part ``train``, or of another `part` (``held-out``: all that is held
    out). The file appears whole or not at all. Returns the `WrittenSuite`, which counts what was written and left out.
    Raises ValueRepairError and UsageError.
    """
    from valuerepair.books.suite import write_suite_file

    asked = question or Question()
    with opened_store(store) as opened:
        rows = opened.candidates(asked)
        if split is not None:
            rows = rows[split.among(opened, rows["position_id"].to_numpy(np.int64), part)]
        return write_suite_file(opened, rows, asked.threshold, path)


def plot(kind: str, source: Stored, path: Path | None = None, **options: Any) -> Figure:
    """Draws one of the project's figures: `vr plot`. `path` also writes it (.png, .svg or .pdf).

    `kind` is one of `valuerepair.report.figures.KINDS` (``scatter``, ``calibration``, ...), `source` a store, open
    or by its path, or the file that the kind reads. `options` are those of the kind, as `threshold`, `net`, `oracle`,
    `alpha`, `weighted`. The figure is matplotlib's, made without pyplot: as the last line of a notebook's cell it is
    shown. Raises UsageError for another kind, option or ending, ValueRepairError where there is nothing to draw.
    """
    from valuerepair.report import figures, style

    if path is not None:
        style.format_of(path)
    figure = figures.draw(kind, source, **options)
    if path is not None:
        style.save(figure, path)
    return figure


def write_plot(kind: str, source: Stored, path: Path, question: Asked = None) -> Drawing:
    """Draws one of the project's figures into a file (.png, .svg or .pdf): `vr plot`.

    `kind` and `source` are those of `plot`; of the `question`, which may be by a share, a kind takes what it shows.
    Returns the figure and a line that describes it. Raises as `plot`.
    """
    from valuerepair.report import figures, style

    style.format_of(path)
    chosen = figures.kind_of(kind)
    if chosen.reads == figures.STORE:
        with opened_store(source) as opened:
            asked = asdict(resolved(opened, question))
            options = {name: value for name, value in asked.items() if name in chosen.options}
            drawn = figures.drawing(kind, opened, **options)
    else:
        drawn = figures.drawing(kind, source)
    style.save(drawn.figure, path)
    return drawn._replace(said=f"{os.fspath(path)}: {drawn.said}")


def write_report(
    store: Stored, path: Path = "report.html", question: Asked = None, *, quiet: bool = True
) -> WrittenPage:
    """Writes the report on a store, one HTML file that needs no network: `vr report`. It appears whole or not at all.

    `quiet`: no progress on standard error. Returns how many positions and candidates it holds, and its size. Raises
    ValueRepairError where nothing is scored.
    """
    from valuerepair.report import page

    with opened_store(store) as opened, shown_progress("report", None, "", quiet=quiet) as progress:
        return page.write(opened, path, resolved(opened, question), on_step=progress.stage)
