"""Training chunks of a store's judged positions: one V6 record (`chess.v6`) a position, and one record a chunk.

lc0's rescorer decodes the move between neighbouring records of a chunk, and the loader of lczero-training turns the
sign of Q from record to record, so positions that do not follow one another must not stand in one chunk.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.select import salt, scrambled
from valuerepair.chess import v6
from valuerepair.chess.board import parse_fens
from valuerepair.chess.positions import Moves, PositionBatch
from valuerepair.chess.progress import Progress
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.judge.split import JUDGED, PARTS, TRAIN, Split
from valuerepair.nets.net import Net, NetValues, Priors
from valuerepair.nets.policy import policy_indices
from valuerepair.question import Question
from valuerepair.store.queries import plies_of_games
from valuerepair.store.store import Store
from valuerepair.training.chunk_output import ChunkForm, ChunkOutput
from valuerepair.training.drawing import StoreDraw
from valuerepair.training.nnue import game_results
from valuerepair.training.records import (
    LAST_CLOCK,
    MOST_VISITS,
    RecordFacts,
    Records,
    compressed,
    divergence,
    fill_positions,
)
from valuerepair.training.samples import chances, sampled_results

Floats = NDArray[np.float64]
Index = NDArray[np.int64]
ResultFrom = Literal["sampled", "judge", "game"]

_AT_ONCE = 1024  # positions that the net evaluates together


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkOptions:
    """Which positions of a store become chunks, and what their records say.

    `share`, `draw`, `part` and `seed` choose as `StoreDraw` does. `records` are written in all, pass after
    pass as training draws them, so that a position comes as often as its weight says (None: one pass). `policy_share`
    of the policy goes to the judge's best move, the rest is the net's own. `result` says what stands in result_q and
    result_d. ``sampled``: a win, a draw or a loss, by the judge's chances of each, since lc0's rescorer refuses any
    other number; ``judge``: the judge's value itself; ``game``: the result of the game, and as ``sampled`` where there
    is none. Raises UsageError for values out of range.
    """

    share: float | None = None
    draw: str | None = None
    records: int | None = None
    policy_share: float = 0.0
    result: ResultFrom = "sampled"
    part: str = PARTS[TRAIN]
    seed: int = 0

    def __post_init__(self) -> None:
        for name, share in (("share", self.share or 0.0), ("policy", self.policy_share)):
            if not 0 <= share <= 1:
                raise UsageError(f"--{name} {share:g}: a share lies between 0 and 1")
        if self.records is not None and self.records < 1:
            raise UsageError(f"records {self.records}: must be at least 1")
        for name, word, words in (
            ("result", self.result, get_args(ResultFrom)),
            ("part", self.part, (*PARTS, *JUDGED)),
        ):
            if word not in words:
                raise UsageError(f"--{name} {word}: must be one of {', '.join(words)}")


class JudgedBatch(NamedTuple):
    """n positions with what is written of them beside what the net says, all from the side to move.

    `wdl` float32[n, 3] the judge's win, draw and loss; `best` its move, 0 where it gave none, uint16[n] as in
    `chess.positions`; `nodes` int64[n] of its search; `z` float32[n] the result of the game and `plies_left` float32[n]
    to its end, both NaN where they are not known. `chance` float64[n] in [0, 1), by which a result is sampled.
    """

    batch: PositionBatch
    wdl: NDArray[np.float32]
    best: Moves
    nodes: Index
    z: NDArray[np.float32]
    plies_left: NDArray[np.float32]
    chance: Floats


# -- records ----------------------------------------------------------------------------------------------------------


def position_records(
    judged: JudgedBatch, net: NetValues, priors: Priors, facts: RecordFacts, options: ChunkOptions | None = None
) -> Records:
    """v6.RECORD[n] of positions, each a chunk for itself; `net` and `priors` are what the net says of them.

    Value: best_*, root_* and played_* are the judge's, result_* as `ChunkOptions.result` says; orig_* is the net's.
    Policy: the net's, with a share for the judge's best move; -1 for illegal moves. policy_kld: of the written policy
    from the net's. best_idx and played_idx: the judge's best move, the net's first where it gave none. visits: the
    judge's nodes. root_m, best_m, played_m and plies_left: to the end of the game, else what the net expects, 0 where
    neither is known. Each position needs a legal move.
    """
    options = options or ChunkOptions()
    records = np.zeros(len(judged.batch), v6.RECORD)
    fill_positions(records, judged.batch, facts)
    _fill_policy(records, judged, net.best_move, priors, facts.input_format, options.policy_share)
    _fill_values(records, judged, net, options.result)
    return records


def _fill_policy(
    records: Records, judged: JudgedBatch, first_moves: Moves, priors: Priors, form: int, share: float
) -> None:
    """`first_moves` are the net's."""
    moves, cuts, p = priors
    row = np.repeat(np.arange(len(records)), np.diff(cuts))
    indices = policy_indices(parse_fens(judged.batch.fen), moves, cuts, form)
    best = np.flatnonzero(moves == first_moves[row])
    is_best = moves == judged.best[row]
    has_best = np.bincount(row, is_best, len(records)) > 0
    best[has_best] = np.flatnonzero(is_best)
    moved = np.where(has_best, share, 0.0)
    written = (p * (1 - moved[row])).astype(np.float64)
    written[best] += moved
    records["probabilities"] = -1
    records["probabilities"][row, indices] = written
    records["policy_kld"] = divergence(written, p.astype(np.float64), row, len(records))
    records["best_idx"] = records["played_idx"] = indices[best]


