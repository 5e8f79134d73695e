"""Input planes against lc0's own encoder, all formats and fills."""

from __future__ import annotations

import gzip
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest

from tests import lc0_oracle
from valuerepair.arrays import Masks
from valuerepair.chess.board import parse_fens
from valuerepair.chess.positions import STARTPOS_FEN, Position, PositionBatch
from valuerepair.nets import planes

TRAP = "r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5Q2/PPPP1PPP/RNB1K1NR b KQkq - 3 3"


@pytest.fixture(scope="module")
def games(shared_data: Path) -> list[Position]:
    """Positions of real games, of EPD suites (FEN only), and made ones."""
    found = lc0_oracle.archive_positions(shared_data / "pgn" / "lichess-blitz.pgn", 60, 1)
    found += lc0_oracle.archive_positions(shared_data / "pgn" / "iccf-scca.pgn", 20, 2)
    for name, every in (("matetrack.epd", 150), ("STS1-STS15_LAN_v6.epd", 40), ("queen-odds.epd", 400)):
        for line in (shared_data / "epd" / name).read_text().splitlines()[::every]:
            board = chess.Board(" ".join(line.split()[:4]))
            found.append(Position(board.fen(), board.fen(en_passant="fen")))
    return found + lc0_oracle.varied()


def first_difference(positions: list[Position], backend: Any, input_format: int) -> str | None:
    ours = planes.encode(PositionBatch.from_positions(positions), input_format=input_format)
    for position, encoded in zip(positions, ours, strict=True):
        theirs = lc0_oracle.planes(position, backend)
        if not np.array_equal(encoded, theirs):
            return f"{position.uci}: planes {np.unique(np.nonzero(encoded != theirs)[0])}"
    return None


def test_planes_equal_lc0s(lc0_maia: Any, games: list[Position]) -> None:
    encoded = planes.encode(PositionBatch.from_positions(games))
    assert len(games) > 350
    # The sample holds what the encoding is made of.
    assert (encoded[:, 12:104:13].max(axis=(2, 3)) > 0).any(axis=0).all()  # repetitions in every slot
    assert (encoded[:, 104:108, 0, 0].sum(axis=0) > 20).all()
    assert 100 < encoded[:, 108, 0, 0].sum() < len(games) - 100
    assert (encoded[:, 109, 0, 0] > 60).sum() > 5
    assert any(len(move) == 5 for p in games for move in p.moves)
    assert first_difference(games, lc0_maia, 1) is None


@pytest.mark.parametrize("input_format", [2, 3, 4, 5, 132, 133])
def test_planes_of_other_formats_equal_lc0s(
    lc0_maia: Any, games: list[Position], shared_data: Path, tmp_path: Path, input_format: int
) -> None:
    backend = lc0_oracle.backend(
        lc0_oracle.net_of_format(shared_data / "nets" / "maia-1900.pb.gz", input_format, tmp_path)
    )
    positions = games + [lc0_oracle.shuffled("8/8/4k3/8/8/4K3/8/QBN2b2 w - - 0 1", n, n) for n in range(60)]
    positions += [lc0_oracle.shuffled("8/8/4k3/8/8/4K3/8/7r w - - 0 1", n, n) for n in range(40)]
    if input_format in (5, 133):  # lc0 itself does not end on a FEN with a half-move clock in these two
        positions = [p for p in positions if p.start_fen.split()[4] == "0"]
    assert len(positions) > 250
    assert first_difference(positions, backend, input_format) is None


@pytest.mark.slow
def test_planes_of_many_games_equal_lc0s(lc0_maia: Any, shared_data: Path) -> None:
    positions: list[Position] = []
    for name in (
        "lichess-blitz.pgn",
        "iccf-scca.pgn",
        "ugly/kasparov-deep-blue-1997.pgn",
        "ugly/stockfish-learning.pgn",
    ):
        positions += lc0_oracle.archive_positions(shared_data / "pgn" / name, 1000, 5)
    with gzip.open(shared_data / "pgn" / "leela-ID352.pgn.gz", "rt") as archive:
        positions += lc0_oracle.text_positions(archive, 800, 6)
    assert len(positions) > 5000
    assert first_difference(positions, lc0_maia, 1) is None


def test_v2_formats_end_where_lc0_does_not() -> None:
    bare = Position("8/8/4k3/8/8/4K3/8/1BN2b2 w - - 40 100", "8/8/4k3/8/8/4K3/8/1BN2b2 w - - 40 100")
    encoded = planes.encode(PositionBatch.from_positions([bare]), input_format=5)
    assert not encoded[0, 13:104].any()
    assert encoded[0, :13].sum() == 5


