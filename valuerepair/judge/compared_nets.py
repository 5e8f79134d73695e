"""The nets of a comparison, and their values of the positions that an oracle has scored.

The user gives a net as a file, by a name that the store or the registry of nets knows, or by its SHA-256. A file is
identified by its content, never by its name, because a net often has the same name before and after training.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from valuerepair.chess.origins import BESIDE
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.judge.split import HeldPart
from valuerepair.nets.net import HISTORY_FILL
from valuerepair.nets.registry import KNOWN_NETS, locate
from valuerepair.nets.weights import net_name, read_net_file
from valuerepair.progress import Progress
from valuerepair.store import db_option
from valuerepair.store.files import net_option
from valuerepair.store.rows import EXPANDED, FULL, RunRecord
from valuerepair.store.store import Store
from valuerepair.text import quantity

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from valuerepair.nets.net import Evaluator

log = logging.getLogger(__name__)

BATCH_ROWS = 1024
# Positions of games, and positions beside them.
_MISSING = f"""
SELECT v.position_id FROM deep_values v LEFT JOIN net_values n ON n.net_id = :net AND n.position_id = v.position_id
WHERE v.oracle_id = :oracle AND n.position_id IS NULL AND (v.stage = '{FULL}' OR v.stage = '{EXPANDED}' AND
EXISTS (SELECT 1 FROM positions p WHERE p.id = v.position_id AND p.kind IN {BESIDE})) ORDER BY v.position_id
"""


@dataclass(frozen=True, slots=True)
class ComparedNet:
    """A net of a comparison.

    `id` is its number in the store, 0 if it is not in the store yet; `key`, its SHA-256 and the variant, identifies its
    values in the store. `path` is the file to compute values with; empty if there is none.
    `missing` is the number of positions that the oracle has scored and this net has not.
    """

    id: int
    name: str
    key: str
    history_fill: str
    path: str
    missing: int


@dataclass(frozen=True, slots=True)
class ComparedOracle:
    """The oracle of a comparison: its number in the store, label, digest, and how many positions it `scored` in full.

    These are positions of games and beside them. With a `part` only those of this part count, and are compared.
    """

    id: int
    label: str
    digest: str
    scored: int
    part: HeldPart | None = None


def find_oracle(store: Store, words: str | None, nets: Sequence[str], part: HeldPart | None = None) -> ComparedOracle:
    """The oracle that `words` name; None: the one with the most scored positions of the first of `nets`, else of any
    net.

    Raises ValueRepairError for an empty store, for words that fit no oracle, and if no position of the part is scored.
    """
    number = store.pick(None, words)[1]
    if words is None and nets:
        with contextlib.suppress(ValueRepairError):
            number = store.pick(nets[0])[1]
    row = store.oracles().set_index("id").loc[number]
    oracle = ComparedOracle(number, str(row["label"]), str(row["digest"]), 0, part)
    scored = len(lacking(store, 0, oracle))  # no net has the number 0
    if part is not None and not scored:
        raise ValueRepairError(f"{store.path}: {oracle.label} has scored no position of the held-out part {part.name}")
    return replace(oracle, scored=scored)


def find_nets(store: Store, words: Sequence[str], oracle: ComparedOracle) -> list[ComparedNet]:
    """The nets that `words` name, in order.

    Raises UsageError for fewer than two and for words that name no net; ValueRepairError for a file that is not a net.
    """
    if len(words) < 2:
        raise UsageError(f"give at least two nets to compare, the old one first ({len(words)} given)")
    return _with_distinct_names([_find(store, name, oracle) for name in words], words)


def _with_distinct_names(nets: Sequence[ComparedNet], words: Sequence[str]) -> list[ComparedNet]:
    """The nets of files with the names of the files, or with their paths if several files have the same name.

    The store may know a net by the name of a copy, and nets in different folders may have the same name.
    """
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
        number = store.pick(words, oracle.digest)[0]
    except ValueRepairError:
        if words in KNOWN_NETS:
            return _of_file(store, str(locate(words)), oracle)
        names = ", ".join(dict.fromkeys(store.nets()["name"]))
        raise UsageError(
            f"net {words}: no net file, no net known by name ({', '.join(KNOWN_NETS)}), and none with values in "
            f"{store.path} for {oracle.label}; it has {names}"
        ) from None
    row = store.nets().set_index("id").loc[number]
    key = str(row["sha256"])
    missing = len(lacking(store, number, oracle))
    option = net_option(store, key) if missing else None
    path = "" if option is None else str(locate(option))
    return ComparedNet(number, str(row["name"]), key, str(row["history_fill"]), path, missing)


def _of_file(store: Store, path: str, oracle: ComparedOracle) -> ComparedNet:
    """The net of a file; of the store's nets with its content, the one that has evaluated most."""
    file, nets = read_net_file(path), store.nets()
    stored = nets[nets["sha256"] == file.sha256].sort_values("evaluated", ascending=False)
    number, fill = (
        (int(stored["id"].iloc[0]), str(stored["history_fill"].iloc[0])) if len(stored) else (0, HISTORY_FILL)
    )
    return ComparedNet(number, file.name, file.sha256, fill, path, len(lacking(store, number, oracle)))


