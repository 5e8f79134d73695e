"""What a repair consists of: its stages as command lines, how much of each the budget allows, how long each takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from valuerepair.chess.progress import format_duration
from valuerepair.engines.kinds import parse_spec
from valuerepair.errors import UsageError
from valuerepair.pipeline.rates import Rates
from valuerepair.pipeline.settings import FEWEST_REJUDGED, Mining, Settings, Sizes, seconds_of
from valuerepair.training.options import PASSES, SETTINGS, SHARE_OF_GAMES

STORE, SPLIT = "store.db", "split.json"
REPAIRED, CONTROL = "repaired.pb.gz", "control.pb.gz"
REJUDGED, PAGE = "rejudged.json", "report.html"
PARTS = ("games", "families")
# Stand in the words of a match for the numbers that its nets' Q is multiplied by: see `run.q_scales`.
Q_SCALES = ("Q_SCALE", "OTHER_Q_SCALE")

# Of the time that can be given to work, and what brings no more: see `_most`. Only a book that is played has stages
# that look around candidates: nets that learned what lies there were no better judges, or worse (docs/proof.md).
_SHARES = {"positions": 50, "steps": 24, "rejudge": 8, "games": 18}
_SHARES_NORMAL = {"positions": 30, "expand": 8, "book": 22, "steps": 18, "rejudge": 6, "games": 16}
_LEAST = {"positions": 500, "expand": 20_000, "book": 20, "steps": 20, "games": 10}
_MOST = {"book": 2_000, "rejudge": 2_000, "games": 2_000}
_TRAINED = 0.6  # of the positions, after those kept to judge by and the neighbours of these
_TO_FIND = {"policy": 1, "search": 15}  # evaluations: of the position before, of half of a search of 30 nodes
_HELD_OUT = 0.3  # of the positions, at most
_MOST_JUDGED, _HELD = 8192, 0.1  # positions that training is judged by
_JUDGEMENTS = 2 + 5 + 15  # the old net, on the way, and of the amplitude step
_PLIES, _BOOK_PLIES = 120, 90  # of a game; some more than there are, as few games are played at once in the end
# Of what reads the store: how often as long as a command takes to start, anyway and for a thousand positions.
_STARTS = {"copy": (1.0, 0.1), "split": (1.0, 0.01), "books": (1.0, 0.08), "games": (1.5, 0.08)}


class TooLittleTime(UsageError):
    """A budget that is too small, and how many seconds it takes at the least."""

    def __init__(self, budget: str, seconds: float) -> None:
        super().__init__(
            f"--budget {budget}: is too little; with this net and this judge it takes about "
            f"{format_duration(seconds)} at the least"
        )
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class Stage:
    """A command of `vr`: its `words`, what it works on in words (`size`), and how long that takes (s).

    `output` is the file that gets its standard output. `makes` are its other files and folders, all there once it is
    done; `whole` the one of them that is there only then. `leaves` is what it has besides while it is unfinished. None
    of these can be there when it is begun anew. `elsewhere` are words that say where it runs, and change nothing of the
    result. `scaled_by` is the comparison of nets that says which numbers `Q_SCALES` stand for.
    """

    name: str
    words: tuple[str, ...]
    size: str
    seconds: float
    output: str = ""
    makes: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    whole: str = ""
    elsewhere: tuple[str, ...] = ()
    scaled_by: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """The stages of a repair in their order, with settings in which every size is a number."""

    settings: Settings
    stages: tuple[Stage, ...]

    @property
    def seconds(self) -> float:
        """Of all stages."""
        return sum(stage.seconds for stage in self.stages)


def plan(settings: Settings, rates: Rates, folder: Path, cluster: str | None = None) -> Plan:
    """What is to be run, in `folder`, by these rates. Raises TooLittleTime for a budget that is too small."""
    chosen = replace(settings, sizes=sizes(settings, rates))
    return Plan(chosen, stages(chosen, rates, folder, cluster))


# -- how much ---------------------------------------------------------------------------------------------------------


def sizes(settings: Settings, rates: Rates) -> Sizes:
    """The sizes that the settings give, and for the others what the budget allows.

    Each gets its share of the time that is left once what goes by anyway is taken off, and those before it have what
    they need: so what one has no use for goes to the next. Raises TooLittleTime for a budget that is too small.
    """
    shares, cost = dict(_SHARES_NORMAL if settings.normal else _SHARES), _costs(settings, rates)
    if not settings.test_deep:
        del shares["rejudge"]
    found: dict[str, int | None] = {name: getattr(settings.sizes, name) for name in shares}
    mining, after = _overhead(settings, rates)
    fixed = mining + after
    if settings.store:
        found["positions"] = rates.positions
    if settings.normal:
        # Of a mixture of more than some hundred games as many positions are judged by, however many there are.
        many, more = (_overhead(settings, rates, book=book)[1] for book in (1001, 2001))
        cost["book"] = (more - many) / 1000
        fixed += many - after - 1000 * cost["book"]
    cost["positions"] += (_overhead(settings, rates, positions=1001)[1] - after) / 1000
    left = seconds_of(settings.budget) - fixed - sum((size or 0) * cost[name] for name, size in found.items())
    lacking = [name for name in shares if found[name] is None]
    for at, name in enumerate(lacking):
        most = int(_most(name, settings, rates, found))
        part = max(left, 0.0) * shares[name] / sum(shares[each] for each in lacking[at:])
        size = min(int(part / cost[name]), most)
        if name == "rejudge":
            size = size if size >= FEWEST_REJUDGED else 0
        elif size < min(_LEAST[name], most):
            whole = sum(shares.values())
            given = sum((getattr(settings.sizes, each) or 0) * cost[each] for each in shares)
            least = fixed + given + max(_LEAST.get(each, 0) * cost[each] * whole / shares[each] for each in lacking)
            raise TooLittleTime(settings.budget, least)
        found[name] = size = _round(size) // 2 * 2 if name == "games" else _round(size)
        left -= size * cost[name]
    return Sizes(**found)


def _round(size: int) -> int:
    """Down to two digits, which are enough for a guess."""
    unit: int = 10 ** max(0, len(str(size)) - 2)
    return size // unit * unit


def _most(name: str, settings: Settings, rates: Rates, found: Mapping[str, int | None]) -> float:
    """The size beyond which more brings nothing."""
    if name == "positions":
        return rates.positions
    positions = found["positions"] or rates.positions
    if name == "steps":
        return max(PASSES * _learned(settings, positions, found.get("book")) / settings.train.batch, _LEAST["steps"])
    if name == "expand":
        return max(positions * rates.nodes / rates.searches, _LEAST["expand"])
    if name == "rejudge":
        return min(_HELD_OUT * positions, _MOST["rejudge"])
    return _MOST[name]


def _learned(settings: Settings, positions: int | None, book: int | None) -> float:
    """How many positions the repaired net learns from, about: those of the store, or those of a mixture of games."""
    if settings.normal:
        return (book or 0) * _BOOK_PLIES / (settings.train.share or SHARE_OF_GAMES)
    return _TRAINED * (positions or 0)


def _costs(settings: Settings, rates: Rates) -> dict[str, float]:
    """Seconds for one of each; of steps and games for one of each net that is trained."""
    nets = 2 if settings.control else 1
    return {
        "positions": 0.0 if settings.store else 1 / rates.searches + _evaluated(settings.mine) / rates.net,
        "expand": 1.1 / rates.nodes,  # neighbours are evaluated by the net before they are searched
        "rejudge": parse_spec(settings.test_deep).limits["nodes"] / rates.nodes if settings.test_deep else 0.0,
        "book": _BOOK_PLIES * settings.play.book_nodes / settings.play.match_nodes / rates.moves,
        "steps": nets * settings.train.batch / rates.train,
        "games": nets * _PLIES / rates.moves,
    }


def _evaluated(mining: Mining) -> float:
    """How many positions the net evaluates for each that is mined: itself, and what leads to it beside a game."""
    return 1 + sum(_TO_FIND.get(kind, 0) * share for kind, share in mining.shares().items())


def _overhead(settings: Settings, rates: Rates, *, positions: int = 1, book: int = 1) -> tuple[float, float]:
    """Seconds that go by with so many positions and lines, and next to nothing of all else: to mine, and after that."""
    chosen = Sizes(positions=positions, expand=1, book=book, steps=1, games=2)
    mine, *others = stages(replace(settings, sizes=chosen), rates, Path(), None)
    return mine.seconds, sum(stage.seconds for stage in others)


# -- what -------------------------------------------------------------------------------------------------------------


def stages(settings: Settings, rates: Rates, folder: Path, cluster: str | None) -> tuple[Stage, ...]:
    """All stages, whose sizes are numbers."""
    made = _Stages(settings, rates, folder)
    found = [*made.of_store(cluster), *(made.around() if settings.normal else []), made.of_book()]
    if settings.normal:
        found += made.of_games()
    return (*found, *made.of_training(), *made.of_judgement(), *made.of_matches())


class _Stages:
    """The command lines, all of one folder."""

    def __init__(self, settings: Settings, rates: Rates, folder: Path) -> None:
        self._settings, self._rates, self._folder = settings, rates, folder
        self._sizes, self._cost = settings.sizes, _costs(settings, rates)
        self._db = ("--db", self._at(STORE))
        self._asked = ("--threshold", f"{settings.threshold:g}")
        self._alpha = ("--alpha", f"{settings.alpha:g}") if settings.by_centipawns else ()
        self._seed = ("--seed", str(settings.seed))
        self._split = ("--split", self._at(SPLIT))
        self._net = ("--net", settings.net)
        self._of_store = (*self._db, *self._net, *self._asked, *self._alpha)
        share = settings.train.share
        self._share = () if share is None else ("--share", f"{share:g}")

    def of_store(self, cluster: str | None) -> list[Stage]:
        """From the archives to a store with a split."""
        s, rates, positions = self._settings, self._rates, self._sizes.positions or 0
        nodes = f"{parse_spec(s.deep).limits['nodes']:,} nodes"
        aside = ("--aside", s.mine.aside) if s.mine.aside else ()
        sizes = ("--positions", str(positions), *aside, "--screen", "off")
        mine = ("mine", *s.archives, *self._net, "--deep", s.deep, *sizes)
        kept = s.split
        archives = tuple(word for each in kept.archives for word in ("--archive", each))
        shares = ("--games", f"{kept.games:g}", "--families", f"{kept.families:g}")
        first = Stage(
            "mine", (*mine, *self._asked, *self._alpha, *self._seed, *self._db),
            f"{positions:,} positions, {nodes} each",
            rates.start + rates.read + positions * self._cost["positions"],
            elsewhere=("--cluster", cluster) if cluster else (),
        )  # fmt: skip
        if s.store:
            copy = ("store", "merge", s.store, "-o", self._at(STORE))
            first = Stage("copy", copy, f"{positions:,} positions that were judged", self._reading("copy"), whole=STORE)
        return [
            first,
            Stage(
                "split",
                ("split", *self._of_store, *shares, *archives, *self._seed, "-o", self._at(SPLIT)),
                f"{100 * kept.games:g} % of the games, {100 * kept.families:g} % by family", self._reading("split"),
                makes=(SPLIT,),
            ),
        ]  # fmt: skip

    def around(self) -> list[Stage]:
        """What lies around the candidates of the part train, for a book that is played."""
        nodes = self._sizes.expand or 0
        return [
            Stage(
                "expand", ("expand", *self._of_store, *self._split, "--nodes", str(nodes), *self._seed),
                f"{nodes:,} nodes at most", 3 * self._rates.start + nodes * self._cost["expand"],
            )
        ]  # fmt: skip

    def of_book(self) -> Stage:
        """The book of the part train. Without games to mix with it is for the user: no other stage reads it."""
        played = ("--expanded", "all", "--order", "shuffled", "--limit", str(self._sizes.book))
        said = (
            f"{self._sizes.book:,} lines at most"
            if self._settings.normal
            else "all candidates; for you, no stage reads it"
        )
        asked = (*self._of_store, *self._split, *(played if self._settings.normal else ()))
        words = ("books", *asked, "-o", self._at("books"))
        return Stage("books", words, said, self._reading("books"), makes=("books",))

    def of_games(self) -> list[Stage]:
        """Games from the book, and their mixture with normal ones."""
        s, lines = self._settings, self._sizes.book or 0
        play = ("selfplay", self._at("books/book.pgn"), *self._net, "--nodes", str(s.play.book_nodes), *self._seed)
        files = ("--training", self._at("repair-chunks"), *self._split, *self._db, "-o", self._at("repair-games.pgn"))
        normal = tuple(word for each in s.normal for word in ("--normal", each))
        mix = ("mix", "--repair", self._at("repair-chunks"), *normal, *self._share, *self._seed)
        return [
            Stage(
                "selfplay", (*play, *files), f"{lines:,} games at most",
                self._rates.start + lines * self._cost["book"], makes=("repair-chunks", "repair-games.pgn"),
            ),
            Stage(
                "mix", (*mix, "-o", self._at("mixture")), "repair games and normal ones", self._rates.start,
                makes=("mixture",), whole="mixture",
            ),
        ]  # fmt: skip

    def of_training(self) -> list[Stage]:
        """The repaired net, and the control, which differs by its candidates alone."""
        s, rates, steps = self._settings, self._rates, self._sizes.steps or 0
        options = s.train.options(steps)
        learned = _learned(s, self._sizes.positions, self._sizes.book)
        held = min(_MOST_JUDGED, _HELD * learned)
        kept = learned / rates.net if options.only == "value" else 0  # what the value head is given, computed once
        seconds = rates.compile + 4 * rates.start + kept
        seconds += steps * s.train.batch / rates.train + _JUDGEMENTS * held / rates.judge
        how = [
            word
            for name in ("only", "steps", "lr", "batch", "warmup", "every", "patience")
            for word in (
                ("--set", f"{name}={getattr(options, name)}")
                if name in SETTINGS
                else (f"--{name}", f"{getattr(options, name)}")
            )
        ]
        common = (*self._net, *self._asked, *how, *self._seed)
        policy = () if options.policy is None else ("--policy", options.policy)
        store = ("--store", self._at(STORE), *self._split, *self._alpha, *policy)
        sources = {REPAIRED: (self._at("mixture"),) if s.normal else (*store, *self._share)}
        if s.control:
            sources[CONTROL] = s.normal if s.normal else (*store, "--share", "0")
        said = {REPAIRED: "with candidates", CONTROL: "without candidates"}
        return [
            Stage(
                name, ("train", *source, *common, "-o", self._at(net)),
                f"{steps:,} steps of {s.train.batch:,}, {said[net]}", seconds, whole=net,
                makes=(net, f"{name}.training.json"), leaves=(f"{name}.checkpoint", f"{name}.unchecked.pb.gz"),
            )
            for net, source in sources.items() for name in (net.removesuffix(".pb.gz"),)
        ]  # fmt: skip

    def of_judgement(self) -> list[Stage]:
        """Nets on what was kept: against the old one, then, of two, one against the other; and a deeper judge."""
        s, found = self._settings, list[Stage]()
        old, repaired, control = s.net, self._at(REPAIRED), self._at(CONTROL)
        new = _HELD_OUT * (self._sizes.positions or 0) / self._rates.net  # the values of a net on all that is held out
        for part in PARTS:
            nets = (old, repaired, control) if s.control else (old, repaired)
            held = ("--part", part)
            found.append(
                Stage(part, self._remeasured(nets, held), f"held-out {part}, against the old net",
                      self._reading("games") + (len(nets) - 1) * new, output=f"{part}.json")
            )  # fmt: skip
            if s.control:
                found.append(
                    Stage(f"{part}-control", self._remeasured((control, repaired), held),
                          f"held-out {part}, against the control", self._reading("games"),
                          output=f"{part}-control.json")
                )  # fmt: skip
        if s.test_deep and self._sizes.rejudge != 0:
            count = self._sizes.rejudge or 0
            again = ("--rejudge", _with_net(s.test_deep, old), "--rejudge-positions", str(count))
            found.append(
                Stage("rejudge", self._remeasured((old, repaired), again),
                      f"{count:,} held-out positions, {parse_spec(s.test_deep).limits['nodes']:,} nodes each",
                      self._reading("games") + count * self._cost["rejudge"], output=REJUDGED)
            )  # fmt: skip
        return found

    def _remeasured(self, nets: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
        asked = (*self._db, *self._asked, *self._alpha, *self._split)
        return ("remeasure", *(word for net in nets for word in ("--net", net)), *asked, *more, "--json")

    def of_matches(self) -> list[Stage]:
        """Of the repaired net against the old one, and against the control, with its Q on their scale."""
        nodes, games = self._settings.play.match_nodes, self._sizes.games or 0
        others = [("match-old", self._settings.net, PARTS[0])]
        if self._settings.control:
            others.append(("match-control", self._at(CONTROL), f"{PARTS[0]}-control"))
        found = []
        for match, other, compared in others:
            sides = tuple(
                f"net={_side(net)},nodes={nodes},q_scale={scale}"
                for net, scale in zip((self._at(REPAIRED), other), Q_SCALES, strict=True)
            )
            words = ("match", *sides, "--games", str(games), *self._seed, "-o", self._at(f"{match}.pgn"), "--json")
            found.append(
                Stage(match, words, f"{games:,} games at {nodes:,} nodes",
                      3 * self._rates.start + games * _PLIES / self._rates.moves,
                      output=f"{match}.json", makes=(f"{match}.pgn",), scaled_by=f"{compared}.json")
            )  # fmt: skip
        return found

    def _at(self, name: str) -> str:
        return str(self._folder / name)

    def _reading(self, name: str) -> float:
        """Seconds of a stage that reads the store."""
        anyway, of_thousand = _STARTS[name]
        return self._rates.start * (anyway + of_thousand * (self._sizes.positions or 0) / 1000)


def _with_net(deep: str, net: str) -> str:
    """The text of a judge that searches with a net, with the net that it would have in `vr mine`."""
    judge = parse_spec(deep)
    return f"{deep},weights={_side(net)}" if judge.kind.takes_net and judge.weights is None else deep


def _side(net: str) -> str:
    """A net's name in the text of a match's side, or of a judge."""
    return net.replace(",", "\\,")
