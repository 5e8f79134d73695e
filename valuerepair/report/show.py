"""All that a store has of one position: as JSON-able data, and as ten lines below a board."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import chess
import numpy as np

from valuerepair.chess import values
from valuerepair.chess.position_text import read_argument
from valuerepair.chess.positions import PHASES, Position, decode_moves
from valuerepair.chess.values import Alpha
from valuerepair.errors import ValueRepairError
from valuerepair.files import written_whole
from valuerepair.measure.labels import NAMES
from valuerepair.nets.policy import BEST_MOVES
from valuerepair.question import Question, is_candidate
from valuerepair.report.boards import board_svg, legal_move
from valuerepair.store import alpha as alphas
from valuerepair.store import view
from valuerepair.store.pairs import Pair, judge_of, pair_of
from valuerepair.store.parts import HELD_OUT
from valuerepair.store.rows import signed
from valuerepair.store.store import Store
from valuerepair.text import finite, printable, quantity

_MOST_DIGITS = 18  # any such number fits into an integer of SQLite
_FACTS = ("position_id", "fen", "start_fen", "moves", "history_known", "ply", "side", "phase", "pieces", "part")
_FACTS_OF_GAME = ("source", "game", "white", "black", "event", "date", "result")
_ROW = """
SELECT p.id AS position_id, p.fen, p.start_fen, p.moves, p.ply, p.side, p.phase, p.pieces, p.history_known,
    p.origin AS kind, p.part, p.parent_id, p.played, p.game_id,
    g.source, g.number AS game, g.white, g.black, g.event, g.date, g.result,
    n.q AS net_q, n.w AS net_w, n.d AS net_d, n.l AS net_l, n.policy,
    v.cp, v.mate, v.w AS deep_w, v.d AS deep_d, v.l AS deep_l, v.q AS deep_own_q, v.nodes, v.depth,
    v.best_move AS deep_best, v.pv, v.weight, v.failed, s.nodes AS short_nodes
FROM positions p JOIN games g ON g.id = p.game_id
LEFT JOIN net_values n ON n.net_id = :net AND n.position_id = p.id
LEFT JOIN deep_values v ON v.judge_id = :judge AND v.position_id = p.id
LEFT JOIN deep_values s ON s.judge_id = :short AND s.position_id = p.id AND s.failed IS NULL
WHERE p.id = :id
"""
# Of the games played from a position, for its side to move.
_GAMES = """
SELECT count(*) AS games, sum(z > 0) AS wins, sum(z = 0) AS draws, sum(z < 0) AS losses, avg(z) AS z
FROM plays WHERE key = (SELECT key FROM positions WHERE id = ?) HAVING count(*)
"""
_REACHED = {
    "random_move": "off the game by a random legal move (random_move)",
    "policy_move": "off the game by one of the policy's 3rd to 6th moves (policy_move)",
    "search_node": "off the game in a short search of the net (search_node)",
    "neighbour": "by vr expand from position {}",
}
_NAME = 60  # the most characters to show of a player or an event


@dataclass(frozen=True)
class ShownPosition:
    """All that a store has of a position: `facts` (those of `describe`)."""

    facts: dict[str, Any]

    def lines(self) -> list[str]:
        """The board, and at most ten lines below it, in characters that standard output can encode."""
        encoding = sys.stdout.encoding or "ascii"
        text = [*board_lines(self.facts["fen"]), "", *fact_lines(self.facts)]
        if "♔".encode(encoding, "ignore") == b"":
            text = [line.translate(_LETTERS) for line in text]
        return [line.encode(encoding, "backslashreplace").decode(encoding) for line in text]

    def as_json(self) -> dict[str, Any]:
        """The facts, JSON-able."""
        return self.facts

    def write_svg(self, path: str | os.PathLike[str]) -> None:
        """Writes the board as SVG, with arrows for the moves of net and search and the played move."""
        net, deep, played = (
            ((self.facts[source] or {}).get(name) or {}).get("uci")
            for source, name in (("net", "best"), ("deep", "best"), ("origin", "played"))
        )
        with written_whole(path) as partial:
            partial.write_text(board_svg(self.facts["fen"], played=played, net=net, deep=deep), "utf-8")


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
    those of the position; `kind`, how it was reached, and `parent_id` of a neighbour; `origin`, the game and the move
    `played` there; `games`, those played from it; `net` and `deep` with their values, None if missing, and `missing`
    with the reason; `disagreement`, whether it is a `candidate` at the `threshold`, its `weight`, the `alpha` and
    `q_from`; `opening`, and of a candidate `labels`; `verdict`, the second look. A move is
    ``{"uci": .., "san": .., "p": .., "rank": ..}`` with the net's prior and rank, None if it is not known.

    Raises UsageError for an illegal position, ValueRepairError for one that the store does not have.
    """
    position, position_id = find_position(store, words)
    if not position_id:
        raise ValueRepairError(f'the position is not in {store.path}; vr eval "{position.fen}" asks a net')
    pair = pair_of(store, question.net, question.oracle)
    row = _row_of(store, position_id, pair)
    board, policy = chess.Board(row["fen"]), view.Policy.of(row["policy"])
    facts = {
        **{name: row[name] for name in (*_FACTS, "kind", "parent_id")},
        "origin": {name: row[name] for name in _FACTS_OF_GAME} | {"played": _move(board, row["played"], policy)},
        "games": _first(store, _GAMES, (position_id,)),
        **dict.fromkeys(("net", "deep", "missing", "disagreement", "weight", "alpha", "opening", "verdict")),
        "threshold": question.threshold,
        "candidate": False,
        "q_from": question.q_from,
        "labels": [],
    }
    return facts if pair is None else facts | _judged(store, pair, question, row, board, policy)


