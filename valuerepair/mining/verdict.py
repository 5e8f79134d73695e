"""Who was right about a candidate, the net or the search: computed from second looks in a store, never stored.

A second look is the value of a deeper judge at the same position. See docs/methods.md, "Second looks".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Floats, Ids
from valuerepair.chess import values
from valuerepair.engines.kinds import kind_of
from valuerepair.mining.judges import is_deeper, is_same_search
from valuerepair.question import check_threshold, is_candidate
from valuerepair.rates import Rate, rate_lines, weighted
from valuerepair.store import alpha as alphas
from valuerepair.store.pairs import fitting_judges, judge_of, judges, pick
from valuerepair.store.rows import StoredJudge
from valuerepair.text import quantity

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.store.store import Store

SEARCH_RIGHT = "search right"
NET_RIGHT = "net right"
UNRESOLVED = "unresolved"
VERDICTS = (SEARCH_RIGHT, NET_RIGHT, UNRESOLVED)
_SIZES = (0.7, 1.0, 1.4)


def decide(net_q: Floats, deep_q: Floats, second_q: Floats) -> NDArray[np.int8]:
    """[n] 1 for *search right*, -1 for *net right*, 0 for *unresolved*.

    A second look decides for the value in whose third it lies of the way from net Q to deep Q, or beyond it.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        way = (second_q - net_q) / (deep_q - net_q)
    # A rounding error must not exclude a look exactly at the border.
    decided = np.where(way >= 2 / 3 - 1e-12, 1, np.where(way <= 1 / 3 + 1e-12, -1, 0))
    return np.where(net_q == deep_q, 0, decided).astype(np.int8)


def evidence(store: Store, frame: pd.DataFrame, second: str | None = None) -> pd.DataFrame:
    """The verdicts and their evidence, one row for each row of a frame (`store.view.frame`), with its index.

    The looks are those of the judge that `second` names, by default of the one that looked at most rows. `second_q` is
    Q of the side to move, NaN if unknown; `second_best` a UCI move, `second_nodes` the nodes of the look, `looked`
    whether there was one; `verdict` is one of `VERDICTS`, None without a look, by the alpha and the ``q_from`` of the
    frame. attrs: second {label, digest}, None without any look, and its alpha {value, origin}. Raises ValueRepairError
    for a judge that is not in the store.
    """
    import pandas as pd

    pair = pick(store, frame.attrs["net"]["sha256"], frame.attrs["oracle"]["digest"])
    ids = frame["position_id"].to_numpy(np.int64)
    listed = json.dumps(ids.tolist())
    looks = [(judge, _looks(store, judge, listed)) for judge in second_judges(store, pair[1], second)]
    judge, rows = max(looks, key=lambda look: (len(look[1]), look[0].id), default=(None, []))
    alpha = None if judge is None or not rows else _alpha(store, frame, pair, judge)
    of_row = {row[0]: row[1:] for row in rows}
    cells = [of_row.get(i, (None, 0, *[None] * 6)) for i in ids.tolist()]
    second_q = np.full(len(ids), np.nan)
    if alpha is not None:
        scores = np.array([row[2:] for row in cells], np.float64).reshape(-1, 6)
        second_q = values.deep_q(scores, alpha.value, frame.attrs["q_from"])
    looked = np.isin(ids, [*of_row])
    words = np.array([NET_RIGHT, UNRESOLVED, SEARCH_RIGHT], object)
    verdict = words[decide(frame["net_q"].to_numpy(np.float64), frame["deep_q"].to_numpy(np.float64), second_q) + 1]
    verdict[~looked] = None
    result: pd.DataFrame = pd.DataFrame(
        {
            "second_q": second_q,
            "second_best": pd.Series([row[0] for row in cells], frame.index, object),
            "second_nodes": np.array([row[1] for row in cells], np.int64),
            "looked": looked,
            "verdict": pd.Series(verdict, frame.index, object),
        },
        frame.index,
    )
    has_looks = judge is not None and alpha is not None
    result.attrs["second"] = {"label": judge.label, "digest": judge.digest} if judge is not None and has_looks else None
    result.attrs["alpha"] = None if alpha is None else {"value": alpha.value, "origin": alpha.origin}
    return result


def second_judges(store: Store, first_id: int, words: str | None = None) -> list[StoredJudge]:
    """The judges of the store that look deeper than the first: those of second looks (`mining.again`), and the same
    search with more nodes; or the ones that `words` fit."""
    first = judge_of(store, first_id)
    if words is not None:
        return [judge for judge in fitting_judges(store, words) if judge.id != first_id]
    query = "SELECT DISTINCT json_extract(options, '$.second') FROM runs WHERE json_extract(options, '$.first') = ?"
    used = {row[0] for row in store.connection.execute(query, (first.digest,))}
    return [
        judge
        for judge in judges(store)
        if judge.digest in used or (is_same_search(first, judge) and is_deeper(first, judge))
    ]


