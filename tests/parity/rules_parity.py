"""The rules kernels against python-chess on random and real games, move by move, with no exception.

``python -m tests.parity.rules_parity --positions 100000``. Of every position: the legal moves, what each of them
leads to (FEN, key), check, mate, stalemate, the 50-move rule, dead material and repetitions; and over all of them that
keys are equal exactly where python-chess's positions are. The boards are those that moves lead to, row by row, so an
error in what `make` keeps up to date is seen.

Repetitions are counted as lc0 does: its boards differ by an en-passant square as soon as a pawn stands beside the one
that moved two squares, while python-chess asks whether the capture is legal. `Tally.pinned` counts the positions
whose answers differ for that reason alone; everything else must be equal.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain, pairwise
from multiprocessing import get_context
from pathlib import Path

import chess
import numpy as np
from numpy.typing import NDArray

from tests import shared_data
from valuerepair.arrays import Moves
from valuerepair.chess import board as rules
from valuerepair.chess.jit import kernel
from valuerepair.chess.make import black_to_move, clock, make, mark_repetition
from valuerepair.chess.positions import decode_moves, encode_moves
from valuerepair.chess.rows import FLIP, REPETITION, ROW, SIXTEEN_BITS, Boards

# Starts that lead quickly to castling on both sides, promotions, pins, en passant, bare boards and full counters.
STARTS = (
    chess.STARTING_FEN,
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
    "r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1",
    "r2q1rk1/pP1p2pp/Q4n2/bbp1p3/Np6/1B3NBn/pPPP1PPP/R3K2R b KQ - 0 1",
    "rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8",
    "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1",
    "r3k2r/8/8/8/8/8/8/R3K2R b KQkq - 90 60",
    "8/8/4k3/8/8/4K3/8/1BN2b2 w - - 0 1",
    "8/8/8/2k5/8/1QK5/8/8 b - - 95 100",
    "4k3/2P5/8/8/8/8/5p2/4K3 w - - 0 1",
    "QQQQ4/QQQQ4/8/7k/K7/8/4qqqq/4qqqq w - - 0 1",
    "R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1K1B w - - 0 1",  # 218 moves, the most of a legal position
    "4k3/pppppppp/8/PPPPPPPP/8/8/8/4K3 b - - 0 1",
    "4k3/8/8/8/pppppppp/8/PPPPPPPP/4K3 w - - 0 1",
    "rnbqkbnr/pppp1ppp/8/8/3PpP2/8/PPP1P1PP/RNBQKBNR b KQkq d3 0 3",
    "8/8/8/8/k2Pp2Q/8/8/3K4 b - d3 0 1",  # the capture would leave two pawns' rank open to the queen
    "4k1n1/8/8/8/4p3/8/5P2/4R2K w - - 0 1",  # f2f4: the pawn beside is pinned
    "5k2/8/8/8/8/8/2B5/1B2K2b w - - 80 90",
    "8/8/8/8/8/5k2/7p/7K w - - 0 1",
    "4k3/8/8/8/4P3/8/8/4K3 b - e3 0 1",  # nothing can capture: lc0 keeps the square of a FEN all the same
)
# The smaller first: what one lacks of its share is left to the next.
ARCHIVES = ("iccf-scca.pgn", "tcec-lc0-s16.pgn.zst", "leela-ID352.pgn.gz", "lichess-blitz.pgn", "otb-masters.pgn.zst")
PLIES = 160
SHOWN = 20  # errors printed


@dataclass(frozen=True, slots=True)
class Game:
    """A line of play: UCI moves from a FEN."""

    start: str
    moves: tuple[str, ...]

    @property
    def positions(self) -> int:
        return len(self.moves) + 1


@dataclass(slots=True)
class Tally:
    """What was met, and every disagreement as a line of text. `pairs` uint64[n, 2]: our key, a hash of the position."""

    met: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    pinned: int = 0
    pairs: list[NDArray[np.uint64]] = field(default_factory=list)

    def expect(self, what: str, board: chess.Board, ours: object, theirs: object) -> None:
        if ours != theirs:
            line = f"{what}: {board.root().fen()} moves {' '.join(m.uci() for m in board.move_stack)}"
            self.errors.append(f"{line}: ours {ours}, python-chess {theirs}")

    def add(self, other: Tally) -> None:
        self.met += other.met
        self.errors += other.errors
        self.pinned += other.pinned
        self.pairs += other.pairs


def random_games(positions: int, plies: int = PLIES, seed: int = 0) -> Iterator[Game]:
    """Games from all starts in turn: random moves, and in every other round many moves taken back at once."""
    number, total = 0, 0
    while total < positions:
        start, chance = STARTS[number % len(STARTS)], random.Random(f"{seed} {number}")
        patience = (0.0, 0.9)[number // len(STARTS) % 2]
        board = chess.Board(start)
        while len(board.move_stack) < min(plies, positions - total - 1) and any(board.legal_moves):
            moves, back = list(board.legal_moves), None
            if len(board.move_stack) > 1 and chance.random() < patience:
                last = board.move_stack[-2]
                back = chess.Move(last.to_square, last.from_square)
            board.push(back if back in moves else chance.choice(moves))
        yield Game(start, tuple(m.uci() for m in board.move_stack))
        number, total = number + 1, total + len(board.move_stack) + 1


def real_games(data: Path, positions: int) -> Iterator[Game]:
    """Games of the archives, each to the last of its positions that no other game reached, in about equal parts."""
    left = positions
    for number, name in enumerate(ARCHIVES):
        share = left // (len(ARCHIVES) - number)
        for game in _longest(data / "pgn" / name):
            kept = Game(game.start, game.moves[: share - 1])
            yield kept
            share, left = share - kept.positions, left - kept.positions
            if share < 1:
                break


def _longest(path: Path) -> Iterator[Game]:
    """The longest line of each game in an archive."""
    from valuerepair.archives.options import SampleOptions
    from valuerepair.archives.rows import ReadReport
    from valuerepair.archives.sampling import sample

    number, longest = 0, Game(chess.STARTING_FEN, ())
    for position in chain.from_iterable(sample([str(path)], SampleOptions(per_game=None, min_ply=0), ReadReport())):
        if position.origin.game != number and longest.moves:
            yield longest
            longest = Game(chess.STARTING_FEN, ())
        number = position.origin.game
        if len(position.moves) >= len(longest.moves):
            longest = Game(position.start_fen, position.moves)
    if longest.moves:
        yield longest


@kernel
def walk(starts: Boards, moves: Moves, offsets: NDArray[np.int64], rows: Boards, clocks: NDArray[np.int64]) -> None:
    """Writes every board of every game, one after the other, with repetitions marked, and its half-move clock."""
    at = 0
    for game in range(len(starts)):
        first = at
        for column in range(ROW):
            rows[at, column] = starts[game, column]
        for i in range(offsets[game], offsets[game + 1]):
            make(rows, at, at + 1, np.int64(moves[i]) ^ FLIP * black_to_move(rows, at))
            at += 1
            mark_repetition(rows, first, at)
        for r in range(first, at + 1):
            clocks[r] = clock(rows, r)
        at += 1


@dataclass(frozen=True, slots=True)
class Ours:
    """What the kernels say of n positions, and of all that one move leads to."""

    fens: list[str]
    check: list[bool]
    moves: list[tuple[str, ...]]
    after: list[list[str]]
    dead: list[bool]
    fifty: list[bool]
    repeated: list[int]
    keys: NDArray[np.uint64]
    keys_after: NDArray[np.uint64]


def ask_kernels(games: Sequence[Game]) -> Ours:
    """All positions of the games in order."""
    starts = rules.parse_fens([game.start for game in games])
    offsets = np.cumsum([0, *(len(game.moves) for game in games)], dtype=np.int64)
    total = int(offsets[-1]) + len(games)
    rows, clocks = np.empty((total, ROW), np.uint64), np.empty(total, np.int64)
    walk(starts, encode_moves([m for game in games for m in game.moves]), offsets, rows, clocks)
    moves, cuts = rules.legal_moves(rows)
    after = rules.replay(np.repeat(rows, np.diff(cuts), axis=0), moves, np.arange(len(moves) + 1))
    texts, fens_after = decode_moves(moves), rules.fens(after)
    return Ours(
        rules.fens(rows),
        rules.in_check(rows).tolist(),
        [texts[a:b] for a, b in pairwise(cuts.tolist())],
        [fens_after[a:b] for a, b in pairwise(cuts.tolist())],
        rules.insufficient_material(rows).tolist(),
        (clocks >= 100).tolist(),
        (rows[:, REPETITION] & SIXTEEN_BITS).astype(np.int64).tolist(),
        rules.keys(rows),
        rules.keys(after),
    )


def compare(games: Sequence[Game]) -> Tally:
    """Every position of the games by the kernels and by python-chess."""
    tally, ours, at, names = Tally(), ask_kernels(games), 0, []
    for game in games:
        board, boards_before = chess.Board(game.start), list[tuple[object, ...]]()
        for move in (*game.moves, None):
            names += [board.fen(), *_compare_position(tally, ours, at, board)]
            _compare_repetition(tally, ours.repeated[at], board, boards_before)
            at += 1
            if move is not None:
                board.push_uci(move)
    tally.met["positions"] += at
    # Keys in the order of `names`: each position, then all after it.
    before = np.cumsum([0, *map(len, ours.moves)])[:-1]
    tally.pairs.append(np.array([np.insert(ours.keys_after, before, ours.keys), _hashes(names)], np.uint64).T)
    return tally


def _hashes(fens: Iterable[str]) -> NDArray[np.uint64]:
    """64 bits of each position; a FEN of python-chess without counters is its transposition key, as text."""
    digests = (blake2b(fen.rsplit(" ", 2)[0].encode(), digest_size=8).digest() for fen in fens)
    return np.frombuffer(b"".join(digests), np.uint64)


def _compare_position(tally: Tally, ours: Ours, at: int, board: chess.Board) -> list[str]:
    """One position but for its repetitions; returns python-chess's FEN after each of our moves."""
    moves, check = ours.moves[at], ours.check[at]
    legal = {m.uci() for m in board.legal_moves}
    tally.expect("FEN", board, ours.fens[at], board.fen())
    tally.expect("legal moves", board, sorted(moves), sorted(legal))
    tally.expect("check", board, check, board.is_check())
    tally.expect("checkmate", board, check and not moves, board.is_checkmate())
    tally.expect("stalemate", board, not check and not moves, board.is_stalemate())
    tally.expect("50 moves", board, ours.fifty[at] and bool(moves), board.is_fifty_moves())
    tally.expect("insufficient material", board, ours.dead[at], board.is_insufficient_material())
    after = dict.fromkeys(moves, "")
    for move in legal.intersection(moves):
        board.push_uci(move)
        after[move] = board.fen()
        board.pop()
    for fen, (move, their_fen) in zip(ours.after[at], after.items(), strict=True):
        tally.expect(f"FEN after {move}", board, fen, their_fen)
    tally.met.update(
        {
            "moves": len(moves),
            "checks": check,
            "mates": check and not moves,
            "stalemates": not check and not moves,
            "after 50 moves": ours.fifty[at],
            "dead material": ours.dead[at],
            "en passant": board.has_legal_en_passant(),
            "castling": any(map(board.is_castling, board.legal_moves)),
            "promotions": any(len(m) == 5 for m in moves),
        }
    )
    return list(after.values())


