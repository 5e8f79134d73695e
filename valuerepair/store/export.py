"""The frame as a file: Parquet, JSON lines or CSV."""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING, Literal

from valuerepair.errors import UsageError
from valuerepair.files import written_whole

if TYPE_CHECKING:
    import pandas as pd

Table = Literal["parquet", "jsonl", "csv"]
Format = Literal["parquet", "jsonl", "csv", "epd"]
_TABLES: dict[str, Table] = {".parquet": "parquet", ".jsonl": "jsonl", ".csv": "csv"}
# In a frame these columns are floats, because some numbers are missing; in a file they are integers or missing.
_WHOLE = ("eval_cp", "eval_mate", "cp", "mate", "deep_w", "deep_d", "deep_l")
_CHUNK_ROWS = 50_000


def table_of(output: str) -> Table:
    """The form of a table by its file's name. Raises UsageError if the ending names none."""
    if (form := _TABLES.get(_ending(output))) is None:
        raise UsageError(f"{output}: the name of a table ends in .parquet, .jsonl or .csv")
    return form


def format_of(output: str) -> Format:
    """As `table_of`, or ``epd``."""
    if (ending := _ending(output)) == ".epd":
        return "epd"
    if (form := _TABLES.get(ending)) is None:
        raise UsageError(f"{output}: the name ends in .parquet, .jsonl, .csv or .epd, which says the form")
    return form


def _ending(output: str) -> str:
    return os.path.splitext(output)[1].lower()


def write_stream(frame: pd.DataFrame, form: Table, stream: IO[bytes]) -> None:
    """Writes `frame` to an open binary stream.

    In Parquet the frame's attrs (net, oracle, alpha) are in the file's metadata, as pandas writes and reads them.
    """
    table = frame.astype({column: "Int64" for column in _WHOLE if column in frame})
    if form == "parquet":
        table.to_parquet(stream, index=False, compression="zstd")
        return
    for start in range(0, max(len(table), 1), _CHUNK_ROWS):
        part = table.iloc[start : start + _CHUNK_ROWS]
        if form == "jsonl":
            text = (
                part.to_json(orient="records", lines=True, double_precision=15, force_ascii=False) if len(part) else ""
            )
            text = text.replace("\\/", "/")  # pandas escapes slashes, and a search for a FEN should find it
        else:
            text = part.to_csv(index=False, header=start == 0, lineterminator="\n")
        stream.write(text.encode())


def write_file(frame: pd.DataFrame, form: Table, path: str) -> None:
    """Writes `frame` to a file, which appears complete or not at all."""
    with written_whole(path) as partial, partial.open("wb") as stream:
        write_stream(frame, form, stream)
