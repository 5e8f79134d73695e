"""A better judge and a better player (B1 and B5): what is mined, trained, judged and played.

First the mixture of positions of games and beside them; then a net that learned by it from as many positions as time
allows, with the judge's moves as policy targets; then what it is worth: by a deeper judge on games that it never saw,
for each kind of position, and in matches at equal breadth and with each net's own best settings. After it nets by the
recipe of README's hour, and one that learned from the same positions, drawn by how much the judge's move surprises the
policy.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from numpy.typing import NDArray

import valuerepair as vr
from benchmarks.proof import tables
from benchmarks.proof.arms import NET, Step
from benchmarks.proof.games import TEST, TRAIN, dividing
from benchmarks.proof.lines import write_level
from valuerepair import mine
from valuerepair.archives.options import SampleOptions
from valuerepair.chess.positions import Position, PositionBatch, encode_move
from valuerepair.errors import ValueRepairError
from valuerepair.intervals import bootstrap
from valuerepair.judge.q_scale import for_both
from valuerepair.mcts.params import SearchParams
from valuerepair.nets.net import Net, open_net
from valuerepair.nets.registry import locate
from valuerepair.nets.weights import read_net_file
from valuerepair.pipeline.plan import REPAIRED, SPLIT, STORE
from valuerepair.pipeline.settings import AMPLITUDE, ASIDE, FILE, STOCKFISH_NODES, read
from valuerepair.question import DEFAULT_THRESHOLD, Question
from valuerepair.store.store import Store
from valuerepair.training.train import curve_path, read_curve

if TYPE_CHECKING:
    import pandas as pd

# What lies beside the games, as `vr mine --aside` has it.
MIXTURES = {
    "mixture-games": "",
    "mixture-half": "aside:0.25,search:0.25",
    "mixture-more": "aside:0.2,policy:0.15,search:0.3",
}
CHOSEN = "mixture-half"
_TEST_KINDS = "aside:0.25,policy:0.25,search:0.25"
# Positions, and judge's nodes of each: to choose a mixture, to learn, to be judged by, to open matches.
_PILOT, _LEARNED, _JUDGED, _OPENED = 40_000, 200_000, 8_000, 3_000
_NODES, _TEST_NODES, _OPENING_NODES = 2_000, 50_000, 1_000
_REJUDGE, _REJUDGED = "stockfish:nodes=1000000", 600
_PILOT_STEPS, _STEPS = 1_000, 4_000
_POLICY = "judge:0.3"
ALPHA = 113.0  # of the results of these games (docs/proof/better-player.md): (112 to 115)
_FLATTER_ALPHA = 170.0  # that of vr, and of README's hour
_LEARNED_DEEPLY, _STEPS_DEEPLY = 150_000, 2_000
# Games that the old net plays by its policy, made as those of data/; the number of games of each kind.
_OWN, _OWN_GAMES = 1_000, {
    "own-wild.pgn.zst": ("--seed", "12", "--temperature", "2", "--nets-only"), "own.pgn.zst": ("--seed", "11"),
}  # fmt: skip
_SEED = 34
# README's hour once more: its games, positions and steps.
_DATA = Path(__file__).parents[2] / "data"
HOUR_GAMES = tuple(str(_DATA / name) for name in ("wild.pgn.zst", "games.pgn.zst"))
HOUR_POSITIONS, HOUR_STEPS = 49_000, 680
_AT_ONCE = 4_096  # positions of a batch for the net
# Games, by nodes of a move.
MATCHES = {100: 3_300, 400: 1_000}
_OTHER_GAMES = 600
_BREADTH_NODES = 100
SCALE_NODES, SCALE_GAMES = 5, 200  # of the match that tells the scale of Q: those of `vr repair` at 100 nodes
_PILOT_GAMES, _TRIED_GAMES = 1_000, 502  # the built-in openings are 251
# Settings that a net may play better by: lc0's defaults times 0.18, 0.25, 0.35, 0.5, 0.7 and 1.4, cpuct and first-play
# urgency.
_TRIED = tuple(
    f"cpuct={cpuct},fpu_value={fpu}"
    for cpuct, fpu in ((0.31, 0.06), (0.44, 0.08), (0.62, 0.12), (0.87, 0.17), (1.23, 0.23), (2.47, 0.47))
)
# Those below the defaults, and the games of each, for the net of README's hour; the one that `narrowest` has.
_NARROWER, _NARROWER_GAMES, NARROW_GAMES = _TRIED[:5], 120, 600
NARROW = _TRIED[2]
_HALF_JUDGED = 4_000
_SHIFT = 0.1  # in logits of a win and a loss: then Q hardly changes by the first move of that net, on average
PLAYER, FLATTER, DEEPER, OWN, SURPRISE = "player", "flatter", "deeper", "own", "surprise"
REPEATED, SHIFTED, HALF, RECIPE, WHOLE = "repeated", "shifted", "half", "recipe", "whole"
# Less of the change of `whole` than all of it, and all nets of that training, by lambda.
_PARTS = {"at-0.2": 0.2, "at-0.4": 0.4, "at-0.7": 0.7}
PARTS_OF_CHANGE = ("at-0.2", "at-0.4", RECIPE, "at-0.7", WHOLE)
# Nets that are judged together, on positions of held-out master games and beside them.
TOGETHER = {HALF: (REPEATED, HALF, SHIFTED), WHOLE: PARTS_OF_CHANGE, SURPRISE: (RECIPE, SURPRISE)}
NETS = (PLAYER, FLATTER, DEEPER, OWN, SURPRISE, REPEATED, RECIPE, WHOLE)


@dataclass(frozen=True, slots=True)
class Player:
    """Where everything lies: `data` with the archive, `out` for all that is made. `scale` multiplies all sizes."""

    data: Path
    out: Path
    scale: float = 1.0

    def net(self, name: str) -> Path:
        return self.out / RECIPE / REPAIRED if name == RECIPE else self.out / "nets" / f"{name}.pb.gz"

    @property
    def openings(self) -> Path:
        return self.out / "openings-level.pgn"

    def judged(self, name: str) -> Path:
        """What `vr remeasure --json` says of a net."""
        return self.out / f"{name}-judged.json"

    @property
    def breadth(self) -> Path:
        """How broadly both nets are searched by the settings of the matches, on the same positions."""
        return self.out / "breadth.csv"

    def mixing(self, results: Path) -> Iterator[Iterable[Step]]:
        """Which mixture of positions, in phases: what one has made says what is in the next."""
        yield self.testing()
        for name, aside in MIXTURES.items():
            yield self.learning(name, aside, _PILOT, _PILOT_STEPS)
        yield self.judging("mixture", MIXTURES, ())
        if self.judged("mixture").exists():
            yield [self._at_equal_breadth("mixture", at, name, 100, _PILOT_GAMES) for at, name in enumerate(MIXTURES)]
            yield self.telling(results)

    def playing(self, results: Path) -> Iterator[Iterable[Step]]:
        """The net itself, in phases."""
        yield self.testing()
        yield self.learning(PLAYER, MIXTURES[CHOSEN], _LEARNED, _STEPS)
        again = ("--rejudge", _REJUDGE, "--rejudge-positions", str(self.sized(_REJUDGED, 100)), "--regret", "100")
        yield self.judging(PLAYER, [PLAYER], again)
        if self.judged(PLAYER).exists():
            yield [
                *(self._at_equal_breadth(PLAYER, 0, PLAYER, nodes, games) for nodes, games in MATCHES.items()),
                self._match(f"{PLAYER}-default", PLAYER, 100, _OTHER_GAMES, new="", old=""),
                *self._narrow(),
                Step(PLAYER, "breadth", self.breadth, ["breadth", str(self.out)], "benchmarks.proof.player"),
            ]
            yield self.telling(results)
        yield from self._at_best_settings(PLAYER, _TRIED, _TRIED_GAMES, MATCHES[100], results)

    def flattened(self, results: Path) -> Iterator[Iterable[Step]]:
        """A net of the same positions as that of `playing`, whose targets are by a larger alpha."""
        yield self.testing()
        yield [self._mined(PLAYER, [TRAIN], MIXTURES[CHOSEN], _LEARNED, _NODES)]
        yield [self._trained(FLATTER, PLAYER, _STEPS, alpha=_FLATTER_ALPHA)]
        yield self.judging(FLATTER, [FLATTER], ("--regret", "100"))
        if self.judged(FLATTER).exists():
            yield [
                self._at_equal_breadth(FLATTER, 0, FLATTER, 100, MATCHES[100]),
                self._match(f"{FLATTER}-default", FLATTER, 100, _OTHER_GAMES, new="", old=""),
            ]
            yield self.telling(results)

    def deepened(self, results: Path) -> Iterator[Iterable[Step]]:
        """A net that learned fewer positions of the same games, each by ten times as many nodes."""
        yield from self._of_hours(DEEPER, [TRAIN], results)
        if self.judged(DEEPER).exists():
            yield [self._at_equal_breadth(DEEPER, 0, DEEPER, 100, MATCHES[100])]
            yield self.telling(results)

    def of_own_games(self, results: Path) -> Iterator[Iterable[Step]]:
        """As `deepened`, of games that the old net plays itself."""
        games = str(self.sized(_OWN, 40))
        yield [
            Step(PLAYER, f"play-{name}", path, ["--games", games, *how, "-o", str(path)], "data.make_games")
            for name, how in _OWN_GAMES.items()
            if (path := self.out / name)
        ]
        yield from self._of_hours(OWN, _OWN_GAMES, results)

    def _of_hours(self, name: str, archives: Iterable[str], results: Path) -> Iterator[Iterable[Step]]:
        """A net by the recipe of README's hour, but of other games and sizes."""
        yield [self._mined(name, archives, ASIDE, _LEARNED_DEEPLY, STOCKFISH_NODES)]
        yield self.testing()
        yield [self._trained(name, name, _STEPS_DEEPLY, alpha=_FLATTER_ALPHA)]
        yield self.judging(name, [name], ("--regret", "100"))
        yield from self._played(name, MATCHES)
        yield self.telling(results)

    def repeated(self, results: Path) -> Iterator[Iterable[Step]]:
        """README's hour once more, for a match of four times as many nodes."""
        yield self.opening()
        yield [self._mined(REPEATED, HOUR_GAMES, ASIDE, HOUR_POSITIONS, STOCKFISH_NODES)]
        yield [self._trained(REPEATED, REPEATED, HOUR_STEPS, alpha=_FLATTER_ALPHA)]
        yield from self._played(REPEATED, {400: MATCHES[400]})
        yield self.telling(results)

    def settled(self, results: Path) -> Iterator[Iterable[Step]]:
        """The net of `repeated` against the old one, each by the settings that it plays best by."""
        yield from self._at_best_settings(REPEATED, _NARROWER, _NARROWER_GAMES, NARROW_GAMES, results)

    def narrowed(self, results: Path) -> Iterator[Iterable[Step]]:
        """The same two nets, both by one narrow setting: as they are, and with Q on one scale."""
        narrow = f",{NARROW}"
        yield [self._match(f"{REPEATED}-100-narrowest", REPEATED, 100, NARROW_GAMES, new=narrow, old=narrow)]
        if self.match_of(_quick(REPEATED)).exists():
            yield [self._as_played(REPEATED, 100, NARROW_GAMES, "-narrowest", narrow)]
        yield self.telling(results)

    def shifting(self, results: Path) -> Iterator[Iterable[Step]]:
        """The same net, less hopeful for the side to move, so that it expects the moves of its policy; both narrow."""
        net, narrow = self.net(SHIFTED), f",{NARROW}"
        words = ["shift", str(self.net(REPEATED)), "--by", str(_SHIFT), "-o", str(net)]
        yield [Step(PLAYER, net.name, net, words, "benchmarks.proof.player")]
        if self.match_of(_quick(REPEATED)).exists():
            yield [self._as_played(REPEATED, 100, NARROW_GAMES, "-shifted", narrow, net=SHIFTED)]
            yield self.telling(results)
        games = self.match_of(f"{REPEATED}-100-narrowest").with_suffix(".pgn")
        if games.exists():
            words = [str(games), "-o", str(results)]
            for path in (NET, str(self.net(REPEATED)), str(net)):
                words += ["--net", path]
            yield [Step("measure", "first-moves", results / "first-moves.csv", words, "benchmarks.proof.first_moves")]

    def halving(self, results: Path) -> Iterator[Iterable[Step]]:
        """Half of the change from the old net to the new one: as a judge of other games, and both searched narrowly."""
        yield self.opening()
        yield [self._between(HALF, self.net(REPEATED), 0.5)]
        yield self._judged_on_masters(HALF)
        yield from self._played_narrowly_and_by_default(HALF, results)

    def recipe(self, results: Path) -> Iterator[Iterable[Step]]:
        """README's hour by the defaults of `vr repair`, and the same matches as `halving` has."""
        yield self.opening()
        words = ["repair", *HOUR_GAMES, "--net", NET, "-o", str(self.out / RECIPE)]
        yield [Step(PLAYER, RECIPE, self.net(RECIPE), words)]
        yield from self._played_narrowly_and_by_default(RECIPE, results)

    def whole(self, results: Path) -> Iterator[Iterable[Step]]:
        """The training of `recipe`, written by lambda of its held-out games: as a judge of other games beside that of
        `recipe`, and both against each other."""
        whole = self.net(WHOLE)
        yield [self._of_recipe(WHOLE)]
        if curve_path(whole).exists():
            full = read_curve(whole).about["amplitude"]["lambda"]
            yield [self._between(name, whole, share / full) for name, share in _PARTS.items()]
        yield self._judged_on_masters(WHOLE)
        yield from self._played_narrowly_and_by_default(WHOLE, results, net=RECIPE, base=str(whole))

    def _of_recipe(self, name: str, *more: str) -> Step:
        """A training like that of `recipe`, on its store."""
        net, recipe = self.net(name), self.out / RECIPE
        words = ["train", "--net", NET, "--store", str(recipe / STORE), "--split", str(recipe / SPLIT)]
        words += ["--alpha", f"{_FLATTER_ALPHA:g}", "--policy", _POLICY, "--threshold", f"{DEFAULT_THRESHOLD}"]
        settings = recipe / FILE  # its budget bought these steps
        steps = (read(settings).sizes.steps if settings.exists() else None) or HOUR_STEPS
        words += ["--steps", str(steps), "--set", f"every={steps // 5}", "--set", "patience=0", *more]
        return Step(PLAYER, net.name, net, [*words, "-o", str(net)])

    def _between(self, name: str, new: Path, at: float) -> Step:
        """A net between the old one and this."""
        net = self.net(name)
        words = ["between", NET, str(new), "--at", f"{at:.4g}", "-o", str(net)]
        return Step(PLAYER, net.name, net, words, "benchmarks.proof.player")

    def _judged_on_masters(self, name: str, *more: str) -> Iterator[Step]:
        """The old net and those of `TOGETHER`, on held-out master games and beside them, by 20,000 nodes."""
        db, positions = self.out / "half-test.db", str(self.sized(_HALF_JUDGED, 100))
        mined = ["mine", str(self.out / TEST), "--positions", positions, "--aside", _TEST_KINDS, "--screen", "off"]
        mined += ["--deep", f"stockfish:nodes={STOCKFISH_NODES}", "--min-ply", "16", "--seed", "35", "--db", str(db)]
        yield self._done("mine-half-test", mined)
        judging = ["remeasure", "--db", str(db), "--alpha", f"{_FLATTER_ALPHA:g}", "--net", NET]
        judging += [word for net in TOGETHER[name] for word in ("--net", str(self.net(net)))]
        yield Step(PLAYER, f"judge-{name}", self.judged(name), [*judging, *more, "--json"], saves=True)

    def _played_narrowly_and_by_default(
        self, name: str, results: Path, net: str = "", base: str = NET
    ) -> Iterator[Iterable[Step]]:
        """Matches with the scale of Q of a quick match: both nets by one narrow setting, and by the defaults.

        `net` plays `base`; the matches have `name`, which is by default that of the net.
        """
        yield [self._match(_quick(name), net or name, SCALE_NODES, SCALE_GAMES, base, new="", old="")]
        if self.match_of(_quick(name)).exists():
            yield [
                self._as_played(name, 100, NARROW_GAMES, "-narrowest", f",{NARROW}", net, base),
                self._as_played(name, 100, NARROW_GAMES, net=net, base=base),
            ]
            yield self.telling(results)

    def _at_best_settings(
        self, name: str, settings: tuple[str, ...], tried_games: int, games: int, results: Path
    ) -> Iterator[Iterable[Step]]:
        """Both nets against themselves by each of the settings, then a match by the best of each."""
        nets = {"old": NET, "new": str(self.net(name))}
        yield [self._tries(name, side, net, settings, tried_games) for side, net in nets.items()]
        folders = {side: self._tried(name, side) for side in nets}
        if all((folder / "table.csv").exists() for folder in folders.values()):
            best = {side: best_of(folder, settings) for side, folder in folders.items()}
            yield [self._match(f"{name}-best", name, 100, games, **best)]
            yield self.telling(results)

    def _played(self, name: str, matches: Mapping[int, int]) -> Iterator[Iterable[Step]]:
        """Matches with the scale of Q of a quick match; `matches` has the number of games for each number of nodes."""
        yield [self._match(_quick(name), name, SCALE_NODES, SCALE_GAMES, new="", old="")]
        if self.match_of(_quick(name)).exists():
            yield [self._as_played(name, nodes, games) for nodes, games in matches.items()]

    def surprised(self, results: Path) -> Iterator[Iterable[Step]]:
        """The training of `recipe` again, its positions drawn by policy surprise: as a judge of other games beside that
        of `recipe`, and both against each other."""
        weights = self.out / "surprise.parquet"
        words = ["surprise", str(self.out / RECIPE / STORE), "-o", str(weights)]
        yield [Step(PLAYER, "surprise-weights", weights, words, "benchmarks.proof.player")]
        yield [self._of_recipe(SURPRISE, "--set", f"amplitude={AMPLITUDE}", "--draw", str(weights))]
        yield self._judged_on_masters(SURPRISE, "--regret", "100")
        yield from self._played_narrowly_and_by_default(SURPRISE, results, base=str(self.net(RECIPE)))

    def testing(self) -> Iterator[Step]:
        """Games that are held out: positions of four kinds by a deep judge, and openings."""
        yield from self.opening()
        # Fewer plies than that, and many of the positions would stand in games that are learned from.
        yield self._mined("player-test", [TEST], _TEST_KINDS, _JUDGED, _TEST_NODES, "--min-ply", "16")

    def opening(self) -> Iterator[Step]:
        """Openings of held-out games."""
        yield dividing(self.data, self.out)
        db = str(self.out / "openings-level.db")
        early = ["early", str(self.out / TEST), db, str(self.sized(_OPENED, 20))]
        yield Step(PLAYER, "mine-openings", self.out / "done" / "mine-openings", early, "benchmarks.proof.player")
        words = ["openings", db, "-o", str(self.openings)]
        yield Step(PLAYER, "openings", self.openings, words, "benchmarks.proof.player")

    def learning(self, name: str, aside: str, positions: int, steps: int) -> Iterator[Step]:
        """A net that learned from such a mixture."""
        yield self._mined(name, [TRAIN], aside, positions, _NODES)
        yield self._trained(name, name, steps)

    def _trained(self, name: str, store: str, steps: int, alpha: float = ALPHA) -> Step:
        """A net that learned from a store."""
        words = ["train", "--net", NET, "--store", str(self.out / f"{store}.db"), "-o", str(self.net(name))]
        words += ["--policy", _POLICY, "--alpha", f"{alpha:g}", "--steps", str(self.sized(steps, 20))]
        return Step(PLAYER, f"{name}.pb.gz", self.net(name), [*words, "--seed", str(_SEED)])

    def judging(self, name: str, nets: Iterable[str], more: Iterable[str]) -> Iterator[Step]:
        """The old net and these on what is held out, by kind of position."""
        words = ["remeasure", "--db", str(self.out / "player-test.db"), "--alpha", f"{ALPHA:g}", "--net", NET]
        words += [word for net in nets for word in ("--net", str(self.net(net)))]
        yield Step(PLAYER, f"judge-{name}", self.judged(name), [*words, *more, "--json"], saves=True)

    def telling(self, results: Path) -> Iterator[Step]:
        words = [str(self.out), "-o", str(results)]
        yield Step("measure", "player-tables", results / "player.done", ["tables", *words], "benchmarks.proof.player")

    def _at_equal_breadth(self, judged: str, place: int, net: str, nodes: int, games: int) -> Step:
        """With the Q of both as steep; the net's place is that among those that were judged together."""
        new, old = (f",q_scale={scale:.3f}" for scale in self.scales(judged, place))
        return self._match(f"{net}-{nodes}", net, nodes, games, new=new, old=old)

    def _as_played(
        self, name: str, nodes: int, games: int, ending: str = "", settings: str = "", net: str = "", base: str = NET
    ) -> Step:
        """With the Q of both as steep in the positions of a quick match of theirs, as `vr repair` has it.

        Both sides have the `settings`, too; the name of the match has `ending`. `net` plays in place of the one of the
        quick match, against `base`.
        """
        new, old = for_both(float(read_json(self.match_of(_quick(name)))["q_scale"]["value"]))
        sides = {"new": f",q_scale={new:.3f}{settings}", "old": f",q_scale={old:.3f}{settings}"}
        return self._match(f"{name}-{nodes}-played{ending}", net or name, nodes, games, base, **sides)

    def match_of(self, name: str) -> Path:
        """What `vr match --json` says of a match."""
        return self.out / f"match-{name}.json"

    def scales(self, judged: str, place: int) -> tuple[float, float]:
        """What the Q of the new and of the old net is multiplied by, so that both are as steep."""
        return for_both(float(read_json(self.judged(judged))["comparisons"][place]["q_scale"]["value"]))

    def narrow(self) -> dict[str, str]:
        """A smaller cpuct and first-play urgency, by as much as the old net's Q is flatter."""
        scale, _ = self.scales(PLAYER, 0)
        usual = SearchParams()
        return {"cpuct": f"{usual.cpuct * scale:.3f}", "fpu_value": f"{usual.fpu_value * scale:.3f}"}

    def _narrow(self) -> Iterator[Step]:
        """With these settings of the old net, and of both."""
        narrow = "".join(f",{name}={value}" for name, value in self.narrow().items())
        yield self._match(f"{PLAYER}-narrow", PLAYER, 100, _OTHER_GAMES, new="", old=narrow)
        yield self._match(f"{PLAYER}-both-narrow", PLAYER, 100, _OTHER_GAMES, new=narrow, old=narrow)

    def _match(self, name: str, net: str, nodes: int, games: int, base: str = NET, *, new: str, old: str) -> Step:
        """Against the old net, with more settings of each side."""
        sides = [f"net={self.net(net)},nodes={nodes}{new}", f"net={base},nodes={nodes}{old}"]
        words = ["match", *sides, "--games", str(self.sized(games, 4) // 2 * 2), "--openings", str(self.openings)]
        words += ["-o", str(self.out / f"match-{name}.pgn"), "--json"]
        return Step(PLAYER, f"match-{name}", self.match_of(name), words, saves=True)

    def _tried(self, name: str, side: str) -> Path:
        return self.out / f"tried-{name}-{side}"

    def _tries(self, name: str, side: str, net: str, settings: tuple[str, ...], games: int) -> Step:
        """A net against itself, with other settings."""
        games = min(games, self.sized(games, 4) // 2 * 2)
        folder = self._tried(name, side)
        words = ["experiment", "match", *settings, "--net", net, "--nodes", "100", "--lines", str(games // 2)]
        return self._done(folder.name, [*words, "--games", str(games), "-o", str(folder)])

    def _mined(self, name: str, archives: Iterable[str], aside: str, positions: int, nodes: int, *more: str) -> Step:
        words = ["mine", *(str(self.out / archive) for archive in archives), "--db", str(self.out / f"{name}.db")]
        words += ["--positions", str(self.sized(positions, 100)), *(("--aside", aside) if aside else ())]
        words += ["--screen", "off", "--deep", f"stockfish:nodes={nodes}", *more, "--seed", str(_SEED)]
        return self._done(f"mine-{name}", words)

    def sized(self, size: int, least: int) -> int:
        """A size by the scale."""
        return max(least, round(self.scale * size))

    def _done(self, name: str, words: list[str]) -> Step:
        return Step(PLAYER, name, self.out / "done" / name, words)


def best_of(folder: Path, settings: tuple[str, ...]) -> str:
    """Those of the settings tried that won most points against the net's defaults; nothing where none won half."""
    with open(folder / "table.csv", newline="") as file:
        points = [float(row["points"]) for row in csv.DictReader(file)]
    best, setting = max(zip(points, settings, strict=True))
    return f",{setting}" if best > 0.5 else ""


# -- tables -----------------------------------------------------------------------------------------------------------


def read_json(path: Path) -> Any:
    """What a command said. Raises ValueRepairError for what cannot be read."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ValueRepairError(f"{path}: cannot be read: {error}") from None


def kinds(out: Path) -> pd.DataFrame:
    """The rows of `vr remeasure` by kind of position, of the mixtures and of each net, by both judges.

    Columns: `net`, `sha256`, `judge` (``first`` or ``deeper``), `kind`, `positions`, `old` and `new` (squared errors,
    each net's Q times one number; NaN of the deeper judge, who judged a sample), `change`, `low`, `high`, and the
    changes of the shares of candidates, ``change_0.3`` and so on; `regret` of both nets' moves where it was measured.
    """
    import pandas as pd

    rows = list[dict[str, Any]]()
    alone = {name: [name] for name in NETS if name not in TOGETHER}
    for name, nets in (alone | {"mixture": list(MIXTURES)}).items():
        rows += _kind_rows(Player(Path(), out), name, nets)
    table: pd.DataFrame = pd.DataFrame(rows)
    return table


def kinds_together(out: Path, name: str) -> pd.DataFrame:
    """The same of nets that were judged together on the same positions, those of `TOGETHER`."""
    import pandas as pd

    table: pd.DataFrame = pd.DataFrame(_kind_rows(Player(Path(), out), name, TOGETHER[name]))
    return table


def _kind_rows(player: Player, name: str, nets: Iterable[str]) -> list[dict[str, Any]]:
    if not player.judged(name).exists():
        return []
    judged, nets = read_json(player.judged(name)), list(nets)
    pairs = [("first", net, pair) for net, pair in zip(nets, judged["comparisons"], strict=True)]
    if judged.get("rejudged"):
        pairs += [("deeper", nets[0], judged["rejudged"]["comparisons"][0])]
    return [kind_row(net, player.net(net), judge, row) for judge, net, pair in pairs for row in pair["by_kind"]]


def kind_row(net: str, file: Path, judge: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of `kinds`, of one that `vr remeasure --json` has in `by_kind`."""
    old, new = row["squared_error"] if judge == "first" else (float("nan"),) * 2
    cells = {"net": net, "sha256": read_net_file(file).sha256[:12], "judge": judge, "kind": row["kind"]}
    cells |= {"positions": row["positions"], "old": old, "new": new} | _interval(row["change"], "")
    for at in row["candidates"]:
        cells |= _interval(at["change"], f"_{at['threshold']:g}")
    return cells


def _interval(change: Mapping[str, Any], ending: str) -> dict[str, Any]:
    return {
        f"{name}{ending}": change[key] for name, key in (("change", "difference"), ("low", "low"), ("high", "high"))
    }


def nets(out: Path) -> pd.DataFrame:
    """The nets that were trained: `net`, `sha256`, `positions` of a pass, the `step` that was written, `lambda`."""
    import pandas as pd

    rows = []
    for name in (*MIXTURES, *NETS):
        if not curve_path(file := Player(Path(), out).net(name)).exists():
            continue
        about = read_curve(file).about
        cells = {"net": name, "sha256": read_net_file(file).sha256, "positions": about["positions"]}
        amplitude = about["amplitude"] or {"lambda": float("nan")}
        rows.append(cells | {"step": about["written"]["step"], "lambda": amplitude["lambda"]})
    table: pd.DataFrame = pd.DataFrame(rows)
    return table


def matches(out: Path) -> pd.DataFrame:
    """A row for each match that was played, from the new net's side: games, results, Elo, effective root moves.

    The quick matches, which tell the scale of Q alone, are left out.
    """
    import pandas as pd

    quick = {Player(Path(), out).match_of(_quick(name)) for name in (*NETS, HALF)}
    rows = [match_row(path.stem.removeprefix("match-"), path) for path in sorted({*out.glob("match-*.json")} - quick)]
    table: pd.DataFrame = pd.DataFrame(rows)
    return table


def match_row(name: str, path: Path) -> dict[str, Any]:
    """A row of `matches`, of what `vr match --json` said."""
    match = read_json(path)
    elo = next(interval for interval in match["elo"] if interval["level"] == 0.95)
    new, old = match["effective_root_moves"]
    cells = {"match": name, "games": match["games"], **match["score"]}
    return cells | {"elo": elo["value"], "low": elo["low"], "high": elo["high"], "moves": new, "old": old}


def tries(out: Path) -> pd.DataFrame:
    """What each setting that was tried is worth to a net: its games by it against itself by default settings.

    Columns: `net` and `side` (of the match that the tries are for), `setting`, `games`, `wins`, `draws`, `losses`,
    `elo` with `low` and `high` (95 %), effective root moves by the setting (`moves`) and by default (`default`).
    """
    import pandas as pd

    names = {
        "games": "games", "wins": "wins", "draws": "draws", "losses": "losses", "elo": "elo", "elo_95_low": "low",
        "elo_95_high": "high", "effective_moves": "moves", "effective_moves_second": "default",
    }  # fmt: skip
    parts = []
    for path in sorted(out.glob("tried-*/table.csv")):
        net, _, side = path.parent.name.removeprefix("tried-").rpartition("-")
        tried = pd.read_csv(path)
        part = tried[list(names)].rename(columns=names)
        part.insert(0, "setting", tried["first"].str.replace(" ", ","))
        part.insert(0, "side", side)
        part.insert(0, "net", net)
        parts.append(part)
    table: pd.DataFrame = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    return table


def measured_breadth(out: Path) -> pd.DataFrame:
    """How broadly both nets are searched, by each of the settings of the matches.

    The same positions for all, of held-out games: effective root moves of a match are of roots that each side met, and
    who wins meets others than who loses. Roots whose best move is proven by one of them do not count. Columns: `net`,
    `settings`, `positions`, `moves` (the mean of the effective root moves), and what it is less that of the old net by
    default settings, `change` with its interval `low` to `high` by games.
    """
    import pandas as pd

    player = Player(Path(), out)
    scale = f"{player.scales(PLAYER, 0)[0]:.3f}"
    with vr.open_store(out / "player-test.db") as store:
        rows = store.frame(Question(net=NET))
    arms: list[tuple[str, str, dict[str, str]]] = [
        ("old", NET, {}), ("old", NET, player.narrow()),
        *(("new", str(player.net(PLAYER)), settings) for settings in ({}, {"q_scale": scale}, player.narrow())),
    ]  # fmt: skip
    root_moves = np.full((len(rows), len(arms)), np.nan)
    for arm, (_, net, settings) in enumerate(arms):
        params = SearchParams().with_settings(settings)
        for row, searched in enumerate(vr.search_each(rows, _BREADTH_NODES, net, params)):
            result = searched.result
            if result is not None and result.certain is None and len(result.moves) > 1:
                root_moves[row, arm] = result.effective_moves
    usable = ~np.isnan(root_moves).any(1)
    moves, games = root_moves[usable], rows["game_id"].to_numpy(np.int64)[usable]
    changes = bootstrap(moves - moves[:, :1], np.ones(len(moves)), games)
    cells = [
        {"net": net, "settings": ",".join(f"{name}={value}" for name, value in settings.items()), "moves": mean}
        | {"positions": len(moves), "change": change.difference, "low": change.low, "high": change.high}
        for (net, _, settings), mean, change in zip(arms, moves.mean(0), changes, strict=True)
    ]
    table: pd.DataFrame = pd.DataFrame(cells)
    return table


def breadths(out: Path) -> pd.DataFrame:
    """What `measured_breadth` found; nothing where it was not measured."""
    import pandas as pd

    path = Player(Path(), out).breadth
    table: pd.DataFrame = pd.read_csv(path, keep_default_na=False) if path.exists() else pd.DataFrame()
    return table


def regrets(out: Path) -> pd.DataFrame:
    """The regret of a net's moves against the old one's, by kind of position; nothing where it was not measured."""
    import pandas as pd

    rows = []
    for name in (*NETS, HALF):
        path = Player(Path(), out).judged(name)
        comparisons = read_json(path)["comparisons"] if path.exists() else []
        for net, comparison in zip(TOGETHER.get(name, (name,)), comparisons, strict=False):
            if "regret" in comparison:
                rows += regret_rows(net, comparison)
    table: pd.DataFrame = pd.DataFrame(rows)
    return table


def regret_rows(net: str, comparison: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of `regrets`, of a comparison of `vr remeasure --json --regret`."""
    rows = []
    for row in comparison["regret"]["rows"]:
        cells = {"net": net, "kind": row["kind"], "positions": row["positions"], "judged": row["judged"]}
        rows.append(cells | {"old": row["regret"][0], "new": row["regret"][1], **_interval(row["change"], "")})
    return rows


def _quick(name: str) -> str:
    """The name of the match that tells the scale of a net's Q."""
    return f"{name}-scale"


# -- weights ----------------------------------------------------------------------------------------------------------


def by_surprise(surprise: NDArray[np.float64]) -> NDArray[np.float64]:
    """[n] how often each position is drawn: half of all evenly, half in proportion to its surprise, [n] in nats."""
    weights: NDArray[np.float64] = 0.5 + 0.5 * surprise / surprise.mean()
    return weights


def surprise_of(net: Net, rows: pd.DataFrame) -> NDArray[np.float64]:
    """[n] KL(the judge's move, the net's policy) in nats, which is -ln of that move's prior; 0 without a move."""
    surprise = np.zeros(len(rows))
    columns = (rows[name].tolist() for name in ("fen", "start_fen", "moves", "ply", "history_known"))
    positions = [
        Position(fen, start_fen, tuple(moves.split()), ply, history_known=bool(history_known))
        for fen, start_fen, moves, ply, history_known in zip(*columns, strict=True)
    ]
    for begin in range(0, len(rows), _AT_ONCE):
        part = slice(begin, begin + _AT_ONCE)
        moves, offsets, priors = net.priors(PositionBatch.from_positions(positions[part]))
        for i, best in enumerate(rows["deep_best"].tolist()[part]):
            if isinstance(best, str):
                of = slice(offsets[i], offsets[i + 1])
                [prior] = priors[of][moves[of] == encode_move(best)].tolist()
                surprise[begin + i] = -np.log(max(prior, 1e-6))
    return surprise


# -- from the command line --------------------------------------------------------------------------------------------


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def command() -> None:
    """Steps of `python -m benchmarks.proof mixture player`."""


@command.command("early")
@click.argument("games", type=click.Path(dir_okay=False))
@click.argument("db", type=click.Path(dir_okay=False))
@click.argument("positions", type=int)
def mine_early(games: str, db: str, positions: int) -> None:
    """Positions of plies 8 to 24, one a game, as `vr mine` scores them."""
    sample = SampleOptions(positions=positions, per_game=1, min_ply=8, max_ply=24)
    mine(games, db, sample, deep=f"stockfish:nodes={_OPENING_NODES}", screen="off", quiet=False)


@command.command("openings")
@click.argument("db", type=click.Path(exists=True, dir_okay=False))
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="PGN.")
def write_openings(db: str, output: Path) -> None:
    """Write the positions of a store that are about level, with their moves from the beginning."""
    write_level(db, Question(net=NET), output)


@command.command("surprise")
@click.argument("db", type=click.Path(exists=True, dir_okay=False))
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="Parquet.")
def write_surprise(db: str, output: Path) -> None:
    """Write how often `vr train --draw` draws each position of a store, by the surprise of the judge's move."""
    import pandas as pd

    with Store.open(db) as store, open_net(NET) as net:
        rows = store.frame(Question(net=NET, expanded="searched"))
        weights = by_surprise(surprise_of(net, rows))
    pd.DataFrame({"position_id": rows["position_id"], "weight": weights}).to_parquet(output)


@command.command("breadth")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def write_breadth(folder: Path) -> None:
    """Write breadth.csv: how broadly both nets are searched, on the same positions."""
    tables.write_table(measured_breadth(folder), Player(Path(), folder).breadth)


@command.command("shift")
@click.argument("net", type=click.Path(exists=True, dir_okay=False))
@click.option("--by", required=True, type=float, help="Logits: less for a win, more for a loss.")
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The net.")
def write_shifted(net: str, by: float, output: Path) -> None:
    """Write a net whose value head is less hopeful for the side to move, by as much in all positions."""
    from valuerepair.training.graph import NetGraph
    from valuerepair.training.write_net import write_net

    name = "/value/dense2/add/w"
    parameters = NetGraph.open(net).parameters
    shifted = parameters | {name: parameters[name] + np.array([-by, 0, by], np.float32)}
    write_net(net, shifted, frozenset({name}), output, {})


@command.command("between")
@click.argument("old", type=click.Path())
@click.argument("new", type=click.Path())
@click.option("--at", required=True, type=click.FloatRange(0, 1), help="The part of the change, from OLD to NEW.")
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The net.")
def write_between(old: str, new: str, at: float, output: Path) -> None:
    """Write a net whose parameters lie between those of two others, as `vr train --set amplitude=` does."""
    from valuerepair.training.fit import interpolate
    from valuerepair.training.graph import NetGraph
    from valuerepair.training.write_net import write_net

    before, after = (NetGraph.open(locate(net)).parameters for net in (old, new))
    changed = frozenset(name for name in before if not np.array_equal(before[name], after[name]))
    write_net(locate(old), interpolate(before, after, at), changed, output, {})


@command.command("tables")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder.")
def write_tables(folder: Path, output: Path) -> None:
    """Write player-nets.csv, player-kinds.csv and so on, of what is there of FOLDER."""
    output.mkdir(parents=True, exist_ok=True)
    made = {"nets": nets, "kinds": kinds, "matches": matches, "tries": tries, "breadth": breadths, "regret": regrets}
    made_tables = {f"{PLAYER}-{name}": of(folder) for name, of in made.items()}
    made_tables |= {f"{name}-kinds": kinds_together(folder, name) for name in TOGETHER}
    for name, table in made_tables.items():
        if len(table):
            tables.write_table(table, output / f"{name}.csv")
            click.echo(f"{table.to_string(index=False)}\n")


if __name__ == "__main__":
    tables.run(command, "player")