def _looks(store: Store, judge: StoredJudge, ids: str) -> list[tuple[Any, ...]]:
    """position_id, best move, nodes and scores of a judge's values of these positions, a JSON list."""
    query = """
        SELECT position_id, best_move, nodes, cp, mate, w, d, l, q FROM deep_values
        WHERE judge_id = ? AND failed IS NULL AND position_id IN (SELECT value FROM json_each(?))
    """
    return store.connection.execute(query, (judge.id, ids)).fetchall()


def _alpha(store: Store, frame: pd.DataFrame, pair: tuple[int, int], second: StoredJudge) -> values.Alpha:
    """The alpha for the second look's centipawns: that of the first look, unless another engine has one of its own."""
    first = judge_of(store, pair[1])
    of_first = values.Alpha(float(frame.attrs["alpha"]["value"]), "the first look's")
    if kind_of(second.kind).gives_q(second.options):
        return values.Alpha(of_first.value, values.OWN_Q)
    if frame.attrs["q_from"] == "wdl":
        return values.Alpha(of_first.value, values.OF_WDL)
    if first.engine == second.engine:  # the kind says only how it was named: stockfish: or uci:/usr/games/stockfish
        return of_first
    own = alphas.alpha(store, (pair[0], second.id))
    if kind_of(first.kind).gives_q(first.options) or not own.origin.startswith("default"):
        return own
    return values.Alpha(of_first.value, "the first look's, of another engine: none is fitted for this one")


# -- figures ----------------------------------------------------------------------------------------------------------


def figures(store: Store, frame: pd.DataFrame, threshold: float, second: str | None = None) -> dict[str, Any]:
    """How often the search is right about the candidates among the rows of `frame`, as JSON-able data.

    `candidates` and `looked` count rows, `without_q` those whose look gave no score of the requested kind;
    `second` names the judge that looked (None: there was no look) and `alpha` its alpha. `rates`, `by_sign` and
    `by_size` (of the disagreement) give for each verdict the share of those looked at, with a 95 % interval by games,
    weighted by the frame's weights.
    """
    check_threshold(threshold)
    rows = frame[is_candidate(frame["disagreement"], threshold)]
    judged = evidence(store, rows, second)
    looked = judged["looked"].to_numpy(np.bool_)
    counted: dict[str, Any] = {
        "threshold": threshold,
        "candidates": len(rows),
        "looked": int(looked.sum()),
        "without_q": int(judged["second_q"].isna()[looked].sum()),
        "second": judged.attrs["second"],
        "alpha": judged.attrs["alpha"],
    }
    if not counted["looked"]:
        return counted
    words = judged["verdict"].to_numpy(object)[looked]
    disagreement = rows["disagreement"].to_numpy(np.float64)[looked]
    weights = rows["weight"].to_numpy(np.float64)[looked]
    game: Ids = rows["game_id"].to_numpy(np.int64)[looked]

    def shares(members: NDArray[np.bool_]) -> dict[str, Any]:
        return {
            verdict: weighted(words[members] == verdict, weights[members], game[members]).figures("count", "total")
            for verdict in VERDICTS
        }

    counted["rates"] = shares(np.full(len(words), True))
    counted["by_sign"] = [
        {"sign": "optimistic", **shares(disagreement > 0)},
        {"sign": "pessimistic", **shares(disagreement < 0)},
    ]
    edges = [threshold, *(size for size in _SIZES if size > threshold), 2.0]
    sizes = np.digitize(np.abs(disagreement), edges[1:-1])
    counted["by_size"] = [
        {"low": low, "high": high, **shares(sizes == i)} for i, (low, high) in enumerate(pairwise(edges))
    ]
    return counted


def lines(figures: Mapping[str, Any]) -> list[str]:
    """The figures as text for a terminal; nothing without candidates."""
    if not figures["candidates"]:
        return []
    of_all = f"{quantity(figures['candidates'], 'candidate')} at {figures['threshold']:g}"
    if not figures["looked"]:
        return [f"second looks: none yet at the {of_all} (vr confirm)"]
    source = values.Alpha(**figures["alpha"]).source()
    text = [f"second looks by {figures['second']['label']}, {source}"]
    text.append(f"{figures['looked']:,} of {of_all} looked at")
    if figures["looked"] < figures["candidates"]:
        text[-1] += ": the shares are of these, which are not a sample of all (the worst are looked at first)"
    if figures["without_q"]:
        text.append(f"{figures['without_q']:,} looks have no Q of the requested kind: unresolved")
    text += rate_lines("verdict", ((word, Rate.of_figures(figures["rates"][word])) for word in VERDICTS))
    text += _table("search right, by sign", figures["by_sign"], lambda row: str(row["sign"]))
    return text + _table(
        "search right, by disagreement", figures["by_size"], lambda row: f"{row['low']:g} to {row['high']:g}"
    )


def _table(title: str, rows: Iterable[dict[str, Any]], name: Callable[[dict[str, Any]], str]) -> list[str]:
    filled = [row for row in rows if row[SEARCH_RIGHT]["total"]]
    return rate_lines(title, ((name(row), Rate.of_figures(row[SEARCH_RIGHT])) for row in filled))
