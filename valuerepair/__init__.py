"""valuerepair: find positions that a chess net badly misjudges, and make games and training data meant to repair it.

The public Python interface (docs/python.md) is the list of names in ``__init__.pyi``, which type checkers read, too.
Each is imported on first use, so that importing the package costs next to nothing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
