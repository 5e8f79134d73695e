"""The state of a training on disk, so that the same command goes on where it was killed."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import written_whole

_NOTES = "notes"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Arrays by name, and `notes`, JSON-able; `identity` says which training it is of."""

    identity: Mapping[str, Any]
    notes: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Writes it whole or not at all; what was there before stays where it cannot be. Raises ValueRepairError."""
    text = json.dumps({"identity": checkpoint.identity, "notes": checkpoint.notes})
    notes = np.frombuffer(text.encode(), np.uint8)
    try:
        with written_whole(path) as partial, partial.open("wb") as file:
            np.savez(file, allow_pickle=False, **{_NOTES: notes}, **checkpoint.arrays)
    except OSError as error:
        raise ValueRepairError(
            f"{path}: {error.strerror or error}: the checkpoint of step {checkpoint.notes['step']:,} is not written; "
            "make room, then run the same command again, which goes on from the one before"
        ) from None


def load(path: Path, identity: Mapping[str, Any]) -> Checkpoint | None:
    """The checkpoint of this training; None where there is none. Raises UsageError for one of another training."""
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        said = json.loads(arrays.pop(_NOTES).tobytes())
        theirs, notes = said["identity"], said["notes"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ValueRepairError(
            f"{path}: is no checkpoint that can be read ({error}); remove it to begin anew"
        ) from None
    other = [name for name in {**identity, **theirs} if identity.get(name) != theirs.get(name)]
    if other:
        raise UsageError(
            f"{path}: is of a training that differs in {', '.join(other)}; remove it to begin anew, or give another -o"
        )
    return Checkpoint(theirs, notes, arrays)
