"""How stable candidates are against alpha: `python -m benchmarks.alpha FIRST.db SECOND.db --net maia-1900 ...`.

The stores are two draws of the same archives, every position searched by one oracle (`vr mine --screen off`), with the
values of all nets (`vr remeasure --net A --net B` adds them). It prints the tables of docs/methods/scale.md,
"Which alpha".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import click
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from valuerepair import evaluate
from valuerepair.arrays import Flags, Floats
from valuerepair.calibration import fit, fold_of
from valuerepair.chess import values
from valuerepair.question import Question
from valuerepair.store.store import Store

# Of positions with these weights, which are chosen? [n] of |net Q - deep Q| and weights.
Choice = Callable[[Floats, Floats], Flags]


@dataclass(frozen=True)
class Draw:
    """The positions of a store that one net and the oracle have judged, all [n]; `cp` and `mate` as in the store."""

    net_q: Floats
    cp: Floats
    mate: Floats
    game: NDArray[np.int64]

    @classmethod
    def read(cls, path: str, net: str) -> Draw:
        with Store.open(path) as store:
            frame = store.frame(Question(net=net, alpha=values.DEFAULT_ALPHA), only=("net_q", "cp", "mate", "game_id"))
        net_q, cp, mate = (frame[name].to_numpy(np.float64) for name in ("net_q", "cp", "mate"))
        return cls(net_q, cp, mate, np.unique(frame["game_id"].to_numpy(np.int64), return_inverse=True)[1])

    def off(self, alpha: float, *, calibrated: bool = False) -> Floats:
        """[n] |net Q - deep Q|, or of calibrated Q."""
        nothing = np.full(len(self.cp), np.nan)
        deep = values.deep_q(np.stack([self.cp, self.mate, *[nothing] * 4], 1), alpha)
        net_q = self.net_q
        if calibrated:
            curve = fit(net_q, deep, np.ones(len(net_q)), self.game, alpha=alpha, resamples=0)
            net_q = curve.expected(net_q, fold_of(self.game))
        return np.abs(net_q - deep)

    def fits(self) -> dict[str, float]:
        """The alphas that are fitted to the net: by distance, and by slope."""
        ones = np.ones(len(self.net_q))
        slope = values.fit_alpha(self.net_q, self.cp, self.mate, ones, self.game)
        return {"l1": self._nearest(), "slope": slope.alpha}

    def _nearest(self) -> float:
        """The alpha with the least mean |net Q - Q(cp)|, mates left out."""
        scored = ~np.isnan(self.net_q + self.cp)
        net_q, cp = self.net_q[scored], self.cp[scored]

        def distance(log_alpha: float) -> float:
            return float(np.abs(net_q - np.tanh(cp / (2 * np.exp(log_alpha)))).mean())

        grid = np.log(np.geomspace(*values.ALPHA_BOUNDS, 97))
        best = min(grid.tolist(), key=distance)
        cell = grid[1] - grid[0]
        return float(np.exp(minimize_scalar(distance, bounds=(best - cell, best + cell), method="bounded").x))


def at(threshold: float) -> Choice:
    """Positions that are off by the threshold."""
    return lambda off, weight: off >= threshold


def worst(share: float) -> Choice:
    """This share of the positions, the worst first."""
    return lambda off, weight: off >= worst_of(share, off, weight)


def worst_of(share: float, off: Floats, weight: Floats) -> float:
    """The threshold that this share of the positions reaches."""
    order = np.argsort(-off, kind="stable")
    within = int((np.cumsum(weight[order]) <= share * weight.sum()).sum())
    return float(off[order][max(within - 1, 0)])


def overlap(draw: Draw, first: Floats, second: Floats, choose: Choice, resamples: int) -> tuple[float, float, float]:
    """Positions chosen by both of the differences [n], as a share of those chosen by either (Jaccard), with its 95 %
    percentile interval over resampled games, each with its own threshold where the choice is a share."""
    rng, games = np.random.default_rng(0), int(draw.game.max()) + 1

    def shared(weight: Floats) -> float:
        one, other = choose(first, weight), choose(second, weight)
        return float(weight[one & other].sum() / max(weight[one | other].sum(), 1.0))

    drawn = (np.bincount(rng.integers(0, games, games), minlength=games)[draw.game] for _ in range(resamples))
    low, high = np.percentile([shared(times.astype(np.float64)) for times in drawn], [2.5, 97.5])
    return shared(np.ones(len(first))), float(low), float(high)


def between_alphas(net: str, draw: Draw, alphas: Sequence[float], share: float, resamples: int) -> list[str]:
    """Rows of the first table: the same positions, another alpha."""
    rules = [("0.55", at(0.55), False), (f"worst:{100 * share:g}%", worst(share), False)]
    rules.append((f"worst:{100 * share:g}%, calibrated", worst(share), True))
    rows = []
    for name, choose, calibrated in rules:
        off = {alpha: draw.off(alpha, calibrated=calibrated) for alpha in alphas}
        cells = [overlap(draw, off[a], off[b], choose, resamples) for a, b in combinations(alphas, 2)]
        shown = " | ".join(f"{value:.2f} ({low:.2f} to {high:.2f})" for value, low, high in cells)
        rows.append(f"| {net} | {name} | {shown} |")
    return rows


def between_draws(net: str, first: Draw, second: Draw, share: float) -> list[str]:
    """Rows of the second table: candidates by each alpha in both draws, and what the other draw's numbers, alpha or
    threshold, would choose of the first."""
    rows, ones = [], np.ones(len(first.net_q))
    own, other = ({"default": values.DEFAULT_ALPHA, **draw.fits()} for draw in (first, second))
    for name in own:
        here, in_second, twin = first.off(own[name]), second.off(other[name]), first.off(other[name])
        limits = worst_of(share, here, ones), worst_of(share, in_second, np.ones(len(in_second)))
        both = [(here >= 0.55, twin >= 0.55), (here >= limits[0], twin >= limits[1])]
        same = [float((a & b).sum() / max((a | b).sum(), 1)) for a, b in both]
        beyond = first.off(own[name], calibrated=True)[here >= 0.55] >= 0.55
        counts = f"{int((here >= 0.55).sum()):,} and {int((in_second >= 0.55).sum()):,}"
        rows.append(
            f"| {net} | {name} {own[name]:.0f} and {other[name]:.0f} | {counts} | {100 * beyond.mean():.0f} % | "
            f"{same[0]:.2f} | {limits[0]:.2f} and {limits[1]:.2f} | {same[1]:.2f} |"
        )
    return rows


def after_training(net: str, path: str, alpha: float, trained: str) -> str:
    """A row of the third table: what the slope of deep Q given net Q predicted, and what became of the net's Q."""
    with Store.open(path) as store:
        frame = store.frame(Question(net=net, alpha=alpha)).dropna(subset="deep_q")
    old, deep = frame["net_q"].to_numpy(np.float64), frame["deep_q"].to_numpy(np.float64)
    new = evaluate(frame, trained)["q"].to_numpy(np.float64)
    ones, game = np.ones(len(old)), frame["game_id"].to_numpy(np.int64)
    predicted, measured = (values.slope_of(old, q, ones, game) for q in (deep, new))
    scaled = [values.slope_of(q, deep, ones, game).value * q for q in (old, new)]
    errors = " | ".join(f"{np.mean((q - deep) ** 2):.4f}" for q in (old, new, *scaled))
    shown = " | ".join(f"{slope.value:.2f} ({slope.low:.2f} to {slope.high:.2f})" for slope in (predicted, measured))
    return f"| {net} | {alpha:g} | {shown} | {errors} |"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("stores", nargs=2, metavar="FIRST SECOND", type=click.Path(exists=True, dir_okay=False))
