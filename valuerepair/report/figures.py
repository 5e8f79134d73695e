"""Every kind of plot by name, for `vr plot` and for Python:

from valuerepair.report import figures
figure = figures.draw("hexbin", "valuerepair.db", threshold=0.4)
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from valuerepair.errors import UsageError
from valuerepair.question import Question

if TYPE_CHECKING:
    from valuerepair.report.style import Drawing
    from valuerepair.store.store import Store

STORE, MATCH_PGN, EXPERIMENT = "a store", "the PGN of a match", "the folder of a vr experiment selfplay"
TRAINING = "a net that vr train wrote"
_QUESTION = frozenset(field.name for field in fields(Question))
_VALUES = _QUESTION - {"threshold"}
_WEIGHTED = _QUESTION | {"weighted"}


@dataclass(frozen=True, slots=True)
class PlotKind:
    """A kind of plot: `help` in one line, what it `reads`, the `options` it takes, and the function that draws it.

    `place` names that function, ``module:function`` in `valuerepair.report`; it is imported on first use.
    """

    help: str
    reads: str
    options: frozenset[str]
    place: str

    def drawer(self) -> Callable[..., Drawing]:
        """The function at `place`: takes a store, a question and whether to weight; or the path of a file."""
        module, _, name = self.place.partition(":")
        function: Callable[..., Drawing] = getattr(importlib.import_module(f"valuerepair.report.{module}"), name)
        return function


KINDS: Mapping[str, PlotKind] = MappingProxyType(
    {
        "scatter": PlotKind("Net Q against deep Q, one point a position, lowess.", STORE, _WEIGHTED, "scatter:drawing"),
        "hexbin": PlotKind("The same as density, for many positions.", STORE, _WEIGHTED, "scatter:hexbin"),
        "residuals": PlotKind("Net Q - deep Q against deep Q, lowess.", STORE, _WEIGHTED, "scatter:residuals"),
        "results": PlotKind("Results of games played against both Q, binned.", STORE, _VALUES, "results:drawing"),
        "rate": PlotKind("Rate of candidates by threshold.", STORE, _WEIGHTED, "rates:by_threshold"),
        "by-phase": PlotKind("Rate of candidates by phase of the game.", STORE, _WEIGHTED, "rates:by_phase"),
        "by-side": PlotKind("Rate of candidates by side to move.", STORE, _WEIGHTED, "rates:by_side"),
        "by-men": PlotKind("Rate of candidates by number of men on the board.", STORE, _WEIGHTED, "rates:by_men"),
        "by-label": PlotKind("Share of the candidates with each label.", STORE, _WEIGHTED, "rates:by_label"),
        "recall": PlotKind("Recall against nodes of the screening ladder.", STORE, _QUESTION, "ladder:recall"),
        "survival": PlotKind("Share still on the ladder at each rung.", STORE, _WEIGHTED, "ladder:survival"),
        "wdl": PlotKind("W/D/L by settings of the search.", EXPERIMENT, frozenset(), "experiment:drawing"),
        "training": PlotKind("The curve of a training.", TRAINING, frozenset(), "training:drawing"),
        "match": PlotKind("Elo with its interval over the games of a match.", MATCH_PGN, frozenset(), "match:drawing"),
    }
)


def draw(kind: str, source: Store | str | os.PathLike[str], **options: Any) -> Drawing:
    """The figure of a kind (one of `KINDS`) of an open store, or of the store, PGN or folder at a path, described.

    Options, those of `PlotKind.options`: `threshold` (default 0.55) in Q, `net`, `oracle`, `alpha` (centipawns) and
    `q_from` as in `Store.frame`, `weighted` (default True): a row that a screening ladder searched for several
    positions counts for all of them. Figures are drawn without pyplot; a notebook shows them, ``figure.savefig`` or
    `style.save` saves them. Raises UsageError for an unknown kind, an option that the kind does not take, or a value
    out of range; ValueRepairError for a source without the data of the kind.
    """
    from valuerepair.store.store import Store

    chosen = kind_of(kind, options)
    drawer = chosen.drawer()
    if chosen.reads != STORE:
        if isinstance(source, Store):
            raise UsageError(f"the kind {kind} reads {chosen.reads}, not a store: give its path")
        return drawer(os.fspath(source))
    by_weight = bool(options.pop("weighted", True))
    question = Question(**options)
    if isinstance(source, Store):
        return drawer(source, question, by_weight)
    with Store.open(source) as store:
        return drawer(store, question, by_weight)


def kind_of(name: str, options: Mapping[str, Any] = MappingProxyType({})) -> PlotKind:
    """The kind of that name. Raises UsageError for an unknown name, and for options (by name) that it does not take."""
    if name not in KINDS:
        raise UsageError(f"no kind of plot {name}; there are {', '.join(KINDS)}")
    kind = KINDS[name]
    for option in options:
        if option not in kind.options:
            takes = ", ".join(sorted(kind.options)) or "no options"
            raise UsageError(f"the plot {name} does not take {option}; it takes {takes}")
    return kind
