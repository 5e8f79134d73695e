"""The report on a store as one HTML file: template, style, scripts and content put together."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

import chess.svg
import numpy as np
from numpy.typing import NDArray

from valuerepair.books.choose import file_name
from valuerepair.chess.board import fens, parse_fens
from valuerepair.chess.positions import PHASES, STARTPOS_FEN, encode_lines, encode_moves
from valuerepair.errors import ValueRepairError
from valuerepair.files import written_whole
from valuerepair.measure.labels import LABELS, NAMES, labels_of, masks
from valuerepair.measure.weights import copies_by_weight
from valuerepair.mining.again import VERDICTS, evidence
from valuerepair.question import Question, is_candidate, no_deep_score
from valuerepair.report import static_page, stats
from valuerepair.report.lowess import lowess_line
from valuerepair.report.static_page import template_part
from valuerepair.store import view
from valuerepair.store.store import Store
from valuerepair.text import quantity
from valuerepair.version import __version__

if TYPE_CHECKING:
    import pandas as pd

_GAME = ("white", "black", "white_elo", "black_elo", "event", "site", "date", "round", "result")
_REALS = ("net_q", "deep_q", "second_q", "net_w", "net_d", "net_l", "cp", "mate", "nodes")
_LOWESS_ROWS = 200_000
_FIELDS = (*_GAME, "source", "number")
_PER_MILLE = ("deep_w", "deep_d", "deep_l")


@dataclass(frozen=True, slots=True)
class Content:
    """`words` is JSON-able; `numbers` the bytes of its ``layout``."""

    words: dict[str, Any]
    numbers: bytes


def content_of(
    store: Store,
    scored: pd.DataFrame,
    shown: ShownRows,
    rows: PageRows,
    question: Question,
    on_step: Callable[[str], None] = lambda step: None,
) -> Content:
    """The content of a page on the positions `scored`, which shows their rows `shown`, read as `rows`.

    `on_step` is called with the name of each step before it begins.
    """
    on_step("labels")
    frame = rows.frame
    labels, looks = labels_of(store, frame), evidence(store, frame)
    on_step("figures")
    figures = figures_of(store, question, scored, frame, labels)
    on_step("lowess")
    line = _lowess(scored)
    on_step("packing")
    columns = Columns()
    _add_numbers(columns, frame.assign(second_q=looks["second_q"]), shown)
    _add_moves(columns, rows)
    columns.add("labels", label_bits(labels))
    verdict = [1 + VERDICTS.index(word) if word else 0 for word in looks["verdict"]]
    columns.add("verdict", np.array(verdict, np.uint8))
    columns.add("game", rows.game_of.astype(np.uint32))
    words = _add_words(columns, labels)
    return Content(
        {
            "words": words,
            # Nearly all histories begin at the same FEN, hence a column of numbers and a list.
            "starts": columns.add_words("start", ["" if fen == STARTPOS_FEN else fen for fen in frame["start_fen"]]),
            "layout": columns.layout,
            "fens": fens(parse_fens(frame["fen"].tolist())),
            "games": [[{**game, "source": file_name(game["source"])}[name] for name in _FIELDS] for game in rows.games],
            "second": looks.attrs["second"],
            "threshold": question.threshold,
            "shown": {"strata": list(STRATA), "shown": shown.shown, "of": shown.stored, "complete": shown.complete},
            "lowess": line,
            "figures": figures,
            "layout_of_games": _FIELDS,
        },
        columns.content,
    )


def label_bits(labels: pd.DataFrame) -> NDArray[np.uint32]:
    """[n] bit i is set where a row has the label `NAMES[i]`."""
    by_label, bits = masks(labels), np.zeros(len(labels), np.uint32)
    for i, name in enumerate(NAMES):
        bits |= by_label[name].astype(np.uint32) << np.uint32(i)
    return bits


def _add_words(columns: Columns, labels: pd.DataFrame) -> dict[str, list[str]]:
    """Adds the columns of families and openings; returns the lists of words that the columns have indices of."""
    return {
        "family": columns.add_words("family", labels["opening_family"].tolist()),
        "opening": columns.add_words("opening", labels["opening"].tolist()),
        "material": columns.add_words("material", labels["material_family"].tolist()),
        "phase": list(PHASES),
        "side": ["w", "b"],
        "labels": list(NAMES),
        "of_policy": [label.name for label in LABELS if label.of_policy],
        "verdict": ["", *VERDICTS],
    }


def _add_numbers(columns: Columns, rows: pd.DataFrame, shown: ShownRows) -> None:
    for name in _REALS:
        columns.add(name, rows[name].to_numpy(np.float64))
    for name in _PER_MILLE:
        columns.add(name, rows[name].to_numpy(np.float64) / 1000)
    factor = np.array(shown.factors)[shown.stratum]
    columns.add("weight", rows["weight"].to_numpy(np.float64) * factor)
    columns.add("position_id", rows["position_id"].to_numpy(np.float64))
    columns.add("depth", rows["depth"].to_numpy().astype(np.uint16))
    columns.add("ply", rows["ply"].to_numpy().astype(np.uint16))
    phases = [rows["phase"] == phase for phase in PHASES]
    columns.add("phase", np.argmax(phases, 0).astype(np.uint8))
    columns.add("side", (rows["side"] == "b").to_numpy().astype(np.uint8))


def _add_moves(columns: Columns, rows: PageRows) -> None:
    """Moves and lines, and the `san_flags` of those that the page shows in SAN."""
    single = ("played", "net_best", "deep_best")
    # Without a move the cell is None or, in newer versions of pandas, NaN; the number is 0.
    moves = [[[move] if isinstance(move, str) else [] for move in rows.frame[name]] for name in single]
    flags: dict[str, list[int]] = {name: [] for name in (*single, "pv")}
    lines = (line.split() for line in rows.frame["pv"])
    for fen, *of_row in zip(rows.frame["fen"], *moves, lines, strict=True):
        board = chess.Board(fen)
        for name, line in zip(flags, of_row, strict=True):
            flags[name] += san_flags(board, line) or [0] * (name in single)
    for name, column in zip(single, moves, strict=True):
        columns.add(name, encode_moves([line[0] if line else "a1a1" for line in column]))
        columns.add(f"{name}_san", np.array(flags[name], np.uint8))
    for name in ("moves", "pv"):
        columns.add_lines(name, rows.frame[name].tolist())
    columns.add("pv_san", np.array(flags["pv"], np.uint8))


def san_flags(board: chess.Board, line: Sequence[str]) -> list[int]:
    """What the SAN of each move of a line (UCI) has that the board before it does not show.

    1 the file, 2 the rank that a piece came from, 4 check, 8 mate; 0 from a move on that cannot be played.
    """
    flags, board = [0] * len(line), board.copy(stack=False)
    with suppress(ValueError):
        for i, uci in enumerate(line):
            san = board.san_and_push(board.parse_uci(uci))
            origin = san.rstrip("+#").replace("x", "")[1:-2] if san[0] in "NBRQ" else ""
            flags[i] = origin[:1].isalpha() + 2 * origin[-1:].isdecimal() + 4 * ("+" in san) + 8 * ("#" in san)
    return flags


def _lowess(scored: pd.DataFrame) -> list[list[float]] | None:
    """The line of all positions; if they are too many, of `_LOWESS_ROWS` spread evenly by weight along deep Q."""
    x, y, weights = (scored[name].to_numpy(np.float64) for name in ("deep_q", "net_q", "weight"))
    if len(x) > _LOWESS_ROWS:
        order = np.argsort(x, kind="stable")
        copies = copies_by_weight(weights[order] * (_LOWESS_ROWS / weights.sum()), 1, 0.5)
        rows = np.repeat(order, copies)
        x, y, weights = x[rows], y[rows], np.ones(len(rows))
    line = lowess_line(x, y, weights)
    return None if line is None else [axis.round(5).tolist() for axis in line]


def figures_of(
    store: Store, question: Question, scored: pd.DataFrame, rows: pd.DataFrame, labels: pd.DataFrame
) -> dict[str, Any]:
    """The output of `vr stats` for the question: ``stats`` as with ``--json``, ``lines`` as with ``-v``.

    `rows`, with `labels`, are the shown rows of `scored`, which mostly include all candidates.
    """
    size = rows["disagreement"].abs().to_numpy(np.float64)
    candidates, labelled = is_candidate(size, question.threshold).sum(), None
    if candidates == is_candidate(scored["disagreement"], question.threshold).sum():
        worst = np.argsort(-size, kind="stable")[:candidates]
        labelled = rows.iloc[worst], labels.iloc[worst]
    figures = replace(stats.store_stats(store, question, labelled=labelled), store=file_name(store.path))
    told = figures.as_json()
    if figures.scored is not None:
        told["scored"]["source"] = figures.scored.source
    return {
        "stats": told,
        "headline": figures.headline,
        "lines": [*figures.lines(), *figures.details()],
        "sources": _sources(store),
    }


def _sources(store: Store) -> list[dict[str, Any]]:
    """The archives without their folders, as a page may be published, with what was sampled of them.

    `positions` counts those of the `games`, `beside` those beside the games (`vr mine --off-game`).
    """
    query = """
        SELECT g.source, count(DISTINCT CASE WHEN p.origin = 'game' THEN g.id END),
            sum(p.origin = 'game'), sum(p.origin <> 'game')
        FROM positions p JOIN games g ON g.id = p.game_id
        WHERE p.origin <> 'neighbour'
        GROUP BY g.source ORDER BY count(*) DESC
    """
    return [
        {"name": file_name(source), "games": games, "positions": positions, "beside": beside}
        for source, games, positions, beside in store.connection.execute(query)
    ]


_ALIGN = 8  # the largest number; a typed array begins at a multiple of its numbers' size


class Columns:
    """Arrays by name, concatenated; `layout` has type, offset and length of each, `content` their bytes."""

    def __init__(self) -> None:
        self.layout: dict[str, dict[str, Any]] = {}
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, name: str, values: NDArray[Any]) -> None:
        """Adds an array of one of the types f8, f4, u4, u2, u1."""
        content = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
        kind = values.dtype.str.lstrip("<|=>")
        self.layout[name] = {"type": kind, "offset": self._size, "length": len(values)}
        padded = content + b"\0" * (-len(content) % _ALIGN)
        self._pieces.append(padded)
        self._size += len(padded)

    def add_lines(self, name: str, lines: Sequence[str]) -> None:
        """Adds lines of UCI moves joined by blanks: all moves in one array, and the beginning of each line in another.

        Moves are numbers as in `valuerepair.chess.positions`; line i is ``name[name_from[i] : name_from[i + 1]]``.
        """
        moves, begins = encode_lines([line.split() for line in lines])
        self.add(name, moves)
        self.add(f"{name}_from", begins.astype(np.uint32))

    def add_words(self, name: str, words: Sequence[str | None]) -> list[str]:
        """Adds words as indices into the list that it returns, whose first word is empty (for None)."""
        distinct = ["", *sorted({word for word in words if word})]
        index = {word: i for i, word in enumerate(distinct)}
        self.add(name, np.array([index[word or ""] for word in words], np.uint32))
        return distinct

    @property
    def content(self) -> bytes:
        return b"".join(self._pieces)


_MOST_POINTS = 100_000
# The largest disagreements are always shown, whatever the number of candidates.
WORST = 1_000
# If candidates alone would fill the page, this share of it is reserved for other positions, as rates need both.
REST_SHARE = 0.2

STRATA = ("worst", "candidates", "rest")


@dataclass(frozen=True, slots=True)
class ShownRows:
    """The rows [n] of a frame that the page shows, ascending, with the stratum [n] of each (an index into `STRATA`).

    `shown` counts the page's rows by stratum, `stored` the store's. A row of a stratum represents ``stored / shown``
    rows, the inverse of its chance of being drawn (D. G. Horvitz & D. J. Thompson, JASA 47, 1952).
    """

    rows: NDArray[np.int64]
    stratum: NDArray[np.uint8]
    shown: tuple[int, int, int]
    stored: tuple[int, int, int]

    @property
    def factors(self) -> tuple[float, float, float]:
        """The number of rows that each shown row of a stratum represents; 1 for an empty stratum."""
        counts = zip(self.shown, self.stored, strict=True)
        worst, candidates, rest = (stored / shown if shown else 1.0 for shown, stored in counts)
        return worst, candidates, rest

    @property
    def complete(self) -> bool:
        return self.shown == self.stored


def choose(frame: pd.DataFrame, threshold: float, limit: int = _MOST_POINTS, seed: int = 0) -> ShownRows:
    """At most about `limit` rows of a store's frame that have a disagreement: all candidates, and a sample of the rest.

    If there are too many candidates, the page shows the `WORST` and a sample of the others, so that `REST_SHARE` of it
    is for positions that are not candidates. Samples are drawn without replacement, each row with the same chance. The
    `WORST` are shown even beyond `limit`.
    """
    size = np.abs(frame["disagreement"].to_numpy(np.float64))
    wrong = is_candidate(size, threshold)
    candidates, rest = np.flatnonzero(wrong), np.flatnonzero(~wrong & ~np.isnan(size))
    dice = np.random.default_rng(seed)
    worst = candidates[np.argsort(-size[candidates], kind="stable")[:WORST]]
    others = np.setdiff1d(candidates, worst)
    room = max(limit - len(worst), 0)
    # At least one row of each stratum that is not empty: otherwise no row would represent the stratum.
    for_rest = min(len(rest), max(room - len(others), round(REST_SHARE * limit), 1))
    strata = (worst, _sample(others, max(room - for_rest, 1), dice), _sample(rest, for_rest, dice))
    rows = np.concatenate(strata)
    stratum = np.repeat(np.arange(len(STRATA), dtype=np.uint8), [len(part) for part in strata])
    order = np.argsort(rows, kind="stable")
    shown, stored = [len(part) for part in strata], (len(worst), len(others), len(rest))
    return ShownRows(rows[order], stratum[order], (shown[0], shown[1], shown[2]), stored)


def _sample(rows: NDArray[np.int64], count: int, dice: np.random.Generator) -> NDArray[np.int64]:
    return rows if len(rows) <= count else dice.choice(rows, count, replace=False)


# The columns read for all positions.
OF_ALL = ("position_id", "net_q", "deep_q", "disagreement", "weight")
_GAME_WORDS = ("source", "number", "white", "black", "event", "date", "result")
_HEADERS = {"site": "Site", "round": "Round", "white_elo": "WhiteElo", "black_elo": "BlackElo"}


class PageRows(NamedTuple):
    """n positions. The texts of games are untrusted: anybody may have written them.

    `frame` has the columns of `view.frame`. `games` has a dict for each game (`_GAME_WORDS`, `_HEADERS`); `game_of`
    [n] is the index of each row's game.
    """

    frame: pd.DataFrame
    games: list[dict[str, Any]]
    game_of: NDArray[np.int64]


def with_texts(store: Store, question: Question, frame: pd.DataFrame) -> PageRows:
    """Reads all columns for the rows of a frame with the columns `OF_ALL`, which answers the question, by position.

    Reads texts for these rows only: the texts of a million positions would take gigabytes.
    """
    rows = view.frame(store, question, ids=frame["position_id"].to_numpy(np.int64))
    numbers, game_of = np.unique(rows["game_id"].to_numpy(np.int64), return_inverse=True)
    return PageRows(rows, _games(store, numbers), game_of)


def _games(store: Store, numbers: NDArray[np.int64]) -> list[dict[str, Any]]:
    """The games of these numbers, in that order."""
    words = ", ".join(f"g.{name}" for name in _GAME_WORDS)
    query = f"SELECT {words}, g.headers FROM json_each(?) j JOIN games g ON g.id = j.value ORDER BY j.key"
    games = []
    for *cells, text in store.connection.execute(query, (json.dumps(numbers.tolist()),)):
        headers = json.loads(text)
        row = dict(zip(_GAME_WORDS, cells, strict=True))
        games.append(row | {name: headers.get(header) for name, header in _HEADERS.items()})
    return games


@dataclass(frozen=True, slots=True)
class WrittenPage:
    """A written page: how many `positions` have a disagreement, how many of these are `shown` one by one.

    `candidates` counts the candidates at the `threshold` among all positions; `size` is in bytes.
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
    """Writes the report on the scores of the question's net and judge, of positions of games, as one HTML file.

    Positions one by one are those of `choose`; figures cover all positions. `on_step` is called with the
    name of each step before it begins. Raises ValueRepairError without scored positions, OSError if the folder cannot
    be written.
    """
    question = replace(question or Question(), beside=False)
    threshold = question.threshold
    with written_whole(path) as partial:
        with store.snapshot():
            on_step("values")
            frame = view.frame(store, question, only=OF_ALL)
            scored = frame[~np.isnan(frame["disagreement"])]
            if frame.empty:
                raise ValueRepairError("nothing to report: no position of a game is scored")
            if scored.empty:
                raise ValueRepairError(f"nothing to report: {no_deep_score(len(frame), question.q_from)}")
            chosen = choose(scored, threshold)
            on_step("positions")
            rows = with_texts(store, question, scored.iloc[chosen.rows])
            content = content_of(store, scored, chosen, rows, question, on_step)
        partial.write_bytes(document(content))
        size = partial.stat().st_size
    candidates = int(is_candidate(scored["disagreement"], threshold).sum())
    return WrittenPage(os.fspath(path), len(scored), len(chosen.rows), candidates, threshold, size)


