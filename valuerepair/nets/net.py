"""A net as other packages use it: positions go in, values and priors come out."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Moves
from valuerepair.chess.positions import PositionBatch, cuts_of
from valuerepair.errors import ValueRepairError, check_least
from valuerepair.nets import canary
from valuerepair.nets.conversion import to_onnx
from valuerepair.nets.devices import CPU, ON_CPU, Device, choose_device, usable_cores
from valuerepair.nets.planes import INPUT_FORMATS, PLANES_SHAPE, encode
from valuerepair.nets.policy import best_moves, legal_priors, no_moves
from valuerepair.nets.registry import locate, path_to_record
from valuerepair.nets.session import MOVES_LEFT_NAME, WDL_NAME, RawOutputs, Session, join_outputs
from valuerepair.nets.weights import NetFile, read_net_file
from valuerepair.text import quantity

log = logging.getLogger(__name__)

ValueHead = Literal["wdl", "scalar"]
# The legal moves of n positions in one array; int64[n + 1], where the moves of each position begin; and their priors.
Priors = tuple[Moves, NDArray[np.int64], NDArray[np.float32]]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NetIdentity:
    """The identity of a net: `sha256` and `size` (bytes) are those of the given file, before any conversion.

    `input_format` is lc0's id of its input planes (1 = classical, assumed for an ``.onnx`` file, which has no id).
    `variant` is empty, or names another precision (``-f16``) by which its values are computed; `name` includes it.
    `path` is the absolute path of the file; empty for a net known by name.
    """

    name: str
    sha256: str
    value_head: ValueHead
    input_format: int
    size: int
    variant: str = ""
    path: str = field(default="", compare=False, repr=False)

    @property
    def key(self) -> str:
        """The key of its values in a store, which never mixes values of different keys."""
        return self.sha256 + self.variant


@dataclass(frozen=True, slots=True)
class NetValues:
    """A net's evaluation of n positions at one node, all from the side to move.

    | column     | type                        |                                                             |
    |------------|-----------------------------|-------------------------------------------------------------|
    | q          | float32[n]                  | value in [-1, 1]: W - L, or the scalar head                 |
    | wdl        | float32[n, 3]               | probabilities of win, draw, loss; NaN for a scalar head     |
    | moves      | uint16[n, `BEST_MOVES`]     | the legal moves of the highest priors, the best first; 0    |
    |            |                             | where there are fewer                                       |
    | priors     | float32[n, `BEST_MOVES`]    | theirs (softmax over the legal moves, T = 1); NaN for none  |
    | moves_left | float32[n]                  | plies left; NaN without such a head                         |
    """

    q: NDArray[np.float32]
    wdl: NDArray[np.float32]
    moves: NDArray[np.uint16]
    priors: NDArray[np.float32]
    moves_left: NDArray[np.float32]

    @property
    def best_move(self) -> NDArray[np.uint16]:
        """uint16[n]: the legal move of the highest prior; 0 without a legal move."""
        return self.moves[:, 0]

    @property
    def best_p(self) -> NDArray[np.float32]:
        """float32[n]: its prior; NaN without a legal move."""
        return self.priors[:, 0]

    @staticmethod
    def concat(parts: Sequence[NetValues]) -> NetValues:
        """The values of all positions of the parts, in order."""
        if not parts:
            empty = np.empty(0, np.float32)
            moves, priors = no_moves(0)
            return NetValues(empty, np.empty((0, 3), np.float32), moves, priors, empty)
        return NetValues(*(np.concatenate([getattr(part, name) for part in parts]) for name in NetValues.__slots__))


class NetFacts(Protocol):
    """What the store records about a net."""

    @property
    def identity(self) -> NetIdentity: ...
    @property
    def provider(self) -> str: ...


class Evaluator(NetFacts, Protocol):
    """Evaluates positions at one node; `Net` is one."""

    def evaluate(self, batch: PositionBatch) -> NetValues: ...


class Net:
    """An open net. Use `open_net`; close it, or use it as a context manager.

    Many positions are cut into batches. Each of `session.streams` threads encodes a batch, runs the net on it and
    interprets the outputs, so that one batch is encoded while the net runs on another.
    """

    def __init__(self, identity: NetIdentity, session: Session) -> None:
        self.identity, self.session = identity, session
        self._pool = ThreadPoolExecutor(session.streams, thread_name_prefix="net")
        self._buffers = threading.local()

    @property
    def provider(self) -> str:
        """The ONNX Runtime provider that runs it (``CPUExecutionProvider`` ...)."""
        return self.session.device.provider

    @property
    def has_moves_left(self) -> bool:
        """Whether it predicts the plies left."""
        return MOVES_LEFT_NAME in self.session.heads

    @property
    def on_cpu(self) -> bool:
        """Whether the CPU computes it."""
        return self.session.on_cpu

    @property
    def opened_with(self) -> dict[str, Any]:
        """Options with which `open_net` opens another net on the same device, with the same number of threads."""
        return {"device": self.session.device.word, "threads": self.session.threads}

    @property
    def batch_size(self) -> int:
        """Rows of one run of the session."""
        return self.session.batch_size

    @property
    def where(self) -> str:
        """Where it runs, for a user: ``CPU, 2 threads``."""
        return f"{self.session.device.name}, {quantity(self.session.threads, 'thread')}"

    def evaluate(self, batch: PositionBatch) -> NetValues:
        """Values and best moves of every position (see `NetValues`). Positions without moves are allowed."""
        return NetValues.concat(list(self._chunks(batch, lambda chunk: interpret(*self._run(chunk)))))

    def priors(self, batch: PositionBatch) -> Priors:
        """The legal moves of n positions in one array; int64[n + 1], where the moves of each position begin; and the
        prior of each move (softmax at T = 1, so the priors of a position add up to 1)."""
        return _join_priors([priors for _, priors in self._chunks(batch, self._run)])

    def evaluate_with_priors(self, batch: PositionBatch) -> tuple[NetValues, Priors]:
        """`evaluate` and `priors` from one run of the net."""
        parts = list(self._chunks(batch, self._run))
        if not parts:
            return NetValues.concat([]), _join_priors([])
        priors = _join_priors([part for _, part in parts])
        return interpret(join_outputs([raw for raw, _ in parts]), priors), priors

    def _chunks(self, batch: PositionBatch, work: Callable[[PositionBatch], T]) -> Iterator[T]:
        """The results of `work` for consecutive parts of the batch, each the rows of one run of the net."""
        # Few positions are shared out, so that no stream is idle.
        size = max(1, min(self.batch_size, -(-len(batch) // self.session.streams)))
        chunks = (batch.take(np.arange(i, min(i + size, len(batch)))) for i in range(0, len(batch), size))
        return iter(self._pool.map(work, chunks))

    def _run(self, batch: PositionBatch) -> tuple[RawOutputs, Priors]:
        raw = self.session.run(self._encode(batch))
        return raw, legal_priors(batch, raw.policy, self.identity.input_format)

    def _encode(self, batch: PositionBatch) -> NDArray[np.float32]:
        """Planes in this thread's own memory, which its next batch reuses."""
        buffer: NDArray[np.float32] | None = getattr(self._buffers, "planes", None)
        if buffer is None or len(buffer) < len(batch):
            buffer = self._buffers.planes = np.empty((max(len(batch), self.batch_size), *PLANES_SHAPE), np.float32)
        return encode(batch, self.identity.input_format, out=buffer[: len(batch)])

    def close(self) -> None:
        """Ends the threads. The net cannot be used afterwards."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Net:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def interpret(raw: RawOutputs, priors: Priors) -> NetValues:
    """The `NetValues` of a net's raw outputs and the legal priors."""
    n = len(raw.policy)
    wdl = raw.wdl if raw.wdl is not None else np.full((n, 3), np.nan, np.float32)
    moves_left = raw.mlh if raw.mlh is not None else np.full(n, np.nan, np.float32)
    return NetValues(raw.q, wdl, *best_moves(*priors), moves_left)


