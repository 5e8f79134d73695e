"""The parameters of the search, named and defaulted as in lc0's classic search (search/classic/params.cc, UCI).

Parameters that lc0 does not have are off unless set: `q_scale`, `certainty`, `lookahead`, `auto_extend` and `n_scl`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from valuerepair.errors import UsageError, nearest


@dataclass(frozen=True, slots=True)
class SearchParams:
    """How a tree is searched. Defaults are those of ``lc0`` under UCI, without what depends on time or on batching.

    Values of nodes are in [-1, 1]. `draw_score` is what a draw is worth to White. `policy_softmax_temp` divides logits.

    - `q_scale`: the search multiplies the net's Q by it, and keeps it between -1 and 1: a net that is s times as steep
      as another one is searched with 1 / s as that one would be. Proofs by the rules of chess or by tables keep their
      value. All values that the search gives are on the new scale, the net's own Q of the root included.
    - `moves_left_...`: how much more a shorter win or longer loss is worth, of nets that say how many plies are left,
      where |Q| is above `moves_left_threshold`; `moves_left_max_effect` 0 turns it off.
    - `minibatch_size`: leaves of one tree in a batch, kept apart by virtual visits; 1 is the sequential search.
    - `certainty`: proven values spread by minimax, replace averages and end visits to proven nodes (MCTS-solver).
      It takes the place of `sticky_endgames`, lc0's milder form of it.
    - `lookahead`: moves that end the game are found when their parent is expanded, one ply earlier.
    - `auto_extend`: a chain of single legal moves is one state, valued by its end.
    - `n_scl`: search-contempt, visits of an opponent's node after which its visit distribution is frozen and
      sampled; 0 stands for infinity, which is plain PUCT.
    - `syzygy`: folders of Syzygy tables, separated as in PATH; empty for none.
    - `syzygy_fast_play`: at a root that the tables know, only the moves nearest to the next capture or pawn move, as
      after a repetition; without it all moves that surely win within the 50 moves.
    - `lc0_floats`: lc0's approximate logarithm and exponential and its priors of 16 bits, to reproduce its visits.
    - `seed`: of noise, temperature and search-contempt.
    """

    cpuct: float = 1.745
    cpuct_base: float = 38739.0
    cpuct_factor: float = 3.894
    root_has_own_cpuct_params: bool = False
    cpuct_at_root: float = 1.745
    cpuct_base_at_root: float = 38739.0
    cpuct_factor_at_root: float = 3.894
    fpu_strategy: str = "reduction"
    fpu_value: float = 0.33
    fpu_strategy_at_root: str = "same"
    fpu_value_at_root: float = 1.0
    q_scale: float = 1.0
    policy_softmax_temp: float = 1.359
    draw_score: float = 0.0
    moves_left_max_effect: float = 0.0345
    moves_left_threshold: float = 0.8
    moves_left_slope: float = 0.0027
    moves_left_constant_factor: float = 0.0
    moves_left_scaled_factor: float = 1.6521
    moves_left_quadratic_factor: float = -0.6521
    sticky_endgames: bool = True
    two_fold_draws: bool = True
    history_fill: str = "fen_only"
    noise_epsilon: float = 0.0
    noise_alpha: float = 0.3
    temperature: float = 0.0
    tempdecay_moves: int = 0
    tempdecay_delay_moves: int = 0
    temp_cutoff_move: int = 0
    temp_endgame: float = 0.0
    temp_value_cutoff: float = 100.0
    temp_visit_offset: float = 0.0
    minibatch_size: int = 1
    certainty: bool = False
    lookahead: bool = False
    auto_extend: bool = False
    n_scl: int = 0
    syzygy: str = ""
    syzygy_fast_play: bool = False
    lc0_floats: bool = False
    seed: int = 0

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
                raise UsageError(f"{where}{name}={value:g}: must be {_range(low, high)}")
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


PARAMETERS = tuple(f.name for f in fields(SearchParams))
# One phrase for each parameter, for people who know what PUCT is.
MEANINGS = {
    "cpuct": "exploration: larger searches more broadly",
    "cpuct_base": "visits from which exploration grows with their logarithm",
    "cpuct_factor": "how much exploration grows; 0: not at all",
    "root_has_own_cpuct_params": "use the three ..._at_root below at the root",
    "cpuct_at_root": "exploration at the root",
    "cpuct_base_at_root": "as cpuct_base, at the root",
    "cpuct_factor_at_root": "as cpuct_factor, at the root",
    "fpu_strategy": "Q of moves without visits: reduction (below the parent's Q) or absolute (fpu_value)",
    "fpu_value": "how far below, or the Q itself",
    "fpu_strategy_at_root": "the same at the root: same, reduction or absolute",
    "fpu_value_at_root": "its value, unless same",
    "q_scale": "factor of the net's Q, for equal breadth with a net of flatter or steeper Q",
    "policy_softmax_temp": "divides the policy's logits: above 1 flattens the priors",
    "draw_score": "Q of a draw for White, -1 to 1",
    "moves_left_max_effect": "most that Q gains by a shorter win or a longer loss; 0: off",
    "moves_left_threshold": "only where |Q| is above this",
    "moves_left_slope": "gain for each half-move",
    "moves_left_constant_factor": "the gain is multiplied by this,",
    "moves_left_scaled_factor": "plus this times |Q| (from the threshold on, rescaled to 0 to 1),",
    "moves_left_quadratic_factor": "plus this times its square",
    "sticky_endgames": "the end of a game decides the position before it, too, where it is the best move",
    "two_fold_draws": "a position repeated once within the search is a draw",
    "history_fill": "positions before the known history, as the net sees them: no, fen_only, always",
    "noise_epsilon": "share of Dirichlet noise in the root's priors",
    "noise_alpha": "alpha of that noise: smaller is more uneven",
    "temperature": "how randomly the move is chosen by visits; 0: always the best",
    "tempdecay_moves": "moves over which the temperature falls to 0; 0: it does not",
    "tempdecay_delay_moves": "moves before it begins to fall",
    "temp_cutoff_move": "from this move on temp_endgame is the temperature; 0: never",
    "temp_endgame": "that temperature, and the least of a falling one",
    "temp_value_cutoff": "no move is chosen whose winning chance is this far (in %) below the most visited one's",
    "temp_visit_offset": "added to all visits before the choice by temperature",
    "minibatch_size": "leaves of a tree evaluated at once; 1: one after the other",
    "certainty": "proven wins, draws and losses spread by minimax and end visits",
    "lookahead": "find moves that end the game one ply earlier",
    "auto_extend": "take a chain of only moves as one node",
    "n_scl": "search-contempt: visits after which the opponent's shares are frozen; 0: off",
    "syzygy": "folders of Syzygy tables, separated as in PATH",
    "syzygy_fast_play": "at a root in the tables, only moves that are nearest to the next capture or pawn move",
    "lc0_floats": "round as lc0 does, to reproduce its visits",
    "seed": "of noise, temperature and search-contempt",
}
CHOICES = {
    "fpu_strategy": ("reduction", "absolute"),
    "fpu_strategy_at_root": ("same", "reduction", "absolute"),
    "history_fill": ("no", "fen_only", "always"),
}
_MOST = 2**31 - 1
RANGES: dict[str, tuple[float, float]] = {
    "cpuct": (0, 100),
    "cpuct_base": (1, 1e9),
    "cpuct_factor": (0, 1000),
    "cpuct_at_root": (0, 100),
    "cpuct_base_at_root": (1, 1e9),
    "cpuct_factor_at_root": (0, 1000),
    "fpu_value": (-100, 100),
    "fpu_value_at_root": (-100, 100),
    "q_scale": (0.01, 100),
    "policy_softmax_temp": (0.1, 10),
    "draw_score": (-1, 1),
    "moves_left_max_effect": (0, 1),
    "moves_left_threshold": (0, 1),
    "moves_left_slope": (0, 1),
    "moves_left_constant_factor": (-1, 1),
    "moves_left_scaled_factor": (-2, 2),
    "moves_left_quadratic_factor": (-1, 1),
    "noise_epsilon": (0, 1),
    "noise_alpha": (1e-3, 1e6),
    "temperature": (0, 100),
    "tempdecay_moves": (0, 640),
    "tempdecay_delay_moves": (0, 100),
    "temp_cutoff_move": (0, 1000),
    "temp_endgame": (0, 100),
    "temp_value_cutoff": (0, 100),
    "temp_visit_offset": (-1000, 1000),
    "minibatch_size": (1, 1024),
    "n_scl": (0, _MOST),
    "seed": (0, 2**63 - 1),
}


def _range(low: float, high: float) -> str:
    return f"at least {low:g}" if high >= _MOST else f"from {low:g} to {high:g}"


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
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise UsageError(f"{where}must be a number")
        return number
    return text


def _visits_limit(text: str, where: str) -> int:
    """The value of `n_scl`: at least 1; infinity turns search-contempt off."""
    if text.lower() in ("inf", "infinite", "infinity", "off"):
        return 0
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"{where}must be a whole number of at least 1, or inf")
    return int(text)
