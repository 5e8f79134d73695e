"""Statistics of a store, as figures and as lines: counts, rates, labels, second looks, games played."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Flags, Floats, Ids
from valuerepair.chess import values
from valuerepair.chess.origins import BESIDE
from valuerepair.chess.positions import PHASES
from valuerepair.judge import verdict
from valuerepair.judge.labelled import has_policy, labels_of, masks, names
from valuerepair.judge.labels import KINDS, NAMES, OF_POLICY
from valuerepair.question import Question, is_candidate
from valuerepair.rates import Rate, loose_bound_words, mean, rate_lines, weighted, wilson
from valuerepair.screening import recall
from valuerepair.store import schema
from valuerepair.store.columns import KIND
from valuerepair.store.plays import outcomes
from valuerepair.store.queries import net_label, snapshot, table
from valuerepair.store.selection import other_ladders
from valuerepair.text import finite, format_duration, format_nodes, format_rate, json_fields, quantity

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.store.store import Store


# Joined with `oracles`, so that SQLite uses the key of `deep_values`, which begins with the oracle.
ANY_SCORED = """
SELECT EXISTS (SELECT 1 FROM oracles o CROSS JOIN deep_values v ON v.oracle_id = o.id
               AND v.stage IN ('full', 'expanded'))
"""
OF_KINDS = "SELECT kind, count(*) FROM positions WHERE kind IS NOT 'game' GROUP BY kind"
# Reads the game's key with its number: reading it later would take a second pass over the positions.
_COLUMNS = ("position_id", "disagreement", "weight", "phase_code", "side_code", "nodes", "time_ms", "game_id")
THRESHOLDS = (0.3, 0.4, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 1.0)


@dataclass(frozen=True)
class StoreStats:
    """The content of a store: `figures` (`store_figures` and `sections`, JSON-able), and the `text` of `vr stats`."""

    figures: dict[str, Any]
    text: Sequence[str]

    def lines(self) -> list[str]:
        """The figures as text for a terminal."""
        return list(self.text)

    def details(self) -> list[str]:
        """Where screening cut positions, as text."""
        scored = self.figures["scored"]
        return recall.cut_lines(scored["screening"]) if scored and scored["screening"] else []

    def as_json(self) -> dict[str, Any]:
        """The figures."""
        return self.figures


def store_figures(store: Store, question: Question | None = None) -> dict[str, Any]:
    """Figures of a store, JSON-able.

    Keys: store, schema, positions, games, sources, nets, oracles, runs, scored. `scored` (see `_scored`) is
    None while the question's net and oracle have scored no position. Rates are fractions with 95 % intervals by games
    (`rates.weighted`). They count positions of games only, whatever `question.expanded` is; the key `beside` of
    `scored` has the rates of each kind of position beside the games.
    """
    with snapshot(store.connection):
        return _figures(store, question or Question())


def _figures(store: Store, question: Question) -> dict[str, Any]:
    connection = store.connection
    (positions, games, sources) = connection.execute(
        "SELECT (SELECT count(*) FROM positions), (SELECT count(*) FROM games), "
        "(SELECT count(DISTINCT source) FROM games)"
    ).fetchone()
    any_scored = connection.execute(ANY_SCORED).fetchone()[0]
    scored = None
    if any_scored or question.net or question.oracle:
        scored = _scored(store, replace(question, expanded="no"))
    return {
        "store": store.path,
        "schema": schema.SCHEMA_VERSION,
        "positions": positions,
        "games": games,
        "sources": sources,
        "nets": store.nets().to_dict("records"),
        "oracles": store.oracles().to_dict("records"),
        "runs": _runs(store),
        "scored": scored,
    }


def _runs(store: Store) -> list[dict[str, Any]]:
    query = "SELECT id, command, seed, started, finished, state, counts FROM runs ORDER BY id"
    names = ("id", "command", "seed", "started", "finished", "state")
    return [
        {**dict(zip(names, row[:6], strict=True)), "counts": json.loads(row[6])}
        for row in store.connection.execute(query)
    ]


def _scored(store: Store, question: Question) -> dict[str, Any]:
    """Rates of candidates among the positions scored by one net and oracle, with the cost of the search.

    Positions without a Q of the kind `question.q_from` count only in `without_q`.
    """
    columns, attrs = table(store.connection, question, _COLUMNS)
    positions, with_q = len(columns["position_id"]), np.flatnonzero(~np.isnan(columns["disagreement"]))
    usable = columns if len(with_q) == positions else {name: column[with_q] for name, column in columns.items()}
    disagreement, weight, game = usable["disagreement"], usable["weight"], usable["game_id"]
    size, threshold = np.abs(disagreement), question.threshold
    hits = is_candidate(disagreement, threshold)
    net_id, oracle_id = store.pick(attrs["net"]["sha256"], attrs["oracle"]["digest"])
    seconds, nodes = float(columns["time_ms"].sum()) / 1000, int(columns["nodes"].sum())
    scale = store.training_scale(net_id, oracle_id, question)
    chosen_by = other_ladders(store.connection, oracle_id, net_id) if np.any(weight != 1) else []
    return {
        **attrs,
        "positions": positions,
        "without_q": positions - len(with_q),
        "failed": _failures(store, oracle_id),
        "threshold": threshold,
        "by_threshold": [
            {"threshold": limit, **_candidate_rate(is_candidate(disagreement, limit), weight, game)}
            for limit in sorted({*THRESHOLDS, threshold})
        ],
        "by_phase": _by("phase", PHASES, usable["phase_code"], hits, weight, game),
        "by_side": _by("side", ("w", "b"), usable["side_code"], hits, weight, game),
        "by_sign": [
            {"sign": "optimistic", **_candidate_rate(hits & (disagreement > 0), weight, game)},
            {"sign": "pessimistic", **_candidate_rate(hits & (disagreement < 0), weight, game)},
        ],
        "beside": _beside(store, question),
        "training_scale": None if scale is None else scale.figures(),
        "mean_abs_disagreement": float(size @ weight / weight.sum()) if len(with_q) else None,
        "screening": recall.figures(store, net_id, oracle_id, columns, threshold),
        # The other nets whose ladders chose the positions, if this net has no ladder.
        "screened_for": [net_label(store.connection, net) for net in chosen_by],
        "nodes": nodes,
        "search_seconds": seconds,
        "nodes_per_second": nodes / seconds if seconds else None,
    }


def _beside(store: Store, question: Question) -> list[dict[str, Any]]:
    """A row for each kind of position beside the games: its `positions`, and the candidates of the scored ones."""
    counts = dict(store.connection.execute(OF_KINDS).fetchall())
    present = [kind for kind in BESIDE if kind in counts]
    if not present:  # avoids reading all positions beside the games
        return []
    all_kinds = replace(question, expanded="searched")
    columns, _ = table(store.connection, all_kinds, (KIND, "disagreement", "game_id"))
    rows = []
    for kind in present:
        members = (columns[KIND] == kind) & ~np.isnan(columns["disagreement"])
        hits = is_candidate(columns["disagreement"][members], question.threshold)
        rate = _candidate_rate(hits, np.ones(len(hits)), columns["game_id"][members])
        rows.append({"kind": kind, "positions": counts[kind], **rate})
    return rows


def _failures(store: Store, oracle_id: int) -> int:
    """The number of positions on which this oracle failed."""
    failed_searches = "SELECT count(*) FROM failures WHERE oracle_id = ? AND stage = 'full'"
    (count,) = store.connection.execute(failed_searches, (oracle_id,)).fetchone()
    return int(count)


def _by(
    column: str, groups: Sequence[str], codes: NDArray[np.int8], hits: Flags, weight: Floats, game: Ids
) -> list[dict[str, Any]]:
    members = [np.flatnonzero(codes == code) for code, _ in enumerate(groups)]
    return [
        {column: group, **_candidate_rate(hits[rows], weight[rows], game[rows])}
        for group, rows in zip(groups, members, strict=True)
    ]


def _candidate_rate(hits: Flags, weight: Floats, game: Ids) -> dict[str, Any]:
    """The weighted rate, which a ladder's cuts do not bias; `candidates` and `scored` count rows; see `Rate`."""
    rate = weighted(hits, weight, game)
    return {**rate.figures("candidates", "scored"), "few_drawn": rate.few_drawn}


