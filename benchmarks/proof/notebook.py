"""Notebook 06 from the tables of docs/proof: `python -m benchmarks.proof.notebook`.

It is made, and run, where these tables are: what it shows are the results, not a sample.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from benchmarks.proof.tables import run
from valuerepair.errors import ValueRepairError
from valuerepair.files import written_whole

NAME = "06-proof.ipynb"
TABLES = ("differences.csv", "nets.csv", "boards.csv")

_CELLS: tuple[tuple[str, str], ...] = (
    ("markdown", """\
# Does it repair?

The results of the experiment that [docs/proof/first-experiment.md](../docs/proof/first-experiment.md)
plans and tells: whether training on candidates repairs a net's judgement on games and families of positions that no
training saw, beyond what recalibration and the control do. The tables are those in `docs/proof/`; nothing else is
needed to run this."""),
    ("code", """\
from pathlib import Path

import pandas as pd
from IPython.display import SVG, display

import valuerepair as vr

PROOF = Path("../docs/proof")
words = {"arm": str, "against": str}
differences = pd.read_csv(PROOF / "differences.csv", dtype=words)
nets = pd.read_csv(PROOF / "nets.csv", dtype=words)
boards = pd.read_csv(PROOF / "boards.csv")
print(f"{len(nets)} nets of {nets['arm'].nunique()} arms")"""),
    ("markdown", """\
## The primary measure

The rate of candidates at 0.3 on the held-out families, every net recalibrated on other games, against another arm, as
a part of that arm's rate. Intervals of 95 % are over games and seeds together. One that holds 0 shows nothing,
whatever its size."""),
    ("code", """\
primary = differences.query("measure == 'rate' and scale == 'recalibrated' and threshold == 0.3")
for row in primary[primary["set"] == "families"].itertuples():
    verdict = "fewer" if row.relative_high < 0 else "more" if row.relative_low > 0 else "not shown"
    interval = f"{100 * row.relative_low:+.1f} to {100 * row.relative_high:+.1f}"
    change = f"{100 * row.relative:+.1f} % ({interval}), {row.seeds} and {row.other_seeds} nets"
    print(f"{row.arm} against {row.against}: {change}: {verdict}")"""),
    ("code", """\
SVG(PROOF / "arms.svg")"""),
    ("markdown", """\
## By share, and by number of candidates"""),
    ("code", """\
for name in ("share.svg", "candidates.svg"):
    if (PROOF / name).exists():
        display(SVG(PROOF / name))"""),
    ("markdown", """\
## Boards: before, control, after

Candidates of the held-out families, drawn at random: nobody chose them. Q is from the side to move, through each net's
own curve; a net is right where its Q is within 0.3 of the judge's. The original (before) is wrong on all of them, as
that is what a candidate is; any other net is right on some. So compare the control with the repaired net (after)."""),
    ("code", """\
WHO = {"before": "original", "control": "control", "after": "repaired"}
for words, who in WHO.items():
    off = (boards[f"{who}_recalibrated"] - boards["deep_q"]).abs()
    moves = int((boards[f"{who}_best"] == boards["deep_best"]).sum())
    right = f"right on {int((off < 0.3).sum())} of {len(boards)}, mean |Q - deep Q| {off.mean():.3f}"
    print(f"{words}: {right}, the judge's move first in {moves}")"""),
    ("markdown", """\
Arrows: the first move of the repaired net's policy (vermillion) and the judge's (blue), green where they agree."""),
    ("code", """\
def caption(row):
    before, control, after = (f"{words} {row[f'{who}_recalibrated']:+.2f}" for words, who in WHO.items())
    return f"deep {row['deep_q']:+.2f}, {before}\\n{control}, {after}"


shown = boards.assign(caption=boards.apply(caption, axis=1), net_best=boards["repaired_best"])
SVG(vr.draw_boards(shown))"""),
)  # fmt: skip


def build() -> Any:
    """The notebook, not run yet."""
    import nbformat

    v4: Any = nbformat.v4  # which ships no hints
    made = v4.new_notebook()
    made.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    for number, (kind, text) in enumerate(_CELLS, 1):
        new = v4.new_markdown_cell if kind == "markdown" else v4.new_code_cell
        made.cells.append(new(text, id=f"cell-{number}"))
    return made


def write(folder: Path, notebook: Path) -> None:
    """Runs the notebook in its folder, from which the tables are at ../docs/proof, and writes it with its outputs.

    Raises ValueRepairError where a table is missing in `folder`.
    """
    import nbformat
    from nbclient import NotebookClient

    for name in TABLES:
        if not (folder / name).exists():
            raise ValueRepairError(f"{folder / name}: is missing; run python -m benchmarks.proof.tables write")
    made = build()
    NotebookClient(made, timeout=300, resources={"metadata": {"path": str(notebook.parent)}}).execute()
    for cell in made.cells:
        cell.metadata.pop("execution", None)  # when it was run
    with written_whole(notebook, None) as partial:
        nbformat.write(made, partial)  # type: ignore[no-untyped-call]  # nbformat ships no hints


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.argument("root", default=".", type=click.Path(exists=True, file_okay=False, path_type=Path))
def command(root: Path) -> None:
    """Make notebooks/06-proof.ipynb of the repository in the folder ROOT from the tables in docs/proof."""
    write(root / "docs" / "proof", root / "notebooks" / NAME)


if __name__ == "__main__":
    run(command, "notebook")
