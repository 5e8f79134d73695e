"""Opens nets and judges: those that a command line names, those of a store's values again, and deeper ones.

Engines of a store are found by the name of their kind: a store may come from anybody, and no program that it names is
ever run.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from valuerepair.archives.options import CHUNKS
from valuerepair.engines.kinds import chosen_spec, kind_of, parse_spec
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.nets.devices import device_of, split_key
from valuerepair.nets.net import Evaluator, open_net
from valuerepair.nets.registry import KNOWN_NETS, locate
from valuerepair.nets.weights import read_net_file
from valuerepair.oracles.open import open_judge
from valuerepair.oracles.oracle import Judge
from valuerepair.question import Question
from valuerepair.store.pairs import judge_of, net_key, net_label, net_option, pick, reason_missing
from valuerepair.store.rows import JudgeIdentity, StoredJudge
from valuerepair.store.store import Store

if TYPE_CHECKING:
    from valuerepair.nets.net import Net
    from valuerepair.oracles.recorded import RecordedSource

log = logging.getLogger(__name__)

TIMES = 10  # the second look has this many times the nodes of the first


# -- what a command line names ----------------------------------------------------------------------------------------


class Opened(NamedTuple):
    """A net and a judge to mine with. `net` is None for training chunks, which have the values of their own net."""

    net: Evaluator | None
    judge: Judge | RecordedSource


@contextmanager
def open_run(
    archives: Sequence[str], deep: str | None, net: str | None, workers: int | None = None, **net_options: Any
) -> Iterator[Opened]:
    """Opens the net (`net_options` are those of `nets.net.open_net`) and what ``--deep`` names, and closes both.

    Raises UsageError and ValueRepairError.
    """
    from valuerepair.oracles.recorded import RecordedSource, chunk_net_name, recorded_options

    spec = chosen_spec(deep)
    recorded = None if spec.kind.searches else recorded_options(spec, archives)
    if recorded is not None and recorded.kind == CHUNKS:
        if net is not None:
            raise UsageError(
                f"--net {net}: training chunks hold the values of their own net; name it: recorded:net=NAME"
            )
        source = RecordedSource.of(recorded, chunk_net_name(archives, spec.options))
        assert source.net is not None
        log.info(f"net: {source.net.identity.name}; runs on chunks of one net belong together by recorded:net=NAME")
        yield Opened(None, source)
        return
    path = str(locate(net))
    with open_net(path, **net_options) as opened:
        if recorded is not None:
            log.info(f"net: {opened.identity.name} on {opened.where}")
            yield Opened(opened, RecordedSource.of(recorded))
            return
        with open_judge(spec, net_path=path, net=opened, workers=workers) as judge:
            log.info(f"net: {opened.identity.name} on {opened.where}")
            yield Opened(opened, judge)


# -- what a store names -----------------------------------------------------------------------------------------------


def net_path(store: Store, key: str, name: str, file: str | None = None) -> str:
    """The file of the net with this key: `file` if it is that net, else where the store knows it.

    Raises UsageError if it is not found; the words call it by its `name`.
    """
    sha256, _ = split_key(key)
    if file is not None and (file in KNOWN_NETS or os.path.isfile(os.path.expanduser(file))):
        given = locate(file)
        if read_net_file(given).sha256 == sha256:
            return str(given)
    if (words := net_option(store, sha256)) is not None:
        return str(locate(words))
    raise UsageError(f"{reason_missing(store, name, sha256)}; give its file with --net FILE")


def open_net_again(store: Store, net: Mapping[str, Any], file: str | None = None, **net_options: Any) -> Net:
    """Opens the net of a frame's attrs, {name, sha256}, to compute as it did for the store.

    `file` is its file if the user gave one, `net_options` are those of `nets.net.open_net`. Raises UsageError if the
    file is not found, ValueRepairError if it cannot be opened with the precision of the store's values.
    """
    key, name = str(net["sha256"]), str(net["name"])
    path = net_path(store, key, f"{name} ({key[:12]})", file)
    if (device := device_of(split_key(key)[1])) is not None:  # of another precision, which only some devices have
        net_options["device"] = device
    opened = open_net(path, **net_options)
    if opened.identity.key != key:
        opened.close()
        raise ValueRepairError(
            f"{path} computes as {opened.identity.key[:12]} here, not as {key[:12]}, as for the store"
        )
    return opened


@contextmanager
def open_pair_again(store: Store, question: Question, *, deep: str | None = None) -> Iterator[tuple[Net, Judge]]:
    """Opens the net and the judge of a question, and closes both; `deep` says how if the store does not know the judge.

    Raises UsageError if a file is not found, or the judge is another one here, and as `open_net_again`.
    """
    net_id, judge_id = pick(store, question.net, question.oracle)
    judge = judge_of(store, judge_id)
    kind = kind_of(judge.kind)
    named = {"name": net_label(store, net_id), "sha256": net_key(store, net_id)}
    with open_net_again(store, named, question.net) as net:
        spec, key = deep or kind.spec_of(judge).text, kind.net_of(judge)
        path = net_path(store, key, key[:12], question.net) if kind.takes_net and key else None
        shared = net if key and net.identity.sha256 == split_key(key)[0] else None
        with open_judge(spec, net_path=path, net=shared) as opened:
            if opened.identity.digest != judge.digest:
                raise UsageError(
                    f"the candidates were found by {judge.label}; here is another judge: {opened.identity.label}"
                )
            yield net, opened


# -- deeper judges ----------------------------------------------------------------------------------------------------


def deeper_spec(first: StoredJudge, deep: str | None) -> str | None:
    """The ``--deep`` text of a second look at what `first` searched; None for the default judge of this machine.

    It is `deep`, if given, else the first judge with `TIMES` its limits; after recorded evaluations, a real search.
    Raises UsageError if the store does not know how to open the first judge.
    """
    if deep is not None:
        parse_spec(deep)
        return deep
    kind = kind_of(first.kind)
    if not kind.searches:
        return None
    spec = kind.spec_of(first)
    if "depth" in spec.limits:
        raise UsageError(f"{first.label}: a depth cannot be multiplied; give --deep SPEC")
    return replace(spec, limits={name: TIMES * value for name, value in spec.limits.items()}).text


@contextmanager
def open_deeper(
    store: Store, first: StoredJudge, deep: str | None, net: Mapping[str, Any], file: str | None = None
) -> Iterator[Judge]:
    """Opens a judge that looks again at what `first` judged (`deeper_spec`), and closes it.

    A search with a net, unless it names one, has that of the first judge, else the mined `net`, as in a frame's attrs;
    `file` is its file if the user gave one. Whether another engine, net or setting sees more than the first nobody can
    tell by its nodes: one line says so. Raises UsageError for the first search with no more nodes.
    """
    spec, path = chosen_spec(deeper_spec(first, deep)), None
    if spec.kind.takes_net and spec.weights is None:
        key = (kind_of(first.kind).net_of(first) if deep is None else "") or str(net["sha256"])
        path = net_path(store, key, key[:12], file)
    with open_judge(spec, net_path=path) as judge:
        label = judge.identity.label
        if not is_deeper(first, judge.identity):
            raise UsageError(f"--deep: {label} looks no deeper than {first.label}; give it more")
        if not first.limits.keys() & judge.identity.limits.keys():
            log.info(f"{label} has another kind of limit than {first.label}: not surely deeper")
        elif not is_same_search(first, judge.identity):
            log.info(f"{label} is another search than {first.label}: a second opinion, not surely a better one")
        yield judge


def is_deeper(first: StoredJudge, second: JudgeIdentity) -> bool:
    """Whether a judge is another search than `first`, or the same one with a higher limit."""
    if not is_same_search(first, second):
        return True
    shared = first.limits.keys() & second.limits.keys()
    return not shared or any(second.limits[name] > first.limits[name] for name in shared)


def is_same_search(first: StoredJudge, second: JudgeIdentity | StoredJudge) -> bool:
    """Whether both search alike but for their limits: one with another net, or other options, may have fewer nodes."""
    alike, other = (
        (
            judge.kind,
            judge.engine,
            kind_of(judge.kind).net_of(judge),
            {k: str(v) for k, v in judge.options.items() if k != "Hash"},
        )
        for judge in (first, second)
    )
    return alike == other
