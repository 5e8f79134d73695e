"""Evaluations that archives hold already: which are wanted, what the store calls them, and what a position brings.

The store keeps one kind of record as the values of one oracle, so that its centipawns have an alpha of their own.
Training chunks have values of the net that played as well: the store keeps these as the values of a net.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.options import CHUNKS, DUMP, EPD, EVAL, KINDS, SELFPLAY, VIEWS, RecordedOptions
from valuerepair.archives.sampling import Found, depth_of, detect
from valuerepair.chess.origins import QColumns, Recorded
from valuerepair.chess.positions import PositionBatch
from valuerepair.engines.kinds import RECORDED
from valuerepair.engines.spec import EngineSpec
from valuerepair.errors import UsageError
from valuerepair.nets.net import NetIdentity, NetValues
from valuerepair.store.rows import DeepColumns, DeepResult, OracleIdentity

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RecordedNet:
    """What is known of the net whose values stand in training chunks: a name."""

    identity: NetIdentity
    provider: str = "recorded"
    history_fill: str = "recorded"

    @staticmethod
    def named(name: str) -> RecordedNet:
        """The net of chunks with this name."""
        digest = hashlib.sha256(f"recorded in chunks\n{name}".encode()).hexdigest()
        return RecordedNet(NetIdentity(f"recorded in {name}", digest, "wdl", 1, 0))


@dataclass(frozen=True)
class RecordedSource:
    """The evaluations that a run imports: which are `wanted`, under what `identity` the store keeps them, and the
    `net` that training chunks have values of, None for other kinds."""

    wanted: RecordedOptions
    identity: OracleIdentity
    net: RecordedNet | None = None

    @staticmethod
    def of(wanted: RecordedOptions, net_name: str = "") -> RecordedSource:
        """Evaluations of these options; `net_name` is what the net of training chunks is called."""
        net = RecordedNet.named(net_name) if wanted.kind == CHUNKS else None
        return RecordedSource(wanted, identity_of(wanted, net_name), net)

    def deep_values(self, batch: PositionBatch) -> tuple[NDArray[np.int64], DeepColumns]:
        """The rows of positions that bring an evaluation of the kind that is wanted, and these evaluations."""
        recorded, kind = batch.origins.recorded, self.wanted.kind
        if isinstance(recorded, QColumns) and recorded.kind == kind:
            return np.arange(len(batch)), deep_columns(recorded)
        found = [(i, r) for i, r in enumerate(recorded or ()) if r is not None and r.kind == kind]
        return np.array([i for i, _ in found], np.int64), DeepColumns.of([result_of(r) for _, r in found])


def net_values(batch: PositionBatch) -> NetValues:
    """The values of the chunks' own net that came with positions; NaN for what a record does not say, 0 for the best
    move: the net's policy is not recorded."""
    recorded = batch.origins.recorded
    if isinstance(recorded, QColumns):
        q, d = recorded.net_q, recorded.net_d
    else:
        known = [r or Recorded(CHUNKS) for r in recorded or [None] * len(batch)]
        q = np.array([np.nan if r.net_q is None else r.net_q for r in known], np.float32)
        d = np.array([np.nan if r.net_d is None else r.net_d for r in known], np.float32)
    nothing = np.full(len(batch), np.nan, np.float32)
    wdl = np.stack([(1 - d + q) / 2, d, (1 - d - q) / 2], 1)
    return NetValues(q, wdl, np.zeros(len(batch), np.uint16), nothing, nothing, nothing)


def result_of(recorded: Recorded) -> DeepResult:
    """A recorded evaluation as the outcome of a search. A mate goes before centipawns."""
    return DeepResult(
        cp=recorded.cp if recorded.mate is None else None,
        mate=recorded.mate,
        wdl=recorded.wdl,
        q=recorded.q,
        depth=recorded.depth,
        seldepth=recorded.seldepth,
        nodes=recorded.nodes,
        time_ms=recorded.time_ms,
        best_move=recorded.best_move,
        pv=recorded.pv,
    )


def deep_columns(found: QColumns) -> DeepColumns:
    """`result_of` of many at once."""
    nothing, zeros = [None] * len(found), [0] * len(found)
    win, draw, loss = found.wdl.T.tolist() if len(found) else ([], [], [])
    q, nodes, best = found.q.tolist(), found.nodes.tolist(), found.best_move
    return DeepColumns(
        nothing, nothing, win, draw, loss, q, zeros, zeros, nodes, zeros, best, [move or "" for move in best]
    )


def recorded_options(spec: EngineSpec, paths: Sequence[str]) -> RecordedOptions:
    """Which evaluations a ``--deep recorded`` means; without ``kind=`` those of the kind that comes first.

    With a depth or without is decided by the first one too, for the two are no sample of one thing.
    Raises UsageError for settings that make no sense together, and what `detect` raises.
    """
    given = spec.options
    found = detect(paths) if "kind" not in given else None
    kind = found.kind if found else given["kind"]
    if kind in (CHUNKS, SELFPLAY) and ("view" in given or "min-depth" in given):
        what = "training chunks" if kind == CHUNKS else "comments of vr selfplay"
        raise UsageError(f"--deep recorded: {what} are the mover's view and have no depth; min-nodes=N is there")
    if "net" in given and kind != CHUNKS:
        raise UsageError(f"--deep recorded: net= names the net of training chunks; for {kind} give --net")
    view = next((view for view in VIEWS if view == given.get("view")), None)
    depth = None
    if kind not in (CHUNKS, DUMP, SELFPLAY):
        depth = found.depth if found else depth_of(paths, kind)
    options = RecordedOptions(
        kind,
        view,
        depth,
        int(given["min-depth"]) if "min-depth" in given else None,
        int(given["min-nodes"]) if "min-nodes" in given else None,
        given.get("by"),
    )
    _tell(options, found)
    return options


def _tell(options: RecordedOptions, found: Found | None) -> None:
    where = f" (the first is in {found.archive})" if found else ""
    log.info(f"deep values: recorded ones, {KINDS[options.kind].what}{where}; nothing is searched")
    if options.depth is False:
        log.info(
            "these evaluations have no depth: how deep they looked is not known; confirm what they find by a search"
        )


def identity_of(options: RecordedOptions, net: str = "") -> OracleIdentity:
    """The oracle of these evaluations. With training chunks it belongs to the net they are of."""
    chosen: dict[str, str] = {"kind": options.kind}
    if options.view is not None and options.view != KINDS[options.kind].view:
        chosen["view"] = options.view
    if options.by is not None:
        chosen["by"] = options.by
    if options.depth is False:
        chosen["depth"] = "none"
    elif options.depth is None and options.kind in (EVAL, EPD) and options.min_depth is None:
        chosen["depth"] = "any"
    least = {"min-depth": options.min_depth, "min-nodes": options.min_nodes}
    limits = {name: number for name, number in least.items() if number is not None}
    return OracleIdentity(RECORDED.name, RECORDED.name, "", limits, chosen, net, plain={})


def chunk_net_name(paths: Sequence[str], options: Mapping[str, str]) -> str:
    """What the net of training chunks is called: as ``net=`` says, else by the archives, for no two sets of chunks
    shall be taken for one net unless somebody says so."""
    if "net" in options:
        return options["net"]
    names = [os.path.basename(os.path.abspath(path)) for path in paths]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
