"""The starting point of an expansion, with the games that its positions come from, and its results."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import read_games
from valuerepair.arrays import Floats, Moves
from valuerepair.chess import values
from valuerepair.chess.positions import PositionBatch, encode_moves
from valuerepair.errors import ValueRepairError
from valuerepair.judge.split import TRAIN, Split, split_file, warning_of_held_out
from valuerepair.nets.net import NetFacts
from valuerepair.question import Question, is_candidate
from valuerepair.runs.summary import NOT_DONE, Deep, next_command
from valuerepair.store import reached
from valuerepair.store.reached import ExpansionSource, NeighbourOutcome, games_by_archive
from valuerepair.store.rows import OracleIdentity, game_row
from valuerepair.store.store import Store
from valuerepair.text import format_duration, format_nodes, format_rate, quantity

log = logging.getLogger(__name__)

_SAMPLED_COLUMNS = ("disagreement", "position_id", "weight", "nodes", "game_id")


@dataclass
class ExpansionTally:
    """The counts of an expansion so far, including earlier runs of the same work: positions `planned` to be searched
    and their `nodes`, the positions that screening `cut`, candidates `found` by search and `inferred`."""

    planned: int = 0
    nodes: int = 0
    cut: int = 0
    found: int = 0
    inferred: int = 0

    def add(self, outcome: NeighbourOutcome, *, found: bool, own: bool = True) -> None:
        """Counts a search; one that is not the expansion's `own` was already in the store."""
        self.found += found
        if own:
            self.nodes, self.cut = self.nodes + outcome.nodes, self.cut + outcome.cut


@dataclass(frozen=True)
class Expansion:
    """The starting point of an expansion: net and oracle, the question with its alpha, the sampled candidates (those of
    a split's part ``train``), and the file of the store's split.

    Sampling found `sampled_found` candidates with `sampled_nodes` nodes.
    """

    store: Store
    pair: tuple[int, int]
    names: tuple[str, str]
    question: Question
    alpha: values.Alpha
    candidates: NDArray[np.int64]
    sampled_found: int
    sampled_nodes: int
    net: str
    oracle: str
    pair_options: Sequence[str]
    split_file: str
    tally: ExpansionTally = field(default_factory=ExpansionTally)

    @staticmethod
    def of(
        store: Store, net: NetFacts, oracle: OracleIdentity, question: Question, split: Split | None = None
    ) -> Expansion:
        """Reads the starting point from the store. Raises ValueRepairError if there is no candidate."""
        names = (net.identity.key, oracle.digest)
        question = replace(question, net=names[0], oracle=names[1], expanded="no")
        frame = store.frame(question, only=("position_id", "disagreement"))
        is_hit = is_candidate(frame["disagreement"], question.threshold)
        candidates = frame.loc[is_hit, "position_id"].to_numpy(np.int64)
        chosen = candidates if split is None else candidates[split.parts(store, candidates) == TRAIN]
        if (warning := warning_of_held_out(store, chosen, split)) is not None:
            log.warning(warning)
        if not len(chosen):
            reason = f"the split holds out all {len(candidates):,} candidates" if len(candidates) else "no candidates"
            raise ValueRepairError(
                f"{store.path}: {reason} at {question.threshold:g} to start from; mine more, or lower --threshold"
            )
        pair = store.pick(*names)
        alpha = store.alpha(*pair, question.alpha)
        return Expansion(
            store, pair, names, replace(question, alpha=alpha.value), alpha, chosen, len(candidates),
            reached.sampled_nodes(store, *pair), net.identity.name, oracle.label, store.pair_options(*pair),
            split_file(store),
        )  # fmt: skip

    def roots(self, seed: int) -> list[int]:
        """The candidates, in the order in which the expansion visits them."""
        order: list[int] = np.random.default_rng(seed).permutation(self.candidates).tolist()
        return order

    def deep_q(self, deep: Sequence[Deep]) -> Floats:
        """[n] Q of deep scores, by the question's alpha."""
        assert self.question.alpha is not None
        cells = np.array(deep, np.float64).reshape(-1, 6)
        return values.deep_q(cells, self.question.alpha, self.question.q_from)

    def full_nodes(self, oracle: OracleIdentity) -> float:
        """The nodes of a full search; if the oracle has another limit, the nodes per sampled candidate."""
        return float(oracle.limits.get("nodes") or max(self.sampled_nodes / self.sampled_found, 1))

    def price(self, oracle: OracleIdentity) -> float:
        """The cost of a sampled candidate in full searches, at least 1: the price of losing a candidate here."""
        return max(self.sampled_nodes / self.sampled_found / self.full_nodes(oracle), 1.0)

    def read(self, queued: Sequence[tuple[int, int, int]]) -> list[ExpansionSource]:
        """Reads sources, given as (position_id, root, round), from the store."""
        assert self.question.alpha is not None
        return reached.sources(self.store, *self.pair, queued, self.question.alpha, self.question.q_from)

    def is_poorer(self, candidates: int, nodes: int) -> bool:
        """Whether these candidates per node are significantly fewer than those of sampled positions.

        By the upper end of the exact 95 % interval of a Poisson count (F. Garwood, Biometrika 28, 1936).
        """
        from scipy.special import gammaincinv

        if not self.sampled_nodes:
            return False
        return bool(gammaincinv(candidates + 1, 0.975) / nodes < self.sampled_found / self.sampled_nodes)


