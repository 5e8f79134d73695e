"""A better judge and a better player (docs/proof.md, B1): what is mined, trained, judged and played, in this order.

First the mixture of positions of games and beside them; then a net that learned by it from as many positions as time
allows, with the judge's moves as policy targets; then what it is worth: by a deeper judge on games that it never saw,
for each kind of position, and in matches at equal breadth and with each net's own best settings.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from benchmarks.proof import tables
from benchmarks.proof.arms import NET, Step
from benchmarks.proof.games import TEST, TRAIN, dividing
from benchmarks.proof.lines import write_level
from valuerepair import mine
from valuerepair.archives.options import SampleOptions
from valuerepair.errors import ValueRepairError
from valuerepair.judge.q_scale import for_both
from valuerepair.nets.weights import read_net_file
from valuerepair.question import Question

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
_DEEPER, _REJUDGED = "stockfish:nodes=1000000", 600
_PILOT_STEPS, _STEPS = 1_000, 4_000
_POLICY = "judge:0.3"
ALPHA = 113.0  # of the results of these games (docs/proof.md): (112 to 115)
_SEED = 34
# Games, by nodes of a move.
MATCHES = {100: 3_300, 400: 1_000}
_PILOT_GAMES, _TRIED_GAMES = 1_000, 502  # the built-in openings are 251
# Settings that a net may play better by: lc0's defaults times 0.35, 0.5, 0.7 and 1.4, cpuct and first-play urgency.
_TRIED = tuple(
    f"cpuct={cpuct},fpu_value={fpu}" for cpuct, fpu in ((0.62, 0.12), (0.87, 0.17), (1.23, 0.23), (2.47, 0.47))
)
PLAYER = "player"


@dataclass(frozen=True, slots=True)
class Player:
    """Where everything lies: `data` with the archive, `out` for all that is made. `scale` multiplies all sizes."""

    data: Path
    out: Path
    scale: float = 1.0

    def net(self, name: str) -> Path:
        return self.out / "nets" / f"{name}.pb.gz"

    @property
    def openings(self) -> Path:
        return self.out / "openings-level.pgn"

    def judged(self, name: str) -> Path:
        """What `vr remeasure --json` says of a net."""
        return self.out / f"{name}-judged.json"

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
        again = ("--rejudge", _DEEPER, "--rejudge-positions", str(self._sized(_REJUDGED, 100)), "--regret", "100")
        yield self.judging(PLAYER, [PLAYER], again)
        if self.judged(PLAYER).exists():
            yield [self._at_equal_breadth(PLAYER, 0, PLAYER, nodes, games) for nodes, games in MATCHES.items()]
            yield self.telling(results)
        yield [self._tries("old", NET), self._tries("new", str(self.net(PLAYER)))]
        if all((self._tried(side) / "table.csv").exists() for side in ("old", "new")):
            settings = {side: best_of(self._tried(side)) for side in ("new", "old")}
            yield [self._match(f"{PLAYER}-best", PLAYER, 100, MATCHES[100], **settings)]
            yield self.telling(results)

    def testing(self) -> Iterator[Step]:
        """Games that are held out: positions of four kinds by a deep judge, and openings."""
        yield dividing(self.data, self.out)
        held_out, db = str(self.out / TEST), str(self.out / "openings-level.db")
        # Fewer plies than that, and many of the positions would stand in games that are learned from.
        yield self._mined("player-test", held_out, _TEST_KINDS, _JUDGED, _TEST_NODES, "--min-ply", "16")
        early = ["early", held_out, db, str(self._sized(_OPENED, 20))]
        yield Step(PLAYER, "mine-openings", self.out / "done" / "mine-openings", early, "benchmarks.proof.player")
        words = ["openings", db, "-o", str(self.openings)]
        yield Step(PLAYER, "openings", self.openings, words, "benchmarks.proof.player")

    def learning(self, name: str, aside: str, positions: int, steps: int) -> Iterator[Step]:
        """A net that learned from such a mixture."""
        yield self._mined(name, str(self.out / TRAIN), aside, positions, _NODES)
        db = str(self.out / f"{name}.db")
        count = str(self._sized(steps, 20))
        words = ["train", "--net", NET, "--store", db, "-o", str(self.net(name)), "--policy", _POLICY]
        words += ["--alpha", f"{ALPHA:g}"]
        yield Step(PLAYER, f"{name}.pb.gz", self.net(name), [*words, "--steps", count, "--seed", str(_SEED)])

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
        scales = for_both(float(_read(self.judged(judged))["comparisons"][place]["q_scale"]["value"]))
        new, old = (f",q_scale={scale:.3f}" for scale in scales)
        return self._match(f"{net}-{nodes}", net, nodes, games, new=new, old=old)

    def _match(self, name: str, net: str, nodes: int, games: int, *, new: str, old: str) -> Step:
        """Against the old net, with more settings of each side."""
        sides = [f"net={self.net(net)},nodes={nodes}{new}", f"net={NET},nodes={nodes}{old}"]
        words = ["match", *sides, "--games", str(self._sized(games, 4) // 2 * 2), "--openings", str(self.openings)]
        words += ["-o", str(self.out / f"match-{name}.pgn"), "--json"]
        return Step(PLAYER, f"match-{name}", self.out / f"match-{name}.json", words, saves=True)

    def _tried(self, side: str) -> Path:
        return self.out / f"tried-{side}"

    def _tries(self, side: str, net: str) -> Step:
        """A net against itself, with other settings."""
        games = min(_TRIED_GAMES, self._sized(_TRIED_GAMES, 4) // 2 * 2)
        words = ["experiment", "match", *_TRIED, "--net", net, "--nodes", "100", "--lines", str(games // 2)]
        return self._done(f"tried-{side}", [*words, "--games", str(games), "-o", str(self._tried(side))])

    def _mined(self, name: str, games: str, aside: str, positions: int, nodes: int, *more: str) -> Step:
        words = ["mine", games, "--db", str(self.out / f"{name}.db"), "--positions", str(self._sized(positions, 100))]
        words += [*(("--aside", aside) if aside else ()), "--screen", "off", "--deep", f"stockfish:nodes={nodes}"]
        return self._done(f"mine-{name}", [*words, *more, "--seed", str(_SEED)])

    def _sized(self, size: int, least: int) -> int:
        return max(least, round(self.scale * size))

    def _done(self, name: str, words: list[str]) -> Step:
        return Step(PLAYER, name, self.out / "done" / name, words)


def best_of(folder: Path) -> str:
    """Those of the settings tried that won most points against the net's defaults; nothing where none won half."""
    with open(folder / "table.csv", newline="") as file:
        points = [float(row["points"]) for row in csv.DictReader(file)]
    best, setting = max(zip(points, _TRIED, strict=True))
    return f",{setting}" if best > 0.5 else ""


