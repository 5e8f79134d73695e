"""The options of a mining run, and which runs are the same work."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from valuerepair.archives.open import find_sources
from valuerepair.archives.options import SampleOptions
from valuerepair.errors import check_least
from valuerepair.nets.net import NetFacts
from valuerepair.question import Question
from valuerepair.screening.model import ScreenOptions
from valuerepair.store.rows import OracleIdentity


@dataclass(frozen=True)
class MineOptions:
    """Options of one run of mining.

    `sample`: which positions are drawn. `question`: how candidates are counted, and what screening looks for (its net
    and oracle do not count: those that are open do). `limit`: the most deep searches in this run. `screen`: only
    positions that may be candidates are searched in full; None: all are. `command`: the command line, which the store
    records.

    Raises UsageError for invalid values.
    """

    sample: SampleOptions = field(default_factory=SampleOptions)
    question: Question = field(default_factory=Question)
    limit: int | None = None
    screen: ScreenOptions | None = None
    command: str = ""

    def __post_init__(self) -> None:
        check_least("limit", self.limit)


# The identity of a run in the first stores names all of these options, even at their defaults, so every run's does. Add
# nothing here: a later option is named only if it differs from its default. Removed options keep their old default.
_ALWAYS_NAMED = {
    "per_game": 1,
    "positions": None,
    "game_share": 1.0,
    "min_ply": 8,
    "max_ply": None,
    "min_elo": None,
    "result": None,
    "time_control": None,
    "player": None,
    "no_check": False,
    "quiet": False,
    "min_pieces": None,
    "max_pieces": None,
    "every_evaluation": False,
    "max_bytes": None,
    "seed": 0,
}


def sampling_options(sample: SampleOptions) -> dict[str, Any]:
    """The sampling options that decide which positions are drawn, JSON-able.

    Of later options only those that differ from their defaults are named, so that runs that began before an option
    existed are still the same work.
    """
    plain = _plain(type(sample)())
    options = _ALWAYS_NAMED | {name: value for name, value in _plain(sample).items() if value != plain[name]}
    options.pop("threads", None)  # the number of reading threads does not change the sample
    if sample.recorded is not None:
        options["recorded"] = asdict(sample.recorded)
    if sample.off_game is not None:
        options["off_game"] = sample.shares_beside
    return options


def _plain(options: SampleOptions) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(asdict(options)))
    return plain


def mining_work(
    paths: Sequence[str], options: Mapping[str, Any], net: NetFacts, oracle: OracleIdentity
) -> dict[str, Any]:
    """Everything that decides what a run samples and scores; two runs with the same result are the same work.

    Archives are identified by absolute path and size: a grown archive is new work, a moved store is not.
    """
    archives = [
        [os.path.abspath(source.path), os.path.getsize(source.path)]
        if os.path.isfile(source.path)
        else [source.path, -1]
        for source in find_sources(paths)
    ]
    return {
        "archives": archives,
        "options": dict(options),
        "net": net.identity.key,
        "history_fill": net.history_fill,
        "oracle": oracle.digest,
    }