# -- lines ------------------------------------------------------------------------------------------------------------

# A share is printed as a number out of the first of these that makes it at least 5: 13 of 10,000, not 1 of 1,000.
_OUT_OF = (1_000, 10_000, 100_000, 1_000_000)
_FEWEST = 5


def headline(figures: dict[str, Any]) -> str:
    """The main result of `store_figures` in one sentence: the rate of candidates at the threshold, by weight.

    "22 of 1,000 positions of these games are misjudged by 0.55 or more (19 to 26)", with the 95 % interval of the
    rate in brackets; empty if no position has both values.
    """
    scored = figures["scored"]
    if scored is None:
        return ""
    threshold, row = scored["threshold"], _at_threshold(scored)
    if row["rate"] is None:
        return ""
    misjudged = f"misjudged by {threshold:g} or more"
    if not row["candidates"]:
        most = _out_of(row["high"])
        return f"No position of these games was found to be {misjudged} (at most {row['high'] * most:,.0f} of {most:,})"
    per = _out_of(row["rate"])
    count, low, high = (f"{row[name] * per:,.0f}" for name in ("rate", "low", "high"))
    return f"{count} of {per:,} positions of these games are {misjudged} ({low} to {high})"


def _at_threshold(scored: dict[str, Any]) -> dict[str, Any]:
    """The row of the question's own threshold."""
    return next(row for row in scored["by_threshold"] if row["threshold"] == scored["threshold"])


