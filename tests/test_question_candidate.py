"""Whether a position is a candidate is decided in one place."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd

import valuerepair
from valuerepair.question import is_candidate

_HOUSE = Path(valuerepair.__file__).parent
_IN_SCRIPT = re.compile(r"[<>]=?\s*-?(?:this\.)?threshold\b|\bthreshold\s*[<>]=?(?!=)")


def test_the_pages_script_compares_in_one_place_too() -> None:
    """The reader of a page moves the threshold, so its script compares: `isOff`."""
    scripts = {path.name: path.read_text("utf-8") for path in (_HOUSE / "report" / "page_template").glob("*.js")}
    comparing = {name: len(_IN_SCRIPT.findall(text)) for name, text in scripts.items() if _IN_SCRIPT.search(text)}
    assert comparing == {"page.js": 1}


def test_a_candidate() -> None:
    off = [0.55, -0.55, 0.5499, -0.5499, 2.0, float("nan")]
    expected = [True, True, False, False, True, False]
    assert [is_candidate(one, 0.55) for one in off] == expected
    assert is_candidate(np.array(off), 0.55).tolist() == expected
    assert is_candidate(pd.Series(off), 0.55).tolist() == expected
    assert is_candidate(np.array([[0.3], [0.7]]), np.array([0.2, 0.5])).tolist() == [[True, False], [True, True]]