@click.option("--net", "nets", multiple=True, required=True, help="A net that both stores have values of.")
@click.option("--alpha", "alphas", multiple=True, type=float, default=(110.0, 170.0, 222.0, 408.0), show_default=True)
@click.option("--share", default=0.02, show_default=True, help="Share of the positions that are the worst.")
@click.option("--trained", multiple=True, metavar="NET:ALPHA:FILE", help="A net that learned from FIRST by this alpha.")
@click.option("--resamples", default=400, show_default=True, help="Draws of games for an interval.")
def command(
    stores: tuple[str, str],
    nets: Sequence[str],
    alphas: Sequence[float],
    share: float,
    trained: Sequence[str],
    resamples: int,
) -> None:
    """Print how many of the chosen positions two alphas share, and two draws of positions; and how steep Q of trained
    nets is on the second draw, with mean squares of net Q - deep Q, as they are and after scaling by one number."""
    draws = {net: tuple(Draw.read(path, net) for path in stores) for net in nets}
    pairs = " | ".join(f"{a:g}, {b:g}" for a, b in combinations(alphas, 2))
    click.echo(f"| net | chosen | {pairs} |\n|---|---|{'---|' * len(list(combinations(alphas, 2)))}")
    for net, (first, _) in draws.items():
        for row in between_alphas(net, first, alphas, share, resamples):
            click.echo(row)
    click.echo(
        f"\n| net | alpha, in both draws | candidates at 0.55 | beyond scale | shared | worst:{100 * share:g}% is | "
        "shared |\n|---|---|---|---|---|---|---|"
    )
    for net, (first, second) in draws.items():
        for row in between_draws(net, first, second, share):
            click.echo(row)
    if trained:
        click.echo(
            "\n| net | alpha | predicted | measured | old | new | old, scaled | new, scaled |\n" + "|---" * 8 + "|"
        )
    for words in trained:
        net, alpha, file = words.split(":", 2)
        click.echo(after_training(net, stores[1], float(alpha), file))


if __name__ == "__main__":
    command()
