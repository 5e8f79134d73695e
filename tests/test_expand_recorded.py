"""Expansion where games record an evaluation at every move: what is taken, beside python-chess and brute force."""

from __future__ import annotations

import math
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chess
import chess.pgn
import numpy as np
import pytest

from tests.expand_doubles import QUESTION as OF_SEARCH
from tests.expand_doubles import RUNGS, BlindNet, LineOracle, mined
from tests.mining_doubles import KeyNet, dump, mine_by_key, random_games
from valuerepair.archives.options import SampleOptions
from valuerepair.chess.positions import PositionBatch, decode_moves
from valuerepair.chess.progress import remarks_to
from valuerepair.chess.values import OWN_Q
from valuerepair.engines.kinds import parse_spec
from valuerepair.errors import UsageError
from valuerepair.nets.net import NetValues
from valuerepair.oracles.recorded import RecordedSource, recorded_options
from valuerepair.question import Question
from valuerepair.runs.expand import ExpandOptions, expand
from valuerepair.runs.expand_recorded import expand_recorded, recorded_source
from valuerepair.runs.expansion import ExpandSummary, Expansion, KnownGames
from valuerepair.runs.options import MineOptions
from valuerepair.runs.recorded import import_recorded
from valuerepair.screening.model import ScreenOptions
from valuerepair.store.check import integrity_checks
from valuerepair.store.second_looks import oracle_of
from valuerepair.store.store import Store

ALPHA, REACH = 200.0, 16
QUESTION = Question(alpha=ALPHA, threshold=1.0)


def of_lichess(dice: random.Random) -> str:
    """For White, as lichess writes it."""
    return f"[%eval {dice.randint(-600, 600) / 100:.2f}]"


def of_selfplay(dice: random.Random) -> str:
    """A search's Q and the net's own one, as vr selfplay writes them."""
    return f"q={dice.uniform(-1, 1):+.4f} n=8 net={dice.uniform(-1, 1):+.4f}"


def write_games(path: Path, count: int, seed: int = 0, evaluation: Callable[[random.Random], str] = of_lichess) -> Path:
    """Random games with an evaluation at every move."""
    dice = random.Random(seed)
    with path.open("w") as file:
        for number in range(count):
            game = chess.pgn.Game({"White": f"W{number}", "Black": "B", "Result": "*"})
            node: chess.pgn.GameNode = game
            for _ in range(60):
                moves = list(node.board().legal_moves)
                if not moves:
                    break
                node = node.add_variation(dice.choice(moves))
                node.comment = evaluation(dice)
            # python-chess puts a space behind the brace, which vr selfplay does not.
            print(str(game).replace("{ q=", "{q="), end="\n\n", file=file)
    return path


def mine_games(archive: Path, db: Path) -> None:
    wanted = recorded_options(parse_spec("recorded"), [str(archive)])
    options = MineOptions(sample=SampleOptions(per_game=1), question=QUESTION)
    with Store.open(db, create=True) as store:
        import_recorded([str(archive)], options, store, RecordedSource.of(wanted), KeyNet())


def expand_games(db: Path, net: KeyNet | None = None, **changes: Any) -> ExpandSummary:
    options = ExpandOptions(**{"question": QUESTION, **changes})
    with Store.open(db, write=True) as store:
        digest = store.frame(QUESTION).attrs["oracle"]["digest"]
        source = recorded_source(oracle_of(store.connection, digest))
        return expand_recorded(store, net or KeyNet(), source, options)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_games(tmp_path_factory.mktemp("games") / "evals.pgn", 40)


@pytest.fixture(scope="module")
def plain(archive: Path) -> Path:
    mine_games(archive, archive.parent / "plain.db")
    return archive.parent / "plain.db"


@pytest.fixture
def db(plain: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(plain, tmp_path / "a.db"))


def by_python_chess(archive: Path) -> dict[tuple[int, int], tuple[str, float]]:
    """Board and Q for the side to move by game and ply, of positions with an evaluation in which a move was played."""
    recorded = {}
    with archive.open() as file:
        number = 0
        while (game := chess.pgn.read_game(file)) is not None:
            number += 1
            for node in game.mainline():
                if node.is_end():
                    continue
                score = node.eval()
                assert score is not None
                cp = score.pov(node.turn()).score()
                assert cp is not None
                recorded[number, node.ply()] = node.board().epd(), 2 / (1 + math.exp(-cp / ALPHA)) - 1
    return recorded


def rows(db: Path, query: str) -> list[tuple[Any, ...]]:
    with Store.open(db) as store:
        return store.connection.execute(query).fetchall()


