"""Opens the net and the judge of a store's values again, from what the store knows about them, or a deeper judge.

Engines are found by the name of their kind: a store may come from anybody, and no program that it names is ever run.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from valuerepair.engines.kinds import chosen_spec, kind_of, parse_spec
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.nets.devices import device_of, split_key
from valuerepair.nets.registry import KNOWN_NETS, locate
from valuerepair.nets.weights import read_net_file
from valuerepair.oracles.open import open_judge
from valuerepair.question import Question
from valuerepair.store.pairs import judge_of, net_key, net_label, net_option, pick, reason_missing
from valuerepair.store.rows import JudgeIdentity, StoredJudge
from valuerepair.store.store import Store

if TYPE_CHECKING:
    from valuerepair.nets.net import Net
    from valuerepair.oracles.oracle import Judge

log = logging.getLogger(__name__)

TIMES = 10  # the second look has this many times the nodes of the first


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
    from valuerepair.nets.net import open_net

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


def open_judge_again(
    store: Store, judge: StoredJudge, *, file: str | None = None, deep: str | None = None, net: Net | None = None
) -> Judge:
    """Opens a judge of the store. `deep` says how if the store does not know; `file` is the file of its net, and `net`
    an open net that it may share. Raises UsageError if it cannot be opened, or is another judge here."""
    kind = kind_of(judge.kind)
    spec = deep or kind.spec_of(judge).text
    path, key = None, kind.net_of(judge)
    if kind.takes_net and key:
        path = net_path(store, key, key[:12], file)
    shared = net if net is not None and key and net.identity.sha256 == split_key(key)[0] else None
    opened = open_judge(spec, net_path=path, net=shared)
    if opened.identity.digest != judge.digest:
        opened.close(cancel=True)
        raise UsageError(f"the candidates were found by {judge.label}; here is another judge: {opened.identity.label}")
    return opened


@contextmanager
def open_pair_again(store: Store, question: Question, *, deep: str | None = None) -> Iterator[tuple[Net, Judge]]:
    """Opens the net and the judge of a question, as `open_net_again` and `open_judge_again` do, and closes both."""
    pair = pick(store, question.net, question.oracle)
    named = {"name": net_label(store, pair[0]), "sha256": net_key(store, pair[0])}
    with (
        open_net_again(store, named, question.net) as net,
        open_judge_again(store, judge_of(store, pair[1]), file=question.net, deep=deep, net=net) as judge,
    ):
        yield net, judge


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
    `file` is its file if the user gave one. Raises UsageError for a judge that is not deeper than the first.
    """
    from valuerepair.nets.net import open_net

    spec = chosen_spec(deeper_spec(first, deep))
    with ExitStack() as stack:
        path, shared = None, None
        if spec.kind.takes_net and spec.weights is None:
            known = kind_of(first.kind).net_of(first) if deep is None else None
            key = known or str(net["sha256"])
            if kind_of(first.kind).searches or net_option(store, key) or file:  # a recorded net may have no file
                path = net_path(store, key, key[:12], file)
        if path is not None and spec.kind.built_in:
            device = device_of(str(first.options.get("precision", ""))) or "auto"
            shared = stack.enter_context(open_net(path, device=device))
        judge = stack.enter_context(open_judge(spec, net_path=path, net=shared))
        if not is_deeper(first, judge.identity):
            raise UsageError(f"--deep: {judge.identity.label} looks no deeper than {first.label}; give more nodes")
        yield judge


def is_deeper(first: StoredJudge, second: JudgeIdentity | StoredJudge) -> bool:
    """Whether a judge is another one than `first`, and does not search alike with as many nodes or fewer."""
    if second.digest == first.digest:
        return False
    before, after = first.limits.get("nodes"), second.limits.get("nodes")
    return not (is_same_search(first, second) and before and after and after <= before)


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
