"""The HTML file: template, style and scripts put together, all content packed, and the policy that guards it.

Text from archives is anybody's. It is in the file as packed JSON only, and the page puts it into the document as text.
The content security policy lets nothing run but the two scripts whose hashes it names, and nothing be fetched.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from importlib import resources

import chess.svg

from valuerepair import __version__
from valuerepair.views.report.content import Content

# In the order of their imports: each uses only those before it.
MODULES = (
    "guard",
    "data",
    "rates",
    "lowess",
    "filters",
    "board",
    "san",
    "words",
    "charts",
    "scatter",
    "book",
    "detail",
    "list",
    "summary",
    "main",
)
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./[a-z]+\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(async )?function|const|class)", re.MULTILINE)
_POLICY = (
    "default-src 'none'; script-src {scripts} 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:; "
    "connect-src 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types default"
)


def document(content: Content) -> bytes:
    """The whole file. Names of modules are unique, so that they can be one script: a file has no other file to import.

    Style may stand in elements, as the plotting library sets it so; nothing of the archives becomes style.
    """
    words = json.dumps(content.words, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    script, plotly = bundle(), plotly_script()
    parts = {
        "policy": _POLICY.format(scripts=f"{_hash(script)} {_hash(plotly)}"),
        "style": _read("style.css"),
        "version": __version__,
        "pieces": "".join(chess.svg.PIECES.values()),
        "plotly": _pack(plotly.encode()),
        "words": _pack(words.encode()),
        "numbers": _pack(content.numbers),
        "script": script,
    }
    # One pass: what is put in is not looked at again.
    return re.sub(r"\{\{([a-z]+)\}\}", lambda match: parts[match[1]], _read("report.html")).encode()


def bundle() -> str:
    """All modules as one strict script. It must not end the element that it stands in."""
    text = "".join(_EXPORT.sub("", _IMPORT.sub("", _read(f"{name}.js"))) for name in MODULES)
    return f'"use strict";\n(() => {{\n{text}}})();\n'


def plotly_script() -> str:
    """Plotly's own script, as its Python package brings it."""
    return resources.files("plotly").joinpath("package_data").joinpath("plotly.min.js").read_text("utf-8")


def _read(name: str) -> str:
    return resources.files("valuerepair.views.report").joinpath("page").joinpath(name).read_text("utf-8")


def _pack(content: bytes) -> str:
    """As base64 of gzip, which has no character that HTML knows; without a time, so the same page is the same file."""
    return base64.b64encode(gzip.compress(content, 6, mtime=0)).decode()


def _hash(script: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() + "'"
