"""All that a store has of one position: as JSON-able data, and as lines for a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import chess
import numpy as np

from valuerepair.chess import values
from valuerepair.chess.origins import GAME, Kind
from valuerepair.chess.position_text import read_argument
from valuerepair.chess.positions import PHASES, Position, decode_moves
from valuerepair.chess.values import Alpha
from valuerepair.errors import ValueRepairError
from valuerepair.files import written_whole
from valuerepair.measure.labels import KINDS
from valuerepair.nets.policy import BEST_MOVES
from valuerepair.question import Question, is_candidate
from valuerepair.report.boards import board_svg, legal_move
from valuerepair.store import alpha as alphas
from valuerepair.store import view
from valuerepair.store.pairs import Pair, judge_of, pair_of
from valuerepair.store.parts import HELD_OUT
from valuerepair.store.rows import signed
from valuerepair.store.store import Store
from valuerepair.text import finite, printable

_ORIGIN = ("source", "game", "white", "black", "event", "date", "result", "eval_cp", "eval_mate")
_MOST_DIGITS = 18  # any such number fits into an integer of SQLite
_FACTS = ("position_id", "fen", "start_fen", "moves", "history_known", "ply", "side", "phase", "pieces", "part")
_ROW = """
SELECT p.id AS position_id, p.fen, p.start_fen, p.moves, p.ply, p.side, p.phase, p.pieces, p.history_known,
    p.origin AS kind, p.part, p.parent_id, p.played, p.eval_cp, p.eval_mate, p.game_id,
    g.source, g.number AS game, g.white, g.black, g.event, g.date, g.result,
    n.q AS net_q, n.w AS net_w, n.d AS net_d, n.l AS net_l, n.policy,
    v.cp, v.mate, v.w AS deep_w, v.d AS deep_d, v.l AS deep_l, v.q AS deep_own_q, v.nodes, v.depth, v.time_ms,
    v.best_move AS deep_best, v.pv, v.weight, v.failed, s.nodes AS short_nodes
