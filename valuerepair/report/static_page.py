"""The frame of every HTML page, and pages without a script, which cannot load or run anything."""

from __future__ import annotations

import html
from importlib import resources

from valuerepair.version import __version__

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def escape(text: object) -> str:
    """Any text, escaped for HTML."""
    return html.escape(str(text))


def template_part(name: str) -> str:
    """The text of a file of page_template."""
    return resources.files("valuerepair.report").joinpath("page_template").joinpath(name).read_text("utf-8")


def frame(title: str, body: str, policy: str, *sheets: str) -> str:
    """A page of a title (text) and a body (HTML). `policy` is its content security policy, `sheets` are its styles."""
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


def document(title: str, subtitle: str, body: str, style: str) -> str:
    """A page without a script: two texts above `body`, which is HTML; `style` is a sheet besides style.css."""
    header = f"<header><h1>{escape(title)}</h1><p>{escape(subtitle)}</p></header>"
    return frame(title, f"{header}\n<main>\n{body}</main>\n", _POLICY, "style.css", style)
