"""The options of a mining run, and which runs are the same work."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from valuerepair.archives.open import find_sources
from valuerepair.archives.options import SampleOptions
from valuerepair.errors import check_least
from valuerepair.identity import set_options
from valuerepair.nets.net import NetFacts
from valuerepair.question import Question
from valuerepair.screening.model import ScreenOptions
from valuerepair.store.rows import OracleIdentity


@dataclass(frozen=True)
class MineOptions:
    """Options of one run of mining.

    `sample`: which positions. `question`: how candidates are counted, and what screening looks for; net and oracle are
    those that are opened. `limit`: at most this many deep searches this time. `retry_failed`: search again what the
    oracle failed on. `screen`: only what may be a candidate is searched in full; None: everything is.
    `command`: the command line, kept in the store for its readers.

    Raises UsageError for values that make no sense.
    """

    sample: SampleOptions = field(default_factory=SampleOptions)
    question: Question = field(default_factory=Question)
    limit: int | None = None
    retry_failed: bool = False
    screen: ScreenOptions | None = None
    command: str = ""

    def __post_init__(self) -> None:
        check_least("--limit", self.limit)


# Runs of the first stores name all of these, also at their defaults, so every run does. Nothing is added here: a later
# option is named where it differs from its default. One that `SampleOptions` no longer has keeps its value.
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

    Of the options that came later a run names those that differ from their defaults: runs that were begun before an
    option existed are still the same work.
    """
    options = _ALWAYS_NAMED | set_options(sample)
    options.pop("threads", None)  # how many read changes nothing in the sample
    if sample.recorded is not None:
        options["recorded"] = asdict(sample.recorded)
    if sample.aside is not None:
        options["aside"] = sample.shares_beside
    return options


def mining_work(
    paths: Sequence[str], options: Mapping[str, Any], net: NetFacts, oracle: OracleIdentity
) -> dict[str, Any]:
    """All that decides what a run samples and scores: two runs with the same are the same work.

    Archives count by absolute path and size, so that a grown archive is new work, and a moved store is not.
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