def _join_priors(parts: list[Priors]) -> Priors:
    if not parts:
        return np.empty(0, np.uint16), np.zeros(1, np.int64), np.empty(0, np.float32)
    offsets = cuts_of(np.concatenate([np.diff(offsets) for _, offsets, _ in parts]))
    return np.concatenate([m for m, _, _ in parts]), offsets, np.concatenate([p for _, _, p in parts])


def open_net(
    spec: str | os.PathLike[str] | None = None,
    *,
    device: str = "auto",
    threads: int | None = None,
) -> Net:
    """Opens a net by registry name or path (.pb.gz, .pb, .onnx); None is the default net, downloaded the first time.

    `device` is one of `options.DEVICES`; `threads` the cores to use (default: all that this process may use);
    The net's identity includes the precision of the device. A device other than the CPU
    must agree with the CPU on a few positions (see `canary`); otherwise ``auto`` uses the CPU. Raises UsageError for an
    unknown net or word and a number out of range, ValueRepairError for a file that is not a net and for a device that
    does not run it; each is one line for the user.
    """
    check_least("threads", threads)
    chosen = choose_device(device)
    file = read_net_file(locate(spec))
    input_format = file.header.input_format if file.header else 1
    if input_format not in INPUT_FORMATS:
        raise ValueRepairError(f"{file.path}: wants input planes of format {input_format}, which is not supported")
    cores = threads or usable_cores()
    try:
        session = _open_session(file, chosen, cores, input_format)
    except ValueRepairError as error:
        if device != "auto" or chosen.provider == CPU:
            raise
        log.info(f"{error}; so the CPU runs it")
        session = _open_session(file, ON_CPU, cores, input_format)
    head: ValueHead = "wdl" if WDL_NAME in session.heads else "scalar"
    variant, path = session.device.variant, path_to_record(file.sha256, file.path)
    identity = NetIdentity(file.name + variant, file.sha256, head, input_format, file.size, variant, path)
    return Net(identity, session)


def _open_session(file: NetFile, device: Device, threads: int, input_format: int) -> Session:
    """A session that computes the net as the CPU does. Raises ValueRepairError."""
    plain = to_onnx(file)
    session = Session(to_onnx(file, half=True) if device.precision == "f16" else plain, device, threads)
    if device.provider != CPU:
        canary.check(session, plain, input_format)
    return session


def describe_net(net: str | os.PathLike[str] | None = None) -> NetDescription:
    """The facts of a net's file: planes, heads, tower, SHA-256. `net` is a name or file, None the default.

    Raises UsageError for an unknown name, ValueRepairError for a file that is not a net.
    """
    file = read_net_file(locate(net))
    facts: dict[str, Any] = {"name": file.name, "path": str(file.path), "sha256": file.sha256, "bytes": file.size}
    if header := file.header:
        return NetDescription({**facts, **asdict(header)})
    session = Session(file.path)
    return NetDescription({**facts, "dtype": session.dtype.__name__, "heads": session.heads})


@dataclass(frozen=True, slots=True)
class NetDescription:
    """The `facts` of a net's file by name: those of lc0's header (`NetHeader`), or of an ONNX file its tensors."""

    facts: dict[str, Any]

    def lines(self) -> list[str]:
        """The facts for a terminal, one a line."""
        return [f"{name.replace('_', ' ')}: {value}" for name, value in self.facts.items() if value not in (None, "")]

    def as_json(self) -> dict[str, Any]:
        """The facts."""
        return self.facts
