"""What is run for the proof: the store that all arms share, the arms, each as the `vr` commands that make it."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.proof.analysis import PRIMARY_THRESHOLD
from benchmarks.proof.positions import VALIDATION_SHARE
from valuerepair.errors import ValueRepairError
from valuerepair.files import written_whole
from valuerepair.question import Expanded
from valuerepair.training.train import read_curve

SEEDS = (0, 1, 2)
SHARES = (0.05, 0.10, 0.20, 0.40)
NET = "maia-1900"
OTHERS = {"1100-": "maia-1100", "small-": "meangirl-8"}
STEPS = 1_000
LEARNING_RATES = {"all": (1e-4, 3e-4), "value": (1e-4, 3e-4)}
_JUDGE = "stockfish:nodes=20000"
_SEED = "18"
# Archive, positions; what is held out whole stands first, so that a position met twice is no training position.
ARCHIVES = (
    ("iccf-scca.pgn", 2_000),
    ("tcec-lc0-s16.pgn.zst", 3_000),
    ("leela-ID352.pgn.gz", 5_000),
    ("lichess-blitz.pgn", 5_000),
    ("otb-masters.pgn.zst", 300_000),
)
# Of candidates and targets: the alpha by which Stockfish's Q of all of these positions was nearest to maia-1900's.
ALPHA = 393.0
_USUAL_ALPHA = 170.0
# Arms by the alpha of results, where candidates are those of `vr books`; their own share, and more of them.
RESULTS = "results-"
RESULTS_THRESHOLD = 0.55
BY_RESULTS = "by-results"
SECOND = "second"  # where the results of the second plan lie among the others
_MORE = 0.15
# Positions beside the games.
_BESIDE = 100_000
HELD_ARCHIVES = tuple(name for name, _ in ARCHIVES[:3])
# Games and nodes a move of the self-play arms; openings and nodes of the matches.
_GAMES, _NODES = 1_000, 100
_CONTEMPT = "n_scl=5"
# What is played, by the name of its PGN: both sides, and what differs from the usual settings. The same cpuct
# searches more broadly by a net that has become flatter, so both also meet with a lower one, and each with one that
# goes with its scale: 1.1 times the slope of the original in searches over its own (`benchmarks.proof.aside`); 1.2 and
# 1.38 are 1.745 by how much steeper Q is than the original's, 1.45 and 1.27 times by its standard deviation on the
# test sets.
MATCHES = {
    "control": ("repaired", "control"),
    "original": ("repaired", "original"),
    "cpuct": ("repaired cpuct=1.1", "original cpuct=1.1"),
    "own-cpuct": ("original cpuct=1.1", "original"),
    "aside": ("aside", "original"),
    "aside-sampled": ("aside", "sampled"),
    "scaled": ("repaired cpuct=0.82", "original cpuct=1.1"),
    "aside-170": ("aside-170", "original"),
    "aside-170-breadth": ("aside-170", "original cpuct=1.38"),
    "sampled-170": ("sampled-170", "original"),
    "x3": ("aside-170-x3", "aside-170"),
    "results": ("results-sampled", "original"),
    "results-breadth": ("results-sampled", "original cpuct=1.2"),
    "results-sampled": ("results-15", "results-sampled"),
    "results-control": ("results-15", "results-control"),
}


@dataclass(frozen=True, slots=True)
class Step:
    """A command of a program that makes `output`, which is its standard output where it `saves` that; nothing is to be
    done where it is there."""

    part: str
    name: str
    output: Path
    command: Sequence[str]
    program: str = "valuerepair"
    saves: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A way to train: the share of candidates, and how many of them there are at most (None: all). Or what is drawn by:
    weights of a file, of this store. `alpha`, of candidates and targets, where it is another than that of the store;
    `threshold` of candidates."""

    name: str
    share: float
    net: str = NET
    expanded: Expanded = "searched"
    only: str = "all"
    candidates: int | None = None
    draw: str = ""
    store: str = "proof"
    alpha: float = ALPHA
    threshold: float = PRIMARY_THRESHOLD
    steps: int = STEPS
    chunks: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """The learning rates that the pilot found, of the whole net and of the value head; the share, once it is chosen."""

    all: float
    value: float
    share: float | None = None