FROM positions p JOIN games g ON g.id = p.game_id
LEFT JOIN net_values n ON n.net_id = :net AND n.position_id = p.id
LEFT JOIN deep_values v ON v.judge_id = :judge AND v.position_id = p.id
LEFT JOIN deep_values s ON s.judge_id = :short AND s.position_id = p.id AND s.failed IS NULL
WHERE p.id = :id
"""
_GAMES = "SELECT g.white, g.black, g.z FROM plays g JOIN positions p ON p.key = g.key WHERE p.id = ?"


@dataclass(frozen=True)
class ShownPosition:
    """All that a store has of a position: `facts` (those of `describe`)."""

    facts: dict[str, Any]

    def lines(self, *, colours: bool = False) -> list[str]:
        """The board, with the best moves' squares in colour by escape sequences, and the facts.

        Replaces characters that standard output cannot encode.
        """
        net, deep = self._best("net"), self._best("deep")
        board = board_lines(self.facts["fen"], colours=colours, unicode=can_show("♔♚·"), net=net, deep=deep)
        text = [*board, "", *fact_lines(self.facts)]
        return [encodable(line) for line in text]

    def as_json(self) -> dict[str, Any]:
        """The facts, JSON-able."""
        return self.facts

    def write_svg(self, path: str | os.PathLike[str]) -> None:
        """Writes the board as SVG, with arrows for the moves of net and search and the played move."""
        played = (self.facts["origin"]["played"] or {}).get("uci")
        drawn = board_svg(self.facts["fen"], played=played, net=self._best("net"), deep=self._best("deep"))
        with written_whole(path) as partial:
            partial.write_text(drawn, "utf-8")

    def _best(self, source: str) -> str | None:
        """The best move of net or search (UCI)."""
        move: Mapping[str, str] = (self.facts[source] or {}).get("best") or {}
        return move.get("uci")


def find_position(store: Store, words: str) -> tuple[Position, int]:
    """The position that a user means, and its position_id in the store, 0 if it is not there."""
    (most,) = store.connection.execute("SELECT coalesce(max(id), 0) FROM positions").fetchone()
    if (number := words.strip()).isdecimal():
        is_too_large = len(number) > _MOST_DIGITS
        query = "SELECT fen FROM positions WHERE id = ?"
        row = None if is_too_large else store.connection.execute(query, (int(number),)).fetchone()
        if row is None:
            raise ValueRepairError(f"no position {number} in {store.path}; the last one's number is {most}")
        return read_argument(row[0]), int(number)
    position = read_argument(words)
    if not most:
        raise ValueRepairError(f"{store.path} has no positions yet; run vr mine first")
    key = signed(np.array([position.key], np.uint64))[0]
    row = store.connection.execute("SELECT id FROM positions WHERE key = ?", (key,)).fetchone()
    return position, 0 if row is None else int(row[0])


def describe(store: Store, words: str, question: Question) -> dict[str, Any]:
    """All that the store has of a position: `words` are its position_id, a FEN or an EPD line.

    A FEN means the position with the same board key: clocks do not matter. Values are from the side to move. Keys:
    those of the position; `net`, `deep`, `verdict`, `games`: dicts, or None; `without_net`, `without_deep`: the reasons
    for missing values; the `disagreement`, whether it is a `candidate` at the `threshold`, `labels` of a candidate,
    `opening`, `priors` of the judge's and the played move, `weight`, `alpha`, `q_from`; `origin`: the game; `kind`: how
    it was reached; `parent_id`: of a neighbour, the candidate that it was reached from. A move is
    ``{"uci": .., "san": ..}``.

    Raises UsageError for an illegal position, ValueRepairError for one that the store does not have.
    """
    position, position_id = find_position(store, words)
    if not position_id:
        raise ValueRepairError(f'the position is not in {store.path}; vr eval "{position.fen}" asks a net')
    pair, alpha, attrs = pair_of(store, question.net, question.oracle), None, dict[str, Any]()
    row = _row_of(store, position_id, pair)
    if pair is not None:
        alpha = alphas.alpha(store, pair, question.alpha)
        attrs = view.attrs(store, pair, question, alpha)
    board, policy = chess.Board(row["fen"]), view.Policy.of(row["policy"])
    is_searched = row["nodes"] is not None and row["failed"] is None
    row["deep_q"] = _deep_q(row, alpha.value, question) if alpha is not None and is_searched else None
    both = row["net_q"] is not None and row["deep_q"] is not None
    disagreement = row["net_q"] - row["deep_q"] if both else None
    candidate = disagreement is not None and is_candidate(disagreement, question.threshold)
    judged: dict[str, Any] = {"labels": [], "opening": None, "verdict": None}
    if disagreement is not None:
        judged = _judged(store, row, attrs, disagreement, candidate)
    return {
        **{name: row[name] for name in _FACTS},
        "net": None if row["net_q"] is None else _net_of(attrs["net"], row, policy, board),
        "deep": _deep_of(attrs["oracle"], row, board) if is_searched else None,
        "without_net": "has not evaluated it" if pair and row["net_q"] is None else None,
        "without_deep": _without_deep(row) if pair and not is_searched else None,
        "disagreement": disagreement,
        "threshold": question.threshold,
        "candidate": candidate,
        **judged,
        "priors": {
            chooser: prior
            for chooser, move in _CHOOSERS.items()
            if (prior := _prior(policy, row[move])) is not None or (row[move] and len(policy) == BEST_MOVES)
        },
        "weight": row["weight"] if is_searched else None,
        "alpha": None if alpha is None else asdict(alpha),
        "q_from": question.q_from,
        "origin": {**{name: row[name] for name in _ORIGIN}, "played": _move(board, row["played"])},
        "kind": row["kind"],
        "parent_id": row["parent_id"],
        "games": _games_of(store, position_id),
    }


_CHOOSERS = {"judge": "deep_best", "played": "played"}


def _row_of(store: Store, position_id: int, pair: Pair | None) -> dict[str, Any]:
    """A position with the values of a net and a judge, None if missing; `moves` and `pv` are lists of UCI moves."""
    net, judge = pair or (0, 0)
    short = judge_of(store, judge).short_id if pair else None
    cursor = store.connection.execute(_ROW, {"net": net, "judge": judge, "short": short, "id": position_id})
    row = dict(zip((column[0] for column in cursor.description), cursor.fetchone(), strict=True))
    return row | {
        "moves": list(decode_moves(np.frombuffer(row["moves"], "<u2"))),
        "pv": (row["pv"] or "").split(),
        "side": "wb"[row["side"]],
        "phase": PHASES[row["phase"]],
        "history_known": bool(row["history_known"]),
    }


def _prior(policy: view.Policy, move: str | None) -> dict[str, Any] | None:
    """Prior and rank of a move; None if it is not among the net's best."""
    rank = policy.rank(move)
    return None if rank is None else {"p": policy[rank - 1][1], "rank": rank}


def _deep_q(row: dict[str, Any], alpha: float, question: Question) -> float | None:
    scores = [row[name] for name in ("cp", "mate", "deep_w", "deep_d", "deep_l", "deep_own_q")]
    return finite(float(values.deep_q(np.array(scores, np.float64), alpha, question.q_from)))


