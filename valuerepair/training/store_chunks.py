"""Training chunks from a store's judged positions: one V6 record (`chess.v6`) per position, one record per chunk.

lc0's rescorer decodes the move between consecutive records of a chunk, and lczero-training's loader flips the sign of Q
from record to record. So a chunk with several records would need consecutive positions of a game.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.select import salt, scrambled
from valuerepair.arrays import Floats, Moves
from valuerepair.chess import v6
from valuerepair.chess.board import parse_fens
from valuerepair.chess.positions import PositionBatch
from valuerepair.chess.progress import Progress
from valuerepair.chess.rows import Index
from valuerepair.chess.v6 import Records
from valuerepair.errors import UsageError, ValueRepairError, check_least, check_word
from valuerepair.judge.split import JUDGED, PARTS, TRAIN, Split
from valuerepair.nets.net import Net, NetValues, Priors
from valuerepair.nets.policy import policy_indices
from valuerepair.question import Question
from valuerepair.store.store import Store
from valuerepair.text import positions_of_games, quantity
from valuerepair.training.chunk_output import ChunkForm, ChunkOutput
from valuerepair.training.drawing import StoreDraw
from valuerepair.training.nnue import game_results
from valuerepair.training.records import LAST_CLOCK, MOST_VISITS, RecordFacts, compressed, divergence, fill_positions
from valuerepair.training.samples import chances, sampled_results

ResultFrom = Literal["sampled", "judge", "game"]

_BATCH = 1024  # positions that the net evaluates together


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkOptions:
    """Which positions of a store become chunks, and the content of their records.

    `share`, `draw`, `part` and `seed` are those of `StoreDraw`. `records` is how many records to write, pass after
    pass as in training, so that a position occurs in proportion to its weight; None: one pass. `policy_share` is the
    share of the written policy that the judge's best move gets; the net's policy gets the rest. `result` is the source
    of result_q and result_d: ``sampled``, a win, draw or loss drawn by the judge's W/D/L, because lc0's rescorer
    refuses other numbers; ``judge``, the judge's value; or ``game``, the result of the game, or ``sampled`` if it is
    unknown.
    Raises UsageError for values out of range.
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
        check_least("records", self.records)
        for name, word, words in (
            ("result", self.result, get_args(ResultFrom)),
            ("part", self.part, dict.fromkeys((*PARTS, *JUDGED))),
        ):
            check_word(f"--{name}", word, words)


class JudgedBatch(NamedTuple):
    """n positions with the judge's values and the results of their games, from the side to move.

    `wdl` float32[n, 3]: the judge's win, draw and loss. `best` uint16[n]: the judge's move (as in `chess.positions`, 0
    if it gave none). `nodes` int64[n]: of the judge's search. `z` float32[n]: the result of the game, NaN if it is
    unknown. `chance` float64[n]: random numbers in [0, 1) by which results are sampled.
    """

    batch: PositionBatch
    wdl: NDArray[np.float32]
    best: Moves
    nodes: Index
    z: NDArray[np.float32]
    chance: Floats


# -- records ----------------------------------------------------------------------------------------------------------


def position_records(
    judged: JudgedBatch, net: NetValues, priors: Priors, facts: RecordFacts, options: ChunkOptions | None = None
) -> Records:
    """v6.RECORD[n], a chunk for each position; `net` and `priors` are the net's values and policies of the positions.

    best_*, root_* and played_*: the judge's value. result_*: as `ChunkOptions.result` says. orig_*: the net's value.
    probabilities: the net's policy with a share for the judge's best move; -1 for illegal moves. policy_kld:
    KL(written policy || net's policy). best_idx and played_idx: the judge's best move, or the net's if the judge gave
    none. visits: the judge's nodes. *_m and plies_left: the net's moves left, else 0. Each position needs a legal move.
    """
    options = options or ChunkOptions()
    records = np.zeros(len(judged.batch), v6.RECORD)
    fill_positions(records, judged.batch, facts)
    _fill_policy(records, judged, net.best_move, priors, facts.input_format, options.policy_share)
    _fill_values(records, judged, net, options.result)
    return records


def _fill_policy(
    records: Records, judged: JudgedBatch, net_moves: Moves, priors: Priors, input_format: int, share: float
) -> None:
    """Fills policy and moves; `net_moves` are the net's best moves."""
    moves, cuts, p = priors
    row = np.repeat(np.arange(len(records)), np.diff(cuts))
    indices = policy_indices(parse_fens(judged.batch.fen), moves, cuts, input_format)
    best = np.flatnonzero(moves == net_moves[row])
    is_best = moves == judged.best[row]
    has_best = np.bincount(row, is_best, len(records)) > 0
    best[has_best] = np.flatnonzero(is_best)
    shares = np.where(has_best, share, 0.0)
    policy = (p * (1 - shares[row])).astype(np.float64)
    policy[best] += shares
    records["probabilities"] = -1
    records["probabilities"][row, indices] = policy
    records["policy_kld"] = divergence(policy, p.astype(np.float64), row, len(records))
    records["best_idx"] = records["played_idx"] = indices[best]


def _fill_values(records: Records, judged: JudgedBatch, net: NetValues, result: ResultFrom) -> None:
    q, d = judged.wdl[:, 0] - judged.wdl[:, 2], judged.wdl[:, 1]
    moves_left = np.maximum(np.nan_to_num(net.moves_left), 0)  # lc0's rescorer refuses others
    for name in ("root", "best", "played"):
        records[f"{name}_q"], records[f"{name}_d"], records[f"{name}_m"] = q, d, moves_left
    records["plies_left"] = moves_left
    if result == "judge":
        records["result_q"], records["result_d"] = q, d
    else:
        z = sampled_results(judged.wdl, judged.chance)
        z = np.where(np.isnan(judged.z), z, judged.z) if result == "game" else z
        records["result_q"], records["result_d"] = z, z == 0
    # Like lc0, write 0 for a net without a probability of draws or without moves left.
    records["orig_q"], records["orig_d"] = net.q, np.nan_to_num(net.wdl[:, 1])
    records["orig_m"] = moves_left
    records["visits"] = np.clip(judged.nodes, 1, MOST_VISITS)