def test_unknown_history_gives_the_values_of_the_engine(lc0_maia: Any, shared_data: Path) -> None:
    from lczero import backends  # the wheel that has the binding has the binary too

    assert backends
    fens = [TRAP, STARTPOS_FEN, *lc0_oracle.STARTS[1:7]]
    positions = [Position(fen, fen) for fen in fens]
    positions += [lc0_oracle.shuffled(fen, plies, 3) for fen in lc0_oracle.STARTS[:5] for plies in (1, 4)]
    assert len({p.fen for p in positions}) == len(positions)  # lc0's cache of values does not see the history
    encoded = planes.encode(PositionBatch.from_positions(positions))
    net = shared_data / "nets" / "maia-1900.pb.gz"
    answers = lc0_oracle.root_lines(lc0_oracle.binary(), net, positions)
    for position, own, (_, value) in zip(positions, encoded, answers, strict=True):
        ours = lc0_maia.evaluate(lc0_oracle.as_input(position, lc0_maia, own))[0].q()
        assert abs(ours - value) <= 6e-5, (position.uci, ours, value)  # printed with four digits


def test_planes_do_not_depend_on_the_batch() -> None:
    positions = lc0_oracle.varied()
    whole = planes.encode(PositionBatch.from_positions(positions))
    alone = np.concatenate([planes.encode(PositionBatch.from_positions([p])) for p in positions])
    assert np.array_equal(whole, alone)
    half = PositionBatch.from_positions(positions).take(range(0, len(positions), 2))
    with ThreadPoolExecutor(4) as pool:
        for part in pool.map(lambda _: planes.encode(half), range(16)):
            assert np.array_equal(part, whole[::2])


def test_a_given_array_is_filled() -> None:
    positions = lc0_oracle.varied()[:5]
    out = np.full((8, 112, 8, 8), np.nan, np.float32)
    encoded = planes.encode(PositionBatch.from_positions(positions), out=out)
    assert np.shares_memory(encoded, out)
    assert np.array_equal(encoded, planes.encode(PositionBatch.from_positions(positions)))
    assert np.isnan(out[5:]).all()


def packed(encoded: planes.Planes) -> tuple[Masks, Any]:
    """Planes as bitboards and the value of plane 109, by NumPy."""
    bits = (encoded != 0).reshape(len(encoded), 112, 64)
    bits[:, 109] = True
    masks = np.packbits(bits, axis=2, bitorder="little").view(np.uint64)[:, :, 0]
    return masks, encoded[:, 109, 0, 0].copy()


@pytest.mark.parametrize("input_format", planes.INPUT_FORMATS)
def test_masks_are_the_planes_as_bitboards(input_format: int) -> None:
    positions = [p for p in lc0_oracle.varied() if input_format not in (5, 133) or p.start_fen.split()[4] == "0"]
    encoded = planes.encode(PositionBatch.from_positions(positions), input_format=input_format)
    masks, rule50 = packed(encoded)
    assert (rule50 == 0).any()
    assert (rule50 > 0).any()
    out = np.full_like(encoded, np.nan)
    planes.unpack_masks(masks, rule50, out)
    assert np.array_equal(out, encoded)

    starts = parse_fens([p.fen for p in positions])
    bare = PositionBatch.from_positions([Position(p.fen, p.fen) for p in positions])
    expected, values = packed(planes.encode(bare, input_format))
    written = np.full((len(positions), 112), 0xDEAD, np.uint64)  # every plane of a dirty row is written
    initial = planes.is_initial(starts)
    for n in range(len(positions)):
        value = planes.write_masks(starts, n, n, bool(initial[n]), input_format, written, n)
        assert value == values[n]
    assert np.array_equal(written, expected)


def test_arrays_that_do_not_fit_are_named() -> None:
    masks, rule50 = np.zeros((3, 112), np.uint64), np.zeros(3, np.float32)
    wrong: list[Any] = [np.empty((2, 112, 8, 8), np.float32), np.empty((3, 112, 8, 8))]
    for out in wrong:
        with pytest.raises(ValueError, match=r"out must be C-contiguous float32\[>=3,112,8,8\]"):
            planes.unpack_masks(masks, rule50, out)


def test_nothing_in_nothing_out() -> None:
    assert planes.encode(PositionBatch.from_positions([])).shape == (0, 112, 8, 8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"input_format": 7}, "unknown input format 7"),
        ({"out": np.empty((1, 112, 8, 8))}, "float64"),
        ({"out": np.empty((0, 112, 8, 8), np.float32)}, r"float32\[>=1,112,8,8\]"),
        ({"out": np.empty((1, 8, 112, 8), np.float32).transpose(0, 2, 1, 3)}, "C-contiguous"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        planes.encode(PositionBatch.from_positions([Position(STARTPOS_FEN)]), **arguments)
