"""Results as text and as JSON: tables with aligned columns, counts in words, and numbers that JSON cannot hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from math import isfinite, isnan
from numbers import Real
from typing import Any

_ALIGNMENT = re.compile(r"([<>])(\d*)")


def finite(number: float) -> float | None:
    """The number; None for NaN and the infinities, which JSON does not have."""
    return float(number) if isfinite(number) else None


def json_fields(result: Any) -> Any:
    """A dataclass, or mappings and sequences of them, as JSON-able data: fields by name, numbers that are `finite`."""
    if is_dataclass(result) and not isinstance(result, type):
        return {field.name: json_fields(getattr(result, field.name)) for field in fields(result)}
    if isinstance(result, Mapping):
        return {name: json_fields(value) for name, value in result.items()}
    if isinstance(result, list | tuple):
        return [json_fields(value) for value in result]
    return finite(result) if isinstance(result, float) else result


def formatted(number: float | None, form: str, unknown: str = "?") -> str:
    """The number in a format such as ``+.3f`` or ``.1%`` (``50.0 %``); for None and NaN the text `unknown`."""
    return unknown if number is None or isnan(number) else _with_blank(format(number, form))


def quantity(number: int, noun: str) -> str:
    """``1,000 positions``, ``1 position``, ``2 plies``."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {f'{noun[:-1]}ies' if noun.endswith('y') else f'{noun}s'}"


def size_words(count: int) -> str:
    """``1.25 GB``, ``110 MB`` or ``2.50 MB`` for a number of bytes."""
    if count >= 1e9:
        return f"{count / 1e9:,.2f} GB"
    return f"{count / 1e6:.0f} MB" if count >= 1e7 else f"{count / 1e6:.2f} MB"


def positions_of_games(positions: int, games: int) -> str:
    """``1,000 positions of 1 game``."""
    return f"{quantity(positions, 'position')} of {quantity(games, 'game')}"


def table_lines(columns: str, rows: Iterable[Iterable[object]], indent: str = "") -> list[str]:
    """Lines with aligned columns: the heads, unless all are empty, and the rows.

    ``"phase:<12 | games:>9, | mean Q:>8.3f"`` has a head and a format for each column: alignment, least width, format
    of the numbers. Other values are printed unchanged. A wider cell widens its column; a row may end early.
    """
    heads, _, forms = zip(*(column.rpartition(":") for column in columns.split(" | ")), strict=True)
    lines = [list(heads)] if any(heads) else []
    for row in rows:
        cells = zip(row, forms, strict=False)
        lines.append([_with_blank(format(cell, form)) if isinstance(cell, Real) else str(cell) for cell, form in cells])
    for i, form in enumerate(forms):
        side, least = _ALIGNMENT.findall(form)[0]
        column = [line for line in lines if i < len(line)]
        width = max([int(least or 0), *(len(line[i]) for line in column)])
        gap = "" if i == 0 else "  " if side == "<" else " "
        for line in column:
            line[i] = f"{gap}{line[i]:{side}{width}}"
    return [(indent + "".join(line)).rstrip() for line in lines]


def _with_blank(number: str) -> str:
    """A share in per cent has a blank before the sign."""
    return number.replace("%", " %")


def format_rate(nodes_per_second: float) -> str:
    """Nodes a second in words: thousands for nets, millions for alpha-beta engines."""
    if nodes_per_second >= 1e5:
        return f"{nodes_per_second / 1e6:.2f} Mnodes/s"
    return f"{nodes_per_second:,.0f} nodes/s"


def format_nodes(nodes: int) -> str:
    """``12,000 nodes``, or ``1.2 Mnodes`` from a million on."""
    return f"{nodes / 1e6:,.1f} Mnodes" if nodes >= 1e6 else f"{nodes:,} nodes"


def format_duration(seconds: float) -> str:
    """``75`` as ``1:15``, ``3700`` as ``1:01:40``."""
    minutes, remaining = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{remaining:02d}" if hours else f"{minutes}:{remaining:02d}"


def wdl_words(wdl: Iterable[float]) -> str:
    """The shares of wins, draws and losses."""
    return "W {:.1f} %  D {:.1f} %  L {:.1f} %".format(*(100 * share for share in wdl))


def printable(text: str, longest: int = 200) -> str:
    """`text` on one line, safe for a terminal: for what Unicode calls nonprintable, such as control characters, escape
    sequences and bidirectional overrides, stands a space; more than `longest` characters end in an ellipsis."""
    safe = "".join(letter if letter.isprintable() else " " for letter in text[:longest])
    return safe + "…" if len(text) > longest else safe
