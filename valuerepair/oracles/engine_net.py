"""An engine's own evaluation in the place of a net: a search of one node, its centipawns as Q."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from valuerepair.chess.positions import PositionBatch, encode_move
from valuerepair.chess.values import DEFAULT_ALPHA, cp_to_q, mate_to_q, wdl_to_q
from valuerepair.cores import usable_cores
from valuerepair.engines.kinds import KINDS, UCI
from valuerepair.engines.spec import EngineSpec, find_engine
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.inputs import finite, settings_of
from valuerepair.nets.net import Net, NetIdentity, NetValues, ValueHead, open_net
from valuerepair.nets.registry import ENGINE, locate
from valuerepair.oracles.oracle import DeepFailure
from valuerepair.oracles.uci_oracle import UciOracle
from valuerepair.store.rows import ENGINE_FILL, DeepResult
from valuerepair.text import quantity

log = logging.getLogger(__name__)

_WDL = "wdl"
_EXAMPLE = "for example uci:stockfish,nodes=1 or uci:/path/engine,nodes=1,alpha=400"
_NET_DEFAULTS = {"device": "auto", "history_fill": "fen_only", "value_head": "winner", "policy_head": "vanilla"}
_HASH_MB = "1"  # it is cleared before every position


@dataclass(frozen=True, slots=True)
class EngineNetSpec:
    """``uci:ENGINE[,SETTING...]``: the engine with its limit, and `alpha`, which turns its centipawns into Q.

    With an `alpha` of None, Q comes from the engine's W/D/L.
    """

    engine: EngineSpec
    alpha: float | None = DEFAULT_ALPHA


def is_engine(net: str | None) -> bool:
    """Whether a ``--net`` means an engine's evaluation instead of a net."""
    return net is not None and net.startswith(ENGINE)


def engine_hint(net: str) -> str:
    """An addition to the message for a ``--net`` that is not a net, if it names an engine as ``--deep`` does."""
    name, _, settings = net.partition(":")
    kind = KINDS.get(name, UCI)
    if kind.takes_net or not (kind.searches and kind.is_local) or find_engine(name) is None:
        return ""
    return f"; did you mean {ENGINE}{','.join(word for word in (name, settings) if word)}?"


def locate_net(net: str | None) -> str | None:
    """The file of a ``--net``, as `nets.registry.locate`; None for an engine.

    Raises ValueRepairError, and UsageError, which suggests the engine if the text names one as ``--deep`` does.
    """
    if is_engine(net):
        return None
    try:
        return str(locate(net))
    except UsageError as error:
        raise UsageError(f"{error}{engine_hint(net or '')}") from None


def parse_engine_net(text: str) -> EngineNetSpec:
    """Reads a ``--net`` that names an engine (`is_engine`): the settings of ``--deep``, and ``alpha=CENTIPAWNS`` or
    ``alpha=wdl``.

    The limit is nodes or a depth, by default one node. Raises UsageError.
    """
    where = f"--net {text!r}: "
    items = settings_of(text.removeprefix(ENGINE))
    alphas = [item.partition("=")[2].strip() for item in items if item.startswith("alpha=")]
    engine = UCI.parse([item for item in items if not item.startswith("alpha=")], where, _EXAMPLE)
    if engine.name is not None:
        raise UsageError(f"{where}name= is for the sides of a match")
    if "movetime" in engine.limits:
        raise UsageError(f"{where}movetime= is not allowed here: an evaluation must be reproducible; give nodes=1")
    engine = replace(engine, limits=engine.limits or {"nodes": 1})
    if alphas[-1:] == [_WDL]:
        return EngineNetSpec(replace(engine, options={"UCI_ShowWDL": "true", **engine.options}), None)
    alpha = finite(alphas[-1], f"{where}alpha={alphas[-1]}") if alphas else DEFAULT_ALPHA
    if alpha <= 0:
        raise UsageError(f"{where}alpha={alphas[-1]}: must be a positive number of centipawns, or wdl")
    return EngineNetSpec(engine, alpha)


