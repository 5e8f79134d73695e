"""What `vr stats` says of a store: how often the net is wrong, how sure that is, where, what kind, who was right."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Flags
from valuerepair.chess.origins import BESIDE, GAME
from valuerepair.chess.positions import PHASES
from valuerepair.chess.values import DEFAULT_ALPHA, Alpha, AlphaFit
from valuerepair.measure.labels import KINDS, OF_POLICY, labels_of, masks, names
from valuerepair.mining import again
from valuerepair.mining.screening import Screened, not_finished, screened_of
from valuerepair.question import Question, is_candidate
from valuerepair.rates import Interval, Rate, mean, rate_lines, weighted
from valuerepair.store import alpha as alphas
from valuerepair.store import view
from valuerepair.store.columns import both_q, columns
from valuerepair.store.pairs import Pair, pair_of
from valuerepair.store.plays import outcomes
from valuerepair.text import (
    finite,
    format_duration,
    format_nodes,
    json_fields,
    positions_of_games,
    printable,
    quantity,
    table_lines,
)

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.store.store import Store

Rates = Mapping[Any, Rate]
THRESHOLDS = (0.3, 0.4, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 1.0)
MOST_FAMILIES = 6
_HELD = "SELECT (SELECT count(*) FROM positions), count(*), count(DISTINCT source) FROM games"
_NETS = """
SELECT id, name, sha256, value_head, input_format, size,
    (SELECT count(*) FROM net_values v WHERE v.net_id = n.id) AS evaluated
FROM nets n ORDER BY id
"""
_JUDGES = """
SELECT j.id, label, digest, kind, engine, sha256, limits, options, count(v.judge_id) - count(v.failed) AS scored,
    count(v.failed) AS failed
