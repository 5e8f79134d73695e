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
    from valuerepair.api.making import plot_remeasured as plot_remeasured
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
    from valuerepair.values import cp_to_q as cp_to_q
    from valuerepair.values import fit_alpha as fit_alpha
    from valuerepair.views.boards import sheet as draw_boards
    from valuerepair.views.style import house_style as house_style

__version__ = "0.1.0"

# Name -> where it is; behind a colon what it is called there, if that differs.
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
    "cp_to_q": "values",
    "draw_boards": "views.boards:sheet",
    "evaluate": "api.asking",
    "fit_alpha": "values",
    "house_style": "views.style",
    "mine": "api.making",
    "open_net": "nets",
    "open_store": "api.mined",
    "plot": "api.making",
    "plot_remeasured": "api.making",
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
    "cp_to_q",
    "draw_boards",
    "evaluate",
    "fit_alpha",
    "house_style",
    "mine",
    "open_net",
    "open_store",
    "plot",
    "plot_remeasured",
    "remeasure",
    "search",
    "write_books",
    "write_report",
]


if not TYPE_CHECKING:  # a checker that saw it would let any name pass

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        home, _, there = _HOMES[name].partition(":")
        value: object = getattr(import_module(f"{__name__}.{home}"), there or name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