# -- tables -----------------------------------------------------------------------------------------------------------


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ValueRepairError(f"{path}: cannot be read: {error}") from None


def kinds(out: Path) -> pd.DataFrame:
    """The rows of `vr remeasure` by kind of position, of the mixtures and of the net, by both judges.

    Columns: `net`, `sha256`, `judge` (``first`` or ``deeper``), `kind`, `positions`, `old` and `new` (squared errors,
    each net's Q times one number; NaN of the deeper judge, who judged a sample), `change`, `low`, `high`, and the
    changes of the shares of candidates, ``change_0.3`` and so on; `regret` of both nets' moves where it was measured.
    """
    import pandas as pd

    player, rows = Player(Path(), out), list[dict[str, Any]]()
    for name, nets in (("mixture", list(MIXTURES)), (PLAYER, [PLAYER])):
        if not player.judged(name).exists():
            continue
        found = _read(player.judged(name))
        pairs = [("first", net, pair) for net, pair in zip(nets, found["comparisons"], strict=True)]
        if found.get("rejudged"):
            pairs += [("deeper", nets[0], found["rejudged"]["comparisons"][0])]
        for judge, net, pair in pairs:
            rows += [_kind_row(net, player.net(net), judge, row) for row in pair["by_kind"]]
    table: pd.DataFrame = pd.DataFrame(rows)
    return table


def _kind_row(net: str, file: Path, judge: str, row: Mapping[str, Any]) -> dict[str, Any]:
    old, new = row["squared_error"] if judge == "first" else (float("nan"),) * 2
    cells = {"net": net, "sha256": read_net_file(file).sha256[:12], "judge": judge, "kind": row["kind"]}
    cells |= {"positions": row["positions"], "old": old, "new": new} | _interval(row["change"], "")
    for at in row["candidates"]:
        cells |= _interval(at["change"], f"_{at['threshold']:g}")
    return cells


def _interval(found: Mapping[str, Any], ending: str) -> dict[str, Any]:
    return {f"{name}{ending}": found[key] for name, key in (("change", "difference"), ("low", "low"), ("high", "high"))}


def matches(out: Path) -> pd.DataFrame:
    """A row for each match that was played, from the new net's side: games, results, Elo, effective root moves."""
    import pandas as pd

    rows = []
    for path in sorted(out.glob("match-*.json")):
        found = _read(path)
        elo = next(each for each in found["elo"] if each["level"] == 0.95)
        new, old = found["effective_root_moves"]
        cells = {"match": path.stem.removeprefix("match-"), "games": found["games"], **found["score"]}
        rows.append(cells | {"elo": elo["value"], "low": elo["low"], "high": elo["high"], "moves": new, "old": old})
    table: pd.DataFrame = pd.DataFrame(rows)
    return table


def regrets(out: Path) -> pd.DataFrame:
    """The regret of the net's moves against the old one's, by kind of position; nothing where it was not measured."""
    import pandas as pd

    path = Player(Path(), out).judged(PLAYER)
    found = _read(path)["comparisons"][0]["regret"]["rows"] if path.exists() else []
    rows = [
        {"kind": row["kind"], "positions": row["positions"], "judged": row["judged"]}
        | {"old": row["regret"][0], "new": row["regret"][1], **_interval(row["change"], "")}
        for row in found
    ]
    table: pd.DataFrame = pd.DataFrame(rows)
    return table


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


@command.command("tables")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder.")
def write_tables(folder: Path, output: Path) -> None:
    """Write player-kinds.csv, player-matches.csv and player-regret.csv, of what is there of FOLDER."""
    output.mkdir(parents=True, exist_ok=True)
    for name, found in (("kinds", kinds(folder)), ("matches", matches(folder)), ("regret", regrets(folder))):
        if len(found):
            tables.write_table(found, output / f"player-{name}.csv")
            click.echo(f"{found.to_string(index=False)}\n")


if __name__ == "__main__":
    tables.run(command, "player")
