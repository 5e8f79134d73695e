"""The plan of a repair: its stages as command lines, the sizes that the budget allows, and their times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

from valuerepair.chess.progress import format_duration
from valuerepair.engines.kinds import parse_spec
from valuerepair.errors import UsageError
from valuerepair.pipeline.rates import Rates
from valuerepair.pipeline.settings import FEWEST_REJUDGED, Mining, Settings, Sizes, seconds_of
from valuerepair.text import quantity
from valuerepair.training.options import PASSES, SETTINGS, SHARE_OF_GAMES

STORE, SPLIT = "store.db", "split.json"
REPAIRED, CONTROL = "repaired.pb.gz", "control.pb.gz"
REJUDGED, PAGE = "rejudged.json", "report.html"
PARTS = ("games", "families")
# Placeholders, in the words of a match, for the numbers that multiply its nets' Q: see `run.q_scales`.
Q_SCALES = ("Q_SCALE", "OTHER_Q_SCALE")
# The quick match, which shows how steep each net's Q is: its games at most, and its nodes and the time of a game as
# shares of those of the match. A node of a small search takes more time.
_SCALE_GAMES, _SCALE_NODES, _SCALE_SECONDS = 200, 0.05, 0.07

# Shares of the time for work, and the sizes beyond which more brings nothing: see `_most`. Stages look around
# candidates only for a book that is played: nets that learned those positions judged no better, or worse
# (docs/results.md).
_SHARES = {"positions": 50, "steps": 24, "rejudge": 8, "games": 18}
_SHARES_NORMAL = {"positions": 30, "expand": 8, "book": 22, "steps": 18, "rejudge": 6, "games": 16}
_TELLING_GAMES = 200  # fewer have an interval of more than ±50 Elo
_LEAST = {"positions": 500, "expand": 20_000, "book": 20, "steps": 20, "games": 10}
_MOST = {"book": 2_000, "rejudge": 2_000, "games": 2_000}
_TRAINED = 0.6  # share of the positions, without the held-out ones and their neighbours
_TO_FIND = {"policy": 1, "search": 15}  # evaluations: of the position before; of half of a search of 30 nodes
_HELD_OUT = 0.3  # share of the positions, at most
_MOST_JUDGED, _HELD = 8192, 0.1  # positions that judge a training
_JUDGEMENTS = 2 + 5 + 15  # of the old net, during training, and in the search for the amplitude
_PLIES, _BOOK_PLIES = 120, 90  # of a game; more than the mean, because few games run at once near the end
# The time of a command that reads the store, in multiples of a command's start time: fixed, and per thousand positions.
_STARTS = {"copy": (1.0, 0.1), "split": (1.0, 0.01), "books": (1.0, 0.08), "games": (1.5, 0.08)}


class TooLittleTime(UsageError):
    """The budget is too small; `seconds` is the least time that is needed."""

    def __init__(self, budget: str, seconds: float) -> None:
        super().__init__(
            f"--budget {budget}: is too little; with this net and this judge it takes about "
            f"{format_duration(seconds)} at least: --budget {ceil(seconds / 60)}m"
        )
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class Stage:
    """A command of `vr`: its `words`, its amount of work in words (`size`), and its time (s).

    `output` is the file that gets its standard output. `makes` are its other files and folders, which all exist once it
    is done; `final` is one of them that exists only then. `leaves` are further files of an unfinished stage. All these
    are removed before the stage starts again. `elsewhere` are words that say where it runs, without effect on the
    result. `scaled_by` is the output of an earlier match of the same nets, which gives the numbers for `Q_SCALES`.
    """

    name: str
    words: tuple[str, ...]
    size: str
    seconds: float
    output: str = ""
    makes: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    final: str = ""
    elsewhere: tuple[str, ...] = ()
    scaled_by: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """The stages of a repair in their order, with settings in which every size is a number."""

    settings: Settings
    stages: tuple[Stage, ...]

    @property
    def seconds(self) -> float:
        """The time of all stages."""
        return sum(stage.seconds for stage in self.stages)

    @property
    def limits(self) -> list[str]:
        """What a repair of these sizes cannot show."""
        sizes, limits = self.settings.sizes, list[str]()
        if sizes.games is not None and sizes.games < _TELLING_GAMES:
            limits.append(f"{quantity(sizes.games, 'game')} a match: too few to show a better player")
        if self.settings.test_deep and not sizes.rejudge:
            limits.append("no deeper judge: there is no time for one")
        return limits


def plan(settings: Settings, rates: Rates, folder: Path, cluster: str | None = None) -> Plan:
    """The stages to run in `folder`, by these rates. Raises TooLittleTime for a budget that is too small."""
    chosen = replace(settings, sizes=sizes(settings, rates))
    return Plan(chosen, stages(chosen, rates, folder, cluster))


# -- sizes ------------------------------------------------------------------------------------------------------------


def sizes(settings: Settings, rates: Rates) -> Sizes:
    """The sizes of the settings; the budget decides the missing ones.

    Each missing size in turn gets its share of the time that the fixed times and the sizes before it leave over; so the
    time that one size cannot use goes to the next. Raises TooLittleTime for a budget that is too small.
    """
    shares, cost = dict(_SHARES_NORMAL if settings.normal else _SHARES), _costs(settings, rates)
    if not settings.test_deep:
        del shares["rejudge"]
    sizes: dict[str, int | None] = {name: getattr(settings.sizes, name) for name in shares}
    mining, after = _overhead(settings, rates)
    fixed = mining + after
    if settings.store:
        sizes["positions"] = rates.positions
    if settings.normal:
        # From some hundred games on, a mixture is judged by a fixed number of positions: the cost becomes linear.
        for_1001, for_2001 = (_overhead(settings, rates, book=book)[1] for book in (1001, 2001))
        cost["book"] = (for_2001 - for_1001) / 1000
        fixed += for_1001 - after - 1000 * cost["book"]
    cost["positions"] += (_overhead(settings, rates, positions=1001)[1] - after) / 1000
    remaining = seconds_of(settings.budget) - fixed - sum((size or 0) * cost[name] for name, size in sizes.items())
    missing = [name for name in shares if sizes[name] is None]
    for index, name in enumerate(missing):
        most = int(_most(name, settings, rates, sizes))
        part = max(remaining, 0.0) * shares[name] / sum(shares[other] for other in missing[index:])
        size = min(int(part / cost[name]), most)
        if name == "rejudge":
            size = size if size >= FEWEST_REJUDGED else 0
        elif size < min(_LEAST[name], most):
            all_shares = sum(shares.values())
            preset = sum((getattr(settings.sizes, other) or 0) * cost[other] for other in shares)
            needed = max(_LEAST.get(other, 0) * cost[other] * all_shares / shares[other] for other in missing)
            raise TooLittleTime(settings.budget, 1.05 * (fixed + preset + needed))  # 5 % more, as sizes are rounded
        sizes[name] = size = _round(size) // 2 * 2 if name == "games" else _round(size)
        remaining -= size * cost[name]
    return Sizes(**sizes)


def _round(size: int) -> int:
    """The size rounded down to two digits, which are enough for an estimate."""
    unit: int = 10 ** max(0, len(str(size)) - 2)
    return size // unit * unit


def _most(name: str, settings: Settings, rates: Rates, sizes: Mapping[str, int | None]) -> float:
    """The size beyond which a larger one has no benefit."""
    if name == "positions":
        return rates.positions
    positions = sizes["positions"] or rates.positions
    if name == "steps":
        return max(PASSES * _learned(settings, positions, sizes.get("book")) / settings.train.batch, _LEAST["steps"])
    if name == "expand":
        return max(positions * rates.nodes / rates.searches, _LEAST["expand"])
    if name == "rejudge":
        return min(_HELD_OUT * positions, _MOST["rejudge"])
    return _MOST[name]


def _learned(settings: Settings, positions: int | None, book: int | None) -> float:
    """About how many positions the repaired net learns from: those of the store, or of a mixture of games."""
    if settings.normal:
        return (book or 0) * _BOOK_PLIES / (settings.train.share or SHARE_OF_GAMES)
    return _TRAINED * (positions or 0)


def _costs(settings: Settings, rates: Rates) -> dict[str, float]:
    """Seconds for one unit of each size; of steps and games, for one of each trained net."""
    nets = 2 if settings.control else 1
    return {
        "positions": 0.0 if settings.store else 1 / rates.searches + _evaluated(settings.mine) / rates.net,
        "expand": 1.1 / rates.nodes,  # neighbours are evaluated by the net before they are searched
        "rejudge": parse_spec(settings.test_deep).limits["nodes"] / rates.nodes if settings.test_deep else 0.0,
        "book": _BOOK_PLIES * settings.play.book_nodes / settings.play.match_nodes / rates.moves,
        "steps": nets * settings.train.batch / rates.train,
        "games": nets * _PLIES / rates.moves * (1 + _quick_match(settings)[1]),
    }


def _quick_match(settings: Settings) -> tuple[int, float]:
    """The nodes of the match that shows the scale of Q, and the time of its games as a share of those of the match."""
    nodes = settings.play.match_nodes
    quick_nodes = max(1, round(_SCALE_NODES * nodes))
    return quick_nodes, max(_SCALE_SECONDS, quick_nodes / nodes)


def _evaluated(mining: Mining) -> float:
    """Positions that the net evaluates for each mined one: itself, and the search for it beside a game."""
    return 1 + sum(_TO_FIND.get(kind, 0) * share for kind, share in mining.shares().items())


def _overhead(settings: Settings, rates: Rates, *, positions: int = 1, book: int = 1) -> tuple[float, float]:
    """Seconds of mining, and of all later stages, for these positions and book lines; other sizes are the smallest."""
    chosen = Sizes(positions=positions, expand=1, book=book, steps=1, games=2)
    mine, *others = stages(replace(settings, sizes=chosen), rates, Path(), None)
    return mine.seconds, sum(stage.seconds for stage in others)


# -- stages -----------------------------------------------------------------------------------------------------------


def stages(settings: Settings, rates: Rates, folder: Path, cluster: str | None) -> tuple[Stage, ...]:
    """All stages; the settings have a number for each size."""
    builder = _StageCommands(settings, rates, folder)
    all_stages = [*builder.store(cluster), *(builder.expansion() if settings.normal else []), builder.book()]
    if settings.normal:
        all_stages += builder.games()
    return (*all_stages, *builder.training(), *builder.judgement(), *builder.matches())


class _StageCommands:
    """The command lines of the stages, all in one folder."""

    def __init__(self, settings: Settings, rates: Rates, folder: Path) -> None:
        self._settings, self._rates, self._folder = settings, rates, folder
        self._sizes, self._cost = settings.sizes, _costs(settings, rates)
        self._db = ("--db", self._path(STORE))
        self._threshold = ("--threshold", f"{settings.threshold:g}")
        self._alpha = ("--alpha", f"{settings.alpha:g}") if settings.by_centipawns else ()
        self._seed = ("--seed", str(settings.seed))
        self._split = ("--split", self._path(SPLIT))
        self._net = ("--net", settings.net)
        self._oracle = ("--oracle", settings.oracle) if settings.oracle else ()
        self._question = (*self._db, *self._net, *self._oracle, *self._threshold, *self._alpha)
        share = settings.train.share
        self._share = () if share is None else ("--share", f"{share:g}")

    def store(self, cluster: str | None) -> list[Stage]:
        """From the archives to a store with a split."""
        s, rates, positions = self._settings, self._rates, self._sizes.positions or 0
        nodes = f"{parse_spec(s.deep).limits['nodes']:,} nodes"
        off_game = ("--off-game", s.mine.off_game) if s.mine.off_game else ()
        sizes = ("--positions", str(positions), *off_game, "--screen", "off")
        mine = ("mine", *s.archives, *self._net, "--deep", s.deep, *sizes)
        held_out = s.split
        archives = tuple(word for archive in held_out.archives for word in ("--archive", archive))
        shares = ("--games", f"{held_out.games:g}", "--families", f"{held_out.families:g}")
        split_seed = self._seed if held_out.seed is None else ("--seed", str(held_out.seed))
        first = Stage(
            "mine", (*mine, *self._threshold, *self._alpha, *self._seed, *self._db),
            f"{positions:,} positions, {nodes} each",
            rates.start + rates.read + positions * self._cost["positions"],
            elsewhere=("--cluster", cluster) if cluster else (),
        )  # fmt: skip
        if s.store:
            copy = ("merge", s.store, "-o", self._path(STORE))
            first = Stage("copy", copy, f"{positions:,} positions that were judged", self._reading("copy"), final=STORE)
        return [
            first,
            Stage(
                "split",
                ("split", *self._question, *shares, *archives, *split_seed, "-o", self._path(SPLIT)),
                f"{100 * held_out.games:g} % of the games, {100 * held_out.families:g} % by family",
                self._reading("split"), makes=(SPLIT,),
            ),
        ]  # fmt: skip

    def expansion(self) -> list[Stage]:
        """The positions around the candidates of the part train, for a book that is played."""
        nodes = self._sizes.expand or 0
        return [
            Stage(
                "expand", ("expand", *self._question, *self._split, "--nodes", str(nodes), *self._seed),
                f"{nodes:,} nodes at most", 3 * self._rates.start + nodes * self._cost["expand"],
            )
        ]  # fmt: skip

    def book(self) -> Stage:
        """The book of the part train. Without normal games no other stage reads it: it is for the user."""
        played = ("--expanded", "all", "--order", "shuffled", "--limit", str(self._sizes.book))
        size = (
            f"{self._sizes.book:,} lines at most"
            if self._settings.normal
            else "all candidates, for you; training does not use it"
        )
        options = (*self._question, *self._split, *(played if self._settings.normal else ()))
        words = ("books", *options, "-o", self._path("books"))
        return Stage("books", words, size, self._reading("books"), makes=("books",))

    def games(self) -> list[Stage]:
        """Games from the book, and their mixture with normal ones."""
        s, lines = self._settings, self._sizes.book or 0
        play = ("selfplay", self._path("books/book.pgn"), *self._net, "--nodes", str(s.play.book_nodes), *self._seed)
        files = (
            "--training",
            self._path("repair-chunks"),
            *self._split,
            *self._db,
            "-o",
            self._path("repair-games.pgn"),
        )
        normal = tuple(word for path in s.normal for word in ("--normal", path))
        mix = ("mix", "--repair", self._path("repair-chunks"), *normal, *self._share, *self._seed)
        return [
            Stage(
                "selfplay", (*play, *files), f"{lines:,} games at most",
                self._rates.start + lines * self._cost["book"], makes=("repair-chunks", "repair-games.pgn"),
            ),
            Stage(
                "mix", (*mix, "-o", self._path("mixture")), "repair games and normal ones", self._rates.start,
                makes=("mixture",), final="mixture",
            ),
        ]  # fmt: skip

    def training(self) -> list[Stage]:
        """The repaired net, and the control, which differs by its candidates alone."""
        s, rates, steps = self._settings, self._rates, self._sizes.steps or 0
        options = replace(s.train.options(steps), threshold=s.threshold)
        learned = _learned(s, self._sizes.positions, self._sizes.book)
        judged = min(_MOST_JUDGED, _HELD * learned)
        seconds = rates.compile + 4 * rates.start
        seconds += steps * s.train.batch / rates.train + _JUDGEMENTS * judged / rates.judge
        learning_options = [
            word
            for name in ("only", "steps", "lr", "batch", "warmup", "every", "patience", "amplitude", "threshold")
            if (value := getattr(options, name)) is not None
            for word in (("--set", f"{name}={value}") if name in SETTINGS else (f"--{name}", f"{value}"))
        ]
        common = (*self._net, *learning_options, *self._seed)
        policy = () if options.policy is None else ("--policy", options.policy)
        store = (*self._db, *self._oracle, *self._split, *self._alpha, *policy)
        sources = {REPAIRED: (self._path("mixture"),) if s.normal else store}
        if s.control:
            sources[CONTROL] = s.normal or (*store, "--control")
        content = {REPAIRED: "with candidates", CONTROL: "without candidates"}
        trainings = list[Stage]()
        for net, source in sources.items():
            name = net.removesuffix(".pb.gz")
            trainings.append(Stage(
                name, ("train", *source, *common, "-o", self._path(net)),
                f"{steps:,} steps of {s.train.batch:,}, {content[net]}", seconds, final=net,
                makes=(net, f"{name}.training.json"), leaves=(f"{name}.checkpoint", f"{name}.unchecked.pb.gz"),
            ))  # fmt: skip
        return trainings

    def judgement(self) -> list[Stage]:
        """Comparisons on held-out positions: with the old net, with the control, and by a deeper judge."""
        s, stages = self._settings, list[Stage]()
        old, repaired, control = s.net, self._path(REPAIRED), self._path(CONTROL)
        net_seconds = _HELD_OUT * (self._sizes.positions or 0) / self._rates.net  # a net on all held-out positions
        for part in PARTS:
            nets = (old, repaired, control) if s.control else (old, repaired)
            part_option = ("--part", part)
            stages.append(
                Stage(part, self._compared(nets, part_option), f"held-out {part}, against the old net",
                      self._reading("games") + (len(nets) - 1) * net_seconds, output=f"{part}.json")
            )  # fmt: skip
            if s.control:
                stages.append(
                    Stage(f"{part}-control", self._compared((control, repaired), part_option),
                          f"held-out {part}, against the control", self._reading("games"),
                          output=f"{part}-control.json")
                )  # fmt: skip
        if s.test_deep and self._sizes.rejudge != 0:
            count = self._sizes.rejudge or 0
            options = ("--rejudge", _with_net(s.test_deep, old), "--rejudge-positions", str(count))
            stages.append(
                Stage("rejudge", self._compared((old, repaired), options),
                      f"{count:,} held-out positions, {parse_spec(s.test_deep).limits['nodes']:,} nodes each",
                      self._reading("games") + count * self._cost["rejudge"], output=REJUDGED)
            )  # fmt: skip
        return stages

    def _compared(self, nets: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
        options = (*self._db, *self._oracle, *self._threshold, *self._alpha, *self._split)
        return ("compare", *nets, *options, *more, "--json")

    def matches(self) -> list[Stage]:
        """Matches of the repaired net against the old one, and against the control, with their Q on one scale.

        How steep a net's Q is depends on the positions. So quick matches come first: their positions are like those of
        the matches.
        """
        nodes, games = self._settings.play.match_nodes, self._sizes.games or 0
        quick_nodes, share = _quick_match(self._settings)
        quick_games = min(games, _SCALE_GAMES)
        opponents = {"old": self._settings.net}
        if self._settings.control:
            opponents["control"] = self._path(CONTROL)
        quick, matches = list[Stage](), list[Stage]()
        for name, opponent in opponents.items():
            nets = _escaped(self._path(REPAIRED)), _escaped(opponent)
            sides = [f"net={net},nodes={quick_nodes}" for net in nets]
            size = f"{quantity(quick_nodes, 'node')}, for the scale of Q"
            quick.append(self._match(f"scale-{name}", sides, quick_games, size, share))
            sides = [f"net={net},nodes={nodes},q_scale={scale}" for net, scale in zip(nets, Q_SCALES, strict=True)]
            match = self._match(f"match-{name}", sides, games, f"{nodes:,} nodes", 1.0)
            matches.append(replace(match, scaled_by=quick[-1].output))
        return quick + matches

    def _match(self, name: str, sides: Sequence[str], games: int, nodes: str, part: float) -> Stage:
        """A match. Its games take `part` of the time that as many games at `match_nodes` take."""
        return Stage(
            name, ("match", *sides, "--games", str(games), *self._seed, "-o", self._path(f"{name}.pgn"), "--json"),
            f"{games:,} games at {nodes}", 3 * self._rates.start + part * games * _PLIES / self._rates.moves,
            output=f"{name}.json", makes=(f"{name}.pgn",),
        )  # fmt: skip

    def _path(self, name: str) -> str:
        return str(self._folder / name)

    def _reading(self, name: str) -> float:
        """Seconds of a stage that reads the store."""
        fixed, per_thousand = _STARTS[name]
        return self._rates.start * (fixed + per_thousand * (self._sizes.positions or 0) / 1000)


def _with_net(deep: str, net: str) -> str:
    """The text of a judge; if it searches with a net and names none, with the net that it has in `vr mine`."""
    judge = parse_spec(deep)
    return f"{deep},weights={_escaped(net)}" if judge.kind.takes_net and judge.weights is None else deep


def _escaped(net: str) -> str:
    """A net's name as it is written in the text of a match's side or of a judge."""
    return net.replace(",", "\\,")
