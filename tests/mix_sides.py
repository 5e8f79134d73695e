"""Chunks to mix: repair games and normal ones whose records no game has, but whose layout is right."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from valuerepair.chess import v6
from valuerepair.training.chunk_files import pack


def records(n: int, seed: int, input_format: int = 1) -> np.ndarray[Any, np.dtype[np.void]]:
    """n records that no game has, but whose layout is right."""
    made = np.zeros(n, v6.RECORD)
    made["version"], made["input_format"] = 6, input_format
    made["visits"], made["plies_left"] = seed, np.arange(n, 0, -1)
    return made


def folder_of(path: Path, lengths: list[int], seed: int = 0, input_format: int = 1) -> str:
    """Loose chunks of so many records."""
    path.mkdir(parents=True)
    for i, n in enumerate(lengths):
        (path / f"game_{i:06d}.gz").write_bytes(pack(records(n, seed + i, input_format)))
    return str(path)


def tar_of(path: Path, lengths: list[int], seed: int = 0) -> str:
    """A tar as lc0's server makes them, with its folder and licence."""
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        entries = [("run/LICENSE", b"text")]
        entries += [(f"run/training.{i}.gz", pack(records(n, seed + i))) for i, n in enumerate(lengths)]
        entry = tarfile.TarInfo("run")
        entry.type = tarfile.DIRTYPE
        tar.addfile(entry)
        for name, content in entries:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return str(path)


def games_in(out: Path) -> dict[str, np.ndarray[Any, np.dtype[np.void]]]:
    """All games of a mixture by name, read with the standard library."""
    by_name = {}
    for path in sorted(out.glob("*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                file = tar.extractfile(member)
                assert file is not None
                by_name[member.name] = np.frombuffer(gzip.decompress(file.read()), v6.RECORD)
    return by_name


class Sides(NamedTuple):
    """Folders to mix."""

    repair: tuple[str, ...]
    normal: tuple[str, ...]


def sides_in(tmp_path: Path) -> Sides:
    """40 short repair games; 100 longer normal ones, half of them in a tar."""
    repair = folder_of(tmp_path / "repair", [3 + i % 5 for i in range(40)], seed=1000)
    folder_of(tmp_path / "normal", [10 + i % 7 for i in range(50)], seed=2000)
    tar_of(tmp_path / "normal" / "run.tar", [12] * 50, seed=3000)
    return Sides((repair,), (str(tmp_path / "normal"),))
