"""Policy targets (B7): how much of its policy should a net learn from the judge, and how fast?

Nets by the recipe of README's hour: positions of the games that come with the project and beside them, judged by
20,000 nodes. They differ in the share of the policy target that is the judge's move, and in the learning rate. One is
chosen by the games that training held out, and plays the net of README's settings and the old one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from benchmarks.proof import tables
from benchmarks.proof.arms import NET, Step
from benchmarks.proof.player import HOUR_GAMES, HOUR_POSITIONS, HOUR_STEPS, Player, kind_row, read_json
from valuerepair.nets.weights import read_net_file
from valuerepair.training.train import read_curve

if TYPE_CHECKING:
    import pandas as pd

PART = "policy"
HOUR = "hour"  # as README's: `vr repair`'s defaults
# The policy target and the learning rate.
ARMS = {
    HOUR: ("judge:0.3", 1e-4),
    "moves-1": ("judge:1", 1e-4),
    "moves-3": ("judge:1", 3e-4),
    "moves-10": ("judge:1", 1e-3),
}
_NODES, _GAMES = 20_000, 900
_MATCH_NODES = 100
_ALPHA, _SEED = "170", "47"
_WORSE = 1.05  # times the squared error of `HOUR` that a chosen net may have, of each kind of position


@dataclass(frozen=True, slots=True)
class PolicyTargets:
    """`player` has the openings, and says where everything lies."""

    player: Player

    @property
    def db(self) -> Path:
        return self.player.out / "policy.db"

    @property
    def split(self) -> Path:
        return self.player.out / "policy-split.json"

    def phases(self, results: Path) -> Iterator[Iterable[Step]]:
        """All of it, in phases: what one has made says what is in the next."""
        yield from self._training()
        nets = {name: str(self.player.net(name)) for name in ARMS}
        yield [self._judging(PART, NET, *nets.values())]
        if not self.player.judged(PART).exists():
            return
        best = chosen(curves(self.player.out))
        if best != HOUR:
            yield [self._judging(best, nets[HOUR], nets[best])]
            if self.player.judged(best).exists():
                yield [self._match(f"{best}-{HOUR}", best, nets[HOUR], best, 0)]
        yield [self._match(name, name, NET, PART, [*ARMS].index(name)) for name in dict.fromkeys((best, HOUR))]
        words = ["tables", str(self.player.out), "-o", str(results)]
        yield [Step("measure", "policy-tables", results / "policy.done", words, "benchmarks.proof.policy")]

    def _training(self) -> Iterator[Iterable[Step]]:
        db, split = str(self.db), str(self.split)
        yield self.player.opening()
        words = ["mine", *HOUR_GAMES, "--net", NET, "--deep", f"stockfish:nodes={_NODES}", "--aside", "0.5"]
        words += ["--positions", str(self.player.sized(HOUR_POSITIONS, 400)), "--screen", "off", "--alpha", _ALPHA]
        dividing = ["split", "--db", db, "--net", NET, "--alpha", _ALPHA, "--games", "0.15", "--families", "0.1"]
        yield [
            Step(PART, "mine-policy", self.player.out / "done" / "mine-policy", [*words, "--seed", _SEED, "--db", db]),
            Step(PART, "split-policy", Path(split), [*dividing, "--seed", _SEED, "-o", split]),
        ]
        yield [self._trained(name) for name in ARMS]

    def _judging(self, name: str, *nets: str) -> Step:
        """Nets on held-out games, each against the first."""
        words = ["remeasure", "--db", str(self.db), "--alpha", _ALPHA, "--split", str(self.split), "--part", "games"]
        words += [word for net in nets for word in ("--net", net)]
        return Step(PART, f"judge-{name}", self.player.judged(name), [*words, "--json"], saves=True)

    def _trained(self, name: str) -> Step:
        (policy, rate), net = ARMS[name], self.player.net(name)
        words = ["train", "--net", NET, "--store", str(self.db), "--split", str(self.split), "--alpha", _ALPHA]
        words += ["--policy", policy, "--lr", f"{rate:g}", "--steps", str(self.player.sized(HOUR_STEPS, 20))]
        return Step(PART, f"{name}.pb.gz", net, [*words, "--seed", _SEED, "-o", str(net)])

    def _match(self, name: str, net: str, opponent: str, judged: str, place: int) -> Step:
        """At equal breadth: with the Q of both as steep on held-out games."""
        player = self.player
        sides = [
            f"net={file},nodes={_MATCH_NODES},q_scale={scale:.3f}"
            for file, scale in zip((player.net(net), opponent), player.scales(judged, place), strict=True)
        ]
        words = ["match", *sides, "--games", str(player.sized(_GAMES, 4) // 2 * 2), "--seed", _SEED]
        words += ["--openings", str(player.openings), "--json", "-o", str(player.out / f"match-{name}.pgn")]
        return Step(PART, f"match-{name}", player.match_of(name), words, saves=True)


def chosen(rows: pd.DataFrame) -> str:
    """The arm whose first moves are most often the judge's, of those that judge no kind of position much worse than
    `HOUR` does."""
    bounds = rows[rows["net"] == HOUR].iloc[0]
    squared = [name for name in rows.columns if name.startswith("squared")]
    good = rows[(rows[squared] <= _WORSE * bounds[squared].astype(float)).all(axis=1)]
    return str(good.loc[good["judge_move"].idxmax(), "net"])


# -- tables -----------------------------------------------------------------------------------------------------------


def curves(out: Path) -> pd.DataFrame:
    """What each net is on the games that its training held out, at the step that was written.

    Columns: `net`, `sha256`, `policy`, `lr`, `positions` of a pass, the `step` that was written, `lambda`, the share of
    first moves that are the judge's before training, `judge_move_before`, and after, `judge_move`; `policy_kl` to the
    old policy in nats; and the squared error of Q of each kind of position, `squared`, `squared_aside` and so on.
    """
    import pandas as pd

    rows = []
    for name, (policy, rate) in ARMS.items():
        net = Player(Path(), out).net(name)
        training = read_curve(net)
        step = training.about["written"]["step"]
        written: Mapping[str, Any] = next(row for row in training.rows if row["step"] == step)
        amplitude = training.about["amplitude"] or {"lambda": math.nan}
        cells: dict[str, Any] = {"net": name, "sha256": read_net_file(net).sha256, "policy": policy}
        cells |= {"lr": rate, "positions": training.about["positions"], "step": step, "lambda": amplitude["lambda"]}
        cells |= {"judge_move_before": training.rows[0]["judge_move"], "judge_move": written["judge_move"]}
        cells |= {"policy_kl": written["policy_kl"]}
        rows.append(cells | {key: value for key, value in written.items() if key.startswith("squared")})
    table: pd.DataFrame = pd.DataFrame(rows)
    return table


def kinds(out: Path) -> pd.DataFrame:
    """The rows of `vr remeasure` by kind of position, of each arm against the old net: as `player.kinds`."""
    import pandas as pd

    player = Player(Path(), out)
    compared = zip(ARMS, read_json(player.judged(PART))["comparisons"], strict=True)
    rows = [kind_row(name, player.net(name), "first", row) for name, pair in compared for row in pair["by_kind"]]
    table: pd.DataFrame = pd.DataFrame(rows)
    return table


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def command() -> None:
    """Steps of `python -m benchmarks.proof policy`."""


@command.command("tables")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder.")
def write_tables(folder: Path, output: Path) -> None:
    """Write policy-nets.csv, policy-kinds.csv and policy-matches.csv."""
    from benchmarks.proof.player import matches

    output.mkdir(parents=True, exist_ok=True)
    for name, table in {"nets": curves(folder), "kinds": kinds(folder), "matches": matches(folder)}.items():
        tables.write_table(table, output / f"policy-{name}.csv")
        click.echo(f"{table.to_string(index=False)}\n")


if __name__ == "__main__":
    tables.run(command, "policy")
