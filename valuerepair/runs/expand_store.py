"""What a store's candidates are to be expanded with: the search that found them, or the games that record it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from valuerepair.chess.progress import Progress
from valuerepair.engines.kinds import kind_of
from valuerepair.judge.labelled import open_stored
from valuerepair.question import Question
from valuerepair.runs.evaluators import fitting_screen
from valuerepair.runs.expand import ExpandOptions, expand
from valuerepair.runs.expand_recorded import expand_recorded, recorded_source
from valuerepair.runs.expansion import ExpandSummary
from valuerepair.runs.known_games import Following, KnownGames
from valuerepair.runs.neighbourhood import GAME
from valuerepair.runs.same_oracle import net_file, open_found
from valuerepair.screening.model import ScreenOptions
from valuerepair.store.second_looks import oracle_of
from valuerepair.store.store import Store

log = logging.getLogger(__name__)

Work = Callable[[ExpandOptions, Progress], ExpandSummary]


@contextmanager
def open_expansion(
    store: Store, question: Question, *, deep: str | None = None, workers: int | None = None
) -> Iterator[Work]:
    """Opens the net and the oracle that found a store's candidates; what it gives expands them.

    Where the oracle's values were recorded in games there is none to open: the games are read again. `deep` says how an
    oracle is to be had that the store does not know the place of. Raises UsageError and ValueRepairError.
    """
    attrs = store.frame(question, only=("position_id",)).attrs
    oracle = oracle_of(store.connection, attrs["oracle"]["digest"])
    if not kind_of(oracle.kind).searches:
        source = recorded_source(oracle)
        with open_stored(store, attrs["net"], net_file(question)) as net:
            log.info(f"net: {net.identity.name} on {net.where}")
            yield lambda options, progress: expand_recorded(
                store, net, source, options.asking(question, None), progress=progress
            )
        return
    with open_found(store, question, deep=deep, workers=workers) as (net, opened):
        screen = fitting_screen(opened.identity, ScreenOptions())

        def work(options: ExpandOptions, progress: Progress) -> ExpandSummary:
            following = None
            if GAME in options.steps:
                ids = store.candidates(question)["position_id"].tolist()
                following = Following(KnownGames.of(store, ids))
            return expand(store, net, opened, options.asking(question, screen), progress=progress, following=following)

        yield work
