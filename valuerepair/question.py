"""A question to a store as one value: whose values are compared, how a deep score becomes Q, and the threshold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

from valuerepair.errors import UsageError, check_word

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

QFrom = Literal["cp", "wdl"]
DEFAULT_THRESHOLD = 0.55


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Which values of a store are compared, and which positions are candidates.

    `net`: a name, a file's path or the beginning of its SHA-256; `oracle`: the judge, by its label, the beginning of
    its digest, or a text of ``--deep``; None for those in use (`store.pairs.pick`). `alpha`: centipawns of the logistic
    to Q; None for the one in use, else a fit (`store.alpha.alpha`). `q_from`: whether deep Q comes from centipawns or
    from the engine's WDL. A candidate has ``|net Q - deep Q| >= threshold``. `beside`: whether to include positions
    that are not of games: those of `vr mine --off-game` and the neighbours of candidates (`vr expand`). Rates and alpha
    always use positions of games only.

    Raises UsageError for a threshold outside (0, 2], an alpha that is not a positive number, and unknown words.
    """

    net: str | None = None
    oracle: str | None = None
    alpha: float | None = None
    q_from: QFrom = "cp"
    threshold: float = DEFAULT_THRESHOLD
    beside: bool = False

    def __post_init__(self) -> None:
        check_threshold(self.threshold)
        if self.alpha is not None and not 0 < self.alpha < float("inf"):
            raise UsageError(f"alpha {self.alpha:g}: must be a positive number of centipawns")
        if self.oracle == "":
            raise UsageError("oracle '': is empty, which all judges would fit; give a part of its name or digest")
        check_word("q_from", self.q_from, get_args(QFrom))


@dataclass(frozen=True, slots=True)
class Worst:
    """A question whose threshold is a share: candidates are the positions with the largest ``|net Q - deep Q|``.

    `share` is the share of the store's positions, in (0, 1), each counted by its weight; the threshold of `question` is
    ignored. Raises UsageError for another share.
    """

    share: float
    question: Question = field(default_factory=Question)

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise UsageError(f"a share of the positions lies between 0 and 1; not {self.share:g}")

    def __str__(self) -> str:
        return f"worst:{100 * self.share:g}%"


@overload
def is_candidate(disagreement: float, threshold: float) -> bool: ...
@overload
def is_candidate(
    disagreement: NDArray[np.floating[Any]], threshold: float | NDArray[np.float64]
) -> NDArray[np.bool_]: ...
@overload
def is_candidate(disagreement: pd.Series[float], threshold: float) -> pd.Series[bool]: ...
def is_candidate(disagreement: Any, threshold: Any) -> Any:
    """Whether net Q and deep Q differ by the threshold or more; `disagreement` is a number, or of any shape.

    The one place that decides it. NaN, for a missing value, is not a candidate.
    """
    return abs(disagreement) >= threshold


def no_deep_score(positions: int, q_from: str) -> str:
    """The words of an error: no position has a deep score of this kind, and what to try."""
    other = "wdl" if q_from == "cp" else "auto"
    return f"none of the {positions:,} positions has a deep score from {q_from}; try vr stats --use alpha={other}"


def check_threshold(threshold: float) -> None:
    """Raises UsageError for a threshold outside (0, 2]: Q lies in [-1, 1], so no two values differ by more than 2."""
    if not 0 < threshold <= 2:
        raise UsageError(
            f"a threshold lies above 0 and is at most 2, the largest difference of two Q; not {threshold:g}"
        )
