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
from numpy.typing import NDArray

from valuerepair.arrays import Floats, Ids
from valuerepair.chess import values
from valuerepair.chess.origins import GAME, KINDS, NEIGHBOUR, Kind
from valuerepair.errors import UsageError, ValueRepairError, check_word
from valuerepair.nets.registry import KNOWN_NETS, locate
from valuerepair.nets.weights import net_name, read_net_file
from valuerepair.progress import Progress
from valuerepair.question import Question
from valuerepair.store import db_option
from valuerepair.store.alpha import chosen_alpha
from valuerepair.store.pairs import judge_of, net_label, net_option, pick
from valuerepair.store.parts import FAMILIES, GAMES, HELD_OUT, PARTS, split_of
from valuerepair.store.rows import RunRecord, StoredJudge
from valuerepair.store.store import Store
from valuerepair.text import quantity

if TYPE_CHECKING:
    from valuerepair.nets.net import Evaluator

log = logging.getLogger(__name__)

BATCH_ROWS = 1024
ALL, TOGETHER = "all", "held-out"
# The words of --part, and the values of the column `part` that each means.
PARTS_OF = {TOGETHER: HELD_OUT, GAMES: (GAMES,), FAMILIES: (FAMILIES,), ALL: PARTS}


@dataclass(frozen=True, slots=True)
class ComparedNet:
    """A net of a comparison.

    `key`, its SHA-256 and the variant, identifies its values in a store. `path` is the file that the user gave; empty
    if it was named otherwise.
    """

    name: str
    key: str
    path: str


@dataclass(frozen=True)
class ComparedPositions:
    """n positions by ascending id, a judge's Q of them, `deep_q` [n], and that of k nets, `net_q` [k, n].

    Q is for the side to move, NaN where there is none. `origin` [n] is the index into `chess.origins.KINDS`, `weight`
    [n] how many positions each represents.
    """

    position_id: Ids
    game_id: Ids
    origin: NDArray[np.int8]
    weight: Floats
    deep_q: Floats
    net_q: Floats

    def take(self, rows: Ids) -> ComparedPositions:
        """Some of the positions."""
        return ComparedPositions(**{name: column[..., rows] for name, column in vars(self).items()})

    def of(self, origin: Kind) -> ComparedPositions:
        """Those of one origin."""
        return self.take(np.flatnonzero(self.origin == KINDS.index(origin)))

    @property
    def disagreement(self) -> Floats:
        """[k, n] net Q - deep Q."""
        return np.asarray(self.net_q - self.deep_q)


# -- which nets, which judge ------------------------------------------------------------------------------------------


def find_judge(store: Store, words: str | None, nets: Sequence[str]) -> StoredJudge:
    """The judge that `words` name; None: the one in use, else that with most values of the first of `nets`.

    Raises ValueRepairError for an empty store, and for words that fit no judge.
    """
    number = pick(store, None, words)[1]
    if words is None and nets:
        with contextlib.suppress(ValueRepairError):
            number = pick(store, nets[0])[1]
    return judge_of(store, number)


def compared_part(store: Store, part: str | None) -> str:
    """A word of `PARTS_OF`: by default what is held out, if the store has a split, else everything.

    Raises UsageError for another word.
    """
    part = part or (ALL if split_of(store) is None else TOGETHER)
    check_word("--part", part, PARTS_OF)
    return part


def find_nets(store: Store, words: Sequence[str], judge: StoredJudge) -> list[ComparedNet]:
    """The nets that `words` name, in order; different nets of one name get the beginning of their keys.

    Raises UsageError for fewer than two and for words that name no net; ValueRepairError for a file that is not a net.
    """
    if len(words) < 2:
        raise UsageError(f"give at least two nets to compare, the old one first ({len(words)} given)")
    nets = [_find(store, os.path.expanduser(word), judge) for word in words]
    # The store may know a net by the name of a copy, and nets in different folders may have the same name.
    names = [net_name(net.path) if net.path else net.name for net in nets]
    named = zip(names, nets, strict=True)
    nets = [replace(net, name=net.path if net.path and names.count(name) > 1 else name) for name, net in named]
    keys = {net.name: {other.key for other in nets if other.name == net.name} for net in nets}
    return [replace(net, name=f"{net.name} ({net.key[:12]})") if len(keys[net.name]) > 1 else net for net in nets]


def _find(store: Store, words: str, judge: StoredJudge) -> ComparedNet:
    if os.path.exists(words):
        return _of_file(words)
    try:
        number = pick(store, words, judge.digest)[0]
    except ValueRepairError as error:
        if words in KNOWN_NETS:
            return _of_file(str(locate(words)))
        if isinstance(error, UsageError):
            raise
        stored = [row[0] for row in store.connection.execute("SELECT DISTINCT name FROM nets")]
        raise UsageError(
            f"net {words}: no net file, no net known by name ({', '.join(KNOWN_NETS)}), and none with values in "
            f"{store.path} for {judge.label}; it has {', '.join(stored) or 'none'}"
        ) from None
    name, key = store.connection.execute("SELECT name, sha256 FROM nets WHERE id = ?", (number,)).fetchone()
    return ComparedNet(name, key, "")


def _of_file(path: str) -> ComparedNet:
    file = read_net_file(path)
    return ComparedNet(file.name, file.sha256, path)


def _id(store: Store, net: ComparedNet) -> int:
    """The number of a net in the store; 0 if it has none yet."""
    row = store.connection.execute("SELECT id FROM nets WHERE sha256 = ?", (net.key,)).fetchone()
    return 0 if row is None else int(row[0])


