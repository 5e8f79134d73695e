"""Errors that a user can fix: each has a message of one line and an exit code."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable
from numbers import Real


class ValueRepairError(Exception):
    """Something failed. The message is one line: what, where, what to do. Exit code 1."""

    exit_code = 1


class UsageError(ValueRepairError):
    """The command line or an argument is wrong. Exit code 2."""

    exit_code = 2


class TruncatedInput(ValueRepairError):
    """An archive is truncated. What came before its end was used. Exit code 1 at the end of the run."""


class Interrupted(KeyboardInterrupt):
    """A signal ended the work. `result` is the result so far; the store keeps it, and the same call resumes."""

    def __init__(self, result: object) -> None:
        super().__init__()
        self.result = result


def one_line(message: object) -> str:
    """A text from a file, or an error about one, as printable words on one line of bounded length."""
    if isinstance(message, RecursionError):
        return "is nested too deeply"
    text = "".join(letter if letter.isprintable() else " " for letter in str(message)[: 2 * _LONGEST])
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[:_LONGEST] + "..."


_LONGEST = 200


def check_word(name: str, word: object, words: Iterable[str]) -> None:
    """Raises UsageError for a word that is not one of `words`; `name` is that of the option or argument."""
    if word not in (allowed := tuple(words)):
        raise UsageError(f"{name} {word}: must be one of {', '.join(allowed)}")


def pairs_of(items: Iterable[str], where: str, hint: str, may_be_empty: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """(NAME, VALUE) of each setting; names that begin with one of `may_be_empty` may be without a value.

    Raises UsageError with a message that begins with `where` and ends with `hint`.
    """
    pairs = []
    for item in items:
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not name or not (value or name.startswith(may_be_empty)):
            raise UsageError(f"{where}{item!r} is not NAME=VALUE; {hint}")
        if not value.isprintable():  # after a line break an engine would read another command
            raise UsageError(f"{where}{name}={value[:40]!r}: must be printable characters")
        pairs.append((name, value))
    return pairs


def settings_of(text: str) -> list[str]:
    """The settings of a text, separated by commas; a comma inside a value is written ``\\,``."""
    return [item.replace("\\,", ",").strip() for item in re.split(r"(?<!\\),", text)] if text else []


def finite(text: str, where: str) -> float:
    """A finite number. Raises UsageError, whose message begins with `where`."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"{where}: must be a number")
    return number


def check_least(name: str, number: float | None, least: int = 1) -> None:
    """Raises UsageError for a number below `least`, and for anything but a number; None means not given, and passes."""
    if number is not None and not isinstance(number, Real):
        raise UsageError(f"{name} {number}: must be a number")
    if number is not None and number < least:
        raise UsageError(f"{name} {number}: must be at least {least}")


def nearest(name: str, names: Iterable[str], *, listed: bool = False) -> str:
    """``; did you mean threshold?`` after the name of something that does not exist; case does not matter.

    Without a near name the text is empty; with `listed` it then names all of them: ``; there are alpha, threshold``.
    """
    spellings = {spelling.lower(): spelling for spelling in names}
    if near := difflib.get_close_matches(name.lower(), spellings, 1, 0.5):
        return f"; did you mean {spellings[near[0]]}?"
    return f"; there are {', '.join(spellings.values())}" if listed else ""
