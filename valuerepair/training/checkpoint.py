"""The state of a training on disk: a line of JSON, behind it the bytes of the arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from valuerepair import outputs
from valuerepair.errors import UsageError, ValueRepairError, one_line
from valuerepair.files import open_regular, written_whole
from valuerepair.inputs import MOST_JSON, Count, Record, from_json
from valuerepair.training.options import TrainOptions

Arrays = Mapping[str, NDArray[Any]]


class Notes(Record):
    """What a checkpoint holds of a run beside its arrays; null stands for what is no number."""

    step: Count
    best_step: Count
    best_loss: float | None
    total: float
    counted: Count
    curve: list[dict[str, int | float | None]]


class _Head(Record):
    """The first line of a checkpoint; behind it are the bytes of the arrays, of which it has the kind and shape."""

    identity: dict[str, Any]
    notes: Notes
    arrays: dict[str, tuple[str, list[int]]]


def _forms(arrays: Arrays) -> dict[str, tuple[str, list[int]]]:
    return {name: (array.dtype.str, list(array.shape)) for name, array in arrays.items()}


def save(path: Path, identity: Mapping[str, Any], notes: Notes, arrays: Arrays) -> None:
    """Writes a checkpoint whole or not at all; an older one stays where it cannot be. Raises ValueRepairError."""
    try:
        with written_whole(path, outputs.CHECKPOINT) as partial, partial.open("wb") as file:
            file.write(msgspec.json.encode(_Head(dict(identity), notes, _forms(arrays))) + b"\n")
            for array in arrays.values():
                file.write(array.tobytes())
    except OSError as error:
        raise ValueRepairError(
            f"{path}: {error.strerror or error}: the checkpoint of step {notes.step:,} is not written; make room, "
            "then run the same command again, which goes on from the one before"
        ) from None


def load(path: Path, identity: Mapping[str, Any], like: Arrays) -> tuple[Notes, dict[str, NDArray[Any]]]:
    """Notes and arrays of a checkpoint, of the kinds and shapes of `like`.

    Raises ValueRepairError for what is none, UsageError for another training's.
    """
    try:
        with open_regular(path) as file:
            head = from_json(file.readline(MOST_JSON), _Head, "its first line")
            _check_identity(path, identity, head.identity)
            if head.arrays != _forms(like):
                raise ValueRepairError("its arrays are of other shapes")
            arrays = {name: np.frombuffer(file.read(array.nbytes), array.dtype) for name, array in like.items()}
            if [array.size for array in arrays.values()] != [array.size for array in like.values()] or file.read(1):
                raise ValueRepairError("its arrays are cut off, or followed by something else")
    except UsageError:
        raise
    except (OSError, ValueError, ValueRepairError) as error:
        raise ValueRepairError(
            f"{path}: is no checkpoint that can be read ({one_line(error)}); remove it to begin anew"
        ) from None
    return head.notes, {name: array.reshape(like[name].shape) for name, array in arrays.items()}


def check(path: Path, ours: Mapping[str, Any]) -> None:
    """Raises UsageError where the checkpoint is of a training that differs in one of `ours`, a part of its identity.

    What cannot be read is for `load` to say.
    """
    try:
        with open_regular(path) as file:
            head = from_json(file.readline(MOST_JSON), _Head, "its first line")
    except (OSError, ValueError, ValueRepairError):
        return
    _check_identity(path, ours, head.identity)


def options_by_name(options: TrainOptions) -> dict[str, Any]:
    """The options as a checkpoint names them: ``--steps`` for `steps`."""
    return {f"--{name.replace('_', '-')}": value for name, value in asdict(options).items()}


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """The names of what differs between a training and an earlier one, of which `ours` may be a part; or nothing."""
    # A training that was begun before an option existed has its default.
    theirs = {**options_by_name(TrainOptions()), **theirs}
    return ", ".join(one_line(name) for name in ours if ours[name] != theirs.get(name))


def _check_identity(path: Path, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    if names := differences(ours, theirs):
        raise UsageError(
            f"{path}: is of a training that differs in {names}; remove it to begin anew, or give another -o"
        )
