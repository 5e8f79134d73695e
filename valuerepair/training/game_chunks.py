"""Training chunks of games from archives: one chunk of V6 records (`chess.v6`) per game, in order.

Unlike games of self-play, these have no searches. So the records have what is known about the games: the played moves,
the result, and the evaluations in the archive or in a store.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair import stop
from valuerepair.archives.open import MAX_RECORDS, find_sources, total_bytes
from valuerepair.archives.options import EVAL, HEADER_FILTERS, SampleOptions
from valuerepair.archives.rows import ReadReport, Rows
from valuerepair.archives.sampling import read_whole_games
from valuerepair.arrays import Floats, Moves
from valuerepair.chess import v6, values
from valuerepair.chess.board import halfmove_clocks, has_legal_move, insufficient_material, legal_moves, parse_fens
from valuerepair.chess.origins import Recorded
from valuerepair.chess.rows import REPETITION, SIXTEEN_BITS, Boards, Index, Keys
from valuerepair.chess.v6 import Records
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.mcts.roots import play_game
from valuerepair.nets.net import Net, NetValues, open_net
from valuerepair.nets.planes import CLASSICAL, is_initial
from valuerepair.nets.policy import policy_indices
from valuerepair.nets.registry import locate
from valuerepair.nets.weights import read_net_file
from valuerepair.play.game import Z
from valuerepair.progress import Progress
from valuerepair.question import Question
from valuerepair.store import alpha as alphas
from valuerepair.store import parts
from valuerepair.store.parts import Split
from valuerepair.store.store import Store
from valuerepair.training.chunk_files import HELD_OUT, are_among, in_order
from valuerepair.training.chunk_output import SHARD_CHUNKS, ChunkOutput
from valuerepair.training.judged import JudgedBoards, held_out_keys
from valuerepair.training.records import LAST_CLOCK, MOST_VISITS, RecordFacts, compressed, divergence, fill_boards

log = logging.getLogger(__name__)

PolicyFrom = Literal["played", "net", "judge"]

NO_RESULT, TOO_LONG, NOTHING_LEFT = "no result", "too long for a chunk", "no position that may be written"
_AT_ONCE = 1024  # positions that the net evaluates together
_CHOOSING = ("game_share", *HEADER_FILTERS, "max_bytes", "seed")  # the sampling options that choose games
# The origin of a value. With the first two known kinds the value of the position after the move has the same scale.
_UNKNOWN, _SAME_SCALE, _JUDGED, _PLAYERS_OWN = range(4)


@dataclass(frozen=True, slots=True, kw_only=True)
class GameChunkOptions:
    """The content of the records of games.

    `input_format` is lc0's id of the planes. `policy` is ``played``: the move that was played; or ``net`` or ``judge``:
    `policy_share` of the policy is the net's priors or the judge's move, and the rest is the played move. `alpha` turns
    centipawns in the games into Q.
    """

    input_format: int = CLASSICAL
    policy: PolicyFrom = "played"
    policy_share: float = 1.0
    alpha: float = values.DEFAULT_ALPHA


# -- one game ---------------------------------------------------------------------------------------------------------


class WholeGame(NamedTuple):
    """A game, and the part of it to write: the positions before moves `begin` to `end`.

    `start` is its first board, `played` uint16[n] are all its moves (absolute squares), `z` its result for White,
    `recorded` the evaluations of the positions before the moves, None if the archive has no evaluation, `final` that of
    the last board. `judged` are rows of `JudgedBoards`, -1 without a row, and `net` the net's values of the written
    positions and the priors of their legal moves, flat.
    """

    start: Boards
    played: Moves
    z: float
    recorded: Sequence[Recorded | None] | None
    final: Recorded | None
    begin: int
    end: int
    judged: Index | None = None
    net: tuple[NetValues, NDArray[np.float32]] | None = None


def whole_game_records(game: WholeGame, options: GameChunkOptions, judge: JudgedBoards | None = None) -> Records:
    """v6.RECORD[end - begin] of a game.

    result_*: the game's. best_* and root_*: the judge's value, else the archive's evaluation, else the result.
    played_*: the value of the position after the move, if known on the same scale, else as best_*. plies_left and all
    *_m but orig_m: to the end of the game. visits: the evaluation's nodes, 1 if it has no count, 0 without evaluation.
    orig_*: the net's, NaN without a net. played_idx: the played move; best_idx: the judge's, else the played move.
    The adjudicated bit is set unless the rules end the game.
    """
    facts = RecordFacts(options.input_format)
    rows = play_game(game.start, game.played)
    plies = np.arange(game.begin, game.end)
    records = np.zeros(len(plies), v6.RECORD)
    black = fill_boards(records, rows, bool(is_initial(game.start)[0]), facts, plies)
    best = _judges_moves(game, judge)
    _fill_policy(records, rows[plies], game, options, best)
    z = np.where(black, -game.z, game.z)
    records["result_q"], records["result_d"] = z, game.z == 0
    _fill_values(records, z, _values_of(game, options.alpha, judge))
    plies_left = len(game.played) - plies
    for name in ("plies_left", "root_m", "best_m", "played_m"):
        records[name] = plies_left
    records["orig_q"] = records["orig_d"] = records["orig_m"] = np.nan
    if game.net is not None:
        net = game.net[0]
        # 0 as in lc0 for nets without draws, and for nets without moves left.
        records["orig_q"], records["orig_d"] = net.q, np.nan_to_num(net.wdl[:, 1])
        records["orig_m"] = np.maximum(np.nan_to_num(net.moves_left), 0)
    if not _is_over(rows[-1:]):
        records["invariance_info"] |= np.uint8(v6.ADJUDICATED)
    return records


def _is_over(last: Boards) -> bool:
    """Whether the rules end the game on this board: no legal move, no mating material, 50 moves, third repetition."""
    repeated = int(last[0, REPETITION] & SIXTEEN_BITS) >= 2
    over = insufficient_material(last)[0] or halfmove_clocks(last)[0] >= LAST_CLOCK or not has_legal_move(last)[0]
    return bool(repeated or over)


def _judges_moves(game: WholeGame, judge: JudgedBoards | None) -> Moves:
    """uint16[m] the judge's move in each written position, 0 without a move."""
    if judge is None or game.judged is None:
        return np.zeros(game.end - game.begin, np.uint16)
    judged = game.judged[game.begin : game.end]
    return np.where(judged >= 0, judge.best[judged], 0).astype(np.uint16)


