"""Who was right about a candidate, the net or the search: computed from the raw second looks in a store, never stored.

The exact definition, and what a verdict does not prove, is in docs/methods.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Floats
from valuerepair.chess import values
from valuerepair.engines.kinds import kind_of
from valuerepair.errors import ValueRepairError
from valuerepair.question import QFrom, check_threshold, is_candidate
from valuerepair.rates import Rate, rate_lines, weighted
from valuerepair.store import second_looks
from valuerepair.store.second_looks import Looks, SearchesAfterMoves, StoredOracle
from valuerepair.text import quantity

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.store.store import Store

SEARCH_RIGHT = "search right"
NET_RIGHT = "net right"
UNRESOLVED = "unresolved"
VERDICTS = (SEARCH_RIGHT, NET_RIGHT, UNRESOLVED)
# A second look decides if it lies in one of the outer thirds between the two values, or beyond them.
MARGIN = 1 / 3
_SIZES = (0.7, 1.0, 1.4)
_EVIDENCE = ("second_q", "after_net_q", "after_deep_q", "after_second_q")


def decide(net_q: Floats, deep_q: Floats, second_q: Floats, bound: Floats, claimed: Floats) -> NDArray[np.int8]:
    """[n] 1 for *search right*, -1 for *net right*, 0 for *unresolved*. All values are from the candidate's mover.

    `second_q` decides if it differs from the middle of `net_q` and `deep_q` by at least `MARGIN` of the half distance.
    `bound` is the largest value found after one of the searched moves: the position is worth that or more, so a second
    look below the middle decides nothing if the bound is above it. `claimed` is the value after the move that the
    second look itself prefers: a second look above the middle decides nothing if this value is below it. NaN: not
    searched.
    """
    middle, half = (net_q + deep_q) / 2, np.abs(deep_q - net_q) / 2
    above = second_q - middle
    refuted = np.where(above < 0, bound > middle, claimed < middle)
    # A rounding error must not exclude a look exactly at the border.
    decided = (np.abs(above) >= MARGIN * half - 1e-12) & ~refuted & (half > 0)
    return np.where(decided, np.sign(above) * np.sign(deep_q - net_q), 0).astype(np.int8)


def evidence(store: Store, frame: pd.DataFrame, second: str | None = None) -> pd.DataFrame:
    """The verdicts and their evidence, one row for each row of a frame of `Store.frame` or `Store.candidates`, with its
    index, from the looks of the oracle `second` (its label or digest), by default the one that looked at most rows.

    `second_q`, `after_net_q`, `after_deep_q` (values after the net's and the first look's preferred move) and
    `after_second_q` (after the second look's, if that move was searched) are Q of the candidate's mover, NaN if
    unknown; `second_best` is a UCI move, `second_nodes` the nodes of the look, `looked` whether there was one;
    `verdict` is one of `VERDICTS`, None without a look, for the alpha and the ``q_from`` of the frame. attrs: second
    {label, digest}, None without any look, and its alpha {value, origin}. Raises ValueRepairError for an oracle that
    took no second look.
    """
    ids = frame["position_id"].to_numpy()
    looker = _looker(store, ids, second)
    if looker is None:
        import pandas as pd

        no_looks = pd.DataFrame(columns=[*_EVIDENCE, "second_best", "second_nodes"], dtype=np.float64)
        return _judged(frame, no_looks, second=None, alpha=None)
    net, first = frame.attrs["net"], second_looks.oracle_of(store.connection, frame.attrs["oracle"]["digest"])
    net_id = second_looks.net_number(store.connection, net["sha256"], net["history_fill"])
    alpha = alpha_of_second(store, frame, net_id, first, looker)
    looks = second_looks.looks(store.connection, net_id, first.id, looker.id)
    afters = second_looks.searches_after_moves(store.connection, looker.id)
    by_position = _by_position(looks, afters, alpha, frame.attrs.get("q_from", "cp"))
    second_attrs = {"label": looker.label, "digest": looker.digest}
    return _judged(frame, by_position, second=second_attrs, alpha={"value": alpha.value, "origin": alpha.origin})


def _looker(store: Store, ids: NDArray[np.int64], second: str | None) -> StoredOracle | None:
    """The oracle `second`, or by default the one with the most looks at the positions `ids`; of equal ones the
    newest."""
    lookers = second_looks.second_oracles(store.connection)
    if second is not None:
        matching = [looker for looker in lookers if second.lower() in (looker.label.lower(), looker.digest)]
        if not matching and second not in store.oracles()["digest"].to_numpy():
            labels = ", ".join(looker.label for looker in lookers) or "nobody: run vr confirm"
            raise ValueRepairError(f"{second} took no second look in {store.path}; looks are by {labels}")
        return matching[0] if matching else None
    counts = [
        (int(np.isin(second_looks.looked_at(store.connection, looker.id), ids).sum()), looker) for looker in lookers
    ]
    count, best = max(counts, key=lambda pair: (pair[0], pair[1].id), default=(0, None))
    return best if count else None


def alpha_of_second(
    store: Store, frame: pd.DataFrame, net_id: int, first: StoredOracle, second: StoredOracle
) -> values.Alpha:
    """The alpha for the second look's centipawns, in the order of docs/methods.md, "Second looks".

    The same engine has the first look's alpha. Another engine has its own alpha if that is fitted; otherwise the first
    look's, if the first engine gives centipawns, too.
    """
    first_alpha = values.Alpha(float(frame.attrs["alpha"]["value"]), "the first look's")
    if kind_of(second.kind).gives_q(second.options):
        return values.Alpha(first_alpha.value, values.OWN_Q)
    if frame.attrs.get("q_from") == "wdl":
        return values.Alpha(first_alpha.value, values.OF_WDL)
    if first.engine == second.engine:  # the kind says only how it was named: stockfish: or uci:/usr/games/stockfish
        return first_alpha
    own_alpha = store.alpha(net_id, second.id)
    if kind_of(first.kind).gives_q(first.options) or not own_alpha.origin.startswith("default"):
        return own_alpha
    return values.Alpha(first_alpha.value, "the first look's, of another engine: none is fitted for this one")


def _judged(frame: pd.DataFrame, by_position: pd.DataFrame, **attrs: dict[str, Any] | None) -> pd.DataFrame:
    """`evidence` from the looks of one oracle, with these attrs."""
    import pandas as pd

    rows: pd.DataFrame = by_position.reindex(frame["position_id"])
    rows.index = frame.index
    looked = rows["second_nodes"].notna().to_numpy()
    after_moves = rows[["after_net_q", "after_deep_q", "after_second_q"]]
    decided = decide(
        frame["net_q"].to_numpy(np.float64),
        frame["deep_q"].to_numpy(np.float64),
        rows["second_q"].to_numpy(),
        after_moves.max(axis=1).to_numpy(),
        rows["after_second_q"].to_numpy(),
    )
    # Series of objects: as texts, pandas would turn None into NaN.
    best = [None if cell != cell else cell for cell in rows["second_best"]]
    rows["second_best"] = pd.Series(best, frame.index, object)
    rows["second_nodes"] = rows["second_nodes"].fillna(0).astype(np.int64)
    rows["looked"] = looked
    words = np.array([NET_RIGHT, UNRESOLVED, SEARCH_RIGHT], object)[decided + 1]
    words[~looked] = None
    rows["verdict"] = pd.Series(words, frame.index, object)
    rows.attrs.update(attrs)
    return rows


def _by_position(looks: Looks, afters: SearchesAfterMoves, alpha: values.Alpha, q_from: QFrom) -> pd.DataFrame:
    """The second looks with the values after moves, turned to the candidate's mover; the index is the position."""
    import pandas as pd

    ids = looks.ids.tolist()
    turned = -values.deep_q(afters.scores, alpha.value, q_from)
    after = dict(zip(zip(afters.ids.tolist(), afters.moves, strict=True), turned.tolist(), strict=True))
    columns: dict[str, Any] = {"second_q": values.deep_q(looks.scores, alpha.value, q_from)}
    for column, moves in zip(_EVIDENCE[1:], (looks.net_best, looks.deep_best, looks.best), strict=True):
        columns[column] = [after.get((i, move or ""), np.nan) for i, move in zip(ids, moves, strict=True)]
    columns.update(second_best=np.array([*looks.best, None], object)[:-1], second_nodes=looks.nodes)
    table: pd.DataFrame = pd.DataFrame(columns, index=looks.ids)
    return table


# -- figures ----------------------------------------------------------------------------------------------------------


def figures(store: Store, frame: pd.DataFrame, threshold: float, second: str | None = None) -> dict[str, Any]:
    """How often the search is right about the candidates among the rows of `frame`, as JSON-able data.

    `candidates` and `looked` count rows, `without_q` those whose look gave no score of the requested kind;
    `second` names the oracle that looked (None: there was no look) and `alpha` its alpha. `rates`, `by_sign` and
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
    weights = rows["weight"].to_numpy(np.float64)[looked] if "weight" in rows else np.ones(len(words))
    game = rows["game_id"].to_numpy(np.int64)[looked]

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