FROM judges j LEFT JOIN deep_values v ON v.judge_id = j.id GROUP BY j.id ORDER BY j.id
"""
_RUNS = "SELECT id, command, started, finished, state, counts FROM runs ORDER BY id"
_JSON = ("limits", "options", "counts")
_FAILED = """
SELECT count(*) FROM deep_values v JOIN positions p ON p.id = v.position_id AND p.origin = 'game'
WHERE v.judge_id = ? AND v.failed IS NOT NULL
"""


@dataclass(frozen=True)
class GamesPlayed:
    """Results Z of decided games from candidates, against Q of net and judge, all for the side to move.

    A position counts once, with the mean Z of its games. `deep_nearer` is the share with the judge's Q nearer to Z than
    the net's; the errors are mean squares of Z - Q, and `gain` is their difference. Intervals are by the games that
    the positions are of.
    """

    positions: int
    games: int
    deep_nearer: Rate
    net_error: float
    deep_error: float
    gain: Interval


@dataclass(frozen=True)
class Scored:
    """What one net and one judge say of the positions that both scored.

    `rates` of candidates have 95 % intervals by games (`rates.weighted`), by ``threshold``, ``phase``, ``side``,
    ``sign``, ``origin`` (off the games) and ``alpha``. All but those by origin count positions of games; only if a
    store has none, those off the games (`is_off_games`). These are `positions` of `games` games; the store has `stored`
    of the kind. Positions without a Q of the requested kind count only in `without_q`. `shares` are those of the
    candidates with each ``label``, ``family`` and ``pieces`` (`label_shares`). `fits` are those of alpha,
    `confirmed` the second looks, `played` is None without games from candidates, `worst` has the
    largest disagreements.
    """

    attrs: Mapping[str, Any]  # of a frame (`view.attrs`): net, oracle, alpha, q_from
    threshold: float
    is_off_games: bool
    stored: int
    games: int
    positions: int
    without_q: int
    failed: int
    rates: Mapping[str, Rates]
    shares: Mapping[str, Rates]
    mean_abs_disagreement: float | None
    screening: Screened | None
    nodes: int
    search_seconds: float
    fits: Mapping[str, AlphaFit]
    confirmed: again.Looks
    played: GamesPlayed | None
    worst: Sequence[Mapping[str, Any]]

    @property
    def rate(self) -> Rate:
        """The rate at the threshold."""
        return self.rates["threshold"][self.threshold]

    @property
    def source(self) -> str:
        """Where deep Q comes from, in words."""
        return Alpha(**self.attrs["alpha"]).source(self.attrs["q_from"])

    def as_json(self) -> dict[str, Any]:
        """The fields, JSON-able; rates and shares as lists of rows, ``by_phase`` and so on."""
        plain = {
            name: cell
            for name, cell in vars(self).items()
            if name not in ("attrs", "rates", "shares", "confirmed", "screening")
        }
        screening = self.screening and {**asdict(self.screening), "words": self.screening.lines()}
        tables = {}
        for groups, counts in ((self.rates, ("candidates", "scored")), (self.shares, ("count", "total"))):
            for name, rates in groups.items():
                tables[f"by_{name}"] = [{name: word, **rate.figures(*counts)} for word, rate in rates.items()]
        confirmed = self.confirmed.as_json()
        return {**self.attrs, **json_fields(plain), **tables, "confirmed": confirmed, "screening": screening}


@dataclass(frozen=True)
class StoreStats:
    """The content of a store; `scored` is None while no position has the values of both a net and a judge."""

    store: str
    positions: int
    games: int
    sources: int
    nets: Sequence[Mapping[str, Any]]
    oracles: Sequence[Mapping[str, Any]]
    runs: Sequence[Mapping[str, Any]]
    scored: Scored | None = None

    @property
    def headline(self) -> str:
        """The main result in one sentence (`headline`); empty if no position has both values."""
        return headline(self.scored) if self.scored else ""

    def as_json(self) -> dict[str, Any]:
        """The fields, JSON-able."""
        return {**vars(self), "scored": self.scored and self.scored.as_json()}

    def lines(self) -> list[str]:
        """At most twelve lines, and the worst positions if they were asked for."""
        if self.scored is None:
            return [f"{self.store}: {_held(self)}", "Nothing is scored yet. Next: vr mine ARCHIVE"]
        return [*first_lines(self, self.scored), *worst_lines(self.scored.worst)]

    def details(self) -> list[str]:
        """The rest, which ``-v`` shows: all rates, labels, second looks and games; alpha; nets, judges and runs."""
        return [*(rest_lines(self.scored) if self.scored else []), *content_lines(self)]


# -- counting ---------------------------------------------------------------------------------------------------------


def store_stats(
    store: Store,
    question: Question | None = None,
    *,
    worst: int = 0,
    labelled: tuple[pd.DataFrame, pd.DataFrame] | None = None,
) -> StoreStats:
    """What a store holds, and what the question's net and judge say; `worst` is how many candidates to list.

    `labelled` are the question's candidates (`view.candidates`) and their labels, if they are known already. Raises
    ValueRepairError if the question names a net or a judge that has no values.
    """
    asked = question or Question()
    with store.snapshot():
        positions, games, sources = store.connection.execute(_HELD).fetchone()
        pair = pair_of(store, asked.net, asked.oracle)
        scored = None if pair is None else _scored(store, pair, asked, worst, labelled)
        nets, judges, runs = (_records(store, query) for query in (_NETS, _JUDGES, _RUNS))
        return StoreStats(store.path, positions, games, sources, nets, judges, runs, scored)


def _records(store: Store, query: str) -> list[dict[str, Any]]:
    cursor = store.connection.execute(query)
    names = [column[0] for column in cursor.description]
    return [
        {name: json.loads(cell) if name in _JSON else cell for name, cell in zip(names, row, strict=True)}
        for row in cursor
    ]


def _scored(
    store: Store, pair: Pair, question: Question, worst: int, labelled: tuple[pd.DataFrame, pd.DataFrame] | None
) -> Scored:
    used, threshold = alphas.alpha(store, pair, question.alpha), question.threshold
    origins = dict(store.connection.execute("SELECT origin, count(*) FROM positions GROUP BY origin"))
    present = [kind for kind in BESIDE if kind in origins]  # without any, they are not read: that takes as long again
    read = _read(store, pair, used.value, question)
    beside = _read(store, pair, used.value, question, present) if present else {}
    is_off_games = bool(present) and not len(read["weight"])
    read = beside if is_off_games else read
    rows = _with_q(read)
    off = rows["disagreement"]

    def rates(column: str, words: Sequence[str]) -> Rates:
        codes = rows[column]
        return {word: _rate(rows, threshold, codes == code) for code, word in enumerate(words)}

    def of_origin(kind: str) -> Rate:
        return _rate(_with_q(beside, beside["kind"] == kind), threshold)

    (failed,) = store.connection.execute(_FAILED, pair[1:]).fetchone()
    candidates, labels = labelled or (view.candidates(store, replace(question, beside=is_off_games)), None)
    labels = labels_of(store, candidates) if labels is None else labels
    fits = {str(name): fit for name, fit in alphas.fits(store, pair).items()}
    return Scored(
        attrs=view.attrs(store, pair, question, used),
        threshold=threshold,
        is_off_games=is_off_games,
        stored=sum(origins.get(kind, 0) for kind in (present if is_off_games else (GAME,))),
        games=len(np.unique(read["game_id"])),
        positions=len(read["weight"]),
        without_q=len(read["weight"]) - len(off),
        failed=failed,
        rates={
            "threshold": {limit: _rate(rows, limit) for limit in sorted({*THRESHOLDS, threshold})},
            "phase": rates("phase_code", PHASES),
            "side": rates("side_code", ("White", "Black")),
            "sign": {"optimistic": _rate(rows, threshold, sign=1), "pessimistic": _rate(rows, threshold, sign=-1)},
            "origin": {kind: rate for kind in present if (rate := of_origin(kind)).total},  # of all that were scored
            "alpha": _by_alpha(store, pair, threshold, fits),
        },
        shares=label_shares(candidates, threshold, labels),
        mean_abs_disagreement=float(np.abs(off) @ rows["weight"] / rows["weight"].sum()) if len(off) else None,
        screening=screened_of(store, pair, used.value, question.q_from, threshold),
        nodes=int(read["nodes"].sum()),
        search_seconds=float(read["time_ms"].sum()) / 1000,
        fits=fits,
        confirmed=again.second_looks(store, candidates, threshold),
        played=played_from(store, candidates),
        worst=_worst(candidates.head(worst), labels.head(worst)),
    )


Columns = Mapping[str, NDArray[Any]]


def _read(store: Store, pair: Pair, alpha: float, question: Question, kinds: Sequence[str] = ()) -> Columns:
    """Columns [n] of the scored positions of games; with `kinds`, of those off the games instead."""
    names = ("weight", "phase_code", "side_code", "nodes", "time_ms", "game_id", *(("kind",) if kinds else ()))
    read = columns(store, pair, names, beside=bool(kinds))
    net_q, deep_q = both_q(store, pair, alpha, question.q_from, beside=bool(kinds))
    members = np.isin(read["kind"], kinds) if kinds else slice(None)
    return {name: column[members] for name, column in {**read, "disagreement": net_q - deep_q}.items()}


def _with_q(read: Columns, members: Flags | bool = True) -> Columns:
    """The rows among the `members` that have a disagreement."""
    has_both = ~np.isnan(read["disagreement"]) & members
    return {name: column[has_both] for name, column in read.items()}


def _rate(rows: Columns, threshold: float, members: Flags | slice = slice(None), sign: int = 0) -> Rate:
    """The rate of candidates among the `members`, of this sign unless it is 0."""
    off, weight, game = (rows[name][members] for name in ("disagreement", "weight", "game_id"))
    hits = is_candidate(off, threshold)
    return weighted(hits & (np.sign(off) == sign) if sign else hits, weight, game)


def _by_alpha(store: Store, pair: Pair, threshold: float, fits: Mapping[str, AlphaFit]) -> dict[str, Rate]:
    """The rates of candidates at the default alpha and at each fit; none without fits."""
    read, rates = columns(store, pair, ("weight", "game_id")), {}
    used = {"default": DEFAULT_ALPHA} | {name: fit.alpha for name, fit in fits.items()} if fits else {}
    for name, alpha in used.items():
        net_q, deep_q = both_q(store, pair, alpha, "cp")
        rates[name] = _rate(_with_q({**read, "disagreement": net_q - deep_q}), threshold)
    return rates


def label_shares(frame: pd.DataFrame, threshold: float, labels: pd.DataFrame) -> dict[str, Rates]:
    """The shares of the candidates at `threshold` in `frame`, whose rows have these `labels`, weighted by the frame's
    weights: by ``label`` (all of `labels.NAMES`), and by opening ``family`` and ``pieces``, the most frequent ones.

    The three labels of blindness are shares of the candidates where the net's policy and the judge's move are known.
    """
    rows = frame[is_candidate(frame["disagreement"], threshold)]
    labels = labels.loc[rows.index]
    weights, game = rows["weight"].to_numpy(np.float64), rows["game_id"].to_numpy(np.int64)
    has_policy = labels["blind"].notna().to_numpy()

    def share(hits: Flags, among: Flags | slice = slice(None)) -> Rate:
        return weighted(hits[among], weights[among], game[among])

    shares: dict[str, Rates] = {
        "label": {
            name: share(mask, has_policy) if name in OF_POLICY else share(mask) for name, mask in masks(labels).items()
        }
    }
    for kind, column in KINDS.items():
        words = labels[column].to_numpy(object)
        counts = Counter(word for word in words if word)
        often = sorted(counts, key=lambda word: (-counts[word], word))[:MOST_FAMILIES]
        shares[kind] = {word: share(np.asarray(words == word, np.bool_)) for word in often}
    return shares


def played_from(store: Store, frame: pd.DataFrame) -> GamesPlayed | None:
    """The results of the games from the rows of `frame` (`view.candidates`); None without decided games."""
    results = outcomes(store)
    usable = frame[~np.isnan(frame["disagreement"])].set_index("position_id")
    in_frame = np.isin(results.ids, usable.index.to_numpy())
    if not in_frame.any():
        return None
    rows = usable.loc[results.ids[in_frame]]
    z, net, deep = results.z[in_frame], rows["net_q"].to_numpy(), rows["deep_q"].to_numpy()
    net_errors, deep_errors = (z - net) ** 2, (z - deep) ** 2
    once, source = np.ones(len(z)), rows["game_id"].to_numpy(np.int64)
    return GamesPlayed(
        positions=len(z),
        games=int(results.games[in_frame].sum()),
        deep_nearer=weighted(np.abs(z - deep) < np.abs(z - net), once, source),
        net_error=float(net_errors.mean()),
        deep_error=float(deep_errors.mean()),
        gain=mean(net_errors - deep_errors, once, source),
    )


def _worst(frame: pd.DataFrame, labels: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows, JSON-able: position, values and labels (`labels.names`)."""
    facts = ("position_id", "fen", "net_q", "deep_q", "net_best", "deep_best")
    numbers = ("judge_move_p", "judge_move_rank")
    rows = zip(frame.to_dict("records"), labels.to_dict("records"), names(labels), strict=True)
    return [
        {**{name: row[name] for name in facts}, **{name: finite(label[name]) for name in numbers}}
        | {"opening": label["opening"], "labels": sorted(words)}
        for row, label, words in rows
    ]


