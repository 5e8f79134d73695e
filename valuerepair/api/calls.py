"""What the functions of the interface share: stores by their path, what is asked of one, progress, interruptions."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from valuerepair.chess.progress import Progress, remarks_to
from valuerepair.errors import Interrupted, ValueRepairError
from valuerepair.question import Question, Worst, is_candidate
from valuerepair.store.store import Store

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from valuerepair.judge.split import Split

log = logging.getLogger(__name__)

Path: TypeAlias = "str | os.PathLike[str]"
# A store that is open, or the path of one.
Stored: TypeAlias = "Store | Path"
# What is asked of a store; None is the usual question.
Asked: TypeAlias = "Question | Worst | None"
Result = TypeVar("Result")

# A threshold is rounded down to this many parts of 1, so that the printed number finds the same positions again.
_DECIMALS = 10_000


def paths_of(given: Path | Iterable[Path]) -> list[str]:
    """One path or several, as text."""
    paths = [given] if isinstance(given, str | os.PathLike) else given
    return [os.fspath(path) for path in paths]


@contextmanager
def opened_store(store: Stored, *, write: bool = False, create: bool = False) -> Iterator[Store]:
    """The store that is meant; closed afterwards if it was opened here."""
    if isinstance(store, Store):
        yield store
        return
    with Store.open(store, write=write, create=create) as opened:
        yield opened


@contextmanager
def shown_progress(
    label: str, total: int | None, unit: str, *, quiet: bool, own_eta: bool = False
) -> Iterator[Progress]:
    """Progress on standard error, and the remarks of what is done, unless a logger of the caller has them."""
    with Progress(label, total, unit, quiet=quiet, own_eta=own_eta) as progress:
        elsewhere = quiet or logging.getLogger("valuerepair").handlers
        with nullcontext() if elsewhere else remarks_to(progress.say):
            yield progress


def finished(result: Result, interrupted: bool) -> Result:
    """The result. Raises Interrupted, which has it too, if a signal ended the work."""
    if interrupted:
        raise Interrupted(result)
    return result


def plain(asked: Asked) -> Question:
    """The question, without the share that its threshold may be."""
    return asked.question if isinstance(asked, Worst) else asked or Question()


def asked_with(asked: Asked, **changes: Any) -> Question | Worst:
    """The same question with these fields of `Question` changed."""
    changed = replace(plain(asked), **changes)
    return Worst(asked.share, changed) if isinstance(asked, Worst) else changed


def resolved(store: Store, asked: Asked, *, to_train: bool = False) -> Question:
    """The question that is meant: its threshold a number, an engine's net by what the engine is.

    A share of the positions is found in the store, and said; with `to_train` it is a share by the alpha that is trained
    by. Raises ValueRepairError where nothing is scored, and for a net that the store does not have.
    """
    if not isinstance(asked, Worst):
        question = asked or Question()
        return replace(question, net=_net(store, question.net))
    every = resolved(store, asked.question)
    if to_train:
        every = replace(every, alpha=store.training_alpha(*store.pick(every.net, every.oracle), every.alpha).value)
    frame = store.frame(every, only=("disagreement", "weight")).dropna()
    off, weight = (frame[name].to_numpy(float) for name in ("disagreement", "weight"))
    threshold = worst_threshold(asked.share, off, weight)
    hit = is_candidate(off, threshold)
    share = 100 * weight[hit].sum() / weight.sum()
    log.info(f"threshold {asked} is {threshold:g}: {hit.sum():,} of {len(frame):,} positions, by weight {share:.2f} %")
    return replace(every, threshold=threshold)


def split_of(split: Split | Path | None) -> Split | None:
    """A split, also of its file. Raises UsageError and ValueRepairError."""
    from valuerepair.judge.split import read_split

    return read_split(split) if isinstance(split, str | os.PathLike) else split


def worst_threshold(share: float, disagreement: NDArray[np.float64], weight: NDArray[np.float64]) -> float:
    """The |net Q - deep Q| that this share of the positions reaches, each counted by its weight; at least one does.

    `disagreement` and `weight` are [n]. Raises ValueRepairError where no position is scored.
    """
    scored = ~np.isnan(disagreement)
    off, weight = np.abs(disagreement[scored]), weight[scored]
    if not off.size or not off.max() > 0:
        raise ValueRepairError(f"--threshold {Worst(share)}: no position is scored yet; mine with a number first")
    order = np.argsort(-off, kind="stable")
    within = np.cumsum(weight[order]) <= share * weight.sum()
    last = off[order][max(int(within.sum()) - 1, 0)]
    return max(float(np.floor(last * _DECIMALS)), 1.0) / _DECIMALS


def _net(store: Store, net: str | None) -> str | None:
    """The net asked for; an engine that is on this machine is known by what it is, as its name fits others, too."""
    from valuerepair.engines.find import find_engine
    from valuerepair.oracles.engine_net import is_engine, open_engine_net, parse_engine_net

    if net is None or not is_engine(net):
        return net
    path = parse_engine_net(net).engine.path
    if path is None or find_engine(path) is None:
        return net
    with open_engine_net(net, 1) as engine:
        about = engine.identity
    nets = store.nets()[["name", "sha256"]]
    if about.key not in set(nets["sha256"]):
        there = ", ".join(f"{name} ({key[:12]})" for name, key in nets.itertuples(index=False))
        raise ValueRepairError(f"no {about.name} as it is now in {store.path}; it has {there}")
    return about.key
