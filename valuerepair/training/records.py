"""Training records of games of the project's own search, field by field as lc0's self-play fills them.

From lc0's src/trainingdata/trainingdata.cc (V6TrainingDataArray) and src/selfplay/game.cc. A record is a position in
which a move was searched. Book moves have no record, and neither do moves of engines that do not report their search.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Floats32, Masks, Moves
from valuerepair.chess import v6
from valuerepair.chess.bits import ONE, files_flipped
from valuerepair.chess.board import owned, parse_fens
from valuerepair.chess.jit import allocating_kernel, kernel
from valuerepair.chess.make import black_to_move, clock, copy_row, make, mark_repetition
from valuerepair.chess.positions import PositionBatch, cuts_of, encode_move, encode_moves
from valuerepair.chess.rows import FLIP, RIGHTS, ROW, STATE, Boards, Index
from valuerepair.chess.v6 import Records
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import written_whole
from valuerepair.mcts.params import SearchParams
from valuerepair.mcts.result import SearchResult
from valuerepair.mcts.roots import play_game
from valuerepair.nets.planes import (
    AUXILIARY,
    CANONICAL,
    CLASSICAL,
    INPUT_FORMATS,
    PLANES,
    canonical_transform,
    is_initial,
    write_masks,
)
from valuerepair.nets.policy import policy_index
from valuerepair.play.game import ADJUDICATIONS, LOSSES, RESIGNED, GameRecord

_WORDS = v6.RECORD.itemsize // 4
_POLICY = slice(2, 2 + len(v6.POLICY_MOVES))  # of a record in 32-bit words
_CASTLING = ("castling_us_ooo", "castling_us_oo", "castling_them_ooo", "castling_them_oo")
_ADJUDICATED = (*ADJUDICATIONS, RESIGNED)
_FAILURES = tuple(ending for ending in LOSSES if ending != RESIGNED)


@dataclass(frozen=True, slots=True)
class RecordFacts:
    """The facts that records depend on besides the game: the net's input, and the temperature of its priors.

    `input_format` is lc0's id of the planes, `policy_temperature` the softmax temperature of the search's priors
    (`SearchParams.policy_softmax_temp`).
    """

    input_format: int = 1
    policy_temperature: float = 1.359

    def __post_init__(self) -> None:
        if self.input_format not in INPUT_FORMATS:
            formats = ", ".join(map(str, INPUT_FORMATS))
            raise UsageError(f"input format {self.input_format}: no training records for it; known: {formats}")

    @staticmethod
    def of(input_format: int, params: SearchParams) -> RecordFacts:
        """The facts of a search with `params` by a net of this input format."""
        return RecordFacts(input_format, params.policy_softmax_temp)


def has_records(game: GameRecord) -> bool:
    """Whether a game is used for training: it was decided, and not by an engine's failure.

    lc0 also drops undecided games (stopped after 450 plies, or aborted).
    """
    return game.z is not None and game.ending not in _FAILURES and any(t.search for t in game.thoughts)


def game_records(game: GameRecord, facts: RecordFacts) -> Records:
    """v6.RECORD[n]: one per searched move, in order; empty for a game without records (`has_records`).

    Raises ValueRepairError for a search of a single visit, which has no shares of visits, and ValueError for a game
    with a played move that is not among the searched ones.
    """
    if not has_records(game):
        return np.zeros(0, v6.RECORD)
    begin = len(game.book)
    searched = [(begin + i, t.move, t.search) for i, t in enumerate(game.thoughts) if t.search is not None]
    plies = np.array([ply for ply, _, _ in searched], np.int64)
    searches = [search for _, _, search in searched]
    _check_visits(game, plies, searches)
    played = [_index_of_move(search, move) for _, move, search in searched]
    records = np.zeros(len(plies), v6.RECORD)
    start = parse_fens([game.start_fen])
    rows = play_game(start, encode_moves(game.moves))
    black = fill_boards(records, rows, bool(is_initial(start)[0]), facts, plies)
    _fill_policies(records, rows, facts, plies, searches, played)
    _fill_values(records, searches, played)
    _fill_outcome(records, game, plies, black)
    return records


def _check_visits(game: GameRecord, plies: NDArray[np.int64], searches: Sequence[SearchResult]) -> None:
    """Raises ValueRepairError for searches of one visit, which lc0 also refuses: "Search generated invalid data!"."""
    for ply, search in zip(plies.tolist(), searches, strict=True):
        if search.nodes < 2 and len(search.moves) > 1 and search.certain is None:
            raise ValueRepairError(
                f"game {game.number}, ply {ply}: a search of one visit has no shares of visits to learn from; training "
                "records need at least 2 visits a move"
            )


def _index_of_move(search: SearchResult, move: str) -> int:
    """The index of the played move among the searched ones."""
    if search.best_move == move:
        return 0
    try:
        return [other.move for other in search.moves].index(move)
    except ValueError:
        raise ValueError(f"{move} was played, but is not among the moves searched") from None


def fill_boards(
    records: Records, rows: NDArray[np.uint64], initial: bool, facts: RecordFacts, plies: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Fills records[i] from board and history of row plies[i] of a game; returns where Black is to move, bool[n].

    Repetitions are marked in `rows`; `initial`: row 0 is the standard starting position.
    """
    planes, board_facts = _empty_boards(len(plies))
    scratch = np.empty((1, PLANES), np.uint64)
    write_boards(rows, initial, facts.input_format, plies, scratch, planes, board_facts)
    return _put_boards(records, planes, board_facts, facts)


