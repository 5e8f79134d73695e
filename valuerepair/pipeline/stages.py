"""The stages of a repair, each a command line of `vr` in one folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from valuerepair.engines.kinds import parse_spec
from valuerepair.pipeline.settings import Settings
from valuerepair.text import quantity
from valuerepair.training.options import SETTINGS

STORE = "store.db"
REPAIRED, CONTROL = "repaired.pb.gz", "control.pb.gz"
REJUDGED, PAGE = "rejudged.json", "report.html"
PARTS = ("games", "families")
# Placeholders, in the words of a match, for the numbers that multiply its nets' Q: see `run.q_scales`.
Q_SCALES = ("Q_SCALE", "OTHER_Q_SCALE")
# The quick match, which shows how steep each net's Q is: its games at most, and its nodes as a share of the match's.
_SCALE_GAMES, _SCALE_NODES = 200, 0.05
_TRAINING = ("only", "steps", "lr", "batch", "warmup", "every", "patience", "amplitude")


@dataclass(frozen=True, slots=True)
class Stage:
    """A command of `vr`: its `words`, and its amount of work in words (`size`).

    `output` is the file that gets its standard output. `makes` are its other files and folders, which all exist once it
    is done; `final` is one of them that exists only then. `leaves` are further files of an unfinished stage. All these
    are removed before the stage starts again. `scaled_by` is the output of an earlier match of the same nets, which
    gives the numbers for `Q_SCALES`.
    """

    name: str
    words: tuple[str, ...]
    size: str
    output: str = ""
    makes: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    final: str = ""
    scaled_by: str = ""

    @property
    def files(self) -> tuple[str, ...]:
        """All files and folders that it may leave, done or not."""
        return (*self.makes, *self.leaves, *([self.output] if self.output else []))


def stages(settings: Settings, folder: Path) -> tuple[Stage, ...]:
    """All stages of a repair in `folder`, in their order."""
    commands = _StageCommands(settings, folder)
    return (*commands.store(), *commands.training(), *commands.judgement(), *commands.matches())


class _StageCommands:
    """The command lines of the stages, all in one folder."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self._settings, self._folder, self._sizes = settings, folder, settings.sizes
        self._db = ("--db", self._path(STORE))
        self._threshold = ("--threshold", f"{settings.threshold:g}")
        self._seed = ("--seed", str(settings.seed))
        self._net = ("--net", settings.net)

    def store(self) -> list[Stage]:
        """From the archives to a store with a split, and to a book of the part train, which is for the user.

        The judge and alpha of all later stages are put in use in the store.
        """
        s, held_out = self._settings, self._settings.split
        if s.db:
            copy = ("merge", s.db, "-o", self._path(STORE))
            first = Stage("copy", copy, "the positions that were judged", final=STORE)
        else:
            off_game = ("--off-game", s.off_game) if s.off_game else ()
            draw = ("--positions", str(self._sizes.positions), *off_game, "--screen", "off")
            words = ("mine", *s.archives, *self._net, "--deep", s.deep, *draw)
            nodes = f"{parse_spec(s.deep).limits['nodes']:,} nodes"
            size = f"{self._sizes.positions:,} positions, {nodes} each"
            first = Stage("mine", (*words, *self._threshold, *self._seed, *self._db), size)
        shares = ("--games", f"{held_out.games:g}", "--families", f"{held_out.families:g}")
        split = ("split", *self._db, *shares, "--seed", str(held_out.seed))
        judge = ("--use", f"judge={s.judge}") if s.judge else ()
        alpha = ("--use", f"alpha={s.alpha:g}") if s.by_centipawns else ()
        question = (*self._db, *self._net, *self._threshold)
        books = ("books", *question, "-o", self._path("books"))
        return [
            first,
            Stage("stats", ("stats", *question, *judge, *alpha), "what was found"),
            Stage("split", split, f"{100 * held_out.games:g} % of the games, {100 * held_out.families:g} % by family"),
            Stage("books", books, "all candidates, for you; training does not use it", makes=("books",)),
        ]

    def training(self) -> list[Stage]:
        """The repaired net, and the control, which differs by its candidates alone."""
        s, steps = self._settings, self._sizes.steps
        options = s.train.options(steps)
        learning_options = [
            word
            for name in _TRAINING
            if (value := getattr(options, name)) is not None
            for word in (("--set", f"{name}={value}") if name in SETTINGS else (f"--{name}", f"{value}"))
        ]
        policy = () if options.policy is None else ("--policy", options.policy)
        words = (
            "train", *self._db, *policy, *self._net, *learning_options, "--set", f"threshold={s.threshold:g}",
            *self._seed,
        )  # fmt: skip
        nets: dict[str, tuple[tuple[str, ...], str]] = {REPAIRED: ((), "with candidates")}
        if s.control:
            nets[CONTROL] = (("--control",), "without candidates")
        trainings = []
        for net, (more, content) in nets.items():
            name = net.removesuffix(".pb.gz")
            trainings.append(Stage(
                name, (*words, *more, "-o", self._path(net)), f"{steps:,} steps of {s.train.batch:,}, {content}",
                makes=(net, f"{name}.training.json"), leaves=(f"{name}.checkpoint", f"{name}.unchecked.pb.gz"),
                final=net,
            ))  # fmt: skip
        return trainings

    def judgement(self) -> list[Stage]:
        """Comparisons on held-out positions: with the old net, with the control, and by a deeper judge."""
        s, stages = self._settings, list[Stage]()
        old, repaired, control = s.net, self._path(REPAIRED), self._path(CONTROL)
        for part in PARTS:
            nets = (old, repaired, control) if s.control else (old, repaired)
            words = self._compared(nets, "--part", part)
            stages.append(Stage(part, words, f"held-out {part}, against the old net", output=f"{part}.json"))
            if s.control:
                name, words = f"{part}-control", self._compared((control, repaired), "--part", part)
                stages.append(Stage(name, words, f"held-out {part}, against the control", output=f"{name}.json"))
        if s.test_deep and (count := self._sizes.rejudge):
            deeper = ("--deep", _with_net(s.test_deep, old), "--sample", str(count))
            nodes = parse_spec(s.test_deep).limits["nodes"]
            size = f"{count:,} held-out positions, {nodes:,} nodes each"
            stages.append(Stage("rejudge", self._compared((old, repaired), *deeper), size, output=REJUDGED))
        return stages

    def _compared(self, nets: Sequence[str], *more: str) -> tuple[str, ...]:
        return ("compare", *nets, *self._db, *self._threshold, *more, "--json")

    def matches(self) -> list[Stage]:
        """Matches of the repaired net against the old one, and against the control, with their Q on one scale.

        How steep a net's Q is depends on the positions. So quick matches come first: their positions are like those of
        the matches.
        """
        nodes, games = self._settings.match_nodes, self._sizes.games
        quick_nodes, quick_games = max(1, round(_SCALE_NODES * nodes)), min(games, _SCALE_GAMES)
        opponents = {"old": self._settings.net}
        if self._settings.control:
            opponents["control"] = self._path(CONTROL)
        quick, matches = list[Stage](), list[Stage]()
        for name, opponent in opponents.items():
            nets = _escaped(self._path(REPAIRED)), _escaped(opponent)
            sides = [f"net={net},nodes={quick_nodes}" for net in nets]
            size = f"{quantity(quick_nodes, 'node')}, for the scale of Q"
            quick.append(self._match(f"scale-{name}", sides, quick_games, size))
            sides = [f"net={net},nodes={nodes},q_scale={scale}" for net, scale in zip(nets, Q_SCALES, strict=True)]
            match = self._match(f"match-{name}", sides, games, f"{nodes:,} nodes")
            matches.append(replace(match, scaled_by=quick[-1].output))
        return quick + matches

    def _match(self, name: str, sides: Sequence[str], games: int, nodes: str) -> Stage:
        words = ("match", *sides, "--games", str(games), *self._seed, "-o", self._path(f"{name}.pgn"), "--json")
        return Stage(name, words, f"{games:,} games at {nodes}", output=f"{name}.json", makes=(f"{name}.pgn",))

    def _path(self, name: str) -> str:
        return str(self._folder / name)


def _with_net(deep: str, net: str) -> str:
    """The text of a judge; if it searches with a net and names none, with the net that it has in `vr mine`."""
    judge = parse_spec(deep)
    return f"{deep},weights={_escaped(net)}" if judge.kind.takes_net and judge.weights is None else deep


def _escaped(net: str) -> str:
    """A net's name as it is written in the text of a match's side or of a judge."""
    return net.replace(",", "\\,")