def lacking(store: Store, net_id: int, oracle: ComparedOracle) -> NDArray[np.int64]:
    """int64[n]: the positions that the oracle has scored and the net has no value of, ascending."""
    parameters = {"net": net_id, "oracle": oracle.id}
    rows = store.connection.execute(_MISSING, parameters).fetchall()
    ids = np.unique(np.array([row[0] for row in rows], np.int64))
    return ids if oracle.part is None else ids[oracle.part.among(ids)]


def measuring_command(store: Store, path: str) -> str:
    """The command that adds the values of this file's net to a store, by comparing it with the net of most values."""
    key, _ = store.names(*store.pick())
    names = store.nets().set_index("sha256")["name"]
    first = str(names[key]) if names.tolist().count(names[key]) == 1 else key[:12]
    return shlex.join(["vr", "compare", first, path, *db_option(store.path)])


def words_for(store: Store, net: ComparedNet, oracle: ComparedOracle) -> str:
    """The text that names exactly this net in a question to the store.

    Raises ValueRepairError if it has no value of any scored position, or if another set of values of the same net, with
    another history fill, hides it.
    """
    for words in (net.key, net.name):
        if store.pick(words, oracle.digest)[0] == net.id:
            return words
    raise ValueRepairError(
        f"{store.path} has values of {net.name} with several history fills, and more of another than of "
        f"{net.history_fill}; keep them in separate stores"
    )


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

    wanted = {(net.key, net.history_fill): net for net in nets if net.missing and net.path}
    for net in wanted.values():
        with (
            Store.open(db, write=True) as store,
            open_net(net.path, **net_options) as opened,
            Progress(f"{net.name}: net values", net.missing, "positions", quiet=quiet) as progress,
        ):
            log.info(f"{quantity(net.missing, 'position')} without a value of {net.name}: computing on {opened.where}")
            measure(store, opened, oracle, progress, command)


def measure(store: Store, net: Evaluator, oracle: ComparedOracle, progress: Progress, command: str = "") -> int:
    """Evaluates the oracle's positions that `net` has no value of, and stores the values; returns how many.

    They go through the net in batches, each committed when it is done: after an interruption the same call resumes. The
    history is the one that the store has of each position.
    """
    net_id = store.add_net(net.identity, net.history_fill)
    sources = {"net": net.identity.key, "history_fill": net.history_fill, "oracle": oracle.digest}
    record = RunRecord.of({"command": "compare", **sources}, command, sources, provider=net.provider)
    without_value = lacking(store, net_id, oracle)
    with store.running(record) as run:
        store.commit()
        run.counts["evaluated"] = done = 0
        for first in range(0, len(without_value), BATCH_ROWS):
            ids = without_value[first : first + BATCH_ROWS]
            store.add_net_values(ids, net_id, net.evaluate(store.positions(ids)), run)
            store.commit()
            done += len(ids)
            run.counts["evaluated"] = done
            progress.advance(len(ids))
    store.end_run(run, "finished", run.counts)
    return done
