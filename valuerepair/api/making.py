"""Making things: a store from archives, comparisons of nets, books, figures, the report."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from valuerepair.archives import SampleOptions
from valuerepair.books.options import BookOptions
from valuerepair.books.write import write_books as _write_books
from valuerepair.candidates.remeasure import Remeasured, RemeasureOptions
from valuerepair.store.queries import QFrom
from valuerepair.store.store import Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from valuerepair.books.manifest import Manifest
    from valuerepair.mining import MineOptions, MineSummary
    from valuerepair.views.report import Written

Path: TypeAlias = "str | os.PathLike[str]"
# A store that is open, or the path of one.
Stored: TypeAlias = "Store | Path"


def mine(
    archives: Path | Iterable[Path],
    store: Path = "valuerepair.db",
    sample: SampleOptions | None = None,
    *,
    net: str | None = None,
    deep: str | None = None,
    screen: str = "auto",
    recall: float = 0.98,
    audit: float = 0.02,
    threshold: float = 0.55,
    limit: int | None = None,
    workers: int | None = None,
    quiet: bool = True,
) -> MineSummary:
    """Scores positions of archives by a net at one node and by a deep search, and keeps all in `store`: `vr mine`.

    `archives` are files or folders; `sample` says which positions, None: one of each game. `net` is a name or file,
    `deep` a deep search as ``stockfish:nodes=100000``, None what this machine has. `screen` (``auto``, ``off``, nodes
    of rungs), `recall` and `audit` are those of `vr mine`; `threshold` is what the ladder looks for. `limit`: at most
    so many deep searches this time. `quiet`: no progress on standard error.

    The store is made if it is not there; the same call goes on with what an interrupted one has left. An interruption
    (Ctrl-C) ends it as a `KeyboardInterrupt`, with everything scored so far kept. Returns the `MineSummary`, whose
    `lines()` are what `vr mine` says. Raises ValueRepairError and UsageError.
    """
    from valuerepair.archives import total_bytes
    from valuerepair.mining import MineOptions, parse_screen

    paths = _paths(archives)
    options = MineOptions(
        sample=sample or SampleOptions(),
        threshold=threshold,
        limit=limit,
        screen=parse_screen(screen, recall, audit),
        command=f"{shlex.join(['vr', 'mine', *paths])} (from Python)",
    )
    total_bytes(paths)  # raises for a missing file, before anything is made or loaded
    summary = _mine(paths, store, options, net, deep, workers, quiet)
    if summary.state == "interrupted":
        raise KeyboardInterrupt
    return summary


def _mine(
    paths: list[str],
    path: Path,
    options: MineOptions,
    net: str | None,
    deep: str | None,
    workers: int | None,
    quiet: bool,
) -> MineSummary:
    from valuerepair.mining import fitting_screen, mine, open_evaluators
    from valuerepair.progress import Progress

    with (
        Store.open(path, create=True) as store,
        Progress("mining", unit="positions", quiet=quiet, own_eta=True) as progress,
        open_evaluators(paths, options.sample, deep, net, workers, progress.say) as opened,
    ):
        options = replace(options, sample=opened.sample, screen=fitting_screen(opened, options.screen, progress.say))
        return mine(paths, options, store, opened.net, opened.oracle, progress=progress, say=progress.say)


def remeasure(
    store: Path,
    nets: Sequence[str],
    options: RemeasureOptions | None = None,
    *,
    oracle: str | None = None,
    quiet: bool = True,
) -> Remeasured:
    """The same positions under several nets, each compared with the first in pairs: `vr remeasure`.

    `nets` are two or more files or names. Values and policies that the store lacks are computed and kept, where a net's
    file is known; only then is the store written to. `oracle` is whose scores count, None the one with most. The result
    has the rates (`nets`), the comparisons with intervals (`comparisons`) and the rows (`scores`). Judge by all
    positions: the first net's own candidates were chosen for being its worst errors, and any other net looks better on
    them. Raises UsageError for words that mean no net, ValueRepairError where there is nothing to compare.
    """
    from valuerepair.candidates.asked_nets import find_nets, find_oracle, measure_missing
    from valuerepair.candidates.remeasure import compare
    from valuerepair.candidates.remeasure_labels import complete_policies

    path, chosen = os.fspath(store), options or RemeasureOptions()
    command = f"{shlex.join(['vr', 'remeasure', *(f'--net={net}' for net in nets)])} (from Python)"
    with Store.open(path) as opened:
        which = find_oracle(opened, oracle, nets)
        asked = find_nets(opened, nets, which)
    measure_missing(path, asked, which, command=command, quiet=quiet)
    with Store.open(path) as opened:
        asked = find_nets(opened, nets, which)
    complete_policies(path, asked, which, chosen.threshold, chosen.alpha, chosen.q_from, quiet=quiet)
    with Store.open(path) as opened:
        return compare(opened, asked, which, chosen)


def write_books(store: Stored, directory: Path, options: BookOptions | None = None) -> Manifest:
    """Writes book.pgn (for lc0), book.epd and manifest.json of a store's candidates into `directory`: `vr books`.

    `options` as in ``BookOptions(threshold=0.55, holdout=0.2)``. Each file appears whole or not at all, the manifest
    last. Returns the manifest, whose `files` say what was written. Raises ValueRepairError where nothing is left to
    write or the folder cannot be written to.
    """
    with _open(store) as opened:
        return _write_books(opened, options or BookOptions(), os.fspath(directory))


def plot(kind: str, source: Stored, path: Path | None = None, **options: Any) -> Figure:
    """Draws one of the project's figures: `vr plot`. `path` also writes it (.png, .svg or .pdf).

    `kind` is one of `valuerepair.views.figures.KINDS` (``scatter``, ``calibration``, ...), `source` a store, open or by
    its path, or the file that the kind reads. `options` are those of the kind, as `threshold`, `net`, `oracle`,
    `alpha`, `weighted`. The figure is matplotlib's, made without pyplot: as the last line of a notebook's cell it is
    shown. Raises UsageError for another kind, option or ending, ValueRepairError where there is nothing to draw.
    """
    from valuerepair.views import figures, style

    if path is not None:
        style.format_of(path)
    figure = figures.draw(kind, source, **options)
    if path is not None:
        style.save(figure, path)
    return figure


def plot_remeasured(found: Remeasured, path: Path | None = None) -> Figure:
    """Draws a comparison of nets (`remeasure`): `vr remeasure --plot`. `path` also writes it (.png, .svg or .pdf).

    Left every position, one net's disagreement against the other's; right what changed by label, with intervals.
    """
    from valuerepair.views import remeasure_plot, style

    if path is not None:
        style.format_of(path)
    figure = remeasure_plot.draw(found)
    if path is not None:
        style.save(figure, path)
    return figure


def write_report(
    store: Stored,
    path: Path = "report.html",
    *,
    threshold: float = 0.55,
    net: str | None = None,
    oracle: str | None = None,
    alpha: float | None = None,
    q_from: QFrom = "cp",
) -> Written:
    """Writes the report on a store, one HTML file that needs no network: `vr report`. It appears whole or not at all.

    The options are those of `MinedStore.candidates`. Returns how many positions and candidates it holds, and its size.
    Raises UsageError for a threshold outside (0, 2], ValueRepairError where nothing is scored.
    """
    from valuerepair.views import report

    with _open(store) as opened:
        return report.write(opened, path, threshold=threshold, net=net, oracle=oracle, alpha=alpha, q_from=q_from)


@contextmanager
def _open(store: Stored) -> Iterator[Store]:
    """The store that is meant; closed afterwards if it was opened here."""
    if isinstance(store, Store):
        yield store
        return
    with Store.open(store) as opened:
        yield opened


def _paths(archives: Path | Iterable[Path]) -> list[str]:
    given = [archives] if isinstance(archives, str | os.PathLike) else archives
    return [os.fspath(each) for each in given]
