"""From a command line's words to what mining works with: the net, the oracle, and which positions they can judge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from valuerepair.archives.options import CHUNKS, SampleOptions
from valuerepair.errors import UsageError
from valuerepair.oracles.oracle import Oracle
from valuerepair.oracles.spec import RECORDED, parse_spec
from valuerepair.runs.options import Evaluator
from valuerepair.screening.model import ScreenOptions


class Opened(NamedTuple):
    """A net and an oracle, and the sampling options with what the oracle asks of positions."""

    net: Evaluator
    oracle: Oracle
    sample: SampleOptions


@contextmanager
def open_evaluators(
    archives: Sequence[str],
    sample: SampleOptions,
    deep: str | None,
    net: str | None,
    workers: int | None = None,
    say: Callable[[str], None] = lambda line: None,
    **net_options: Any,
) -> Iterator[Opened]:
    """Opens the net (`net_options` are those of `nets.open_net`) and the oracle of ``--deep``, and closes both.

    For recorded evaluations only positions that have one are to be sampled; training chunks bring the values of their
    own net, and none is opened then. Raises UsageError and ValueRepairError.
    """
    from valuerepair.nets.net import open_net
    from valuerepair.nets.registry import locate
    from valuerepair.oracles.open import open_oracle
    from valuerepair.oracles.recorded import RecordedNet, RecordedOracle, chunk_net_name, identity_of, recorded_options

    spec = parse_spec(deep) if deep is not None else None
    recorded = recorded_options(spec, archives, say) if spec is not None and spec.kind == RECORDED else None
    if spec is not None and recorded is not None and recorded.kind == CHUNKS:
        if net is not None:
            raise UsageError(
                f"--net {net}: training chunks hold the values of their own net; name it: recorded:net=NAME"
            )
        name = chunk_net_name(archives, spec.options)
        own = RecordedNet(name)
        say(f"net: {own.identity.name}; runs on chunks of one net belong together by recorded:net=NAME")
        oracle = RecordedOracle(identity_of(recorded, name), recorded.kind)
        yield Opened(own, oracle, replace(sample, recorded=recorded))
        return
    path = str(locate(net, say))
    with open_net(path, say=say, **net_options) as opened:
        if recorded is not None:
            say(f"net: {opened.identity.name} on {opened.where}")
            oracle = RecordedOracle(identity_of(recorded), recorded.kind)
            yield Opened(opened, oracle, replace(sample, recorded=recorded))
            return
        with open_oracle(deep, net_path=path, net=opened, workers=workers, say=say) as searching:
            say(f"net: {opened.identity.name} on {opened.where}")
            yield Opened(opened, searching, sample)


def fitting_screen(
    opened: Opened, asked: ScreenOptions | None, say: Callable[[str], None] = lambda line: None
) -> ScreenOptions | None:
    """The screening asked for, as far as the oracle allows it; None: everything is searched in full.

    A ladder needs a limit of nodes and nothing else: without one the usual ladder is off, and `say` is told. Raises
    UsageError for rungs that the oracle has no use for.
    """
    from valuerepair.screening.model import rungs_of

    limits, kind = opened.oracle.identity.limits, opened.oracle.identity.kind
    if asked is None:
        return None
    if kind == RECORDED:
        if asked.rungs is not None:
            raise UsageError("--screen with rungs: recorded evaluations are read, not searched, so there are no rungs")
        return None
    if set(limits) != {"nodes"}:
        if asked.rungs is not None:
            raise UsageError("--screen with rungs: the deep search is not limited by nodes alone, so it has no rungs")
        say("screening is off: it needs a deep search that is limited by nodes alone")
        return None
    if asked.rungs is not None and asked.rungs[-1] >= limits["nodes"]:
        raise UsageError(f"--screen: rungs lie below the {limits['nodes']:,} nodes of the whole search")
    if not (asked.rungs or rungs_of(limits["nodes"])):
        return None
    return asked
