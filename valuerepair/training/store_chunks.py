"""Training chunks from a store's judged positions: one V6 record (`chess.v6`) per position, one record per chunk.

lc0's rescorer decodes the move between consecutive records of a chunk, and lczero-training's loader flips the sign of Q
from record to record. So a chunk with several records would need consecutive positions of a game.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.select import salt, scrambled
from valuerepair.arrays import Floats, Moves
from valuerepair.chess import v6
from valuerepair.chess.board import parse_fens
from valuerepair.chess.origins import GAME
from valuerepair.chess.positions import PositionBatch
from valuerepair.chess.rows import Index
from valuerepair.chess.v6 import Records
from valuerepair.errors import ValueRepairError
from valuerepair.nets.net import Net, NetValues, Priors
from valuerepair.nets.policy import policy_indices
from valuerepair.progress import Progress
from valuerepair.question import Question
from valuerepair.store import view
from valuerepair.store.store import Store
from valuerepair.text import positions_of_games, quantity
from valuerepair.training.chunk_output import ChunkOutput
from valuerepair.training.judged import JudgedPositions
from valuerepair.training.records import LAST_CLOCK, MOST_VISITS, RecordFacts, compressed, divergence, fill_positions
from valuerepair.training.samples import chances, sampled_results

Result = Literal["game", "judge"]

_BATCH = 1024  # positions that the net evaluates together
_RESULTS = {"1-0": 1, "1/2-1/2": 0, "0-1": -1}  # White's


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
    judged: JudgedBatch,
    net: NetValues,
    priors: Priors,
    facts: RecordFacts,
    *,
    share: float = 0.0,
    result: Result = "judge",
) -> Records:
    """v6.RECORD[n], a chunk for each position; `net` and `priors` are the net's values and policies of the positions.

    best_*, root_* and played_*: the judge's value. result_*: with `result` ``game`` that of the game; if it is unknown,
    and with ``judge``, a win, draw or loss drawn by the judge's W/D/L, because lc0's rescorer refuses other numbers.
    orig_*: the net's value. probabilities: the net's policy, with the `share` for the judge's best move; -1 for illegal
    moves. policy_kld: KL(written policy || net's policy). best_idx and played_idx: the judge's best move, or the net's
    if the judge gave none. visits: the judge's nodes. *_m and plies_left: the net's moves left, else 0. Each position
    needs a legal move.
    """
    records = np.zeros(len(judged.batch), v6.RECORD)
    fill_positions(records, judged.batch, facts)
    _fill_policy(records, judged, net.best_move, priors, facts.input_format, share)
    _fill_values(records, judged, net, result)
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


def _fill_values(records: Records, judged: JudgedBatch, net: NetValues, result: Result) -> None:
    q, d = judged.wdl[:, 0] - judged.wdl[:, 2], judged.wdl[:, 1]
    moves_left = np.maximum(np.nan_to_num(net.moves_left), 0)  # lc0's rescorer refuses others
    for name in ("root", "best", "played"):
        records[f"{name}_q"], records[f"{name}_d"], records[f"{name}_m"] = q, d, moves_left
    records["plies_left"] = moves_left
    z = sampled_results(judged.wdl, judged.chance)
    z = np.where(np.isnan(judged.z), z, judged.z) if result == "game" else z
    records["result_q"], records["result_d"] = z, z == 0
    # Like lc0, write 0 for a net without a probability of draws or without moves left.
    records["orig_q"], records["orig_d"] = net.q, np.nan_to_num(net.wdl[:, 1])
    records["orig_m"] = moves_left
    records["visits"] = np.clip(judged.nodes, 1, MOST_VISITS)


# -- from a store -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoreChunks:
    """The chunks of a store's positions in a `folder`; `manifest` is the content of its manifest.json."""

    folder: str
    manifest: Mapping[str, Any]

    @property
    def broken_off(self) -> Sequence[tuple[str, str]]:
        """Archives that break off: none were read."""
        return ()

    def lines(self) -> list[str]:
        """For a terminal."""
        manifest = self.manifest
        lines = [
            f"{self.folder}: {quantity(manifest['records'], 'chunk')} of one record each",
            f"{positions_of_games(manifest['records'], manifest['games'])}; "
            f"{quantity(manifest['candidates'], 'candidate')}",
        ]
        if manifest["result"] == "game" and (without := manifest["without_result"]):
            lines.append(f"{without:,} records have a result drawn by the judge's value: their games have none")
        if manifest["policy_share"] and (without := manifest["without_judges_move"]):
            lines.append(f"{without:,} records have the net's policy alone: the judge gave no move")
        if high := manifest["clock_too_high"]:
            lines.append(
                f"left out: {high:,} records with more than {LAST_CLOCK} plies since a capture or a pawn's move"
            )
        return lines


def write_store_chunks(
    store: Store,
    folder: str | os.PathLike[str],
    net: Net,
    question: Question,
    *,
    policy_share: float = 0.0,
    result: Result = "judge",
    progress: Progress,
) -> StoreChunks:
    """Writes a chunk for each judged position that `vr train` would learn from.

    `net` is the question's net, opened; `policy_share` and `result` are those of `position_records`. The same call
    resumes an interrupted one. Raises UsageError and ValueRepairError.
    """
    judged = JudgedPositions(store, question)
    facts = RecordFacts(net.identity.input_format, 1.0)
    rows = _JudgedRows(store, judged)
    run = {
        "store": rows.digest(),
        "net": {"name": net.identity.name, "sha256": net.identity.key},
        "policy_share": policy_share,
        "result": result,
    }
    with ChunkOutput(folder, run) as output:
        progress.set_total(len(rows.rows) - output.chunks)
        for batch in rows.batches(store, output.chunks):
            priors = net.evaluate_with_priors(batch.batch)
            records = position_records(batch, *priors, facts, share=policy_share, result=result)
            for record in records.view(np.uint8).reshape(len(records), -1):
                output.add(compressed(record.data), 1)
            progress.advance(len(records))
        return StoreChunks(os.fspath(folder), output.finish(rows.counts()))


class _JudgedRows:
    """The positions to write and their values in the store: ``rows[i]`` becomes chunk i. Candidates come first."""

    def __init__(self, store: Store, judged: JudgedPositions) -> None:
        self._judged = judged
        names = ("position_id", "fen", "side", "played", "result", "kind")
        frame = view.frame(store, judged.question, only=names, screened=True)
        frame = frame.iloc[np.searchsorted(frame["position_id"].to_numpy(np.int64), judged.ids)]
        # Positions of a game have a played move: those that were reached from it have not its result.
        in_game = frame["played"].notna() & (frame["kind"] == GAME)
        z = frame["result"].map(_RESULTS).where(in_game).to_numpy(np.float32)
        self._z = np.where((frame["side"] == "w").to_numpy(), z, -z)
        clock = np.array([int(fen.split()[4]) for fen in frame["fen"]], np.int64)
        order = np.lexsort((scrambled(judged.keys ^ salt(0, "pass", 0)), ~judged.is_candidate))
        self.rows = order[clock[order] <= LAST_CLOCK]
        if not len(self.rows):
            raise ValueRepairError(
                f"{judged.path}: all positions have more than {LAST_CLOCK} plies since a capture or a pawn's move; "
                "lc0 does not read their records"
            )

    def batches(self, store: Store, begin: int) -> Iterator[JudgedBatch]:
        """The positions to write, from chunk `begin` on."""
        judged = self._judged
        for first in range(begin, len(self.rows), _BATCH):
            rows = self.rows[first : first + _BATCH]
            number = np.arange(first, first + len(rows), dtype=np.uint64)
            yield JudgedBatch(
                store.positions(judged.ids[rows]),
                judged.wdl(rows),
                judged.best[rows],
                judged.nodes[rows],
                self._z[rows],
                chances(judged.keys[rows] ^ scrambled(number) ^ salt(0, "result")),
            )

    def digest(self) -> str:
        """SHA-256 of the positions and their values."""
        judged, rows = self._judged, self.rows
        columns = (judged.keys[rows], judged.best[rows], judged.deep_q[rows], judged.wdl(rows), self._z[rows])
        return hashlib.sha256(b"".join(np.ascontiguousarray(column).tobytes() for column in columns)).hexdigest()

    def counts(self) -> dict[str, int]:
        """The counts of the manifest: games and candidates, unknown values among them, and positions left out."""
        judged, rows = self._judged, self.rows
        return {
            "candidates": int(judged.is_candidate[rows].sum()),
            "games": len(np.unique(judged.games[rows])),
            "without_result": int(np.isnan(self._z[rows]).sum()),
            "without_judges_move": int((judged.best[rows] == 0).sum()),
            "clock_too_high": len(judged.ids) - len(rows),
        }
