"""How a net is trained: `TrainOptions`, and the learning rate that follows from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, get_args

from valuerepair.errors import UsageError, check_word
from valuerepair.question import DEFAULT_THRESHOLD, check_threshold

Only = Literal["all", "heads", "value"]
Word = TypeVar("Word", bound=str)

_JUDGEMENTS = 20  # without a given interval
PASSES = 6  # over the positions, if no number of steps is given; with more passes a net overfits
MOST_STEPS = 2000
_WARMUP = 100
# The default of `TrainOptions.policy`, the policy target of a store's positions (`parse_policy`).
POLICY = "net"

# The share of repair games in a mixture that other projects settled on (docs/train.md).
SHARE_OF_GAMES = 0.10

# Parameters that few trainings change, with their types: `vr train --set NAME=VALUE`.
SETTINGS: dict[str, Callable[[str], Any]] = {
    "batch": int,
    "warmup": int,
    "q_ratio": float,
    "policy_kl": float,
    "amplitude": float,
    "threshold": float,
    "disagreement_weight": float,
    "holdout": float,
    "every": int,
    "patience": int,
}


def parse_policy(text: str, default: Word, *others: Word) -> tuple[Word, float]:
    """The source and share of a policy target: the `default` word (share 0), or one of the others, like ``judge``
    (share 1) or ``judge:0.3``. Raises UsageError for any other text."""
    word, colon, number = text.partition(":")
    try:
        share = float(number) if colon else 1.0
    except ValueError:
        share = math.nan
    if text == default:
        return default, 0.0
    for other in others:
        if word == other and 0 <= share <= 1:
            return other, share
    forms = ", ".join(f"{other} or {other}:SHARE" for other in others)
    raise UsageError(f"--policy {text or repr(text)}: give {default}, {forms}; a share lies between 0 and 1")


def _option_text(name: str, value: float) -> str:
    """The option of `vr train` that gives this value."""
    return f"--set {name}={value:g}" if name in SETTINGS else f"--{name} {value:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions:
    """How a net is trained.

    `only`: the parameters that are trained: all, those of the heads, or those of the value head. `steps` of `batch`
    positions; None: enough for `PASSES` passes over the positions, at most `MOST_STEPS`. `lr`: the learning rate after
    `warmup` steps (None: 100, at most a fifth of all); it then falls to 0 by a cosine. `policy`: the policy target of a
    store's positions, ``net`` for the old net's policy or ``judge:0.3`` for a mixture with that share on the judge's
    best move; None: `POLICY`. `policy_kl`: the weight of KL(policy target || new policy); None: 1 with a store, else 0;
    for chunks the target is the old policy. `q_ratio`: the share of the search's Q in the value target, the rest is the
    game's result. `amplitude`: the part of the change of the parameters that is written, from 0 to 1; None: the one
    with the least loss on the held-out games. `threshold`: ``|net Q - deep Q|`` from which a position is a candidate.
    `control`: learn no candidates of the store, and all else as without it. `disagreement_weight`: the share of a store
    position's value loss that is in proportion to the soft weight of its disagreement (`sources.value_weights`).
    `holdout`: the share of games that judge the net and do not train it. `every`: the steps between two judgements;
    None: 20 judgements in all. `patience`: the judgements without gain after which training stops; 0: never.

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
    amplitude: float | None = None
    threshold: float = DEFAULT_THRESHOLD
    control: bool = False
    disagreement_weight: float = 0.0
    holdout: float = 0.1
    every: int | None = None
    patience: int = 5
    seed: int = 0

    @property
    def policy_share(self) -> float:
        """The share of the judge's best move in the policy target of a store's positions."""
        return parse_policy(POLICY if self.policy is None else self.policy, "net", "judge")[1]

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "every"):
            if (count := getattr(self, name)) is not None and count < 1:
                raise UsageError(f"{_option_text(name, count)}: must be at least 1")
        for name in ("warmup", "patience", "seed"):
            if (number := getattr(self, name) or 0) < 0:
                raise UsageError(f"{_option_text(name, number)}: must not be negative")
        for name in ("lr", "policy_kl"):
            if not 0 <= (weight := getattr(self, name) or 0.0) < math.inf:
                raise UsageError(f"{_option_text(name, weight)}: must be a number that is not negative")
        for name in ("q_ratio", "disagreement_weight", "holdout", "amplitude"):
            if not 0 <= (part := getattr(self, name) or 0.0) <= 1:
                raise UsageError(f"{_option_text(name, part)}: must lie between 0 and 1")
        if self.policy is not None and self.policy_share and self.only == "value":
            raise UsageError(f"--policy {self.policy}: --only value leaves the policy as it is")
        if self.holdout == 1:
            raise UsageError("--set holdout=1: leaves nothing to train on")
        check_word("--only", self.only, get_args(Only))
        check_threshold(self.threshold)

    def with_settings(self, settings: Mapping[str, str]) -> TrainOptions:
        """A copy with these `SETTINGS`, name and text, as ``--set`` gives them. Raises UsageError."""
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
        return self.every or max(1, self.total_steps // _JUDGEMENTS)

    @property
    def total_steps(self) -> int:
        """The number of steps; `MOST_STEPS` until it is known (see `planned`)."""
        return MOST_STEPS if self.steps is None else self.steps

    def planned(self, positions: int) -> TrainOptions:
        """A copy with steps and warm-up set, from the number of positions in a pass if they were None."""
        steps = self.steps or min(MOST_STEPS, max(1, round(PASSES * positions / self.batch)))
        return replace(self, steps=steps, warmup=min(_WARMUP, steps // 5) if self.warmup is None else self.warmup)

    def rate(self, step: int) -> float:
        """The learning rate of a step; the first is step 0."""
        warmup = min(_WARMUP, self.total_steps // 5) if self.warmup is None else self.warmup
        ramp = min(1.0, (step + 1) / warmup) if warmup else 1.0
        return self.lr * ramp * (1 + math.cos(math.pi * step / self.total_steps)) / 2
