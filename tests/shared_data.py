"""Where the real archives, nets and EPD suites lie, which are no part of the project (tests/README.md)."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

VARIABLE = "VALUEREPAIR_TEST_DATA"


def folder() -> Path | None:
    """The folder that the environment names, if it is there."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named and Path(named).is_dir() else None


def add_option(parser: argparse.ArgumentParser) -> None:
    """Adds ``--data FOLDER``, which has to be given where the environment names none."""
    found = folder()
    told = f"pgn/, nets/ and epd/ of tests/README.md (default: ${VARIABLE})"
    parser.add_argument("--data", type=Path, default=found, required=found is None, metavar="FOLDER", help=told)
