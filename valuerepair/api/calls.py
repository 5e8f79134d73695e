"""Shared by the functions of the interface: stores by their path, questions to a store, progress, interruptions."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from valuerepair.errors import Interrupted, UsageError, ValueRepairError
from valuerepair.progress import Progress, remarks_to
from valuerepair.question import DEFAULT_THRESHOLD, Question, Worst, is_candidate
from valuerepair.store.pairs import fitting_nets, judge_of, pick
from valuerepair.store.store import Store
from valuerepair.store.view import frame

if TYPE_CHECKING:
    from numpy.typing import NDArray

log = logging.getLogger(__name__)

Path: TypeAlias = "str | os.PathLike[str]"
# A store that is open, or the path of one.
Stored: TypeAlias = "Store | Path"
# A question to a store; None is the default question.
Asked: TypeAlias = "Question | Worst | None"
Result = TypeVar("Result")

# A threshold is rounded down to a multiple of 1 / 10,000, so that the printed number finds the same positions again.
_STEPS_OF_THRESHOLD = 10_000


def paths_of(path_or_paths: Path | Iterable[Path]) -> list[str]:
    """One path or several, as text."""
    paths = [path_or_paths] if isinstance(path_or_paths, str | os.PathLike) else path_or_paths
    return [os.fspath(path) for path in paths]


@contextmanager
def opened_store(store: Stored, *, write: bool = False, create: bool = False) -> Iterator[Store]:
    """The open store. A path is opened here and closed afterwards; so is a store that is open for reading only, if the
    caller writes to it."""
    if isinstance(store, Store) and (store.is_writable or not (write or create)):
        yield store
        return
    with Store.open(store, write=write, create=create) as opened:
        log.debug(f"store: {opened.path}")
        yield opened


@contextmanager
def shown_progress(label: str, unit: str, *, quiet: bool) -> Iterator[Progress]:
    """Progress and the work's remarks on standard error, unless the caller has a logger for them."""
    with Progress(label, None, unit, quiet=quiet) as progress:
        elsewhere = quiet or logging.getLogger("valuerepair").handlers
        with nullcontext() if elsewhere else remarks_to(progress.say):
            yield progress


def recorded_command(*words: str) -> str:
    """What a run is recorded under: the typed command line, or in Python the command of these `words`."""
    if "click" in sys.modules:
        import click

        context = click.get_current_context(silent=True)
        if context is not None and context.find_root().info_name == "vr":
            return shlex.join(["vr", *sys.argv[1:]])
    return f"{shlex.join(['vr', *words])} (from Python)"


def finished(result: Result, interrupted: bool) -> Result:
    """The result. Raises Interrupted, which also has the result, if a signal ended the work."""
    if interrupted:
        raise Interrupted(result)
    return result


def plain(question: Asked) -> Question:
    """The `Question`, also that of a `Worst`; None is the default one. Raises UsageError for anything else."""
    if not isinstance(question, Question | Worst | None):
        raise UsageError(f"a question is Question(threshold=0.55) or Worst(0.02); not {question!r}")
    return question.question if isinstance(question, Worst) else question or Question()


def asked_with(question: Asked, **changes: Any) -> Question | Worst:
    """The same question with these fields of `Question` changed."""
    changed = replace(plain(question), **changes)
    return Worst(question.share, changed) if isinstance(question, Worst) else changed


def resolved(store: Store, question: Asked) -> Question:
    """The question with a number as its threshold, and with what is in use in the store where it leaves that open.

    A share of the positions becomes the threshold that it has in this store, which is logged. Raises UsageError for
    anything else, such as a bare number; ValueRepairError for a share if no position is scored, and for a net that the
    store does not have.
    """
    if question is None:
        return resolved(store, Question(threshold=threshold_in_use(store)))
    if not isinstance(question, Worst):
        base = plain(question)
        if base.net is not None:
            _log_ambiguous_net(store, base.net, base.oracle)
        return replace(base, q_from="wdl") if base.alpha is None and _takes_wdl(store, base) else base
    from valuerepair.mining.screening import not_finished_by

    base = resolved(store, question.question)
    columns = frame(store, base, only=("disagreement", "weight")).dropna()
    disagreement, weight = (columns[name].to_numpy(float) for name in ("disagreement", "weight"))
    threshold = worst_threshold(question.share, disagreement, weight)
    candidates = is_candidate(disagreement, threshold)
    share = 100 * weight[candidates].sum() / weight.sum()
    counts = f"{candidates.sum():,} of {len(columns):,} positions, by weight {share:.2f} %"
    log.info(f"threshold {question} is {threshold:g}: {counts}")
    if warning := not_finished_by(store, judge_of(store, pick(store, base.net, base.oracle)[1])):
        log.info(warning)
    return replace(base, threshold=threshold)


def threshold_in_use(store: Stored) -> float:
    """The threshold that a store has in use (`vr stats --use`), else the default; also where there is no store yet."""
    if not isinstance(store, Store) and not os.path.isfile(store):
        return DEFAULT_THRESHOLD
    with opened_store(store) as opened:
        return float(opened.setting("threshold") or DEFAULT_THRESHOLD)


def _takes_wdl(store: Store, question: Question) -> bool:
    """Whether Q of the question's judge comes from its W/D/L (``vr stats --use alpha=wdl``)."""
    used = store.setting("alpha")
    if used is None or used.get("q_from") != "wdl":
        return False
    return bool(used["judge"] == judge_of(store, pick(store, question.net, question.oracle)[1]).digest)


def worst_threshold(share: float, disagreement: NDArray[np.float64], weight: NDArray[np.float64]) -> float:
    """The |net Q - deep Q| that this share of the positions reaches, each counted by its weight; at least one does.

    `disagreement` and `weight` are [n]. Raises ValueRepairError if no position is scored.
    """
    scored = ~np.isnan(disagreement)
    distance, weight = np.abs(disagreement[scored]), weight[scored]
    if not distance.size or not distance.max() > 0:
        raise ValueRepairError(f"--threshold {Worst(share)}: no position is scored yet; mine with a number first")
    order = np.argsort(-distance, kind="stable")
    within = np.cumsum(weight[order]) <= share * weight.sum()
    last = distance[order][max(int(within.sum()) - 1, 0)]
    return max(float(np.floor(last * _STEPS_OF_THRESHOLD)), 1.0) / _STEPS_OF_THRESHOLD


def _log_ambiguous_net(store: Store, net: str, oracle: str | None) -> None:
    """Logs which net is used if the text fits several."""
    fitting = fitting_nets(store, net)
    if len(fitting) > 1:
        used = pick(store, net, oracle)[0]
        keys = {number: key[:12] for number, key, _ in fitting}
        others = ", ".join(key for number, key in keys.items() if number != used)
        log.info(f"--net {net} fits {len(keys)} nets; {keys[used]} is used, the others have the SHA-256 {others}")