def _out_of(rate: float) -> int:
    return next((per for per in _OUT_OF if rate * per >= _FEWEST), _OUT_OF[-1])


def stats_lines(figures: dict[str, Any]) -> list[str]:
    """The figures as text for a terminal."""
    sentence = headline(figures)
    few_drawn = _at_threshold(figures["scored"])["few_drawn"] if sentence else None
    why_loose = [f"  ({loose_bound_words(few_drawn)})"] if few_drawn else []  # on the interval's upper bound
    lines = [
        *([sentence, *why_loose, ""] if sentence else []),
        f"{figures['store']}: {figures['positions']:,} positions from {figures['games']:,} games; "
        f"files: {figures['sources']:,}, runs: {len(figures['runs'])}",
    ]
    counts = [("net    ", net["name"], net["sha256"], "evaluated", net) for net in figures["nets"]]
    counts += [("oracle ", oracle["label"], oracle["digest"], "scored", oracle) for oracle in figures["oracles"]]
    for kind, name, digest, done, row in counts:
        failed = f", {row['failed']:,} failed" if row.get("failed") else ""
        lines.append(f"  {kind} {name}  {digest[:12]}  {row[done]:,} {done}{failed}")
    scored = figures["scored"]
    if scored is None:
        return [*lines, "Nothing is scored yet. Next: vr mine ARCHIVE"]
    return [*lines, "", *_scored_lines(scored)]


