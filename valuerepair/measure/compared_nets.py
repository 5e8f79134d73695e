"""The nets of a comparison, and their values of the positions that a judge has scored.

The user gives a net as a file, by a name that the store or the registry of nets knows, or by its SHA-256. A file is
identified by its content, never by its name, because a net often has the same name before and after training.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from valuerepair.arrays import Ids
from valuerepair.errors import UsageError, ValueRepairError, check_word
from valuerepair.nets.registry import KNOWN_NETS, locate
from valuerepair.nets.weights import net_name, read_net_file
from valuerepair.progress import Progress
from valuerepair.store import db_option
from valuerepair.store.pairs import judge_of, net_label, net_option, pick
from valuerepair.store.parts import FAMILIES, GAMES, HELD_OUT, split_of
from valuerepair.store.rows import RunRecord
from valuerepair.store.store import Store
from valuerepair.text import quantity

if TYPE_CHECKING:
    from valuerepair.nets.net import Evaluator

log = logging.getLogger(__name__)

BATCH_ROWS = 1024
ALL, TOGETHER = "all", "held-out"
# The words of --part, and which values of the column `part` each means; None: every one.
PARTS: dict[str, tuple[str, ...] | None] = {
    TOGETHER: HELD_OUT, GAMES: (GAMES,), FAMILIES: (FAMILIES,), ALL: None,
}  # fmt: skip
# Positions of games, and beside them.
_MISSING = """
SELECT v.position_id FROM deep_values v JOIN positions p ON p.id = v.position_id
WHERE v.judge_id = :judge AND v.failed IS NULL AND p.origin <> 'neighbour'
AND (:parts IS NULL OR p.part IN (SELECT value FROM json_each(:parts)))
AND NOT EXISTS (SELECT 1 FROM net_values n WHERE n.net_id = :net AND n.position_id = v.position_id)
ORDER BY v.position_id
"""


@dataclass(frozen=True, slots=True)
class ComparedNet:
    """A net of a comparison.

    `id` is its number in the store, 0 if it is not in the store yet; `key`, its SHA-256 and the variant, identifies its
    values in the store. `path` is the file to compute values with; empty if there is none.
    `missing` is the number of positions that the judge has scored and this net has not.
    """

    id: int
    name: str
    key: str
    path: str
    missing: int


@dataclass(frozen=True, slots=True)
class ComparedOracle:
    """The judge of a comparison: its number in the store, label, digest, and how many positions it `scored`.

    These are positions of games and beside them. `part` is a word of `PARTS`: only these positions are compared.
    """

    id: int
    label: str
    digest: str
    scored: int
    part: str = ALL

    @property
    def is_held_out(self) -> bool:
        """Whether only positions are compared that are held out from training."""
        return self.part != ALL


def find_oracle(store: Store, words: str | None, nets: Sequence[str], part: str | None = None) -> ComparedOracle:
    """The judge that `words` name; None: the one in use, else that with most values of the first of `nets`.

    `part` is by default what is held out, if the store has a split, else everything. Raises UsageError for another
    word, ValueRepairError for an empty store, for words that fit no judge, and if no position of the part is scored.
    """
    part = part or (ALL if split_of(store) is None else TOGETHER)
    check_word("--part", part, PARTS)
    number = pick(store, None, words)[1]
    if words is None and nets:
        with contextlib.suppress(ValueRepairError):
            number = pick(store, nets[0])[1]
    judge = judge_of(store, number)
    oracle = ComparedOracle(number, judge.label, judge.digest, 0, part)
    scored = len(lacking(store, 0, oracle))  # no net has the number 0
    if oracle.is_held_out and not scored:
        raise ValueRepairError(
            f"{store.path}: {judge.label} has scored no position that is held out ({part}); vr split holds some out, "
            "and --part all compares on all"
        )
    return replace(oracle, scored=scored)


def find_nets(store: Store, words: Sequence[str], oracle: ComparedOracle) -> list[ComparedNet]:
    """The nets that `words` name, in order.

    Raises UsageError for fewer than two and for words that name no net; ValueRepairError for a file that is not a net.
    """
    if len(words) < 2:
        raise UsageError(f"give at least two nets to compare, the old one first ({len(words)} given)")
    nets = [_find(store, name, oracle) for name in words]
    # The store may know a net by the name of a copy, and nets in different folders may have the same name.
    paths = [os.path.expanduser(name) for name in words]
    files = [path if os.path.isfile(path) else "" for path in paths]
    names = [net_name(path) if path else net.name for path, net in zip(files, nets, strict=True)]
    named = zip(names, files, nets, strict=True)
    return [replace(net, name=path if path and names.count(name) > 1 else name) for name, path, net in named]


def _find(store: Store, words: str, oracle: ComparedOracle) -> ComparedNet:
    path = os.path.expanduser(words)
    if os.path.exists(path):
        return _of_file(store, path, oracle)
    try:
        number = pick(store, words, oracle.digest)[0]
    except ValueRepairError:
        if words in KNOWN_NETS:
            return _of_file(store, str(locate(words)), oracle)
        stored = [row[0] for row in store.connection.execute("SELECT DISTINCT name FROM nets")]
        raise UsageError(
            f"net {words}: no net file, no net known by name ({', '.join(KNOWN_NETS)}), and none with values in "
            f"{store.path} for {oracle.label}; it has {', '.join(stored) or 'none'}"
        ) from None
    name, key = store.connection.execute("SELECT name, sha256 FROM nets WHERE id = ?", (number,)).fetchone()
    missing = len(lacking(store, number, oracle))
    option = net_option(store, key) if missing else None
    return ComparedNet(number, name, key, "" if option is None else str(locate(option)), missing)


def _of_file(store: Store, path: str, oracle: ComparedOracle) -> ComparedNet:
    file = read_net_file(path)
    row = store.connection.execute("SELECT id FROM nets WHERE sha256 = ?", (file.sha256,)).fetchone()
    number = 0 if row is None else row[0]
    return ComparedNet(number, file.name, file.sha256, path, len(lacking(store, number, oracle)))


def lacking(store: Store, net_id: int, oracle: ComparedOracle) -> Ids:
    """int64[n]: the positions that the judge has scored and the net has no value of, ascending."""
    parts = PARTS[oracle.part]
    asked = {"net": net_id, "judge": oracle.id, "parts": None if parts is None else json.dumps(parts)}
    return np.fromiter(chain.from_iterable(store.connection.execute(_MISSING, asked)), np.int64)


def measuring_command(store: Store, path: str) -> str:
    """The command that adds the values of this file's net to a store, by comparing it with the net in use."""
    number = pick(store)[0]
    name, key = store.connection.execute("SELECT name, sha256 FROM nets WHERE id = ?", (number,)).fetchone()
    first = name if net_label(store, number) == name else key[:12]
    return shlex.join(["vr", "compare", first, path, *db_option(store.path)])


