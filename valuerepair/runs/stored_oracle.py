"""Opens the oracle of a store's values again, from what the store knows about it, or a deeper one for a second look."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from valuerepair.engines.kinds import chosen_spec, kind_of, parse_spec
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.judge.labelled import open_stored
from valuerepair.nets.devices import device_of, split_key
from valuerepair.nets.net import Net, open_net
from valuerepair.nets.registry import KNOWN_NETS, is_pulled, locate
from valuerepair.nets.weights import read_net_file
from valuerepair.oracles.open import open_oracle, without_remarks
from valuerepair.oracles.oracle import Oracle
from valuerepair.question import Question
from valuerepair.store import files
from valuerepair.store.rows import OracleIdentity
from valuerepair.store.second_looks import StoredOracle, oracle_of
from valuerepair.store.store import Store

log = logging.getLogger(__name__)


def net_files(store: Store, paths: Sequence[str]) -> dict[str, str]:
    """The available net files by SHA-256: `paths`, the nets that the store's values are from, and pulled nets."""
    pulled = {net.sha256: str(net.cached) for net in KNOWN_NETS.values() if is_pulled(net)}
    return pulled | files.existing_nets(store) | {read_net_file(path).sha256: path for path in paths}


def open_same(
    oracle: StoredOracle,
    files: Mapping[str, str],
    deep: str | None,
    *,
    net: Net | None = None,
) -> tuple[Oracle | None, str]:
    """Opens the same oracle; if that is not possible, returns None and the reason.

    `deep` says how to open it if the store does not know (`stored_spec`); `net` is shared if the oracle searches with
    it.
    """
    kind = kind_of(oracle.kind)
    if not kind.searches:
        return None, "they were recorded in archives, nothing was searched"
    net_sha256 = split_key(kind.net_of(oracle) or "")[0]
    path = files.get(net_sha256)
    if kind.takes_net and path is None:
        return None, f"no file of its net (SHA-256 {net_sha256[:12]}) was found: give it by --net"
    shared = net if net is not None and net.identity.sha256 == net_sha256 else None
    try:
        with without_remarks():
            opened = open_oracle(deep or stored_spec(oracle), net_path=path, net=shared)
    except ValueRepairError as error:
        return None, str(error)
    if opened.identity.digest == oracle.digest:
        return opened, ""
    opened.close()
    return None, f"another one was found: {opened.identity.label}, program or net {opened.identity.sha256[:12]}"


def stored_spec(oracle: StoredOracle) -> str:
    """The ``--deep`` text of an oracle. Raises UsageError for an engine whose path the store does not know."""
    return kind_of(oracle.kind).spec_of(oracle).text


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
def open_found(store: Store, question: Question, *, deep: str | None = None) -> Iterator[tuple[Net, Oracle]]:
    """Opens the net and the oracle of a question to the store, with the same identity as before, and closes both.

    `deep` says how to open the oracle if the store does not know it. Raises UsageError if that is another oracle or
    cannot be opened, and what `judge.labelled.open_stored` raises.
    """
    attrs = store.frame(question, only=("position_id",)).attrs
    oracle = oracle_of(store.connection, attrs["oracle"]["digest"])
    file = net_file(question)
    with open_stored(store, attrs["net"], file) as net:
        available = net_files(store, [file] if file else [])
        opened, reason = open_same(oracle, available, deep, net=net)
        if opened is None:
            raise UsageError(f"the candidates were found by {oracle.label}, and it cannot be run again: {reason}")
        with opened:
            log.info(f"net: {net.identity.name} on {net.where}")
            log.info(f"deep search: {opened.identity.label}, {opened.workers} at once")
            yield net, opened


# -- second looks -----------------------------------------------------------------------------------------------------

TIMES = 10  # the second look has this many times the nodes of the first


def second_spec(first: StoredOracle, deep: str | None) -> str | None:
    """The ``--deep`` text of the second look at what `first` searched; None for the default oracle.

    It is `deep`, if given, else the first look's engine and options with `TIMES` the nodes; after recorded evaluations,
    a real search. Raises UsageError if the store does not know how to open the first oracle again.
    """
    if deep is not None:
        parse_spec(deep)
        return deep
    kind = kind_of(first.kind)
    if not kind.searches:
        return None
    try:
        spec = kind.spec_of(first)
    except UsageError as error:
        raise UsageError(f"{first.label}: {error}") from None
    if "depth" in spec.limits:
        raise UsageError(f"{first.label}: a depth cannot be multiplied; give --deep SPEC")
    return replace(spec, limits={name: TIMES * value for name, value in spec.limits.items()}).text


@contextmanager
def open_second(
    store: Store,
    first: StoredOracle,
    deep: str | None,
    net: Mapping[str, Any],
    net_file: str | None,
) -> Iterator[Oracle]:
    """Opens the oracle of the second look, and closes it.

    `net` is the mined net as in a frame's attrs, `net_file` its file if the user gave one (else the store may know it):
    a search with a net uses it unless it names another. Raises UsageError for an oracle that cannot look deeper than
    the first, and the errors of `oracles.open.open_oracle`.
    """
    spec = chosen_spec(second_spec(first, deep))
    with ExitStack() as stack:
        path, shared = None, None
        if spec.kind.takes_net and spec.weights is None:
            path = _net_path(store, first, deep, net, net_file)
        if path is not None and spec.kind.built_in:
            device = device_of(str(first.options.get("precision", ""))) or "auto"
            opening = open_net(path, device=device)
            shared = stack.enter_context(opening)
        oracle = stack.enter_context(open_oracle(spec, net_path=path, net=shared))
        _check_deeper(first, oracle.identity)
        if oracle.identity.kind == first.kind and oracle.identity.engine != first.engine:
            log.info(
                f"the first look was by {first.engine}, this is {oracle.identity.engine}: they count as two engines"
            )
        yield oracle


def _check_deeper(first: StoredOracle, second: OracleIdentity) -> None:
    if second.digest == first.digest:
        raise UsageError(f"{second.label} took the first look; give another --deep")
    before, after = first.limits.get("nodes"), second.limits.get("nodes")
    if is_same_search(first, second) and before and after and after <= before:
        raise UsageError(f"--deep: the first look had {before:,} nodes, this one {after:,}; a second look is deeper")


def is_same_search(first: StoredOracle, second: OracleIdentity) -> bool:
    """Whether both search alike but for their limits: one with another net, or other options, may have fewer nodes."""
    engine, other = (
        (oracle.kind, oracle.engine, oracle.sha256, {k: str(v) for k, v in oracle.options.items() if k != "Hash"})
        for oracle in (first, second)
    )
    return engine == other


def _net_path(
    store: Store, first: StoredOracle, deep: str | None, net: Mapping[str, Any], net_file: str | None
) -> str | None:
    """The file of the net to search with: that of the first look, or with another oracle that of the mined net."""
    sha256 = split_key(str(net["sha256"]))[0]
    kind = kind_of(first.kind)
    if deep is None and kind.searches:
        sha256 = kind.net_of(first) or ""
    for name in (net_file, files.net_option(store, sha256)):
        if name is not None and (name in KNOWN_NETS or os.path.isfile(name)):
            path = Path(locate(name))
            if read_net_file(path).sha256 == sha256:
                return str(path)
    if not kind.searches:
        return None
    raise UsageError(
        f"the second look searches with a net, and {files.reason_missing(store, sha256[:12], sha256)}; "
        "give its file by --net FILE, or as weights=FILE in --deep"
    )