# In the order of their imports: each module uses only those before it.
MODULES = (
    *("guard", "data", "rates", "filters", "board", "words", "charts", "scatter", "detail", "list", "summary", "main"),
)
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./[a-z]+\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(async )?function|const|class)", re.MULTILINE)
_POLICY = (
    "default-src 'none'; script-src {scripts} 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:; "
    "connect-src 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types default"
)


def document(content: Content) -> bytes:
    """The HTML file. Its modules are joined into one script, because a single file cannot import others; so no two of
    them may define the same name.

    Its policy allows style in elements, which the plotting library needs; text from archives never becomes style.
    """
    words = json.dumps(content.words, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    script, plotly = bundle(), plotly_script()
    parts = {
        "version": __version__,
        "pieces": "".join(chess.svg.PIECES.values()),
        "plotly": _pack(plotly.encode()),
        "words": _pack(words.encode()),
        "numbers": _pack(content.numbers),
        "script": script,
    }
    # One pass, so that inserted text is not replaced again.
    body = re.sub(r"\{\{([a-z]+)\}\}", lambda match: parts[match[1]], template_part("report.html"))
    policy = _POLICY.format(scripts=f"{_hash(script)} {_hash(plotly)}")
    return static_page.frame("valuerepair report", body, policy, "style.css").encode()


def bundle() -> str:
    """All modules as one strict script, which must not contain the end of a script element."""
    text = "".join(_EXPORT.sub("", _IMPORT.sub("", template_part(f"{name}.js"))) for name in MODULES)
    return f'"use strict";\n(() => {{\n{text}}})();\n'


def plotly_script() -> str:
    """Plotly's own script, from its Python package."""
    return resources.files("plotly").joinpath("package_data").joinpath("plotly.min.js").read_text("utf-8")


def _pack(content: bytes) -> str:
    """Base64 of gzip, which needs no escapes in HTML; without a time stamp, so that equal pages are equal files."""
    return base64.b64encode(gzip.compress(content, 6, mtime=0)).decode()


def _hash(script: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() + "'"
