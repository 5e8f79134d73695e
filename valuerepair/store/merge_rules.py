"""Which of two rows is kept where stores contradict each other, table by table, and what counts as a contradiction.

The rules look at nothing but the rows and their runs, never at the order in which the stores are given, and never at
which value is the larger where that would bend a mean. In SQL ``t`` is the row that is there and ``n`` the new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Two machines round a net's value differently by some millionths; beyond this it is another value.
SAME_Q = 1e-3


@dataclass(frozen=True)
class Rule:
    """How rows of a table are merged.

    `key` are its columns of the key, and of numbers that are mapped `mapped` (column -> table they number). `differs`
    is the condition of a contradiction, told as `kind`. `higher` are expressions of one row (``{}`` is its alias) of
    which the higher is kept; then the older run decides, then the lower of `last`, then the other columns.
    """

    table: str
    key: tuple[str, ...]
    mapped: dict[str, str]
    differs: str
    kind: str
    higher: tuple[str, ...] = ()
    last: tuple[str, ...] = ()

    @property
    def by_position(self) -> bool:
        return "position_id" in self.mapped

    def better(self, columns: Sequence[str]) -> str:
        """The condition that the new row, ``excluded``, is to be kept. All columns decide in the end."""
        tail = [name for name in columns if name not in self.key and name not in self.mapped]
        lower = [*(_OLDER if "run_id" in columns else ()), *self.last]
        new = [e.format("excluded") for e in self.higher] + [e.format("t") for e in lower]
        old = [e.format("t") for e in self.higher] + [e.format("excluded") for e in lower]
        # NULL compares with nothing; a blob comes behind every number and text.
        new += [f"coalesce(t.{name}, x'')" for name in tail]
        old += [f"coalesce(excluded.{name}, x'')" for name in tail]
        return f"({', '.join(new)}) > ({', '.join(old)})"


# Of values that are as good, those of the older run: neither higher nor lower ones.
_OLDER = (
    "(SELECT started FROM main.runs WHERE id = {}.run_id)",
    "(SELECT identity FROM main.runs WHERE id = {}.run_id)",
)
_POSITION, _NET, _ORACLE = {"position_id": "positions"}, {"net_id": "nets"}, {"oracle_id": "oracles"}
_RUN = {"run_id": "runs"}

SCREENED = Rule(
    "screened",
    ("net_id", "oracle_id", "position_id"),
    _NET | _ORACLE | _POSITION | {"screen_id": "screens"} | _RUN,
    "",
    "",
    # A ladder that did not cut the position goes first; else the larger chance of an audit. Whether the audit took
    # place decides nothing: a rule that looked at it would keep more audits than the chances say.
    ("({}.cut_at IS NULL)", "{}.probability"),
)
RULES: tuple[Rule, ...] = (
    Rule(
        "net_values",
        ("net_id", "position_id"),
        _NET | _POSITION | _RUN,
        f"abs(t.q - n.q) > {SAME_Q}",
        "another net value",
        ("({}.best_move IS NOT NULL)",),
        ("coalesce({}.entropy, 0)",),
    ),
    Rule(
        "priors",
        ("net_id", "position_id", "move"),
        _NET | _POSITION,
        f"abs(t.p - n.p) > {SAME_Q}",
        "another prior",
    ),
    Rule(
        "deep_values",
        ("oracle_id", "stage", "position_id"),
        _ORACLE | _POSITION | _RUN,
        "(t.cp IS NOT n.cp OR t.mate IS NOT n.mate OR t.w IS NOT n.w OR t.d IS NOT n.d OR t.l IS NOT n.l "
        "OR t.q IS NOT n.q OR t.best_move IS NOT n.best_move)",
        "another deep value",
        ("{}.nodes", "{}.depth"),
        ("{}.time_ms", "{}.pv"),
    ),
    Rule(
        "failures",
        ("oracle_id", "stage", "position_id"),
        _ORACLE | _POSITION | _RUN,
        "",
        "",
        ("{}.attempts",),
    ),
    Rule(
        "alpha_fits",
        ("net_id", "oracle_id"),
        _NET | _ORACLE,
        "t.alpha IS NOT n.alpha",
        "two alpha fits",
        ("{}.n", "{}.fitted"),
    ),
    Rule(
        "plays",
        ("run_id", "number"),
        _RUN,
        "(t.key IS NOT n.key OR t.result IS NOT n.result OR t.white IS NOT n.white OR t.black IS NOT n.black)",
        "another game of the same number",
    ),
)
# Merged by their contents, or as a whole: see merge_catalogue and merge_positions.
OTHERS = ("runs", "games", "nets", "oracles", "screens", "positions", "screened")
