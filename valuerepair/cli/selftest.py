"""`vr selftest`: do the compiled rules of chess work on this machine."""

from __future__ import annotations

import click

from valuerepair.cli.verbosity import is_quiet

SHOWN = 5


@click.command()
@click.option(
    "--positions", type=click.IntRange(0, 1_000_000), default=2000, show_default=True, help="How many random positions."
)
@click.option("--seed", default=0, show_default=True, help="Another seed draws other positions.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a check and line.")
def command(positions: int, seed: int, as_json: bool) -> None:
    """Check the rules of chess as compiled for this machine.

    Counts the move sequences of the well-known test positions (perft) and compares with the published figures, then
    asks python-chess about random positions: legal moves, check, FEN and key. Some seconds, after an installation or
    an update of Numba; the first run compiles. Exit code 1 when anything differs; the positions are named.

    \b
    Example:
      vr selftest
      vr selftest --positions 100000 --seed 7
    """
    import json
    from dataclasses import asdict

    from valuerepair import selftest
    from valuerepair.chess.jit import CACHE_FOLDER
    from valuerepair.errors import ValueRepairError

    done = failed = 0
    for check in selftest.checks(positions, seed):
        verdict = f"{len(check.wrong)} WRONG" if check.wrong else "ok"
        if as_json:
            click.echo(json.dumps(asdict(check)))
        elif check.wrong or not is_quiet():
            click.echo(f"{check.what:<38}{check.amount:<30}{check.seconds:>7.2f} s  {verdict}")
        for line in () if as_json else check.wrong[:SHOWN]:
            click.echo(f"  {line}")
        done, failed = done + 1, failed + bool(check.wrong)
    if failed:
        raise ValueRepairError(
            f"selftest: {failed} of {done} checks failed; remove {CACHE_FOLDER or 'the compiled kernels'} and run it "
            "again; if it fails again, report it with the output of vr doctor"
        )
