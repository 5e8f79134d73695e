"""Games of known moves, written as training chunks and sampled back."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.chunks import ChunkBlock
from valuerepair.archives.open import Source, TarMember
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.chess import v6
from valuerepair.chess.positions import Position, PositionBatch


def run(*paths: Path, **options: Any) -> tuple[list[Position], ReadReport]:
    """Every position unless `options` say otherwise, and the report, whose numbers add up."""
    report = ReadReport()
    chosen = SampleOptions(**{"per_game": None, "min_ply": 0, **options})
    batches = sample([str(p) for p in paths], chosen, report)
    positions = [p for batch in batches for p in batch]
    assert report.adds_up, report
    return positions, report


def every_record(chunk: Path) -> PositionBatch:
    """The positions of all records of a chunk, repeated ones too."""
    content = chunk.read_bytes()
    block = ChunkBlock([(Source(str(chunk), "chunk"), 1, TarMember("", 0, len(content), content))])
    rows = block.parse(SampleOptions(per_game=None, min_ply=0))
    return rows.batch(np.ones(len(rows.boards), np.bool_))


def _moves(text: str) -> list[str]:
    return text.split()


# At random, with castling, en passant and a promotion; then promotions of both sides and a board without pawns.
GAME = _moves(
    "g1f3 c7c5 c2c3 a7a6 d2d4 a6a5 a2a4 d8b6 g2g4 h7h6 d4c5 b6c6 a1a2 c6b5 b1a3 b5a4 f3h4 a4c2 d1d3 b7b6 "
    "d3g6 g8f6 f1g2 c2e4 g4g5 d7d5 e1g1 h6g5 a3c4 c8d7 g6h5 e4g2 g1g2 h8g8 h4f3 b8c6 f1d1 f6g4 d1e1 c6d8 "
    "h5h8 e7e6 c5b6 e6e5 b2b4 g4h6 f3d4 d7c6 e1g1 f8e7 a2b2 a8b8 b6b7 d5c4 g2f1 e7c5 g1g3 c6g2 f1g1 c5b4 "
    "c1f4 e5e4 b2b1 g8h8 b1a1 g5g4 g3e3 a5a4 c3b4 d8e6 b4b5 e8e7 f4b8 h8b8 e3d3 b8a8 f2f4 g4f3 b7a8q e6f4"
)
ENDING_START = "4k3/1P4p1/8/8/8/8/1p4P1/R3K3 w Q - 3 1"
ENDING = _moves("b7b8n b2a1r e1f2 a1a2 f2f3 a2g2 f3g2 e8d8 b8c6 d8c7 g2f3 g7g5 f3g4 c7c6 g4g5 c6d5 g5h4 d5e4")


def tar_of(path: Path, files: dict[str, bytes], form: int = tarfile.PAX_FORMAT) -> Path:
    """A tar with these files."""
    with tarfile.open(path, "w", format=form) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def packed_in(folder: Path) -> dict[str, bytes]:
    """The packed chunks of a folder by name, those of its tars in order, read by Python's own library."""
    found: dict[str, bytes] = {}
    for path in sorted(folder.glob("*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                file = tar.extractfile(member)
                assert file is not None
                found[member.name] = file.read()
    return found


def records_in(folder: Path) -> dict[str, NDArray[np.void]]:
    """The records of each of them."""
    return {name: np.frombuffer(gzip.decompress(packed), v6.RECORD) for name, packed in packed_in(folder).items()}