def fill_positions(records: Records, batch: PositionBatch, facts: RecordFacts) -> NDArray[np.bool_]:
    """Fills records[i] from board and history of position i; returns where Black is to move, bool[n].

    Boards before the position come from replaying its known moves.
    """
    planes, board_facts = _empty_boards(len(batch))
    starts = parse_fens(batch.start_fen)
    moves, offsets = owned(batch.moves, np.uint16), owned(batch.offsets, np.int64)
    write_positions(starts, is_initial(starts), moves, offsets, facts.input_format, planes, board_facts)
    return _put_boards(records, planes, board_facts, facts)


def _empty_boards(n: int) -> tuple[Masks, NDArray[np.uint8]]:
    """Arrays for the output of `write_boards` for n records."""
    return np.empty((n, v6.HISTORY_PLANES), np.uint64), np.empty((n, FACTS), np.uint8)


def _put_boards(
    records: Records, planes: Masks, board_facts: NDArray[np.uint8], facts: RecordFacts
) -> NDArray[np.bool_]:
    """Puts the output of `write_boards` into records; returns where Black is to move."""
    records["version"], records["input_format"] = v6.VERSION, facts.input_format
    records["planes"] = planes
    for column, name in enumerate(_CASTLING):
        records[name] = board_facts[:, column]
    records["side_to_move_or_enpassant"], records["rule50_count"] = board_facts[:, STM_OR_EP], board_facts[:, RULE50]
    records["invariance_info"] = board_facts[:, TRANSFORM]
    if facts.input_format >= CANONICAL:
        records["invariance_info"] |= board_facts[:, BLACK] * np.uint8(v6.BLACK_TO_MOVE)
    black: NDArray[np.bool_] = board_facts[:, BLACK] != 0
    return black


def _fill_policies(
    records: Records,
    rows: NDArray[np.uint64],
    facts: RecordFacts,
    plies: NDArray[np.int64],
    searches: Sequence[SearchResult],
    played: Sequence[int],
) -> None:
    """Fills shares of visits, their divergence from the net's policy, and the indices of best and played moves."""
    moves = list(chain.from_iterable(search.moves for search in searches))
    cuts = cuts_of([len(search.moves) for search in searches])
    indices, divergence = np.empty(len(moves), np.uint16), np.empty(len(plies), np.float32)
    write_policies(
        rows,
        facts.input_format,
        plies,
        cuts,
        np.array([encode_move(move.move) for move in moves], np.uint16),
        np.array([move.visits for move in moves], np.int64),
        np.array([move.net_prior for move in moves], np.float32),
        float(facts.policy_temperature),
        indices,
        records.view("<f4").reshape(len(plies), _WORDS)[:, _POLICY],
        divergence,
    )
    records["policy_kld"] = divergence
    records["best_idx"] = indices[cuts[:-1]]
    records["played_idx"] = indices[cuts[:-1] + np.array(played)]


def _fill_values(records: Records, searches: Sequence[SearchResult], played: Sequence[int]) -> None:
    """Fills W - L, D and plies left of the root, its best and its played move, and the net's, from the side to move."""
    best = [search.value[1:] for search in searches]
    after_played = [search.value_of(search.moves[i])[1:] for search, i in zip(searches, played, strict=True)]
    root = [search.root[1:] for search in searches]
    # A root that the net did not evaluate itself (proven in an earlier search) has no value of the net.
    net = [(s.net_wl if s.net_d == s.net_d else s.net_d, s.net_d, s.net_m) for s in searches]
    for name, values in (("root", root), ("best", best), ("played", after_played), ("orig", net)):
        q, d, m = np.fromiter(chain.from_iterable(values), np.float32, 3 * len(values)).reshape(-1, 3).T
        if name != "orig":
            q, d = _without_drift(q, d)
        records[f"{name}_q"], records[f"{name}_d"], records[f"{name}_m"] = q, d, m
    records["visits"] = [search.nodes for search in searches]
    proven = [_is_proven_best(search) for search in searches]
    records["invariance_info"] |= np.where(proven, v6.BEST_PROVEN, 0).astype(np.uint8)


