"""The screening ladder at work: who calibrates, who is cut, who is searched in full all the same, and what is learned.

The first positions are searched in full. From them a screen is fitted; later ones leave the ladder where it cuts,
except a share drawn by the position's key alone: some to calibrate with (their number grows with the root of all), and
some, for as long as there is a ladder, to audit. Everything fitted follows from positions in the order in which they
came, so a run gives the same whatever the speed of its engines.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from valuerepair import values
from valuerepair.deep.oracle import Climb, Climber, ClimbOutcome, DeepResult
from valuerepair.deep.screen import NO_NODES, Screen, Verdict, feature_names, judge, rungs_of
from valuerepair.deep.screen_fit import Calibration, enough, fit_screen
from valuerepair.deep.screen_prior import package_prior
from valuerepair.deep.signals import COLUMN, runners
from valuerepair.mining.options import MineOptions
from valuerepair.positions import Position, encode_move
from valuerepair.store import Store
from valuerepair.store import screening as rows
from valuerepair.store.rows import FULL, Run
from valuerepair.store.screening import Passage, ScreenFacts

Floats = NDArray[np.float64]

# Positions before the first fit; fits then follow whenever their number has grown by half.
FIRST_FIT = 64
_GROWTH = 1.5
# About so many times the root of all positions calibrate: 64 of 256, 280 of 5,000, 4,000 of a million.
_ROOTS = 4.0
_FEW = 20
_STORED_SIGNALS = [COLUMN[name] for name in ("before", "before_2", "after", "search", "check")]


@dataclass(frozen=True)
class Judge:
    """Says at each rung whether one position is searched deeper. Plain data: it may be asked on another machine.

    `screen` None: nothing is cut yet. `kept`: the position is searched in full whatever its chances.
    """

    signals: Floats
    screen: Screen | None
    kept: bool

    def __call__(self, results: Sequence[DeepResult]) -> bool:
        """Whether to search deeper after these rungs."""
        return self.kept or self._at(results).cut_at is None

    def verdict(self, climb: Climb) -> Verdict:
        """Where the ladder cuts, or would have cut, a position with this climb: at the first rung that does."""
        rungs = climb.results[:-1] if climb.whole else climb.results
        verdicts = (self._at(rungs[:k]) for k in range(len(rungs) + 1))
        found = next((verdict for verdict in verdicts if verdict.cut_at is not None), Verdict())
        if climb.whole or found.cut_at is not None or self.screen is None:
            return found
        # Cut on a machine that rounds otherwise, with a chance that is the cut to the last bit.
        rung = self.screen.rungs[len(rungs)]
        return Verdict(rung.nodes, rung.cut)

    def _at(self, results: Sequence[DeepResult]) -> Verdict:
        if self.screen is None:
            return Verdict()
        q = q_of(results, self.screen.alpha, self.screen.q_from)
        if np.isnan(q).any():
            return Verdict()  # without a value of the kind asked for nothing can be said
        return judge(self.screen, self.signals, q.tolist(), [_move(r.best_move) for r in results])


@dataclass(frozen=True)
class _Ascent:
    """One position on its way up; it stands for one in `probability` of those that are cut."""

    judge: Judge
    screen_id: int | None
    probability: float


def q_of(results: Sequence[DeepResult], alpha: float, q_from: str) -> Floats:
    """[k] Q of deep results."""
    numbers = [(r.cp, r.mate, *(r.wdl or (None,) * 3), r.q) for r in results]
    return _q_of_scores(np.array(numbers, np.float64).reshape(-1, 6), alpha, q_from)


def _q_of_scores(scores: Floats, alpha: float, q_from: str) -> Floats:
    cp, mate, own = scores[..., 0], scores[..., 1], scores[..., 5]
    return values.deep_q(cp, mate, scores[..., 2:5], own, alpha, "wdl" if q_from == "wdl" else "cp")


def _move(uci: str | None) -> int:
    return encode_move(uci) if uci else 0


class Ladder:
    """The ladder of one net and oracle. Used by the thread that owns the store; searches run elsewhere."""

    def __init__(
        self,
        store: Store,
        net_id: int,
        oracle_id: int,
        oracle: Climber,
        options: MineOptions,
        run: Run,
        say: Callable[[str], None],
    ) -> None:
        assert options.screen is not None
        self._store, self._net_id, self._oracle, self._oracle_id = store, net_id, oracle, oracle_id
        self._options, self._chosen, self._run, self._say = options, options.screen, run, say
        self._nodes = oracle.identity.limits["nodes"]
        self.rungs = self._chosen.rungs or rungs_of(self._nodes)
        self._ascents: dict[int, _Ascent] = {}
        self._screen: Screen | None = None
        self._screen_id: int | None = None
        self._cut_by: dict[int, int] = {}  # by other ladders' screens: these positions are judged again
        before = rows.passages(store, net_id, oracle_id)
        self._given = len(before) + rows.failed(store, oracle_id)
        # A run that goes on fits where it would have without the stop.
        self._fit_at = _first_fit_from(self._given)
        known = rows.screens(store, net_id, oracle_id)
        fitting = [facts for facts in known if self._fits(facts)]
        self._fitting = [facts.id for facts in fitting]
        self._other = known[0] if known and not fitting else None
        if fitting:
            self._screen, self._screen_id = Screen.from_json(fitting[0].model), fitting[0].id
            if self._given == self._fit_at and all(p.screen_id != self._screen_id for p in before):
                self._fit_at = _first_fit_from(self._given + 1)  # it was fitted to just these
        elif self._other is not None:
            self._say(self._another(self._other))
            self._fit()

    def _another(self, last: ScreenFacts) -> str:
        """What to say of a store whose ladder is another one."""
        rungs = Screen.from_json(last.model).rungs[1:]

        def told(threshold: float, alpha: float | None, q_from: str, recall: float, nodes: Sequence[int]) -> str:
            source = "the engine's WDL" if q_from == "wdl" else f"alpha {'auto' if alpha is None else f'{alpha:g}'}"
            at = "" if self.rungs == tuple(rung.nodes for rung in rungs) else f", rungs {','.join(map(str, nodes))}"
            return f"threshold {threshold:g}, {source}, recall {recall:g}{at}"

        options = self._options
        theirs = last.threshold, last.alpha if last.alpha_given else None, last.q_from, last.recall
        asked = options.threshold, options.alpha, options.q_from, self._chosen.recall
        return (
            f"screening: the store's ladder is for {told(*theirs, [rung.nodes for rung in rungs])}; this run is for "
            f"{told(*asked, self.rungs)}: fitted anew, and what that one cut is judged again"
        )

    def _fits(self, facts: ScreenFacts) -> bool:
        options = self._options
        same_alpha = facts.alpha_given == (options.alpha is not None) and options.alpha in (None, facts.alpha)
        rungs = Screen.from_json(facts.model).rungs
        same_features = all(rung.names == feature_names(k > 0) for k, rung in enumerate(rungs))
        return (
            same_alpha
            and facts.threshold == options.threshold
            and facts.q_from == options.q_from
            and facts.recall == self._chosen.recall
            and tuple(rung.nodes for rung in rungs[1:]) == self.rungs
            and same_features  # other versions may have had others
        )

    def cut_before(self, ids: NDArray[np.int64]) -> set[int]:
        """Positions that this ladder has cut already. What another one cut is to be judged again, and those of these
        that were searched all the same stand for themselves only from now on."""
        rows.settle(self._store, self._oracle_id, ids, self._net_id, self._fitting)
        found = rows.cut_before(self._store, self._net_id, self._oracle_id, ids)
        own = {position for position, screen in found.items() if screen in self._fitting}
        self._cut_by.update((position, screen) for position, screen in found.items() if position not in own)
        return own

    # -- positions ----------------------------------------------------------------------------------------------------

    def ready(self, searching: int) -> bool:
        """Whether a position may be given now: a fit waits for the searches in flight, so timing decides nothing."""
        if self._given < self._fit_at:
            return True
        if searching:
            return False
        self._fit()
        return True

    def climb(self, position_id: int, position: Position, signals: Floats) -> Future[ClimbOutcome]:
        """Sends a position with its row of signals up the ladder."""
        # The first ones are more than the rule asks for, for a while.
        calibrating = _ROOTS / 2 / math.sqrt(self._given) if self._given >= (FIRST_FIT / _ROOTS) ** 2 else 0.0
        kept_share = calibrating + (1 - calibrating) * self._chosen.audit
        kept = _uniform(self._options.sample.seed, position.key, self._cut_by.pop(position_id, 0)) < kept_share
        self._given += 1
        ask = Judge(signals, self._screen, kept)
        self._ascents[position_id] = _Ascent(ask, self._screen_id, kept_share)
        if not ask([]):
            future: Future[ClimbOutcome] = Future()
            future.set_result(Climb((), whole=False))
            return future
        return self._oracle.climb(position, self.rungs, ask)

    def take(self, position_id: int, climb: Climb) -> Passage:
        """Records how far a position came; its whole search, if there was one, is the last of the results."""
        ascent = self._ascents.pop(position_id)
        for rung, result in zip(self.rungs, climb.results, strict=False):
            self._store.add_deep(position_id, self._oracle_id, result, self._run, str(rung))
        if climb.whole:
            self._store.add_deep(position_id, self._oracle_id, climb.results[-1], self._run, FULL)
        rows.add_signals(
            self._store, self._net_id, np.array([position_id]), ascent.judge.signals[None, _STORED_SIGNALS]
        )
        cut = ascent.judge.verdict(climb)
        spent = climb.results[-1].nodes if climb.results else NO_NODES
        probability = ascent.probability if cut.cut_at is not None else 1.0
        passage = Passage(position_id, ascent.screen_id, cut.cut_at, cut.chance, spent, climb.whole, probability)
        rows.add_passage(self._store, self._net_id, self._oracle_id, passage, self._run)
        return passage

    def drop(self, position_id: int) -> None:
        """Forgets a position whose search failed or was given up."""
        self._ascents.pop(position_id, None)

    # -- fitting ------------------------------------------------------------------------------------------------------

    def _fit(self) -> None:
        """Fits the screen to all that was searched in full so far, if that is enough to learn from."""
        options = self._options
        self._store.commit()
        self._fit_at = _first_fit_from(self._given + 1)
        alpha = self._store.alpha(self._net_id, self._oracle_id, options.alpha)
        data = read_calibration(
            self._store, self._net_id, self._oracle_id, self.rungs, self._nodes, alpha.value, options.q_from
        )
        if not enough(data, options.threshold):
            near = f"{len(data):,} positions searched in full, too few of them near the threshold of a candidate"
            self._say(f"screening: {near}; nothing is cut yet")
            if self._other is not None:
                self._fit_at = self._given + FIRST_FIT
            return
        self._screen = fit_screen(
            data, options.threshold, self._chosen.recall, alpha.value, options.q_from, package_prior()
        )
        given = options.alpha is not None
        facts = ScreenFacts(
            0, options.threshold, alpha.value, given, options.q_from, self._chosen.recall, self._screen.to_json(), ""
        )
        self._screen_id = rows.add_screen(self._store, self._net_id, self._oracle_id, facts)
        self._fitting.append(self._screen_id)
        self._say(f"screening: {fit_line(self._screen)}")


def fit_line(screen: Screen) -> str:
    """What a fit says of itself."""
    few = "; few candidates: it cuts with caution" if screen.positives < _FEW else ""
    share = f"1/{1 / screen.expected_share:.1f}" if screen.expected_share else "none"
    return (
        f"fitted on {screen.positions:,} positions searched in full ({screen.positives:,} candidates at "
        f"{screen.threshold:g}, alpha {screen.alpha:.0f}); expected: {share} of the nodes"
    ) + few


def read_calibration(
    store: Store, net_id: int, oracle_id: int, rungs: Sequence[int], nodes: int, alpha: float, q_from: str
) -> Calibration:
    """What a store has to fit a ladder to: all positions that went up these rungs to the whole search."""
    found = rows.calibration_rows(store, net_id, oracle_id, rungs)
    q = _q_of_scores(found.scores, alpha, q_from)
    known = np.isnan(q).sum(axis=1) == 0
    best = np.array([[_move(move) for move in moves[:-1]] for moves in found.best], np.int64).reshape(-1, len(rungs))
    signals = np.concatenate([found.net, np.array([[runners(fen)] for fen in found.fens]).reshape(-1, 1)], 1)
    whole = Calibration(tuple(rungs), nodes, signals, q, best, 1 / found.probability)
    return whole.take(known)


def _first_fit_from(given: int) -> int:
    """How many positions the first fit is due at that is not due at fewer than `given`."""
    due = FIRST_FIT
    while due < given:
        due = math.ceil(_GROWTH * due)
    return due


def _uniform(seed: int, key: int, cut_by: int) -> float:
    """A number in [0, 1) that follows from the position alone, and from the screen that cut it before."""
    digest = hashlib.blake2b(f"screening {seed} {key} {cut_by}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