def _scored_lines(scored: dict[str, Any]) -> list[str]:
    source = values.Alpha(**scored["alpha"]).source(scored["q_from"])
    lines = [
        f"{scored['net']['name']} against {scored['oracle']['label']}, {source}",
        "; ".join([f"{scored['positions']:,} positions scored in full", *_cost(scored)]),
    ]
    if scored["without_q"]:
        lines.append(f"{scored['without_q']:,} of them have no Q of the requested kind and are left out below")
    if scored["training_scale"] is not None:
        lines.append(f"training: {scored['training_scale']['words']}")
    lines += _table("threshold", scored["by_threshold"], lambda row: f"{row['threshold']:g}")
    at = f"at {scored['threshold']:g}"
    sides = {"w": "White to move", "b": "Black to move"}
    lines += _table(f"phase {at}", scored["by_phase"], lambda row: str(row["phase"]))
    lines += _table(f"side {at}", scored["by_side"], lambda row: sides[row["side"]])
    lines += _table(f"sign {at}", scored["by_sign"], lambda row: str(row["sign"]))
    if scored["beside"]:
        games_rate = _at_threshold(scored)["rate"]
        against = "" if games_rate is None else f", against {100 * games_rate:.2f} % in the games"
        lines += _table(f"beside the games {at}{against}", scored["beside"], lambda row: str(row["kind"]))
    if scored["screening"] is not None:
        lines += recall.lines(scored["screening"])
    if scored["screened_for"]:
        nets = ", ".join(scored["screened_for"])
        lines += ["", f"screened for {nets}: by that ladder's probabilities, these positions stand for all"]
    return lines


def _cost(scored: dict[str, Any]) -> list[str]:
    """The cost of the searches; recorded values often have neither time nor nodes."""
    if not scored["search_seconds"]:
        return [format_nodes(scored["nodes"])] if scored["nodes"] else []
    time = f"{format_nodes(scored['nodes'])} in {format_duration(scored['search_seconds'])} of searching"
    return [f"{time}, {format_rate(scored['nodes_per_second'])} an engine" if scored["nodes_per_second"] else time]


def _table(title: str, rows: list[dict[str, Any]], name: Callable[[dict[str, Any]], str]) -> list[str]:
    return rate_lines(title, ((name(row), Rate.of_figures(row, "candidates", "scored")) for row in rows))


def sections(store: Store, frame: pd.DataFrame, threshold: float, labels: pd.DataFrame | None = None) -> dict[str, Any]:
    """The sections `labels`, `confirmed` and `played` of `vr stats`, JSON-able.

    `frame` has the candidates at `threshold` (`Store.candidates`), `labels` their labels (`labels_of`), if already
    computed.
    """
    labels = labels_of(store, frame) if labels is None else labels
    return {
        "labels": label_figures(store, frame, threshold, labels),
        "confirmed": verdict.figures(store, frame, threshold),
        "played": outcome_figures(store, frame),
    }


def section_lines(sections: dict[str, Any]) -> list[str]:
    """The sections as text for a terminal; empty without candidates."""
    confirmed = verdict.lines(sections["confirmed"])
    return [
        *label_lines(sections["labels"]),
        *([""] if confirmed and confirmed[0] else []),
        *confirmed,
        *outcome_lines(sections["played"]),
    ]


# The number of families and signatures to show, the most frequent ones.
MOST_SHOWN = 6
_QUANTILES = (0.1, 0.5, 0.9)


