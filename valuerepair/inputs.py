"""Files and texts that anybody may have written: regular ones, no larger than such a file is, with typed fields."""

from __future__ import annotations

import gzip
import io
import os
import re
import stat
import sys
import zlib
from typing import Annotated, Any, BinaryIO, TypeVar

import msgspec

from valuerepair.errors import ValueRepairError

T = TypeVar("T")
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]  # as SQLite and int64 have it
Number = Annotated[float, msgspec.Meta(ge=-1e15, le=1e15)]  # that can be added, multiplied and drawn
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
MOST_JSON = 16 << 20
MOST_TOML = 1 << 20
_SAID = 200  # characters of a reason: names in it come from the file


class Record(msgspec.Struct, forbid_unknown_fields=True):
    """A JSON object with these fields and no others."""


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Opens a regular file for reading bytes; the name may lead there by links.

    Raises OSError, and ValueRepairError for a folder, pipe or device, which could be read without end or never begin.
    """
    # Without O_NONBLOCK a named pipe would wait here for its writer.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe" if stat.S_ISFIFO(mode) else "a device or socket"
        raise ValueRepairError(f"{os.fspath(path)}: is {kind}, not a file")
    return os.fdopen(descriptor, "rb")


def read_regular(path: str | os.PathLike[str], most: int) -> bytes:
    """The bytes of a regular file. Raises as `open_regular`, and ValueRepairError where there are more than `most`."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(min(size, most) + 1)  # a file that grows, or says another size, is read no further
    if len(content) > most:
        raise ValueRepairError(f"{os.fspath(path)}: has more than {most >> 20} MiB, which is too large for its kind")
    return content


def unpack_gzip(content: bytes, most: int) -> bytes:
    """What gzip packed. Raises ValueError for damage, and where it unpacks to more than `most` bytes."""
    try:
        with gzip.open(io.BytesIO(content)) as packed:
            unpacked = packed.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"damaged gzip data ({error})") from None
    if len(unpacked) > most:
        raise ValueError(f"its gzip data unpacks to more than {most >> 20} MiB, which is too much for its kind")
    return unpacked


# -- JSON and TOML ----------------------------------------------------------------------------------------------------


def from_json(text: str | bytes, kind: type[T], where: str) -> T:
    """A JSON text as a value of a type: a `Record`, a dataclass, or anything else that msgspec decodes.

    `where` begins the message of the ValueRepairError that is raised for everything else, with the field behind it:
    ``split.json: is no split: games: must be a number, not a text`` where `where` is ``split.json: is no split``.
    """
    try:
        return msgspec.json.decode(text, type=kind)
    except _WRONG as error:
        raise ValueRepairError(f"{where}: {reason(error)}") from None


def read_json(path: str | os.PathLike[str], kind: type[T], what: str, *, most: int = MOST_JSON) -> T:
    """The value in a JSON file, as `from_json`; `what` says what should stand there, as ``split that vr split wrote``.

    Raises OSError where the file cannot be read, ValueRepairError where it is something else.
    """
    return from_json(read_regular(path, most), kind, f"{os.fspath(path)}: is no {what}")


def read_checked(path: str | os.PathLike[str], kind: type[Any], what: str) -> dict[str, Any]:
    """As `read_json` of a kind of object, but all that stands there, also what the kind does not name."""
    content, where = read_regular(path, MOST_JSON), f"{os.fspath(path)}: is no {what}"
    from_json(content, kind, where)
    return from_json(content, dict[str, Any], where)


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The tables of a TOML file. Raises OSError where it cannot be read, ValueRepairError for another kind of file."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        tables: dict[str, Any] = tomllib.loads(read_regular(path, MOST_TOML).decode())
    except _WRONG as error:
        raise ValueRepairError(f"{os.fspath(path)}: is no TOML file: {reason(error)}") from None
    return tables


_WRONG = (msgspec.MsgspecError, ValueError, RecursionError)


def reason(error: Exception | str) -> str:
    """What an error of a reader says, or a name that a file has, on one printable line of bounded length; the field
    first."""
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    said, _, field = str(error).partition(" - at `$")
    if isinstance(error, msgspec.MsgspecError):
        said = _EXPECTED.sub(lambda types: f"must be {_words(types[1])}, not {_words(types[2])}", said)
        said = said.replace("a whole number, not a number", "a whole number, not a fraction")
        said = re.sub("Invalid enum value (.*)", r"\1 is none of its values", said)
        said = (said[:1].lower() + said[1:]).replace("`", "")
    said = f"{field.strip('.`')}: {said}" if field.strip(".`") else said
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in said[: 2 * _SAID]).split())
    return line if len(line) <= _SAID else line[:_SAID] + "..."


_EXPECTED = re.compile("Expected `(.+?)`, got `(.+?)`")
_WORDS = {
    "str": "a text", "int": "a whole number", "float": "a number", "bool": "true or false", "array": "a list",
    "object": "an object",
}  # fmt: skip


def _words(types: str) -> str:
    names = [name for name in types.split(" | ") if name != "null"] or ["null"]
    return " or ".join(_WORDS.get(name, name) for name in names)
