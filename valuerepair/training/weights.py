"""How much a training position counts, by how far the search moved the net's judgement of it: three formulas.

Of a record, orig_q is the net's own value and best_q that of the move the search chose, both from the side to move;
policy_kld is the divergence of the visits from the net's policy, in nats. ``diff-focus`` and ``position-sampling`` are
lczero-training's, of its older loader (tf/chunkparser.py, `sample_record`) and of its newer one
(csrc/loader/stages/position_sampling.cc); ``soft`` is that of the project's books (`candidates.weights`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from valuerepair import v6
from valuerepair.candidates.weights import DEFAULT_SOFTNESS, weights_of
from valuerepair.errors import UsageError
from valuerepair.store.phases import phases

Records = NDArray[np.void]  # [n] of v6.RECORD
Floats = NDArray[np.float64]

_MEN = b"PNBRQKpnbrqk"
_CANONICAL = 3  # lc0's input formats from here on say whose move it is in another field


class Formula(Protocol):
    """Weights of records; `name` and the fields of the dataclass are how a user writes it."""

    name: ClassVar[str]

    def weigh(self, records: Records) -> Floats:
        """[n] weights, not negative."""
        ...


@dataclass(frozen=True, slots=True)
class DiffFocus:
    """The chance that lczero-training's older loader keeps a record, after its down-sampling to one in 32.

    ``min + slope * total``, at most 1, with ``total = (q_weight |best_q - orig_q| + policy_kld) / (q_weight +
    pol_scale)``. Records without orig_q, or with policy_kld 0 (not known), are always kept. The trainer's own defaults
    min = 1 and slope = 0 keep everything.
    """

    name: ClassVar[str] = "diff-focus"
    min: float = 0.025
    slope: float = 3.0
    q_weight: float = 6.0
    pol_scale: float = 3.5

    def weigh(self, records: Records) -> Floats:
        total = _total(records, self.q_weight, self.pol_scale)
        known = ~np.isnan(records["orig_q"]) & (records["policy_kld"] > 0)
        return np.where(known, np.clip(self.min + self.slope * total, 0.0, 1.0), 1.0)


@dataclass(frozen=True, slots=True)
class PositionSampling:
    """The weight by which lczero-training's newer loader draws positions of a chunk (`position_sampling`).

    ``min((alpha * total + beta)^gamma, tau)`` with the total of `DiffFocus`; `default_weight` without orig_q. The
    loader divides by the largest of the chunk. The defaults here are those of its data_loader_config.proto.
    """

    name: ClassVar[str] = "position-sampling"
    q_weight: float = 0.0
    pol_scale: float = 1.0
    alpha: float = 1.0
    beta: float = 0.0
    gamma: float = 1.0
    tau: float = 1.0
    default_weight: float = 1.0

    def weigh(self, records: Records) -> Floats:
        total = _total(records, self.q_weight, self.pol_scale)
        base = np.maximum(total * self.alpha + self.beta, 0.0)
        with np.errstate(divide="ignore"):  # 0 to a negative power: infinite, which tau bounds
            weight = np.minimum(base**self.gamma, self.tau)
        return np.where(np.isnan(records["orig_q"]), self.default_weight, weight)


@dataclass(frozen=True, slots=True)
class Soft:
    """``floor + (1 - floor) / (1 + exp(-(|orig_q - best_q| - threshold) / softness))``: the weights of books.

    `floor` is what a position counts that the net judges well; `unknown` what one without orig_q counts.
    """

    name: ClassVar[str] = "soft"
    threshold: float = 0.55
    softness: float = DEFAULT_SOFTNESS
    floor: float = 0.0
    unknown: float = 0.0

    def weigh(self, records: Records) -> Floats:
        gap = disagreement(records)
        weight = self.floor + (1 - self.floor) * weights_of(gap, self.threshold, self.softness)
        return np.where(np.isnan(gap), self.unknown, weight)


FORMULAS: dict[str, type[DiffFocus] | type[PositionSampling] | type[Soft]] = {
    kind.name: kind for kind in (DiffFocus, PositionSampling, Soft)
}


def parse_formula(text: str) -> Formula:
    """``diff-focus``, ``soft:threshold=0.4,floor=0.05`` and so on; raises UsageError."""
    name, _, settings = text.partition(":")
    if name not in FORMULAS:
        raise UsageError(f"--formula {text}: must be one of {', '.join(FORMULAS)}")
    kind = FORMULAS[name]
    known, given = [f.name for f in fields(kind)], {}
    for setting in filter(None, settings.split(",")):
        key, _, value = setting.partition("=")
        key = key.replace("-", "_")
        if key not in known:
            raise UsageError(f"--formula {text}: {name} has no {setting}; it has {', '.join(known)}")
        given[key] = _number(text, key, value)
    formula: Formula = kind(**given)
    _check(text, formula)
    return formula


def described(formula: Formula) -> dict[str, Any]:
    """Name and parameters, JSON-able."""
    return {"name": formula.name, **_parameters(formula)}


def written(formula: Formula) -> str:
    """As `parse_formula` reads it, with all parameters."""
    return f"{formula.name}:" + ",".join(f"{key}={value:g}" for key, value in _parameters(formula).items())


def _parameters(formula: Any) -> dict[str, float]:
    return asdict(formula)


def _number(text: str, key: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise UsageError(f"--formula {text}: {key} must be a number")
    return number


def _check(text: str, formula: Formula) -> None:
    match formula:
        case DiffFocus() | PositionSampling() if min(formula.q_weight, formula.pol_scale) < 0 or (
            formula.q_weight + formula.pol_scale == 0
        ):
            raise UsageError(f"--formula {text}: q_weight and pol_scale must not be negative, nor both 0")
        case PositionSampling() if formula.tau <= 0 or formula.default_weight < 0:
            raise UsageError(f"--formula {text}: tau must be above 0, default_weight not below")
        case Soft() if formula.softness < 0 or not (0 <= formula.floor <= 1 and 0 <= formula.unknown <= 1):
            raise UsageError(f"--formula {text}: softness must not be negative, floor and unknown lie in 0 to 1")
        case _:
            pass


def _total(records: Records, q_weight: float, pol_scale: float) -> Floats:
    gap = np.abs(disagreement(records))
    divergence = records["policy_kld"].astype(np.float64)
    total: Floats = (q_weight * np.where(np.isnan(gap), 0.0, gap) + divergence) / (q_weight + pol_scale)
    return total


# -- facts of records -------------------------------------------------------------------------------------------------


def disagreement(records: Records) -> Floats:
    """[n] net Q - deep Q from the side to move: orig_q - best_q; NaN where the net's value is not known."""
    gap: Floats = records["orig_q"].astype(np.float64) - records["best_q"]
    return gap


def phases_of(records: Records) -> NDArray[np.int64]:
    """[n] indices into `store.phases.PHASES`.

    Canonical planes may be reflected; a file reflection changes no phase, and others occur only without pawns.
    """
    planes = np.ascontiguousarray(records["planes"][:, :12])
    bits = np.unpackbits(planes.view(np.uint8).reshape(len(records), 12, 8, 1), axis=3)
    men = np.full((len(records), 8, 8), ord("."), np.uint8)
    for plane, letter in enumerate(_MEN):
        men[bits[:, plane] != 0] = letter
    black = np.where(
        records["input_format"] >= _CANONICAL,
        records["invariance_info"] & v6.BLACK_TO_MOVE,
        records["side_to_move_or_enpassant"],
    ).astype(np.bool_)
    # The mover's men are upper case and begin on rank 1: for Black that is turned round.
    turned = men[black, ::-1]
    men[black] = np.where(turned == ord("."), turned, turned ^ 32)
    return phases(men)
