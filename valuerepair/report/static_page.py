"""An HTML page that stands alone and has no script: nothing is loaded, and nothing in it can run."""

from __future__ import annotations

import html
from importlib import resources

from valuerepair import __version__

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def escape(text: object) -> str:
    """Any text as HTML."""
    return html.escape(str(text))


def document(title: str, what: str, body: str, style: str) -> str:
    """The page: `title` and `what`, texts, stand above `body`, HTML. `style` names a style sheet of page_template."""
    parts = resources.files("valuerepair.report").joinpath("page_template")
    sheets = "".join(parts.joinpath(name).read_text("utf-8") for name in ("style.css", style))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="valuerepair {__version__}">
<title>{escape(title)}</title>
<style>
{sheets}</style>
</head>
<body>
<header><h1>{escape(title)}</h1><p>{escape(what)}</p></header>
<main>
{body}</main>
</body>
</html>
"""
