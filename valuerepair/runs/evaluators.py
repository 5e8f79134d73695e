"""Opens what a command line names for mining: a net and an oracle, or recorded evaluations."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from valuerepair.archives.options import CHUNKS
from valuerepair.engines.kinds import chosen_spec, parse_spec
from valuerepair.errors import UsageError
from valuerepair.nets.net import Evaluator, open_net
from valuerepair.nets.registry import locate
from valuerepair.oracles.oracle import Oracle
from valuerepair.oracles.recorded import RecordedSource
from valuerepair.progress import Progress
from valuerepair.runs.options import MineOptions
from valuerepair.runs.summary import MineSummary
from valuerepair.screening.model import ScreenOptions, rungs_of
from valuerepair.store.rows import OracleIdentity
from valuerepair.store.store import Store

log = logging.getLogger(__name__)


class Opened(NamedTuple):
    """A net and an oracle, to mine with."""

    net: Evaluator
    oracle: Oracle

    @property
    def names(self) -> tuple[str, str]:
        """The keys of net and oracle in the store."""
        return self.net.identity.key, self.oracle.identity.digest

    def fitting(self, options: MineOptions) -> MineOptions:
        """The options with the screening that the oracle allows."""
        return replace(options, screen=fitting_screen(self.oracle.identity, options.screen))

    def run(self, paths: Sequence[str], options: MineOptions, store: Store, progress: Progress) -> MineSummary:
        """Mines the archives."""
        from valuerepair.runs.mine import mine

        return mine(paths, options, store, self.net, self.oracle, progress=progress)


class OpenedImport(NamedTuple):
    """Recorded evaluations to import, with a net to compare them with; None if they have values of their own net."""

    source: RecordedSource
    net: Evaluator | None

    @property
    def names(self) -> tuple[str, str]:
        """The keys of net and oracle in the store."""
        net = self.source.net if self.net is None else self.net
        assert net is not None
        return net.identity.key, self.source.identity.digest

    def fitting(self, options: MineOptions) -> MineOptions:
        """The options without screening. Raises UsageError for rungs."""
        if options.screen is not None and options.screen.rungs is not None:
            raise UsageError("--screen with rungs: recorded evaluations are read, not searched, so there are no rungs")
        return replace(options, screen=None)

    def run(self, paths: Sequence[str], options: MineOptions, store: Store, progress: Progress) -> MineSummary:
        """Imports the evaluations of the archives."""
        from valuerepair.runs.recorded import import_recorded

        return import_recorded(paths, options, store, self.source, self.net, progress=progress)


def open_run(
    archives: Sequence[str],
    deep: str | None,
    net: str | None,
    workers: int | None = None,
    **net_options: Any,
) -> AbstractContextManager[Opened | OpenedImport]:
    """Opens what ``--deep`` names: an oracle that searches, or the import of the evaluations in `archives`."""
    if deep is not None and not parse_spec(deep).kind.searches:
        return open_import(archives, deep, net, **net_options)
    return open_evaluators(deep, net, workers, **net_options)


@contextmanager
def open_evaluators(
    deep: str | None,
    net: str | None,
    workers: int | None = None,
    **net_options: Any,
) -> Iterator[Opened]:
    """Opens the net (`net_options` are those of `nets.net.open_net`) and the oracle of ``--deep``, and closes both.

    Raises UsageError and ValueRepairError.
    """
    from valuerepair.oracles.open import open_oracle

    spec, path = chosen_spec(deep), str(locate(net))
    with (
        open_net(path, **net_options) as opened,
        open_oracle(spec, net_path=path, net=opened, workers=workers) as oracle,
    ):
        log.info(f"net: {opened.identity.name} on {opened.where}")
        yield Opened(opened, oracle)


@contextmanager
def open_import(
    archives: Sequence[str],
    deep: str,
    net: str | None,
    **net_options: Any,
) -> Iterator[OpenedImport]:
    """Finds out which recorded evaluations a ``--deep recorded`` means, and opens the net to compare them with.

    Training chunks have the values of their own net, so no net is opened for them. Raises UsageError and
    ValueRepairError.
    """
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
        yield OpenedImport(source, None)
        return
    with open_net(net, **net_options) as opened:
        log.info(f"net: {opened.identity.name} on {opened.where}")
        yield OpenedImport(RecordedSource.of(recorded), opened)


def fitting_screen(oracle: OracleIdentity, requested: ScreenOptions | None) -> ScreenOptions | None:
    """The requested screening, as far as the oracle allows it; None: everything is searched in full.

    A ladder needs an oracle that is limited by nodes alone; for another one the default ladder is off. Raises
    UsageError for rungs that such an oracle, or this number of nodes, does not allow.
    """
    if requested is None:
        return None
    limits = oracle.limits
    if set(limits) != {"nodes"}:
        if requested.rungs is not None:
            raise UsageError("--screen with rungs: the deep search is not limited by nodes alone, so it has no rungs")
        log.info("screening is off: it needs a deep search that is limited by nodes alone")
        return None
    if requested.rungs is not None and requested.rungs[-1] >= limits["nodes"]:
        raise UsageError(f"--screen: rungs must be below the {limits['nodes']:,} nodes of the full search")
    return requested if requested.rungs or rungs_of(limits["nodes"]) else None
