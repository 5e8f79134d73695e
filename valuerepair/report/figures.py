"""Every kind of plot by name, for `vr plot` and for Python."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from valuerepair.errors import UsageError
from valuerepair.question import Question

if TYPE_CHECKING:
    from valuerepair.report.style import Drawing
    from valuerepair.store.store import Store

STORE, MATCH_PGN, EXPERIMENT = "a store", "the PGN of a match", "the folder of a vr experiment selfplay"
TRAINING = "a net that vr train wrote"


@dataclass(frozen=True, slots=True)
class PlotKind:
    """A kind of plot: `help` in one line, what it `reads`, and the function that draws it.

    `place` names that function, ``module:function`` in `valuerepair.report`; it is imported on first use.
    """

    help: str
    reads: str
    place: str

    def drawer(self) -> Callable[..., Drawing]:
        """The function at `place`: takes an open store and a question, or the path of a file."""
        module, _, name = self.place.partition(":")
        function: Callable[..., Drawing] = getattr(importlib.import_module(f"valuerepair.report.{module}"), name)
        return function


KINDS: Mapping[str, PlotKind] = MappingProxyType(
    {
        "scatter": PlotKind("Net Q against deep Q, one point a position, lowess.", STORE, "plots:scatter"),
        "rates": PlotKind("Rates by threshold, phase, side, men; shares of labels.", STORE, "plots:rates"),
        "results": PlotKind("Results of games played against both Q, binned.", STORE, "plots:results"),
        "training": PlotKind("The curve of a training.", TRAINING, "training:drawing"),
        "match": PlotKind("Elo with its interval over the games of a match.", MATCH_PGN, "match:drawing"),
        "sweep": PlotKind("W/D/L by settings of the search.", EXPERIMENT, "experiment:drawing"),
    }
)


def draw(kind: str, source: Store | str | os.PathLike[str], question: Question | None = None) -> Drawing:
    """The figure of a kind (one of `KINDS`) of an open store, or of the file or folder at a path, described.

    Rows that a screening ladder searched for several positions count for all of them. Figures are drawn without pyplot;
    a notebook shows them, `style.save` saves them. Raises UsageError for an unknown kind, ValueRepairError for a source
    without the data of the kind.
    """
    from valuerepair.store.store import Store

    chosen = kind_of(kind)
    drawer = chosen.drawer()
    if chosen.reads != STORE:
        if isinstance(source, Store):
            raise UsageError(f"the kind {kind} reads {chosen.reads}, not a store: give its path")
        return drawer(os.fspath(source))
    if isinstance(source, Store):
        return drawer(source, question or Question())
    with Store.open(source) as store:
        return drawer(store, question or Question())


def kind_of(name: str) -> PlotKind:
    """The kind of that name. Raises UsageError for an unknown name."""
    if name not in KINDS:
        raise UsageError(f"no kind of plot {name}; there are {', '.join(KINDS)}")
    return KINDS[name]
