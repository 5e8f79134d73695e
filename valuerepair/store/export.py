"""The frame as a file: Parquet, JSON lines or CSV."""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING, Literal

from valuerepair import outputs
from valuerepair.errors import UsageError
from valuerepair.files import written_whole

if TYPE_CHECKING:
    import pandas as pd

Format = Literal["parquet", "jsonl", "csv"]
FORMATS: tuple[Format, ...] = ("parquet", "jsonl", "csv")
_SUFFIXES: dict[str, Format] = {".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv"}
# In a frame these columns are floats, because some numbers are missing; in a file they are integers or missing.
_WHOLE = ("eval_cp", "eval_mate", "cp", "mate", "deep_w", "deep_d", "deep_l")
_CHUNK_ROWS = 50_000


def format_of(output: str | None, requested: str | None) -> Format:
    """The requested format, else the file name's, else JSON lines. Raises UsageError for an unknown format."""
    if requested is None and output is not None:
        return format_of_name(
            output,
            "give --format parquet, jsonl or csv, for trainers plain, bin or text (Stockfish's convert makes .binpack "
            "of plain), for a suite epd",
        )
    for name in FORMATS:
        if name == (requested or "jsonl"):
            return name
    raise UsageError(f"no format {requested}; there are {', '.join(FORMATS)}")


def format_of_name(output: str, advice: str = "end it in .parquet, .jsonl or .csv") -> Format:
    """The format of a file's name. Raises UsageError with the `advice` if its ending names no format."""
    suffix = os.path.splitext(output)[1].lower()
    if suffix not in _SUFFIXES:
        raise UsageError(f"the name {output} does not say a format; {advice}")
    return _SUFFIXES[suffix]


def write_stream(frame: pd.DataFrame, kind: Format, stream: IO[bytes]) -> None:
    """Writes `frame` to an open binary stream.

    In Parquet the frame's attrs (net, oracle, alpha) are in the file's metadata, as pandas writes and reads them.
    """
    table = frame.astype({column: "Int64" for column in _WHOLE if column in frame})
    if kind == "parquet":
        table.to_parquet(stream, index=False, compression="zstd")
        return
    for start in range(0, max(len(table), 1), _CHUNK_ROWS):
        part = table.iloc[start : start + _CHUNK_ROWS]
        if kind == "jsonl":
            text = (
                part.to_json(orient="records", lines=True, double_precision=15, force_ascii=False) if len(part) else ""
            )
            text = text.replace("\\/", "/")  # pandas escapes slashes, and a search for a FEN should find it
        else:
            text = part.to_csv(index=False, header=start == 0, lineterminator="\n")
        stream.write(text.encode())


def write_file(frame: pd.DataFrame, kind: Format, path: str) -> None:
    """Writes `frame` to a file, which appears complete or not at all."""
    with written_whole(path, outputs.TABLES[kind]) as partial, partial.open("wb") as stream:
        write_stream(frame, kind, stream)
