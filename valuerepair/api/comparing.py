"""Nets compared on the same positions of a store (`compare`)."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from valuerepair.api.calls import Asked, Path, asked_with, opened_store, paths_of, plain, recorded_command, resolved

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from valuerepair.measure.compare import Compared
    from valuerepair.measure.compared_nets import ComparedNet, ComparedOracle
    from valuerepair.question import Question

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
    result has the rates (`nets`), the comparisons with intervals (`comparisons`) and the rows (`scores`). Judge by all
    positions: the first net's own candidates were chosen as its worst errors, and any other net looks better on them.
    `part` is ``held-out`` (the default if the store holds something out), ``games``, ``families`` or ``all``. `by_kind`
    and `judge` of a comparison say for each origin of positions whether the net is the better judge. With `deep`, a
    text of ``--deep``, a deeper judge searches a random `sample` of them, and `rejudged` of the result is the
    comparison by its values. `output` is a file (.parquet, .jsonl, .csv) for the positions on which any net is wrong,
    `plot` one (.png, .svg, .pdf) for the figure (`plot_compared`). Raises UsageError for an unknown net,
    ValueRepairError if there is nothing to compare.
    """
    from valuerepair.measure.compare import compared, judged_again, wrong_positions
    from valuerepair.store.view import format_of

    net_words = paths_of(nets)
    # A wrong argument is reported before a net runs.
    if output is not None:
        format_of(os.fspath(output))
    if plot is not None:
        from valuerepair.report import style

        style.format_of(plot)
    path = os.fspath(store)
    command = recorded_command("compare", *net_words)
    compared_nets, oracle, resolved_question = _with_all_values(
        path, net_words, question, part, device=device, command=command, quiet=quiet
    )
    with opened_store(path) as opened:
        comparison = compared(opened, compared_nets, oracle, resolved_question)
        rows = None if output is None else wrong_positions(opened, compared_nets, oracle, comparison)
    if deep is not None:
        comparison = judged_again(path, oracle, comparison, deep, sample, command=command, quiet=quiet)
    if rows is not None and output is not None:
        _write_rows(rows, output)
    if plot is not None:
        plot_compared(comparison, plot)
        log.info(os.fspath(plot))
    return comparison


def _with_all_values(
    path: str,
    net_words: Sequence[str],
    question: Asked,
    part: str | None,
    *,
    device: str,
    command: str,
    quiet: bool,
) -> tuple[list[ComparedNet], ComparedOracle, Question]:
    """The nets and the judge of a comparison and the resolved question, after the store has all values of the nets that
    can be computed."""
    from valuerepair.measure.compared_nets import find_nets, find_oracle, measure_missing

    with opened_store(path) as opened:
        oracle = find_oracle(opened, plain(question).oracle, net_words, part)
        nets = find_nets(opened, net_words, oracle)
    for number, net in enumerate(nets):
        if same := next((earlier for earlier in nets[:number] if earlier.key == net.key), None):
            log.info(f"{net.name} and {same.name} are the same net: the files have the same content")
    measure_missing(path, nets, oracle, command=command, quiet=quiet, device=device)
    with opened_store(path) as opened:
        nets = find_nets(opened, net_words, oracle)
        return nets, oracle, resolved(opened, asked_with(question, net=nets[0].key, oracle=oracle.digest))


def _write_rows(rows: pd.DataFrame, output: Path) -> None:
    from valuerepair.store.view import write_file

    path = os.fspath(output)
    write_file(rows, path)
    log.info(f"{path}: {len(rows):,} positions")


def plot_compared(comparison: Compared, path: Path | None = None) -> Figure:
    """Draws a comparison of nets (`compare`): `vr compare --plot`. `path` also writes it (.png, .svg or .pdf).

    On the left every position, one net's disagreement against the other's; on the right the changes by label, with
    intervals.
    """
    from valuerepair.report import compared_plot, style

    if path is not None:
        style.format_of(path)
    figure = compared_plot.draw(comparison)
    if path is not None:
        style.save(figure, path)
    return figure