def _row_of(store: Store, position_id: int, pair: Pair | None) -> dict[str, Any]:
    """A position with the values of a net and a judge, None if missing; `moves` and `pv` are lists of UCI moves."""
    net, judge = pair or (0, 0)
    short = judge_of(store, judge).short_id if pair else None
    row = _first(store, _ROW, {"net": net, "judge": judge, "short": short, "id": position_id}) or {}
    return row | {
        "moves": list(decode_moves(np.frombuffer(row["moves"], "<u2"))),
        "pv": (row["pv"] or "").split(),
        "side": "wb"[row["side"]],
        "phase": PHASES[row["phase"]],
        "history_known": bool(row["history_known"]),
    }


def _first(store: Store, query: str, parameters: Any) -> dict[str, Any] | None:
    """The first row of a query by the names of its columns; None without any."""
    cursor = store.connection.execute(query, parameters)
    row = cursor.fetchone()
    return row and dict(zip((column[0] for column in cursor.description), row, strict=True))


def _judged(
    store: Store, pair: Pair, question: Question, row: dict[str, Any], board: chess.Board, policy: view.Policy
) -> dict[str, Any]:
    """What net and judge say of the position."""
    alpha = alphas.alpha(store, pair, question.alpha)
    attrs = view.attrs(store, pair, question, alpha)
    judged: dict[str, Any] = {"alpha": asdict(alpha)}
    if row["net_q"] is not None:
        best = _move(board, policy[0][0] if policy else None, policy)
        judged["net"] = {**attrs["net"], "q": row["net_q"], "wdl": _shares(row, "net"), "best": best}
    if row["failed"] is not None:
        return judged | {"missing": f"the search failed: {row['failed']}"}
    if row["nodes"] is None:
        short = row["short_nodes"]
        return judged | {"missing": f"left out by screening, after {short:,} nodes" if short else "not searched"}
    scores = np.array([row[name] for name in ("cp", "mate", "deep_w", "deep_d", "deep_l", "deep_own_q")], np.float64)
    deep_q = finite(float(values.deep_q(scores, alpha.value, question.q_from)))
    judged["weight"] = row["weight"]
    judged["deep"] = {
        **attrs["oracle"],
        "q": deep_q,
        "wdl": _shares(row, "deep"),
        "best": _move(board, row["deep_best"], policy),
        "pv_san": pv_san(board, row["pv"]),
        **{name: row[name] for name in ("cp", "mate", "pv", "nodes", "depth")},
    }
    if row["net_q"] is None or deep_q is None:
        return judged
    disagreement = row["net_q"] - deep_q
    candidate = is_candidate(disagreement, question.threshold)
    of_frame = {**row, "moves": " ".join(row["moves"]), "deep_q": deep_q, "disagreement": disagreement}
    labels, opening, verdict = _as_of_frame(store, of_frame, attrs, board, policy)
    of_both = {"disagreement": disagreement, "candidate": candidate, "opening": opening, "verdict": verdict}
    return judged | of_both | {"labels": labels if candidate else []}


