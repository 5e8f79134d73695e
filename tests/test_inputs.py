"""What anybody may have written: every reader takes it, or refuses it with one line that names the file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from valuerepair.errors import ValueRepairError
from valuerepair.judge.split import Split, read_split, write_split

# -- JSON -------------------------------------------------------------------------------------------------------------

OTHER_FILES = {
    "empty": b"",
    "not JSON": b"hello",
    "not UTF-8": b'{"version": "\xff\xfe"}',
    "UTF-16": '{"version": 1}'.encode("utf-16"),
    "a list": b"[]",
    "null": b"null",
    "nested lists": b"[" * 100_000,
    "nested objects": b'{"a":' * 100_000,
    "nested below an unknown key": b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "cut off": b'{"version": "valuerepair 0.',
    "a key with a line break and escapes": b'{"\\n\\u001b[31m' + b"x" * 5000 + b'": 1}',
}
OTHER_VALUES = [
    "[" * 100_000 + "]" * 100_000, "1e999", "-1e999", "NaN", "null", "true", "-1", "0", "1.5", '""', '"text"', "[]",
    "{}", "[null]", '[{"a": 1}]', "9" * 5000, "9" * 30, '"\\ud800"', '"\\u0000"',
]  # fmt: skip


@dataclass(frozen=True)
class JsonReader:
    """`write` makes a good file in a folder and returns its path; `read` reads it."""

    write: Callable[[Path], Path]
    read: Callable[[Path], object]


def write_a_split(folder: Path) -> Path:
    write_split(folder / "split.json", Split(openings=("Sicilian Defense",), materials=("KQvKR",), archives=("a.pgn",)))
    return folder / "split.json"


JSON_READERS = {
    "split": JsonReader(write_a_split, read_split),
}


@pytest.fixture(params=JSON_READERS)
def reader(request: pytest.FixtureRequest) -> JsonReader:
    return JSON_READERS[request.param]


@pytest.mark.parametrize("kind", OTHER_FILES)
def test_another_file_is_refused_with_one_line(reader: JsonReader, kind: str, tmp_path: Path) -> None:
    path = reader.write(tmp_path)
    path.write_bytes(OTHER_FILES[kind])
    assert_refused(reader.read, path)


def test_a_file_with_other_fields_is_read_or_refused_with_one_line(reader: JsonReader, tmp_path: Path) -> None:
    path = reader.write(tmp_path)
    reader.read(path)
    good = json.loads(path.read_text("utf-8"))
    refused = 0
    for text in with_other_fields(good):
        path.write_text(text, "utf-8")
        try:
            reader.read(path)
        except ValueRepairError as error:
            assert_one_line(error, path)
            refused += 1
    assert refused > len(OTHER_VALUES)


def test_a_missing_and_an_unknown_field_are_named(reader: JsonReader, tmp_path: Path) -> None:
    path = reader.write(tmp_path)
    good = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({**good, "nosuchfield": 1}))
    assert "nosuchfield" in assert_refused(reader.read, path)
    first = next(iter(good))
    path.write_text(json.dumps({name: value for name, value in good.items() if name != first}))
    assert first in assert_refused(reader.read, path)


def with_other_fields(good: Any) -> Iterator[str]:
    """The JSON text with each value, also inside, replaced by each of the others, and each key taken out."""
    if isinstance(good, dict):
        for name in good:
            rest = {key: value for key, value in good.items() if key != name}
            yield json.dumps(rest)
            for other in [*OTHER_VALUES, *with_other_fields(good[name])]:
                yield json.dumps(rest)[:-1] + (", " if rest else "") + f"{json.dumps(name)}: {other}}}"
    elif isinstance(good, list) and good:
        for other in [*OTHER_VALUES, *with_other_fields(good[0])]:
            yield f"[{', '.join([other, *map(json.dumps, good[1:])])}]"


def assert_refused(read: Callable[[Path], object], path: Path) -> str:
    with pytest.raises(ValueRepairError) as caught:
        read(path)
    return assert_one_line(caught.value, path)


def assert_one_line(error: ValueRepairError, path: Path) -> str:
    said = str(error)
    assert said.isprintable(), repr(said)
    assert str(path) in said
    assert len(said) < 500 + len(str(path))
    return said


# -- files of another kind --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["folder", "pipe", "/dev/zero", "/dev/urandom"])
def test_only_regular_files_are_read(reader: JsonReader, kind: str, tmp_path: Path) -> None:
    path = reader.write(tmp_path)
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(kind)
    assert_refused(reader.read, path)


def test_a_file_that_is_too_large_is_refused(reader: JsonReader, tmp_path: Path) -> None:
    path = reader.write(tmp_path)
    with path.open("r+b") as file:
        file.truncate(1 << 30)
    assert_refused(reader.read, path)
