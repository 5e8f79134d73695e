"""The report on a store as one HTML file: template, style, scripts and content put together."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources

import chess.svg
import numpy as np

from valuerepair import outputs
from valuerepair.errors import ValueRepairError
from valuerepair.files import written_whole
from valuerepair.question import Question, is_candidate, no_deep_score
from valuerepair.report import static_page
from valuerepair.report.page_content import OF_ALL, Content, choose, content_of, with_texts
from valuerepair.report.static_page import template_part
from valuerepair.store.queries import snapshot
from valuerepair.store.store import Store
from valuerepair.text import quantity
from valuerepair.version import __version__


@dataclass(frozen=True, slots=True)
class WrittenPage:
    """A written page: how many `positions` have a disagreement, how many of these are `shown` one by one.

    `candidates` counts the candidates at the `threshold` among all positions; `size` is in bytes.
    """

    path: str
    positions: int
    shown: int
    candidates: int
    threshold: float
    size: int

    def lines(self) -> list[str]:
        """The content on a line, for a terminal."""
        return [
            f"{self.path}: {quantity(self.positions, 'position')}, {self.shown:,} of them one by one, "
            f"{quantity(self.candidates, 'candidate')} at {self.threshold:g}; {self.size / 1e6:.1f} MB"
        ]


def write(
    store: Store,
    path: str | os.PathLike[str],
    question: Question | None = None,
    *,
    on_step: Callable[[str], None] = lambda step: None,
) -> WrittenPage:
    """Writes the report on the scores of the question's net and oracle as one HTML file.

    Positions one by one are those of `page_content.choose`; figures cover all positions. `on_step` is called with the
    name of each step before it begins. Raises ValueRepairError without scored positions, OSError if the folder cannot
    be written.
    """
    question = question or Question()
    threshold = question.threshold
    with written_whole(path, outputs.REPORT) as partial:
        with snapshot(store.connection):
            on_step("values")
            calibrated = ("calibrated_q",) if question.calibration == "fitted" else ()
            reached = ("step",) if question.expanded != "no" else ()
            frame = store.frame(question, only=(*OF_ALL, *calibrated, *reached))
            scored = frame[~np.isnan(frame["disagreement"])]
            if frame.empty and question.expanded == "no":
                raise ValueRepairError(
                    "nothing to report: no position of a game is scored; vr stats --expanded searched counts the others"
                )
            if scored.empty:
                raise ValueRepairError(f"nothing to report: {no_deep_score(len(frame), question.q_from)}")
            points_shown = choose(scored, threshold)
            on_step("positions")
            rows = with_texts(store, question, scored.iloc[points_shown.rows])
            content = content_of(store, scored, points_shown, rows, threshold, on_step)
        partial.write_bytes(document(content))
        size = partial.stat().st_size
    candidates = int(is_candidate(scored["disagreement"], threshold).sum())
    return WrittenPage(os.fspath(path), len(scored), len(points_shown.rows), candidates, threshold, size)


# In the order of their imports: each module uses only those before it.
MODULES = (
    *("guard", "data", "rates", "lowess", "filters", "board", "words", "charts", "scatter", "book", "family"),
    *("detail", "list", "summary", "main"),
)
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./[a-z]+\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(async )?function|const|class)", re.MULTILINE)
_POLICY = (
    "default-src 'none'; script-src {scripts} 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:; "
    "connect-src 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types default"
)


def document(content: Content) -> bytes:
    """The HTML file. Its modules are joined into one script, because a single file cannot import others.

    So no two modules may define the same name.
    Its policy allows style in elements, which the plotting library needs; text from archives never becomes style.
    """
    words = json.dumps(content.words, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    script, plotly = bundle(), plotly_script()
    parts = {
        "version": __version__,
        "pieces": "".join(chess.svg.PIECES.values()),
        "plotly": _pack(plotly.encode()),
        "words": _pack(words.encode()),
        "numbers": _pack(content.numbers),
        "script": script,
    }
    # One pass, so that inserted text is not replaced again.
    body = re.sub(r"\{\{([a-z]+)\}\}", lambda match: parts[match[1]], template_part("report.html"))
    policy = _POLICY.format(scripts=f"{_hash(script)} {_hash(plotly)}")
    return static_page.frame("valuerepair report", body, policy, "style.css").encode()


def bundle() -> str:
    """All modules as one strict script, which must not contain the end of a script element."""
    text = "".join(_EXPORT.sub("", _IMPORT.sub("", template_part(f"{name}.js"))) for name in MODULES)
    return f'"use strict";\n(() => {{\n{text}}})();\n'


def plotly_script() -> str:
    """Plotly's own script, from its Python package."""
    return resources.files("plotly").joinpath("package_data").joinpath("plotly.min.js").read_text("utf-8")


def _pack(content: bytes) -> str:
    """Base64 of gzip, which needs no escapes in HTML; without a time stamp, so that equal pages are equal files."""
    return base64.b64encode(gzip.compress(content, 6, mtime=0)).decode()


def _hash(script: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() + "'"
