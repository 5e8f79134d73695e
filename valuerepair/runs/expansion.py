"""What an expansion starts from, and what it came to."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.chess import values
from valuerepair.chess.positions import PositionBatch, encode_moves
from valuerepair.chess.progress import format_duration, format_rate
from valuerepair.errors import ValueRepairError
from valuerepair.intervals import Rate, wilson
from valuerepair.nets.net import NetFacts
from valuerepair.oracles.oracle import DeepResult, OracleIdentity
from valuerepair.question import Question
from valuerepair.runs.neighbourhood import CHILD, GAME, LINE, PARENT, Source
from valuerepair.runs.summary import Deep
from valuerepair.store import DEFAULT_PATH
from valuerepair.store import expanded as reached
from valuerepair.store.expanded import Outcome
from valuerepair.store.rows import INFERRED
from valuerepair.store.store import Store

Floats = NDArray[np.float64]

_TOLD = {PARENT: "parents", CHILD: "children", GAME: "game", LINE: "line, audited"}


@dataclass
class StepTally:
    """Searches by one step: `tried`, `found`, their nodes; of those `drawn` by chance the first two once more."""

    tried: int = 0
    found: int = 0
    nodes: int = 0
    drawn: int = 0
    drawn_found: int = 0


@dataclass
class Tally:
    """What an expansion has come to so far, earlier runs of the same work included."""

    planned: int = 0
    nodes: int = 0
    found: int = 0
    inferred: int = 0
    inferred_found: int = 0
    cut: int = 0
    steps: dict[str, StepTally] = field(default_factory=dict)
    rounds: dict[int, Counter[str]] = field(default_factory=dict)
    families: Counter[int] = field(default_factory=Counter)  # candidates found, by root

    def add(self, step: str, root: int, round_: int, outcome: Outcome, *, found: bool, drawn: bool) -> None:
        """Takes note of a search."""
        if outcome.failed is not None:
            return
        of = self.steps.setdefault(step, StepTally())
        of.tried, of.found, of.nodes = of.tried + 1, of.found + found, of.nodes + outcome.nodes
        of.drawn, of.drawn_found = of.drawn + drawn, of.drawn_found + (drawn and found)
        self.nodes, self.found, self.cut = self.nodes + outcome.nodes, self.found + found, self.cut + outcome.cut
        self.rounds.setdefault(round_, Counter()).update(searched=1, found=int(found))
        if found and step != LINE:
            self.families[root] += 1

    def infer(self, root: int, round_: int, *, found: bool) -> None:
        """Takes note of an inferred value."""
        self.inferred, self.inferred_found = self.inferred + 1, self.inferred_found + found
        self.rounds.setdefault(round_, Counter()).update(inferred=1, inferred_found=int(found))
        if found:
            self.families[root] += 1


@dataclass(frozen=True)
class Expansion:
    """Where an expansion goes out from: net and oracle, the question with its alpha, the sampled candidates.

    `sampled_found` candidates were found among sampled positions at `sampled_nodes`.
    """

    store: Store
    pair: tuple[int, int]
    names: tuple[str, str]
    question: Question
    alpha: values.Alpha
    candidates: NDArray[np.int64]
    sampled_nodes: int
    net: str
    oracle: str
    tally: Tally = field(default_factory=Tally)

    @staticmethod
    def of(store: Store, net: NetFacts, oracle: OracleIdentity, question: Question) -> Expansion:
        """Reads it from the store. Raises ValueRepairError where there is no candidate."""
        names = (net.identity.key, oracle.digest)
        asked = replace(question, net=names[0], oracle=names[1], expanded="no")
        frame = store.frame(asked, only=("position_id", "disagreement"))
        found = frame.loc[frame["disagreement"].abs() >= asked.threshold, "position_id"].to_numpy(np.int64)
        if not len(found):
            raise ValueRepairError(
                f"{store.path}: no candidates at {asked.threshold:g} to go out from; mine more, or lower --threshold"
            )
        pair = store.pick(*names)
        alpha = store.alpha(*pair, question.alpha)
        return Expansion(
            store, pair, names, replace(asked, alpha=alpha.value), alpha, found, reached.sampled_nodes(store, *pair),
            net.identity.name, oracle.label,
        )  # fmt: skip

    def roots(self, seed: int) -> list[int]:
        """The sampled candidates, in the order in which they are gone out from."""
        order: list[int] = np.random.default_rng(seed).permutation(self.candidates).tolist()
        return order

    def deep_q(self, deep: Sequence[Deep]) -> Floats:
        """[n] Q of deep scores, as the question has it."""
        cells = np.array(deep, np.float64).reshape(-1, 6)
        assert self.question.alpha is not None
        return values.deep_q(
            cells[:, 0], cells[:, 1], cells[:, 2:5], cells[:, 5], self.question.alpha, self.question.q_from
        )

    def judged(self, net_q: NDArray[np.float32], batch: PositionBatch) -> Floats:
        """[n] the net's Q as the question takes it."""
        return net_q.astype(np.float64)

    def whole_nodes(self, oracle: OracleIdentity) -> float:
        """The nodes of a whole search; where the oracle has another limit, those of sampled positions."""
        return float(oracle.limits.get("nodes") or max(self.sampled_nodes / len(self.candidates), 1))

    def read(self, some: Sequence[tuple[int, int, int]]) -> list[Source]:
        """Sources of these positions, roots and rounds, from the store."""
        found = reached.sources(self.store, *self.pair, [number for number, _, _ in some])
        whole = {number: (root, round_) for number, root, round_ in some}
        deep = [_result(each.deep) for each in found]
        q = self.deep_q([each.deep[:6] for each in found])
        return [
            Source(
                each.position_id,
                *whole[each.position_id],
                each.start_fen,
                each.moves,
                encode_moves([each.played] if each.played else []),
                each.ply,
                each.history_known,
                each.game,
                deep[i],
                float(q[i]),
                each.stage != INFERRED,
                each.step in (None, PARENT, GAME),
            )
            for i, each in enumerate(found)
        ]

    def is_poorer(self, found: int, nodes: int) -> bool:
        """Whether so many candidates for so many nodes are fewer than sampled positions gave, beyond chance.

        By the upper end of the exact 95 % interval of a Poisson count (F. Garwood, Biometrika 28, 1936).
        """
        from scipy.special import gammaincinv

        if not self.sampled_nodes:
            return False
        return bool(gammaincinv(found + 1, 0.975) / nodes < len(self.candidates) / self.sampled_nodes)

    def summary(self, state: str, why: str, **facts: Any) -> ExpandSummary:
        """What the expansion came to."""
        return ExpandSummary(state, why, self, **facts)