def _shares(row: dict[str, Any], source: str) -> list[float] | None:
    """Wins, draws and losses by the net or the deep search; None unless all three are known."""
    shares = [row[f"{source}_{outcome}"] for outcome in "wdl"]
    return None if None in shares else shares


def _net_of(net: dict[str, str], row: dict[str, Any], policy: view.Policy, board: chess.Board) -> dict[str, Any]:
    best, best_p = policy[0] if policy else (None, None)
    facts = {"name": net["name"], "sha256": net["sha256"], "q": row["net_q"], "wdl": _shares(row, "net")}
    return facts | {"best": _move(board, best), "best_p": best_p}


def _deep_of(oracle: dict[str, str], row: dict[str, Any], board: chess.Board) -> dict[str, Any]:
    wdl = _shares(row, "deep")
    facts = {"oracle": oracle["label"], "digest": oracle["digest"], "q": row["deep_q"]}
    facts |= {"cp": row["cp"], "mate": row["mate"], "wdl": wdl}
    facts |= {"best": _move(board, row["deep_best"]), "pv": row["pv"], "pv_san": pv_san(board, row["pv"])}
    return facts | {name: row[name] for name in ("nodes", "depth", "time_ms")}


def _without_deep(row: dict[str, Any]) -> str:
    """The reason for a missing deep value."""
    if row["failed"] is not None:
        return f"the search failed: {row['failed']}"
    if row["short_nodes"] is not None:
        return f"left out by screening, after {row['short_nodes']:,} nodes"
    return "not searched"


def _move(board: chess.Board, uci: str | None) -> dict[str, str] | None:
    """A move as UCI and SAN; None without a move, or for an illegal one."""
    move = legal_move(board, uci)
    return {"uci": move.uci(), "san": board.san(move)} if move is not None else None


def pv_san(board: chess.Board, pv: list[str]) -> str:
    """A line of UCI moves in SAN with move numbers, up to the first illegal move."""
    copy, legal = board.copy(stack=False), []
    for uci in pv:
        if (move := legal_move(copy, uci)) is None:
            break
        legal.append(move)
        copy.push(move)
    return board.variation_san(legal) if legal else ""


def _judged(
    store: Store, row: dict[str, Any], attrs: dict[str, Any], disagreement: float, candidate: bool
) -> dict[str, Any]:
    """Labels, opening and verdict, computed as for all candidates: from a frame of one row with these attrs."""
    import pandas as pd

    from valuerepair.measure.labels import labels_of, names
    from valuerepair.mining.verdict import evidence

    cells = {name: row.get(name) for name in view.COLUMNS}
    cells |= {"moves": " ".join(row["moves"]), "pv": " ".join(row["pv"]), "disagreement": disagreement}
    numbers = ("cp", "mate", "net_w", "net_d", "net_l", "deep_w", "deep_d", "deep_l")
    cells |= {name: np.nan if row[name] is None else float(row[name]) for name in numbers}
    frame = pd.DataFrame(
        {name: pd.Series([cell], dtype=None if cell is not None else object) for name, cell in cells.items()}
    )
    frame.attrs.update(attrs)
    labels = labels_of(store, frame)
    return {
        "labels": sorted(names(labels)[0]) if candidate else [],
        "opening": labels["opening"].iloc[0],
        "verdict": _verdict_of(evidence(store, frame)),
    }


def _verdict_of(evidence: Any) -> dict[str, Any] | None:
    """The verdict of `vr confirm`; None without a second look."""
    row = evidence.to_dict("records")[0]
    if not row["looked"]:
        return None
    second = evidence.attrs["second"]["label"]
    return {
        "verdict": row["verdict"],
        "second": second,
        "q": finite(row["second_q"]),
        "best": row["second_best"],
        "nodes": row["second_nodes"],
    }


def _games_of(store: Store, position_id: int) -> dict[str, Any] | None:
    """The games played from the position, and their results for its side to move; None without games."""
    played = store.connection.execute(_GAMES, (position_id,)).fetchall()
    if not played:
        return None
    z = [z for *_, z in played if z is not None]
    return {
        "games": len(played),
        "undecided": len(played) - len(z),
        "wins": sum(result > 0 for result in z),
        "draws": sum(result == 0 for result in z),
        "losses": sum(result < 0 for result in z),
        "z": sum(z) / len(z) if z else None,
        "players": sorted({name for *names, _ in played for name in names}),
    }


_NAME = 60  # the most characters to show of a player or an event