def _as_of_frame(
    store: Store, row: dict[str, Any], attrs: dict[str, Any], board: chess.Board, policy: view.Policy
) -> tuple[list[str], str | None, dict[str, Any] | None]:
    """Labels, opening and second look, computed as for all candidates: from a frame of one row with these attrs."""
    import pandas as pd

    from valuerepair.measure.labels import labels_of, names
    from valuerepair.mining.again import evidence

    words, numbers = ("fen", "start_fen", "moves", "phase", "deep_best"), ("net_q", "deep_q", "disagreement")
    used = ("position_id", "game_id", *words, *numbers)
    frame = pd.DataFrame({name: pd.Series([row[name]], dtype=object if name in words else None) for name in used})
    frame.attrs.update(attrs)
    labels, looks = labels_of(store, frame), evidence(store, frame)
    look = looks.to_dict("records")[0]
    verdict = None
    if look["looked"]:
        verdict = {"verdict": look["verdict"], "second": looks.attrs["second"]["label"], "q": finite(look["second_q"])}
        verdict |= {"best": _move(board, look["second_best"], policy), "nodes": look["second_nodes"]}
    return sorted(names(labels)[0]), labels["opening"].iloc[0], verdict


def _shares(row: dict[str, Any], source: str) -> list[float] | None:
    """Shares of wins, draws and losses by the net or the deep search; None unless all three are known."""
    shares = [row[f"{source}_{outcome}"] for outcome in "wdl"]
    return None if None in shares else [share / (1000 if source == "deep" else 1) for share in shares]


def _move(board: chess.Board, uci: str | None, policy: view.Policy) -> dict[str, Any] | None:
    """A move as UCI and SAN, with its prior and rank in a policy; None without a move, or for an illegal one."""
    move = legal_move(board, uci)
    if move is None:
        return None
    rank = policy.rank(uci)
    prior = policy[rank - 1][1] if rank is not None else None
    return {"uci": move.uci(), "san": board.san(move), "p": prior, "rank": rank}


def pv_san(board: chess.Board, pv: list[str]) -> str:
    """A line of UCI moves in SAN with move numbers, up to the first illegal move."""
    copy, legal = board.copy(stack=False), []
    for uci in pv:
        if (move := legal_move(copy, uci)) is None:
            break
        legal.append(move)
        copy.push(move)
    return board.variation_san(legal) if legal else ""


# -- as lines ---------------------------------------------------------------------------------------------------------

_LETTERS = {ord(chess.Piece.from_symbol(letter).unicode_symbol()): letter for letter in "PNBRQKpnbrqk"} | {
    ord("·"): "."
}


def board_lines(fen: str) -> list[str]:
    """The board, eight ranks and the files' letters, the side to move below."""
    board = chess.Board(fen)
    ranks, files = ("87654321", "abcdefgh") if board.turn else ("12345678", "hgfedcba")
    rows = board.unicode(empty_square="·", orientation=board.turn).splitlines()
    return [*(f" {rank}  {row}" for rank, row in zip(ranks, rows, strict=True)), f"    {' '.join(files)}"]


def fact_lines(facts: Mapping[str, Any]) -> list[str]:
    """The facts of `describe`, at most ten lines, without the board. Texts of headers and engines are safe to print."""
    side = "White" if facts["side"] == "w" else "Black"
    has_policy = bool(facts["net"] and facts["net"]["best"])
    lines = {
        "net": _judge_words(facts["net"], has_policy) if facts["net"] else "has not evaluated it",
        "search": _judge_words(facts["deep"], has_policy)
        if facts["deep"]
        else facts["missing"] or "has not searched it",
        "line": facts["deep"] and facts["deep"]["pv_san"],
        "net-deep": _disagreement_words(facts),
        "confirmed": _verdict_words(facts),
        # Families and signatures are for selecting: a reader has the board and the opening's name.
        "labels": ", ".join(word for word in facts["labels"] if word in NAMES),
        "from": _origin_words(facts),
        "played": _played_words(facts, has_policy),
    }
    where = f"ply {facts['ply']}, {facts['phase']}, {facts['pieces']} men"
    told = [f"position {facts['position_id']}: {side} to move, {where}", facts["fen"]]
    told += [f"{name:<9} {words}" for name, words in lines.items() if words]
    return [printable(line, 2000) for line in told]


