"""Damage to bytes as disks, networks and enemies do it: by a seed, so that every case can be made again."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

_NUMBER = re.compile(rb"\d+")
# What breaks readers of numbers: nothing, signs, the limits of machine words, more digits than Python reads, others.
NUMBERS: tuple[bytes, ...] = (
    b"",
    b"-1",
    b"0",
    b"+7",
    b"1_0",
    b"2147483648",
    b"9223372036854775808",
    b"18446744073709551616",
    b"1e999",
)
NUMBERS += (b"9" * 30, b"9" * 5000, b"NaN", b"Infinity", "\u0663".encode(), "\u00b2".encode(), b"0x10", b"null", b"[]")
# What breaks readers of text.
PIECES: tuple[bytes, ...] = (
    b"\x00",
    b"\n",
    b"\r\n",
    b"\r",
    b"\n\n",
    b" ",
    b"\t",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\x1a",
    b"{",
    b"}",
    b"(",
)
PIECES += (b"[" * 5000, b'{"a":' * 5000, b"\\ud800", b"1e999", b"0000")
PIECES += (b")", b";", b"%", b'"', b"\\", b"[", b"]", b"--", b"$1", b"*", b"1-0", b"e8=Q", b"O-O-O", b"0-0", b"Z0")
HEADERS = (
    b'[Variant "Chess960"]\n',
    b'[FEN "8/8/8/8/8/8/8/8 w - - 0 1"]\n',
    b'[FEN "4k3/8/8/8/8/8/8/4K2R w K - 0 99999999999999999999"]\n',
    b'[FEN "4k3/8/8/8/8/8/8/4K2R w K - 99999999999 1"]\n',
    b'[FEN "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq e3 0 ' + b"7" * 5000 + b'"]\n',
    b'[WhiteElo "' + b"9" * 5000 + b'"]\n',
    '[WhiteElo "\u00b2"]\n'.encode(),
    b'[Event "' + b"x" * 70_000 + b'"]\n',
    b'[TimeControl "99999999999999999999999+1"]\n',
    b"{[%eval #99999999999999999999999]}",
    b"{[%eval " + b"9" * 400 + b".5,9]}",
    b"{+" + b"9" * 400 + b".5/" + b"9" * 5000 + b" 1s}",
)


def flip_bits(dice: random.Random, data: bytes) -> bytes:
    """Changes one to eight bits."""
    out = bytearray(data)
    for _ in range(dice.randint(1, 8) if out else 0):
        out[dice.randrange(len(out))] ^= 1 << dice.randrange(8)
    return bytes(out)


def truncate(dice: random.Random, data: bytes) -> bytes:
    """Cuts off the end, or the beginning."""
    at = dice.randrange(len(data) + 1)
    return data[:at] if dice.random() < 0.8 else data[at:]


def splice(dice: random.Random, data: bytes) -> bytes:
    """Leaves out a stretch, or moves it elsewhere."""
    a, b = _stretch(dice, data)
    rest = data[:a] + data[b:]
    if dice.random() < 0.5:
        return rest
    at = dice.randrange(len(rest) + 1)
    return rest[:at] + data[a:b] + rest[at:]


def duplicate(dice: random.Random, data: bytes) -> bytes:
    """Repeats a stretch, up to a hundred times when it is short."""
    a, b = _stretch(dice, data)
    times = dice.choice((1, 1, 2, 100 if b - a < 200 else 2))
    return data[:b] + data[a:b] * times + data[b:]


def overwrite(dice: random.Random, data: bytes) -> bytes:
    """Random bytes over a stretch, or zeros, or ones."""
    a, b = _stretch(dice, data, 64)
    return data[:a] + dice.choice((dice.randbytes(b - a), bytes(b - a), b"\xff" * (b - a))) + data[b:]


def insert_piece(dice: random.Random, data: bytes) -> bytes:
    """One to four of the pieces that mean something in PGN, EPD, JSON and tar."""
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(data) + 1)
        data = data[:at] + dice.choice(PIECES) + data[at:]
    return data


def inject_header(dice: random.Random, data: bytes) -> bytes:
    """A hostile tag or comment, at the beginning of a line or in the middle of it."""
    lines = [0, *(match.end() for match in re.finditer(rb"\n", data))]
    at = dice.choice(lines) if dice.random() < 0.7 else dice.randrange(len(data) + 1)
    return data[:at] + dice.choice(HEADERS) + data[at:]


def change_number(dice: random.Random, data: bytes) -> bytes:
    """Another number in place of one that stands there."""
    found = list(_NUMBER.finditer(data))
    if not found:
        return flip_bits(dice, data)
    match = dice.choice(found)
    return data[: match.start()] + dice.choice(NUMBERS) + data[match.end() :]


BINARY = (flip_bits, truncate, splice, duplicate, overwrite)
TEXT = (*BINARY, insert_piece, inject_header, change_number)


def mutant(
    dice: random.Random, seeds: Sequence[bytes], how: Sequence[Callable[[random.Random, bytes], bytes]]
) -> bytes:
    """One of the seeds with one to three kinds of damage."""
    data = dice.choice(seeds)
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        data = dice.choice(how)(dice, data)
    return data


def _stretch(dice: random.Random, data: bytes, most: int = 4096) -> tuple[int, int]:
    a = dice.randrange(len(data) + 1)
    return a, min(len(data), a + dice.randint(0, most))
