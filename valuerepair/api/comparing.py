"""Nets compared on the same positions: of a store (`remeasure`) or of a suite (`remeasure_suite`)."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from valuerepair.api.calls import Asked, Path, asked_with, opened_store, plain, resolved, split_of
from valuerepair.command import recorded_command

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from valuerepair.books.suite import MeasuredSuite
    from valuerepair.judge.compare import Remeasured
    from valuerepair.judge.split import Split
    from valuerepair.runs.regret import RegretOptions
    from valuerepair.runs.rejudge import RejudgeOptions

log = logging.getLogger(__name__)


def remeasure(
    store: Path,
    nets: Sequence[str],
    question: Asked = None,
    *,
    split: Split | Path | None = None,
    part: str = "held-out",
    cut: bool = False,
    regret: RegretOptions | None = None,
    rejudge: RejudgeOptions | None = None,
    output: Path | None = None,
    plot: Path | None = None,
    device: str = "auto",
    quiet: bool = True,
) -> Remeasured:
    """The same positions under several nets, each compared with the first in pairs: `vr remeasure`.

    `nets` are two or more files or names. Values and policies that the store lacks are computed and kept, where a net's
    file is known; only then is the store written to. `question.oracle` is whose scores count, None the one with most;
    its net is not looked at. The result has the rates (`nets`), the comparisons with intervals (`comparisons`) and the
    rows (`scores`). Judge by all positions: the first net's own candidates were chosen for being its worst errors, and
    any other net looks better on them. `recalibrated` of a comparison is what remains once each net's Q went through a
    curve of its own. With a `split` the positions are those that it holds out, or one `part` of them: ``games``,
    ``families``, ``archives``. With `cut` (``--all``) what screening cut is among them, by the value of its last rung,
    and each position counts for one. `by_kind` and `judge` of a comparison say of each kind of position whether the net
    is the better judge. With `regret`, as in ``RegretOptions(nodes=100)``, both nets also search, and `regret` of the
    result says which chooses worse moves. With `rejudge`, as in ``RejudgeOptions("stockfish:nodes=1000000")``, a deeper
    oracle judges positions again, and `rejudged` has the comparison by it. `output` is a file (.parquet, .jsonl, .csv)
    for the positions that any net is wrong on, `plot` one (.png, .svg, .pdf) for the figure (`plot_remeasured`).
    Raises UsageError for words that mean no net, ValueRepairError where there is nothing to compare.
    """
    from valuerepair.judge.compare import compare, complete_policies, wrong_positions
    from valuerepair.judge.compared_nets import find_nets, find_oracle, measure_missing
    from valuerepair.judge.split import HeldPart
    from valuerepair.store.export import format_of, write_file

    # What is wrong with the call is said before a net runs.
    kind = None if output is None else format_of(os.fspath(output), None)
    if plot is not None:
        from valuerepair.report import style

        style.format_of(plot)
    path, held_out = os.fspath(store), split_of(split)
    command = recorded_command("remeasure", *(f"--net={net}" for net in nets))
    net_options: dict[str, Any] = {"device": device}
    with opened_store(path) as opened:
        held = None if held_out is None else HeldPart.of(opened, held_out, part)
        oracle = find_oracle(opened, plain(question).oracle, nets, held, cut)
        asked_nets = find_nets(opened, nets, oracle)
    for number, copy in enumerate(asked_nets):
        if same := next((earlier for earlier in asked_nets[:number] if earlier.key == copy.key), None):
            log.info(f"{copy.name} and {same.name} are one net: the files have the same content")
    measure_missing(path, asked_nets, oracle, command=command, quiet=quiet, **net_options)
    with opened_store(path) as opened:
        asked_nets = find_nets(opened, nets, oracle)
        asked = resolved(opened, asked_with(question, net=asked_nets[0].key, oracle=oracle.digest))
    complete_policies(path, asked_nets, oracle, asked, quiet=quiet, **net_options)
    with opened_store(path) as opened:
        comparison = compare(opened, asked_nets, oracle, asked)
        rows = None if kind is None else wrong_positions(opened, asked_nets, oracle, comparison)
    if regret is not None:
        from valuerepair.runs.regret import measure_regret

        comparison = measure_regret(
            path, asked_nets, oracle, comparison, regret, command=command, quiet=quiet, **net_options
        )
    if rejudge is not None:
        from valuerepair.runs import rejudge as deeper

        comparison = deeper.rejudge(path, oracle, comparison, rejudge, command=command, quiet=quiet)
    if rows is not None and kind is not None and output is not None:
        write_file(rows, kind, os.fspath(output))
        log.info(f"{os.fspath(output)}: {len(rows):,} positions")
    if plot is not None:
        plot_remeasured(comparison, plot)
        log.info(os.fspath(plot))
    return comparison


def remeasure_suite(
    suite: Path,
    nets: str | Sequence[str],
    *,
    threshold: float | None = None,
    alpha: float | None = None,
    output: Path | None = None,
    device: str = "auto",
) -> MeasuredSuite:
    """Which blind spots of a suite (`write_suite`) other nets share: `vr remeasure SUITE`.

    `suite` is an EPD file with values (ce, dm, bm #N), `nets` are files or names. `threshold` and `alpha` are those
    that the suite names, unless given. A blind spot is shared where the net's Q is as wrong, in the same direction.
    `output` is a file (.parquet, .jsonl, .csv) for the rows.

    Returns a `MeasuredSuite`: `shares`, a rate with its interval by games for each net; `rows`, a frame of all
    positions, with `q_N` and `shared_N` of each net from 1; `lines()` and `as_json()` are what `vr remeasure` says.
    Raises UsageError for what is no net or file, ValueRepairError for a file without values.
    """
    from valuerepair.books.suite import measure_suite
    from valuerepair.store.export import format_of, write_file

    kind = None if output is None else format_of(os.fspath(output), None)
    given = [nets] if isinstance(nets, str) else list(nets)
    measured = measure_suite(os.fspath(suite), given, threshold=threshold, alpha=alpha, device=device)
    if kind is not None and output is not None:
        write_file(measured.rows, kind, os.fspath(output))
        log.info(f"{os.fspath(output)}: {len(measured.rows):,} positions")
    return measured


def plot_remeasured(comparison: Remeasured, path: Path | None = None) -> Figure:
    """Draws a comparison of nets (`remeasure`): `vr remeasure --plot`. `path` also writes it (.png, .svg or .pdf).

    Left every position, one net's disagreement against the other's; right what changed by label, with intervals.
    """
    from valuerepair.report import remeasure_plot, style

    if path is not None:
        style.format_of(path)
    figure = remeasure_plot.draw(comparison)
    if path is not None:
        style.save(figure, path)
    return figure
