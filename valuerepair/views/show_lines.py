"""What `valuerepair.views.show` found, as lines for a terminal."""

from __future__ import annotations

from typing import Any

import chess

from valuerepair.candidates.labelled import KINDS
from valuerepair.values import Alpha
from valuerepair.views.plain import printable

_NAME = 60  # characters of a player or an event that are shown


def lines(shown: dict[str, Any]) -> list[str]:
    """The facts of `describe`, one a line, without the board. Safe to print, whatever headers and engines wrote."""
    side = "White" if shown["side"] == "w" else "Black"
    found = [
        f"position {shown['position_id']}: {side} to move, ply {shown['ply']}, {shown['phase']}, {shown['pieces']} men",
        shown["fen"],
        "",
        *_net(shown),
        *_deep(shown),
        *_disagreement(shown),
        *_verdict(shown),
        *_labels(shown),
        *_origin(shown),
        *_games(shown),
    ]
    return [printable(line, 2000) for line in found]


def _line(name: str, text: str) -> str:
    return f"{name:<9} {text}"


def _net(shown: dict[str, Any]) -> list[str]:
    net = shown["net"]
    if net is None:
        return [_line("net", "has not evaluated it")]
    words = [f"{printable(net['name'], _NAME)}: Q {net['q']:+.3f}"]
    if net["wdl"] is not None:
        words.append("W/D/L {:.1f} / {:.1f} / {:.1f} %".format(*(100 * share for share in net["wdl"])))
    if net["best"] is not None:
        prior = "" if net["best_p"] is None else f" (prior {100 * net['best_p']:.1f} %)"
        words.append(f"best {net['best']['san']}{prior}")
    return [_line("net", ", ".join(words))]


def _deep(shown: dict[str, Any]) -> list[str]:
    deep = shown["deep"]
    if deep is None:
        return [_line("search", shown["without_deep"] or "has not looked at it")]
    words = [f"{printable(deep['oracle'], _NAME)}: " + ("no Q" if deep["q"] is None else f"Q {deep['q']:+.3f}")]
    if deep["mate"] is not None:
        words.append(f"mate in {deep['mate']}" if deep["mate"] > 0 else f"mated in {-deep['mate']}")
    elif deep["cp"] is not None:
        words.append(f"{deep['cp']:+d} cp")
    if deep["wdl"] is not None:
        words.append("W/D/L {:.1f} / {:.1f} / {:.1f} %".format(*(per_mille / 10 for per_mille in deep["wdl"])))
    if deep["best"] is not None:
        prior = shown["priors"].get("oracle")
        known = f" (the net's prior {100 * prior['p']:.1f} %, rank {prior['rank']})" if prior else ""
        words.append(f"best {deep['best']['san']}{known}")
    words.append(f"{deep['nodes']:,} nodes" + (f" to depth {deep['depth']}" if deep["depth"] else ""))
    return [_line("search", ", ".join(words)), *([_line("line", deep["pv_san"])] if deep["pv_san"] else [])]


def _disagreement(shown: dict[str, Any]) -> list[str]:
    off = shown["disagreement"]
    if off is None:
        return []
    words = [f"{off:+.3f}, no candidate at {shown['threshold']:g}"]
    if shown["candidate"]:
        errs = "too optimistic" if off > 0 else "too pessimistic"
        words = [f"{off:+.3f}, a candidate at {shown['threshold']:g}: the net is {errs}"]
    a_mate = shown["deep"]["mate"] is not None
    words.append("Q of a mate" if a_mate else Alpha(**shown["alpha"]).source(shown["q_from"], ".0f"))
    weight = shown["weight"]
    if weight != 1:
        words.append(f"stands for {weight:.3g} positions (screening)" if weight else "stands for none (screening)")
    return [_line("net-deep", "; ".join(words))]


def _verdict(shown: dict[str, Any]) -> list[str]:
    found = shown["verdict"]
    if found is None:
        return [_line("confirmed", "not looked at again (vr confirm)")] if shown["candidate"] else []
    q = "no Q" if found["q"] is None else f"Q {found['q']:+.3f}"
    best = f", best {_san(shown['fen'], found['best'])}" if found["best"] else ""
    second = printable(found["second"], _NAME)
    return [_line("confirmed", f"{found['verdict']}, says {second}: {q}{best}, {found['nodes']:,} nodes")]


def _labels(shown: dict[str, Any]) -> list[str]:
    # Families and signatures are for picking; a reader has the board and the opening's name.
    words = [word for word in shown["labels"] if word.partition(":")[0] not in KINDS]
    found = [_line("labels", ", ".join(words))] if words else []
    return found + ([_line("opening", shown["opening"])] if shown["opening"] else [])


def _origin(shown: dict[str, Any]) -> list[str]:
    origin = shown["origin"]
    where = f"{printable(origin['source'])}, game {origin['game']:,}, ply {shown['ply']}"
    found = [_line("from", where)]
    white, black, event, date = (
        printable(origin[name] or "", _NAME).strip() for name in ("white", "black", "event", "date")
    )
    if white or black:
        rest = ", ".join(word for word in (event, date) if word and word not in ("?", "????.??.??"))
        result = f" {printable(origin['result'], 10)}" if origin["result"] else ""
        found.append(_line("", f"{white or '?'} - {black or '?'}{result}" + (f" ({rest})" if rest else "")))
    if origin["played"] is not None:
        prior = shown["priors"].get("played")
        known = f" (the net's prior {100 * prior['p']:.1f} %, rank {prior['rank']})" if prior else ""
        found.append(_line("played", f"{_numbered(shown['fen'])}{origin['played']['san']}{known}"))
    return found


def _games(shown: dict[str, Any]) -> list[str]:
    games = shown["games"]
    if games is None:
        return []
    decided = f"+{games['wins']} -{games['losses']} ={games['draws']} for the side to move"
    mean = f", mean Z {games['z']:+.2f}" if games["z"] is not None else ""
    undecided = f", {games['undecided']:,} undecided" if games["undecided"] else ""
    players = " and ".join(printable(name, _NAME) for name in games["players"][:2])
    return [_line("games", f"{games['games']:,} played from here by {players}: {decided}{mean}{undecided}")]


def _numbered(fen: str) -> str:
    """The number before a move: ``12.`` or ``12...``."""
    fields = fen.split()
    return f"{fields[5]}{'. ' if fields[1] == 'w' else '... '}"


def _san(fen: str, uci: str) -> str:
    """A move in SAN; the text itself where it is none."""
    board = chess.Board(fen)
    legal = {move.uci(): move for move in board.legal_moves}
    return board.san(legal[uci]) if uci in legal else uci