# -- values that are missing ------------------------------------------------------------------------------------------


def measure_missing(
    db: str,
    nets: Sequence[ComparedNet],
    oracle: ComparedOracle,
    *,
    command: str = "",
    quiet: bool = False,
    **net_options: Any,
) -> None:
    """Computes the missing values of nets with a known file, one net after the other.

    The store is opened for writing only if something is missing. `net_options` are those of `nets.net.open_net`.
    """
    from valuerepair.nets.net import open_net

    for net in {net.key: net for net in nets if net.missing and net.path}.values():
        with (
            Store.open(db, write=True) as store,
            open_net(net.path, **net_options) as opened,
            Progress(f"{net.name}: net values", net.missing, "positions", quiet=quiet) as progress,
        ):
            log.info(f"{quantity(net.missing, 'position')} without a value of {net.name}: computing on {opened.where}")
            measure(store, opened, oracle, progress, command)


def measure(store: Store, net: Evaluator, oracle: ComparedOracle, progress: Progress, command: str = "") -> int:
    """Evaluates the judge's positions that `net` has no value of, and stores the values; returns how many.

    They go through the net in batches, each committed when it is done: after an interruption the same call resumes. The
    history is the one that the store has of each position.
    """
    net_id = store.add_net(net.identity)
    sources = {"net": net.identity.key, "judge": oracle.digest}
    record = RunRecord.of({"command": "compare", **sources}, command, sources, provider=net.provider)
    without_value = lacking(store, net_id, oracle)
    with store.running(record) as run:
        for first in range(0, len(without_value), BATCH_ROWS):
            ids = without_value[first : first + BATCH_ROWS]
            store.add_net_values(ids, net_id, net.evaluate(store.positions(ids)))
            run.counts["evaluated"] = first + len(ids)
            store.commit()
            progress.advance(len(ids))
    return len(without_value)
