"""One position of a store with all that is known of it, as JSON-able data: what `vr show` shows."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import chess
import numpy as np

from valuerepair import values
from valuerepair.candidates.similar import read_query
from valuerepair.errors import ValueRepairError
from valuerepair.store import Store
from valuerepair.store.connect import store_errors
from valuerepair.store.one_position import one_position, played_from
from valuerepair.store.queries import COLUMNS
from valuerepair.views.drawing import Asked

_ORIGIN = ("source", "game", "white", "black", "event", "date", "result", "eval_cp", "eval_mate")
_FACTS = ("position_id", "fen", "start_fen", "moves", "history_known", "ply", "side", "phase", "pieces")


def describe(store: Store, words: str, asked: Asked) -> dict[str, Any]:
    """All that the store has of a position: `words` are its position_id, a FEN or an EPD line.

    A FEN means the position with its board key: clocks do not matter. Values are from the side to move. Keys: those of
    the position; `net`, `deep`, `verdict`, `games`: dicts, None where there is nothing; `without_deep`: why; the
    `disagreement`, whether it is a `candidate` at the `threshold`, `labels` of a candidate, `opening`, `priors` of the
    search's and the played move, `weight`, `alpha`, `q_from`; `origin`: the game. A move is ``{"uci": .., "san": ..}``.

    Raises UsageError for words that are no legal position, ValueRepairError for one that the store does not have.
    """
    position, position_id = read_query(store, words)
    if not position_id:
        raise ValueRepairError(
            f'the position is not in {store.path}; vr eval "{position.fen}" asks a net, '
            f'vr similar "{position.fen}" --db {store.path} finds the nearest ones there'
        )
    net_id, oracle_id = _pick(store, asked)
    row = one_position(store, position_id, net_id, oracle_id)
    board = chess.Board(row["fen"])
    alpha = store.alpha(net_id, oracle_id, asked.alpha) if net_id else None
    row["deep_q"] = None if alpha is None else _deep_q(row, alpha.value, asked)
    both = row["net_q"] is not None and row["deep_q"] is not None
    off = row["net_q"] - row["deep_q"] if both else None
    candidate = off is not None and abs(off) >= asked.threshold
    return {
        **{name: row[name] for name in _FACTS},
        "net": _net(store, net_id, row, board),
        "deep": _deep(store, oracle_id, row, board),
        "without_deep": _without_deep(row) if net_id and row["nodes"] is None else None,
        "disagreement": off,
        "threshold": asked.threshold,
        "candidate": candidate,
        **(_of_frame(store, row, net_id, oracle_id, alpha, asked, candidate) if alpha is not None and both else _NONE),
        "weight": row["weight"],
        "alpha": None if alpha is None else asdict(alpha),
        "q_from": asked.q_from,
        "origin": {**{name: row[name] for name in _ORIGIN}, "played": _move(board, row["played"])},
        "games": _games(store, position_id),
    }


_NONE: dict[str, Any] = {"labels": [], "opening": None, "priors": {}, "verdict": None}


def _pick(store: Store, asked: Asked) -> tuple[int, int]:
    """Net and oracle, 0 where nothing is scored yet and none was asked for."""
    try:
        return store.pick(asked.net, asked.oracle)
    except ValueRepairError:
        if asked.net is not None or asked.oracle is not None:
            raise
        return 0, 0


def _deep_q(row: dict[str, Any], alpha: float, asked: Asked) -> float | None:
    cp, mate, w, d, loss, own = (
        math.nan if row[name] is None else float(row[name])
        for name in ("cp", "mate", "deep_w", "deep_d", "deep_l", "deep_own_q")
    )
    q = float(values.deep_q(cp, mate, [w, d, loss], own, alpha, asked.q_from))
    return None if math.isnan(q) else q


def _net(store: Store, net_id: int, row: dict[str, Any], board: chess.Board) -> dict[str, Any] | None:
    if row["net_q"] is None:
        return None
    with store_errors(store.path):
        query = "SELECT name, sha256 FROM nets WHERE id = ?"
        name, sha256 = store.connection.execute(query, (net_id,)).fetchone()
    wdl = None if row["net_w"] is None else [row["net_w"], row["net_d"], row["net_l"]]
    best = _move(board, row["net_best"])
    found = {"name": name, "sha256": sha256, "q": row["net_q"], "wdl": wdl, "best": best}
    return found | {"best_p": row["net_best_p"], "entropy": row["net_entropy"]}


def _deep(store: Store, oracle_id: int, row: dict[str, Any], board: chess.Board) -> dict[str, Any] | None:
    if row["nodes"] is None:
        return None
    with store_errors(store.path):
        query = "SELECT label, digest FROM oracles WHERE id = ?"
        label, digest = store.connection.execute(query, (oracle_id,)).fetchone()
    wdl = None if row["deep_w"] is None else [row["deep_w"], row["deep_d"], row["deep_l"]]
    found = {"oracle": label, "digest": digest, "q": row["deep_q"], "cp": row["cp"], "mate": row["mate"], "wdl": wdl}
    found |= {"best": _move(board, row["deep_best"]), "pv": row["pv"], "pv_san": pv_san(board, row["pv"])}
    return found | {name: row[name] for name in ("nodes", "depth", "time_ms")}


def _without_deep(row: dict[str, Any]) -> str:
    """Why there is no deep value."""
    if row["failure"] is not None:
        return f"the search failed: {row['failure']}"
    if row["cut_at"] is not None:
        at = f"at {row['cut_at']:,} nodes" if row["cut_at"] else "before any search"
        chance = f", with a chance of {100 * row['chance']:.2f} % of a candidate" if row["chance"] is not None else ""
        return f"cut by the screening ladder {at}{chance}"
    return "not searched"


def _move(board: chess.Board, uci: str | None) -> dict[str, str] | None:
    """A move as UCI and SAN; None for one that is none in this position."""
    found = [move for move in board.legal_moves if move.uci() == uci] if uci else []
    return {"uci": found[0].uci(), "san": board.san(found[0])} if found else None


def pv_san(board: chess.Board, pv: list[str]) -> str:
    """A line of UCI moves in SAN with move numbers, as far as it is legal."""
    copy, legal = board.copy(stack=False), []
    for uci in pv:
        move = next((move for move in copy.legal_moves if move.uci() == uci), None)
        if move is None:
            break
        legal.append(move)
        copy.push(move)
    return board.variation_san(legal) if legal else ""


def _of_frame(
    store: Store,
    row: dict[str, Any],
    net_id: int,
    oracle_id: int,
    alpha: values.Alpha,
    asked: Asked,
    candidate: bool,
) -> dict[str, Any]:
    """Labels, opening, priors and verdict, by what makes them for all candidates: of a frame with this one row."""
    import pandas as pd

    from valuerepair.candidates.labelled import labels_of, names
    from valuerepair.candidates.verdict import evidence

    cells = {name: row.get(name) for name in COLUMNS}
    cells |= {"moves": " ".join(row["moves"]), "pv": " ".join(row["pv"]), "disagreement": row["net_q"] - row["deep_q"]}
    numbers = ("cp", "mate", "net_w", "net_d", "net_l", "deep_w", "deep_d", "deep_l")
    cells |= {name: np.nan if row[name] is None else float(row[name]) for name in numbers}
    frame = pd.DataFrame(
        {name: pd.Series([cell], dtype=None if cell is not None else object) for name, cell in cells.items()}
    )
    with store_errors(store.path):
        query = "SELECT sha256, history_fill FROM nets WHERE id = ?"
        sha256, fill = store.connection.execute(query, (net_id,)).fetchone()
    digest = store.names(net_id, oracle_id)[1]
    frame.attrs.update(
        net={"sha256": sha256, "history_fill": fill},
        oracle={"digest": digest},
        alpha=asdict(alpha),
        q_from=asked.q_from,
    )
    labels = labels_of(store, frame)
    label = labels.to_dict("records")[0]
    priors = {
        who: {"p": label[f"{who}_move_p"], "rank": int(label[f"{who}_move_rank"])}
        for who in ("oracle", "played")
        if not math.isnan(label[f"{who}_move_p"])
    }
    return {
        "labels": sorted(names(labels)[0]) if candidate else [],
        "opening": label["opening"],
        "priors": priors,
        "verdict": _verdict(evidence(store, frame)),
    }


def _verdict(evidence: Any) -> dict[str, Any] | None:
    """What `vr confirm` found; None where nothing looked again."""
    row = evidence.to_dict("records")[0]
    if not row["looked"]:
        return None
    q = None if math.isnan(row["second_q"]) else row["second_q"]
    second = evidence.attrs["second"]["label"]
    return {
        "verdict": row["verdict"],
        "second": second,
        "q": q,
        "best": row["second_best"],
        "nodes": row["second_nodes"],
    }


def _games(store: Store, position_id: int) -> dict[str, Any] | None:
    """The games played from the position, and their results for its side to move; None without any."""
    played = played_from(store, position_id)
    if not played:
        return None
    z = [game.z for game in played if game.z is not None]
    return {
        "games": len(played),
        "undecided": len(played) - len(z),
        "wins": sum(each > 0 for each in z),
        "draws": sum(each == 0 for each in z),
        "losses": sum(each < 0 for each in z),
        "z": sum(z) / len(z) if z else None,
        "players": sorted({name for game in played for name in (game.white, game.black)}),
    }