_REACHED = """
SELECT g.number, p.ply, p.fen, v.cp, n.q, e.step, e.distance, e.round, r.ply, o.ply, v.stage, e.searched, e.drawn
FROM expanded e JOIN positions p ON p.id = e.position_id JOIN games g ON g.id = p.game_id
JOIN deep_values v ON v.position_id = p.id JOIN net_values n ON n.position_id = p.id
JOIN positions r ON r.id = e.parent_id JOIN positions o ON o.id = e.root_id
"""


def test_what_lies_around_candidates_is_taken_as_the_games_have_it(archive: Path, db: Path) -> None:
    roots = {(game, ply) for game, ply, q, cp in rows(db, """
        SELECT g.number, p.ply, n.q, v.cp FROM deep_values v JOIN net_values n USING (position_id)
        JOIN positions p ON p.id = v.position_id JOIN games g ON g.id = p.game_id""")
        if abs(q - (2 / (1 + math.exp(-cp / ALPHA)) - 1)) >= 1}  # fmt: skip
    summary = expand_games(db, rounds=1)
    recorded, reached = by_python_chess(archive), rows(db, _REACHED)
    wanted = {(game, ply) for game, ply in recorded if any(game == g and 0 < abs(ply - at) <= REACH for g, at in roots)}
    assert {(row[0], row[1]) for row in reached} == wanted - roots
    assert summary.tally.planned == len(reached) > 200
    for game, ply, fen, cp, _, step, distance, round_, parent, root, stage, searched, drawn in reached:
        board, q = recorded[game, ply]
        assert chess.Board(fen).epd() == board
        assert 2 / (1 + math.exp(-cp / ALPHA)) - 1 == pytest.approx(q)
        assert (game, parent) in roots
        assert (distance, round_, root) == (abs(ply - parent), 1, parent)
        assert abs(ply - parent) == min(abs(ply - at) for g, at in roots if g == game)
        assert step == ("parent" if parent - ply in (1, 2, 4) else "game")
        assert (stage, searched, drawn) == ("expanded", 1, 1)
    off = np.array([row[4] - recorded[row[0], row[1]][1] for row in reached])
    assert summary.tally.found == (np.abs(off) >= 1).sum() > 20


def test_the_second_round_goes_out_from_what_the_first_found(archive: Path, db: Path) -> None:
    expand_games(db, rounds=2)
    recorded, reached = by_python_chess(archive), rows(db, _REACHED)
    of_first = {(row[0], row[1]): row[9] for row in reached if row[7] == 1}
    second = [row for row in reached if row[7] == 2]
    assert second
    for game, ply, _, _, _, _, distance, _, parent, root, *_ in second:
        assert (game, ply) in recorded
        assert root == of_first[game, parent]
        assert distance == abs(ply - parent) <= REACH
    with Store.open(db) as store:
        assert not [check for check in integrity_checks(store) if check.wrong]


class StopsNet(KeyNet):
    """Ends the program in the middle."""

    def evaluate(self, batch: PositionBatch) -> NetValues:
        if self.rows:
            raise KeyboardInterrupt
        return super().evaluate(batch)


def test_the_same_call_goes_on_and_computes_nothing_again(archive: Path, db: Path, tmp_path: Path) -> None:
    whole = Path(shutil.copy(db, tmp_path / "whole.db"))
    expand_games(whole)
    with pytest.raises(KeyboardInterrupt):
        expand_games(db, StopsNet())
    searched = "SELECT count(*) FROM expanded WHERE searched"
    assert 0 < rows(db, searched)[0][0] < rows(whole, searched)[0][0]
    expand_games(db)
    assert dump(db) == dump(whole)
    net = KeyNet()
    again = expand_games(db, net)
    assert net.rows == 0
    assert again.tally.found > 0
    assert dump(db) == dump(whole)


def test_only_the_steps_asked_for(db: Path) -> None:
    expand_games(db, steps=("parent",))
    assert {(row[5], row[6]) for row in rows(db, _REACHED)} <= {("parent", 1), ("parent", 2), ("parent", 4)}
    with pytest.raises(UsageError, match="moves that were played: give --by parents,game"):
        expand_games(db, steps=("line", "child"))


def test_games_that_have_gone_or_changed_are_said(archive: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copy(archive, tmp_path / "here.pgn"))
    mine_games(moved, tmp_path / "a.db")
    remarks: list[str] = []
    moved.write_text(moved.read_text().replace('"W3"', '"Another"'))
    with remarks_to(remarks.append):
        expand_games(tmp_path / "a.db")
    assert any("here.pgn has changed since it was mined" in line for line in remarks)
    assert not rows(tmp_path / "a.db", _REACHED + " WHERE g.white = 'W3'")
    moved.unlink()
    with remarks_to(remarks.append):
        summary = expand_games(Path(shutil.copy(tmp_path / "a.db", tmp_path / "b.db")), rounds=1)
    assert summary.tally.planned == 0
    assert "here.pgn: not found, so " in remarks[-2] + remarks[-1]


