"""Nets compared on the same positions of a store (`remeasure`)."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from valuerepair.api.calls import Asked, Path, asked_with, opened_store, paths_of, plain, resolved, split_of
from valuerepair.command import recorded_command

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from valuerepair.judge.compare import Remeasured
    from valuerepair.judge.compared_nets import ComparedNet, ComparedOracle
    from valuerepair.judge.split import Split
    from valuerepair.question import Question
    from valuerepair.runs.rejudge import RejudgeOptions

log = logging.getLogger(__name__)


def remeasure(
    store: Path,
    nets: Sequence[Path],
    question: Asked = None,
    *,
    split: Split | Path | None = None,
    part: str | None = None,
    cut: bool = False,
    rejudge: RejudgeOptions | None = None,
    output: Path | None = None,
    plot: Path | None = None,
    device: str = "auto",
    quiet: bool = True,
) -> Remeasured:
    """The same positions under several nets, each compared with the first in pairs: `vr remeasure`.

    `nets` are two or more files or names. Missing values and policies are computed and stored if a net's file is known;
    only then is the store written to. `question.oracle` gives the scores, None means the oracle with the most scores;
    the question's net is ignored. The result has the rates (`nets`), the comparisons with intervals (`comparisons`) and
    the rows (`scores`). Judge by all positions: the first net's own candidates were chosen as its worst errors, and any
    other net looks better on them. With a `split` the positions are those that it holds out, or one `part` of them:
    ``games``, ``families``, ``archives``. With `cut` (``--all``) they include those that screening cut, by the value of
    the last rung, and each position has the weight 1. `by_kind` and `judge` of a comparison say for each kind of
    position whether the net is the better judge. With `rejudge`, as in ``RejudgeOptions("stockfish:nodes=1000000")``, a
    deeper oracle judges positions again, and `rejudged` of the result is the comparison by its values. `output` is a
    file (.parquet, .jsonl, .csv) for the positions on which any net is wrong, `plot` one (.png, .svg, .pdf) for the
    figure (`plot_remeasured`). Raises UsageError for an unknown net, ValueRepairError if there is nothing to compare.
    """
    from valuerepair.judge.compare import compare, wrong_positions
    from valuerepair.judge.split import check_part
    from valuerepair.store.export import table_of

    net_words = paths_of(nets)
    # A wrong argument is reported before a net runs.
    check_part(part, split)
    if output is not None:
        table_of(os.fspath(output))
    if plot is not None:
        from valuerepair.report import style

        style.format_of(plot)
    path, held_out = os.fspath(store), split_of(split)
    command = recorded_command("remeasure", *(f"--net={net}" for net in net_words))
    compared_nets, oracle, resolved_question = _with_all_values(
        path, net_words, question, held_out, part, cut=cut, device=device, command=command, quiet=quiet
    )
    with opened_store(path) as opened:
        comparison = compare(opened, compared_nets, oracle, resolved_question)
        rows = None if output is None else wrong_positions(opened, compared_nets, oracle, comparison)
    if rejudge is not None:
        import valuerepair.runs.rejudge

        comparison = valuerepair.runs.rejudge.rejudge(path, oracle, comparison, rejudge, command=command, quiet=quiet)
    if rows is not None and output is not None:
        _write_rows(rows, output)
    if plot is not None:
        plot_remeasured(comparison, plot)
        log.info(os.fspath(plot))
    return comparison


def _with_all_values(
    path: str,
    net_words: Sequence[str],
    question: Asked,
    held_out: Split | None,
    part: str | None,
    *,
    cut: bool,
    device: str,
    command: str,
    quiet: bool,
) -> tuple[list[ComparedNet], ComparedOracle, Question]:
    """The nets and the oracle of a comparison and the resolved question, after the store has all values and policies of
    the nets that can be computed."""
    from valuerepair.judge.compare import complete_policies
    from valuerepair.judge.compared_nets import find_nets, find_oracle, measure_missing
    from valuerepair.judge.split import TOGETHER, HeldPart, warning_of_trained

    with opened_store(path) as opened:
        held_part = None
        if held_out is not None:
            held_part = HeldPart.of(opened, held_out, part or TOGETHER)
            if (warning := warning_of_trained(opened, held_part.position_ids, held_out)) is not None:
                log.warning(warning)
        oracle = find_oracle(opened, plain(question).oracle, net_words, held_part, cut)
        nets = find_nets(opened, net_words, oracle)
    for number, net in enumerate(nets):
        if same := next((earlier for earlier in nets[:number] if earlier.key == net.key), None):
            log.info(f"{net.name} and {same.name} are the same net: the files have the same content")
    measure_missing(path, nets, oracle, command=command, quiet=quiet, device=device)
    with opened_store(path) as opened:
        nets = find_nets(opened, net_words, oracle)
        resolved_question = resolved(opened, asked_with(question, net=nets[0].key, oracle=oracle.digest))
    complete_policies(path, nets, oracle, resolved_question, quiet=quiet, device=device)
    return nets, oracle, resolved_question


def _write_rows(rows: pd.DataFrame, output: Path) -> None:
    from valuerepair.store.export import table_of, write_file

    path = os.fspath(output)
    write_file(rows, table_of(path), path)
    log.info(f"{path}: {len(rows):,} positions")


def plot_remeasured(comparison: Remeasured, path: Path | None = None) -> Figure:
    """Draws a comparison of nets (`remeasure`): `vr remeasure --plot`. `path` also writes it (.png, .svg or .pdf).

    On the left every position, one net's disagreement against the other's; on the right the changes by label, with
    intervals.
    """
    from valuerepair.report import remeasure_plot, style

    if path is not None:
        style.format_of(path)
    figure = remeasure_plot.draw(comparison)
    if path is not None:
        style.save(figure, path)
    return figure
