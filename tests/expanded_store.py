"""Stores with families: what `vr expand` would have reached from candidates, played out with python-chess.

The net's and the oracle's words are those of `mining_doubles`: they follow from the board key.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import chess

from tests.mining_doubles import KeyNet, key_outcome, mine_by_key, random_games
from valuerepair.chess.board import keys, parse_fens
from valuerepair.chess.origins import Origin
from valuerepair.chess.positions import Position, PositionBatch
from valuerepair.oracles.oracle import DeepFailure
from valuerepair.store.rows import EXPANDED, INFERRED, DeepResult, Run, RunRecord
from valuerepair.store.store import Store

LINE = 6
THRESHOLD = 0.55


class Member(NamedTuple):
    """One position of a family: how it was reached, and by which moves."""

    step: str
    distance: int
    moves: tuple[str, ...]


def expanded_store(folder: Path, *, games: int = 60, roots: int = 12, seed: int = 0) -> Path:
    """A store mined from random games whose worst candidates have families."""
    db = folder / "expanded.db"
    mine_by_key(random_games(folder / "random.pgn", games), db)
    expand_by_key(db, roots=roots, seed=seed)
    return db


def expand_by_key(db: Path, *, roots: int, seed: int = 0) -> None:
    """Gives the worst candidates families: a line of `LINE` plies, parents, children, one later ply of the game.

    Every third position of a line is searched too, of the others every one; the second child is cut by a ladder. The
    first child has a line of its own.
    """
    dice = random.Random(seed)
    with Store.open(db, write=True) as store:
        run = store.begin_run(RunRecord(f"expand {seed}", "vr expand", {}, seed, {}))
        for row in store.candidates().head(roots).to_dict("records"):
            root = int(row["position_id"])
            found = list(_neighbours(chess.Board(), str(row["moves"]).split(), dice))
            ids = _add(store, root, root, found, run, round_=1)
            child = next((i for i, member in zip(ids, found, strict=True) if member.step == "child" and i), None)
            if child:
                moves = next(member.moves for member in found if member.step == "child")
                line = [m for m in _neighbours(chess.Board(), list(moves), dice) if m.step == "line"]
                _add(store, root, child, line, run, round_=2)
        store.end_run(run, "finished", {})


def _neighbours(board: chess.Board, moves: Sequence[str], dice: random.Random) -> Iterator[Member]:
    for move in moves:
        board.push_uci(move)
    legal = [move.uci() for move in board.legal_moves]
    dice.shuffle(legal)
    for before in (1, 2, 4):
        if before < len(moves):
            yield Member("parent", before, tuple(moves[:-before]))
    for rank, move in enumerate(legal[1:4], 1):
        yield Member("child", rank, (*moves, move))
    played: list[str] = []
    for plies in range(1, LINE + 1):
        if board.is_game_over() or not legal:
            break
        move = legal[0] if plies == 1 else dice.choice([m.uci() for m in board.legal_moves])
        board.push_uci(move)
        played.append(move)
        if not board.is_game_over():
            yield Member("line", plies, (*moves, *played))


def _add(store: Store, root: int, parent: int, members: Sequence[Member], run: Run, round_: int) -> list[int]:
    """Adds the members that the store does not have; their numbers, 0 for the others."""
    source, number, offset, headers, result = store.connection.execute(
        "SELECT g.source, g.number, g.byte_offset, g.headers, g.result FROM positions p JOIN games g "
        "ON g.id = p.game_id WHERE p.id = ?",
        (root,),
    ).fetchone()
    origin = Origin(source, number, offset, json.loads(headers), None, result)
    net, ids = KeyNet(), []
    for member in members:
        board = chess.Board()
        for move in member.moves:
            board.push_uci(move)
        key = int(keys(parse_fens([board.fen()]))[0])
        position = Position(board.fen(), moves=member.moves, ply=len(member.moves), key=key, origin=origin)
        batch = PositionBatch.from_positions([position])
        admission = store.add_positions(batch, run, reached=True)
        if not admission.fresh[0]:
            ids.append(0)
            continue
        here = int(admission.ids[0])
        ids.append(here)
        store.add_net_values(admission.ids, 1, net.evaluate(batch), run)
        searched, cut_at = _search(store, here, position, member, run)
        with store.writing() as connection:
            connection.execute(
                "INSERT INTO expanded VALUES (1, 1, ?, ?, ?, ?, ?, ?, ?, NULL, ?, ?, ?, ?, ?, ?)",
                (here, root, parent, member.step, member.distance, round_, key % 2, cut_at,
                 None if cut_at is None else 0.01, 40 if cut_at else 100 * searched, searched,
                 0.05 if cut_at is not None else 1.0, run.id),
            )  # fmt: skip
    return ids


def _search(store: Store, here: int, position: Position, member: Member, run: Run) -> tuple[bool, int | None]:
    """Whether it was searched in full, and where it was cut."""
    score = key_outcome(position)
    if member.step == "line" and not isinstance(score, DeepFailure):
        store.add_deep(here, 1, guessed(score), run, INFERRED)
    if (member.step, member.distance) == ("child", 2):
        return False, 1000
    if (member.step == "line" and member.distance % 3) or isinstance(score, DeepFailure):
        return False, None
    store.add_deep(here, 1, score, run, EXPANDED)
    return True, None


def guessed(score: DeepResult) -> DeepResult:
    """What a line says of the position: every fifth time something else than its search."""
    if score.cp is None or score.cp % 5:
        return DeepResult(score.cp, score.mate, score.wdl, depth=5, seldepth=5, pv=score.pv)
    return DeepResult(-score.cp, None, score.wdl, depth=5, seldepth=5, pv=score.pv)
