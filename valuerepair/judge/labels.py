"""The labels of candidates: what kind of position each is, how the net errs there, and what another net changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Floats, Ids
from valuerepair.chess.board import in_check, keys, legal_moves, parse_fens, white_to_move
from valuerepair.chess.rows import Boards
from valuerepair.judge.material import balances_of, material_signature
from valuerepair.judge.openings import boards_by_ply, family, family_of_signature, first_moves, openings_of
from valuerepair.rates import Interval, rate_change
from valuerepair.text import table_lines

if TYPE_CHECKING:
    import pandas as pd

Texts = NDArray[np.object_]  # a word, or None
Labels: TypeAlias = Mapping[int, frozenset[str]]  # of candidates, by position_id

# A search of 800 visits, as in training games, hardly ever tries a move with the first prior, and tries one with the
# second early.
POLICY_BLIND = 0.01
VALUE_BLIND = 0.1
# A mate is missed if the net's Q is below this, an expected score of three quarters.
MATE_MISSED = 0.5
# The largest |Q| of a drawn score: engines add a few centipawns of noise to the 0 of a repetition.
DRAWN = 0.05
# A perpetual check: every move of a side gives check, and there are at least this many. Engine lines often end before
# they repeat.
PERPETUAL_CHECKS = 2
# A fortress: an extra piece that neither wins nor is lost in the line; or an advantage that does not grow. The engine's
# hash table often cuts the line of a draw short, so a few plies, enough to exclude an exchange, must suffice.
FORTRESS_LEAD = 3
FORTRESS_KEPT = 2
FORTRESS_DRAWISH = 0.2
FORTRESS_WINNING = 0.5
FORTRESS_GROWTH = 0.9
FORTRESS_KEPT_PLIES = 4
# W/D/L as 1000 counts, with half a count more in each class (Krichevsky and Trofimov): no class is impossible.
_COUNTS, _HALF = 1000.0, 0.5


class Label(NamedTuple):
    """A label: a row of `label_frame` has it if its cell in `column` is `value`, or without a `value` is not empty.

    `of_policy`: the label is known only for rows whose net priors are known.
    """

    name: str
    column: str
    value: str | None = None
    of_policy: bool = False

    def holds(self, column: Texts) -> NDArray[np.bool_]:
        """[n] which rows have the label, by the cells of its column."""
        return np.asarray(column.astype(np.bool_) if self.value is None else column == self.value, np.bool_)


# All labels, in the order of tables. Books, counts, comparisons, plots and filters use this list.
LABELS = (
    Label("optimistic", "sign", "optimistic"),
    Label("pessimistic", "sign", "pessimistic"),
    Label("value-blind", "blind", "value", of_policy=True),
    Label("partly-blind", "blind", "partly", of_policy=True),
    Label("policy-blind", "blind", "policy", of_policy=True),
    Label("missed-mate", "missed_mate"),
    Label("missed-mate:mates", "missed_mate", "mates"),
    Label("missed-mate:mated", "missed_mate", "mated"),
    Label("repetition", "repetition"),
    Label("fortress-like", "fortress_like"),
    Label("fortress-like:held", "fortress_like", "held"),
    Label("fortress-like:no-progress", "fortress_like", "no progress"),
    Label("in-check", "in_check"),
    Label("forced", "forced"),
    Label("opening", "phase", "opening"),
    Label("middlegame", "phase", "middlegame"),
    Label("endgame", "phase", "endgame"),
)
NAMES = tuple(label.name for label in LABELS)
OF_POLICY = frozenset(label.name for label in LABELS if label.of_policy)
# The prefix of labels with open values (``family:French Defense``) -> the column that has the value.
KINDS = {"family": "opening_family", "eco": "eco", "pieces": "material_family", "material": "material"}


def label_frame(frame: pd.DataFrame, priors: pd.DataFrame | None = None) -> pd.DataFrame:
    """The labels of the rows of a frame (`Store.frame` with its text columns): one row each, with the frame's index.

    `priors` (`store.priors.read_priors`) are the net's; cells that need an unknown prior are missing. Optional columns
    of the frame: `eco_header`, the games' ECO headers; `rung_cp`, the centipawns of a far shorter search by the same
    oracle.
    Columns of the result:

    | column                                | type   |                                                            |
    |---------------------------------------|--------|------------------------------------------------------------|
    | sign                                  | word   | `sign`                                                     |
    | blind                                 | word   | `blindness`                                                |
    | missed_mate                           | word   | `missed_mate`                                              |
    | fortress_like                         | word   | `fortress_like`                                            |
    | repetition                            | bool   | `repetition`                                               |
    | in_check, forced                      | bool   | in check; one legal move only                              |
    | phase                                 | word   | as in the frame                                            |
    | material, material_family             | word   | `material.material_signature`, `openings.material_family`  |
    | opening_family, opening, eco          | word   | `openings.openings_of`; None where unknown                 |
    | balance                               | int    | pawns, `material.balances_of`                              |
    | legal_moves                           | int    | the number of legal moves                                  |
    | oracle_move_p, oracle_move_rank       | float  | the net's prior of the oracle's best move and its rank     |
    | played_move_p, played_move_rank       | float  | the net's prior of the move played and its rank            |
    | top_move_p                            | float  | the prior of the net's first choice                        |
    | wdl_kl                                | float  | `wdl_divergence`, in nats                                  |

    Missing words are None, missing numbers NaN.
    """
    import pandas as pd

    boards = parse_fens(frame["fen"].tolist())
    material, balance = [material_signature(fen) for fen in frame["fen"]], balances_of(boards)
    choices = np.diff(legal_moves(boards)[1])
    net_q, deep_q = frame["net_q"].to_numpy(np.float64), frame["deep_q"].to_numpy(np.float64)
    mate, endgame = frame["mate"].to_numpy(np.float64), (frame["phase"] == "endgame").to_numpy(np.bool_)
    lines = _lines_that_matter(frame, np.flatnonzero(line_may_matter(deep_q, balance, endgame)))
    headers = frame["eco_header"].tolist() if "eco_header" in frame else [None] * len(frame)
    openings = openings_of(headers, frame["start_fen"].tolist(), first_moves(frame["moves"].tolist()))
    measures = _prior_columns(frame, priors)
    columns: dict[str, NDArray[Any]] = {
        "sign": sign(frame["disagreement"].to_numpy(np.float64)),
        "blind": blindness(measures["oracle_move_p"], measures["oracle_move_rank"]),
        "missed_mate": missed_mate(mate, net_q),
        "fortress_like": fortress_like(deep_q, _growth(frame), balance, lines, endgame),
        "repetition": repetition(deep_q, lines),
        "in_check": in_check(boards),
        "forced": choices == 1,
        "phase": np.array(frame["phase"].tolist(), object),
        "material": np.array(material, object),
        "material_family": np.array([family_of_signature(men) for men in material], object),
        "opening_family": np.array([family(opening.eco) if opening.eco else None for opening in openings], object),
        "opening": np.array([opening.name or None for opening in openings], object),
        "eco": np.array([opening.eco or None for opening in openings], object),
        "balance": balance,
        "legal_moves": choices,
        **measures,
        "wdl_kl": wdl_divergence(_wdl(frame, "net"), _wdl(frame, "deep")),
    }
    # Columns of words stay objects, because newer pandas would turn their None into NaN.
    series = {
        name: pd.Series(column, frame.index, object if column.dtype == object else None)
        for name, column in columns.items()
    }
    labelled: pd.DataFrame = pd.DataFrame(series, index=frame.index)
    return labelled


# -- the labels -------------------------------------------------------------------------------------------------------


def sign(disagreement: Floats) -> Texts:
    """``optimistic`` where the net's value is above the search's, ``pessimistic`` where it is below."""
    return _pick((disagreement > 0, "optimistic"), (disagreement < 0, "pessimistic"))


def blindness(p: Floats, rank: Floats) -> Texts:
    """Whether the net's policy knows the oracle's best move, by its prior `p` and `rank` (1 is the first choice).

    ``value``: it is the first choice, or its prior is at least `VALUE_BLIND`: a search tries the move at once, only its
    value is misjudged. ``policy``: its prior is below `POLICY_BLIND`, so a search rarely tries it. ``partly``: between.
    """
    is_tried = (rank == 1) | (p >= VALUE_BLIND)
    return _pick((is_tried, "value"), (p < POLICY_BLIND, "policy"), (~np.isnan(p), "partly"))


def missed_mate(mate: Floats, net_q: Floats) -> Texts:
    """``mates``: the search finds a mate by the side to move, but net Q is below `MATE_MISSED`.

    ``mated``: it finds a mate against the side to move, but net Q is above `-MATE_MISSED`.
    """
    return _pick(((mate > 0) & (net_q < MATE_MISSED), "mates"), ((mate <= 0) & (net_q > -MATE_MISSED), "mated"))


def repetition(deep_q: Floats, lines: ExpectedLines) -> NDArray[np.bool_]:
    """[n] whether the deep score is a draw, within `DRAWN`, by repetition or perpetual check in the expected line.

    That is: the line reaches a position for the second time, or one side gives check with every move of it, at least
    `PERPETUAL_CHECKS` times.
    """
    perpetual = (lines.checks >= PERPETUAL_CHECKS) & (lines.checks == lines.moves)
    return np.asarray((np.abs(deep_q) <= DRAWN) & (lines.repeats | perpetual.any(1)))


def fortress_like(
    deep_q: Floats, growth: Floats, balance: NDArray[np.int64], lines: ExpectedLines, endgame: NDArray[np.bool_]
) -> Texts:
    """Whether a side has an advantage that it cannot use.

    ``held``, in endgames: a side is at least `FORTRESS_LEAD` pawns ahead and stays at least `FORTRESS_KEPT` ahead in
    the line, which has at least `FORTRESS_KEPT_PLIES` plies; yet deep Q is a draw within `FORTRESS_DRAWISH`, and the
    other side checks with less than half of its moves. ``no progress``: |deep Q| is at least `FORTRESS_WINNING`, but
    `growth` is positive and at most `FORTRESS_GROWTH`. `growth` is the search's centipawns divided by those of a far
    shorter search; NaN if one of them has no centipawns, as with mates.
    """
    behind = np.arange(len(balance)), (balance > 0).astype(np.int64)
    checking = 2 * lines.checks[behind] >= np.maximum(lines.moves[behind], 1)
    held = endgame & (np.abs(balance) >= FORTRESS_LEAD) & (lines.lead >= FORTRESS_KEPT) & ~checking
    held &= (lines.plies >= FORTRESS_KEPT_PLIES) & (np.abs(deep_q) <= FORTRESS_DRAWISH)
    stuck = (np.abs(deep_q) >= FORTRESS_WINNING) & (growth > 0) & (growth <= FORTRESS_GROWTH)
    return _pick((held, "held"), (stuck, "no progress"))


def line_may_matter(deep_q: Floats, balance: NDArray[np.int64], endgame: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """[n] whether `repetition` or `fortress_like` may hold, by the conditions that need no line."""
    held = endgame & (np.abs(balance) >= FORTRESS_LEAD) & (np.abs(deep_q) <= FORTRESS_DRAWISH)
    return np.asarray((np.abs(deep_q) <= DRAWN) | held)


def wdl_divergence(net: Floats, deep: Floats) -> Floats:
    """The Kullback-Leibler divergence KL(deep || net) of W/D/L, [n] in nats; inputs are [n, 3] in any unit.

    Both become shares of 1000 counts, plus half a count for each class: a class with 0 per mille is not impossible. So
    the divergence is finite, at most ln(2001) = 7.6. NaN where one of the two is missing.
    """
    smooth = [(_COUNTS * shares + _HALF) / (_COUNTS + 3 * _HALF) for shares in (_shares(net), _shares(deep))]
    return np.asarray((smooth[1] * np.log(smooth[1] / smooth[0])).sum(1))


# -- columns ----------------------------------------------------------------------------------------------------------


def _growth(frame: pd.DataFrame) -> Floats:
    """[n] centipawns of the search divided by those of a far shorter one; NaN where the latter are 0 or unknown."""
    if "rung_cp" not in frame:
        return np.full(len(frame), np.nan)
    earlier = frame["rung_cp"].to_numpy(np.float64)
    return np.asarray(frame["cp"].to_numpy(np.float64) / np.where(earlier == 0, np.nan, earlier))


def _lines_that_matter(frame: pd.DataFrame, rows: NDArray[np.int64]) -> ExpectedLines:
    """The expected lines of `rows`; empty lines for the other rows, whose labels do not depend on them."""
    chosen = frame.iloc[rows]
    followed = expected_lines(chosen["start_fen"].tolist(), _split(chosen["moves"]), _split(chosen["pv"]))
    lines = ExpectedLines(*(np.zeros((len(frame), *column.shape[1:]), column.dtype) for column in followed))
    for column, values in zip(lines, followed, strict=True):
        column[rows] = values
    return lines


def _prior_columns(frame: pd.DataFrame, priors: pd.DataFrame | None) -> dict[str, Floats]:
    """The priors and ranks of the oracle's best move, the move played and the net's first choice."""
    import pandas as pd

    if priors is None:
        priors = pd.DataFrame({name: [] for name in ("position_id", "move", "p", "rank")})
    cells = priors.set_index(["position_id", "move"])[["p", "rank"]]
    columns = {}
    for name, move in (("oracle_move", "deep_best"), ("played_move", "played")):
        moves = pd.MultiIndex.from_arrays([frame["position_id"], frame[move]])
        columns[f"{name}_p"], columns[f"{name}_rank"] = cells.reindex(moves).to_numpy(np.float64).T.copy()
    firsts = priors[priors["rank"] == 1].drop_duplicates("position_id", keep="last").set_index("position_id")["p"]
    columns["top_move_p"] = firsts.reindex(frame["position_id"]).to_numpy(np.float64)
    return columns


def _split(column: pd.Series[str]) -> list[list[str]]:
    return [text.split() if isinstance(text, str) else [] for text in column.tolist()]


def _wdl(frame: pd.DataFrame, prefix: str) -> Floats:
    return np.stack([frame[f"{prefix}_{name}"].to_numpy(np.float64) for name in "wdl"], 1)


def _shares(wdl: Floats) -> Floats:
    wdl = np.maximum(wdl, 0)  # rounding by engines, or of 32-bit means, can give a little less than 0
    total = wdl.sum(1, keepdims=True)
    return np.asarray(wdl / np.where(total > 0, total, np.nan))


def _pick(*choices: tuple[NDArray[np.bool_], str]) -> Texts:
    """[n] the word of the first condition that holds, None if no condition does."""
    conditions, words = zip(*choices, strict=True)
    return np.select(conditions, np.array(words, object), np.array(None, object))


_LINES_AT_ONCE = 20_000  # a batch keeps some hundred keys of each line


class ExpectedLines(NamedTuple):
    """Facts about n expected lines, up to the first illegal move.

    `plies` int64[n] is the number of moves followed. `repeats` bool[n]: the line reaches a position that occurred
    before, in the line or in the game. `lead` int64[n] is the smallest lead along the line, in pawns
    (`material.balances_of`), of the side that is ahead at its beginning; 0 if neither is. `checks` int64[n, 2] counts
    the checks by the side to move at the beginning, and by the other side.
    """

    plies: NDArray[np.int64]
    repeats: NDArray[np.bool_]
    lead: NDArray[np.int64]
    checks: NDArray[np.int64]

    @property
    def moves(self) -> NDArray[np.int64]:
        """[n, 2] the number of moves of the side to move at the beginning, and of the other side."""
        return np.stack([(self.plies + 1) // 2, self.plies // 2], 1)


def expected_lines(
    start_fens: Sequence[str], moves: Sequence[Sequence[str]], lines: Sequence[Sequence[str]]
) -> ExpectedLines:
    """Follows `lines` [n] (UCI) from the positions that the legal `moves` [n] lead to from `start_fens` [n].

    Two boards are equal as in the rule of threefold repetition: by placement, side to move, castling rights and legal
    en passant. Raises ValueError for a bad FEN.
    """
    if len(start_fens) > _LINES_AT_ONCE:
        parts = [slice(begin, begin + _LINES_AT_ONCE) for begin in range(0, len(start_fens), _LINES_AT_ONCE)]
        batches = [expected_lines(start_fens[part], moves[part], lines[part]) for part in parts]
        return ExpectedLines(*(np.concatenate(columns) for columns in zip(*batches, strict=True)))
    n = len(start_fens)
    begins = np.array([len(history) for history in moves], np.int64)
    zeros = np.zeros(n, np.int64)
    facts = ExpectedLines(zeros.copy(), np.zeros(n, np.bool_), zeros.copy(), np.zeros((n, 2), np.int64))
    side_ahead = zeros.copy()  # at the beginning of the line: 1 White, -1 Black, 0 neither
    keys_by_ply: list[NDArray[np.uint64]] = []  # the key of each line's board after each ply
    games = [[*history, *line] for history, line in zip(moves, lines, strict=True)]
    for depth, (rows, boards) in enumerate(boards_by_ply(start_fens, games)):
        board_keys = keys(boards)
        in_line = np.flatnonzero(depth > begins[rows])
        for earlier in keys_by_ply:
            facts.repeats[rows[in_line[earlier[rows[in_line]] == board_keys[in_line]]]] = True
        keys_by_ply.append(np.zeros(n, np.uint64))
        keys_by_ply[depth][rows] = board_keys
        in_line = np.flatnonzero(depth >= begins[rows])
        if len(in_line):
            _add_boards(facts, side_ahead, rows[in_line], boards[in_line], depth - begins[rows[in_line]])
    return facts


def _add_boards(
    facts: ExpectedLines, side_ahead: NDArray[np.int64], rows: NDArray[np.int64], boards: Boards, ply: NDArray[np.int64]
) -> None:
    """Adds the boards of `rows`, which are at these plies of their lines, to the facts."""
    facts.plies[rows] = ply
    first = ply == 0
    white_lead = np.where(white_to_move(boards), 1, -1) * balances_of(boards)
    side_ahead[rows[first]] = np.sign(white_lead[first])
    leads = white_lead * side_ahead[rows]
    facts.lead[rows] = np.where(first, leads, np.minimum(facts.lead[rows], leads))
    checks = np.flatnonzero(in_check(boards) & ~first)
    facts.checks[rows[checks], (ply[checks] - 1) % 2] += 1


# Of the changes by another net: labels with fewer candidates of both nets together are not printed; JSON has all.
FEWEST_SHOWN = 3
MOST_FAMILIES = 5
_FAMILIES = ("family", "pieces")


@dataclass(frozen=True, slots=True)
class LabelChange:
    """A label under two nets.

    `label` is one of `NAMES` or of `KINDS` (``family:French Defense``). `first` and `second` count the candidates of
    each net with it, `both` those of both, `repaired` those of the first alone, `newly` those of the second alone.
    `change` is the share of the second's minus that of the first's in all positions, with an interval by
    games.
    """

    label: str
    first: int
    second: int
    both: int
    repaired: int
    newly: int
    change: Interval


def label_changes(first: Labels, second: Labels, position_id: Ids, weight: Floats, game: Ids) -> list[LabelChange]:
    """The changes of all labels: those of `NAMES` in their order, then the others, the most frequent first.

    `first` and `second` have the labels of each net's candidates by position_id; `position_id`, `weight` and `game`
    [n] are of every position compared.
    """
    counts = Counter(name for side in (first, second) for labels in side.values() for name in labels)
    rank = {name: i for i, name in enumerate(NAMES)}
    names = sorted(counts, key=lambda name: (rank.get(name, len(rank)), -counts[name], name))
    ids = [_ids_of(side) for side in (first, second)]
    row_of = dict(zip(position_id.tolist(), range(len(position_id)), strict=True))
    found = []
    for name in names:
        by_first, by_second = (side.get(name, set()) for side in ids)
        repaired, newly = by_first - by_second, by_second - by_first
        changes = np.zeros(len(position_id))
        changes[[row_of[number] for number in repaired]] = -1
        changes[[row_of[number] for number in newly]] = 1
        both, change = len(by_first & by_second), rate_change(changes, weight, game)
        found.append(LabelChange(name, len(by_first), len(by_second), both, len(repaired), len(newly), change))
    return found


def _ids_of(side: Labels) -> dict[str, set[int]]:
    """The positions with each label."""
    by_label: dict[str, set[int]] = {}
    for number, labels in side.items():
        for name in labels:
            by_label.setdefault(name, set()).add(number)
    return by_label


def shown_labels(labels: list[LabelChange]) -> list[LabelChange]:
    """The labels with enough candidates, without ECO codes and exact material; of families only the most frequent."""
    rows: list[LabelChange] = []
    families: dict[str, list[LabelChange]] = {kind: [] for kind in _FAMILIES}
    for change in labels:
        if change.first + change.second - change.both < FEWEST_SHOWN:
            continue
        kind = change.label.partition(":")[0]
        if kind in families:
            families[kind].append(change)
        elif kind not in KINDS:
            rows.append(change)
    return rows + [change for kind in _FAMILIES for change in families[kind][:MOST_FAMILIES]]


_LABEL_COLUMNS = ":<20 | A wrong:>8, | repaired:>8, | still:>6, | newly:>6, | B wrong:>8, | B - A:<"


def label_lines(rows: list[LabelChange]) -> Iterator[str]:
    """A table of the `shown_labels`, with a title."""
    yield "by label of the error, counted over all positions (many rows: some differ by chance)"
    cells = ((row.label, row.first, row.repaired, row.both, row.newly, row.second, row.change.points) for row in rows)
    yield from table_lines(_LABEL_COLUMNS, cells, "  ")