# -- the first lines --------------------------------------------------------------------------------------------------

# A share is printed as a number out of the first of these that makes it at least 5: 13 of 10,000, not 1 of 1,000.
_OUT_OF = (1_000, 10_000, 100_000, 1_000_000)
_FEWEST = 5
_OTHERS = (0.3, 0.55, 0.8)  # of these thresholds the two nearest to the one asked for are shown, too
_MOST_LABELS = 3


def headline(scored: Scored) -> str:
    """The main result in one sentence: the rate of candidates at the threshold, by weight.

    "22 of 1,000 positions of these games are misjudged by 0.55 or more (19 to 26)", with the 95 % interval of the
    rate in brackets; empty if no position has both values.
    """
    screening, rate = scored.screening, scored.rate
    if screening is not None and (warning := not_finished(screening.left_out, screening.audits)):
        return warning
    if not rate.total:
        return ""
    where = "off these games" if scored.is_off_games else "of these games"
    misjudged = f"misjudged by {scored.threshold:g} or more"
    if not rate.count:
        most = _out_of(rate.high)
        return f"No position {where} was found to be {misjudged} (at most {rate.high * most:,.0f} of {most:,})"
    per = _out_of(rate.rate)
    count, low, high = (f"{share * per:,.0f}" for share in (rate.rate, rate.low, rate.high))
    return f"{count} of {per:,} positions {where} are {misjudged} ({low} to {high})"


