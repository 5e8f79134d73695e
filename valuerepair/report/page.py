"""The report on a store as one HTML file: Plotly draws the points, python-chess the pieces and the moves in words.

The script knows no chess: it shows what is written here, and joins points, boards, filters and list.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from typing import TYPE_CHECKING, Any

import chess
import chess.svg
import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Floats
from valuerepair.books.choose import file_name
from valuerepair.chess.origins import GAME
from valuerepair.chess.positions import PHASES
from valuerepair.errors import ValueRepairError
from valuerepair.files import written_whole
from valuerepair.measure.compare import WORDS
from valuerepair.measure.labels import NAMES, labels_of, masks
from valuerepair.measure.weights import copies_by_weight
from valuerepair.mining.again import NET_RIGHT, SEARCH_RIGHT, UNCLEAR, VERDICTS, evidence
from valuerepair.question import Question, is_candidate, no_deep_score
from valuerepair.rates import Rate
from valuerepair.report import static_page, stats
from valuerepair.report.lowess import lowess_line
from valuerepair.report.static_page import escape, template_part
from valuerepair.report.style import GREY
from valuerepair.store import view
from valuerepair.store.store import Store
from valuerepair.text import finite, quantity
from valuerepair.version import __version__

if TYPE_CHECKING:
    import pandas as pd

MOST_POINTS = 20_000  # and all candidates
MOST_LINES = 2_000  # positions, the worst first, whose line can be stepped through
_LOWESS_ROWS = 200_000
_SVG_POINTS = 3_000  # more are drawn by WebGL
# The columns read for all positions.
_OF_ALL = ("position_id", "net_q", "deep_q", "disagreement", "weight", "kind")
_GAME_WORDS = ("source", "number", "white", "black", "event", "date", "result")


@dataclass(frozen=True, slots=True)
class WrittenPage:
    """A written page: how many `positions` have a disagreement, how many points are `shown`.

    `candidates` counts the candidates at the `threshold` among all positions; both numbers are of positions of games,
    if there are any. `size` is in bytes.
    """

    path: str
    positions: int
    shown: int
    candidates: int
    threshold: float
    size: int

    def lines(self) -> list[str]:
        """The content on a line, for a terminal."""
        return [
            f"{self.path}: {quantity(self.positions, 'position')}, {self.shown:,} of them one by one, "
            f"{quantity(self.candidates, 'candidate')} at {self.threshold:g}; {self.size / 1e6:.1f} MB"
        ]


def write(
    store: Store,
    path: str | os.PathLike[str],
    question: Question | None = None,
    *,
    on_step: Callable[[str], None] = lambda step: None,
) -> WrittenPage:
    """Writes the report on the scores of the question's net and judge as one HTML file.

    Figures are of positions of games, points also of those off the games (`choose`). `on_step` is called with the name
    of each step before it begins. Raises ValueRepairError without scored positions, OSError if the folder cannot be
    written.
    """
    question = replace(question or Question(), beside=True)
    with written_whole(path) as partial:
        with store.snapshot():
            on_step("values")
            frame = view.frame(store, question, only=_OF_ALL)
            scored = frame[~np.isnan(frame["disagreement"])]
            if scored.empty:
                raise ValueRepairError(f"nothing to report: {no_deep_score(len(frame), question.q_from)}")
            on_step("positions")
            main = scored[is_main(scored)]
            chosen = scored["position_id"].to_numpy(np.int64)[choose(scored, question.threshold)]
            rows = view.frame(store, question, ids=chosen)
            worst_first = np.argsort(-rows["disagreement"].abs().to_numpy(), kind="stable")
            rows = rows.iloc[worst_first].reset_index(drop=True)
            content = document(store, question, rows, main, on_step)
        partial.write_bytes(content)
    candidates = int(is_candidate(main["disagreement"], question.threshold).sum())
    return WrittenPage(os.fspath(path), len(main), len(rows), candidates, question.threshold, len(content))


def is_main(frame: pd.DataFrame) -> NDArray[np.bool_]:
    """[n] the rows that figures are of: the positions of games; all, if there are none."""
    of_games = (frame["kind"] == GAME).to_numpy(np.bool_)
    return of_games if of_games.any() else ~of_games


def choose(frame: pd.DataFrame, threshold: float, most: int = MOST_POINTS, seed: int = 0) -> NDArray[np.int64]:
    """The rows that are shown: all candidates, and of the others as many as there is room for, drawn by chance."""
    wrong = is_candidate(frame["disagreement"].to_numpy(np.float64), threshold)
    candidates, others = np.flatnonzero(wrong), np.flatnonzero(~wrong)
    room = max(most - len(candidates), most // 2)
    if len(others) > room:
        others = np.random.default_rng(seed).choice(others, room, replace=False)
    return np.sort(np.concatenate([candidates, others]))


# -- the document -----------------------------------------------------------------------------------------------------

_POLICY = (
    "default-src 'none'; script-src {scripts} 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:; "
    "connect-src 'none'; base-uri 'none'; form-action 'none'"
)


def document(
    store: Store, question: Question, rows: pd.DataFrame, main: pd.DataFrame, on_step: Callable[[str], None]
) -> bytes:
    """The HTML file of a page that shows `rows` [m], the worst first; its figures are of `main` [n].

    Texts of games are only in the packed data, and the script shows them as text. The policy allows style in elements,
    which the plotting library needs.
    """
    on_step("labels")
    labels = labels_of(store, rows)
    on_step("figures")
    told = figures_of(store, question, rows, labels)
    on_step("moves")
    data = positions(store, rows, labels)
    on_step("lowess")
    drawn = figure(lowess(main), len(rows))
    on_step("packing")
    shown = int(is_main(rows).sum())
    is_sample = shown < len(main)  # whose points below the threshold are too few to be counted at a lower one
    data |= {"threshold": question.threshold, "least": question.threshold if is_sample else 0.05}
    data |= {"figure": json.loads(drawn)}
    plotly = resources.files("plotly").joinpath("package_data").joinpath("plotly.min.js").read_text("utf-8")
    script, scored = template_part("page.js"), told.scored
    assert scored is not None  # rows have both values
    net, judge = (escape(rows.attrs[of][name]) for of, name in (("net", "name"), ("oracle", "label")))
    parts = {
        "net": net,
        "judge": judge,
        "headline": headline_html(told.headline),
        "cards": "".join(cards(scored)),
        "sample": f"{shown:,} of {len(main):,} positions: the errors, others by chance." if is_sample else "",
        "stats": escape("\n".join([*told.lines(), *told.details()])),
        "version": __version__,
        "pieces": "".join(chess.svg.PIECES.values()),
        "plotly": _pack(plotly),
        "data": _pack(json.dumps(data, allow_nan=False, separators=(",", ":"))),
        "script": script,
    }
    # One pass, so that inserted text is not replaced again.
    body = re.sub(r"\{\{([a-z]+)\}\}", lambda match: parts[match[1]], template_part("page.html"))
    policy = _POLICY.format(scripts=f"{_hash(script)} {_hash(plotly)}")
    return static_page.frame("valuerepair report", body, policy, "style.css", "page.css").encode()


def _pack(text: str) -> str:
    """Base64 of gzip, which needs no escapes in HTML; without a time stamp, so that equal pages are equal files."""
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()


def _hash(script: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() + "'"


# -- figures ----------------------------------------------------------------------------------------------------------


def figures_of(store: Store, question: Question, rows: pd.DataFrame, labels: pd.DataFrame) -> stats.StoreStats:
    """What `vr stats` says; `rows`, with `labels`, include all candidates, the worst first."""
    wrong = is_main(rows) & is_candidate(rows["disagreement"].to_numpy(np.float64), question.threshold)
    asked = replace(question, beside=False)
    told = stats.store_stats(store, asked, labelled=(rows[wrong], labels[wrong]))
    return replace(told, store=file_name(store.path))  # without its folder, as a page may be published


def headline_html(headline: str) -> str:
    """The sentence with its first number large, its interval small."""
    told = re.sub(r"^[\d,]+", lambda number: f"<b>{number[0]}</b>", escape(headline))
    return re.sub(r"\([^()]*\)$", lambda interval: f"<small>{interval[0]}</small>", told)


_BLIND = {
    "value-blind": "the net sees the judge's move, but misjudges what the position is worth",
    "partly-blind": "the net gives the judge's move little thought",
    "policy-blind": "the net hardly thinks of the judge's move",
}


def cards(scored: stats.Scored) -> Iterable[str]:
    """Four cards: how often, who was right, what kind of error, where it is worst."""
    rate, sign, looks = scored.rate, scored.rates["sign"], scored.confirmed
    more = [f"{_percent(scored.rates['threshold'][limit])} by {limit:g}" for limit in (0.3, 0.8)]
    yield _card(
        "How often is it wrong?",
        _percent(rate),
        f"of the positions are misjudged by {scored.threshold:g} or more (95 %: {_ends(rate)})",
        f"too optimistic {_percent(sign['optimistic'])}, too pessimistic {_percent(sign['pessimistic'])}",
        f"{' and '.join(more)} or more",
    )
    if looks.second:
        right = looks.rates
        yield _card(
            "Who was right?",
            f"the judge: {_percent(right[SEARCH_RIGHT])}",
            f"of {looks.looked:,} errors that were looked at again, by {looks.second['label']} "
            f"(95 %: {_ends(right[SEARCH_RIGHT])})",
            f"the net {_percent(right[NET_RIGHT])}, unclear {_percent(right[UNCLEAR])}",
        )
    else:
        yield _card("Who was right?", "not yet known", "vr confirm searches each of these positions more deeply")
    shares = scored.shares["label"]
    most, *fewer = sorted(_BLIND, key=lambda label: -shares[label].rate)
    yield _card(
        "What kind of error?",
        f"{most}: {_percent(shares[most])}" if shares[most].count else "not known",
        f"of the errors: {_BLIND[most]}" if shares[most].count else "",
        *(f"{label}, {_BLIND[label]}: {_percent(shares[label])}" for label in fewer if shares[label].count),
        f"tactical, the judge's move captures or gives check: {_percent(shares['tactical'])}",
    )
    phases = {name: rate for name, rate in scored.rates["phase"].items() if rate.total}
    worst = max(phases, key=lambda name: phases[name].rate, default="")
    others = [f"{name} {_percent(rate)}" for name, rate in phases.items() if name != worst]
    yield _card(
        "Where is it worst?",
        f"{worst}: {_percent(phases[worst])}" if worst else "not known",
        f"of its positions are misjudged; {', '.join(others)}" if others else "",
        f"to move: {', '.join(f'{side} {_percent(rate)}' for side, rate in scored.rates['side'].items())}",
        ", ".join(f"{WORDS[kind]} {_percent(rate)}" for kind, rate in scored.rates["origin"].items()),
    )


def _card(title: str, claim: str, *lines: str) -> str:
    paragraphs = "".join(f"<p>{escape(line)}</p>" for line in lines if line)
    return f'<section class="card"><h2>{title}</h2><p class="claim">{escape(claim)}</p>{paragraphs}</section>\n'


def _percent(rate: Rate) -> str:
    if not rate.total:
        return "-"
    return f"{100 * rate.rate:.{1 if 0 < rate.rate < 0.1 else 0}f}\N{NO-BREAK SPACE}%"


def _ends(rate: Rate) -> str:
    return " to ".join(f"{100 * end:.{0 if end >= 0.1 else 1}f}" for end in (rate.low, rate.high))


def lowess(main: pd.DataFrame) -> tuple[Floats, Floats] | None:
    """The line of all positions; if they are too many, of `_LOWESS_ROWS` spread evenly by weight along deep Q."""
    x, y, weights = (main[name].to_numpy(np.float64) for name in ("deep_q", "net_q", "weight"))
    if len(x) > _LOWESS_ROWS:
        order = np.argsort(x, kind="stable")
        rows = np.repeat(order, copies_by_weight(weights[order] * (_LOWESS_ROWS / weights.sum()), 1, 0.5))
        x, y, weights = x[rows], y[rows], np.ones(len(rows))
    return lowess_line(x, y, weights)


def figure(line: tuple[Floats, Floats] | None, points: int) -> str:
    """The scatter without its points, as JSON of Plotly: the script fills in those that the filters leave."""
    import plotly.graph_objects as go

    ends, drawn = [-1, 1], go.Figure()
    kind = go.Scatter if points <= _SVG_POINTS else go.Scattergl
    size = 6 if points <= _SVG_POINTS else 4
    # About right, too optimistic, too pessimistic.
    for symbol, more, opacity in (
        ("circle", 0, 0.6 if points <= _SVG_POINTS else 0.25),
        ("triangle-up", 3, 0.9),
        ("triangle-down", 3, 0.9),
    ):
        marker = {"color": GREY, "symbol": symbol, "size": size + more, "opacity": opacity}
        said = "judge %{x:+.2f}, net %{y:+.2f}<extra></extra>"
        drawn.add_trace(kind(x=[], y=[], mode="markers", marker=marker, hovertemplate=said))
    x, y = line or ([], [])
    drawn.add_scatter(x=np.round(x, 4), y=np.round(y, 4), mode="lines", line={"width": 3}, hoverinfo="skip")
    drawn.add_scatter(x=ends, y=ends, mode="lines", line={"width": 1, "dash": "dash"}, hoverinfo="skip")
    # The band within the threshold, and the ring of the position whose board is shown; the script moves both.
    drawn.add_shape(type="path", path="M-1,-1L1,1Z", fillcolor="rgba(140,140,140,0.16)", line_width=0, layer="below")
    pixels = {"xsizemode": "pixel", "ysizemode": "pixel", "x0": -10, "x1": 10, "y0": -10, "y1": 10}
    drawn.add_shape(type="circle", xanchor=0, yanchor=0, line={"color": "#e69f00", "width": 4}, **pixels)
    axis = {"range": [-1.06, 1.06], "tickvals": [-1, -0.5, 0, 0.5, 1], "zeroline": False}
    words = ["-1 lost", "-0.5", "0 even", "0.5", "+1 won"]
    drawn.update_xaxes(title="what the judge says", ticktext=words, **axis)
    drawn.update_yaxes(title="what the net says", ticktext=words, tickangle=-90, **axis)
    drawn.update_layout(
        template="none", margin={"l": 50, "r": 22, "t": 10, "b": 45}, hovermode="closest", dragmode="zoom",
        paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)", showlegend=False,
    )  # fmt: skip
    return str(drawn.to_json())


# -- positions --------------------------------------------------------------------------------------------------------


def positions(store: Store, rows: pd.DataFrame, labels: pd.DataFrame) -> dict[str, Any]:
    """What the script shows of each row, by column; all Q are of the side to move. Texts of games are untrusted.

    A move is its SAN and its squares (``["Nxf3", "d2f3"]``), None without one; a line is a list of moves, each with
    the pieces after it. Columns of words are numbers of words in the lists of ``words``.
    """
    looks = evidence(store, rows)
    bits = np.zeros(len(rows), np.int64)
    for i, mask in enumerate(masks(labels).values()):
        bits |= mask.astype(np.int64) << i
    verdicts: list[Any] = looks["verdict"].tolist()
    openings, opening = _numbered(labels["opening"].tolist())
    kinds, kind = _numbered([WORDS.get(word, word) for word in rows["kind"].tolist()])
    games, game = np.unique(rows["game_id"].to_numpy(np.int64), return_inverse=True)
    moves: dict[str, list[Any]] = {name: [] for name in ("net_move", "deep_move", "second_move", "played", "line")}
    cells = (rows["net_best"], rows["deep_best"], looks["second_best"], rows["played"], rows["pv"])
    for i, (fen, *best, pv) in enumerate(zip(rows["fen"], *cells, strict=True)):
        board = chess.Board(fen)
        for name, uci in zip(moves, best, strict=False):
            moves[name].append(move(board, uci))
        moves["line"].append(line(board, pv.split()) if i < MOST_LINES and isinstance(pv, str) else [])
    return {
        "id": rows["position_id"].tolist(),
        "fen": rows["fen"].tolist(),
        "net": rows["net_q"].tolist(),
        "deep": rows["deep_q"].tolist(),
        "second": _numbers(looks["second_q"]),
        "net_wdl": _percents(rows[["net_w", "net_d", "net_l"]], 1),
        "deep_wdl": _percents(rows[["deep_w", "deep_d", "deep_l"]], 1000),
        **{name: _numbers(rows[name]) for name in ("cp", "mate", "nodes", "ply")},
        **{name: _numbers(labels[f"judge_move_{name}"]) for name in ("p", "rank")},
        **moves,
        "labels": bits.tolist(),
        "phase": [PHASES.index(word) for word in rows["phase"]],
        "opening": opening,
        "kind": kind,
        "verdict": [VERDICTS.index(word) if isinstance(word, str) else None for word in verdicts],
        "game": game.tolist(),
        "games": _games(store, games),
        "words": {"phase": PHASES, "labels": NAMES, "opening": openings, "kind": kinds},
        "second_name": (looks.attrs["second"] or {}).get("label"),
    }


def move(board: chess.Board, uci: object) -> list[str] | None:
    """A move as its SAN and its squares; None without a move, and for one that cannot be played."""
    try:
        found = board.parse_uci(uci) if isinstance(uci, str) else chess.Move.null()
    except ValueError:
        return None
    return [board.san(found), found.uci()] if found else None


def line(board: chess.Board, moves: Sequence[str]) -> list[list[str]]:
    """The moves of a line (UCI) up to one that cannot be played: SAN with its number, squares, the pieces after it."""
    told: list[list[str]] = []
    board = board.copy(stack=False)
    for uci in moves:
        if (found := move(board, uci)) is None:
            break
        number = f"{board.fullmove_number}. " if board.turn else "" if told else f"{board.fullmove_number}... "
        board.push_uci(uci)
        told.append([number + found[0], found[1], board.board_fen()])
    return told


def _numbered(words: Sequence[str | None]) -> tuple[list[str], list[int]]:
    """The distinct words in order, an empty one first for None; and of each row its word's number."""
    distinct = ["", *sorted({word for word in words if word})]
    number = {word: i for i, word in enumerate(distinct)}
    return distinct, [number[word or ""] for word in words]


def _numbers(column: pd.Series[Any]) -> list[float | None]:
    return [finite(number) for number in column.tolist()]


def _percents(shares: pd.DataFrame, of: int) -> list[list[float | None]]:
    """[n, 3] shares of wins, draws and losses in whole per cent."""
    return [[finite(share) for share in row] for row in (100 / of * shares.to_numpy(np.float64)).round().tolist()]


def _games(store: Store, numbers: NDArray[np.int64]) -> list[list[Any]]:
    """The games of these numbers, in that order: `_GAME_WORDS` of each."""
    words = ", ".join(f"g.{name}" for name in _GAME_WORDS)
    query = f"SELECT {words} FROM json_each(?) j JOIN games g ON g.id = j.value ORDER BY j.key"
    found = store.connection.execute(query, (json.dumps(numbers.tolist()),))
    return [[file_name(source), *others] for source, *others in found]
