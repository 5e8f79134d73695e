"""The screening ladder at work: which positions calibrate, which are cut, which are searched in full anyway.

The first screen is fitted to positions that come with the package. If none of these was searched by this kind of
oracle, the first positions of the run are searched in full instead. Later, some positions are searched in full whatever
their chance, drawn by their key alone: a number that grows with the square root of all positions, to calibrate the
models, and a share of the others, to audit the cuts. The screen is fitted again when the number of positions has grown
by half. A fit is used one such step later, when all its positions have been searched. So engines do not wait for it,
and the results of a run do not depend on its speed.
"""

from __future__ import annotations

import bisect
import hashlib
import logging
import math
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Floats
from valuerepair.chess import values
from valuerepair.chess.positions import Position, encode_move
from valuerepair.engines.kinds import kind_of
from valuerepair.oracles.oracle import Climb, ClimbOutcome, Oracle
from valuerepair.question import QFrom, Question, is_candidate
from valuerepair.screening.fit import LadderRows, enough, fit_screen, joined, package_rows, with_rate
from valuerepair.screening.model import LadderCut, Screen, ScreenOptions, judge, rungs_of
from valuerepair.store import screening
from valuerepair.store.rows import DeepResult, Run
from valuerepair.store.scale import are_alike
from valuerepair.store.screening import REACHED, SAMPLED, ClimbedRows, Passage, Population, ScreenFacts
from valuerepair.store.store import Store

log = logging.getLogger(__name__)

# Positions in the first fit; each later fit has half as many more.
FIRST_FIT = 64
_GROWTH = 1.5
# The number of calibrating positions, as a multiple of the square root of the number of all positions: 280 of 5,000,
# 4,000 of a million; half as many if the package has positions for this kind of oracle.
_ROOTS = 4.0
_ROOTS_WITH_PACKAGE = 2.0
_FEW_CANDIDATES = 20
# The prior of the share of candidates among positions near a candidate, and how many searched positions it counts as.
# The package's positions were sampled from archives, where there are far fewer candidates.
_RATE_NEAR, _RATE_WEIGHT = 0.3, 64


@dataclass(frozen=True)
class Judge:
    """Decides at each rung whether to search one position deeper. Plain data, so that it can run on another machine.

    `net_q` and `net_best` are the net's value and first choice. `screen` None: there are no cuts yet. `in_full`: the
    position is searched in full in any case.
    """

    net_q: float
    net_best: int
    screen: Screen | None
    in_full: bool

    def __call__(self, results: Sequence[DeepResult]) -> bool:
        """Whether to search deeper after these rungs."""
        return self.in_full or self._cut_after(results).cut_at is None

    def verdict(self, climb: Climb) -> LadderCut:
        """The first rung at which the ladder cuts, or would have cut, a position with this climb."""
        if self.screen is None:
            return LadderCut()
        if not climb.whole:
            cut = self._cut_after(climb.results)
            if cut.cut_at is not None:
                return cut
            # Another machine cut it: its rounding put a chance that nearly equals the cut just below it.
            rung = self.screen.rungs[len(climb.results) - 1]
            return LadderCut(rung.nodes, rung.cut)
        if not self.in_full:
            return LadderCut()
        verdicts = (self._cut_after(climb.results[:k]) for k in range(1, len(climb.results)))
        return next((verdict for verdict in verdicts if verdict.cut_at is not None), LadderCut())

    def _cut_after(self, results: Sequence[DeepResult]) -> LadderCut:
        if self.screen is None:
            return LadderCut()
        last = results[-2:]  # features use at most two rungs
        q = q_of(last, self.screen.alpha, self.screen.q_from)
        if np.isnan(q).any():
            return LadderCut()  # the oracle gave no Q of the requested kind
        best = [_move(result.best_move) for result in last]
        return judge(self.screen, len(results), self.net_q, self.net_best, q.tolist(), best)


@dataclass(frozen=True)
class _Ascent:
    """One position on the ladder; `probability` is that of an audit if it leaves the ladder."""

    judge: Judge
    screen_id: int | None
    probability: float


