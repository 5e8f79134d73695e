"""How a net is trained: `TrainOptions`, and the learning rate that follows from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, get_args

from valuerepair.errors import UsageError
from valuerepair.nets.heads import Heads

Only = Literal["all", "heads", "value"]
Average = Literal["none", "swa", "ema"]
Word = TypeVar("Word", bound=str)

EMA_DECAY = 0.999
SWA_FROM = 0.75  # of the steps
_VALIDATIONS = 20
PASSES = 6  # over the positions, where the steps follow from these: more would have a net learn them by heart
MOST_STEPS = 2000
_WARMUP = 100
# What a store's positions teach the policy where `TrainOptions.policy` does not say (`parse_policy`).
POLICY = "net"

# Of repair games among those of a mixture: what others ended at (docs/recipe.md).
SHARE_OF_GAMES = 0.10

# Parameters that few trainings change, by their types: `vr train --set NAME=VALUE`.
SETTINGS: dict[str, Callable[[str], Any]] = {
    "batch": int,
    "warmup": int,
    "q_ratio": float,
    "policy_kl": float,
    "average": str,
    "weights": str,
    "candidates": int,
    "holdout": float,
    "every": int,
    "patience": int,
}


def parse_policy(text: str, usual: Word, *others: Word) -> tuple[Word, float]:
    """Where a record's policy is from: the `usual` word, whose share is 0, or one of the `others`, as ``judge`` (the
    share is 1) or ``judge:0.3``. Raises UsageError for anything else.
    """
    word, colon, number = text.partition(":")
    try:
        share = float(number) if colon else 1.0
    except ValueError:
        share = math.nan
    if text == usual:
        return usual, 0.0
    for other in others:
        if word == other and 0 <= share <= 1:
            return other, share
    named = ", ".join(f"{other} or {other}:SHARE" for other in others)
    raise UsageError(f"--policy {text}: give {usual}, {named}; a share lies between 0 and 1")


def _typed(name: str, value: float) -> str:
    """A value as it is given to `vr train`."""
    return f"--set {name}={value:g}" if name in SETTINGS else f"--{name} {value:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions:
    """How a net is trained.

    `only`: which parameters change: all, those of the heads, or of the value head. `steps` of `batch` positions each,
    None: as many as make `PASSES` over the positions, at most `MOST_STEPS`; `lr` is the learning rate after `warmup`
    steps (None: 100, at most a fifth of all), which then falls to 0 by a cosine. `policy` is what a store's positions
    teach the policy: ``net``, to stay as it is, or ``judge:0.3``, that share of it on the judge's best move and the
    rest as it is; None: `POLICY`. `policy_kl` is the weight of KL(that policy || new), None: 1 where there is a store,
    else 0; of chunks it is the old policy. `q_ratio`: how much of the value's target is the search's Q, and not the
    game's result. `average` of the parameters over the steps is what is judged and written: ``swa``, the mean over the
    last quarter, or ``ema``. `share`: of candidates among the positions of a store, None: as they come; `candidates`:
    at most this many of them, None: all; `draw`: a .parquet file by whose weights a store's positions are drawn
    instead. What is drawn more often or more seldom than it comes has its value weighed back
    (`training.drawing.StoreDraw`). `holdout`: the share of games that are not trained on but judged by. The net is
    judged each `every` steps, None: 20 times in all; `patience`: training stops after this many judgements without
    gain, 0: never. `value_head` and `policy_head`: of a net that has several (`nets.heads`); a trunk that changes
    changes what the others say.

    Raises UsageError for values out of range.
    """

    only: Only = "all"
    steps: int | None = None
    batch: int = 256
    lr: float = 1e-4
    warmup: int | None = None
    policy: str | None = None
    policy_kl: float | None = None
    q_ratio: float = 0.0
    average: Average = "none"
    weights: str | None = None
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
        return parse_policy(self.policy or POLICY, "net", "judge")[1]

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "every", "candidates"):
            if (count := getattr(self, name)) is not None and count < 1:
                raise UsageError(f"{_typed(name, count)}: must be at least 1")
        for name in ("warmup", "patience", "seed"):
            if (number := getattr(self, name) or 0) < 0:
                raise UsageError(f"{_typed(name, number)}: must not be negative")
        for name in ("lr", "policy_kl"):
            if not 0 <= (weight := getattr(self, name) or 0.0) < math.inf:
                raise UsageError(f"{_typed(name, weight)}: must be a number that is not negative")
        for name in ("q_ratio", "share", "holdout"):
            if not 0 <= (part := getattr(self, name) or 0.0) <= 1:
                raise UsageError(f"{_typed(name, part)}: must lie between 0 and 1")
        if self.policy is not None and self.policy_share and self.only == "value":
            raise UsageError(f"--policy {self.policy}: --only value leaves the policy as it is")
        if self.holdout == 1:
            raise UsageError("--set holdout=1: leaves nothing to train on")
        if self.only not in get_args(Only):
            raise UsageError(f"--only {self.only}: must be one of {', '.join(get_args(Only))}")
        if self.average not in get_args(Average):
            raise UsageError(f"--set average={self.average}: must be one of {', '.join(get_args(Average))}")

    def with_settings(self, settings: Mapping[str, str]) -> TrainOptions:
        """With parameters of `SETTINGS` as text, those of ``--set``. Raises UsageError."""
        changed: dict[str, Any] = {}
        for name, text in settings.items():
            if name not in SETTINGS:
                raise UsageError(f"--set {name}={text}: no such parameter; there are {', '.join(SETTINGS)}")
            try:
                changed[name] = SETTINGS[name](text)
            except ValueError:
                raise UsageError(f"--set {name}={text}: must be a number") from None
        return replace(self, **changed)

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

    def rate(self, step: int) -> float:
        """The learning rate of a step, from 0 on."""
        warmup = min(_WARMUP, self.total_steps // 5) if self.warmup is None else self.warmup
        warm = min(1.0, (step + 1) / warmup) if warmup else 1.0
        return self.lr * warm * (1 + math.cos(math.pi * step / self.total_steps)) / 2

    def blend(self, step: int) -> float:
        """How much of the parameters after a step goes into their average: all of it where there is none yet."""
        if self.average == "swa":
            return 1 / max(1, step + 2 - math.ceil(SWA_FROM * self.total_steps))
        if self.average == "ema":
            return 1 - min(EMA_DECAY, (1 + step) / (10 + step))
        return 1.0