def label_figures(
    store: Store, frame: pd.DataFrame, threshold: float, computed: pd.DataFrame | None = None
) -> dict[str, Any]:
    """The shares of labels among the candidates at `threshold` in `frame` (see `Store.frame`, with texts), JSON-able.

    `rates`, `openings` and `pieces` (the most frequent families of both) have for each label `count`, `total`, `rate`,
    `low` and `high`: the share of the candidates with the label, weighted by the frame's weights, and its 95 %
    interval, by games. The three labels of blindness are shares of the `with_priors` candidates with a known policy;
    for `lacking_priors` others it is not stored.
    `disagreement` (|net Q - deep Q|) and `wdl_kl` (nats) have the 10th, 50th and 90th percentile over the `with_wdl`
    candidates with both W/D/L. `computed` are the labels of the frame's rows (`labels_of`), if already computed.
    """
    rows = frame[is_candidate(frame["disagreement"], threshold)]
    labels = labels_of(store, rows) if computed is None else computed.loc[rows.index]
    weights = rows["weight"].to_numpy(np.float64) if "weight" in rows else np.ones(len(rows))
    game = rows["game_id"].to_numpy(np.int64)
    by_label, has_priors = masks(labels), labels["oracle_move_p"].notna().to_numpy()
    everywhere = np.ones(len(rows), np.bool_)
    measured = labels["wdl_kl"].notna().to_numpy()
    return {
        "threshold": threshold,
        "candidates": len(rows),
        "with_priors": int(has_priors.sum()),
        "lacking_priors": int((~has_priors).sum()) if has_policy(frame) else 0,
        "rates": [
            _label_rate(name, by_label[name], has_priors if name in OF_POLICY else everywhere, weights, game)
            for name in NAMES
        ],
        "openings": _frequent("family", labels, weights, game),
        "pieces": _frequent("pieces", labels, weights, game),
        "with_wdl": int(measured.sum()),
        "disagreement": _quantiles(rows["disagreement"].abs().to_numpy(np.float64)[measured]),
        "wdl_kl": _quantiles(labels["wdl_kl"].to_numpy(np.float64)[measured]),
    }


def label_lines(figures: dict[str, Any]) -> list[str]:
    """The figures as text for a terminal; empty without candidates."""
    if not figures["candidates"]:
        return []
    title = f"label, of {quantity(figures['candidates'], 'candidate')} at {figures['threshold']:g}"
    lines = rate_lines(title, ((row["label"], Rate.of_figures(row)) for row in figures["rates"] if row["count"]), 24)
    if figures["lacking_priors"]:
        with_priors = figures["with_priors"]
        lines.append(f"  the policy's blindness is known of {with_priors:,} of them")
    for key, title in (("openings", "opening family"), ("pieces", "pieces besides pawns")):
        several = [(row["label"].partition(":")[2], Rate.of_figures(row)) for row in figures[key] if row["count"] > 1]
        if several:
            lines += rate_lines(title, several, 24)
    if figures["with_wdl"]:
        gap, kl = (" / ".join(f"{x:.2f}" for x in figures[key]) for key in ("disagreement", "wdl_kl"))
        lines += ["", f"|net Q - deep Q| {gap}, KL(deep W/D/L || net's) {kl} nats (10th / 50th / 90th percentile)"]
    return lines


def _label_rate(name: str, hits: Flags, rows: Flags, weights: Floats, game: Ids) -> dict[str, Any]:
    rate = weighted(hits[rows], weights[rows], game[rows])
    return {"label": name, **rate.figures("count", "total")}


def _frequent(prefix: str, labels: pd.DataFrame, weights: Floats, game: Ids) -> list[dict[str, Any]]:
    words = labels[KINDS[prefix]].to_numpy(object)
    counts = Counter(word for word in words if word)
    first = sorted(counts, key=lambda word: (-counts[word], word))[:MOST_SHOWN]
    everywhere = np.ones(len(words), np.bool_)
    return [
        _label_rate(f"{prefix}:{word}", np.asarray(words == word, np.bool_), everywhere, weights, game)
        for word in first
    ]


def _quantiles(values: NDArray[np.float64]) -> list[float]:
    return np.quantile(values, _QUANTILES).tolist() if len(values) else []


def label_rows(store: Store, frame: pd.DataFrame) -> list[dict[str, Any]]:
    """One JSON-able object for each row of a frame (`Store.candidates`): the position, its values and its labels.

    `labels` are the words of `labelled.names`; missing numbers are None.
    """
    if not len(frame):
        return []
    labels = labels_of(store, frame)
    rows = []
    for row, label, words in zip(frame.to_dict("records"), labels.to_dict("records"), names(labels), strict=True):
        numbers = {name: label[name] for name in ("oracle_move_p", "oracle_move_rank", "wdl_kl")}
        rows.append(
            {
                "position_id": row["position_id"],
                "fen": row["fen"],
                "net_q": row["net_q"],
                "deep_q": row["deep_q"],
                "net_best": row["net_best"],
                "deep_best": row["deep_best"],
                **json_fields(numbers),
                "opening": label["opening"],
                "labels": sorted(words),
            }
        )
    return rows


