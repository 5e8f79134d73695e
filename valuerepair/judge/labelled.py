"""The labels of a store's candidates, from its frame, its priors and the headers of its games."""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from valuerepair.chess.board import legal_moves, parse_fens
from valuerepair.chess.positions import PositionBatch, decode_move
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.judge.labels import KINDS, LABELS, label_frame
from valuerepair.nets.devices import device_of, split_key
from valuerepair.nets.net import Priors
from valuerepair.nets.registry import locate
from valuerepair.progress import Progress
from valuerepair.store import files, priors
from valuerepair.store.columns import stored_rungs
from valuerepair.store.priors import MovesOfInterest, Prior
from valuerepair.store.queries import eco_headers
from valuerepair.store.second_looks import net_number
from valuerepair.store.store import Store

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.nets.net import Net

log = logging.getLogger(__name__)

# A fortress shows in the growth of a search's evaluation from its first rung of at least this many nodes to its end, at
# least this many times as many nodes. What shorter searches are worth: docs/methods.md, "Labels".
RUNG_NODES, RUNG_TIMES = 10_000, 20


def net_id_of(store: Store, frame: pd.DataFrame) -> int:
    """The number in the store of the net that a frame is of."""
    net = frame.attrs["net"]
    return net_number(store.connection, net["sha256"], net["history_fill"])


def labels_of(store: Store, frame: pd.DataFrame) -> pd.DataFrame:
    """`labels.label_frame` of rows of `Store.frame` or `Store.candidates`, with the priors and headers of the store."""
    import pandas as pd

    stored_priors = priors.read_priors(store, net_id_of(store, frame), frame["position_id"].tolist())
    headers = pd.Series(eco_headers(store.connection, frame["game_id"].tolist()), frame.index, dtype=object)
    return label_frame(frame.assign(eco_header=headers, rung_cp=_rung_cp(store, frame)), stored_priors)


def _rung_cp(store: Store, frame: pd.DataFrame) -> pd.Series[float]:
    """The centipawns of each row's search at its first rung of `RUNG_NODES`; NaN without one, and of mates."""
    import pandas as pd

    _, oracle_id = store.pick(frame.attrs["net"]["sha256"], frame.attrs["oracle"]["digest"])
    wanted = [str(rung) for rung in stored_rungs(store.connection, oracle_id) if rung >= RUNG_NODES]
    query = """
        SELECT v.position_id, v.stage, v.cp FROM json_each(?) p CROSS JOIN json_each(?) s
        CROSS JOIN deep_values v ON v.oracle_id = ? AND v.stage = s.value AND v.position_id = p.value
    """
    first_rungs: dict[int, tuple[int, int | None]] = {}
    ids = frame["position_id"].tolist()
    for number, stage, cp in store.connection.execute(query, (json.dumps(ids), json.dumps(wanted), oracle_id)):
        rung = int(stage), cp
        first_rungs[number] = min(first_rungs.get(number, rung), rung, key=itemgetter(0))
    no_rung = (math.inf, None)
    cps = [
        np.nan if cp is None or nodes < RUNG_TIMES * rung else cp
        for nodes, (rung, cp) in zip(frame["nodes"].tolist(), (first_rungs.get(i, no_rung) for i in ids), strict=True)
    ]
    column: pd.Series[float] = pd.Series(cps, frame.index, np.float64)
    return column