def _is_proven_best(search: SearchResult) -> bool:
    """Whether the best move is proven, and no other can be better."""
    best = search.certain
    if best is None:
        return False
    return best == 1 or all(m.certain is not None and m.certain <= best for m in search.moves)


def _without_drift(q: Any, d: Any) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """q and d limited so that win, draw and loss are probabilities; 32-bit sums drift (lc0's DriftCorrect)."""
    one, two = np.float32(1), np.float32(2)
    q, d = np.clip(q, -one, one), np.clip(d, 0, one)
    win = (one - d + q) / two
    return q, np.maximum(d + np.minimum(two * np.minimum(win, win - q), 0), 0).astype(np.float32)


def _fill_outcome(records: Records, game: GameRecord, plies: NDArray[np.int64], black: NDArray[np.bool_]) -> None:
    """Fills the result from the side to move, and the plies left: from the last record's, counted backwards."""
    z = game.z
    assert z is not None
    records["result_q"] = np.where(black, -z, z)
    records["result_d"] = float(z == 0)
    records["plies_left"] = records["best_m"][-1] + np.float32(1) * (plies[-1] - plies)
    if game.ending in _ADJUDICATED:
        records["invariance_info"] |= np.uint8(v6.ADJUDICATED)


# Columns of the facts that `write_boards` writes: the bytes after the planes of a record, and the side to move.
US_OOO, US_OO, THEM_OOO, THEM_OO, STM_OR_EP, RULE50, TRANSFORM, BLACK = range(8)
FACTS = 8
SMALLEST = 1.1754943508222875e-38  # the smallest normal float32, which lc0 adds so that 0 means "unknown"
LAST_CLOCK = 100  # lc0's rescorer refuses a record with more plies since a capture or a pawn's move
MOST_VISITS = 2**32 - 1


@kernel
def write_boards(
    rows: Boards,
    initial: bool,
    form: int,
    plies: Index,
    scratch: Masks,
    planes: Masks,
    facts: NDArray[np.uint8],
) -> None:
    """Writes planes[i] (uint64[104], as in the record) and facts[i] of row plies[i] of a game with repetitions marked.

    The game's first row is 0; `initial`: it is the standard starting position. `scratch` is uint64[1, 112].
    """
    for i in range(len(plies)):
        r = plies[i]
        write_masks(rows, 0, r, initial, form, scratch, 0)
        for k in range(AUXILIARY):
            planes[i, k] = files_flipped(scratch[0, k])
        state, black = rows[r, STATE] & RIGHTS, black_to_move(rows, r)
        for bit in range(4):  # KQkq from the mover
            right = np.int64(state >> np.uint64(bit) & ONE)
            rook = 1 if form == CLASSICAL or bit & 1 else 128  # its file
            facts[i, (US_OO, US_OOO, THEM_OO, THEM_OOO)[bit]] = right * rook
        facts[i, STM_OR_EP], facts[i, TRANSFORM] = black, 0
        if form >= CANONICAL:
            facts[i, STM_OR_EP] = scratch[0, AUXILIARY + 4] >> np.uint64(56)
            facts[i, TRANSFORM] = canonical_transform(rows, r)
        facts[i, RULE50], facts[i, BLACK] = min(clock(rows, r), 255), black


@allocating_kernel
def write_positions(
    starts: Boards,
    initial: NDArray[np.bool_],
    moves: Moves,
    offsets: Index,
    form: int,
    planes: Masks,
    facts: NDArray[np.uint8],
) -> None:
    """Replays moves[offsets[n]:offsets[n+1]] from starts[n], and writes the last board as `write_boards` does."""
    longest = 0
    for n in range(len(starts)):
        longest = max(longest, offsets[n + 1] - offsets[n])
    rows, scratch = np.empty((longest + 1, ROW), np.uint64), np.empty((1, PLANES), np.uint64)
    last = np.zeros(1, np.int64)
    for n in range(len(starts)):
        copy_row(starts, n, rows, 0)
        last[0] = offsets[n + 1] - offsets[n]
        for i in range(last[0]):
            make(rows, i, i + 1, np.int64(moves[offsets[n] + i]) ^ FLIP * black_to_move(rows, i))
            mark_repetition(rows, 0, i + 1)
        write_boards(rows, initial[n], form, last, scratch, planes[n : n + 1], facts[n : n + 1])