def _compare_repetition(tally: Tally, count: int, board: chess.Board, before: list[tuple[object, ...]]) -> None:
    """`count` times the position was there before, by the kernels; `before`, which grows, are lc0's boards so far."""
    ep = board.ep_square if not board.move_stack or board.has_pseudo_legal_en_passant() else None
    now = (board.board_fen(), board.turn, board.clean_castling_rights(), ep)
    expected = before[max(0, len(before) - board.halfmove_clock) :].count(now)
    before.append(now)
    tally.expect("earlier occurrences, by lc0's rule", board, count, expected)
    for times in (2, 3):
        if (count >= times - 1) != board.is_repetition(times):
            if _ep_in_vain(board):
                tally.pinned += 1
            else:
                tally.expect(f"repetition {times}", board, count >= times - 1, board.is_repetition(times))
        tally.met[f"repetitions {times}"] += count >= times - 1


def _ep_in_vain(board: chess.Board) -> bool:
    """Since the last capture or pawn move there was an en-passant square that no legal capture can use."""
    earlier = board.copy()
    for _ in range(min(board.halfmove_clock, len(board.move_stack))):
        earlier.pop()
    return earlier.ep_square is not None and not earlier.has_legal_en_passant()


def check_keys(tally: Tally) -> tuple[int, int]:
    """Adds an error for each way in which keys and positions do not correspond; returns (all, distinct) positions."""
    pairs = np.concatenate(tally.pairs)
    distinct = len(np.unique(pairs, axis=0))
    for column, what in ((0, "keys that belong to several positions"), (1, "positions that have several keys")):
        if excess := distinct - len(np.unique(pairs[:, column])):
            tally.errors.append(f"{excess} {what}")
    return len(pairs), distinct


