"""The settings of a repair, and repair.toml, their file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from valuerepair.archives.off_game import parse_shares
from valuerepair.chess.values import DEFAULT_ALPHA
from valuerepair.engines.kinds import STOCKFISH, default_kind, parse_spec
from valuerepair.errors import UsageError, check_least, nearest, one_line
from valuerepair.files import read_toml, written_whole
from valuerepair.nets.registry import DEFAULT_NET
from valuerepair.question import DEFAULT_THRESHOLD, Question
from valuerepair.training.options import Only, TrainOptions

FILE = "repair.toml"
POSITIONS = 50_000  # about an hour on two cores
# The other sizes in proportion to the positions: the hour of the README had 1,200 steps, 1,300 positions judged again
# and 660 games.
_STEPS, _REJUDGED, _GAMES = 0.024, 0.026, 0.0132
# The recipe, by measurements (docs/results.md). A position in training gets a fiftieth of the nodes with which
# `vr mine` judges a candidate, as more positions help more. The test judge is deeper; no net has learned its errors.
STOCKFISH_NODES, TEST_NODES = 20_000, 1_000_000
FEWEST_REJUDGED = 100  # as few as give intervals
TEST_FACTOR = 10  # the factor for judges that have a Q of their own, which are slower
OFF_GAME = "0.5"  # the share of positions beside the games, as in `vr mine --off-game`
POLICY = "judge:0.3"  # the policy target, as in `vr train --policy`
AMPLITUDE = 0.5  # the best on held-out games of the same archives was too much for other games and for play


def _setting(default: Any, comment: str) -> Any:
    """A field with this default; the comment stands beside it in repair.toml."""
    return field(default=default, metadata={"comment": comment})


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes of the stages: `positions` to mine, `steps` of a training, held-out positions to `rejudge` (0 for
    none), `games` of a match."""

    positions: int = _setting(POSITIONS, "drawn from the archives and judged")
    steps: int = _setting(round(_STEPS * POSITIONS), "training steps")
    rejudge: int = _setting(
        round(_REJUDGED * POSITIONS),
        f"held-out positions that test_deep judges; 0 for none, else at least {FEWEST_REJUDGED}",
    )
    games: int = _setting(round(_GAMES * POSITIONS), "games of a match")

    def __post_init__(self) -> None:
        for size in fields(self):
            check_least(f"[sizes] {size.name} =", getattr(self, size.name), int(size.name != "rejudge"))
        if self.rejudge and self.rejudge < FEWEST_REJUDGED:
            raise UsageError(f"[sizes] rejudge = {self.rejudge}: must be 0, or at least {FEWEST_REJUDGED}")
        if self.games % 2:
            raise UsageError(f"[sizes] games = {self.games}: must be even, as each opening is played with both colours")

    @staticmethod
    def of(positions: int) -> Sizes:
        """All sizes for so many positions, by the ratios of the defaults."""
        check_least("--positions", positions)
        rejudge = round(_REJUDGED * positions)
        return Sizes(
            positions=positions,
            steps=max(1, round(_STEPS * positions)),
            rejudge=rejudge if rejudge >= FEWEST_REJUDGED else 0,
            games=2 * max(1, round(_GAMES * positions / 2)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutShares:
    """The positions held out from training: shares of games and of families. Repairs with the same `seed` hold out the
    same games, whatever positions they draw: so a second round judges by games that neither round learned from."""

    games: float = _setting(0.15, "share of the games to hold out")
    families: float = _setting(0.10, "share of the positions to hold out by family")
    seed: int = _setting(0, "of the games and families; the same in a second round")

    def __post_init__(self) -> None:
        check_least("[split] seed =", self.seed, 0)
        for name, share in (("games", self.games), ("families", self.families)):
            if not 0 < share < 1:
                raise UsageError(f"[split] {name} = {share:g}: must lie between 0 and 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSettings:
    """How a net is trained. `policy` is the target of the policy head, "net" for the old policy alone. `amplitude` is
    the part of the change that is written; None (no line in the file) is the best on held-out games."""

    policy: str = _setting(POLICY, "the policy target: net, or a share of the judge's moves")
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
class Settings:
    """The settings of a repair. It mines `archives`, or begins with a copy of the store `db`; `judge` is the beginning
    of the digest of that store's judge ("": the one in use). `deep` judges all positions, `test_deep`
    judges a part of the held-out ones again, "" for none. `off_game` is the share of the positions beside the games, ""
    for none, or the share of each kind. `control`: also train a net without candidates and compare it. Raises
    UsageError, in the words of repair.toml, for invalid settings."""

    archives: tuple[str, ...] = _setting((), "the archives to mine")
    db: str = _setting("", "a store that is already mined; it is copied")
    judge: str = _setting("", "its judge, the beginning of the digest")
    net: str = _setting(DEFAULT_NET, "the net to repair")
    deep: str = _setting(f"{STOCKFISH}:nodes={STOCKFISH_NODES}", "the judge: the deep search, as in vr mine")
    test_deep: str = _setting(
        f"{STOCKFISH}:nodes={TEST_NODES}", 'a deeper judge for some held-out positions; "" for none'
    )
    off_game: str = _setting(OFF_GAME, "share of the positions that lie beside the games, or of each kind")
    threshold: float = _setting(DEFAULT_THRESHOLD, "|net Q - deep Q| of a candidate")
    alpha: float = _setting(DEFAULT_ALPHA, "centipawns of the judge's Q, of candidates and targets")
    seed: int = _setting(0, "of all draws but the split's; another one draws other positions")
    control: bool = _setting(False, "whether a second net is trained without candidates")
    match_nodes: int = _setting(100, "nodes per move in the matches")
    sizes: Sizes = field(default_factory=Sizes)
    split: HeldOutShares = field(default_factory=HeldOutShares)
    train: TrainSettings = field(default_factory=TrainSettings)

    def __post_init__(self) -> None:
        if not self.archives and not self.db:
            raise UsageError("archives = []: which games are to be mined?")
        if self.archives and self.db:
            raise UsageError("--db: is a store that is already mined; give archives or a store, not both")
        if dashed := [name for name in (*self.archives, self.db) if name.startswith("-")]:
            raise UsageError(f"{dashed[0]}: give a file or folder; a name that begins so is written ./{dashed[0]}")
        for option, text in (("--deep", self.deep), ("test_deep", self.test_deep)):
            _check_judge(option, text)
        if self.off_game:
            try:
                parse_shares(self.off_game)
            except UsageError as error:
                raise UsageError(f"off_game: {error}") from None
        Question(threshold=self.threshold)
        if not 0 < self.alpha < float("inf"):
            raise UsageError(f"alpha = {self.alpha:g}: must be a positive number of centipawns")
        check_least("match_nodes =", self.match_nodes)
        TrainOptions(seed=self.seed)

    @property
    def by_centipawns(self) -> bool:
        """Whether the judge gives centipawns, which alpha converts to Q, instead of a Q of its own."""
        return not parse_spec(self.deep).kind.own_q


def _check_judge(option: str, text: str) -> None:
    """Raises UsageError for a judge without a number of nodes; `test_deep` may be empty."""
    if not text and option == "test_deep":
        return
    try:
        judge = parse_spec(text)
    except UsageError as error:
        raise UsageError(f"{option}{str(error).removeprefix('--deep')}") from None
    if not judge.kind.searches:
        raise UsageError(f"{option} {judge.kind}: does not search; give a judge that does")
    if "nodes" not in judge.limits:
        raise UsageError(f"{option} {text}: give a judge with a number of nodes")


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


# -- repair.toml ------------------------------------------------------------------------------------------------------

_TABLES: Mapping[str, Any] = {
    table.name: table.default_factory for table in fields(Settings) if is_dataclass(table.default_factory)
}
_OMITTED = ("archives", "db", "judge")  # from the file, where they are empty


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
        cells = ((row, getattr(value, row.name)) for row in fields(value))
        lines += [_line(row, cell) for row, cell in cells if cell is not None]
    try:
        content = ("\n".join(lines) + "\n").encode()
    except UnicodeEncodeError:
        raise UsageError(f"{path}: a file's name in it is not UTF-8; rename the archive or the net") from None
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
    try:
        for name, kind in _TABLES.items():
            _check_names(kind, tables.get(name, {}), f"[{name}]")
        _check_names(Settings, tables, "")
        # Without its line it is None: `write` omits it then.
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
    stored = {name: getattr(settings, name, settings.sizes.positions) for name in given}
    return [
        f"{FILE} says {name} = {json.dumps(stored[name])}, which takes precedence; edit it there"
        for name, value in given.items()
        if value != stored[name]
    ]
