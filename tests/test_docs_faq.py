"""Every message that docs/faq.md quotes is one that the program can say."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from valuerepair.archives.options import RECORD_KINDS
from valuerepair.store.schema import SCHEMA_VERSION

ROOT = Path(__file__).parents[1]
FAQ = (ROOT / "docs" / "faq.md").read_text("utf-8")
# Of a message, the least share of letters that the program's own texts have to give; the rest is put in.
LEAST_FIXED = 0.3
# Texts with fewer letters fit too much to be worth a try.
SHORTEST = 8


def _fixed(node: ast.JoinedStr) -> list[str | None]:
    """The fixed texts of an f-string, None for what is put in."""
    return [
        part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else None for part in node.values
    ]


def _texts(tree: ast.AST) -> Iterator[list[str | None]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield _fixed(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield [node.value]


@cache
def texts() -> tuple[tuple[list[str], str], ...]:
    """All texts in the program: their fixed pieces, and a pattern of the whole."""
    by_pattern = {}
    for path in sorted((ROOT / "valuerepair").rglob("*.py")):
        for parts in _texts(ast.parse(path.read_text("utf-8"))):
            fixed = [part for part in parts if part]
            if sum(map(len, fixed)) >= SHORTEST:
                by_pattern["".join("(.+)" if part is None else re.escape(part) for part in parts)] = fixed
    return tuple((fixed, pattern) for pattern, fixed in by_pattern.items())


def _without_words(part: str) -> list[str]:
    """Of what is put into a text, the successive words that no text of the program has; names are single words."""
    fixed = [pieces for pieces, _ in texts()]
    return [
        words
        for words in re.findall(r"\b[a-z]+(?: [a-z]+)+\b", part)
        if not any(words in piece for pieces in fixed for piece in pieces)
    ]


def said(message: str) -> bool:
    """Whether the program can say this: one text is the whole of it, and others are what is put in, with all words."""
    within = [(fixed, pattern) for fixed, pattern in texts() if all(piece in message for piece in fixed)]

    def unsaid(part: str) -> int:
        """How many successive words the program does not have."""
        ways = [_without_words(part)] if part != message else []
        least = min(map(len, ways), default=len(part))
        for fixed, pattern in within:
            if least and all(piece in part for piece in fixed) and (match := re.fullmatch(pattern, part)):
                least = min(least, sum(unsaid(group) for group in match.groups()))
        return least

    def own_letters(part: str, inner: bool) -> int:
        items = part.split("; ") if inner else []
        most = sum(own_letters(item, True) for item in items) if len(items) > 1 else 0
        for fixed, pattern in within:
            if all(piece in part for piece in fixed) and (match := re.fullmatch(pattern, part)):
                put_in = 0 if inner else sum(own_letters(group, True) for group in match.groups())
                most = max(most, sum(map(len, fixed)) + put_in)
        return most

    return own_letters(message, False) >= LEAST_FIXED * len(message) and not unsaid(message)


def test_the_versions_of_the_store_are_todays() -> None:
    assert f"(store version {SCHEMA_VERSION + 1}, this one knows {SCHEMA_VERSION})" in FAQ


def messages() -> list[str]:
    return [line for block in re.findall(r"```text\n(.*?)```", FAQ, re.S) for line in block.splitlines()]


@pytest.mark.parametrize("message", messages())
def test_the_message_is_one_of_the_program(message: str) -> None:
    assert said(message), "no text of the program is like it"


def test_the_kinds_of_recorded_evaluations_are_those_that_are_known() -> None:
    assert f"the known kinds are {'; '.join(kind.description for kind in RECORD_KINDS.values())}\n" in FAQ


@pytest.mark.parametrize(
    "message",
    [
        "there is no store at x.db; make it with vr mine",
        "--deep stockfish: not there",
        "opening 12 of the book: variations are not read",
        "all 14 candidates at 0.55 are left out: not confirmed 14",
    ],
)
def test_what_the_program_never_says_is_found_out(message: str) -> None:
    assert not said(message)
