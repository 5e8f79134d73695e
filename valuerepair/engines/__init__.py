"""Supervised UCI engines: found, started, asked, timed out, restarted, and never left behind."""

from valuerepair.engines.find import find_engine, usable_cores
from valuerepair.engines.info import SearchReport
from valuerepair.engines.pool import BadAnswer, EnginePool, Plan, PoolCounts, TimeLimit, single
from valuerepair.engines.process import EngineExited, EngineFailure, EngineTimeout
from valuerepair.engines.uci import BadOption, EngineOption, EngineSetup, GarbledAnswer, UciEngine

__all__ = [
    "BadAnswer",
    "BadOption",
    "EngineExited",
    "EngineFailure",
    "EngineOption",
    "EnginePool",
    "EngineSetup",
    "EngineTimeout",
    "GarbledAnswer",
    "Plan",
    "PoolCounts",
    "SearchReport",
    "TimeLimit",
    "UciEngine",
    "find_engine",
    "single",
    "usable_cores",
]
