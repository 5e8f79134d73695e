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

    Raises ValueRepairError for any other text; `where` begins its message.
    """
    try:
        return cast(T, _decoder(cast(Any, kind)).decode(text))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ValueRepairError(f"{where}: {one_line(error)}") from None


@cache
def _decoder(kind: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def read_json(path: str | os.PathLike[str], kind: type[T], expected: str, *, most: int = MOST_JSON) -> T:
    """The value in a JSON file, as `from_json`; `expected` names the content, as ``a split that vr split wrote``.

    Raises OSError if the file cannot be read, ValueRepairError if it holds something else.
    """
    return from_json(read_regular(path, most), kind, f"{os.fspath(path)}: is not {expected}")


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