def chunks(games: Iterable[Game], positions: int = 500) -> Iterator[list[Game]]:
    """Games in lists of about so many positions."""
    chunk: list[Game] = []
    for game in games:
        chunk.append(game)
        if sum(g.positions for g in chunk) >= positions:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def run(data: Path, positions: int, plies: int = PLIES, processes: int = 1) -> Tally:
    """Half the positions from random games of so many plies, half from real ones."""
    tally = Tally()
    games = chunks(chain(random_games(positions - positions // 2, plies), real_games(data, positions // 2)))
    if processes == 1:
        for part in map(compare, games):
            tally.add(part)
    else:
        with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            for part in pool.map(compare, games):
                tally.add(part)
    tally.met["keys compared"], tally.met["distinct keys"] = check_keys(tally)
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description="The rules against python-chess.")
    parser.add_argument("--positions", type=int, default=100_000)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    shared_data.add_option(parser)
    options = parser.parse_args()
    tally = run(options.data, options.positions, processes=options.processes)
    for what, count in tally.met.items():
        print(f"{what:20}{count:12,}")
    print(f"{tally.pinned} repetitions that python-chess sees and lc0 does not, for an en-passant square in vain")
    print("\n".join(tally.errors[:SHOWN]))
    print(f"{len(tally.errors)} disagreements")
    return 1 if tally.errors else 0


if __name__ == "__main__":
    sys.exit(main())