@pytest.mark.parametrize(
    "deep",
    ["recorded", "recorded:kind=eval,view=mover", "recorded:kind=eval,min-depth=3", "recorded:kind=cutechess,by=b"],
)
def test_a_stored_oracle_says_which_evaluations_it_is_of(archive: Path, tmp_path: Path, deep: str) -> None:
    source = RecordedSource.of(recorded_options(parse_spec(deep), [str(archive)]))
    with Store.open(tmp_path / "a.db", create=True) as store:
        store.add_oracle(source.identity)
        again = recorded_source(oracle_of(store.connection, source.identity.digest))
        assert again.identity == source.identity


def test_comments_of_self_play_are_found_again(tmp_path: Path) -> None:
    """They have no depth."""
    mine_games(write_games(tmp_path / "own.pgn", 20, evaluation=of_selfplay), tmp_path / "a.db")
    summary = expand_games(tmp_path / "a.db", rounds=1)
    assert summary.tally.planned == len(rows(tmp_path / "a.db", _REACHED)) > 20
    assert summary.start.alpha.origin == OWN_Q  # these are Q, so that no alpha is given or fitted


def test_evaluations_without_games_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.epd").write_text("8/5pk1/6p1/8/8/1P4P1/5PK1/8 w - - ce 30; acd 20;\n")
    source = RecordedSource.of(recorded_options(parse_spec("recorded"), [str(tmp_path / "a.epd")]))
    with Store.open(tmp_path / "a.db", create=True) as store:
        store.add_oracle(source.identity)
        with pytest.raises(UsageError, match="have no games to look around in"):
            recorded_source(oracle_of(store.connection, source.identity.digest))


def test_positions_without_games_have_nothing_played_after_them(tmp_path: Path) -> None:
    with random_games(tmp_path / "r.pgn", 40).open() as file:
        boards = [game.end().board() for game in iter(lambda: chess.pgn.read_game(file), None)]
    lines = tmp_path / "lines.epd"
    lines.write_text("".join(f'{board.epd()} id "{i}";\n' for i, board in enumerate(boards)))
    options = MineOptions(sample=SampleOptions(), question=OF_SEARCH)
    mine_by_key(lines, tmp_path / "a.db", net=BlindNet(), oracle=LineOracle(), options=options)
    with Store.open(tmp_path / "a.db", write=True) as store, LineOracle() as oracle:
        start = Expansion.of(store, BlindNet(), oracle.identity, OF_SEARCH)
        following = KnownGames.of(store, start.candidates.tolist()).following
        starts = start.read([(number, number, 1) for number in start.candidates.tolist()])
        assert [len(after) for after in following(starts)] == [0] * len(starts)
        summary = expand(store, BlindNet(), oracle, ExpandOptions(question=OF_SEARCH, positions=9), following=following)
    assert summary.tally.planned == 9


def test_what_was_played_after_is_read_from_the_archive(tmp_path: Path) -> None:
    """A search's expansion by the game's step goes beyond the one move that the store has."""
    db, games = mined(tmp_path, games=30), []
    with (tmp_path / "r.pgn").open() as file:
        while (game := chess.pgn.read_game(file)) is not None:
            games.append([move.uci() for move in game.mainline_moves()])
    screen = ScreenOptions(rungs=RUNGS, recall=0.9)
    options = ExpandOptions(question=OF_SEARCH, screen=screen, steps=("game",))
    with Store.open(db, write=True) as store, LineOracle() as oracle:
        start = Expansion.of(store, BlindNet(), oracle.identity, OF_SEARCH)
        ids = start.candidates.tolist()
        following = KnownGames.of(store, ids).following
        starts = start.read([(number, number, 1) for number in ids])
        for source, after in zip(starts, following(starts), strict=True):
            assert list(decode_moves(after)) == games[source.game.number - 1][len(source.moves) :]
            assert list(decode_moves(source.following)) == games[source.game.number - 1][len(source.moves) :][:1]
        expand(store, BlindNet(), oracle, options, following=following)
    [(farthest,)] = rows(db, """
        SELECT max(e.distance) FROM expanded e JOIN positions p ON p.id = e.position_id
        JOIN positions r ON r.id = e.parent_id WHERE p.ply > r.ply""")  # fmt: skip
    assert farthest > 1
