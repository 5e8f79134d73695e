"""The files of VALUEREPAIR_TEST_DATA are those that tests/README.md describes, and it describes all that tests name."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = (TESTS / "README.md").read_text("utf-8")
DIGESTS = dict(re.findall(r"^\| `((?:pgn|nets|epd)/[^`]+)` \|.*\| `([0-9a-f]{64})` \|$", PAGE, re.M))


@pytest.mark.parametrize("name", DIGESTS)
def test_a_file_is_the_one_described(shared_data: Path, name: str) -> None:
    assert hashlib.sha256((shared_data / name).read_bytes()).hexdigest() == DIGESTS[name]


def test_the_ugly_files_are_those_described(shared_data: Path) -> None:
    ugly = sorted((shared_data / "pgn" / "ugly").iterdir())
    assert f"| `pgn/ugly/` | {len(ugly)} files" in PAGE
    assert hashlib.sha256(b"".join(path.read_bytes() for path in ugly)).hexdigest() in PAGE


def test_every_file_that_a_test_names_is_described() -> None:
    named = {
        "/".join(place)
        for path in TESTS.rglob("*.py")
        for place in re.findall(
            r"""shared_data / ["'](pgn|nets|epd)["'] / ["']([^"'{}]+\.[^"']+)["']""", path.read_text()
        )
    }
    assert len(named) > 8
    assert named <= set(DIGESTS)
