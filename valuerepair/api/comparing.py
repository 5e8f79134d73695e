"""Nets compared on the same positions of a store (`compare`)."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from valuerepair.api.calls import Asked, Path, asked_with, opened_store, paths_of, plain, recorded_command, resolved

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from valuerepair.measure.compare import Compared

log = logging.getLogger(__name__)


def compare(
    store: Path,
    nets: Sequence[Path],
    question: Asked = None,
    *,
    part: str | None = None,
    deep: str | None = None,
    sample: int = 2000,
    output: Path | None = None,
    plot: Path | None = None,
    device: str = "auto",
    quiet: bool = True,
) -> Compared:
    """The same positions under several nets, each compared with the first in pairs: `vr compare`.

    `nets` are two or more files or names. Missing values are computed and stored if a net's file is known; only then is
    the store written to. `question.oracle` is the judge, None the one in use; the question's net is ignored. The
    result has the `comparisons`, with a row for each origin of positions (`by_origin`), and the `positions`. `part` is
    ``held-out`` (the default if the store holds something out), ``games``, ``families`` or ``all``. With `deep`, a text
    of ``--deep``, a deeper judge searches a random `sample` of them, and `deeper` of the result is the comparison by
    its values. `output` is a file (.parquet, .jsonl, .csv) for the positions on which any net is wrong, `plot` one
    (.png, .svg, .pdf) for the figure (`plot_compared`). Raises UsageError for an unknown net, ValueRepairError if there
    is nothing to compare.
    """
    from valuerepair.measure.compare import compared, judged_deeper, wrong_positions
    from valuerepair.measure.compared_nets import compared_part, find_judge, find_nets, measure_missing
    from valuerepair.store.view import format_of, write_file

    net_words = paths_of(nets)
    # A wrong argument is reported before a net runs.
    if output is not None:
        format_of(os.fspath(output))
    if plot is not None:
        from valuerepair.report import style

        style.format_of(plot)
    path = os.fspath(store)
    command = recorded_command("compare", *net_words)
    with opened_store(path) as opened:
        judge, part = find_judge(opened, plain(question).oracle, net_words), compared_part(opened, part)
        nets_compared = find_nets(opened, net_words, judge)
    measure_missing(path, nets_compared, judge, part, command=command, quiet=quiet, device=device)
    with opened_store(path) as opened:
        asked = resolved(opened, asked_with(question, net=nets_compared[0].key, oracle=judge.digest))
        comparison = compared(opened, nets_compared, judge, part, asked)
        rows = None if output is None else wrong_positions(opened, judge, comparison)
    if deep is not None:
        comparison = judged_deeper(path, judge, comparison, deep, sample, command=command, quiet=quiet)
    if rows is not None and output is not None:
        write_file(rows, os.fspath(output))
        log.info(f"{os.fspath(output)}: {len(rows):,} positions")
    if plot is not None:
        plot_compared(comparison, plot)
        log.info(os.fspath(plot))
    return comparison


def plot_compared(comparison: Compared, path: Path | None = None) -> Figure:
    """Draws a comparison of nets (`compare`): `vr compare --plot`. `path` also writes it (.png, .svg or .pdf).

    One net's disagreement against the other's: a row for each comparison, a panel for each origin of positions.
    """
    from valuerepair.report import plots, style

    if path is not None:
        style.format_of(path)
    figure = plots.compared(comparison)
    if path is not None:
        style.save(figure, path)
    return figure
