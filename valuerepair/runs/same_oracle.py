"""Opens the oracle of a store's values again, from what the store knows about it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from valuerepair.engines.kinds import kind_of
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.judge.labelled import open_stored
from valuerepair.nets.devices import split_key
from valuerepair.nets.net import Net
from valuerepair.nets.registry import KNOWN_NETS, is_pulled
from valuerepair.nets.weights import read_net_file
from valuerepair.oracles.open import open_oracle, without_remarks
from valuerepair.oracles.oracle import Oracle
from valuerepair.question import Question
from valuerepair.store import files
from valuerepair.store.second_looks import StoredOracle, oracle_of
from valuerepair.store.store import Store

log = logging.getLogger(__name__)


def net_files(store: Store, given: Sequence[str]) -> dict[str, str]:
    """The available net files by SHA-256: the `given` ones, those that the store's values are from, and pulled nets."""
    pulled = {net.sha256: str(net.cached) for net in KNOWN_NETS.values() if is_pulled(net)}
    return pulled | files.existing_nets(store) | {read_net_file(path).sha256: path for path in given}


def open_same(
    oracle: StoredOracle,
    files: Mapping[str, str],
    deep: str | None,
    *,
    net: Net | None = None,
    workers: int | None = None,
) -> tuple[Oracle | None, str]:
    """Opens the same oracle; if that is not possible, returns None and the reason.

    `deep` says how to open it if the store does not know (`stored_spec`); `net` is shared if the oracle searches with
    it.
    """
    kind = kind_of(oracle.kind)
    if not kind.searches:
        return None, "they were recorded in archives, nothing was searched"
    wanted = split_key(kind.net_of(oracle) or "")[0]
    path = files.get(wanted)
    if kind.takes_net and path is None:
        return None, f"no file of its net (SHA-256 {wanted[:12]}) was found: give it by --net"
    shared = net if net is not None and net.identity.sha256 == wanted else None
    try:
        with without_remarks():
            opened = open_oracle(deep or stored_spec(oracle), net_path=path, net=shared, workers=workers)
    except ValueRepairError as error:
        return None, str(error)
    if opened.identity.digest == oracle.digest:
        return opened, ""
    opened.close()
    return None, f"another one was found: {opened.identity.label}, program or net {opened.identity.sha256[:12]}"


def stored_spec(oracle: StoredOracle) -> str:
    """The ``--deep`` text of an oracle. Raises UsageError for an engine whose path the store does not know."""
    return kind_of(oracle.kind).again(oracle).text


def net_file(question: Question) -> str | None:
    """The file of a question's net, if the question names one."""
    return question.net if question.net is not None and os.path.isfile(question.net) else None


def can_search_again(store: Store, net_id: int, oracle_id: int) -> bool:
    """Whether the store knows where the net's file is and how to run the oracle, so that `open_found` needs no help."""
    sha256, digest = store.names(net_id, oracle_id)
    oracle = oracle_of(store.connection, digest)
    if kind_of(oracle.kind).searches:
        try:
            stored_spec(oracle)
        except UsageError:
            return False
    return files.net_option(store, sha256) is not None


@contextmanager
def open_found(
    store: Store, question: Question, *, deep: str | None = None, workers: int | None = None, **net_options: Any
) -> Iterator[tuple[Net, Oracle]]:
    """Opens the net and the oracle of a question to the store, with the same identity as before, and closes both.

    `deep` says how to open the oracle if the store does not know it. Raises UsageError if that is another oracle or
    cannot be opened, and what `judge.labelled.open_stored` raises.
    """
    attrs = store.frame(question, only=("position_id",)).attrs
    oracle = oracle_of(store.connection, attrs["oracle"]["digest"])
    file = net_file(question)
    with open_stored(store, attrs["net"], file, **net_options) as net:
        available = net_files(store, [file] if file else [])
        opened, why = open_same(oracle, available, deep, net=net, workers=workers)
        if opened is None:
            raise UsageError(f"the candidates were found by {oracle.label}, and it cannot be run again: {why}")
        with opened:
            log.info(f"net: {net.identity.name} on {net.where}")
            log.info(f"deep search: {opened.identity.label}, {opened.workers} at once")
            yield net, opened