@dataclass(frozen=True)
class ExpandSummary:
    """The end of one run.

    `state` is ``finished``, ``limited`` (by positions) or ``interrupted`` (by a signal); `why` it ended: ``positions``,
    ``yield``, ``everything``. `tally` counts the whole expansion, `nodes` and `seconds` only this run. `workers` is the
    number of searches at a time.
    """

    state: str
    why: str
    start: Expansion
    seconds: float
    nodes: int
    workers: int
    failed: int

    @property
    def tally(self) -> ExpansionTally:
        return self.start.tally

    def counts(self) -> dict[str, Any]:
        """The counts that the store records, however often the run was interrupted."""
        tally = asdict(self.tally)
        return {"roots": len(self.start.candidates), **tally, "failed": self.failed, "why": self.why}

    def lines(self) -> list[str]:
        """The summary for a terminal, with what to do next."""
        start, tally = self.start, self.tally
        ended = "interrupted" if self.state == "interrupted" else _REASONS[self.why]
        speed = f", {format_rate(self.nodes / self.seconds)}" if self.seconds and self.nodes else ""
        return [
            f"{start.net} against {start.oracle}, {start.alpha.source(start.question.q_from)}",
            f"from {quantity(len(start.candidates), 'candidate')} at {start.question.threshold:g}: {ended}",
            f"searched: {tally.planned:,} positions, {self.workers} at once, {tally.cut:,} cut by screening, "
            f"{self.failed:,} failed; {format_nodes(tally.nodes)}; {format_duration(self.seconds)}{speed}",
            f"found: {tally.found:,} candidates, and {tally.inferred:,} by the lines of searches",
            "",
            *self._next(),
        ]

    def _next(self) -> list[str]:
        start, question = self.start, self.start.question
        if self.state == "interrupted":
            return [NOT_DONE]
        if self.tally.found or self.tally.inferred:
            words = (start.store.path, start.pair_options, question.threshold, start.alpha, question.q_from)
            books = next_command("vr books", *words, expanded="all", split=start.split_file)
            return [f"next: {books}"]
        return ["no further candidates: mine more"]


_REASONS = {
    "positions": "the requested number of positions was searched",
    "yield": "searches now find fewer candidates than in the archive",
    "everything": "all positions around them were examined",
}


_NAMES_SHOWN = 3


@dataclass(frozen=True)
class KnownGames:
    """Games of a store whose archives can be read again: by archive, the number and the digest of each game."""

    games: dict[str, dict[int, int]]

    @staticmethod
    def of(store: Store, ids: Sequence[int]) -> KnownGames:
        """The games of these positions; logs missing archives and leaves them out."""
        by_archive = games_by_archive(store, ids)
        missing = [name for name in by_archive if not os.path.isfile(name)]
        if missing:
            more = f" and {len(missing) - _NAMES_SHOWN} more" if len(missing) > _NAMES_SHOWN else ""
            count = sum(len(by_archive[name]) for name in missing)
            log.info(
                f"{', '.join(missing[:_NAMES_SHOWN])}{more}: not found, so {count:,} games are known only as far as "
                "the store has them; run vr expand where the archives are, unchanged since mining"
            )
        return KnownGames({name: games for name, games in by_archive.items() if name not in missing})

    def __len__(self) -> int:
        return sum(len(games) for games in self.games.values())

    def positions(self) -> Iterator[PositionBatch]:
        """All positions of the games in which a move was played, in batches of complete games, in the archives' order.

        Games that have changed since mining are left out, and logged.
        """
        changed_archives = dict[str, None]()
        for batch in read_games(self.games, ReadReport()):
            games = batch.origin.game
            changed = np.array([game_row(game)[2] != self.games[game.source][game.number] for game in games], np.bool_)
            changed_archives |= dict.fromkeys(games[i].source for i in np.flatnonzero(changed).tolist())
            yield batch.take(np.flatnonzero(~changed)) if changed.any() else batch
        for name in changed_archives:
            log.info(f"{name} has changed since it was mined: games that have changed are left out")

    def following(self, sources: Sequence[ExpansionSource]) -> list[Moves]:
        """The moves played from each source on; if its archive is missing, only the one move that the store has."""
        return [self._moves_from(source) for source in sources]

    def _moves_from(self, source: ExpansionSource) -> Moves:
        moves = self._moves.get((source.game.source, source.game.number))
        ply = len(source.moves)
        if moves is None or not source.in_game or not np.array_equal(moves[:ply], source.moves):
            return source.following
        return moves[ply:]

    @cached_property
    def _moves(self) -> dict[tuple[str, int], Moves]:
        """All moves of each game, by archive and number."""
        moves: dict[tuple[str, int], Moves] = {}
        for batch in self.positions():
            # The history of the last position in which a move was played has all moves before it.
            for i, game in enumerate(batch.origin.game):
                if i + 1 == len(batch) or batch.origin.game[i + 1] != game:
                    played = batch.origin.played[i]
                    last = encode_moves([played] if played else [])
                    before = batch.moves[batch.offsets[i] : batch.offsets[i + 1]]
                    moves[game.source, game.number] = np.concatenate([before, last])
        return moves
