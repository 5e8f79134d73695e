"""Three formulas for the weight of a training position, by how far the search moved the net's judgement of it.

In a record, orig_q is the net's own value and best_q the value of the search's move, both from the side to move;
policy_kld is the divergence of the visits from the net's policy, in nats. ``diff-focus`` and ``position-sampling`` are
lczero-training's, of its older loader (tf/chunkparser.py, `sample_record`) and of its newer one
(csrc/loader/stages/position_sampling.cc); ``soft`` is that of the project's books (`judge.weights`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Floats
from valuerepair.chess import v6
from valuerepair.chess.positions import PHASES, phases
from valuerepair.chess.v6 import Records
from valuerepair.errors import UsageError, check_word, pairs_of
from valuerepair.inputs import finite, settings_of
from valuerepair.judge.weights import DEFAULT_SOFTNESS, weights_of
from valuerepair.nets.planes import CANONICAL
from valuerepair.text import positions_of_games, table_lines

_MEN = b"PNBRQKpnbrqk"


@dataclass(frozen=True, slots=True)
class DiffFocus:
    """The chance that lczero-training's older loader keeps a record, after its down-sampling to one in 32.

    ``min + slope * total``, at most 1, with ``total = (q_weight |best_q - orig_q| + policy_kld) / (q_weight +
    pol_scale)``. Records without orig_q or best_q, or with policy_kld 0 (not known), are always kept. The
    trainer's own defaults min = 1 and slope = 0 keep everything.
    """

    name: ClassVar[str] = "diff-focus"
    min: float = 0.025
    slope: float = 3.0
    q_weight: float = 6.0
    pol_scale: float = 3.5

    def weigh(self, records: Records) -> Floats:
        total = _total(records, self.q_weight, self.pol_scale)
        is_known = ~np.isnan(disagreement(records)) & (records["policy_kld"] > 0)
        return np.where(is_known, np.clip(self.min + self.slope * total, 0.0, 1.0), 1.0)


@dataclass(frozen=True, slots=True)
class PositionSampling:
    """The weight by which lczero-training's newer loader draws positions of a chunk (`position_sampling`).

    ``min((alpha * total + beta)^gamma, tau)`` with the total of `DiffFocus`; `default_weight` without orig_q,
    or with a policy_kld that is not a number. The loader divides by the largest of the chunk. The defaults are those of
    its data_loader_config.proto.
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
        is_unknown = np.isnan(records["orig_q"]) | np.isnan(records["policy_kld"])
        return np.where(is_unknown, self.default_weight, weight)


