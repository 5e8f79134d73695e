"""Deep evaluators (oracles) behind one protocol.

Names are imported on first use: reading a store's oracle identities needs no python-chess.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from valuerepair.deep.opening import open_oracle
    from valuerepair.deep.oracle import DeepFailure, DeepOutcome, DeepResult, Oracle, OracleIdentity
    from valuerepair.deep.spec import parse_spec
    from valuerepair.deep.uci_oracle import UciOracle, UciOracleSetup

__all__ = [
    "DeepFailure",
    "DeepOutcome",
    "DeepResult",
    "Oracle",
    "OracleIdentity",
    "UciOracle",
    "UciOracleSetup",
    "open_oracle",
    "parse_spec",
]

_HOMES = {
    "DeepFailure": "oracle",
    "DeepOutcome": "oracle",
    "DeepResult": "oracle",
    "Oracle": "oracle",
    "OracleIdentity": "oracle",
    "UciOracle": "uci_oracle",
    "UciOracleSetup": "uci_oracle",
    "open_oracle": "opening",
    "parse_spec": "spec",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
