"""How a net is trained: `TrainOptions`, and the learning rate that follows from them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

from valuerepair.errors import UsageError
from valuerepair.nets.heads import Heads

Only = Literal["all", "heads", "value"]
Average = Literal["none", "swa", "ema"]

COSINE = "cosine"
STEP_FACTOR = 0.1
EMA_DECAY = 0.999
SWA_FROM = 0.75  # of the steps
_VALIDATIONS = 20
PASSES = 6  # over the positions, where the steps follow from these: more would have a net learn them by heart
MOST_STEPS = 2000
_WARMUP = 100
# What a store's positions teach the policy where `TrainOptions.policy` does not say (`training.records.parse_policy`).
POLICY = "net"

# Of repair games among those of a mixture: what others ended at (docs/recipe.md).
SHARE_OF_GAMES = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions:
    """How a net is trained.

    `only`: which parameters change: all, those of the heads, or of the value head. `steps` of `batch` positions each,
    None: as many as make `PASSES` over the positions, at most `MOST_STEPS`; `lr` is the learning rate after `warmup`
    steps (None: 100, at most a fifth of all), which then falls as `schedule` says: ``cosine`` to 0, or to a tenth at
    each of some steps (``1500,1800``). `policy` is what a store's positions teach the policy: ``net``, to stay as it
    is, or ``judge:0.3``, that share of it on the judge's best move and the rest as it is; None: `POLICY`. `policy_kl`
    is the weight of KL(that policy || new), None: 1 where there is a store, else 0; of chunks it is the old policy.
    `q_ratio`: how much of the value's target is the search's Q, and not the game's result. `average` of the parameters
    over the steps is what is judged and written: ``swa``, the mean over the last quarter, or ``ema``. `l2` is the
    weight of L2. `share`: of candidates among the positions of a store, None: as they come; `candidates`: at most so
    many of them, None: all; `draw`: a .parquet file by whose weights a store's positions are drawn instead. What is
    drawn more often or more seldom than it comes has its value weighed back (`training.drawing.StoreDraw`). `holdout`:
    the share of games that are not trained on but judged by. `every` so many steps the net is judged, None: 20 times in
    all; `patience`: it stops when so many in a row are no better, 0: never. `value_head` and `policy_head`: of a net
    that has several (`nets.heads`); a trunk that changes changes what the others say.

    Raises UsageError for values out of range.
    """

    only: Only = "all"
    steps: int | None = None
    batch: int = 256
    lr: float = 1e-4
    warmup: int | None = None
    schedule: str = COSINE
    policy: str | None = None
    policy_kl: float | None = None
    q_ratio: float = 0.0
    average: Average = "none"
    weights: str | None = None
    l2: float = 0.0
    share: float | None = None
    candidates: int | None = None
    draw: str | None = None
    holdout: float = 0.1
    every: int | None = None
    patience: int = 5
    value_head: str = Heads().value
    policy_head: str = Heads().policy
    seed: int = 0

    @property
    def heads(self) -> Heads:
        """The heads that are trained."""
        return Heads(self.value_head, self.policy_head)

    @property
    def policy_share(self) -> float:
        """The share of the judge's best move in what a store's positions teach the policy."""
        # Imported where it is needed: its module compiles kernels.
        from valuerepair.training.records import parse_policy

        return parse_policy(self.policy or POLICY, "net", "judge")[1]

    def __post_init__(self) -> None:
        counts = (("steps", self.steps), ("batch", self.batch), ("every", self.every), ("candidates", self.candidates))
        for name, value in counts:
            if value is not None and value < 1:
                raise UsageError(f"--{name} {value}: must be at least 1")
        for name, number in (("warmup", self.warmup or 0), ("patience", self.patience), ("seed", self.seed)):
            if number < 0:
                raise UsageError(f"--{name} {number}: must not be negative")
        for name, weight in (("lr", self.lr), ("policy-kl", self.policy_kl or 0.0), ("l2", self.l2)):
            if not 0 <= weight < math.inf:
                raise UsageError(f"--{name} {weight:g}: must be a number that is not negative")
        for name, part in (("q-ratio", self.q_ratio), ("share", self.share or 0.0), ("holdout", self.holdout)):
            if not 0 <= part <= 1:
                raise UsageError(f"--{name} {part:g}: must lie between 0 and 1")
        if self.policy is not None and self.policy_share and self.only == "value":
            raise UsageError(f"--policy {self.policy}: --only value leaves the policy as it is")
        if self.holdout == 1:
            raise UsageError("--holdout 1: leaves nothing to train on")
        if self.only not in get_args(Only):
            raise UsageError(f"--only {self.only}: must be one of {', '.join(get_args(Only))}")
        if self.average not in get_args(Average):
            raise UsageError(f"--average {self.average}: must be one of {', '.join(get_args(Average))}")
        self.boundaries()

    @property
    def interval(self) -> int:
        """Steps from one judgement to the next."""
        return self.every or max(1, self.total_steps // _VALIDATIONS)

    @property
    def total_steps(self) -> int:
        """The steps; the most there are by default where they are yet to follow from the positions (`planned`)."""
        return MOST_STEPS if self.steps is None else self.steps

    def planned(self, positions: int) -> TrainOptions:
        """With steps and warm-up for so many positions a pass, where they are not given."""
        steps = self.steps or min(MOST_STEPS, max(1, round(PASSES * positions / self.batch)))
        return replace(self, steps=steps, warmup=min(_WARMUP, steps // 5) if self.warmup is None else self.warmup)

    def boundaries(self) -> list[int]:
        """The steps at which the learning rate falls to a tenth; empty for the cosine."""
        if self.schedule == COSINE:
            return []
        try:
            found = [int(word) for word in self.schedule.split(",")]
        except ValueError:
            found = []
        if not found or min(found) < 1:
            raise UsageError(f"--schedule {self.schedule}: must be cosine, or steps like 1500,1800")
        return found

    def rate(self, step: int) -> float:
        """The learning rate of a step, from 0 on."""
        warmup = min(_WARMUP, self.total_steps // 5) if self.warmup is None else self.warmup
        warm = min(1.0, (step + 1) / warmup) if warmup else 1.0
        if boundaries := self.boundaries():
            return float(self.lr * warm * STEP_FACTOR ** sum(step >= each for each in boundaries))
        return self.lr * warm * (1 + math.cos(math.pi * step / self.total_steps)) / 2

    def blend(self, step: int) -> float:
        """How much of the parameters after a step goes into their average: all of it where there is none yet."""
        if self.average == "swa":
            return 1 / max(1, step + 2 - math.ceil(SWA_FROM * self.total_steps))
        if self.average == "ema":
            return 1 - min(EMA_DECAY, (1 + step) / (10 + step))
        return 1.0