def _fill_policy(records: Records, rows: Boards, game: WholeGame, options: GameChunkOptions, best: Moves) -> None:
    """Fills the policy, its divergence from the net's, and the indices of the best and the played move."""
    moves, cuts = legal_moves(rows)
    row = np.repeat(np.arange(len(rows)), np.diff(cuts))
    indices = policy_indices(rows, moves, cuts, options.input_format)
    is_played = moves == game.played[game.begin : game.end][row]
    is_best = moves == best[row]
    policy = is_played.astype(np.float64)
    if options.policy == "judge":
        share = np.zeros(len(rows))
        share[row[is_best]] = options.policy_share
        policy = policy * (1 - share[row]) + is_best * share[row]
    if game.net is not None:
        priors = game.net[1].astype(np.float64)
        if options.policy == "net":
            policy = policy * (1 - options.policy_share) + priors * options.policy_share
        records["policy_kld"] = divergence(policy, priors, row, len(rows))
    records["probabilities"] = -1
    records["probabilities"][row, indices] = policy
    records["played_idx"] = records["best_idx"] = indices[is_played]
    records["best_idx"][row[is_best]] = indices[is_best]


class _Values(NamedTuple):
    """Values of written positions: Q and the probability of a draw, NaN where unknown, their nodes, and their
    origin."""

    q: Floats
    d: Floats
    nodes: Index
    origin: Index