@dataclass(frozen=True, slots=True)
class Soft:
    """``floor + (1 - floor) / (1 + exp(-(|orig_q - best_q| - threshold) / softness))``: the weights of books.

    `floor` is the weight of a position that the net judges well, `unknown` that of a position without orig_q.
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


# `weigh` gives [n] weights of records, not negative; a user writes a formula by its `name` and fields.
Formula: TypeAlias = DiffFocus | PositionSampling | Soft
FORMULAS: dict[str, type[Formula]] = {kind.name: kind for kind in (DiffFocus, PositionSampling, Soft)}


def parse_formula(text: str) -> Formula:
    """``diff-focus``, ``soft:threshold=0.4,floor=0.05`` and so on; raises UsageError."""
    name, _, settings = text.partition(":")
    check_word("--formula", name, FORMULAS)
    kind, where = FORMULAS[name], f"--formula {text}: "
    names, parameters = [f.name for f in fields(kind)], {}
    for key, value in pairs_of(settings_of(settings), where, f"{name} has {', '.join(names)}"):
        check_word(f"{where}setting", key := key.replace("-", "_"), names)
        parameters[key] = finite(value, f"{where}{key}")
    formula = kind(**parameters)
    _check(text, formula)
    return formula


def formula_text(formula: Formula) -> str:
    """The text that `parse_formula` reads, with all parameters."""
    return f"{formula.name}:" + ",".join(f"{key}={value:g}" for key, value in asdict(formula).items())


def _check(text: str, formula: Formula) -> None:
    match formula:
        case DiffFocus() | PositionSampling() if min(formula.q_weight, formula.pol_scale) < 0 or (
            formula.q_weight + formula.pol_scale == 0
        ):
            raise UsageError(f"--formula {text}: q_weight and pol_scale must not be negative, nor both 0")
        case DiffFocus() if min(formula.min, formula.slope) < 0:
            raise UsageError(f"--formula {text}: min and slope must not be negative")
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
    """[n] indices into `chess.positions.PHASES`.

    Canonical planes may be reflected; a file reflection changes no phase, and others occur only without pawns.
    """
    planes = np.ascontiguousarray(records["planes"][:, :12])
    bits = np.unpackbits(planes.view(np.uint8).reshape(len(records), 12, 8, 1), axis=3)
    men = np.full((len(records), 8, 8), ord("."), np.uint8)
    for plane, letter in enumerate(_MEN):
        men[bits[:, plane] != 0] = letter
    black = np.where(
        records["input_format"] >= CANONICAL,  # from this format on another field has the side to move
        records["invariance_info"] & v6.BLACK_TO_MOVE,
        records["side_to_move_or_enpassant"],
    ).astype(np.bool_)
    # The mover's men are upper case, and rank 1 is the mover's: for Black both are reversed.
    turned = men[black, ::-1]
    men[black] = np.where(turned == ord("."), turned, turned ^ 32)
    return phases(men)


# Weights fall into bins of equal ratio, 0.35 % wide; the first is for 0 and weights below `SMALLEST`.
SMALLEST, LARGEST = 1e-6, 1e3
WEIGHT_BINS = 48  # of `WeightTally.histogram`
GAP_BINS = 200  # of |net Q - deep Q| in [0, 2]
QUANTILES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
BANDS = (0.0, 0.1, 0.2, 0.4, 0.55, 0.8, 2.0)
_STEPS = int(np.log(LARGEST / SMALLEST) / np.log(1.0035)) + 1


class WeightTally:
    """Counts positions and weights: by weight, by disagreement, by phase, by game."""

    def __init__(self) -> None:
        self.games = self.positions = self.unknown = 0
        self.sum = self.squares = self.game_squares = 0.0
        self.largest = 0.0
        self._counts, self._sums = np.zeros(_STEPS + 2, np.int64), np.zeros(_STEPS + 2)
        # [bins + 1]: the last is for positions with an unknown disagreement.
        self.gap_counts, self.gap_sums = np.zeros(GAP_BINS + 1, np.int64), np.zeros(GAP_BINS + 1)
        self.phase_counts, self.phase_sums = np.zeros(len(PHASES), np.int64), np.zeros(len(PHASES))

    def add(self, weights: Floats, gap: Floats, phases: NDArray[np.int64]) -> None:
        """Counts one game: [n] weights, disagreements (NaN where unknown) and indices of phases."""
        self.games += 1
        self.positions += len(weights)
        total = float(weights.sum())
        self.sum += total
        self.squares += float((weights**2).sum())
        self.game_squares += total**2
        self.largest = max(self.largest, float(weights.max(initial=0.0)))
        _count(self._counts, self._sums, _bins(weights), weights)
        unknown = np.isnan(gap)
        self.unknown += int(unknown.sum())
        size = np.minimum(np.abs(np.where(unknown, 0.0, gap)) * (GAP_BINS / 2), GAP_BINS - 1).astype(np.int64)
        _count(self.gap_counts, self.gap_sums, np.where(unknown, GAP_BINS, size), weights)
        _count(self.phase_counts, self.phase_sums, phases, weights)

    @property
    def mean(self) -> float:
        """The mean of all weights."""
        return self.sum / self.positions

    def histogram(self) -> tuple[Floats, NDArray[np.int64], int]:
        """`WEIGHT_BINS` + 1 edges of equal ratio from 1e-6 to the largest weight; the number of positions between each
        two; the number of weights 0."""
        edges = np.geomspace(SMALLEST, max(self.largest, 10 * SMALLEST) * 1.0001, WEIGHT_BINS + 1)
        filled = self._counts[1:] > 0
        # A bin's centre may lie beyond the largest weight; then the bin counts in the last interval.
        centres = np.minimum(SMALLEST * 1.0035 ** (np.arange(_STEPS + 1) + 0.5), edges[-1])
        counts = np.histogram(centres[filled], edges, weights=self._counts[1:][filled])[0]
        return edges, counts.astype(np.int64), int(self._counts[0])

    def quantile(self, share: float) -> float:
        """The weight that this share of positions does not exceed, to half a per cent."""
        index = int(np.searchsorted(np.cumsum(self._counts), share * self.positions))
        return float(self._sums[index] / self._counts[index]) if self._counts[index] else 0.0

    def kept(self, factor: float) -> float:
        """The share of positions that is kept with the chance ``min(1, factor * weight)`` each."""
        filled = self._counts > 0
        means = self._sums[filled] / self._counts[filled]
        return float((self._counts[filled] * np.minimum(factor * means, 1.0)).sum() / self.positions)

    def factor(self, share: float) -> float | None:
        """The factor of weights that keeps `share` of the positions; None if too many weigh 0."""
        if self._counts[1:].sum() < share * self.positions:
            return None
        low, high = 0.0, 1 / SMALLEST
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if self.kept(middle) < share else (low, middle)
        return high

    def figures(self) -> dict[str, Any]:
        """The figures, JSON-able. Effective numbers are Kish's (`judge.weights.effective_sample_size`)."""
        return {
            "games": self.games,
            "positions": self.positions,
            "net_unknown": self.unknown,
            "mean": self.mean,
            "largest": self.largest,
            "quantiles": {f"{share:g}": self.quantile(share) for share in QUANTILES},
            "effective_positions": self.sum**2 / self.squares if self.squares else 0.0,
            "effective_games": self.sum**2 / self.game_squares if self.game_squares else 0.0,
            "phases": [
                {"phase": name, "positions": int(n), "mean": _ratio(w, n), "share_of_weight": _ratio(w, self.sum)}
                for name, n, w in zip(PHASES, self.phase_counts.tolist(), self.phase_sums.tolist(), strict=True)
            ],
            "disagreement": self._bands(),
        }

    def _bands(self) -> list[dict[str, Any]]:
        """Figures by |net Q - deep Q|, at the end those of positions where it is unknown."""
        cuts = [round(edge * GAP_BINS / 2) for edge in BANDS]
        ranges = [(*edges, slice(*cut)) for edges, cut in zip(pairwise(BANDS), pairwise(cuts), strict=True)]
        rows = []
        for low, high, part in (*ranges, (None, None, slice(GAP_BINS, None))):
            n, w = int(self.gap_counts[part].sum()), float(self.gap_sums[part].sum())
            if low is not None or n:
                shares = {"mean": _ratio(w, n), "share_of_weight": _ratio(w, self.sum)}
                rows.append({"from": low, "to": high, "positions": n, **shares})
        return rows


