"""The state of a training on disk: a line of JSON, then the bytes of the arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from valuerepair.errors import UsageError, ValueRepairError, one_line
from valuerepair.files import written_whole
from valuerepair.training.options import TrainOptions

_LONGEST = 16 << 20  # bytes of the first line
Arrays = Mapping[str, NDArray[Any]]


class Notes(msgspec.Struct):
    """The state of a run besides its arrays; null stands for NaN and infinity."""

    step: int
    best_step: int
    best_loss: float | None
    total: float
    counted: int
    curve: list[dict[str, int | float | None]]


class _Head(msgspec.Struct):
    """The first line of a checkpoint, with type and shape of the arrays; their bytes follow."""

    identity: dict[str, Any]
    notes: Notes
    arrays: dict[str, tuple[str, list[int]]]


def _types_and_shapes(arrays: Arrays) -> dict[str, tuple[str, list[int]]]:
    return {name: (array.dtype.str, list(array.shape)) for name, array in arrays.items()}


def save(path: Path, identity: Mapping[str, Any], notes: Notes, arrays: Arrays) -> None:
    """Writes a complete checkpoint, or none: on an error the older one stays. Raises ValueRepairError."""
    try:
        with written_whole(path) as partial, partial.open("wb") as file:
            file.write(msgspec.json.encode(_Head(dict(identity), notes, _types_and_shapes(arrays))) + b"\n")
            for array in arrays.values():
                file.write(array.tobytes())
    except OSError as error:
        raise ValueRepairError(
            f"{path}: {error.strerror or error}: the checkpoint of step {notes.step:,} is not written; make room, "
            "then run the same command again, which resumes from the one before"
        ) from None


def load(path: Path, identity: Mapping[str, Any], like: Arrays) -> tuple[Notes, dict[str, NDArray[Any]]]:
    """Notes and arrays of a checkpoint, of the types and shapes of `like`.

    Raises ValueRepairError for a file that is not a checkpoint, UsageError for the checkpoint of another training.
    """
    try:
        with path.open("rb") as file:
            head = msgspec.json.decode(file.readline(_LONGEST), type=_Head)
            _check_identity(path, identity, head.identity)
            if head.arrays != _types_and_shapes(like):
                raise ValueRepairError("its arrays have different shapes")
            arrays = {name: np.frombuffer(file.read(array.nbytes), array.dtype) for name, array in like.items()}
            if [array.size for array in arrays.values()] != [array.size for array in like.values()] or file.read(1):
                raise ValueRepairError("its arrays are cut off, or followed by something else")
    except UsageError:
        raise
    except (OSError, ValueError, ValueRepairError, msgspec.MsgspecError) as error:
        raise ValueRepairError(
            f"{path}: cannot be read as a checkpoint ({one_line(error)}); remove it to start over"
        ) from None
    return head.notes, {name: array.reshape(like[name].shape) for name, array in arrays.items()}


def check(path: Path, expected: Mapping[str, Any]) -> None:
    """Raises UsageError if the checkpoint's training differs in one of `expected`, a part of its identity.

    `load` reports a file that cannot be read.
    """
    try:
        with path.open("rb") as file:
            head = msgspec.json.decode(file.readline(_LONGEST), type=_Head)
    except (OSError, ValueError, ValueRepairError, msgspec.MsgspecError):
        return
    _check_identity(path, expected, head.identity)


def options_by_name(options: TrainOptions) -> dict[str, Any]:
    """The options by their names in a checkpoint: ``--steps`` for `steps`."""
    return {f"--{name.replace('_', '-')}": value for name, value in asdict(options).items()}


def differences(expected: Mapping[str, Any], stored: Mapping[str, Any]) -> str:
    """The names of values that differ between `expected`, which may be part of an identity, and `stored`; or empty."""
    # A training that began before an option existed has its default.
    stored = {**options_by_name(TrainOptions()), **stored}
    return ", ".join(one_line(name) for name in expected if expected[name] != stored.get(name))


def _check_identity(path: Path, expected: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
    if names := differences(expected, stored):
        raise UsageError(
            f"{path}: is from a training that differs in {names}; remove it to start over, or give another -o"
        )