def _values_of(game: WholeGame, alpha: float, judge: JudgedBoards | None) -> _Values:
    """The known values of each written position, and of the one after the last written move."""
    n = game.end + 1 - game.begin
    q, d, nodes, origin = np.full(n, np.nan), np.full(n, np.nan), np.zeros(n, np.int64), np.zeros(n, np.int64)
    recorded = [] if game.recorded is None else [*game.recorded[game.begin : game.end + 1]]
    if game.end == len(game.played):
        recorded.append(game.final)
    evaluated = [i for i, evaluation in enumerate(recorded) if evaluation is not None]
    if evaluated:
        evaluations = [evaluation for evaluation in recorded if evaluation is not None]
        q[evaluated], d[evaluated] = recorded_values(evaluations, alpha)
        nodes[evaluated] = [max(evaluation.nodes, 1) for evaluation in evaluations]
        origin[evaluated] = [_SAME_SCALE if evaluation.kind == EVAL else _PLAYERS_OWN for evaluation in evaluations]
    if judge is not None and game.judged is not None:
        judged = game.judged[game.begin : game.end + 1]
        rows = np.flatnonzero(judged >= 0)
        wdl = judge.wdl[judged[rows]].astype(np.float64)
        q[rows], d[rows] = wdl[:, 0] - wdl[:, 2], wdl[:, 1]
        nodes[rows], origin[rows] = np.maximum(judge.nodes[judged[rows]], 1), _JUDGED
    origin[np.isnan(q)] = _UNKNOWN
    return _Values(q, d, nodes, origin)


def recorded_values(evaluations: Sequence[Recorded], alpha: float) -> tuple[Floats, Floats]:
    """Q and the probability of a draw of evaluations in games, float64[n] from the side to move.

    An evaluation with W/D/L gives the draws, limited to the room that Q leaves; without W/D/L they are
    ``(1 - q * q) / 2``, those of two independent halves.
    """
    rows = [(score.cp, score.mate, *(score.wdl or (None, None, None)), score.q) for score in evaluations]
    scores = np.array(rows, np.float64).reshape(-1, 6)
    q = np.clip(values.deep_q(scores, alpha), -1, 1)
    draws = scores[:, 3] / scores[:, 2:5].sum(1)
    return q, np.where(np.isnan(draws), (1 - q * q) / 2, np.minimum(draws, 1 - np.abs(q)))


def _fill_values(records: Records, z: Floats, columns: _Values) -> None:
    """Fills best_*, root_*, played_* and visits."""
    n = len(records)
    is_known = columns.origin[:n] != _UNKNOWN
    q, d = np.where(is_known, columns.q[:n], z), np.where(is_known, columns.d[:n], z == 0)
    for name in ("root", "best", "played"):
        records[f"{name}_q"], records[f"{name}_d"] = q, d
    origin, after = columns.origin[:-1], columns.origin[1:]
    # The judge's own move has the value of its search.
    judged = (origin == _JUDGED) & (records["best_idx"] != records["played_idx"])
    next_known = np.flatnonzero((origin == after) & ((origin == _SAME_SCALE) | judged))
    records["played_q"][next_known] = -columns.q[next_known + 1]
    records["played_d"][next_known] = columns.d[next_known + 1]
    records["visits"] = np.where(is_known, np.minimum(columns.nodes[:n], MOST_VISITS), 0)
    if is_known.any():
        records["visits"][-1] = max(records["visits"][-1], 1)  # with 0 lc0's rescorer would not deblunder the game


# -- archives ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class GameCounts:
    """Counts of the parsed games.

    `left_out` counts games by reason. Of the written games: all `records`, those `evaluated` in the archive, and those
    `judged` by the store. Records that were cut off: `cut_before`, up to the last position that the store holds out;
    `cut_behind`, from the first position that has held-out material or follows more than `LAST_CLOCK` plies without a
    capture or a pawn's move.
    """

    left_out: Counter[str] = field(default_factory=Counter)
    records: int = 0
    evaluated: int = 0
    judged: int = 0
    cut_before: int = 0
    cut_behind: int = 0