def label_table(rows: list[dict[str, Any]]) -> list[str]:
    """The rows as text for a terminal, two lines each; Q of the side to move, p of the search's best move."""
    if not rows:
        return []
    lines = ["net Q  deep Q  search's best, its prior (rank)"]
    for row in rows:
        p, rank = row["oracle_move_p"], row["oracle_move_rank"]
        prior = "prior not known" if p is None else f"{100 * p:.1f} % ({rank:.0f})"
        words = ", ".join(word for word in row["labels"] if ":" not in word)
        lines.append(f"{row['net_q']:+.2f}  {row['deep_q']:+.2f}   {row['deep_best'] or '-':<6}{prior:<16}{words}")
        lines.append(f"       {row['fen']}" + (f"  {row['opening']}" if row["opening"] else ""))
    return lines


def outcome_figures(store: Store, frame: pd.DataFrame) -> dict[str, Any] | None:
    """Compares the results Z of games from the candidates in `frame` with Q_net and Q_deep; None without games.

    A position counts once, with the mean Z of its decided games, for its side to move. `deep_nearer` is the share with
    Q_deep nearer to Z than Q_net, with Wilson's interval. `net_error` and `deep_error` are mean squares of Z - Q,
    `gain` their difference with the normal interval over positions (`gain_low`, `gain_high`: None for one position).
    """
    results = outcomes(store)
    usable = frame[~np.isnan(frame["disagreement"])].set_index("position_id")
    in_frame = np.isin(results.ids, usable.index.to_numpy())
    if not in_frame.any():
        return None
    rows = usable.loc[results.ids[in_frame]]
    z, net, deep = results.z[in_frame], rows["net_q"].to_numpy(), rows["deep_q"].to_numpy()
    nearer = wilson(int(np.count_nonzero(np.abs(z - deep) < np.abs(z - net))), len(z))
    errors = (z - net) ** 2 - (z - deep) ** 2
    gain = mean(errors, np.ones(len(errors)), results.ids[in_frame])
    return {
        "positions": len(z),
        "games": int(results.games[in_frame].sum()),
        "z": float(z.mean()),
        "net_q": float(net.mean()),
        "deep_q": float(deep.mean()),
        "deep_nearer": nearer.figures("count"),
        "net_error": float(((z - net) ** 2).mean()),
        "deep_error": float(((z - deep) ** 2).mean()),
        "gain": gain.difference,
        "gain_low": finite(gain.low),
        "gain_high": finite(gain.high),
    }


def outcome_lines(figures: dict[str, Any] | None) -> list[str]:
    """The figures as text; empty without games."""
    if figures is None:
        return []
    rate = Rate.of_figures({**figures["deep_nearer"], "total": figures["positions"]})
    lines = [
        "",
        f"games from candidates: {figures['games']:,} decided from {figures['positions']:,} positions "
        f"(mean Z {figures['z']:+.3f}, Q_net {figures['net_q']:+.3f}, Q_deep {figures['deep_q']:+.3f})",
        f"  Z nearer to Q_deep than to Q_net: {rate}",
    ]
    gain = f"  mean square of Z - Q: net {figures['net_error']:.3f}, deep {figures['deep_error']:.3f}"
    if figures["gain_low"] is not None:
        gain += f"; less by {figures['gain']:+.3f} (95 %: {figures['gain_low']:+.3f} to {figures['gain_high']:+.3f})"
    return [*lines, gain]