def _out_of(rate: float) -> int:
    return next((per for per in _OUT_OF if rate * per >= _FEWEST), _OUT_OF[-1])


def first_lines(stats: StoreStats, scored: Scored) -> list[str]:
    """At most twelve lines: which net and judge; how often, how sure, where, what kind, who was right, at what cost."""
    net, judge = printable(scored.attrs["net"]["name"]), printable(scored.attrs["oracle"]["label"])
    near = sorted({*_OTHERS} - {scored.threshold}, key=lambda limit: abs(limit - scored.threshold))[:2]
    lines = {
        "thresholds": _words({f"at {limit:g}": scored.rates["threshold"][limit] for limit in sorted(near)}),
        "sample": _sample(scored),
        "phase": _words(scored.rates["phase"]),
        "side": _words(scored.rates["side"]),
        "sign": _words(scored.rates["sign"]),
        "off games": _words(scored.rates["origin"]),
        "labels": _label_words(scored),
        "second looks": _second_looks(scored.confirmed),
        "games": _games(scored.played),
        "searches": _cost(scored),
    }
    return [
        f"{net} against {judge}; threshold {scored.threshold:g}; {scored.source}",
        *filter(None, [headline(scored)]),
        *(f"{name:<12}  {words}" for name, words in lines.items() if words),
    ]


