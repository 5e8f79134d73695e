"""Statistics of a store, as figures and as lines: counts, rates, labels, second looks, games played."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from valuerepair.arrays import Flags, Floats, Ids
from valuerepair.chess import values
from valuerepair.chess.origins import BESIDE
from valuerepair.chess.positions import PHASES
from valuerepair.measure.labels import KINDS, NAMES, OF_POLICY, labels_of, masks, names
from valuerepair.mining import verdict
from valuerepair.mining.screening import screened_of
from valuerepair.question import Question, is_candidate
from valuerepair.rates import Rate, loose_bound_words, mean, rate_lines, weighted, wilson
from valuerepair.store import alpha as alphas
from valuerepair.store import view
from valuerepair.store.columns import both_q, columns
from valuerepair.store.pairs import Pair, pair_of
from valuerepair.store.plays import outcomes
from valuerepair.text import finite, format_duration, format_nodes, format_rate, json_fields, quantity

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.store.store import Store

THRESHOLDS = (0.3, 0.4, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 1.0)
_NETS = """
SELECT sha256, name, value_head, input_format, size,
    (SELECT count(*) FROM net_values v WHERE v.net_id = n.id) AS evaluated
FROM nets n ORDER BY id
"""
_JUDGES = """
SELECT digest, label, kind, engine, limits, options, count(v.judge_id) - count(v.failed) AS scored,
    count(v.failed) AS failed