@dataclass(frozen=True, slots=True)
class GameChunksSummary:
    """The chunks of games in a `folder`; `manifest` is None after an interruption, with `chunks` complete chunks."""

    manifest: dict[str, Any] | None
    report: ReadReport
    folder: str
    chunks: int

    @property
    def interrupted(self) -> bool:
        return self.manifest is None

    @property
    def broken_off(self) -> Sequence[tuple[str, str]]:
        """The archives that break off, each with where."""
        return self.report.truncated

    def lines(self) -> list[str]:
        """For a terminal."""
        if self.manifest is None and not self.chunks:
            return [
                f"{self.folder}: nothing is kept of less than {SHARD_CHUNKS:,} games; the same command begins again"
            ]
        if self.manifest is None:
            return [f"{self.folder}: {self.chunks:,} games are complete; the same command resumes"]
        manifest = self.manifest
        lines = [f"{self.folder}: {manifest['chunks']:,} games, {manifest['records']:,} records"]
        evaluated = [f"{manifest[name]:,} {words}" for name, words in _EVALUATED if manifest[name]]
        if evaluated:
            lines.append(f"values: {', '.join(evaluated)}; all others have the result of the game")
        reasons = Counter({**self.report.rejected, **manifest["left_out"]})
        if reasons:
            listed = ", ".join(f"{count:,} {reason}" for reason, count in reasons.most_common())
            lines.append(f"left out of {self.report.games - self.report.not_sampled:,} games: {listed}")
        lines += [f"cut off games: {manifest[name]:,} records {words}" for name, words in _CUT if manifest[name]]
        return lines


_EVALUATED = (("evaluated", "from evaluations in the games"), ("judged", "of the store's judge"))
_CUT = (
    ("cut_before", "up to the last position that is held out"),
    ("cut_behind", f"after a held-out ending, or {LAST_CLOCK} plies without a capture or a pawn's move"),
)


def write_game_chunks(
    archives: Sequence[str],
    folder: str | os.PathLike[str],
    sample: SampleOptions | None = None,
    *,
    policy: PolicyFrom = "played",
    policy_share: float = 1.0,
    net: str | None = None,
    store: Store | None = None,
    question: Question | None = None,
    progress: Progress,
) -> GameChunksSummary:
    """Writes each game of archives that has a result as a chunk, in order.

    `sample` selects the games (its filters by headers, share, seed, threads; filters of positions have no effect).
    `policy` and `policy_share` are those of `GameChunkOptions`. `net` (a name or a file) gives the input format, and
    the policy if that is asked for. The values of the `store`'s judge by `question` take
    precedence over the games' own evaluations, which are read by the question's alpha. Games that the store's split
    holds out are left out, and in other games the positions that `Split.free_plies` excludes, and those up to the last
    one that the store has and not in its part ``train``.
    The same call resumes an interrupted one. Raises UsageError and ValueRepairError, also if no game can be written.
    """
    sample, question = sample or SampleOptions(), question or Question()
    if policy == "net" and net is None:
        raise UsageError("--policy net: give the net by --net")
    if policy == "judge" and store is None:
        raise UsageError("--policy judge: give the store that has its moves by --db")
    size = total_bytes(archives)  # raises for a missing file, before anything is loaded
    alpha = values.DEFAULT_ALPHA if question.alpha is None else question.alpha
    options = GameChunkOptions(input_format=_input_format(net), policy=policy, policy_share=policy_share, alpha=alpha)
    with ExitStack() as stack:
        policy_net = None
        if net is not None and options.policy == "net":
            policy_net = stack.enter_context(open_net(net))
        judge, split = None, None
        if store is not None:
            training_question, notes = alphas.for_training(store, question)
            for line in notes:
                log.info(line)
            judge, split = JudgedBoards.of(store, training_question), parts.split_of(store)
        progress.set_total(size)
        games = _Games(archives, sample, options, policy_net, judge, split, held_out_keys(store), progress)
        output = stack.enter_context(ChunkOutput(folder, games.identity()))
        stack.enter_context(stop.flag())

        def pack(game: WholeGame) -> tuple[bytes, int]:
            records = whole_game_records(game, options, judge)
            return compressed(records.view(np.uint8).data), len(records)

        with closing(in_order(pack, games.after(output.chunks))) as chunks:
            for _, (packed, records) in chunks:
                output.add(packed, records)
                progress.note(f"{output.chunks:,} games, {output.records:,} records")
                if stop.asked():
                    return GameChunksSummary(None, games.report, os.fspath(folder), output.complete)
        games.check_any()
        manifest = output.finish(games.figures())
    return GameChunksSummary(manifest, games.report, os.fspath(folder), output.chunks)


