"""What a page holds: numbers by column, words by row, the figures of the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.candidates import summary
from valuerepair.candidates.labelled import NAMES, labels_of, names
from valuerepair.candidates.verdict import VERDICTS, evidence
from valuerepair.candidates.weights import copies_by_weight
from valuerepair.positions import STARTPOS_FEN
from valuerepair.store.phases import PHASES
from valuerepair.store.statistics import lines as statistics_lines
from valuerepair.values import Alpha
from valuerepair.views.report.columns import Columns, moves_column
from valuerepair.views.report.entries import WEIGHT_STEPS, Entries, entries_of, game_operand, game_tags
from valuerepair.views.report.points import STRATA, Shown
from valuerepair.views.report.texts import Rows
from valuerepair.views.smoothing import lowess_line

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.store import Store

_GAME = ("white", "black", "white_elo", "black_elo", "event", "site", "date", "round", "result")
_REALS = ("net_q", "deep_q", "second_q", "net_w", "net_d", "net_l", "cp", "mate", "nodes")
# What labels' names are made of, but for names of which there are many.
_OF_NAMES = [
    "sign", "phase", "blind", "missed_mate", "fortress_like", "repetition", "in_check", "forced",
]  # fmt: skip
_LOWESS_ROWS = 200_000
_FIELDS = (*_GAME, "source", "number", "tags", "operand")
_PER_MILLE = ("deep_w", "deep_d", "deep_l")


@dataclass(frozen=True, slots=True)
class Content:
    """`words` is JSON-able; `numbers` the bytes of its ``layout``."""

    words: dict[str, Any]
    numbers: bytes


def content_of(
    store: Store,
    every: pd.DataFrame,
    shown: Shown,
    rows: Rows,
    threshold: float,
    on_step: Callable[[str], None] = lambda step: None,
) -> Content:
    """The content of a page about the scored positions `every`, which shows `rows` of them, `shown`.

    `on_step` is told the name of each step (`steps.STEPS`) before it.
    """
    on_step("labels")
    frame = rows.frame
    labels, looks = labels_of(store, frame), evidence(store, frame)
    on_step("figures")
    figures = figures_of(store, every, frame, labels, threshold)
    on_step("lowess")
    line = _lowess(every)
    on_step("books")
    entries = entries_of(rows, threshold)
    on_step("packing")
    columns = Columns()
    _add_numbers(columns, frame.assign(second_q=looks["second_q"]), shown)
    _add_moves(columns, rows)
    columns.add("labels", masks(labels))
    verdict = [1 + VERDICTS.index(word) if word else 0 for word in looks["verdict"]]
    columns.add("verdict", np.array(verdict, np.uint8))
    columns.add("playable", entries.playable.astype(np.uint8))
    columns.add("book_weight", entries.weights)
    columns.add("game", rows.game_of.astype(np.uint32))
    words = {
        "family": columns.add_words("family", labels["opening_family"].tolist()),
        "opening": columns.add_words("opening", labels["opening"].tolist()),
        "material": columns.add_words("material", labels["material_family"].tolist()),
        "phase": list(PHASES),
        "side": ["w", "b"],
        "labels": list(NAMES),
        "verdict": ["", *VERDICTS],
    }
    return Content(
        {
            "words": words,
            "starts": _starts(frame["start_fen"].tolist(), columns),
            "layout": columns.layout,
            **_of_books(rows, entries),
            "second": looks.attrs["second"],
            "threshold": threshold,
            "shown": {"strata": list(STRATA), "shown": shown.shown, "of": shown.of, "complete": shown.complete},
            "lowess": line,
            "figures": figures,
            "layout_of_games": _FIELDS,
        },
        columns.content,
    )


def masks(labels: pd.DataFrame) -> NDArray[np.uint32]:
    """[n] bit i is set where a row has the label `NAMES[i]`.

    Few of the combinations that there could be are there, so names are looked for once in each of them.
    """
    kinds = labels[_OF_NAMES].astype(object)
    which = kinds.groupby(list(kinds.columns), sort=False, dropna=False).ngroup().to_numpy()
    first = np.unique(which, return_index=True)[1]
    found = [sum(1 << i for i, name in enumerate(NAMES) if name in row) for row in names(labels.iloc[first])]
    return np.asarray(np.array(found, np.uint32)[which])


def _of_books(rows: Rows, entries: Entries) -> dict[str, Any]:
    """What the page's books and games are made of."""
    games = [
        {**game, "source": PurePath(str(game["source"])).name, "tags": game_tags(game), "operand": game_operand(game)}
        for game in rows.games
    ]
    return {
        "fens": entries.fens,
        "weight_steps": WEIGHT_STEPS,
        "movetexts": entries.movetexts,
        "games": [[game[name] for name in _FIELDS] for game in games],
    }


