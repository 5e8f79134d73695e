"""Opens what a command line names for mining: a net and a judge, or recorded evaluations."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from valuerepair.archives.options import CHUNKS
from valuerepair.engines.kinds import chosen_spec, parse_spec
from valuerepair.errors import UsageError
from valuerepair.mining.mine import MineOptions, import_recorded, mine
from valuerepair.mining.summary import MineSummary
from valuerepair.nets.net import Evaluator, open_net
from valuerepair.nets.registry import locate
from valuerepair.oracles.oracle import Judge
from valuerepair.oracles.recorded import RecordedSource
from valuerepair.progress import Progress
from valuerepair.store.store import Store

log = logging.getLogger(__name__)


class Opened(NamedTuple):
    """A net and a judge to mine with. `net` is None for training chunks, which have the values of their own net."""

    net: Evaluator | None
    judge: Judge | RecordedSource

    @property
    def names(self) -> tuple[str, str]:
        """The keys of net and judge in the store."""
        facts = self.judge.net if self.net is None and isinstance(self.judge, RecordedSource) else self.net
        assert facts is not None
        return facts.identity.key, self.judge.identity.digest

    def run(self, paths: Sequence[str], options: MineOptions, store: Store, progress: Progress) -> MineSummary:
        """Mines the archives, or imports their evaluations."""
        if isinstance(self.judge, RecordedSource):
            return import_recorded(paths, options, store, self.judge, self.net, progress=progress)
        assert self.net is not None
        return mine(paths, options, store, self.net, self.judge, progress=progress)


@contextmanager
def open_run(
    archives: Sequence[str], deep: str | None, net: str | None, workers: int | None = None, **net_options: Any
) -> Iterator[Opened]:
    """Opens the net (`net_options` are those of `nets.net.open_net`) and what ``--deep`` names, and closes both.

    Raises UsageError and ValueRepairError.
    """
    from valuerepair.oracles.open import open_judge

    spec = chosen_spec(deep)
    if not spec.kind.searches:
        with _open_import(archives, deep or "", net, **net_options) as opened:
            yield opened
        return
    path = str(locate(net))
    with (
        open_net(path, **net_options) as opened_net,
        open_judge(spec, net_path=path, net=opened_net, workers=workers) as judge,
    ):
        log.info(f"net: {opened_net.identity.name} on {opened_net.where}")
        yield Opened(opened_net, judge)


@contextmanager
def _open_import(archives: Sequence[str], deep: str, net: str | None, **net_options: Any) -> Iterator[Opened]:
    """Finds out which evaluations a ``--deep recorded`` means, and opens the net to compare them with."""
    from valuerepair.oracles.recorded import chunk_net_name, recorded_options

    spec = parse_spec(deep)
    recorded = recorded_options(spec, archives)
    if recorded.kind == CHUNKS:
        if net is not None:
            raise UsageError(
                f"--net {net}: training chunks hold the values of their own net; name it: recorded:net=NAME"
            )
        source = RecordedSource.of(recorded, chunk_net_name(archives, spec.options))
        assert source.net is not None
        log.info(f"net: {source.net.identity.name}; runs on chunks of one net belong together by recorded:net=NAME")
        yield Opened(None, source)
        return
    with open_net(net, **net_options) as opened:
        log.info(f"net: {opened.identity.name} on {opened.where}")
        yield Opened(opened, RecordedSource.of(recorded))