def fact_lines(facts: dict[str, Any]) -> list[str]:
    """The facts of `describe`, one per line, without the board. Texts of headers and engines are safe to print."""
    side = "White" if facts["side"] == "w" else "Black"
    lines = [
        f"position {facts['position_id']}: {side} to move, ply {facts['ply']}, {facts['phase']}, {facts['pieces']} men",
        facts["fen"],
        "",
        *_net_lines(facts),
        *_deep_lines(facts),
        *_disagreement(facts),
        *_verdict_lines(facts),
        *_labels(facts),
        *_origin(facts),
        *_game_lines(facts),
    ]
    return [printable(line, 2000) for line in lines]


def _line(name: str, text: str) -> str:
    return f"{name:<9} {text}"


def _net_lines(facts: dict[str, Any]) -> list[str]:
    net = facts["net"]
    if net is None:
        return [_line("net", facts["without_net"] or "has not evaluated it")]
    words = [f"{printable(net['name'], _NAME)}: Q {net['q']:+.3f}"]
    if net["wdl"] is not None:
        words.append("W/D/L {:.1f} / {:.1f} / {:.1f} %".format(*(100 * share for share in net["wdl"])))
    if net["best"] is not None:
        prior = "" if net["best_p"] is None else f" (prior {100 * net['best_p']:.1f} %)"
        words.append(f"best {net['best']['san']}{prior}")
    return [_line("net", ", ".join(words))]


def _deep_lines(facts: dict[str, Any]) -> list[str]:
    deep = facts["deep"]
    if deep is None:
        return [_line("search", facts["without_deep"] or "has not searched it")]
    words = [f"{printable(deep['oracle'], _NAME)}: " + ("no Q" if deep["q"] is None else f"Q {deep['q']:+.3f}")]
    if deep["mate"] is not None:
        words.append(f"mate in {deep['mate']}" if deep["mate"] > 0 else f"mated in {-deep['mate']}")
    elif deep["cp"] is not None:
        words.append(f"{deep['cp']:+d} cp")
    if deep["wdl"] is not None:
        words.append("W/D/L {:.1f} / {:.1f} / {:.1f} %".format(*(per_mille / 10 for per_mille in deep["wdl"])))
    if deep["best"] is not None:
        words.append(f"best {deep['best']['san']}{_prior_words(facts, 'judge')}")
    depth = f"depth {deep['depth']}" if deep["depth"] else ""
    nodes = f"{deep['nodes']:,} nodes" if deep["nodes"] else ""  # a recorded value may have neither
    words += [" to ".join(word for word in (nodes, depth) if word)] if nodes or depth else []
    return [_line("search", ", ".join(words)), *([_line("line", deep["pv_san"])] if deep["pv_san"] else [])]


def _prior_words(facts: dict[str, Any], chooser: str) -> str:
    """What the net's policy thinks of a move, in brackets; nothing without a policy."""
    if chooser not in facts["priors"]:
        return ""
    prior = facts["priors"][chooser]
    if prior is None:
        return f" (not of the net's {BEST_MOVES} best)"
    return f" (the net's prior {100 * prior['p']:.1f} %, rank {prior['rank']})"


def _disagreement(facts: dict[str, Any]) -> list[str]:
    disagreement = facts["disagreement"]
    if disagreement is None:
        return []
    words = [f"{disagreement:+.3f}, not a candidate at {facts['threshold']:g}"]
    if facts["candidate"]:
        errs = "too optimistic" if disagreement > 0 else "too pessimistic"
        words = [f"{disagreement:+.3f}, a candidate at {facts['threshold']:g}: the net is {errs}"]
    is_mate = facts["deep"]["mate"] is not None
    words.append("Q of a mate" if is_mate else Alpha(**facts["alpha"]).source(facts["q_from"]))
    weight = facts["weight"]
    if weight != 1:
        words.append(
            f"represents {weight:.3g} positions (screening)" if weight else "represents no position (screening)"
        )
    return [_line("net-deep", "; ".join(words))]


def _verdict_lines(facts: dict[str, Any]) -> list[str]:
    verdict = facts["verdict"]
    if verdict is None:
        return [_line("confirmed", "no second look yet (vr confirm)")] if facts["candidate"] else []
    q = "no Q" if verdict["q"] is None else f"Q {verdict['q']:+.3f}"
    best = f", best {_san(facts['fen'], verdict['best'])}" if verdict["best"] else ""
    second = printable(verdict["second"], _NAME)
    return [_line("confirmed", f"{verdict['verdict']}, says {second}: {q}{best}, {verdict['nodes']:,} nodes")]