def _result(cells: tuple[Any, ...]) -> DeepResult:
    cp, mate, win, draw, loss, q, depth, seldepth, best, pv = cells
    wdl = None if win is None else (win, draw, loss)
    return DeepResult(cp, mate, wdl, q, depth, seldepth, best_move=best, pv=tuple(pv.split()))


@dataclass(frozen=True)
class ExpandSummary:
    """The end of one run.

    `state` is ``finished``, ``limited`` (by nodes or positions) or ``interrupted`` (by a signal); `why` it ended:
    ``nodes``, ``positions``, ``yield``, ``everything``. `tally` is of the whole expansion, `nodes` and `seconds`
    are of this time.
    """

    state: str
    why: str
    start: Expansion
    seconds: float
    nodes: int
    workers: int
    failed: int

    @property
    def tally(self) -> Tally:
        return self.start.tally

    @property
    def precision(self) -> Rate:
        """Of the inferred candidates that were searched, those that are some."""
        audits = self.tally.steps.get(LINE, StepTally())
        return wilson(audits.found, audits.tried)

    @property
    def effective_roots(self) -> float:
        """The effective number of roots, of order 2: each with its family (M. O. Hill, Ecology 54, 1973)."""
        sizes = np.array([1 + self.tally.families[int(root)] for root in self.start.candidates], np.float64)
        return float(sizes.sum() ** 2 / (sizes**2).sum())

    def counts(self) -> dict[str, Any]:
        """What the store keeps of it: nothing that depends on how often the run was interrupted."""
        tally = self.tally
        return {
            "roots": len(self.start.candidates),
            "searched": tally.planned,
            "cut": tally.cut,
            "failed": self.failed,
            "found": tally.found,
            "nodes": tally.nodes,
            "inferred": tally.inferred,
            "inferred_found": tally.inferred_found,
            "why": self.why,
        }

    def lines(self) -> list[str]:
        """The summary for a terminal, with what to do next."""
        start, tally = self.start, self.tally
        ended = "interrupted" if self.state == "interrupted" else _ENDED[self.why]
        speed = f", {format_rate(self.nodes / self.seconds)}" if self.seconds and self.nodes else ""
        return [
            f"{start.net} against {start.oracle}, {start.alpha.source(start.question.q_from)}",
            f"from {len(start.candidates):,} candidates at {start.question.threshold:g}: {ended}",
            f"searched: {tally.planned:,} positions, {tally.cut:,} cut by screening, {self.failed:,} failed, "
            f"{self.workers} at once; {tally.nodes / 1e6:,.1f} Mnodes; {format_duration(self.seconds)}{speed}",
            *self._by_step(),
            *self._by_round(),
            *self._inferred(),
            *self._yields(),
            f"effective number of roots: {self.effective_roots:,.0f} of {len(start.candidates):,}",
            "",
            *self._next(),
        ]

    def _by_step(self) -> list[str]:
        shown = []
        for step, told in _TOLD.items():
            if (of := self.tally.steps.get(step)) is None:
                continue
            by_chance = f"; drawn by chance {wilson(of.drawn_found, of.drawn)}" if of.drawn else ""
            shown.append(f"  {told:<14}{wilson(of.found, of.tried)}{by_chance}; {of.nodes / 1e6:,.1f} Mnodes")
        return shown

    def _by_round(self) -> list[str]:
        return [
            f"  round {number}: {of['searched']:,} searched, {of['found']:,} candidates; "
            f"{of['inferred']:,} inferred, {of['inferred_found']:,} candidates"
            for number, of in sorted(self.tally.rounds.items())
        ]

    def _inferred(self) -> list[str]:
        if not self.tally.inferred:
            return []
        precision = self.precision
        said = f"of those searched all the same {precision} are" if precision.total else "none of these was searched"
        return [f"inferred: {self.tally.inferred:,} positions, {self.tally.inferred_found:,} candidates; {said}"]

    def _yields(self) -> list[str]:
        tally, start = self.tally, self.start
        if not tally.nodes or not start.sampled_nodes:
            return []
        here, there = 1e6 * tally.found / tally.nodes, 1e6 * len(start.candidates) / start.sampled_nodes
        line = f"candidates searched a million nodes: {here:.3g}, against {there:.3g} of sampled positions"
        if here:
            line += f": {here / there:.1f} times"
        precision = self.precision.rate
        if tally.inferred_found and precision == precision:
            audited = self.tally.steps[LINE]
            both = tally.found + precision * (tally.inferred_found - audited.tried)
            line += f"; with the inferred ones {1e6 * both / tally.nodes / there:.1f} times"
        return [line]

    def _next(self) -> list[str]:
        option = "" if self.start.store.path == DEFAULT_PATH else f" --db {shlex.quote(self.start.store.path)}"
        threshold = f" --threshold {self.start.question.threshold:g}"
        if self.state == "interrupted":
            return ["not done yet: give the same command again to go on where it stopped"]
        if self.tally.found or self.tally.inferred_found:
            return [f"next: vr books{option}{threshold} --expanded all"]
        return ["no further candidates: mine more"]


_ENDED = {
    "nodes": "the nodes are spent",
    "positions": "as many positions were searched as asked for",
    "yield": "searches bring fewer candidates by now than in the archive",
    "everything": "all that lies around them was looked at",
}
