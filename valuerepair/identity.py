"""What identifies a run when it is resumed: the options that differ from their defaults.

This way a new option does not change the identity of earlier runs.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def set_options(options: DataclassInstance) -> dict[str, Any]:
    """The options that differ from their defaults, JSON-able. All fields of the dataclass need a default."""
    defaults = _plain(type(options)())
    return {name: value for name, value in _plain(options).items() if value != defaults[name]}


def _plain(options: DataclassInstance) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(asdict(options)))
    return plain
