"""valuerepair: find the positions a chess net judges badly wrong, and make the games that repair it.

The names below are the public Python interface (docs/python.md). Each is imported on first use, so that importing the
package costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from valuerepair.api.asking import evaluate as evaluate
    from valuerepair.api.asking import search as search
    from valuerepair.api.making import mine as mine
    from valuerepair.api.making import plot as plot
    from valuerepair.api.making import remeasure as remeasure
    from valuerepair.api.making import write_books as write_books
    from valuerepair.api.making import write_report as write_report
    from valuerepair.api.mined import Candidate as Candidate
    from valuerepair.api.mined import MinedStore as MinedStore
    from valuerepair.api.mined import open_store as open_store
    from valuerepair.archives import SampleOptions as SampleOptions
    from valuerepair.books.options import BookOptions as BookOptions
    from valuerepair.candidates.remeasure import RemeasureOptions as RemeasureOptions
    from valuerepair.errors import UsageError as UsageError
    from valuerepair.errors import ValueRepairError as ValueRepairError
    from valuerepair.mcts.params import SearchParams as SearchParams
    from valuerepair.nets import open_net as open_net
    from valuerepair.positions import Position as Position

__version__ = "0.1.0"

_HOMES = {
    "BookOptions": "books.options",
    "Candidate": "api.mined",
    "MinedStore": "api.mined",
    "Position": "positions",
    "RemeasureOptions": "candidates.remeasure",
    "SampleOptions": "archives",
    "SearchParams": "mcts.params",
    "UsageError": "errors",
    "ValueRepairError": "errors",
    "evaluate": "api.asking",
    "mine": "api.making",
    "open_net": "nets",
    "open_store": "api.mined",
    "plot": "api.making",
    "remeasure": "api.making",
    "search": "api.asking",
    "write_books": "api.making",
    "write_report": "api.making",
}
__all__ = [
    "BookOptions",
    "Candidate",
    "MinedStore",
    "Position",
    "RemeasureOptions",
    "SampleOptions",
    "SearchParams",
    "UsageError",
    "ValueRepairError",
    "__version__",
    "evaluate",
    "mine",
    "open_net",
    "open_store",
    "plot",
    "remeasure",
    "search",
    "write_books",
    "write_report",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