def q_of(results: Sequence[DeepResult], alpha: float, q_from: QFrom) -> Floats:
    """[k] Q of deep results."""
    scores = np.array([result.scores for result in results], np.float64).reshape(-1, 6)
    return values.deep_q(scores, alpha, q_from)


def _move(uci: str | None) -> int:
    return encode_move(uci) if uci else 0


class Ladder:
    """The ladder of one net and oracle, fitted to one `population` of positions only.

    Only the thread that owns the store may use it; searches run elsewhere.
    """

    def __init__(
        self,
        store: Store,
        net_id: int,
        oracle_id: int,
        oracle: Oracle,
        question: Question,
        options: ScreenOptions,
        seed: int,
        run: Run,
        population: Population = SAMPLED,
    ) -> None:
        self._population = population
        self._store, self._net_id, self._oracle, self._oracle_id = store, net_id, oracle, oracle_id
        self._question, self._options, self._seed, self._run = question, options, seed, run
        self._nodes = oracle.identity.limits["nodes"]
        self.rungs = self._options.rungs or rungs_of(self._nodes)
        kind = kind_of(oracle.identity.kind)
        self._own_q = kind.own_q
        self._in_package = kind.in_package and question.q_from == "cp"
        self._ascents: dict[int, _Ascent] = {}
        # By position: the latest screen of another ladder, of any net, that cut it. These positions are judged again.
        self._cut_by: dict[int, int] = {}
        # A saved alpha applies to the whole store; without one each screen has its own fit.
        saved = None if question.alpha is not None else store.chosen_alpha(net_id, oracle_id)
        self._saved_alpha = None if saved is None or self._own_q or question.q_from == "wdl" else saved.value
        earlier = screening.screens(store, net_id, oracle_id, population)
        # By their number in the store: merged stores may have the same screen several times.
        self._own_screens = {facts.id: facts.model for facts in earlier if self._is_own(facts)}
        self._judges_again = bool(earlier) and not self._own_screens
        if self._judges_again and population is SAMPLED:
            log.info(self._refit_message(earlier[0]))
        self._screen_for = cache(self._fit)
        # The positions on this ladder, by number: the finished ones of earlier runs, and those of this run.
        self._positions = screening.climbed(store, net_id, oracle_id, list(self._own_screens), population)

    def _refit_message(self, last: ScreenFacts) -> str:
        """The message for a store that has a ladder for another question."""

        def described(threshold: float, alpha: float | None, q_from: str, recall: float) -> str:
            source = "the engine's WDL" if q_from == "wdl" else f"alpha {'auto' if alpha is None else f'{alpha:g}'}"
            return f"threshold {threshold:g}, {source}, recall {recall:g}"

        question, screen = self._question, Screen.from_json(last.model)
        is_alpha_fixed = last.alpha_given or self._saved_alpha is not None
        alpha = last.alpha if is_alpha_fixed else None
        stored = described(last.threshold, alpha, last.q_from, last.recall)
        alpha_used = self._saved_alpha if question.alpha is None else question.alpha
        current = described(question.threshold, alpha_used, question.q_from, self._options.recall)
        if screen is None:
            stored += ", of an earlier version"
        elif (nodes := tuple(rung.nodes for rung in screen.rungs)) != self.rungs:
            stored += f", rungs {','.join(map(str, nodes))}"
            current += f", rungs {','.join(map(str, self.rungs))}"
        return (
            f"screening: the store's ladder is for {stored}; this run is for {current}: it fits a new "
            "one; positions that the old one cut will be judged again"
        )

    def _is_own(self, facts: ScreenFacts) -> bool:
        question, screen = self._question, Screen.from_json(facts.model)
        same_alpha = facts.alpha_given == (question.alpha is not None) and question.alpha in (None, facts.alpha)
        if self._saved_alpha is not None:
            same_alpha &= are_alike(facts.alpha, self._saved_alpha)
        return (
            screen is not None
            and same_alpha
            and facts.threshold == question.threshold
            and facts.q_from == question.q_from
            and facts.recall == self._options.recall
            and screen.price == self._options.price
            and tuple(rung.nodes for rung in screen.rungs) == self.rungs
        )

    def cut_before(self, ids: NDArray[np.int64]) -> set[int]:
        """The positions that this ladder has already cut.

        Positions that another ladder cut are judged again. Therefore those that it audited no longer represent others.
        """
        own = list(self._own_screens)
        screening.settle(self._store, self._oracle_id, ids, self._net_id, own)
        cuts = screening.cut_before(self._store, self._oracle_id, ids)
        own_cuts = {position for position, screen in cuts if screen in own}
        self._cut_by.update((position, screen) for position, screen in cuts if position not in own_cuts)
        return own_cuts

    # -- positions ----------------------------------------------------------------------------------------------------

    def is_ready(self, position_id: int) -> bool:
        """Whether a position may start now: all positions that its screen is fitted to have been searched."""
        fitted_count = self._fitted_count(self._place(position_id))
        return all(bisect.bisect_left(self._positions, other) >= fitted_count for other in self._ascents)

    def climb(self, position_id: int, position: Position, net_q: float, net_best: int) -> Future[ClimbOutcome]:
        """Starts a position, with the net's value and first choice, on the ladder."""
        place = self._place(position_id)
        screen, screen_id = self._screen_for(self._fitted_count(place))
        calibrating = 1.0
        if screen is not None:
            calibrating = min(1.0, (_ROOTS_WITH_PACKAGE if self._in_package else _ROOTS) / 2 / math.sqrt(place + 1))
        full_share = calibrating + (1 - calibrating) * self._options.audit
        in_full = _uniform(self._seed, position.key, self._cut_by.pop(position_id, 0)) < full_share
        index = bisect.bisect_left(self._positions, position_id)
        if self._positions[index : index + 1] != [position_id]:  # else it failed before
            self._positions.insert(index, position_id)
        judge = Judge(net_q, net_best, screen, in_full)
        self._ascents[position_id] = _Ascent(judge, screen_id, full_share)
        return self._oracle.climb(position, self.rungs, judge)

    def record(self, position_id: int, climb: Climb) -> Passage:
        """Stores how far a position came; its full search, if there was one, is the last result."""
        ascent = self._ascents.pop(position_id)
        for rung, result in zip(self.rungs, climb.results, strict=False):
            self._store.add_deep(position_id, self._oracle_id, result, self._run, str(rung))
        if climb.whole:
            self._store.add_deep(position_id, self._oracle_id, climb.results[-1], self._run, self._population.stage)
        cut = ascent.judge.verdict(climb)
        probability = ascent.probability if cut.cut_at is not None else 1.0
        spent = climb.results[-1].nodes
        passage = Passage(position_id, ascent.screen_id, cut.cut_at, cut.chance, spent, climb.whole, probability)
        screening.add_passage(self._store, self._net_id, self._oracle_id, passage, self._run, self._population)
        return passage

    def drop(self, position_id: int) -> None:
        """Removes a position whose search failed or was abandoned."""
        self._ascents.pop(position_id, None)

    # -- fitting ------------------------------------------------------------------------------------------------------

    def _place(self, position_id: int) -> int:
        """How many of the ladder's positions come before this one, in the order of their ids.

        A resumed run has the same places, whichever searches were running when it stopped. If the positions of another
        ladder are judged again, all searched positions come before.
        """
        return len(self._positions) if self._judges_again else bisect.bisect_left(self._positions, position_id)

    def _fitted_count(self, place: int) -> int:
        """The number of first positions that the screen for this place is fitted to."""
        due, last = 0, FIRST_FIT
        while (following := math.ceil(_GROWTH * last)) <= place:
            due, last = last, following
        return due

    def _fit(self, fitted_count: int) -> tuple[Screen | None, int | None]:
        """The screen fitted to the first `fitted_count` positions, and its number in the store."""
        self._store.commit()
        last = self._positions[fitted_count - 1] if fitted_count else 0
        climbed = screening.climbed_rows(self._store, self._net_id, self._oracle_id, self.rungs, last, self._population)
        alpha = self._alpha(climbed)
        question = replace(self._question, alpha=alpha)
        own = ladder_rows(climbed, self.rungs, self._nodes, question)
        package = package_rows(self._oracle.identity.kind, self._nodes, self.rungs, question)
        if package is not None and self._population is REACHED:
            package = with_rate(package, question.threshold, _rate_near(own, question.threshold))
        data = own if package is None else joined(own, package)
        if not (self._in_package or fitted_count) or not enough(data, question.threshold):
            if fitted_count:
                reason = f"{len(own):,} positions searched in full, too few of them near the threshold"
                log.debug(f"screening: {reason}; nothing is cut yet")
            return None, None
        screen = fit_screen(data, question, self._options.recall, self._options.price)
        is_positive = is_candidate(own.disagreement, question.threshold)
        screen = replace(screen, positions=len(own), positives=int(is_positive.sum()))
        alpha_given, text = self._question.alpha is not None, screen.to_json()
        number = next((number for number, model in self._own_screens.items() if model == text), None)
        if number is None:
            facts = ScreenFacts(
                0, question.threshold, alpha, alpha_given, question.q_from, self._options.recall, text, ""
            )
            number = screening.add_screen(self._store, self._net_id, self._oracle_id, facts, self._population)
            self._own_screens[number] = text
            log.debug(f"screening: {fit_line(screen, own_q=self._own_q, alone=package is None)}")
        return screen, number

    def _alpha(self, climbed: ClimbedRows) -> float:
        """The alpha in the question or in the store, otherwise a fit to these rows alone."""
        chosen = self._store.chosen_alpha(self._net_id, self._oracle_id, self._question.alpha)
        if chosen is not None:
            return chosen.value
        cp, mate = climbed.scores[:, -1, 0], climbed.scores[:, -1, 1]
        return values.auto_alpha(climbed.net_q, cp, mate, 1 / climbed.probability, climbed.game).value


