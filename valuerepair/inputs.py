"""Files and texts that anybody may have written: regular ones, no larger than such a file is, with typed fields."""

from __future__ import annotations

import gzip
import io
import os
import stat
import sys
import zipfile
import zlib
from collections.abc import Mapping
from typing import Annotated, Any, BinaryIO, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from valuerepair.errors import ValueRepairError

T = TypeVar("T")
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]  # as SQLite and int64 have it
Amount = Annotated[float, msgspec.Meta(ge=0)]
MOST_JSON = 16 << 20
MOST_TOML = 1 << 20
_SAID = 200  # characters of a reason: names in it come from the file
_ROOM, _RATIO = 64 << 20, 16  # no data worth packing shrinks to less than a sixteenth, small files aside


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
    """What gzip packed. Raises ValueError for damage, and where it unpacks to more than `most` bytes or than such data
    can."""
    most = min(most, _ROOM + _RATIO * len(content))
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
    ``split.json: is no split: games: expected float, got str`` where `where` is ``split.json: is no split``.
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


def reason(error: Exception) -> str:
    """What an error of a reader says, on one printable line of bounded length, the field first."""
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    said, _, field = str(error).partition(" - at `$")
    if isinstance(error, msgspec.MsgspecError):
        said = (said[:1].lower() + said[1:]).replace("`", "")
    said = f"{field.strip('.`')}: {said}" if field.strip(".`") else said
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in said[: 2 * _SAID]).split())
    return line if len(line) <= _SAID else line[:_SAID] + "..."


# -- arrays -----------------------------------------------------------------------------------------------------------


def read_arrays(path: str | os.PathLike[str], like: Mapping[str, NDArray[Any]], text: str) -> dict[str, NDArray[Any]]:
    """The arrays of a file that NumPy's savez wrote: of the shape and kind of each of `like`, and the bytes `text`.

    Nothing else is read, and no more than that takes. Raises OSError, and ValueRepairError for another content.
    """
    expected = {f"{name}.npy": array for name, array in like.items()}
    most = sum(array.nbytes + (1 << 12) for array in expected.values()) + MOST_JSON
    try:
        with zipfile.ZipFile(io.BytesIO(read_regular(path, most))) as archive:
            members = {info.filename: info for info in archive.infolist()}
            if members.keys() != {*expected, f"{text}.npy"} or len(archive.infolist()) != len(members):
                raise ValueError("its arrays are not those of this one")
            return {name.removesuffix(".npy"): _array(archive, members[name], expected.get(name)) for name in members}
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError, OverflowError) as error:
        raise ValueRepairError(f"{os.fspath(path)}: {reason(error)}") from None


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, like: NDArray[Any] | None) -> NDArray[Any]:
    """An array of the shape and kind of `like`; None: of bytes."""
    name = member.filename.removesuffix(".npy")
    if member.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{name}: is compressed")
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        if version != (1, 0):
            raise ValueError(f"{name}: is of version {version} of the format")
        shape, fortran, kind = np.lib.format.read_array_header_1_0(file)
        if like is None:
            if kind != np.uint8 or len(shape) != 1 or not 0 <= shape[0] <= MOST_JSON:
                raise ValueError(f"{name}: is no text")
        elif shape != like.shape or kind != like.dtype or fortran:
            raise ValueError(f"{name}: is {kind}{list(shape)}, not {like.dtype}{list(like.shape)}")
        count = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        content = file.read(count + 1)
    if len(content) != count:
        raise ValueError(f"{name}: has {len(content):,} bytes, not {count:,}")
    return np.frombuffer(content, kind).reshape(shape)