def _input_format(net: str | None) -> int:
    """The net's input format, else the classical one."""
    header = None if net is None else read_net_file(locate(net)).header
    return CLASSICAL if header is None else header.input_format


class _Games:
    """The games to write, in order, as the archives are read."""

    def __init__(
        self,
        archives: Sequence[str],
        sample: SampleOptions,
        options: GameChunkOptions,
        net: Net | None,
        judge: JudgedBoards | None,
        split: Split | None,
        held_out: Keys,
        progress: Progress,
    ) -> None:
        self.report, self.counts = ReadReport(), GameCounts()
        self._archives, self._sample, self._options = archives, sample, options
        self._net, self._judge, self._split, self._progress = net, judge, split, progress
        self._held_out, self._bytes = held_out, 0

    def identity(self) -> dict[str, Any]:
        """Everything that the chunks depend on."""
        sources, net, judge = find_sources(self._archives), self._net, self._judge
        sample, plain = asdict(self._sample), asdict(SampleOptions())
        return {
            "archives": [
                {"name": source.path, "bytes": None if source.read_once else os.path.getsize(source.path)}
                for source in sources
            ],
            "games": {name: sample[name] for name in _CHOOSING if sample[name] != plain[name]},
            "net": None if net is None else {"name": net.identity.name, "sha256": net.identity.key},
            "judge": None
            if judge is None
            else {
                "oracle": judge.attrs["oracle"]["label"],
                "alpha": judge.attrs["alpha"]["value"],
                "values": len(judge.keys),
                "sha256": judge.digest(),
                "held_out": len(self._held_out),
            },
            "split": None if self._split is None else self._split.as_json(),
            "options": asdict(self._options),
        }

    def figures(self) -> dict[str, Any]:
        """The counts of a manifest."""
        report = self.report
        read = {
            "games": report.games,
            "not_sampled": report.not_sampled,
            "rejected": dict(sorted(report.rejected.items())),
            "truncated": [list(broken) for broken in report.truncated],
        }
        names = [count.name for count in fields(self.counts) if count.name != "records"]
        counts = {name: getattr(self.counts, name) for name in names}
        return {"read": read, **counts}

    def check_any(self) -> None:
        """Raises ValueRepairError if there was no game to write."""
        if not self.counts.records:
            left_out = self.report.rejected + self.counts.left_out
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items())
            raise ValueRepairError(f"{', '.join(self._archives)}: no game to write; left out: {reasons or 'nothing'}")

    def after(self, skipped: int) -> Iterator[WholeGame]:
        """The games after the first `skipped`, which are still counted."""
        number = 0
        for rows in read_whole_games(self._archives, self._sample, self.report, on_bytes=self._count_bytes):
            self._progress.advance(self._bytes - self._progress.done)
            chosen = self._chosen(rows)
            for _, game in chosen:
                self._count(game)
            new = chosen[max(skipped - number, 0) :]
            yield from (game for _, game in new) if self._net is None else self._evaluated(rows, new, self._net)
            number += len(chosen)

    def _count_bytes(self, count: int) -> None:
        self._bytes += count

    def _chosen(self, rows: Rows) -> list[tuple[int, WholeGame]]:
        """The games of a block that are written, each with its first row."""
        games = np.unique(rows.game)
        cuts = np.searchsorted(rows.game, [*games.tolist(), games[-1] + 1])
        clocks = halfmove_clocks(rows.boards)
        judged = None
        if self._judge is not None:
            judged, _ = self._judge.rows(rows.keys, clocks, _is_repeated(rows))
        held = are_among(rows.keys, self._held_out)
        chosen = []
        for g, first, last in zip(games.tolist(), cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            game = self._game(rows, g, first, last, judged)
            if isinstance(game, str):
                self.counts.left_out[game] += 1
                continue
            held_plies = np.flatnonzero(held[first:last])
            high_clocks = np.flatnonzero(clocks[first:last] > LAST_CLOCK)
            begin = int(held_plies[-1]) + 1 if len(held_plies) else 0
            end = min(game.end, int(high_clocks[0])) if len(high_clocks) else game.end
            if begin >= end:
                self.counts.left_out[NOTHING_LEFT] += 1
                continue
            chosen.append((first, game._replace(begin=begin, end=end)))
        return chosen

    def _game(self, rows: Rows, g: int, first: int, last: int, judged: Index | None) -> WholeGame | str:
        """A whole game, or the reason to leave it out."""
        z = Z.get(rows.results[g] or "")
        if z is None:
            return NO_RESULT
        if last - first > MAX_RECORDS:
            return TOO_LONG
        boards, free = rows.boards[first:last], last - first
        if self._split is not None:
            free = self._split.free_plies(rows.origin_of(g), boards)
            if not free:
                return HELD_OUT
        assert rows.played is not None
        return WholeGame(
            parse_fens([rows.starts[g]]) if g in rows.starts else boards[:1],
            rows.played[first:last],
            z,
            None if rows.recorded is None else rows.recorded[first:last],
            rows.final.get(g),
            0,
            free,
            None if judged is None else judged[first:last],
        )

    def _count(self, game: WholeGame) -> None:
        counts, begin, end = self.counts, game.begin, game.end
        counts.records += end - begin
        counts.cut_before += begin
        counts.cut_behind += len(game.played) - end
        judged = np.zeros(end - begin, np.bool_) if game.judged is None else game.judged[begin:end] >= 0
        counts.judged += int(judged.sum())
        if game.recorded is not None:
            is_recorded = [evaluation is not None for evaluation in game.recorded[begin:end]]
            counts.evaluated += int((np.array(is_recorded) & ~judged).sum())

    def _evaluated(self, rows: Rows, games: list[tuple[int, WholeGame]], net: Net) -> Iterator[WholeGame]:
        """The games with the net's values, evaluated in batches of several games."""
        while games:
            sizes = np.cumsum([game.end - game.begin for _, game in games])
            count = int(np.searchsorted(sizes, _AT_ONCE)) + 1
            batch, games = games[:count], games[count:]
            chosen = np.zeros(len(rows.keys), np.bool_)
            for first, game in batch:
                chosen[first + game.begin : first + game.end] = True
            values, (_, cuts, priors) = net.evaluate_with_priors(rows.batch(chosen))
            begin = 0
            for _, game in batch:
                end = begin + game.end - game.begin
                part = NetValues(*(getattr(values, name)[begin:end] for name in NetValues.__slots__))
                yield game._replace(net=(part, priors[cuts[begin] : cuts[end]]))
                begin = end


def _is_repeated(rows: Rows) -> NDArray[np.bool_]:
    """[n] whether the position occurred before in the same game."""
    order = np.lexsort((rows.keys, rows.game))  # stable: the first of a game's equal positions stays the first
    is_again = (np.diff(rows.game[order]) == 0) & (rows.keys[order][1:] == rows.keys[order][:-1])
    repeated = np.zeros(len(order), np.bool_)
    repeated[order[1:][is_again]] = True
    return repeated