def _held(stats: StoreStats) -> str:
    return f"{positions_of_games(stats.positions, stats.games)} in {quantity(stats.sources, 'file')}"


def _share(rate: Rate) -> str:
    """In per cent, with the interval."""
    if not rate.total:
        return "none scored"
    share, low, high = (f"{100 * end:.{1 if end >= 0.1 else 2}f}" for end in (rate.rate, rate.low, rate.high))
    return f"{share} % ({low} to {high})"


def _words(rates: Rates) -> str:
    return ", ".join(f"{name} {_share(rate)}" for name, rate in rates.items())


def _sample(scored: Scored) -> str:
    """How many positions the rates are of, and how far to trust them."""
    candidates = quantity(scored.rate.count, "candidate")
    words = [
        f"{candidates} among {positions_of_games(scored.positions, scored.games)}; the store has {scored.stored:,}"
    ]
    words += [f"{scored.without_q:,} without a Q of the requested kind left out"] if scored.without_q else []
    loose = f", wide above: only {quantity(few, 'audit')}" if (few := scored.rate.few_drawn) else ""
    return "; ".join([*words, f"in brackets 95 %, by games{loose}"])


def _label_words(scored: Scored) -> str:
    """The most frequent labels besides sign and phase, which have lines of their own."""
    others = {
        name: rate for name, rate in scored.shares["label"].items() if name not in (*scored.rates["sign"], *PHASES)
    }
    often = sorted((name for name, rate in others.items() if rate.count), key=lambda name: -others[name].rate)
    return f"{_words({name: others[name] for name in often[:_MOST_LABELS]})} of the candidates" if often else ""


def _second_looks(looks: again.Looks) -> str:
    if looks.second is None:
        return "no second look yet (vr confirm)" if looks.candidates else ""
    some = f"the {looks.looked:,} looked at among " if looks.looked < looks.candidates else ""
    looked = f"{some}{quantity(looks.candidates, 'candidate')}, by {printable(looks.second['label'])}"
    return f"search right {_share(looks.rates[again.SEARCH_RIGHT])} of {looked}"


def _games(played: GamesPlayed | None) -> str:
    if played is None:
        return ""
    nearer = f"result nearer to the search than to the net {_share(played.deep_nearer)}"
    return f"{nearer} of {quantity(played.positions, 'candidate')}, {quantity(played.games, 'game')}"


