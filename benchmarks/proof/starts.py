"""Start positions (B3): are positions of games that begin at candidates worth more than ordinary ones?

As for Stockfish and KataGo: games are played on from candidates and from the positions shortly before them, and their
positions are judged. A net learns from as many judged positions as others do, a share of which are of such games. All
are judged on ordinary games that were held out, and on games that begin at the candidates of those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from benchmarks.proof import tables
from benchmarks.proof.arms import NET, Step
from benchmarks.proof.games import TEST, TRAIN, dividing
from benchmarks.proof.player import ALPHA, CHOSEN, MIXTURES, kind_row, read_json, regret_rows
from valuerepair.errors import ValueRepairError
from valuerepair.nets.registry import locate
from valuerepair.question import Question
from valuerepair.store.store import Store

if TYPE_CHECKING:
    import pandas as pd

PART = "starts"
# Shares of what is learned from that are of games from start positions, in per cent.
SHARES = (0, 3, 10, 30)
# Positions to learn from; of ordinary test games, to find start positions in; to judge by, of either kind.
_LEARNED, _SEARCHED, _JUDGED = 100_000, 40_000, 4_000
_CANDIDATES = 1_000  # that games begin at, or up to two plies before
_NODES, _TEST_NODES = 2_000, 50_000
_STEPS = 2_000
_TEST_KINDS = "search:0.5"
# Games from start positions: a move by 20 nodes, at a temperature, so that two games of a line differ.
_PLAY = ("--nodes", "20", "--temperature", "0.7", "--max-plies", "40", "--no-db")
_SEED = 43


@dataclass(frozen=True, slots=True)
class Starts:
    """Where everything lies: `data` with the archive, `out` for all that is made. `scale` multiplies all sizes."""

    data: Path
    out: Path
    scale: float = 1.0

    def phases(self, results: Path) -> Iterator[Iterable[Step]]:
        """All of it, in phases: what one has made says what is in the next."""
        yield [dividing(self.data, self.out)]
        yield [
            self._mined("starts-ordinary", self.out / TRAIN, _LEARNED, _NODES, "--aside", MIXTURES[CHOSEN]),
            *self._played("starts-ordinary"),
            self._mined("starts-games", self._games("starts-ordinary"), self._most(), _NODES, "--per-game", "40"),
            self._merged(),
            self._mined("starts-held-out", self.out / TEST, _SEARCHED, _NODES),
            *self._played("starts-held-out"),
            self._mined("starts-test", self._games("starts-held-out"), _JUDGED, _TEST_NODES, "--per-game", "10"),
            self._mined("ordinary-test", self.out / TEST, _JUDGED, _TEST_NODES, "--aside", _TEST_KINDS),
            *(self._weights(share) for share in SHARES),
        ]
        yield [self._trained(share) for share in SHARES]
        yield [self._judged(name) for name in ("ordinary", "starts")]
        words = ["tables", str(self.out), "-o", str(results)]
        yield [Step("measure", "starts-tables", results / "starts.done", words, "benchmarks.proof.starts")]

    def net(self, share: int) -> Path:
        return self.out / "nets" / f"starts-{share}.pb.gz"

    def judged(self, name: str) -> Path:
        """What `vr remeasure --json` says of the nets on test positions, ``ordinary`` or of ``starts``."""
        return self.out / f"{name}-judged.json"

    def _most(self) -> int:
        # Some are also positions of ordinary games, and count as these.
        return round(1.1 * max(SHARES) * _LEARNED / 100)

    def _games(self, store: str) -> Path:
        return self.out / f"{store}.pgn"

    def _mined(self, name: str, games: Path, positions: int, nodes: int, *more: str) -> Step:
        words = ["mine", str(games), "--db", str(self.out / f"{name}.db"), "--positions", str(self._sized(positions))]
        words += ["--screen", "off", "--deep", f"stockfish:nodes={nodes}", "--min-ply", "1", *more]
        # By the seed that drew the candidates, the positions that games begin at would all be drawn again.
        seed = _SEED if games.name in (TRAIN, TEST) else _SEED + 1
        return self._step(f"mine-{name}", [*words, "--seed", str(seed)])

    def _played(self, store: str) -> Iterator[Step]:
        """Games from the candidates of a store, and from the positions up to two plies before them."""
        book = self.out / f"{store}-book"
        words = ["books", "--db", str(self.out / f"{store}.db"), "--alpha", f"{ALPHA:g}", "--threshold", "0.55"]
        words += ["--parents", "2", "--order", "shuffled", "--limit", str(self._sized(_CANDIDATES))]
        yield self._step(f"book-{store}", [*words, "-o", str(book)])
        words = ["selfplay", str(book / "book.epd"), "--net", NET, *_PLAY, "--seed", str(_SEED)]
        yield self._step(f"play-{store}", [*words, "-o", str(self._games(store))])

    def _merged(self) -> Step:
        words = ["store", "merge", *(str(self.out / f"starts-{name}.db") for name in ("ordinary", "games"))]
        return Step(PART, "merge", self.out / "starts.db", [*words, "-o", str(self.out / "starts.db")])

    def _drawn(self, share: int) -> Path:
        return self.out / f"starts-{share}.parquet"

    def _weights(self, share: int) -> Step:
        words = ["draw", str(self.out / "starts.db"), str(share), "-o", str(self._drawn(share))]
        return Step(PART, f"draw-{share}", self._drawn(share), words, "benchmarks.proof.starts")

    def _trained(self, share: int) -> Step:
        words = ["train", "--net", NET, "--store", str(self.out / "starts.db"), "-o", str(self.net(share))]
        words += ["--draw", str(self._drawn(share)), "--alpha", f"{ALPHA:g}", "--policy", "judge:0.3"]
        steps = str(max(20, round(self.scale * _STEPS)))
        return Step(PART, f"starts-{share}.pb.gz", self.net(share), [*words, "--steps", steps, "--seed", str(_SEED)])

    def _judged(self, name: str) -> Step:
        """All nets on test positions; each against that which learned from ordinary positions alone."""
        words = ["remeasure", "--db", str(self.out / f"{name}-test.db"), "--alpha", f"{ALPHA:g}", "--regret", "100"]
        words += [word for share in SHARES for word in ("--net", str(self.net(share)))]
        words += ["--net", NET, "--json"]
        return Step(PART, f"judge-{name}", self.judged(name), words, saves=True)

    def _sized(self, size: int) -> int:
        return max(100, round(self.scale * size))

    def _step(self, name: str, words: list[str]) -> Step:
        return Step(PART, name, self.out / "done" / name, words)


def draw(rows: pd.DataFrame, share: int, games: str) -> pd.DataFrame:
    """The positions that an arm learns from, each with weight 1: as many for every share.

    `rows` are those of a store, `source` their archive; `share` per cent are of the archive `games`, the others not.
    Raises ValueRepairError where there are too few of either.
    """
    from_starts = rows["source"].str.endswith(games)
    total = int((~from_starts).sum())
    wanted = {True: share * total // 100, False: total - share * total // 100}
    dice = np.random.default_rng(_SEED)
    ids = []
    for is_of_games, count in wanted.items():
        here = rows["position_id"].to_numpy()[from_starts == is_of_games]
        if count > len(here):
            raise ValueRepairError(f"{share} %: {count:,} positions are needed, and there are {len(here):,}")
        # The first of one order, so that a larger share has all of a smaller one's.
        ids += dice.permutation(here)[:count].tolist()
    drawn: pd.DataFrame = rows[["position_id"]][rows["position_id"].isin(ids)].assign(weight=1.0)
    return drawn


def kinds(out: Path) -> pd.DataFrame:
    """The rows of `vr remeasure` by kind of position, against the net of ordinary positions: `player.kinds`.

    Before the columns of these stands `test`, the test positions: ``ordinary`` or ``starts``.
    """
    files = {f"starts-{share}": Starts(Path(), out).net(share) for share in SHARES[1:]} | {NET: Path(locate(NET))}
    return _by_test(
        out, lambda net, comparison: [kind_row(net, files[net], "first", row) for row in comparison["by_kind"]]
    )


def regrets(out: Path) -> pd.DataFrame:
    """The regret of moves, against the net of ordinary positions: `player.regrets`, after the column `test`."""
    return _by_test(out, regret_rows)


def _by_test(out: Path, rows_of: Callable[[str, Mapping[str, Any]], list[dict[str, Any]]]) -> pd.DataFrame:
    """The rows of each net's comparison on both kinds of test positions."""
    import pandas as pd

    rows = []
    for test in ("ordinary", "starts"):
        comparisons = read_json(Starts(Path(), out).judged(test))["comparisons"]
        for net, comparison in zip((*(f"starts-{share}" for share in SHARES[1:]), NET), comparisons, strict=True):
            rows += [{"test": test, **row} for row in rows_of(net, comparison)]
    table: pd.DataFrame = pd.DataFrame(rows)
    return table


# -- from the command line --------------------------------------------------------------------------------------------


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def command() -> None:
    """Steps of `python -m benchmarks.proof starts`."""


@command.command("draw")
@click.argument("db", type=click.Path(exists=True, dir_okay=False))
@click.argument("share", type=int)
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="Parquet.")
def write_draw(db: str, share: int, output: Path) -> None:
    """Write what `vr train --draw` draws of a store: SHARE per cent of games from start positions."""
    with Store.open(db) as store:
        rows = store.frame(Question(net=NET, expanded="searched"), only=("position_id", "source"))
    draw(rows, share, "starts-ordinary.pgn").to_parquet(output)


@command.command("tables")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder.")
def write_tables(folder: Path, output: Path) -> None:
    """Write starts-kinds.csv and starts-regret.csv."""
    output.mkdir(parents=True, exist_ok=True)
    for name, table in (("kinds", kinds(folder)), ("regret", regrets(folder))):
        tables.write_table(table, output / f"starts-{name}.csv")
        click.echo(table.to_string(index=False))


if __name__ == "__main__":
    tables.run(command, "starts")