def with_labels(store: Store, frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with its labels as further columns; existing columns stay as they are."""
    import pandas as pd

    labels = labels_of(store, frame)
    added = labels[[column for column in labels.columns if column not in frame.columns]]
    joined: pd.DataFrame = pd.concat([frame, added], axis=1)
    joined.attrs.update(frame.attrs)
    return joined


def names(labels: pd.DataFrame) -> list[frozenset[str]]:
    """The labels of each row of `labels`: words of `NAMES`, and of `KINDS` (``family:French Defense``)."""
    columns = [[name if holds else None for holds in mask.tolist()] for name, mask in masks(labels).items()]
    columns += [[f"{kind}:{word}" if word else None for word in labels[column]] for kind, column in KINDS.items()]
    return [frozenset(filter(None, row)) for row in zip(*columns, strict=True)]


def masks(labels: pd.DataFrame) -> dict[str, NDArray[np.bool_]]:
    """[n] which rows of `labels` have each of `NAMES`: as `names`, but a column at a time."""
    return {label.name: label.holds(labels[label.column].to_numpy(object)) for label in LABELS}


# The history fill of values that were recorded with their positions: their net is not available.
RECORDED_FILL = "recorded"


def has_policy(frame: pd.DataFrame) -> bool:
    """Whether the values of a frame come from a net that has a policy."""
    return bool(frame.attrs["net"]["history_fill"] != RECORDED_FILL)


def complete(
    store: Store,
    frame: pd.DataFrame,
    net_file: str | None = None,
    *,
    quiet: bool = False,
    **net_options: Any,
) -> int:
    """Computes and keeps the priors of a frame's rows that the store lacks; returns for how many positions.

    `net_file` is the net's file if the user gave one; a known net is found by its name. `net_options` are those of
    `nets.net.open_net`. The net is opened only if something is missing; values recorded in an archive have no net to
    open, which is logged. Raises UsageError if the net's file is not known, ValueRepairError if it is another net.
    """
    net_attrs, net_id = frame.attrs["net"], net_id_of(store, frame)
    numbers = frame["position_id"].tolist()
    oracle_id = store.pick(net_attrs["sha256"], frame.attrs["oracle"]["digest"])[1]
    missing = len(missing_priors(store, net_id, oracle_id, numbers))
    if not missing:
        return 0
    if net_attrs["history_fill"] == RECORDED_FILL:
        log.info(f"the values of {net_attrs['name']} are recorded ones: without its policy, blindness is not known")
        return 0
    with (
        open_stored(store, net_attrs, net_file, **net_options) as net,
        Progress("priors", missing, "positions", quiet=quiet) as progress,
    ):
        return add_priors(store, net, net_id, oracle_id, numbers, progress)


def lacks_priors(store: Store, frame: pd.DataFrame) -> bool:
    """Whether rows of the frame lack priors in the store, which `complete` would compute."""
    oracle_id = store.pick(frame.attrs["net"]["sha256"], frame.attrs["oracle"]["digest"])[1]
    return bool(missing_priors(store, net_id_of(store, frame), oracle_id, frame["position_id"].tolist()))


def open_stored(
    store: Store,
    net_attrs: Mapping[str, Any],
    net_file: str | None = None,
    **net_options: Any,
) -> Net:
    """Opens the net of a frame's attrs, ``{name, sha256, history_fill}``, to compute as it did for the store.

    `net_file` is its file if the user gave one; otherwise it is searched for at its last known place. Raises UsageError
    if it is not there, ValueRepairError if it is another net.
    """
    from valuerepair.nets.net import open_net

    key, name = str(net_attrs["sha256"]), str(net_attrs["name"])
    sha256, variant = split_key(key)
    path = _file_of(store, name, sha256, net_file)
    if (device := device_of(variant)) is not None:  # of another precision, which only some devices have
        net_options["device"] = device
    net = open_net(path, **net_options)
    if net.identity.key != key:
        other_key = net.identity.key
        net.close()
        raise ValueRepairError(
            f"{path} is not the net {name} of the store (its key is {other_key[:12]}, not {key[:12]}); give the "
            "file of that one with --net"
        )
    return net


def _file_of(store: Store, name: str, sha256: str, net_file: str | None) -> str:
    if net_file is not None and os.path.exists(os.path.expanduser(net_file)):
        return net_file
    if (words := files.net_option(store, sha256)) is not None:
        return str(locate(words))
    why = files.reason_missing(store, f"{name} ({sha256[:12]})", sha256)
    raise UsageError(f"{why}, and its policy is needed; give its file with --net FILE")


BATCH_ROWS = 1024


@runtime_checkable
class PolicyNet(Protocol):
    """A net with a policy; `valuerepair.nets.net.Net` is one."""

    def priors(self, batch: PositionBatch) -> Priors: ...


def add_priors(
    store: Store,
    net: PolicyNet,
    net_id: int,
    oracle_id: int,
    position_ids: Sequence[int],
    progress: Progress | None = None,
) -> int:
    """Stores the priors of the net's, the oracle's and the played move of these positions; returns for how many.

    Positions that have all these priors are skipped. The others go through the net in batches of `BATCH_ROWS`, each
    committed when it is done: after an interruption the same call resumes.
    """
    missing, done = missing_priors(store, net_id, oracle_id, position_ids), 0
    for start in range(0, len(missing), BATCH_ROWS):
        chunk = missing[start : start + BATCH_ROWS]
        batch = PositionBatch.from_positions([question.position for question in chunk])
        priors.record_priors(store, net_id, rows_of(chunk, net.priors(batch)))
        store.commit()
        done += len(chunk)
        if progress is not None:
            progress.advance(len(chunk))
    return done


def missing_priors(store: Store, net_id: int, oracle_id: int, position_ids: Sequence[int]) -> list[MovesOfInterest]:
    """The positions that lack a prior, with their legal moves of interest.

    Positions without a legal move are never among them.
    """
    stored = priors.read_priors(store, net_id, position_ids)
    stored_moves: dict[int, set[str]] = {}
    for number, move in zip(stored["position_id"].tolist(), stored["move"], strict=True):
        stored_moves.setdefault(number, set()).add(move)
    with_first = set(stored["position_id"][stored["rank"] == 1].tolist())
    return [
        question
        for question in _legal(priors.moves_of_interest(store, oracle_id, position_ids))
        if question.position_id not in with_first or not _of_interest(question) <= stored_moves[question.position_id]
    ]


def rows_of(positions: Sequence[MovesOfInterest], policies: Priors) -> Iterator[Prior]:
    """The priors to keep: of the first move, and of the moves of interest.

    A move's rank is 1 plus the number of moves with a higher prior. Of several moves with the highest prior, the first
    in the list is kept, as in the net's values.
    """
    moves, offsets, p = policies
    for i, question in enumerate(positions):
        legal = slice(offsets[i], offsets[i + 1])
        names, shares = [decode_move(move) for move in moves[legal].tolist()], p[legal]
        wanted = _of_interest(question) | {names[int(np.argmax(shares))]}
        for move in sorted(wanted):
            share = shares[names.index(move)]
            yield Prior(question.position_id, move, float(share), 1 + int((shares > share).sum()))


def _of_interest(question: MovesOfInterest) -> set[str]:
    return {move for move in (question.played, question.deep_best) if move is not None}


def _legal(positions: Sequence[MovesOfInterest]) -> list[MovesOfInterest]:
    """The positions that have a legal move, without illegal moves of interest: other programs recorded these."""
    moves, offsets = legal_moves(parse_fens([question.position.fen for question in positions]))
    questions = []
    for i, question in enumerate(positions):
        names = {decode_move(move) for move in moves[offsets[i] : offsets[i + 1]].tolist()}
        if names:
            played, best = (move if move in names else None for move in (question.played, question.deep_best))
            questions.append(question._replace(played=played, deep_best=best))
    return questions
