"""The settings of a repair, and repair.toml, their file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from valuerepair.archives.off_game import parse_shares
from valuerepair.chess.origins import Kind
from valuerepair.chess.values import DEFAULT_ALPHA
from valuerepair.engines.kinds import STOCKFISH, default_kind, parse_spec
from valuerepair.errors import UsageError, check_least, nearest, one_line
from valuerepair.files import read_toml, written_whole
from valuerepair.nets.registry import DEFAULT_NET
from valuerepair.question import DEFAULT_THRESHOLD, Question
from valuerepair.training.options import Only, TrainOptions

FILE = "repair.toml"
BUDGET = "1h"
# The recipe, by measurements (docs/results.md). A position in training gets a fiftieth of the nodes with which
# `vr mine` judges a candidate, as more positions help more.
# The test judge is deeper, and no net has learned its errors.
STOCKFISH_NODES, TEST_NODES = 20_000, 1_000_000
FEWEST_REJUDGED = 100  # as in `vr compare --rejudge`
TEST_FACTOR = 10  # the factor for judges that have a Q of their own, which are slower
OFF_GAME = "0.5"  # the share of positions beside the games, as in `vr mine --off-game`
POLICY = "judge:0.3"  # the policy target, as in `vr train --policy`
AMPLITUDE = 0.5  # the best on held-out games of the same archives was too much for other games and for play

_DURATION = re.compile(r"(?=.)(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")


def _setting(default: Any, comment: str) -> Any:
    """A field with this default; the comment stands beside it in repair.toml."""
    return field(default=default, metadata={"comment": comment})


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes of the stages: `positions` to mine; engine nodes to `expand` and lines of the `book`, if games are
    played from it; `steps` of a training; held-out positions to `rejudge`, 0 for none; `games` of a match. The budget
    decides a size that is None."""

    positions: int | None = _setting(None, "drawn from the archives and judged")
    expand: int | None = _setting(None, "engine nodes for positions around the candidates")
    book: int | None = _setting(None, "lines of the book that is played")
    steps: int | None = _setting(None, "training steps")
    rejudge: int | None = _setting(
        None, f"held-out positions that test_deep judges; 0 for none, else at least {FEWEST_REJUDGED}"
    )
    games: int | None = _setting(None, "games of a match")

    def __post_init__(self) -> None:
        for size in fields(self):
            check_least(f"[sizes] {size.name} =", getattr(self, size.name), int(size.name != "rejudge"))
        if self.rejudge and self.rejudge < FEWEST_REJUDGED:
            raise UsageError(f"[sizes] rejudge = {self.rejudge}: must be 0, or at least {FEWEST_REJUDGED}")
        if self.games is not None and self.games % 2:
            raise UsageError(f"[sizes] games = {self.games}: must be even, as each opening is played with both colours")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mining:
    """How positions are mined: `off_game` is their share beside the games, "" for none, or the share of each kind."""

    off_game: str = _setting(OFF_GAME, "share of the positions that lie beside the games, or of each kind")

    def __post_init__(self) -> None:
        try:
            self.shares()
        except UsageError as error:
            raise UsageError(f"[mine] {str(error).removeprefix('--')}") from None

    def shares(self) -> dict[Kind, float]:
        """The share of each kind of position beside the games."""
        return parse_shares(self.off_game) if self.off_game else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutShares:
    """The positions held out from training: shares of games and of families, and whole archives. `seed` draws games
    and families; None: the seed of all other draws."""

    games: float = _setting(0.15, "share of the games to hold out")
    families: float = _setting(0.10, "share of the positions to hold out by family")
    archives: tuple[str, ...] = _setting((), "archives to hold out whole")
    seed: int | None = _setting(None, "that of the repair that made the net, so that the same games are held out")

    def __post_init__(self) -> None:
        check_least("[split] seed =", self.seed, 0)
        for name, share in (("games", self.games), ("families", self.families)):
            if not 0 < share < 1:
                raise UsageError(f"[split] {name} = {share:g}: must lie between 0 and 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSettings:
    """How a net is trained. `policy` is the target of the policy head if it learns from the store, "net" for the old
    policy alone. `share` is the share of repair games among normal ones, by default (None) that of `vr mix`.
    `amplitude` is the part of the change that is written; None (no line in the file) is the best on held-out games."""

    policy: str = _setting(POLICY, "the policy target: net, or a share of the judge's moves")
    share: float | None = _setting(None, "with normal games, the share of repair games")
    only: Only = field(default="all", metadata={"comment": "all, heads or value"})
    amplitude: float | None = _setting(
        AMPLITUDE, "the part of the change that is written; without this line, the best on held-out games"
    )
    batch: int = TrainOptions().batch
    lr: float = TrainOptions().lr

    def __post_init__(self) -> None:
        try:
            self.options(1)
        except UsageError as error:
            raise UsageError(f"[train] {str(error).removeprefix('--').removeprefix('set ')}") from None

    def options(self, steps: int) -> TrainOptions:
        """Options for a training of `steps` that does not end early; the best step on held-out games is kept."""
        return TrainOptions(
            policy=None if self.only == "value" else self.policy,
            only=self.only,
            amplitude=self.amplitude,
            batch=self.batch,
            lr=self.lr,
            steps=steps,
            every=max(1, steps // 5),
            patience=0,
        ).planned(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Playing:
    """How our own search plays games: nodes of a move in matches, and in games from the book."""

    match_nodes: int = _setting(100, "nodes per move in the matches")
    book_nodes: int = _setting(200, "nodes per move in the games from the book")

    def __post_init__(self) -> None:
        for setting in fields(self):
            check_least(f"[play] {setting.name} =", getattr(self, setting.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a repair. It mines `archives`, or begins with a copy of `store`; `oracle` is the beginning of the
    digest of the store's judge ("": the one with most positions). `deep` judges all positions, `test_deep` judges a
    part of the held-out ones again, "" for none. `control`: also train a net without candidates and compare it.
    `normal` are training chunks of ordinary games; without them it learns from the store alone. Raises UsageError, in
    the words of repair.toml, for invalid settings."""

    archives: tuple[str, ...] = _setting((), "the archives to mine")
    store: str = _setting("", "a store that is already mined; it is copied")
    oracle: str = _setting("", "its judge, the beginning of the digest")
    net: str = _setting(DEFAULT_NET, "the net to repair")
    deep: str = _setting(f"{STOCKFISH}:nodes={STOCKFISH_NODES}", "the judge: the deep search, as in vr mine")
    test_deep: str = _setting(
        f"{STOCKFISH}:nodes={TEST_NODES}", 'a deeper judge for some held-out positions; "" for none'
    )
    threshold: float = _setting(DEFAULT_THRESHOLD, "|net Q - deep Q| of a candidate")
    alpha: float = _setting(DEFAULT_ALPHA, "centipawns of the judge's Q, of candidates and targets")
    seed: int = _setting(0, "of all draws; another one draws other positions")
    budget: str = _setting(BUDGET, "time for all stages, estimated by the rates of this machine (rates.json)")
    control: bool = _setting(False, "whether a second net is trained without candidates")
    normal: tuple[str, ...] = _setting(
        (), "training chunks of ordinary games; without them, the nets learn from the store alone"
    )
    sizes: Sizes = field(default_factory=Sizes)
    mine: Mining = field(default_factory=Mining)
    split: HeldOutShares = field(default_factory=HeldOutShares)
    train: TrainSettings = field(default_factory=TrainSettings)
    play: Playing = field(default_factory=Playing)

    def __post_init__(self) -> None:
        if not self.archives and not self.store:
            raise UsageError("archives = []: which games are to be mined?")
        if self.archives and self.store:
            raise UsageError("--store: is a store that is already mined; give archives or a store, not both")
        if dashed := [
            name for name in (*self.archives, self.store, *self.normal) if name.startswith("-") and name != "-"
        ]:
            raise UsageError(f"{dashed[0]}: would be taken for an option; write ./{dashed[0]}")
        for option, text in (("--deep", self.deep), ("test_deep", self.test_deep)):
            _check_judge(option, text)
        Question(threshold=self.threshold)
        if not 0 < self.alpha < float("inf"):
            raise UsageError(f"alpha = {self.alpha:g}: must be a positive number of centipawns")
        TrainOptions(seed=self.seed)
        seconds_of(self.budget)
        if self.normal and self.train.share is not None and self.train.share >= 1:
            raise UsageError(f"[train] share = {self.train.share:g}: must be below 1 with normal games")

    @property
    def by_centipawns(self) -> bool:
        """Whether the judge gives centipawns, which alpha converts to Q, instead of a Q of its own."""
        return not parse_spec(self.deep).kind.own_q


def _check_judge(option: str, text: str) -> None:
    """Raises UsageError for a judge without a number of nodes, which determines the sizes; `test_deep` may be empty."""
    if not text and option == "test_deep":
        return
    try:
        judge = parse_spec(text)
    except UsageError as error:
        raise UsageError(f"{option}{str(error).removeprefix('--deep')}") from None
    if not judge.kind.searches:
        raise UsageError(f"{option} {judge.kind}: does not search; give a judge that does")
    if "nodes" not in judge.limits:
        raise UsageError(f"{option} {text}: give nodes=N, which determines the sizes")


def default_deep() -> str:
    """The text of the judge that is available on this machine."""
    kind = default_kind()
    nodes = STOCKFISH_NODES if kind is STOCKFISH else kind.default_nodes
    return f"{kind}:nodes={nodes}"


def default_test_deep(deep: str) -> str:
    """The same judge as `deep`, at the nodes of tests; "" if it has these already, or has no number of nodes."""
    judge = parse_spec(deep)
    if (nodes := judge.limits.get("nodes")) is None:
        return ""
    deeper = TEST_FACTOR * nodes if judge.kind.own_q else TEST_NODES
    if nodes >= deeper:
        return ""
    return replace(judge, limits={**judge.limits, "nodes": deeper}).text


def seconds_of(budget: str) -> float:
    """The seconds of a budget: ``1h``, ``90m``, ``1h30m`` or ``45s``. Raises UsageError."""
    match = _DURATION.fullmatch(budget)
    parts = match.groups() if match else ("0", "0", "0")
    seconds = sum(float(part or 0) * unit for part, unit in zip(parts, (3600, 60, 1), strict=True))
    if not 0 < seconds < float("inf"):
        raise UsageError(f"--budget {budget}: give a time as 1h, 90m or 1h30m")
    return seconds


# -- repair.toml ------------------------------------------------------------------------------------------------------

_TABLES: Mapping[str, Any] = {
    table.name: table.default_factory for table in fields(Settings) if is_dataclass(table.default_factory)
}
_OLD_SIZES = {"confirm"}  # in folders of another version
_EITHER = ("archives", "store")
_OMITTED = (*_EITHER, "oracle")  # from the file, where they are empty


def write(settings: Settings, path: Path) -> None:
    """Writes repair.toml, whole or not at all."""
    lines = [
        "# The settings of a repair (vr repair). They take precedence over the command line. If one",
        "# is changed, its stage runs again, and all stages that depend on it.",
    ]
    for setting in fields(settings):
        value = getattr(settings, setting.name)
        if setting.name not in _TABLES:
            if setting.name not in _OMITTED or value:
                lines.append(_line(setting, value))
            continue
        lines += ["", f"[{setting.name}]"]
        if setting.name == "sizes":
            lines.append("# Derived from the budget; if a line is removed, its size is derived again.")
        cells = ((row, getattr(value, row.name)) for row in fields(value))
        lines += [_line(row, cell) for row, cell in cells if cell is not None]
    try:
        content = ("\n".join(lines) + "\n").encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"{path}: a file's name in it is not UTF-8; rename the archive, the net or the chunks"
        ) from None
    with written_whole(path) as partial:
        partial.write_bytes(content)


def _line(setting: Field[Any], value: Any) -> str:
    # JSON texts, numbers and lists of them are valid TOML, except for one control character that JSON does not escape.
    encoded = json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False).replace(
        "\x7f", "\\u007f"
    )
    text = f"{setting.name} = {encoded}"
    return f"{text:<32}  # {setting.metadata['comment']}" if setting.metadata else text


def read(path: Path) -> Settings:
    """The settings of a file. Raises UsageError, one line, which names the file and the place."""
    tables = read_toml(path)
    if isinstance(sizes := tables.get("sizes"), dict) and _OLD_SIZES & sizes.keys():
        raise UsageError(
            f"{path}: an older version of vr repair began this folder; give another by -o, or begin with what was "
            f"mined in it: vr repair --store {path.parent / 'store.db'} -o ANOTHER"
        )
    try:
        for name, kind in _TABLES.items():
            _check_names(kind, tables.get(name, {}), f"[{name}]")
        _check_names(Settings, tables, "")
        if not tables.keys() & set(_EITHER):
            raise UsageError("archives: is missing; which games are to be mined?")
        # Without the line it is None: `write` omits it then, and folders of older versions have none.
        tables = {"deep": default_deep(), **tables, "train": {"amplitude": None, **tables.get("train", {})}}
        if "test_deep" not in tables and isinstance(tables["deep"], str):
            tables["test_deep"] = default_test_deep(tables["deep"])
        return msgspec.convert(tables, Settings)
    except (UsageError, msgspec.ValidationError) as error:
        raise UsageError(f"{path}: {one_line(error)}") from None


def _check_names(kind: type[Any], table: Any, where: str) -> None:
    """Raises UsageError for names that a table does not have."""
    if not isinstance(table, dict):
        raise UsageError(f"{where}: must be a table")
    names = [setting.name for setting in fields(kind)]
    for name in table:
        if name not in names:
            raise UsageError(f"{where} {name}: no such setting{nearest(name, names)}".lstrip())


def differing(given: Mapping[str, Any], settings: Settings) -> list[str]:
    """The differences of a command line from repair.toml, in words, one line each."""
    return [
        f"{FILE} says {name} = {json.dumps(getattr(settings, name))}, which takes precedence; edit it there"
        for name, value in given.items()
        if value != getattr(settings, name)
    ]
