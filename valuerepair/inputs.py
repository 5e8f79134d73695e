"""Input from users and files: JSON of bounded size with typed fields, settings and numbers."""

from __future__ import annotations

import math
import os
import re
from functools import cache
from typing import Annotated, Any, TypeVar, cast

import msgspec

from valuerepair.errors import UsageError, ValueRepairError, one_line
from valuerepair.files import read_regular

T = TypeVar("T")
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]  # the range of SQLite and int64
Number = Annotated[float, msgspec.Meta(ge=-1e15, le=1e15)]  # can be added, multiplied and plotted
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
MOST_JSON = 16 << 20


class Record(msgspec.Struct, forbid_unknown_fields=True):
    """A JSON object with these fields and no others."""


def from_json(text: str | bytes, kind: type[T], where: str) -> T:
    """A JSON text as a value of a type: a `Record`, a dataclass, or anything else that msgspec decodes.

    Raises ValueRepairError for any other text. `where` begins its message, and the field follows:
    ``split.json: is not a split: games: must be a number, not a text`` if `where` is ``split.json: is not a split``.
    """
    try:
        return cast(T, _decoder(cast(Any, kind)).decode(text))
    except _WRONG as error:
        raise ValueRepairError(f"{where}: {reason(error)}") from None


@cache
def _decoder(kind: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def read_json(path: str | os.PathLike[str], kind: type[T], expected: str, *, most: int = MOST_JSON) -> T:
    """The value in a JSON file, as `from_json`; `expected` names the content, as ``a split that vr split wrote``.

    Raises OSError if the file cannot be read, ValueRepairError if it holds something else.
    """
    return from_json(read_regular(path, most), kind, f"{os.fspath(path)}: is not {expected}")


_WRONG = (msgspec.MsgspecError, ValueError, RecursionError)


def reason(error: Exception) -> str:
    """The message of a reader's error on one printable line of bounded length, the field first."""
    if not isinstance(error, msgspec.MsgspecError):
        return one_line(error)
    text, _, field = str(error).partition(" - at `$")
    text = _EXPECTED.sub(lambda types: f"must be {_words(types[1])}, not {_words(types[2])}", text)
    text = text.replace("a whole number, not a number", "a whole number, not a fraction")
    text = re.sub("Invalid enum value (.*)", r"\1 is not one of its values", text)
    text = text if text[:2].isupper() else text[:1].lower() + text[1:]  # "JSON is malformed" keeps its capitals
    text = text.replace("`", "")
    return one_line(f"{field.strip('.`')}: {text}" if field.strip(".`") else text)


_EXPECTED = re.compile("Expected `(.+?)`, got `(.+?)`")
_WORDS = {
    "str": "a text", "int": "a whole number", "float": "a number", "bool": "true or false", "array": "a list",
    "object": "an object",
}  # fmt: skip


def _words(types: str) -> str:
    names = [name for name in types.split(" | ") if name != "null"] or ["null"]
    return " or ".join(_WORDS.get(name, name) for name in names)


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
