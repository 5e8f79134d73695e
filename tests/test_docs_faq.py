"""Every message that docs/faq.md quotes is one that the program can say."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

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


def said(message: str) -> bool:
    """Whether the program can say this: one text is the whole of it, and others are what is put in."""
    within = [(fixed, pattern) for fixed, pattern in texts() if all(piece in message for piece in fixed)]

    def own_letters(part: str, inner: bool) -> int:
        most = 0
        for fixed, pattern in within:
            if all(piece in part for piece in fixed) and (match := re.fullmatch(pattern, part)):
                put_in = 0 if inner else sum(own_letters(group, True) for group in match.groups())
                most = max(most, sum(map(len, fixed)) + put_in)
        return most

    return own_letters(message, False) >= LEAST_FIXED * len(message)


def test_the_versions_of_the_store_are_todays() -> None:
    assert f"(store version {SCHEMA_VERSION + 1}, this one knows {SCHEMA_VERSION})" in FAQ


def messages() -> list[str]:
    return [line for block in re.findall(r"```text\n(.*?)```", FAQ, re.S) for line in block.splitlines()]


@pytest.mark.parametrize("message", messages())
def test_the_message_is_one_of_the_program(message: str) -> None:
    assert said(message), "no text of the program is like it"


@pytest.mark.parametrize("message", ["there is no store at x.db; make it with vr mine", "--deep stockfish: not there"])
def test_what_the_program_never_says_is_found_out(message: str) -> None:
    assert not said(message)
