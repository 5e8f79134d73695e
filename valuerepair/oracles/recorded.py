"""Evaluations recorded in archives: which ones a run imports, their names in the store, and a position's values.

The store keeps each kind of record as the values of a separate judge, so that its centipawns have their own alpha.
Training chunks also have values of the net that played: the store keeps these as the values of a net.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.options import CHUNKS, DUMP, EPD, EVAL, RECORD_KINDS, SELFPLAY, VIEWS, RecordedOptions
from valuerepair.archives.sampling import depth_of, detect
from valuerepair.chess.origins import QColumns, Recorded
from valuerepair.chess.positions import PositionBatch
from valuerepair.engines.kinds import RECORDED
from valuerepair.engines.spec import EngineSpec
from valuerepair.errors import UsageError
from valuerepair.nets.net import NetIdentity, NetValues
from valuerepair.nets.policy import no_moves
from valuerepair.store.rows import DeepColumns, DeepResult, JudgeIdentity

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RecordedNet:
    """The net whose values are in training chunks; only its name is known."""

    identity: NetIdentity
    provider: str = "recorded"

    @staticmethod
    def named(name: str) -> RecordedNet:
        """The net of chunks with this name."""
        digest = hashlib.sha256(f"recorded in chunks\n{name}".encode()).hexdigest()
        return RecordedNet(NetIdentity(f"recorded in {name}", digest, "wdl", 1, 0))


@dataclass(frozen=True)
class RecordedSource:
    """The evaluations that a run imports: which ones (`wanted`), their `identity` in the store, and the `net` that gave
    the values in training chunks (None for other kinds)."""

    wanted: RecordedOptions
    identity: JudgeIdentity
    net: RecordedNet | None = None

    @staticmethod
    def of(wanted: RecordedOptions, net_name: str = "") -> RecordedSource:
        """Evaluations of these options; `net_name` is the name of the net of training chunks."""
        net = RecordedNet.named(net_name) if wanted.kind == CHUNKS else None
        return RecordedSource(wanted, identity_of(wanted, net_name), net)

    def deep_values(self, batch: PositionBatch) -> tuple[NDArray[np.int64], DeepColumns]:
        """The rows of positions with an evaluation of the wanted kind, and these evaluations."""
        recorded, kind = batch.origin.recorded, self.wanted.kind
        if isinstance(recorded, QColumns) and recorded.kind == kind:
            return np.arange(len(batch)), deep_columns(recorded)
        matches = [(i, r) for i, r in enumerate(recorded or ()) if r is not None and r.kind == kind]
        return np.array([i for i, _ in matches], np.int64), DeepColumns.of([result_of(r) for _, r in matches])


def net_values(batch: PositionBatch) -> NetValues:
    """The values of the chunks' own net for positions; NaN for values that a record lacks, 0 for the best move, as the
    net's policy is not recorded."""
    recorded = batch.origin.recorded
    if isinstance(recorded, QColumns):
        q, d = recorded.net_q, recorded.net_d
    else:
        records = [r or Recorded(CHUNKS) for r in recorded or [None] * len(batch)]
        q = np.array([np.nan if r.net_q is None else r.net_q for r in records], np.float32)
        d = np.array([np.nan if r.net_d is None else r.net_d for r in records], np.float32)
    missing = np.full(len(batch), np.nan, np.float32)
    wdl = np.stack([(1 - d + q) / 2, d, (1 - d - q) / 2], 1)
    return NetValues(q, wdl, *no_moves(len(batch)), missing)


def result_of(recorded: Recorded) -> DeepResult:
    """A recorded evaluation as the result of a search. A mate takes precedence over centipawns."""
    result = DeepResult(**{field.name: getattr(recorded, field.name) for field in fields(DeepResult)})
    return result if result.mate is None else replace(result, cp=None)


def deep_columns(recorded: QColumns) -> DeepColumns:
    """As `result_of`, for many at once."""
    missing, zeros = [None] * len(recorded), [0] * len(recorded)
    win, draw, loss = recorded.wdl.T.tolist() if len(recorded) else ([], [], [])
    q, nodes, best = recorded.q.tolist(), recorded.nodes.tolist(), recorded.best_move
    return DeepColumns(
        missing, missing, win, draw, loss, q, zeros, zeros, nodes, zeros, best, [move or "" for move in best]
    )


def recorded_options(spec: EngineSpec, paths: Sequence[str]) -> RecordedOptions:
    """The evaluations that a ``--deep recorded`` means; without ``kind=`` the kind of the archives' first evaluation.

    The first evaluation also decides whether evaluations with or without a depth are taken: the two must not be mixed.
    Raises UsageError for settings that contradict each other, and the errors of `detect`.
    """
    settings = spec.options
    detected = detect(paths) if "kind" not in settings else None
    kind = detected.kind if detected else settings["kind"]
    if kind in (CHUNKS, SELFPLAY) and ("view" in settings or "min-depth" in settings):
        records = "training chunks" if kind == CHUNKS else "comments of vr selfplay"
        raise UsageError(f"--deep recorded: {records} are the mover's view and have no depth; give min-nodes=N")
    if "net" in settings and kind != CHUNKS:
        raise UsageError(f"--deep recorded: net= names the net of training chunks; for {kind} give --net")
    view = next((view for view in VIEWS if view == settings.get("view")), None)
    depth = None
    if kind not in (CHUNKS, DUMP, SELFPLAY):
        depth = detected.depth if detected else depth_of(paths, kind)
    options = RecordedOptions(
        kind,
        view,
        depth,
        int(settings["min-depth"]) if "min-depth" in settings else None,
        int(settings["min-nodes"]) if "min-nodes" in settings else None,
        settings.get("by"),
    )
    where = f" (the first is in {detected.archive})" if detected else ""
    log.info(f"deep values: recorded ones, {RECORD_KINDS[options.kind].description}{where}; nothing is searched")
    if options.depth is False:
        log.info("these evaluations have no depth: their depth is unknown; confirm what they find by a search")
    return options


def identity_of(options: RecordedOptions, net: str = "") -> JudgeIdentity:
    """The judge of these evaluations; for training chunks it includes the name of their net."""
    chosen: dict[str, str] = {"kind": options.kind}
    if options.view is not None and options.view != RECORD_KINDS[options.kind].view:
        chosen["view"] = options.view
    if options.by is not None:
        chosen["by"] = options.by
    if options.depth is False:
        chosen["depth"] = "none"
    elif options.depth is None and options.kind in (EVAL, EPD) and options.min_depth is None:
        chosen["depth"] = "any"
    minimums = {"min-depth": options.min_depth, "min-nodes": options.min_nodes}
    limits = {name: number for name, number in minimums.items() if number is not None}
    return JudgeIdentity(RECORDED.name, RECORDED.name, "", limits, chosen, net, plain={})


def chunk_net_name(paths: Sequence[str], options: Mapping[str, str]) -> str:
    """The name of the net of training chunks: ``net=``, else the archives' names, so that two sets of chunks count as
    one net only if the user says so."""
    if "net" in options:
        return options["net"]
    names = [os.path.basename(os.path.abspath(path)) for path in paths]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