# -- from a store -----------------------------------------------------------------------------------------------------


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

    `net` is the question's net, opened. With a `split`, only positions of its part `options.part` are written. The same
    call resumes an interrupted one. Raises UsageError and ValueRepairError.
    """
    options, question = options or ChunkOptions(), question or Question()
    bar = progress or Progress("chunks", quiet=True)
    drawn = StoreDraw(
        store,
        question,
        share=options.share,
        draw=options.draw,
        seed=options.seed,
        split=split,
        part=options.part,
        needs_candidates=False,
    )
    facts = RecordFacts(net.identity.input_format, drawn.fill, 1.0)
    judge = _JudgedRows(store, drawn, options)
    run = {
        "store": drawn.identity,
        "net": {"name": net.identity.name, "sha256": net.identity.key},
        "split": split and asdict(split),
    }
    with ChunkOutput(os.fspath(folder), run, options, form=form) as output:
        bar.set_total(len(judge.rows) - output.chunks)
        for judged in judge.batches(store, output.chunks):
            records = position_records(judged, *net.evaluate_with_priors(judged.batch), facts, options)
            for record in records.view(np.uint8).reshape(len(records), -1):
                output.add(compressed(record.data), 1)
            bar.advance(len(records))
        return output.finish(judge.counts())


class _JudgedRows:
    """The positions to write, in order, and their values in the store: ``rows[i]`` becomes chunk i."""

    def __init__(self, store: Store, drawn: StoreDraw, options: ChunkOptions) -> None:
        self._drawn, self._options = drawn, options
        names = ("position_id", "fen", "side", "played", "result", "game_id", "step")
        frame = store.frame(drawn.question, only=names, cut=True)
        frame = frame.iloc[np.searchsorted(frame["position_id"].to_numpy(np.int64), drawn.ids)]
        z = np.array([np.nan if result is None else result for result in game_results(frame)], np.float32)
        self._z = np.where((frame["side"] == "w").to_numpy(), z, -z)
        clock = np.array([int(fen.split()[4]) for fen in frame["fen"]], np.int64)
        drawn_rows = _passes(drawn, options.records)
        writable = clock[drawn_rows] <= LAST_CLOCK
        self.rows, self._left_out = drawn_rows[writable], int((~writable).sum())
        if not len(self.rows):
            raise ValueRepairError(
                f"{drawn.path}: all positions have more than {LAST_CLOCK} plies since a capture or a pawn's move; "
                "lc0 does not read their records"
            )

    def batches(self, store: Store, begin: int) -> Iterator[JudgedBatch]:
        """The positions to write, from chunk `begin` on."""
        for first in range(begin, len(self.rows), _BATCH):
            rows = self.rows[first : first + _BATCH]
            yield JudgedBatch(
                store.positions(self._drawn.ids[rows]),
                self._drawn.wdl(rows),
                self._drawn.best[rows],
                self._drawn.nodes[rows],
                self._z[rows],
                self._chances(first, rows),
            )

    def _chances(self, first: int, rows: Index) -> Floats:
        """[n] random numbers by position and number of the record: a position that is written again gets another."""
        number = np.arange(first, first + len(rows), dtype=np.uint64)
        return chances(self._drawn.keys[rows] ^ scrambled(number) ^ salt(self._options.seed, "result"))

    def counts(self) -> dict[str, int]:
        """The counts of the manifest: positions written, unknown values among them, and positions left out."""
        rows = self.rows
        return {
            "positions": len(np.unique(rows)),
            "candidates": int(self._drawn.is_candidate[np.unique(rows)].sum()),
            "games": len(np.unique(self._drawn.games[rows])),
            "without_result": int(np.isnan(self._z[rows]).sum()),
            "without_judges_move": int((self._drawn.best[rows] == 0).sum()),
            "clock_too_high": self._left_out,
        }


def _passes(drawn: StoreDraw, records: int | None) -> Index:
    """The rows of one pass, or the first `records` rows of as many passes as needed."""
    rows = drawn.one_pass(0)
    if records is None:
        return rows
    passes = [rows, *(drawn.one_pass(number) for number in range(1, -(-records // len(rows))))]
    return np.concatenate(passes)[:records]


def summary(manifest: dict[str, Any], folder: str | os.PathLike[str]) -> list[str]:
    """What `write_chunks` wrote, as lines for the user."""
    records, positions = manifest["records"], manifest["positions"]
    again = f", {records / positions:.1f} times each on average" if records > positions else ""
    lines = [
        f"{os.fspath(folder)}: {quantity(records, 'chunk')} of one record each",
        f"{positions_of_games(positions, manifest['games'])}{again}; {quantity(manifest['candidates'], 'candidate')}",
    ]
    if manifest["options"]["result"] == "game" and (without := manifest["without_result"]):
        lines.append(f"{without:,} records have a result sampled by the judge's value: their games have none")
    if manifest["options"]["policy_share"] and (without := manifest["without_judges_move"]):
        lines.append(f"{without:,} records have the net's policy alone: the judge gave no move")
    if high := manifest["clock_too_high"]:
        lines.append(f"left out: {high:,} records with more than {LAST_CLOCK} plies since a capture or a pawn's move")
    return lines
