"""`vr uci`: the built-in MCTS as a UCI engine."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from valuerepair.cli import printing
from valuerepair.cli.options import NET

if TYPE_CHECKING:
    from valuerepair.mcts.uci_options import EngineSettings
    from valuerepair.mcts.uci_server import OpenedNet


log = logging.getLogger(__name__)


@click.command()
@NET
@click.option("--set", multiple=True, metavar="NAME=VALUE", help="A UCI option's default; may be repeated.")
def command(net: str | None, **options: Any) -> None:
    """Search as a UCI engine, for GUIs, match runners and python-chess.

    Options have lc0's names where lc0 has them; send `uci` to see all. With MinibatchSize 1 and by nodes it is the
    sequential search of `vr search`; the default evaluates several leaves of the tree at once, which is faster.

    \b
    Example:
      vr uci --net maia-1900 --set Certainty=true
      printf 'position startpos\\ngo nodes 800\\nisready\\n' | vr uci
    """
    from valuerepair.errors import pairs_of
    from valuerepair.mcts.uci_options import EngineSettings, with_option

    settings = with_option(EngineSettings(), "WeightsFile", net or "")
    for name, value in pairs_of(options["set"], "--set ", "`uci` lists the options"):
        settings = with_option(settings, name, value)

    from valuerepair.mcts.uci_server import UciServer

    with printing.no_remarks():  # the server writes them as ``info string``
        UciServer(_open, _write, settings).run(_lines())


def _lines() -> Iterator[str]:
    """The lines of standard input; bytes that are not UTF-8 are replaced."""
    for line in sys.stdin.buffer:
        yield line.decode("utf-8", "replace")


def _write(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _open(settings: EngineSettings) -> OpenedNet:
    from valuerepair.mcts.evaluator import NetEvaluator, SplitEvaluator, good_minibatch
    from valuerepair.mcts.uci_server import OpenedNet
    from valuerepair.nets.net import open_net

    net = open_net(settings.weights or None, device=settings.device, threads=settings.threads or None)
    evaluator = NetEvaluator(net)
    on_cpu = net.on_cpu
    minibatch = good_minibatch(evaluator.streams, on_cpu)
    split = SplitEvaluator(evaluator, evaluator.streams if on_cpu else 1)
    log.info(f"{net.identity.name} on {net.where}; MinibatchSize 0 is {minibatch}")

    def close() -> None:
        split.close()
        net.close()

    return OpenedNet(split, net.identity.value_head == "wdl", close, minibatch)