def _rate_near(own: LadderRows, threshold: float) -> float:
    """The share of candidates among positions near a candidate, from those that were searched in full."""
    candidates = float(own.weights @ is_candidate(own.disagreement, threshold))
    return (candidates + _RATE_NEAR * _RATE_WEIGHT) / (float(own.weights.sum()) + _RATE_WEIGHT)


def fit_line(screen: Screen, *, own_q: bool, alone: bool) -> str:
    """One line about a fit. `own_q`: the oracle gives Q itself, without alpha; `alone`: without package positions."""
    few = "; few candidates: it cuts cautiously" if alone and screen.positives < _FEW_CANDIDATES else ""
    share = f"expected: 1/{1 / screen.expected_share:.1f} of the nodes"
    if not screen.positions:
        return f"begins with the package's own positions; {share}"
    return (
        f"fitted on {screen.positions:,} positions searched in full ({screen.positives:,} candidates at "
        f"{screen.threshold:g}{'' if own_q else f', alpha {screen.alpha:.0f}'}); {share}{few}"
    )


def ladder_rows(climbed: ClimbedRows, rungs: Sequence[int], nodes: int, question: Question) -> LadderRows:
    """The rows of a store at the question's alpha, without those that lack a score of its kind."""
    assert question.alpha is not None
    alpha, q_from = question.alpha, question.q_from
    q = values.deep_q(climbed.scores, alpha, q_from)
    best = np.array([[_move(move) for move in moves[:-1]] for moves in climbed.best], np.int64).reshape(-1, len(rungs))
    net_q, weights = climbed.net_q, 1 / climbed.probability
    scored = LadderRows(tuple(rungs), nodes, net_q, climbed.net_best, q, best, weights, climbed.game)
    return scored.take(np.isnan(q).sum(axis=1) == 0)


def _uniform(seed: int, key: int, cut_by: int) -> float:
    """A number in [0, 1) that depends only on the position and on the screen that cut it before.

    Without `cut_by` a position that one ladder did not audit would have the same, large number on the next ladder,
    which then could not audit it either.
    """
    digest = hashlib.blake2b(f"screening {seed} {key} {cut_by}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
