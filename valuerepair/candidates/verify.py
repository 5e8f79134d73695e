"""`vr verify-store`: all checks of a store, in one table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from valuerepair.candidates.verify_boards import move_checks, play_check, position_checks
from valuerepair.candidates.verify_values import deep_checks, digest_check, net_checks, net_files
from valuerepair.progress import Progress
from valuerepair.store.connect import store_errors
from valuerepair.store.integrity import FATAL, Check, integrity_checks
from valuerepair.store.store import Store

_WIDTH = 52


def verify(
    store: Store,
    *,
    sample: int = 20,
    seed: int = 0,
    nets: Sequence[str] = (),
    deep: Sequence[str] = (),
    progress: Progress | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Iterator[Check]:
    """All checks, as they are done: the database, boards and moves of all rows, then `sample` values a net and oracle.

    A file that is damaged, or has a text for a number, is asked no further; with `sample` 0 nothing is computed again.
    `nets` are files of nets beside those known by name, `deep` engines as ``--deep`` names them. Raises
    ValueRepairError for a file that is no net.
    """
    files = net_files(nets) if sample else {}
    bar = progress or Progress("verifying", quiet=True)
    with store_errors(store.path):
        for check in integrity_checks(store):
            yield check
            if check.wrong and check.name in FATAL:
                return
        counts = [store.connection.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in _TABLES]
        bar.set_total(sum(counts))
        yield from position_checks(store, bar.advance)
        yield from move_checks(store, bar.advance)
        yield play_check(store, bar.advance)
        yield digest_check(store)
        if sample:
            yield from net_checks(store, sample, seed, files, say)
            yield from deep_checks(store, sample, seed, files, deep, say, bar)


_TABLES = ("positions", "net_values", "priors", "deep_values", "plays")


def line(check: Check) -> str:
    """One row of the table: name, checked, wrong, and what there is to say."""
    state = f"{check.wrong:,} WRONG" if check.wrong else "ok" if not check.unchecked else "not checked"
    about = "; ".join(each for each in (check.example and f"e.g. {check.example}", check.note) if each)
    return f"{check.name:<{_WIDTH}} {check.checked or check.unchecked:>11,}  {state:<12} {about}".rstrip()


def as_dict(check: Check) -> dict[str, Any]:
    """JSON-able."""
    return asdict(check)
