"""The labels of candidates: what kind of position each is, how the net errs there, and what another net changes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Flags, Floats, Moves
from valuerepair.chess.board import in_check, legal_moves, parse_fens, piece_counts, replay
from valuerepair.chess.openings import family, first_moves, material_family, openings_of
from valuerepair.chess.positions import encode_moves
from valuerepair.chess.rows import Boards
from valuerepair.nets.policy import BEST_MOVES
from valuerepair.store.rows import POLICY

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.store.store import Store

Texts = NDArray[np.object_]  # a word, or None

# A search of 800 visits, as in training games, hardly ever tries a move with the first prior, and tries one with the
# second early.
POLICY_BLIND = 0.01
VALUE_BLIND = 0.1


class Label(NamedTuple):
    """A label: a row of `labels_of` has it if its cell in `column` is `value`, or without a `value` is true.

    `of_policy`: the label is known only for rows where the net's policy is.
    """

    name: str
    column: str
    value: str | None = None
    of_policy: bool = False

    def holds(self, column: Texts) -> Flags:
        """[n] which rows have the label, by the cells of its column."""
        return np.asarray(column.astype(np.bool_) if self.value is None else column == self.value, np.bool_)


# All labels, in the order of tables. Books, counts, plots and filters use this list.
LABELS = (
    Label("optimistic", "sign", "optimistic"),
    Label("pessimistic", "sign", "pessimistic"),
    Label("value-blind", "blind", "value", of_policy=True),
    Label("partly-blind", "blind", "partly", of_policy=True),
    Label("policy-blind", "blind", "policy", of_policy=True),
    Label("tactical", "tactical"),
    Label("in-check", "in_check"),
    Label("forced", "forced"),
    Label("opening", "phase", "opening"),
    Label("middlegame", "phase", "middlegame"),
    Label("endgame", "phase", "endgame"),
)
NAMES = tuple(label.name for label in LABELS)
OF_POLICY = frozenset(label.name for label in LABELS if label.of_policy)
# The prefix of labels with open values (``family:French Defense``) -> the column that has the value.
KINDS = {"family": "opening_family", "pieces": "material_family"}


def labels_of(store: Store, frame: pd.DataFrame) -> pd.DataFrame:
    """The labels of rows of `view.frame` or `view.candidates`: one row each, with the frame's index.

    | column                             | type  |                                                                    |
    |------------------------------------|-------|--------------------------------------------------------------------|
    | sign                               | word  | `sign`                                                             |
    | blind                              | word  | `blindness`                                                        |
    | tactical                           | bool  | the judge's best move captures or gives check                      |
    | in_check, forced                   | bool  | in check; one legal move only                                      |
    | phase                              | word  | as in the frame                                                    |
    | material_family                    | word  | `openings.material_family`                                         |
    | opening_family, opening            | word  | `openings.openings_of`; None where unknown                         |
    | judge_move_p, judge_move_rank      | float | the net's prior of the judge's best move, and its rank             |

    Missing words are None, missing numbers NaN: the store has the net's eight best moves.
    """
    import pandas as pd

    boards, judge_moves = parse_fens(frame["fen"].tolist()), _encoded(frame["deep_best"])
    legal, offsets = legal_moves(boards)
    openings = openings_of(
        _eco_headers(store, frame), frame["start_fen"].tolist(), first_moves(frame["moves"].tolist())
    )
    p, rank, has_all_eight = _priors(store, frame, judge_moves)
    columns: dict[str, NDArray[Any]] = {
        "sign": sign(frame["disagreement"].to_numpy(np.float64)),
        "blind": blindness(p, rank, has_all_eight & (judge_moves != 0)),
        "tactical": _tactical(boards, judge_moves, legal, offsets),
        "in_check": in_check(boards),
        "forced": np.diff(offsets) == 1,
        "phase": np.array(frame["phase"].tolist(), object),
        "material_family": np.array([material_family(fen) for fen in frame["fen"]], object),
        "opening_family": np.array([family(opening.eco) if opening.eco else None for opening in openings], object),
        "opening": np.array([opening.name or None for opening in openings], object),
        "judge_move_p": p,
        "judge_move_rank": rank,
    }
    # Columns of words stay objects, because newer pandas would turn their None into NaN.
    series = {
        name: pd.Series(column, frame.index, object if column.dtype == object else None)
        for name, column in columns.items()
    }
    labelled: pd.DataFrame = pd.DataFrame(series, index=frame.index)
    return labelled


def with_labels(store: Store, frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with its labels as further columns; existing columns stay as they are."""
    import pandas as pd

    labels = labels_of(store, frame)
    added = labels[[column for column in labels.columns if column not in frame.columns]]
    joined: pd.DataFrame = pd.concat([frame, added], axis=1)
    joined.attrs.update(frame.attrs)
    return joined


