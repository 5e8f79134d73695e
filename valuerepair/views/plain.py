"""Text that anybody may have written (headers of games, names of engines), made safe to print and to draw."""

from __future__ import annotations


def printable(text: str, longest: int = 200) -> str:
    """`text` on one line without what a terminal obeys: control characters, escape sequences, bidirectional overrides.

    What Unicode calls not printable is written as an escape (``\\x1b``, ``\\u202e``), other spaces as a space, and what
    is longer than `longest` characters ends in an ellipsis.
    """
    shown = "".join(_shown(c) for c in text[:longest])
    return shown + "…" if len(text) > longest else shown


def for_figure(text: str, longest: int = 80) -> str:
    """`printable`, with every ``$`` as itself: between two of them matplotlib would read mathematics, and may fail."""
    return printable(text, longest).replace("$", r"\$")


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    if character.isspace() and ord(character) >= 0xA0 and character not in "\u2028\u2029":
        return " "
    return character.encode("unicode_escape").decode("ascii")
