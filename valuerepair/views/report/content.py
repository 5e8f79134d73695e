"""What a page holds: numbers by column, words by row, the figures of the store."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from valuerepair.candidates import summary
from valuerepair.candidates.labelled import NAMES, labels_of, names
from valuerepair.candidates.verdict import VERDICTS, evidence
from valuerepair.positions import STARTPOS_FEN
from valuerepair.store.phases import PHASES
from valuerepair.store.statistics import lines as statistics_lines
from valuerepair.views.report.columns import Columns, moves_column
from valuerepair.views.report.entries import entries_of
from valuerepair.views.report.points import STRATA, Shown
from valuerepair.views.smoothing import lowess_line

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.store import Store

_GAME = ("white", "black", "white_elo", "black_elo", "event", "site", "date", "round", "result")
_REALS = ("net_q", "deep_q", "second_q", "net_w", "net_d", "net_l", "cp", "mate", "nodes")
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
    rows: pd.DataFrame,
    threshold: float,
    on_row: Callable[[], None] = lambda: None,
) -> Content:
    """The content of a page about the scored positions `every`, which shows `rows` (with texts) of them, `shown`."""
    labels, looks = labels_of(store, rows), evidence(store, rows)
    entries = entries_of(rows, threshold, on_row)
    columns = Columns()
    _add_numbers(columns, rows.assign(second_q=looks["second_q"]), shown)
    _add_moves(columns, rows)
    masks = [sum(1 << i for i, name in enumerate(NAMES) if name in found) for found in names(labels)]
    columns.add("labels", np.array(masks, np.uint32))
    verdict = [1 + VERDICTS.index(word) if word else 0 for word in looks["verdict"]]
    columns.add("verdict", np.array(verdict, np.uint8))
    columns.add("playable", np.array([entry.playable for entry in entries], np.uint8))
    words = {
        "family": columns.add_words("family", labels["opening_family"].tolist()),
        "opening": columns.add_words("opening", labels["opening"].tolist()),
        "material": columns.add_words("material", labels["material_family"].tolist()),
        "phase": list(PHASES),
        "side": ["w", "b"],
        "labels": list(NAMES),
        "verdict": ["", *VERDICTS],
    }
    games, game_of = _games(rows.to_dict("records"), [entry.game_tags for entry in entries])
    columns.add("game", np.array(game_of, np.uint32))
    return Content(
        {
            "layout": columns.layout,
            "words": words,
            "rows": [[entry.fen, entry.tags, entry.operations] for entry in entries],
            "starts": _starts(rows["start_fen"].tolist(), columns),
            "movetexts": {i: entry.movetext for i, entry in enumerate(entries) if entry.movetext},
            "games": games,
            "second": looks.attrs["second"],
            "threshold": threshold,
            "shown": {"strata": list(STRATA), "shown": shown.shown, "of": shown.of, "complete": shown.complete},
            "lowess": _lowess(every),
            "figures": figures_of(store, every, threshold),
            "layout_of_games": [*_GAME, "source", "number", "tags"],
        },
        columns.content,
    )


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
    columns.add("phase", np.array([PHASES.index(phase) for phase in rows["phase"]], np.uint8))
    columns.add("side", (rows["side"] == "b").to_numpy().astype(np.uint8))


def _add_moves(columns: Columns, rows: pd.DataFrame) -> None:
    for name in ("played", "net_best", "deep_best"):
        columns.add(name, moves_column(rows[name].tolist()))
    columns.add_lines("moves", rows["moves"].tolist())
    columns.add_lines("pv", rows["pv"].tolist())


def _starts(start_fens: list[str], columns: Columns) -> list[str]:
    """Where histories begin: nearly all at the same FEN, so a column of numbers and a list."""
    return columns.add_words("start", ["" if fen == STARTPOS_FEN else fen for fen in start_fens])


def _games(rows: list[dict[Hashable, Any]], tags: list[str]) -> tuple[list[list[Any]], list[int]]:
    """One list of words a game, and the game of each row."""
    games: list[list[Any]] = []
    place: dict[int, int] = {}
    game_of = []
    for row, of_game in zip(rows, tags, strict=True):
        number = place.setdefault(row["game_id"], len(games))
        if number == len(games):
            source = PurePath(str(row["source"])).name
            games.append([*(row[name] for name in _GAME), source, row["game"], of_game])
        game_of.append(number)
    return games, game_of


def _lowess(every: pd.DataFrame) -> list[list[float]] | None:
    line = lowess_line(*(every[name].to_numpy(np.float64) for name in ("deep_q", "net_q", "weight")))
    return None if line is None else [axis.round(5).tolist() for axis in line]


def figures_of(store: Store, every: pd.DataFrame, threshold: float) -> dict[str, Any]:
    """What `vr stats` says of the net and the oracle of the frame: ``figures`` as by ``--json``, ``lines`` as text."""
    attrs = every.attrs
    which = (attrs["net"]["sha256"], attrs["oracle"]["digest"], attrs["alpha"]["value"], attrs["q_from"])
    figures = store.stats(*which, threshold)
    figures["scored"]["alpha"] = dict(attrs["alpha"])  # where it is from: asked for by number it would say "given"
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