def measuring_command(store: Store, path: str) -> str:
    """The command that adds the values of this file's net to a store, by comparing it with the net in use."""
    number = pick(store)[0]
    name, key = store.connection.execute("SELECT name, sha256 FROM nets WHERE id = ?", (number,)).fetchone()
    first = name if net_label(store, number) == name else key[:12]
    return shlex.join(["vr", "compare", first, path, *db_option(store.path)])


# -- values -----------------------------------------------------------------------------------------------------------


def lacking(store: Store, net_id: int, judge_id: int, part: str) -> Ids:
    """int64[n]: the positions of the part that the judge has scored and the net has no value of, ascending."""
    # The positions are asked last: nearly all rows end at the first condition.
    query = """
        SELECT v.position_id FROM deep_values v WHERE v.judge_id = ? AND v.failed IS NULL
        AND NOT EXISTS (SELECT 1 FROM net_values n WHERE n.net_id = ? AND n.position_id = v.position_id)
        AND EXISTS (SELECT 1 FROM positions p WHERE p.id = v.position_id AND p.origin <> ?
            AND p.part IN (SELECT value FROM json_each(?)))
        ORDER BY v.position_id
    """
    asked = (judge_id, net_id, NEIGHBOUR, json.dumps(PARTS_OF[part]))
    return np.fromiter(chain.from_iterable(store.connection.execute(query, asked)), np.int64)


def read_values(
    store: Store, nets: Sequence[ComparedNet], judge: StoredJudge, part: str, question: Question
) -> tuple[ComparedPositions, values.Alpha]:
    """The positions of the part that the judge has scored, with each net's Q, and the alpha of the judge's.

    One alpha serves all nets: the question's, else one in use with one of them, else the first net's.
    """
    places = " ".join(f"WHEN '{origin}' THEN {i}" for i, origin in enumerate(KINDS))
    net_ids = [_id(store, net) for net in nets]
    joins = " ".join(
        f"LEFT JOIN net_values n{i} ON n{i}.net_id = {net_id} AND n{i}.position_id = v.position_id"
        for i, net_id in enumerate(net_ids)
    )
    query = f"""
        SELECT v.position_id, p.game_id, CASE p.origin {places} END,
        p.part IN (SELECT value FROM json_each(?)), v.weight, v.cp, v.mate, v.w, v.d, v.l, v.q,
        {", ".join(f"n{i}.q" for i in range(len(nets)))}
        FROM deep_values v JOIN positions p ON p.id = v.position_id {joins}
        WHERE v.judge_id = ? AND v.failed IS NULL AND p.origin <> ? ORDER BY v.position_id
    """
    rows = store.connection.execute(query, (json.dumps(PARTS_OF[part]), judge.id, NEIGHBOUR))
    columns = np.fromiter(chain.from_iterable(rows), np.float64).reshape(-1, 11 + len(nets)).T
    position_id, game_id, origin, is_in_part, weight, cp, mate, *_ = columns
    net_q, game_id = columns[11:], game_id.astype(np.int64)
    chosen = (chosen_alpha(store, (net_id, judge.id), question.alpha) for net_id in net_ids if net_id)
    if (alpha := next(filter(None, chosen), None)) is None:
        in_game = origin == KINDS.index(GAME)
        alpha = values.auto_alpha(*(column[in_game] for column in (net_q[0], cp, mate, weight, game_id)))
    deep_q = values.deep_q(columns[5:11].T, alpha.value, question.q_from)
    every = ComparedPositions(position_id.astype(np.int64), game_id, origin.astype(np.int8), weight, deep_q, net_q)
    return every.take(np.flatnonzero(is_in_part)), alpha


def measure_missing(
    db: str,
    nets: Sequence[ComparedNet],
    judge: StoredJudge,
    part: str,
    *,
    command: str = "",
    quiet: bool = False,
    **net_options: Any,
) -> None:
    """Computes the missing values of nets with a known file, one net after the other.

    The store is opened for writing only if something is missing. `net_options` are those of `nets.net.open_net`.
    """
    from valuerepair.nets.net import open_net

    for net in nets:
        with Store.open(db) as store:
            missing = len(lacking(store, _id(store, net), judge.id, part))
            option = (net.path or net_option(store, net.key)) if missing else None
        if option is None:
            continue
        with (
            Store.open(db, write=True) as store,
            open_net(str(locate(option)), **net_options) as opened,
            Progress(f"{net.name}: net values", missing, "positions", quiet=quiet) as progress,
        ):
            log.info(f"{quantity(missing, 'position')} without a value of {net.name}: computing on {opened.where}")
            measure(store, opened, judge, part, progress, command)


def measure(store: Store, net: Evaluator, judge: StoredJudge, part: str, progress: Progress, command: str = "") -> int:
    """Evaluates the judge's positions that `net` has no value of, and stores the values; returns how many.

    They go through the net in batches, each committed when it is done: after an interruption the same call resumes. The
    history is the one that the store has of each position.
    """
    net_id = store.add_net(net.identity)
    sources = {"net": net.identity.key, "judge": judge.digest}
    record = RunRecord.of({"command": "compare", **sources}, command, sources, provider=net.provider)
    without_value = lacking(store, net_id, judge.id, part)
    with store.running(record) as run:
        for first in range(0, len(without_value), BATCH_ROWS):
            ids = without_value[first : first + BATCH_ROWS]
            store.add_net_values(ids, net_id, net.evaluate(store.positions(ids)))
            run.counts["evaluated"] = first + len(ids)
            store.commit()
            progress.advance(len(ids))
    return len(without_value)
