"""Opening books from candidates, and the check of any book against lc0's reader."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from valuerepair.books.check import BookCheck as BookCheck
    from valuerepair.books.check import Problem as Problem
    from valuerepair.books.check import check_book as check_book
    from valuerepair.books.manifest import Manifest as Manifest
    from valuerepair.books.options import BookOptions as BookOptions
    from valuerepair.books.select import choose_rows as choose_rows
    from valuerepair.books.write import write_books as write_books

_HOMES = {
    "BookCheck": "check",
    "BookOptions": "options",
    "Manifest": "manifest",
    "Problem": "check",
    "check_book": "check",
    "choose_rows": "select",
    "write_books": "write",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