def names(labels: pd.DataFrame) -> list[frozenset[str]]:
    """The labels of each row of `labels`: words of `NAMES`, and of `KINDS` (``family:French Defense``)."""
    columns = [[name if holds else None for holds in mask.tolist()] for name, mask in masks(labels).items()]
    columns += [[f"{kind}:{word}" if word else None for word in labels[column]] for kind, column in KINDS.items()]
    return [frozenset(filter(None, row)) for row in zip(*columns, strict=True)]


def masks(labels: pd.DataFrame) -> dict[str, Flags]:
    """[n] which rows of `labels` have each of `NAMES`: as `names`, but a column at a time."""
    return {label.name: label.holds(labels[label.column].to_numpy(object)) for label in LABELS}


# -- the labels -------------------------------------------------------------------------------------------------------


def sign(disagreement: Floats) -> Texts:
    """``optimistic`` where the net's value is above the search's, ``pessimistic`` where it is below."""
    return _pick((disagreement > 0, "optimistic"), (disagreement < 0, "pessimistic"))


def blindness(p: Floats, rank: Floats, full: Flags) -> Texts:
    """Whether the net's policy knows the judge's best move, by its prior `p` and `rank` (1 is the first choice).

    ``value``: it is the first choice, or its prior is at least `VALUE_BLIND`: a search tries the move at once, only its
    value is misjudged. ``policy``: its prior is below `POLICY_BLIND`, or it is not among the eight best moves (NaN,
    where `full` says that all eight are known), so a search rarely tries it. ``partly``: between.
    """
    is_tried = (rank == 1) | (p >= VALUE_BLIND)
    return _pick((is_tried, "value"), ((p < POLICY_BLIND) | (np.isnan(p) & full), "policy"), (~np.isnan(p), "partly"))


def _pick(*choices: tuple[Flags, str]) -> Texts:
    """[n] the word of the first condition that holds, None if no condition does."""
    conditions, words = zip(*choices, strict=True)
    return np.select(conditions, np.array(words, object), np.array(None, object))


def _tactical(boards: Boards, moves: Moves, legal: Moves, offsets: NDArray[np.int64]) -> Flags:
    """[n] whether a move captures or gives check; `legal` are all moves (`board.legal_moves`), others do neither."""
    of_move = np.repeat(np.arange(len(boards)), np.diff(offsets))
    rows = of_move[legal == moves[of_move]]
    after = replay(boards[rows], moves[rows], np.arange(len(rows) + 1))
    tactical = np.zeros(len(boards), np.bool_)
    tactical[rows] = in_check(after) | (piece_counts(after) < piece_counts(boards[rows]))
    return tactical


def _encoded(moves: pd.Series[Any]) -> Moves:
    """[n] moves (UCI) as numbers; 0 without a move, which is a1a1."""
    return encode_moves([move if isinstance(move, str) else "a1a1" for move in moves])


def _priors(store: Store, frame: pd.DataFrame, wanted: Moves) -> tuple[Floats, Floats, Flags]:
    """The net's prior of the `wanted` move [n] of each position, its rank, 1 plus the number of moves with a higher
    prior, and whether a move without a prior (NaN) has a lower one than the eight best, which are all known."""
    query = """
        SELECT v.policy FROM json_each(:ids) j
        LEFT JOIN net_values v ON v.net_id = (SELECT id FROM nets WHERE sha256 = :net) AND v.position_id = j.value
        ORDER BY j.key
    """
    asked = {"ids": json.dumps(frame["position_id"].tolist()), "net": frame.attrs["net"]["sha256"]}
    missing = np.array([(0, np.nan)] * BEST_MOVES, POLICY)
    best = np.tile(missing, (len(frame), 1))
    for row, (blob,) in zip(best, store.connection.execute(query, asked), strict=True):
        known = np.frombuffer(blob or b"", POLICY)
        row[: len(known)] = known
    is_it = (best["move"] == wanted[:, None]) & (wanted != 0)[:, None]
    p = np.where(is_it, best["p"], -np.inf).max(1, initial=-np.inf).astype(np.float64)
    rank = 1.0 + (best["p"] > p[:, None]).sum(1)
    found = is_it.any(1)
    return np.where(found, p, np.nan), np.where(found, rank, np.nan), np.asarray(best["move"][:, -1] != 0)


def _eco_headers(store: Store, frame: pd.DataFrame) -> list[Any]:
    """[n] the header ECO of each row's game; None without one."""
    query = """
        SELECT json_extract(g.headers, '$.ECO') FROM json_each(?) j JOIN games g ON g.id = j.value ORDER BY j.key
    """
    return [row[0] for row in store.connection.execute(query, (json.dumps(frame["game_id"].tolist()),))]
