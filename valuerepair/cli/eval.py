"""`vr eval`: what a net alone thinks of positions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from valuerepair.cli.options import HEADS, JSON_LINES, NET, device_option
from valuerepair.cli.verbosity import say
from valuerepair.errors import ValueRepairError

if TYPE_CHECKING:
    from valuerepair.chess.positions import Position
    from valuerepair.nets.heads import Heads
    from valuerepair.nets.net import Net

LINES_AT_ONCE = 4096


@click.command()
@click.argument("position", nargs=-1, metavar="[FEN|FILE|-]")
@click.option("--moves", help="Moves played from the position (UCI or SAN), so the net sees the history.")
@NET
@click.option("--top", type=click.IntRange(0), default=5, help="How many moves to show.")
@HEADS
@device_option()
@JSON_LINES
def command(position: tuple[str, ...], moves: str | None, net: str | None, **given: Any) -> None:
    """Evaluate positions by the net alone (1 node).

    The position is a FEN (quoted or not), `startpos`, or a file or - (standard input) with one FEN, EPD or UCI
    `position ...` line each; nothing means the initial position. Q, W/D/L and priors are from the side to move.

    \b
    Example:
      vr eval "r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5Q2/PPPP1PPP/RNB1K1NR b KQkq - 3 3"
      vr eval --moves "e2e4 c7c5 g1f3" --top 3
      vr eval --json positions.epd > values.jsonl
    """
    from valuerepair.nets.net import open_net
    from valuerepair.nets.position_text import read_source

    positions = read_source(" ".join(position), (moves or "").split())
    first = next(positions, None)  # a wrong position should be told before a net is pulled and loaded
    if first is None:
        raise ValueRepairError(f"{' '.join(position)}: no positions in it")
    heads: Heads = given["heads"]
    with open_net(net, device=given["device"], value_head=heads.value, policy_head=heads.policy) as opened:
        say(
            f"{opened.identity.name} ({opened.identity.value_head} value head) on {opened.where}; from the side to move"
        )
        chunk = [first]
        while chunk:
            for row in _evaluate(opened, chunk, given["top"]):
                click.echo(json.dumps(row) if given["json"] else _text(row))
            chunk = list(islice(positions, LINES_AT_ONCE))


def _evaluate(net: Net, positions: list[Position], top: int) -> Iterator[dict[str, Any]]:
    import numpy as np

    from valuerepair.chess.positions import PositionBatch, decode_moves
    from valuerepair.nets.position_text import san

    values, (moves, offsets, p) = net.evaluate_with_priors(PositionBatch.from_positions(positions))
    for i, position in enumerate(positions):
        row = slice(offsets[i], offsets[i + 1])
        order = np.argsort(-p[row], kind="stable")[:top]
        shown, shares = moves[row][order], p[row][order]
        best = zip(decode_moves(shown), san(position, shown), shares.tolist(), strict=True)
        yield {
            "fen": position.fen,
            "start_fen": position.start_fen,
            "moves": list(position.moves),
            "net": net.identity.name,
            "net_sha256": net.identity.sha256,
            "q": float(values.q[i]),
            "wdl": None if np.isnan(values.wdl[i, 0]) else values.wdl[i].tolist(),
            "moves_left": None if np.isnan(values.moves_left[i]) else float(values.moves_left[i]),
            "entropy": float(values.entropy[i]),
            "top": [{"uci": uci, "san": text, "p": share} for uci, text, share in best],
        }


def _text(row: dict[str, Any]) -> str:
    wdl = "" if row["wdl"] is None else "   W {:.1%}  D {:.1%}  L {:.1%}".format(*row["wdl"])
    lines = [row["fen"], f"  Q {row['q']:+.4f}{wdl}"]
    lines += [f"  {move['san']:8}{move['uci']:6}{move['p']:7.2%}" for move in row["top"]]
    return "\n".join(lines) + "\n"