def _add_numbers(columns: Columns, rows: pd.DataFrame, shown: Shown) -> None:
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


def _add_moves(columns: Columns, rows: Rows) -> None:
    for name in ("played", "net_best", "deep_best"):
        columns.add(name, moves_column(rows.frame[name].tolist()))
    columns.add_moves("moves", rows.moves, rows.begins)
    columns.add_lines("pv", rows.frame["pv"].tolist())


def _starts(start_fens: list[str], columns: Columns) -> list[str]:
    """Where histories begin: nearly all at the same FEN, so a column of numbers and a list."""
    return columns.add_words("start", ["" if fen == STARTPOS_FEN else fen for fen in start_fens])


def _lowess(every: pd.DataFrame) -> list[list[float]] | None:
    """The line of all positions; of very many, of `_LOWESS_ROWS` that lie evenly along deep Q, by weight."""
    x, y, weights = (every[name].to_numpy(np.float64) for name in ("deep_q", "net_q", "weight"))
    if len(x) > _LOWESS_ROWS:
        order = np.argsort(x, kind="stable")
        copies = copies_by_weight(weights[order] * (_LOWESS_ROWS / weights.sum()), 1, 0.5)
        rows = np.repeat(order, copies)
        x, y, weights = x[rows], y[rows], np.ones(len(rows))
    line = lowess_line(x, y, weights)
    return None if line is None else [axis.round(5).tolist() for axis in line]


def figures_of(
    store: Store, every: pd.DataFrame, rows: pd.DataFrame, labels: pd.DataFrame, threshold: float
) -> dict[str, Any]:
    """What `vr stats` says of the net and the oracle of the frame: ``figures`` as by ``--json``, ``lines`` as text.

    `rows`, with `labels`, are those of `every` that are shown: mostly all candidates are among them.
    """
    attrs = every.attrs
    which = (attrs["net"]["sha256"], attrs["oracle"]["digest"], attrs["alpha"]["value"], attrs["q_from"])
    figures = store.stats(*which, threshold)
    figures["scored"]["alpha"] = dict(attrs["alpha"])  # where it is from: asked for by number it would say "given"
    figures["scored"]["source"] = Alpha(**attrs["alpha"]).source(attrs["q_from"])
    size = rows["disagreement"].abs().to_numpy(np.float64)
    if (size >= threshold).sum() == (every["disagreement"].abs() >= threshold).sum():
        worst = np.argsort(-size, kind="stable")[: (size >= threshold).sum()]
        known = summary.sections(store, rows.iloc[worst], threshold, labels.iloc[worst])
    else:
        known = summary.sections(store, store.candidates(threshold, *which), threshold)
    return {
        "stats": {**figures, **known, "store": PurePath(store.path).name},
        "lines": [*statistics_lines({**figures, "store": PurePath(store.path).name}), *summary.lines(known)],
        "sources": _sources(store),
    }


def _sources(store: Store) -> list[dict[str, Any]]:
    """The archives, without their folders: a page may be published."""
    query = """
        SELECT g.source, count(DISTINCT g.id), count(*) FROM positions p JOIN games g ON g.id = p.game_id
        GROUP BY g.source ORDER BY count(*) DESC
    """
    return [
        {"name": PurePath(source).name, "games": games, "positions": positions}
        for source, games, positions in store.connection.execute(query)
    ]