def _labels(facts: dict[str, Any]) -> list[str]:
    # Families and signatures are for selecting; a reader has the board and the opening's name.
    words = [word for word in facts["labels"] if word.partition(":")[0] not in KINDS]
    lines = [_line("labels", ", ".join(words))] if words else []
    return lines + ([_line("opening", facts["opening"])] if facts["opening"] else [])


_BESIDE: dict[Kind, str] = {
    "random_move": "beside the game, by a random legal move (random_move)",
    "policy_move": "beside the game, by one of the policy's 3rd to 6th moves (policy_move)",
    "search_node": "beside the game, in a short search of the net (search_node)",
}


def _origin(facts: dict[str, Any]) -> list[str]:
    origin = facts["origin"]
    held = f", held out ({facts['part']})" if facts["part"] in HELD_OUT else ""
    where = f"{printable(origin['source'])}, game {origin['game']:,}, ply {facts['ply']}{held}"
    how = _BESIDE.get(facts["kind"], f"by vr expand from position {facts['parent_id']}")
    lines = [*([_line("reached", how)] if facts["kind"] != GAME else []), _line("from", where)]
    white, black, event, date = (
        printable(origin[name] or "", _NAME).strip() for name in ("white", "black", "event", "date")
    )
    if white or black:
        occasion = ", ".join(word for word in (event, date) if word and word not in ("?", "????.??.??"))
        result = f" {printable(origin['result'], 10)}" if origin["result"] else ""
        lines.append(_line("", f"{white or '?'} - {black or '?'}{result}" + (f" ({occasion})" if occasion else "")))
    if origin["played"] is not None:
        move = f"{_numbered(facts['fen'])}{origin['played']['san']}"
        lines.append(_line("played", f"{move}{_prior_words(facts, 'played')}"))
    return lines


def _game_lines(facts: dict[str, Any]) -> list[str]:
    games = facts["games"]
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
    """A move in SAN; the text itself if it is illegal."""
    move = _move(chess.Board(fen), uci)
    return uci if move is None else move["san"]


# 256-colour numbers: black ink on grey squares, which is legible on light and on dark terminals. A piece's shape
# (outlined, filled) shows its side, not its colour.
_INK, _LIGHT, _DARK = 16, 255, 250
# Squares of the net's move, the search's, and of both; close to vermillion, blue and green of the plots.
NET, DEEP, BOTH = 216, 117, 150


def board_lines(
    fen: str,
    *,
    colours: bool = False,
    unicode: bool,
    net: str | None = None,
    deep: str | None = None,
) -> list[str]:
    """The board, eight ranks and the files' letters, the side to move below.

    With `colours` escape sequences colour the squares, also those of the moves `net` and `deep` (UCI). Without
    `unicode` pieces are letters, White's in upper case.
    """
    board = chess.Board(fen)
    marks = _marks(net, deep) if colours else {}
    order = range(8) if board.turn else range(7, -1, -1)  # of files from the left, and of ranks from below
    lines = []
    for rank in reversed(order):
        cells = [_cell(board, chess.square(file, rank), colours, unicode, marks) for file in order]
        end = "\x1b[0m" if colours else ""
        lines.append(f" {rank + 1} " + "".join(cells) + end)
    return [*lines, "   " + "".join(f" {chess.FILE_NAMES[file]} " for file in order)]


def _marks(net: str | None, deep: str | None) -> dict[int, int]:
    """Squares of the moves and their colours."""
    marks: dict[int, int] = {}
    for colour, move in ((NET, net), (DEEP, deep)):
        for name in (move[:2], move[2:4]) if move else ():
            square = chess.parse_square(name)
            marks[square] = BOTH if square in marks else colour
    return marks


def _cell(board: chess.Board, square: int, colours: bool, unicode: bool, marks: Mapping[int, int]) -> str:
    piece = board.piece_at(square)
    empty = " " if colours else "·" if unicode else "."
    text = empty if piece is None else piece.unicode_symbol() if unicode else piece.symbol()
    if not colours:
        return f" {text} "
    light = bool(chess.BB_SQUARES[square] & chess.BB_LIGHT_SQUARES)
    ground = marks.get(square, _LIGHT if light else _DARK)
    return f"\x1b[38;5;{_INK};48;5;{ground}m {text} "


def can_show(text: str) -> bool:
    """Whether standard output can encode these characters."""
    return encodable(text) == text


def encodable(text: str) -> str:
    """`text` with escapes for characters that standard output cannot encode."""
    encoding = sys.stdout.encoding or "ascii"
    return text.encode(encoding, "backslashreplace").decode(encoding)