def _cost(scored: Scored) -> str:
    """What the searches took, of which recorded values often say nothing; and what screening saved and lost."""
    time = f" in {format_duration(scored.search_seconds)}" if scored.search_seconds else ""
    words = [f"{format_nodes(scored.nodes)}{time}"] if scored.nodes else []
    words += [f"{scored.failed:,} failed"] if scored.failed else []
    if scored.screening is not None and scored.screening.positions:
        words += [line.strip() for line in scored.screening.lines()]
    return "; ".join(words)


def worst_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Two lines for each of these candidates: Q of the side to move, the search's best move, labels; then its number
    (position_id), FEN and opening."""
    lines = ["", "net Q  deep Q  search's best, its prior (rank)"] if rows else []
    for row in rows:
        p, rank = row["judge_move_p"], row["judge_move_rank"]
        unknown = "not of the best 8" if "policy-blind" in row["labels"] else "prior not known"
        prior = unknown if p is None else f"{100 * p:.1f} % ({rank:.0f})"
        words = ", ".join(word for word in row["labels"] if ":" not in word)
        lines.append(f"{row['net_q']:+.2f}  {row['deep_q']:+.2f}   {row['deep_best'] or '-':<6}{prior:<16}{words}")
        lines.append(f"{row['position_id']:>6} {row['fen']}" + (f"  {row['opening']}" if row["opening"] else ""))
    return lines


# -- the rest ---------------------------------------------------------------------------------------------------------


def rest_lines(scored: Scored) -> list[str]:
    """Tables of all that is known of a net and a judge; of families those that several candidates share."""
    lines = []
    for name, table in {**scored.rates, **scored.shares}.items():
        least = {"label": 1, "family": 2, "pieces": 2}.get(name, 0)
        title = name if name == "threshold" else f"{name} at {scored.threshold:g}"
        rows = [(str(word), rate) for word, rate in table.items() if rate.count >= least]
        lines += rate_lines(title, rows) if rows and name != "alpha" else []
    looks = scored.confirmed.lines()
    lines += ["", *looks] if looks else []
    if (played := scored.played) is not None:
        lines += [
            "",
            f"games from candidates: {played.games:,} decided, from {quantity(played.positions, 'position')}",
            f"  Z nearer to deep Q than to net Q: {played.deep_nearer}",
            f"  mean square of Z - Q: net {played.net_error:.3f}, deep {played.deep_error:.3f}; less by {played.gain}",
        ]
    return lines + (["", *_alpha_lines(scored)] if scored.fits else [])


def _alpha_lines(scored: Scored) -> list[str]:
    """The fits of alpha beside the default."""
    cells = {"default": (f"{DEFAULT_ALPHA:.0f}", "", "")}
    for name, fit in scored.fits.items():
        interval = "" if math.isnan(fit.low) else f"{fit.low:.0f} to {fit.high:.0f}"
        cells[name] = (f"{fit.alpha:.0f}", interval, f"{fit.residual:.4f}")
    heads = f"fit:<10 | alpha:>6 | 95 % interval:<15 | residual:>8 | candidates at {scored.threshold:g}:<"
    return [
        f"alpha, by {scored.fits['slope'].n:,} scores in centipawns; vr stats --use alpha=slope puts a fit in use",
        *table_lines(heads, ((name, *row, scored.rates["alpha"][name]) for name, row in cells.items()), "  "),
        *(f"  {name}: the scores determine no alpha" for name, fit in scored.fits.items() if fit.at_bound),
    ]


def content_lines(stats: StoreStats) -> list[str]:
    """The store's nets, judges and runs."""
    rows = [("net", net["name"], net["sha256"], f"{net['evaluated']:,} evaluated") for net in stats.nets]
    rows += [
        ("judge", judge["label"], judge["digest"], f"{judge['scored']:,} scored, {judge['failed']:,} failed")
        for judge in stats.oracles
    ]
    head = f"{stats.store}: {_held(stats)}, {quantity(len(stats.runs), 'run')}"
    cells = ((kind, printable(name), digest[:12], done) for kind, name, digest, done in rows)
    return ["", head, *table_lines(":<5 | :< | :< | :<", cells, "  ")]