def _fill_values(records: Records, judged: JudgedBatch, net: NetValues, result: ResultFrom) -> None:
    q, d = judged.wdl[:, 0] - judged.wdl[:, 2], judged.wdl[:, 1]
    plies_left = np.where(np.isnan(judged.plies_left), np.nan_to_num(net.moves_left), judged.plies_left)
    for name in ("root", "best", "played"):
        records[f"{name}_q"], records[f"{name}_d"], records[f"{name}_m"] = q, d, plies_left
    records["plies_left"] = plies_left
    if result == "judge":
        records["result_q"], records["result_d"] = q, d
    else:
        z = sampled_results(judged.wdl, judged.chance)
        z = np.where(np.isnan(judged.z), z, judged.z) if result == "game" else z
        records["result_q"], records["result_d"] = z, z == 0
    # As lc0 has it of nets without draws, and of those that do not say how long the game will be.
    records["orig_q"], records["orig_d"] = net.q, np.nan_to_num(net.wdl[:, 1])
    records["orig_m"] = np.nan_to_num(net.moves_left)
    records["visits"] = np.clip(judged.nodes, 1, MOST_VISITS)


# -- of a store -------------------------------------------------------------------------------------------------------


def write_chunks(
    store: Store,
    folder: str | os.PathLike[str],
    net: Net,
    question: Question | None = None,
    options: ChunkOptions | None = None,
    *,
    split: Split | None = None,
    form: ChunkForm = "tar",
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Writes a chunk for each judged position that `vr train --store` would draw, and returns the manifest.

    `net` is the question's, open. With a `split` positions are of `ChunkOptions.part` alone. The same call goes on
    with what an interrupted one has left. Raises UsageError and ValueRepairError.
    """
    options, question = options or ChunkOptions(), question or Question()
    drawn = StoreDraw(
        store,
        question,
        share=options.share,
        draw=options.draw,
        seed=options.seed,
        split=split,
        part=options.part,
    )
    facts = RecordFacts(net.identity.input_format, drawn.fill, 1.0)
    judge = _JudgedRows(store, drawn, options)
    run = {
        "store": drawn.identity,
        "net": {"name": net.identity.name, "sha256": net.identity.key},
        "split": split and asdict(split),
    }
    with ChunkOutput(os.fspath(folder), run, options, form=form) as output:
        if progress is not None:
            progress.set_total(len(judge.rows) - output.chunks)
        for part in judge.parts(store, output.chunks):
            records = position_records(part, *net.evaluate_with_priors(part.batch), facts, options)
            for record in records.view(np.uint8).reshape(len(records), -1):
                output.add(compressed(record.data), 1)
            if progress is not None:
                progress.advance(len(records))
        return output.finish(judge.counts())


class _JudgedRows:
    """The positions to write, in order, and what the store knows of each: row i becomes chunk i."""

    def __init__(self, store: Store, drawn: StoreDraw, options: ChunkOptions) -> None:
        self._drawn, self._options = drawn, options
        names = ("position_id", "fen", "side", "ply", "played", "result", "game_id", "step")
        frame = store.frame(drawn.question, only=names, cut=True)
        frame = frame.iloc[np.searchsorted(frame["position_id"].to_numpy(np.int64), drawn.ids)]
        z = np.array([np.nan if result is None else result for result in game_results(frame)], np.float32)
        self._z = np.where((frame["side"] == "w").to_numpy(), z, -z)
        plies_left = plies_of_games(store.connection, frame["game_id"].tolist()) - frame["ply"].to_numpy()
        # Fewer than one: a header that does not fit the game.
        is_known = ~np.isnan(z) & (plies_left >= 1)
        self._plies_left = np.where(is_known, plies_left, np.nan).astype(np.float32)
        clock = np.array([int(fen.split()[4]) for fen in frame["fen"]], np.int64)
        drawn_rows = _passes(drawn, options.records)
        writable = clock[drawn_rows] <= LAST_CLOCK
        self.rows, self._left_out = drawn_rows[writable], int((~writable).sum())
        if not len(self.rows):
            raise ValueRepairError(
                f"{drawn.path}: in all positions more than {LAST_CLOCK} plies went by without a capture or a pawn's "
                "move; lc0 reads no such records"
            )

    def parts(self, store: Store, begin: int) -> Iterator[JudgedBatch]:
        """The rows from `begin` on, some at a time."""
        for first in range(begin, len(self.rows), _AT_ONCE):
            rows = self.rows[first : first + _AT_ONCE]
            yield JudgedBatch(
                store.positions(self._drawn.ids[rows]),
                self._drawn.wdl(rows),
                self._drawn.best[rows],
                self._drawn.nodes[rows],
                self._z[rows],
                self._plies_left[rows],
                self._chances(first, rows),
            )

    def _chances(self, first: int, rows: Index) -> Floats:
        """By position and by how many records there were before: a position that comes again has another."""
        number = np.arange(first, first + len(rows), dtype=np.uint64)
        return chances(self._drawn.keys[rows] ^ scrambled(number) ^ salt(self._options.seed, "result"))

    def counts(self) -> dict[str, int]:
        """What the manifest says of them: positions and candidates among them, and what could not be as asked."""
        rows = self.rows
        return {
            "positions": len(np.unique(rows)),
            "candidates": int(self._drawn.is_candidate[np.unique(rows)].sum()),
            "games": len(np.unique(self._drawn.games[rows])),
            "without_result": int(np.isnan(self._z[rows]).sum()),
            "without_judges_move": int((self._drawn.best[rows] == 0).sum()),
            "without_game_length": int(np.isnan(self._plies_left[rows]).sum()),
            "clock_too_high": self._left_out,
        }


def _passes(drawn: StoreDraw, records: int | None) -> Index:
    """The rows of one pass, or of as many as make so many records."""
    rows = drawn.one_pass(0)
    if records is None:
        return rows
    passes = [rows, *(drawn.one_pass(number) for number in range(1, -(-records // len(rows))))]
    return np.concatenate(passes)[:records]


def summary(manifest: dict[str, Any], folder: str | os.PathLike[str]) -> list[str]:
    """What `write_chunks` wrote, for a user."""
    records, positions = manifest["records"], manifest["positions"]
    again = f", {records / positions:.1f} times each on average" if records > positions else ""
    lines = [
        f"{os.fspath(folder)}: {records:,} chunks of one record each",
        f"{positions:,} positions of {manifest['games']:,} games{again}; {manifest['candidates']:,} are candidates",
    ]
    if manifest["options"]["result"] == "game" and (without := manifest["without_result"]):
        lines.append(f"{without:,} records have a result sampled by the judge's value: no game's is known")
    if manifest["options"]["policy_share"] and (without := manifest["without_judges_move"]):
        lines.append(f"{without:,} records have the net's policy alone: the judge gave no move")
    if high := manifest["clock_too_high"]:
        lines.append(f"left out: {high:,} with more than {LAST_CLOCK} plies since a capture or a pawn's move")
    return lines