def _judge_words(judge: Mapping[str, Any], has_policy: bool) -> str:
    """What the net or the search says."""
    words = [f"{printable(judge.get('name') or judge['label'], _NAME)}: {_q_words(judge['q'])}"]
    if (mate := judge.get("mate")) is not None:
        words.append(f"mate in {mate}" if mate > 0 else f"mated in {-mate}")
    elif judge.get("cp") is not None:
        words.append(f"{judge['cp']:+d} cp")
    if judge["wdl"] is not None:
        words.append("W/D/L {:.1f} / {:.1f} / {:.1f} %".format(*(100 * share for share in judge["wdl"])))
    if judge["best"] is not None:
        words.append(f"best {_move_words(judge['best'], has_policy)}")
    nodes, depth = judge.get("nodes"), judge.get("depth")  # a recorded value may have neither
    searched = [f"{nodes:,} nodes" if nodes else "", f"depth {depth}" if depth else ""]
    return ", ".join(filter(None, [*words, " to ".join(filter(None, searched))]))


def _q_words(q: float | None) -> str:
    return "no Q" if q is None else f"Q {q:+.3f}"


def _move_words(move: Mapping[str, Any], has_policy: bool) -> str:
    """A move, and what the net's policy thinks of it; the store has its eight best moves."""
    unknown = f" (not of the net's {BEST_MOVES} best)" if has_policy else ""
    san = str(move["san"])
    return san + (f" (prior {100 * move['p']:.1f} %, rank {move['rank']})" if move["rank"] else unknown)


def _disagreement_words(facts: Mapping[str, Any]) -> str:
    disagreement, weight = facts["disagreement"], facts["weight"]
    if disagreement is None:
        return ""
    at = f"candidate at {facts['threshold']:g}"
    errs = "optimistic" if disagreement > 0 else "pessimistic"
    is_mate = facts["deep"]["mate"] is not None
    words = [f"{disagreement:+.3f}, " + (f"a {at}: the net is too {errs}" if facts["candidate"] else f"not a {at}")]
    words.append("Q of a mate" if is_mate else Alpha(**facts["alpha"]).source(facts["q_from"]))
    return "; ".join([*words, *([] if weight == 1 else [f"stands for {weight:.3g} positions (screening)"])])


def _verdict_words(facts: Mapping[str, Any]) -> str:
    verdict = facts["verdict"]
    if verdict is None:
        return "no second look yet (vr confirm)" if facts["candidate"] else ""
    best = f", best {verdict['best']['san']}" if verdict["best"] else ""
    second = printable(verdict["second"], _NAME)
    return f"{verdict['verdict']}, says {second}: {_q_words(verdict['q'])}{best}, {verdict['nodes']:,} nodes"


def _origin_words(facts: Mapping[str, Any]) -> str:
    """The game, its opening, how the position was reached beside it, and whether it is held out."""
    origin = facts["origin"]
    names = ("white", "black", "event", "date", "result")
    white, black, event, date, result = (printable(origin[name] or "", _NAME).strip() for name in names)
    words = f"{printable(origin['source'])}, game {origin['game']:,}, ply {facts['ply']}"
    if white or black:
        occasion = ", ".join(word for word in (event, date) if word and word not in ("?", "????.??.??"))
        words += f": {white or '?'} - {black or '?'} {result}".rstrip() + (f" ({occasion})" if occasion else "")
    reached = _REACHED.get(facts["kind"], "").format(facts["parent_id"])
    held_out = f"held out ({facts['part']})" if facts["part"] in HELD_OUT else ""
    return "; ".join(filter(None, [words, facts["opening"], reached, held_out]))


def _played_words(facts: Mapping[str, Any], has_policy: bool) -> str:
    """The move that was played in the game, and the games that were played from here."""
    played, games, words = facts["origin"]["played"], facts["games"], []
    if played is not None:
        _, turn, *_, number = facts["fen"].split()
        words.append(f"{number}{'. ' if turn == 'w' else '... '}{_move_words(played, has_policy)}")
    if games is not None:
        decided = f"+{games['wins']} -{games['losses']} ={games['draws']} for the side to move"
        words.append(
            f"{quantity(games['games'], 'game')} from here: {decided if games['z'] is not None else 'undecided'}"
        )
    return "; ".join(words)