def tally_lines(figures: Mapping[str, Any], kept: float) -> list[str]:
    """`WeightTally.figures` for a terminal; `kept` is the share that a draw by these weights keeps."""
    n = figures["positions"]
    lines = [
        f"{positions_of_games(n, figures['games'])}"
        + (f", {figures['net_unknown']:,} without the net's value" if figures["net_unknown"] else ""),
        f"mean weight {figures['mean']:.4f}, largest {figures['largest']:.4f}; "
        f"drawn by weight, {100 * kept:.1f} % are kept",
        f"by weight they count for {figures['effective_positions']:,.1f} positions, "
        f"their games for {figures['effective_games']:,.1f}",
        "quantiles: " + ", ".join(f"{100 * float(q):.0f} % {value:.4f}" for q, value in figures["quantiles"].items()),
        "",
    ]
    rows = [(row["phase"], row) for row in figures["phases"]]
    rows += [
        ("not known" if row["from"] is None else f"|net - deep| {row['from']:g}-{row['to']:g}", row)
        for row in figures["disagreement"]
    ]
    columns = ":<20 | positions:>11, | share:>8.1% | mean:>8.4f | of weight:>10.1%"
    cells = ((name, row["positions"], row["positions"] / n, row["mean"], row["share_of_weight"]) for name, row in rows)
    return [*lines, *table_lines(columns, cells)]


def _bins(weights: Floats) -> NDArray[np.int64]:
    bounded = np.clip(weights, SMALLEST, LARGEST)
    return np.where(weights <= SMALLEST, 0, 1 + (np.log(bounded / SMALLEST) / np.log(1.0035)).astype(np.int64))


def _count(counts: NDArray[np.int64], sums: Floats, bins: NDArray[np.int64], weights: Floats) -> None:
    counts += np.bincount(bins, minlength=len(counts))
    sums += np.bincount(bins, weights, len(sums))


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole else 0.0