FROM judges j LEFT JOIN deep_values v ON v.judge_id = j.id GROUP BY j.id ORDER BY j.id
"""
_RUNS = "SELECT id, command, started, finished, state, counts FROM runs ORDER BY id"
_JSON = ("limits", "options", "counts")


@dataclass(frozen=True)
class StoreStats:
    """The content of a store: `figures` (`store_figures` and `sections`, JSON-able), and the `text` of `vr stats`."""

    figures: dict[str, Any]
    text: Sequence[str]

    def lines(self) -> list[str]:
        """The figures as text for a terminal."""
        return list(self.text)

    def details(self) -> list[str]:
        """What screening left out and saved, as text."""
        scored = self.figures["scored"]
        return list(scored["screening"]["words"]) if scored and scored["screening"] else []

    def as_json(self) -> dict[str, Any]:
        """The figures."""
        return self.figures


def store_figures(store: Store, question: Question | None = None) -> dict[str, Any]:
    """Figures of a store, JSON-able.

    Keys: store, positions, games, sources, nets, oracles, runs, scored. `scored` (see `_scored`) is None while no
    position has both values. Rates are fractions with 95 % intervals by games (`rates.weighted`). They count
    positions of games only; the key `beside` of `scored` has the rates of each kind of position beside the games.
    Raises ValueRepairError if the question names a net or a judge that has no values.
    """
    asked = question or Question()
    with store.snapshot():
        counts = store.connection.execute(
            "SELECT (SELECT count(*) FROM positions), (SELECT count(*) FROM games), "
            "(SELECT count(DISTINCT source) FROM games)"
        ).fetchone()
        pair = pair_of(store, asked.net, asked.oracle)
        return {
            "store": store.path,
            **dict(zip(("positions", "games", "sources"), counts, strict=True)),
            "nets": _records(store, _NETS),
            "oracles": _records(store, _JUDGES),
            "runs": _records(store, _RUNS),
            "scored": None if pair is None else _scored(store, pair, asked),
        }


def _records(store: Store, query: str) -> list[dict[str, Any]]:
    cursor = store.connection.execute(query)
    names = [column[0] for column in cursor.description]
    return [
        {name: json.loads(cell) if name in _JSON else cell for name, cell in zip(names, row, strict=True)}
        for row in cursor
    ]


def _scored(store: Store, pair: Pair, question: Question) -> dict[str, Any]:
    """Rates of candidates among the positions scored by one net and judge, with the cost of the search.

    Positions without a Q of the kind `question.q_from` count only in `without_q`.
    """
    used = alphas.alpha(store, pair, question.alpha)
    read = columns(store, pair, ("weight", "phase_code", "side_code", "nodes", "time_ms", "game_id"))
    net_q, deep_q = both_q(store, pair, used.value, question.q_from)
    with_q = ~np.isnan(net_q - deep_q)
    disagreement = (net_q - deep_q)[with_q]
    weight, game = read["weight"][with_q], read["game_id"][with_q]
    size, threshold = np.abs(disagreement), question.threshold
    hits = is_candidate(disagreement, threshold)
    seconds, nodes = float(read["time_ms"].sum()) / 1000, int(read["nodes"].sum())
    scale = alphas.training_scale(store, pair, used, question.q_from)
    screened = screened_of(store, pair, used.value, question.q_from, threshold)
    failed = """
        SELECT count(*) FROM deep_values v JOIN positions p ON p.id = v.position_id AND p.origin = 'game'
        WHERE v.judge_id = ? AND v.failed IS NOT NULL
    """
    return {
        **view.attrs(store, pair, question, used),
        "positions": len(with_q),
        "without_q": int((~with_q).sum()),
        "failed": store.connection.execute(failed, pair[1:]).fetchone()[0],
        "threshold": threshold,
        "by_threshold": [
            {"threshold": limit, **_candidate_rate(is_candidate(disagreement, limit), weight, game)}
            for limit in sorted({*THRESHOLDS, threshold})
        ],
        "by_phase": _by("phase", PHASES, read["phase_code"][with_q], hits, weight, game),
        "by_side": _by("side", ("w", "b"), read["side_code"][with_q], hits, weight, game),
        "by_sign": [
            {"sign": "optimistic", **_candidate_rate(hits & (disagreement > 0), weight, game)},
            {"sign": "pessimistic", **_candidate_rate(hits & (disagreement < 0), weight, game)},
        ],
        "beside": _beside(store, pair, used.value, question),
        "training_scale": None if scale is None else scale.figures(),
        "mean_abs_disagreement": float(size @ weight / weight.sum()) if len(size) else None,
        "screening": None if screened is None else {**asdict(screened), "words": screened.lines()},
        "nodes": nodes,
        "search_seconds": seconds,
        "nodes_per_second": nodes / seconds if seconds else None,
    }


def _beside(store: Store, pair: Pair, alpha: float, question: Question) -> list[dict[str, Any]]:
    """A row for each kind of position beside the games: its `positions`, and the candidates of the scored ones."""
    query = "SELECT origin, count(*) FROM positions WHERE origin <> 'game' GROUP BY origin"
    counts = dict(store.connection.execute(query).fetchall())
    present = [kind for kind in BESIDE if kind in counts]
    if not present:  # avoids reading all positions beside the games
        return []
    read = columns(store, pair, ("kind", "weight", "game_id"), beside=True)
    net_q, deep_q = both_q(store, pair, alpha, question.q_from, beside=True)
    rows = []
    for kind in present:
        members = (read["kind"] == kind) & ~np.isnan(net_q - deep_q)
        hits = is_candidate((net_q - deep_q)[members], question.threshold)
        rate = _candidate_rate(hits, read["weight"][members], read["game_id"][members])
        rows.append({"kind": kind, "positions": counts[kind], **rate})
    return rows


def _by(
    column: str, groups: Sequence[str], codes: Floats, hits: Flags, weight: Floats, game: Ids
) -> list[dict[str, Any]]:
    members = [np.flatnonzero(codes == code) for code, _ in enumerate(groups)]
    return [
        {column: group, **_candidate_rate(hits[rows], weight[rows], game[rows])}
        for group, rows in zip(groups, members, strict=True)
    ]


def _candidate_rate(hits: Flags, weight: Floats, game: Ids) -> dict[str, Any]:
    """The weighted rate, which screening does not bias; `candidates` and `scored` count rows; see `Rate`."""
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
    screening = (figures["scored"] or {}).get("screening")
    if screening and screening["left_out"] and not screening["audits"]:
        sentence = (
            f"screening is not finished: {screening['left_out']:,} positions were left out, and none of them audited, "
            "so that rates count the doubtful ones alone; run the same vr mine again"
        )
    lines = [
        *([sentence, *why_loose, ""] if sentence else []),
        f"{figures['store']}: {figures['positions']:,} positions from {figures['games']:,} games; "
        f"files: {figures['sources']:,}, runs: {len(figures['runs'])}",
    ]
    counts = [("net    ", net["name"], net["sha256"], "evaluated", net) for net in figures["nets"]]
    counts += [("judge  ", judge["label"], judge["digest"], "scored", judge) for judge in figures["oracles"]]
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

    `frame` has the candidates at `threshold` (`view.candidates`), `labels` their labels (`labels_of`), if already
    computed.
    """
    labels = labels_of(store, frame) if labels is None else labels
    return {
        "labels": label_figures(frame, threshold, labels),
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


def label_figures(frame: pd.DataFrame, threshold: float, labels: pd.DataFrame) -> dict[str, Any]:
    """The shares of labels among the candidates at `threshold` in `frame`, whose rows have these `labels`, JSON-able.

    `rates`, `openings` and `pieces` (the most frequent families of both) have for each label `count`, `total`, `rate`,
    `low` and `high`: the share of the candidates with the label, weighted by the frame's weights, and its 95 %
    interval, by games. The three labels of blindness are shares of the `with_policy` candidates where the net's policy
    and the judge's move are known.
    """
    rows = frame[is_candidate(frame["disagreement"], threshold)]
    labels = labels.loc[rows.index]
    weights, game = rows["weight"].to_numpy(np.float64), rows["game_id"].to_numpy(np.int64)
    by_label, has_policy = masks(labels), labels["blind"].notna().to_numpy()
    everywhere = np.ones(len(rows), np.bool_)
    return {
        "threshold": threshold,
        "candidates": len(rows),
        "with_policy": int(has_policy.sum()),
        "rates": [
            _label_rate(name, by_label[name], has_policy if name in OF_POLICY else everywhere, weights, game)
            for name in NAMES
        ],
        "openings": _frequent("family", labels, weights, game),
        "pieces": _frequent("pieces", labels, weights, game),
    }


def label_lines(figures: dict[str, Any]) -> list[str]:
    """The figures as text for a terminal; empty without candidates."""
    if not figures["candidates"]:
        return []
    title = f"label, of {quantity(figures['candidates'], 'candidate')} at {figures['threshold']:g}"
    lines = rate_lines(title, ((row["label"], Rate.of_figures(row)) for row in figures["rates"] if row["count"]), 24)
    if 0 < figures["with_policy"] < figures["candidates"]:
        lines.append(f"  the policy's blindness is known of {figures['with_policy']:,} of them")
    for key, title in (("openings", "opening family"), ("pieces", "pieces besides pawns")):
        several = [(row["label"].partition(":")[2], Rate.of_figures(row)) for row in figures[key] if row["count"] > 1]
        if several:
            lines += rate_lines(title, several, 24)
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


def label_rows(store: Store, frame: pd.DataFrame) -> list[dict[str, Any]]:
    """One JSON-able object for each row of a frame (`view.candidates`): the position, its values and its labels.

    `labels` are the words of `labels.names`; missing numbers are None.
    """
    if not len(frame):
        return []
    labels = labels_of(store, frame)
    rows = []
    for row, label, words in zip(frame.to_dict("records"), labels.to_dict("records"), names(labels), strict=True):
        numbers = {name: label[name] for name in ("judge_move_p", "judge_move_rank")}
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
        p, rank = row["judge_move_p"], row["judge_move_rank"]
        prior = (
            ("not of the best 8" if "policy-blind" in row["labels"] else "prior not known")
            if p is None
            else f"{100 * p:.1f} % ({rank:.0f})"
        )
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
