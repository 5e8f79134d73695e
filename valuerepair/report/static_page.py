"""The frame of every HTML page, and pages without a script: nothing is loaded, and nothing in them can run."""

from __future__ import annotations

import html
from importlib import resources

from valuerepair.version import __version__

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def escape(text: object) -> str:
    """Any text as HTML."""
    return html.escape(str(text))


def template_part(name: str) -> str:
    """The text of a file of page_template."""
    return resources.files("valuerepair.report").joinpath("page_template").joinpath(name).read_text("utf-8")


def frame(title: str, body: str, policy: str, *sheets: str) -> str:
    """A page with this title (text) and body (HTML). `policy` says what it may load, `sheets` name its style sheets."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="valuerepair {__version__}">
<title>{escape(title)}</title>
<style>
{"".join(template_part(sheet) for sheet in sheets)}</style>
</head>
<body>
{body}</body>
</html>
"""


def document(title: str, what: str, body: str, style: str) -> str:
    """A page without a script: the texts `title` and `what` above `body`, HTML; `style` is a sheet beside style.css."""
    header = f"<header><h1>{escape(title)}</h1><p>{escape(what)}</p></header>"
    return frame(title, f"{header}\n<main>\n{body}</main>\n", _POLICY, "style.css", style)
