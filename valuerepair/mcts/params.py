"""The parameters of the search, named and defaulted as in lc0's classic search (search/classic/params.cc, UCI).

Parameters that lc0 does not have are off unless set: `q_scale`, `certainty`, `lookahead`, `auto_extend` and `n_scl`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from valuerepair.errors import UsageError, finite, nearest

_MOST = 2**31 - 1


def _param(default: Any, meaning: str, *allowed: Any, uci: str = "") -> Any:
    """A field of `SearchParams`: its default, and a phrase about it for people who know what PUCT is.

    `allowed` are the least and the greatest number, or the words of a text. `uci` is the name of its option under UCI
    (lc0's: search/classic/params.cc, neural/shared_params.cc), if that is not the field's name in CamelCase.
    """
    in_words = bool(allowed) and isinstance(allowed[0], str)
    limits = {"choices": allowed if in_words else (), "range": () if in_words else allowed}
    return field(default=default, metadata={"meaning": meaning, "uci": uci, **limits})


@dataclass(frozen=True, slots=True)
class SearchParams:
    """How a tree is searched. Defaults are those of ``lc0`` under UCI, without what depends on time or on batching.

    Values of nodes are in [-1, 1]. `draw_score` is what a draw is worth to White. `policy_softmax_temp` divides logits.

    - `q_scale`: the search multiplies the net's Q by it, and keeps it between -1 and 1: a net that is s times as steep
      as another one is searched with 1 / s as that one would be. Proofs by the rules of chess keep their value. All
      values that the search gives are on the new scale, the net's own Q of the root included.
    - `moves_left_...`: how much more a shorter win or longer loss is worth where |Q| is above `moves_left_threshold`,
      for nets that predict the plies left; `moves_left_max_effect` 0 turns it off.
    - `minibatch_size`: leaves of one tree in a batch, kept apart by virtual visits; 1 is the sequential search.
    - `certainty`: proven values spread by minimax, replace averages and end visits to proven nodes (MCTS-solver).
      It replaces `sticky_endgames`, lc0's milder form of it.
    - `lookahead`: moves that end the game are found when their parent is expanded, one ply earlier.
    - `auto_extend`: a chain of single legal moves is one state, valued by its end.
    - `n_scl`: search-contempt: after this number of visits of an opponent's node, its visit distribution is frozen and
      sampled; 0 stands for infinity, which is plain PUCT.
    - `lc0_floats`: lc0's approximate logarithm and exponential and its priors of 16 bits, to reproduce its visits.
    - `seed`: of noise, temperature and search-contempt.
    """

    cpuct: float = _param(1.745, "exploration: larger searches more broadly", 0, 100, uci="CPuct")
    cpuct_base: float = _param(
        38739.0, "visits from which exploration grows with their logarithm", 1, 1e9, uci="CPuctBase"
    )
    cpuct_factor: float = _param(3.894, "how much exploration grows; 0: not at all", 0, 1000, uci="CPuctFactor")
    root_has_own_cpuct_params: bool = _param(False, "use the three ..._at_root below at the root")
    cpuct_at_root: float = _param(1.745, "exploration at the root", 0, 100, uci="CPuctAtRoot")
    cpuct_base_at_root: float = _param(38739.0, "as cpuct_base, at the root", 1, 1e9, uci="CPuctBaseAtRoot")
    cpuct_factor_at_root: float = _param(3.894, "as cpuct_factor, at the root", 0, 1000, uci="CPuctFactorAtRoot")
    fpu_strategy: str = _param(
        "reduction",
        "Q of moves without visits: reduction (below the parent's Q) or absolute (fpu_value)",
        "reduction",
        "absolute",
    )
    fpu_value: float = _param(0.33, "how far below, or the Q itself", -100, 100)
    fpu_strategy_at_root: str = _param(
        "same", "the same at the root: same, reduction or absolute", "same", "reduction", "absolute"
    )
    fpu_value_at_root: float = _param(1.0, "its value, unless same", -100, 100)
    q_scale: float = _param(
        1.0, "factor of the net's Q, for equal breadth with a net of flatter or steeper Q", 0.01, 100
    )
    policy_softmax_temp: float = _param(
        1.359, "divides the policy's logits: above 1 flattens the priors", 0.1, 10, uci="PolicyTemperature"
    )
    draw_score: float = _param(0.0, "Q of a draw for White, -1 to 1", -1, 1)
    moves_left_max_effect: float = _param(0.0345, "most that Q gains by a shorter win or a longer loss; 0: off", 0, 1)
    moves_left_threshold: float = _param(0.8, "only where |Q| is above this", 0, 1)
    moves_left_slope: float = _param(0.0027, "gain for each half-move", 0, 1)
    moves_left_constant_factor: float = _param(0.0, "the gain is multiplied by this,", -1, 1)
    moves_left_scaled_factor: float = _param(
        1.6521, "plus this times |Q| (from the threshold on, rescaled to 0 to 1),", -2, 2
    )
    moves_left_quadratic_factor: float = _param(-0.6521, "plus this times its square", -1, 1)
    sticky_endgames: bool = _param(
        True, "the end of a game decides the position before it, too, where it is the best move"
    )
    two_fold_draws: bool = _param(True, "a position repeated once within the search is a draw")
    noise_epsilon: float = _param(
        0.0, "share of Dirichlet noise in the root's priors", 0, 1, uci="DirichletNoiseEpsilon"
    )
    noise_alpha: float = _param(
        0.3, "alpha of that noise: smaller is more uneven", 1e-3, 1e6, uci="DirichletNoiseAlpha"
    )
    temperature: float = _param(0.0, "how randomly the move is chosen by visits; 0: always the best", 0, 100)
    tempdecay_moves: int = _param(
        0, "moves over which the temperature falls to 0; 0: it does not", 0, 640, uci="TempDecayMoves"
    )
    tempdecay_delay_moves: int = _param(0, "moves before it begins to fall", 0, 100, uci="TempDecayDelayMoves")
    temp_cutoff_move: int = _param(0, "from this move on temp_endgame is the temperature; 0: never", 0, 1000)
    temp_endgame: float = _param(0.0, "that temperature, and the least of a falling one", 0, 100)
    temp_value_cutoff: float = _param(
        100.0, "no move is chosen whose winning chance is this far (in %) below the most visited one's", 0, 100
    )
    temp_visit_offset: float = _param(0.0, "added to all visits before the choice by temperature", -1000, 1000)
    minibatch_size: int = _param(1, "leaves of a tree evaluated at once; 1: one after the other", 1, 1024)
    certainty: bool = _param(False, "proven wins, draws and losses spread by minimax and end visits")
    lookahead: bool = _param(False, "find moves that end the game one ply earlier")
    auto_extend: bool = _param(False, "take a chain of only moves as one node")
    n_scl: int = _param(0, "search-contempt: visits after which the opponent's shares are frozen; 0: off", 0, _MOST)
    lc0_floats: bool = _param(False, "round as lc0 does, to reproduce its visits")
    seed: int = _param(0, "of noise, temperature and search-contempt", 0, 2**63 - 1)

    def with_settings(self, settings: Mapping[str, str], where: str = "") -> SearchParams:
        """These parameters with some of them set from text, as in ``cpuct=1.5,certainty=1``.

        Names may have - or _, in any case. Raises UsageError, beginning with `where`, that names the nearest parameter
        or says what a value must be.
        """
        changes: dict[str, object] = {}
        for key, text in settings.items():
            name = key.strip().lower().replace("-", "_")
            if name not in PARAMETERS:
                raise UsageError(f"{where}no search option {key!r}{nearest(name, PARAMETERS, listed=True)}")
            changes[name] = _parsed(name, text.strip(), f"{where}{key}={text}: ")
        changed: SearchParams = replace(self, **changes)  # type: ignore[arg-type]  # _parsed gives each field's type
        changed.check(where)
        return changed

    def check(self, where: str = "") -> None:
        """Raises UsageError, beginning with `where`, for values that make no sense."""
        for name, (low, high) in RANGES.items():
            value = getattr(self, name)
            if not low <= value <= high:
                allowed = f"at least {low:g}" if high >= _MOST else f"from {low:g} to {high:g}"
                raise UsageError(f"{where}{name}={value:g}: must be {allowed}")
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise UsageError(f"{where}{name}={getattr(self, name)}: must be one of {', '.join(choices)}")

    def lines(self) -> list[str]:
        """Each parameter with its value and what it does, for a terminal."""
        return [f"{name:28} {getattr(self, name)!s:<10} {MEANINGS[name]}" for name in PARAMETERS]

    def changes(self) -> dict[str, str]:
        """The parameters that differ from their defaults, as text that `with_settings` reads."""
        plain = SearchParams()
        pairs = ((name, getattr(self, name)) for name in PARAMETERS if getattr(self, name) != getattr(plain, name))
        return {name: str(int(v)) if isinstance(v, bool) else f"{v}" for name, v in pairs}


_TABLE = {parameter.name: parameter.metadata for parameter in fields(SearchParams)}
PARAMETERS = tuple(_TABLE)
MEANINGS: dict[str, str] = {name: row["meaning"] for name, row in _TABLE.items()}
CHOICES: dict[str, tuple[str, ...]] = {name: row["choices"] for name, row in _TABLE.items() if row["choices"]}
RANGES: dict[str, tuple[float, float]] = {name: row["range"] for name, row in _TABLE.items() if row["range"]}
# The options under UCI. `minibatch_size` is one of the engine, because 0 means the fastest size there.
PARAMETER_NAMES = {name: row["uci"] or name.title().replace("_", "") for name, row in _TABLE.items()}
del PARAMETER_NAMES["minibatch_size"]


def _parsed(name: str, text: str, where: str) -> object:
    value_type = type(getattr(SearchParams(), name))
    if value_type is bool:
        if text.lower() in ("1", "true", "on", "yes"):
            return True
        if text.lower() in ("0", "false", "off", "no"):
            return False
        raise UsageError(f"{where}must be 1 or 0")
    if name == "n_scl":
        return _visits_limit(text, where)
    if value_type is int:
        if not text.isdecimal():
            raise UsageError(f"{where}must be a whole number")
        return int(text)
    if value_type is float:
        return finite(text, where.removesuffix(": "))
    return text


def _visits_limit(text: str, where: str) -> int:
    """The value of `n_scl`: at least 1; infinity turns search-contempt off."""
    if text.lower() in ("inf", "infinite", "infinity", "off"):
        return 0
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"{where}must be a whole number of at least 1, or inf")
    return int(text)