@kernel
def write_policies(
    rows: Boards,
    form: int,
    plies: Index,
    cuts: Index,
    moves: Moves,
    visits: Index,
    priors: Floats32,
    temperature: float,
    indices: NDArray[np.uint16],
    policies: Floats32,
    divergence: Floats32,
) -> None:
    """Writes policies[i, 1858] of row plies[i]; its legal moves (absolute squares) are moves[cuts[i]:cuts[i+1]].

    The policy is the share of visits, -1 for illegal moves; without visits the first move has all. `indices` are the
    moves' indices in it. `divergence` is KL(visits || net's policy at temperature 1) in nats, by lc0's formula, which
    undoes the priors' softmax temperature; 0 if a prior is unknown (NaN).
    """
    for i in range(len(plies)):
        begin, end = cuts[i], cuts[i + 1]
        transform = canonical_transform(rows, plies[i]) if form >= CANONICAL else 0
        turn = FLIP * black_to_move(rows, plies[i])
        policies[i, :] = np.float32(-1)
        total, mass, sum_of_logs = np.int64(0), 0.0, 0.0
        for j in range(begin, end):
            total += visits[j]
        for j in range(begin, end):
            share = np.float32(visits[j]) / np.float32(total) if total else np.float32(j == begin)
            indices[j] = policy_index(rows, plies[i], np.int64(moves[j]) ^ turn, transform)
            policies[i, indices[j]] = share
            prior = np.float64(priors[j]) ** temperature
            mass += prior
            if share > 0:
                sum_of_logs += share * np.log(share / max(prior, SMALLEST))
        kld = max(sum_of_logs + np.log(mass), 0.0) + SMALLEST
        divergence[i] = np.float32(kld) if kld == kld else np.float32(0)


def divergence(written: NDArray[np.float64], priors: NDArray[np.float64], row: Index, n: int) -> NDArray[np.float64]:
    """[n] KL(written || priors) in nats of the policies of n records; both are flat: move i belongs to record row[i].

    As in lc0 it is never 0, which means "unknown" to trainers.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(written > 0, written * np.log(written / np.maximum(priors, SMALLEST)), 0.0)
    return np.asarray(np.maximum(np.bincount(row, terms, n), 0) + SMALLEST)


# zlib's level. lc0 uses 6: its files are two fifths smaller, but packing them takes three times as long.
LEVEL = 1
_GZIP, _MEMORY = 31, 7


class ChunkWriter:
    """Writes the records of games to a folder: game 7 of a run to game_000007.gz, as lc0 names it.

    A file appears complete or not at all, and the same game gives the same bytes: a stopped run resumes in its folder.
    `games` and `records` count what was written.
    """

    def __init__(
        self,
        folder: str | Path,
        facts: RecordFacts,
        *,
        resume: bool = False,
        free: Callable[[GameRecord, int], int] = lambda game, count: count,
    ) -> None:
        """Makes the folder if needed. Without `resume` it must be empty. `free` returns how many of a game's first
        records are written, given the game and their number.

        Raises UsageError for a folder that is not empty, ValueRepairError if it cannot be written.
        """
        self.folder, self.facts, self._free = Path(folder), facts, free
        self.games = self.records = 0
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not resume and any(not path.name.startswith(".") for path in self.folder.iterdir()):
                raise UsageError(
                    f"{folder}: not empty; training records need a new folder, unless the same run resumes"
                )
            for leftover in self.folder.glob(".game_*.part"):
                leftover.unlink()
        except FileExistsError:
            raise UsageError(f"{folder}: is a file; training records need a folder") from None
        except OSError as error:
            raise ValueRepairError(f"{folder}: {error.strerror}: training records cannot be written there") from None

    def path(self, number: int) -> Path:
        """The file of a game of the run."""
        return self.folder / f"game_{number:06d}.gz"

    def write(self, game: GameRecord) -> Path | None:
        """Writes the records of a game; returns the file, None for a game without records (`records.has_records`).

        The file does not exist if none of the records is free. Raises ValueRepairError if it cannot be written, and
        removes the partial file.
        """
        records = game_records(game, self.facts)
        if not len(records):
            return None
        path, records = self.path(game.number), records[: self._free(game, len(records))]
        try:
            if not len(records):
                path.unlink(missing_ok=True)
                return path
            with written_whole(path) as partial:
                partial.write_bytes(compressed(records.view(np.uint8).data))
        except OSError as error:
            raise ValueRepairError(
                f"{path}: {error.strerror}; the game's training records are not written: make room, then run the same "
                "command again"
            ) from None
        self.games += 1
        self.records += len(records)
        return path


def compressed(records: bytes | memoryview) -> bytes:
    """Records as a chunk: one gzip member without name or time."""
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP, _MEMORY)
    return packer.compress(records) + packer.flush()