@dataclass(slots=True)
class Proof:
    """Where everything lies: `data`, the archives; `out`, store, nets and logs."""

    data: Path
    out: Path
    setting: Setting | None = None
    # As the store has them: the share of candidates among the positions as sampled; alpha and share by the results of
    # games.
    sampled: float = 0.0
    results_alpha: float = 0.0
    results_sampled: float = 0.0

    @property
    def others(self) -> dict[str, str]:
        """The nets that are repaired besides, by what their arms begin with: another one, and a smaller one."""
        return {name: str(self.data / "nets" / f"{net}.pb.gz") for name, net in OTHERS.items()}

    @property
    def store(self) -> str:
        return self._db("proof")

    @property
    def split(self) -> str:
        return str(self.out / "split.json")

    # -- the store ----------------------------------------------------------------------------------------------------

    def mining(self) -> Iterator[Step]:
        for name, positions in ARCHIVES:
            mine = ["mine", str(self.data / "pgn" / name), "--db", self.store, "--deep", _JUDGE]
            yield self._done("mine", name, [*mine, "--screen", "off", "--seed", _SEED, "--positions", str(positions)])
        yield self._done("mine", "calibration", ["stats", "--db", self.store, "--save-calibration", *self._asked()])
        kept = [word for name in HELD_ARCHIVES for word in ("--archive", name)]
        split = ["split", "--db", self.store, "--games", "0.15", "--families", "0.10", *kept, "--seed", _SEED]
        yield Step("mine", "split", Path(self.split), [*split, "-o", self.split])

    def expanding(self) -> Iterator[Step]:
        expand = ["expand", "--db", self.store, "--split", self.split, "--positions", "12000", "--seed", _SEED]
        yield self._done("expand", "expand", [*expand, *self._asked()])

    # -- arms ---------------------------------------------------------------------------------------------------------

    def pilot(self) -> Iterator[Step]:
        """Which learning rate, by the validation loss on the positions as sampled."""
        for only, rates in LEARNING_RATES.items():
            for lr in rates:
                arm = Arm(name=f"pilot-{only}-{lr:g}", share=self.sampled, only=only, expanded="no")
                yield self._training(arm, 99, "pilot", lr)

    def main(self) -> Iterator[Step]:
        """Whole net, seed by seed, so that every arm has one net early."""
        yield from self._all("main", self._shares())

    def value(self) -> Iterator[Step]:
        yield from self._all("value", self._shares("value-", "value"))

    def further(self) -> Iterator[Step]:
        """What needs the best share."""
        share = self._best
        nets = [word for net in (NET, *self.others.values()) for word in ("--net", net)]
        yield self._done("further", "others", ["remeasure", *nets, "--db", self.store, *self._asked()])
        arms = [Arm(name="archive", share=share, expanded="no")]
        arms += [Arm(name=f"{n}k", share=share, candidates=1_000 * n) for n in (1, 4)]
        for before, net in self.others.items():
            arms.append(Arm(name=f"{before}control", share=0, net=net, expanded="no"))
            arms.append(Arm(name=f"{before}share", share=share, net=net, expanded="no"))
        yield from self._all("further", arms)

    def ways(self) -> Iterator[Step]:
        """What may do better: kinds of positions that have many candidates; inferred candidates."""
        weights = ["--db", self.store, "--split", self.split, "-o", self._weights("likely")]
        yield Step("ways", "likely", Path(weights[-1]), weights, "benchmarks.proof.likely")
        arms = [Arm(name="likely", share=0, expanded="no", draw="likely")]
        yield from self._all("ways", [*arms, Arm(name="inferred", share=self._best, expanded="all")])

    def aside(self) -> Iterator[Step]:
        """Ordinary training, with half of the positions a random move beside the games."""
        beside, both = self._db("beside"), self._db("both")
        archive = str(self.data / "pgn" / ARCHIVES[-1][0])
        mine = ["mine", archive, "--aside", "aside:1", "--positions", str(_BESIDE), "--seed", _SEED, "--db", beside]
        yield self._done("aside", "mine-aside", [*mine, "--deep", _JUDGE, "--screen", "off"])
        yield Step("aside", "both", Path(both), ["store", "merge", self.store, beside, "-o", both])
        weights = ["--db", both, "--games", self.store, "--split", self.split, "-o", self._weights("aside")]
        yield Step("aside", "weights-aside", Path(weights[-1]), weights, "benchmarks.proof.beside")
        yield from self._all("aside", [Arm(name="aside", share=0, expanded="no", draw="aside", store="both")])

    def scale(self) -> Iterator[Step]:
        """Ordinary training by the alpha that is usual before one is fitted: in the games; with half of it beside them;
        and with all candidates three times as often. One seed each."""
        both, held_out = self._db("both"), ["--games", self.store, "--split", self.split]
        of_candidates = ["--candidates", "3", "--alpha", f"{_USUAL_ALPHA:g}"]
        for name, more in (("games", ["--share", "0"]), ("aside-x3", of_candidates)):
            weights = ["--db", both, *held_out, *more, "-o", self._weights(name)]
            yield Step("scale", f"weights-{name}", Path(weights[-1]), weights, "benchmarks.proof.beside")
        for name, draw in (("sampled-170", "games"), ("aside-170", "aside"), ("aside-170-x3", "aside-x3")):
            arm = Arm(name=name, share=0, expanded="no", draw=draw, store="both", alpha=_USUAL_ALPHA)
            yield self._training(arm, SEEDS[0], "scale", self._set.all)

    def results(self) -> Iterator[Step]:
        """The question once more by the alpha of results: no candidates, as many as there are, about twice as many."""
        shares = {"control": 0.0, "sampled": self.results_sampled, f"{round(100 * _MORE)}": _MORE}
        one = Arm(name="", share=0, expanded="no", alpha=self.results_alpha, threshold=RESULTS_THRESHOLD)
        yield from self._all("results", [replace(one, name=RESULTS + name, share=of) for name, of in shares.items()])

    def long(self) -> Iterator[Step]:
        """Four times the steps."""
        control = Arm(name="long-control", share=0, expanded="no", steps=4 * STEPS)
        yield from self._all(
            "long", [control, replace(control, name="long-share", share=self._best, expanded="searched")]
        )

    def games(self) -> Iterator[Step]:
        """Self-play from candidates and from ordinary positions, and training on it."""
        books = [*self._asked(), "--split", self.split, "--limit", str(_GAMES), "--order", "shuffled"]
        book = self.out / "book"
        yield Step("games", "book", book / "book.pgn", ["books", "--db", self.store, *books, "-o", str(book)])
        for name, beginning, settings in (
            ("z", book / "book.pgn", ()),
            ("z-contempt", book / "book.pgn", ("--set", _CONTEMPT)),
            ("z-control", self.out / "ordinary.pgn", ()),
        ):
            play = ["selfplay", str(beginning), "--net", NET, "--nodes", str(_NODES), "--no-db", *settings]
            chunks, games = self.out / f"chunks-{name}", self.out / f"{name}.pgn"
            yield self._done("games", f"play-{name}", [*play, "--training", str(chunks), "-o", str(games)])
        for name in ("z", "z-contempt"):
            sides = ["--repair", str(self.out / f"chunks-{name}"), "--normal", str(self.out / "chunks-z-control")]
            mix = ["mix", *sides, "--share", "0.40", "--by", "positions", "-o", str(self.out / f"mixture-{name}")]
            yield self._done("games", f"mix-{name}", mix)
        arms = [Arm(name=name, share=0.4, chunks=f"mixture-{name}") for name in ("z", "z-contempt")]
        yield from self._all("games", [*arms, Arm(name="z-control", share=0, chunks="chunks-z-control")])

    def matches(self, seed: int = 0) -> Iterator[Step]:
        """The best share, its control and the original against each other."""
        control, repaired = (str(self.net(arm, seed)) for arm in ("control", f"{round(100 * self._best)}"))
        nets = {"original": NET, "control": control, "repaired": repaired}
        arms = {net.split()[0] for sides in MATCHES.values() for net in sides} - set(nets)
        nets |= {arm: str(self.net(arm, seed)) for arm in sorted(arms)}
        openings = ["--openings", str(self.out / "openings.pgn")]
        for name, words in MATCHES.items():
            pgn = str(self.out / f"match-{name}.pgn")
            sides = ((nets[net], *settings) for net, *settings in map(str.split, words))
            players = [",".join([f"net={net}", f"nodes={_NODES}", *more]) for net, *more in sides]
            done = self.out / "done" / f"match-{name}"
            play = ["play", *players, *openings, "-o", pgn]
            yield Step("matches", done.name, done, play, "benchmarks.proof.matches")

    def measuring(self, results: Path) -> Iterator[Step]:
        """What the nets are worth on what was held out, into tables, pictures and a notebook."""
        best = f"{round(100 * self._best)}"
        source = ["--index", str(self.index), "--db", self.store, "--split", self.split]
        source += ["--kept", str(self.out / "kept"), "-o", str(results)]
        some = ["--arm", best, "--arm", "control", "--arm", "sampled", "--count", "500"]
        beside = ["--arm", best, "--arm", "sampled", "--arm", "aside", "--searching", self.others["1100-"]]
        ordinary = ["--arm", best, "--arm", "sampled", "--arm", "archive"]
        by_results = ["--index", str(self.results_index), *source[2:-1], str(results / BY_RESULTS)]
        by_results += ["--alpha", f"{self.results_alpha:g}", "--threshold", f"{RESULTS_THRESHOLD:g}"]
        for name, words in (
            ("tables", ["write", *source, "--repaired", best]),
            ("families", source),
            ("matches", ["table", str(self.out), "-o", str(results)]),
            ("visits", [*source, *some]),
            ("noise", [*source, *ordinary, "--count", "500"]),
            ("aside", [*source, *beside, "--count", "3000"]),
        ):
            yield Step("measure", name, results / f"{name}.done", words, f"benchmarks.proof.{name}")
        yield Step(
            "measure", "by-results", results / "by-results.done", ["write", *by_results], "benchmarks.proof.tables"
        )
        for name in ("page", "notebook"):
            yield Step("measure", name, results / f"{name}.done", ["."], f"benchmarks.proof.{name}")

    @property
    def index(self) -> Path:
        """The nets that were trained by the store's alpha."""
        return self.out / "nets.csv"

    @property
    def results_index(self) -> Path:
        """Those that were trained by that of results, with several seeds."""
        return self.out / "nets-results.csv"

    def net(self, arm: str, seed: int) -> Path:
        return self.out / "nets" / f"{arm}-{seed}.pb.gz"

    # -- commands -----------------------------------------------------------------------------------------------------

    @property
    def _set(self) -> Setting:
        assert self.setting is not None
        return self.setting

    @property
    def _best(self) -> float:
        assert self._set.share is not None, "the share is chosen by the part main"
        return self._set.share

    def _shares(self, prefix: str = "", only: str = "all") -> Iterator[Arm]:
        yield Arm(name=f"{prefix}control", share=0, only=only, expanded="no")
        yield Arm(name=f"{prefix}sampled", share=self.sampled, only=only, expanded="no")
        for share in SHARES:
            yield Arm(name=f"{prefix}{round(100 * share)}", share=share, only=only)

    def _all(self, part: str, arms: Iterator[Arm] | Sequence[Arm]) -> Iterator[Step]:
        wanted = list(arms)
        for seed in SEEDS:
            for arm in wanted:
                yield self._training(arm, seed, part, self._set.value if arm.only == "value" else self._set.all)

    def _training(self, arm: Arm, seed: int, part: str, lr: float) -> Step:
        """Judged once, at the end: the net of the last step is written, in all arms alike."""
        output = self.net(arm.name, seed)
        words = ["train", "--net", arm.net, "-o", str(output), "--only", arm.only, "--steps", str(arm.steps)]
        words += ["--lr", f"{lr:g}", "--set", f"every={arm.steps}", "--set", "patience=0", "--seed", str(seed)]
        if arm.chunks:
            return Step(part, output.name, output, [*words, str(self.out / arm.chunks)])
        words += [
            "--store",
            self._db(arm.store),
            "--split",
            self.split,
            "--share",
            f"{arm.share:g}",
            "--set",
            f"holdout={VALIDATION_SHARE:g}",
        ]
        words += [*self._asked(arm.threshold, arm.alpha), "--expanded", arm.expanded]
        words += ["--set", f"candidates={arm.candidates}"] if arm.candidates is not None else []
        words += ["--draw", self._weights(arm.draw)] if arm.draw else []
        return Step(part, output.name, output, words)

    def _db(self, name: str) -> str:
        return str(self.out / f"{name}.db")

    def _weights(self, name: str) -> str:
        """What positions are drawn by, where it is not by whether they are candidates."""
        return str(self.out / f"{name}.parquet")

    def _asked(self, threshold: float = PRIMARY_THRESHOLD, alpha: float = ALPHA) -> list[str]:
        return ["--threshold", f"{threshold:g}", "--calibration", "fitted", "--alpha", f"{alpha:g}"]

    def _done(self, part: str, name: str, command: Sequence[str]) -> Step:
        """A step whose end is noted in a file: what it makes is there before it is done."""
        return Step(part, name, self.out / "done" / name, command)


def write_index(proof: Proof, steps: Sequence[Step], index: Path) -> None:
    """arm, seed, net of every trained net that is there, and of the originals.

    Raises ValueRepairError for a net that is not of the last step.
    """
    rows = [("original", 0, NET)]
    for before, net in proof.others.items():
        if any(step.output.name.startswith(before) for step in steps):
            rows.append((f"{before}original", 0, net))
    for step in steps:
        if step.command[0] == "train" and step.output.exists():
            about = read_curve(step.output).about
            if about["written"]["step"] != about["options"]["steps"]:
                raise ValueRepairError(f"{step.output}: validation chose another step than the last, the plan does not")
            arm, _, seed = step.output.name.removesuffix(".pb.gz").rpartition("-")
            rows.append((arm, int(seed), str(step.output)))
    with written_whole(index, None) as partial, open(partial, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("arm", "seed", "net"))
        writer.writerows(rows)