class EngineNet:
    """Engines that evaluate positions to the limit of the spec, one position per engine at a time: an `Evaluator`.

    They are supervised as the engines of a deep search: restarted when they crash or hang, with three attempts a
    position. Close it, or use it as a context manager.
    """

    provider = "UCI"
    history_fill = ENGINE_FILL
    at_once = 2  # chunks: the one in progress and the next

    def __init__(self, spec: EngineNetSpec, workers: int) -> None:
        """Starts the first engine. Raises UsageError and ValueRepairError."""
        setup = spec.engine.kind.judge(spec.engine, hash_mb=_HASH_MB)
        self._alpha, self._oracle = spec.alpha, UciOracle(setup, workers)
        self._chunks = ThreadPoolExecutor(self.at_once, thread_name_prefix="engine-net")
        oracle, scale = self._oracle.identity, _WDL if spec.alpha is None else f"{spec.alpha:g}"
        unusual = "" if spec.alpha == DEFAULT_ALPHA else f" alpha={scale}"
        digest = hashlib.sha256(json.dumps([oracle.digest, scale]).encode()).hexdigest()
        head: ValueHead = "wdl" if spec.alpha is None else "scalar"
        self.identity = NetIdentity(oracle.label + unusual, digest, head, 0, os.path.getsize(setup.engine.path))

    @property
    def where(self) -> str:
        """What runs it, for a user: ``2 engines``."""
        return quantity(self._oracle.workers, "engine")

    def answer(self, batch: PositionBatch) -> Future[tuple[NetValues, Mapping[int, tuple[str, int]]]]:
        """Queues positions. The future holds the values of the positions that have one and, by row, the reason and the
        number of attempts for the others."""
        return self._chunks.submit(self._answer, batch)

    def evaluate(self, batch: PositionBatch) -> NetValues:
        """The values of all positions. Raises ValueRepairError if one is missing."""
        values, failed = self.answer(batch).result()
        for row, (reason, _) in failed.items():
            raise ValueRepairError(f"{self.identity.name} has no value of {batch[row].fen}: {reason}")
        return values

    def _answer(self, batch: PositionBatch) -> tuple[NetValues, Mapping[int, tuple[str, int]]]:
        searches = [self._oracle.submit(batch[row]) for row in range(len(batch))]
        results: list[DeepResult] = []
        failed: dict[int, tuple[str, int]] = {}
        for row, search in enumerate(searches):
            outcome = search.result()
            if isinstance(outcome, DeepFailure):
                failed[row] = outcome.reason, outcome.attempts
            elif self._alpha is None and outcome.wdl is None:
                failed[row] = "the engine gave no W/D/L", 1
            else:
                results.append(outcome)
        return self._values(results), failed

    def _values(self, results: Sequence[DeepResult]) -> NetValues:
        missing = np.full(len(results), np.nan, np.float32)
        best = np.array([encode_move(result.best_move or "") for result in results], np.uint16)
        wdl = np.array([result.wdl or (np.nan,) * 3 for result in results], np.float64).reshape(-1, 3)
        if self._alpha is None:
            wdl /= wdl.sum(axis=1, keepdims=True)
            q = wdl_to_q(wdl)
        else:
            cp, mate = (np.array([getattr(result, name) for result in results], np.float64) for name in ("cp", "mate"))
            q = np.where(np.isnan(mate), cp_to_q(cp, self._alpha), mate_to_q(mate))
            wdl[:] = np.nan  # they are on another scale than Q
        return NetValues(q.astype(np.float32), wdl.astype(np.float32), best, missing, missing, missing)

    def close(self) -> None:
        """Ends the engines."""
        counts = self._oracle.counts
        if counts.searched:
            log.info(f"{self.identity.name}: {counts.nodes / counts.searched:,.0f} nodes per position")
        self._oracle.close(cancel=True)
        self._chunks.shutdown(wait=True)

    def __enter__(self) -> EngineNet:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def open_engine_net(net: str, workers: int | None = None, **net_options: Any) -> EngineNet:
    """Opens the engines of a ``--net uci:...``, by default one per core.

    Raises UsageError, also for options of nets, and ValueRepairError.
    """
    for name, default in _NET_DEFAULTS.items():
        if (value := net_options.get(name, default)) != default:
            option = "heads" if name.endswith("_head") else name.replace("_", "-")
            raise UsageError(f"--{option} {value}: is for nets, and --net {net} is an engine")
    return EngineNet(parse_engine_net(net), workers or usable_cores())


def open_evaluator(net: str | None, workers: int | None = None, **net_options: Any) -> Net | EngineNet:
    """Opens a ``--net``: a net (`net_options` are those of `nets.net.open_net`), or `workers` engines."""
    if net is not None and is_engine(net):
        return open_engine_net(net, workers, **net_options)
    return open_net(locate_net(net), **net_options)
