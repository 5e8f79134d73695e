"""Mining positions beside the games: where the net would look, what the store keeps of them, what stays as it was."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import chess
import chess.polyglot
import numpy as np
import pytest

from tests import random_nets
from tests.lc0_oracle import backend, game_state
from tests.mcts_doubles import searched
from tests.mining_doubles import KeyNet, KeyOracle, dump, mine_by_key, random_games
from tests.search_trees import Node, boards_of, end_by_rule
from tests.vr_runs import here
from valuerepair.archives.off_game import beside
from valuerepair.archives.options import SampleOptions
from valuerepair.chess.origins import BESIDE
from valuerepair.chess.positions import Position, PositionBatch, decode_moves
from valuerepair.mcts.evaluator import NetEvaluator
from valuerepair.mining.mine import MineOptions
from valuerepair.mining.off_game import NODES, LinesOfNet
from valuerepair.nets.net import Net, open_net
from valuerepair.question import Question
from valuerepair.report.stats import store_stats
from valuerepair.store import parts
from valuerepair.store.alpha import alpha, training_scale
from valuerepair.store.alpha import fits as alpha_fits
from valuerepair.store.pairs import pick
from valuerepair.store.store import Store
from valuerepair.store.view import frame

MATE_IN_ONE = "6k1/5ppp/8/8/8/8/8/R3K3 w - - 0 1"
ONE_MOVE = "7k/8/8/8/8/8/6q1/K7 w - - 0 1"
MIXED = {"random_move": 0.3, "policy_move": 0.2, "search_node": 0.2}


@pytest.fixture(scope="module")
def net(maia_file: str) -> Net:
    return open_net(maia_file, device="cpu", threads=1)


def batch_of(*fens: str) -> PositionBatch:
    boards = [chess.Board(fen) for fen in fens]
    keys = [chess.polyglot.zobrist_hash(board) for board in boards]
    boards_and_keys = zip(fens, boards, keys, strict=True)
    return PositionBatch.from_positions(
        [Position(fen, fen, (), board.ply(), key, history_known=False) for fen, board, key in boards_and_keys]
    )


def drawn(path: Path, count: int) -> PositionBatch:
    """Positions of random games with their histories, both sides to move."""
    from valuerepair.archives.rows import ReadReport
    from valuerepair.archives.sampling import sample

    archive = random_games(path / "games.pgn", count, plies=40)
    return PositionBatch.concat(list(sample([str(archive)], SampleOptions(per_game=1), ReadReport())))


def evenly(counts: Counter[str], limit: float) -> bool:
    """Chi-square of as many draws as there are, against the same chance of each."""
    expected = counts.total() / len(counts)
    return sum((count - expected) ** 2 / expected for count in counts.values()) < limit


# -- where a net looks ------------------------------------------------------------------------------------------------


def test_the_policy_s_third_to_sixth_move_by_lc0_itself(net: Net, maia_file: str, tmp_path: Path) -> None:
    positions = drawn(tmp_path, 40)
    draws = np.random.default_rng(1).integers(0, 2**64, len(positions), np.uint64)
    moves = LinesOfNet(net).policy(positions, draws)
    lc0 = backend(Path(maia_file))
    for position, line in zip(positions, moves, strict=True):
        state = game_state(position)
        (answer,) = lc0.evaluate(state.as_input(lc0))
        legal = state.moves()
        p = dict(zip(legal, answer.p_softmax(*state.policy_indices()), strict=True))
        ordered = sorted(p.values(), reverse=True)
        if len(legal) < 3:
            assert not len(line)
            continue
        (move,) = decode_moves(line)
        board = chess.Board(position.fen)
        assert chess.Move.from_uci(move) in board.legal_moves
        castling = board.is_castling(chess.Move.from_uci(move))
        own = p[board.uci(chess.Move.from_uci(move), chess960=True) if castling else move]
        # lc0's own softmax is approximate: by 6e-4.
        assert ordered[min(6, len(ordered)) - 1] - 1e-3 <= own <= ordered[2] + 1e-3


def test_the_four_moves_of_the_policy_are_drawn_evenly(net: Net) -> None:
    """Over 2,000 draws chi-square with 3 degrees of freedom is below 16.3 in 999 of 1,000; none is the first two."""
    position = batch_of("r1bqkbnr/pppp1ppp/2n5/4p3/4P3/5N2/PPPP1PPP/RNBQKB1R w KQkq - 2 3")
    many = position.take(np.zeros(2_000, np.int64))
    draws = np.random.default_rng(2).integers(0, 2**64, 2_000, np.uint64)
    counts = Counter(decode_moves(line)[0] for line in LinesOfNet(net).policy(many, draws))
    moves, _, p = net.priors(position)
    assert {*counts} == {*decode_moves(moves[np.argsort(-p)][2:6])}
    assert evenly(counts, 16.3)


def nodes_of(net: Net, positions: PositionBatch) -> list[dict[tuple[str, ...], float]]:
    """Of each position the nodes below the root that a search of `NODES` nodes evaluated, by their lines, and the
    net's Q of each for the side to move there: by a walk of its tree with python-chess's rules."""
    evaluator = NetEvaluator(net)
    return [dict(evaluated_below(boards_of(searched(start, NODES, evaluator), start))) for start in positions]


def evaluated_below(node: Node, line: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], float]]:
    for move, child in node.children.items():
        if end_by_rule(child.board, child.depth) is None:
            yield (*line, move), -child.own
        yield from evaluated_below(child, (*line, move))


def test_searches_lead_to_nodes_of_these_and_the_net_says_the_same_there(net: Net, tmp_path: Path) -> None:
    positions = drawn(tmp_path, 12)
    nodes = nodes_of(net, positions)
    reached = list[PositionBatch]()
    for seed in range(4):
        beside_searched, rows, _ = beside(positions, {"search_node": 1.0}, seed, LinesOfNet(net))
        reached.append(beside_searched)
        for place, row in enumerate(rows.tolist()):
            begin = len(positions[row].moves)
            line = beside_searched[place].moves[begin:]
            assert beside_searched[place].moves[:begin] == positions[row].moves
            assert line in nodes[row]
            board = chess.Board(positions[row].fen)
            for move in line:
                board.push_uci(move)
            assert board.fen(en_passant="fen").split()[:2] == beside_searched[place].fen.split()[:2]
            assert nodes[row][line] == pytest.approx(float(net.evaluate(beside_searched.take([place])).q[0]), abs=2e-4)
    assert len({tuple(batch.key.tolist()) for batch in reached}) == 4


@pytest.fixture(scope="module")
def small_net(tmp_path_factory: pytest.TempPathFactory) -> Net:
    """One for many searches, where it matters not which."""
    kind = replace(random_nets.BY_NAME["se-dense-policy"], blocks=1)
    path = random_nets.write(kind, tmp_path_factory.mktemp("net") / "small.pb.gz")
    return open_net(str(path), device="cpu", threads=1)


@pytest.mark.parametrize(
    "fen",
    [
        MATE_IN_ONE,
        pytest.param("r1bqkbnr/pppp1ppp/2n5/4p3/4P3/5N2/PPPP1PPP/RNBQKB1R w KQkq - 2 3", marks=pytest.mark.slow),
    ],
)
def test_all_nodes_that_the_net_evaluated_are_drawn_evenly(small_net: Net, fen: str) -> None:
    """Over 1,500 draws chi-square with at most 28 degrees of freedom is below 56.9 in 999 of 1,000. With a mate some
    visits end where the net is not asked."""
    net = small_net
    position = batch_of(fen)
    (nodes,) = nodes_of(net, position)
    many = position.take(np.zeros(1_500, np.int64))
    draws = np.random.default_rng(3).integers(0, 2**64, 1_500, np.uint64)
    counts = Counter(" ".join(decode_moves(line)) for line in LinesOfNet(net).search(many, draws))
    assert {*counts} == {" ".join(line) for line in nodes}
    assert evenly(counts, 56.9)
    assert (len(nodes) < NODES - 1) == (fen == MATE_IN_ONE)


def test_which_node_is_drawn_depends_on_no_batch(net: Net, tmp_path: Path) -> None:
    positions = drawn(tmp_path, 30)
    together, rows, _ = beside(positions, {"search_node": 0.5, "policy_move": 0.5}, 4, LinesOfNet(net))
    alone = [
        beside(positions.take([row]), {"search_node": 0.5, "policy_move": 0.5}, 4, LinesOfNet(net))[0] for row in rows
    ]
    assert [p for one in alone for p in one] == list(together)


def test_what_cannot_be_searched_is_left_out(net: Net) -> None:
    """Stalemate; a side that could take the king; and a position whose moves all end the game."""
    fens = ["7k/8/8/8/8/6q1/8/7K w - - 0 1", "4k3/8/8/8/8/8/4R3/4K3 w - - 0 1", "7k/8/8/8/8/8/1r6/K7 w - - 0 1"]
    _, rows, lost = beside(batch_of(*fens), {"search_node": 1.0}, 0, LinesOfNet(net))
    assert rows.tolist() == []
    assert lost.total() == 3


# -- mining -----------------------------------------------------------------------------------------------------------


class PolicyKeyNet(KeyNet):
    """It leads to positions as a cluster's net does, by moves that follow from the key."""

    def priors(self, batch: PositionBatch):  # type: ignore[no-untyped-def]
        moves = [[*chess.Board(fen).legal_moves] for fen in batch.fen]
        from valuerepair.chess.positions import cuts_of, encode_moves

        flat = encode_moves([move.uci() for legal in moves for move in legal])
        p = np.concatenate([np.linspace(1, 0, len(legal), dtype=np.float32) for legal in moves])
        return flat, cuts_of([len(legal) for legal in moves]), p

    def search_lines(self, batch: PositionBatch, draws: np.ndarray):  # type: ignore[no-untyped-def]
        moves, offsets, _ = self.priors(batch)
        return [moves[i : i + 1] for i in offsets[:-1].tolist()]


def mined(archive: Path, path: Path, aside: object, **options: object) -> list[tuple[str, int]]:
    sample = SampleOptions(per_game=4, off_game=aside)  # type: ignore[arg-type]
    mine_by_key(archive, path, net=PolicyKeyNet(), options=MineOptions(sample=sample, **options))  # type: ignore[arg-type]
    with closing(sqlite3.connect(path)) as connection:
        query = """
            SELECT p.origin, count(*) FROM positions p JOIN deep_values v ON v.position_id = p.id
            WHERE v.failed IS NULL GROUP BY 1
        """
        return connection.execute(query).fetchall()


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_games(tmp_path_factory.mktemp("archive") / "random.pgn", 60)


def test_the_store_knows_the_kind_of_each_and_the_archive_s_frame_has_games_only(archive: Path, tmp_path: Path) -> None:
    mined_kinds = mined(archive, tmp_path / "a.db", MIXED)
    assert {kind for kind, _ in mined_kinds} == {"game", *BESIDE}
    mine_by_key(archive, tmp_path / "plain.db", net=PolicyKeyNet())
    with Store.open(tmp_path / "a.db") as store, Store.open(tmp_path / "plain.db") as plain:
        games, every, without = frame(store), frame(store, Question(beside=True)), frame(plain)
    assert {*games["kind"]} == {"game"}
    assert Counter(every["kind"]) == dict(mined_kinds)
    # What is drawn from games is part of what is drawn without the others, value by value.
    same = games.merge(without, on="key", suffixes=("", "_plain"))
    assert len(same) == len(games)
    for name in ("fen", "moves", "net_q", "deep_q", "played", "source", "game"):
        assert (same[name] == same[f"{name}_plain"]).all(), name
    assert every[every["kind"] != "game"]["played"].isna().all()


def test_the_summary_has_a_line_for_each_kind(archive: Path, tmp_path: Path) -> None:
    sample = SampleOptions(per_game=4, off_game=MIXED)
    options = MineOptions(sample=sample, question=Question(alpha=150.0))
    summary = mine_by_key(archive, tmp_path / "a.db", net=PolicyKeyNet(), options=options)
    with Store.open(tmp_path / "a.db") as store:
        scored = frame(store, Question(alpha=150.0, beside=True)).dropna(subset="disagreement")
    wrong = scored["disagreement"].abs() >= 0.55
    assert summary.candidates.count == int((wrong & (scored["kind"] == "game")).sum())
    for kind in BESIDE:
        rate = summary.beside[kind]
        assert (rate.count, rate.total) == (
            int((wrong & (scored["kind"] == kind)).sum()),
            (scored["kind"] == kind).sum(),
        )
        assert any(
            line.startswith(f"beside the games ({kind}): {rate.count} of {rate.total}") for line in summary.lines()
        )


def test_a_run_that_goes_on_gives_what_one_of_a_piece_gives(archive: Path, tmp_path: Path) -> None:
    mined(archive, tmp_path / "whole.db", MIXED)
    for limit in (20, 50, None):
        mined(archive, tmp_path / "parts.db", MIXED, limit=limit)
    whole, parts = dump(tmp_path / "whole.db"), dump(tmp_path / "parts.db")
    for table in ("positions", "deep_values", "net_values"):
        assert whole[table] == parts[table], table


def test_what_stands_in_a_game_is_of_the_game_whenever_it_comes(archive: Path, tmp_path: Path) -> None:
    """After a run beside the games, one of all positions of games: those met before are in games now, and searched
    again with the moves of these."""
    path, oracle = tmp_path / "a.db", KeyOracle()
    short = tmp_path / "short.pgn"
    board = chess.Board()
    short.write_text("".join(f'[Result "*"]\n\n1. {board.san(move)} a6 *\n\n' for move in board.legal_moves))
    options = MineOptions(sample=SampleOptions(per_game=None, min_ply=0, max_ply=0, off_game="random_move:1"))
    for seed in range(8):  # first moves at random, each of which stands in a game
        sample = SampleOptions(per_game=None, min_ply=0, max_ply=0, off_game="random_move:1", seed=seed)
        mine_by_key(short, path, options=MineOptions(sample=sample))
    assert options.sample.shares_beside == {"random_move": 1.0}
    with Store.open(path) as store:
        before = frame(store, Question(beside=True))
        assert {*before["kind"]} == {"random_move"}
        assert len(before) > 3
        assert len(frame(store)) == 0
    mine_by_key(short, path, options=MineOptions(sample=SampleOptions(per_game=None, min_ply=0)), oracle=oracle)
    with Store.open(path) as store:
        after, every = frame(store), frame(store, Question(beside=True))
    assert {*after["kind"]} == {*every["kind"]} == {"game"}
    assert {*before["key"]} <= {*after["key"]}
    assert {*before["key"]} <= {position.key for position in oracle.searched}
    # And the other way round nothing is taken from the games.
    for seed in range(8):
        sample = SampleOptions(per_game=None, min_ply=0, max_ply=0, off_game="random_move:1", seed=seed)
        mine_by_key(short, path, options=MineOptions(sample=sample))
    with Store.open(path) as store:
        assert frame(store)["key"].tolist() == after["key"].tolist()


# -- what asks the archive --------------------------------------------------------------------------------------------


def without(path: Path, copy: Path) -> Path:
    """The store without its positions beside the games."""
    shutil.copy(path, copy)
    with closing(sqlite3.connect(copy)) as connection, connection:
        gone = "IN (SELECT id FROM positions WHERE origin <> 'game')"
        for table in ("net_values", "deep_values"):
            connection.execute(f"DELETE FROM {table} WHERE position_id {gone}")
        connection.execute("DELETE FROM positions WHERE origin <> 'game'")
    return copy


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixed")
    archive = random_games(folder / "many.pgn", 400)
    mined(archive, folder / "mixed.db", MIXED)
    return folder / "mixed.db"


@pytest.mark.slow
def test_rates_and_alpha_are_those_of_the_games_alone(mixed: Path, tmp_path: Path) -> None:
    """All figures, as if nothing lay beside; but for the lines that are of these."""
    figures = []
    for path in (mixed, without(mixed, tmp_path / "games.db")):
        with Store.open(path) as store:
            scored = store_stats(store, Question()).as_json()["scored"]
            figures.append((path == mixed, scored.pop("by_origin"), scored))
            pair = pick(store)
            fits = {name: (fit.alpha, fit.n) for name, fit in alpha_fits(store, pair).items()}
            figures.append((path == mixed, fits, [used := alpha(store, pair), training_scale(store, pair, used, "cp")]))
    ours, alone = ([figure[2] for figure in figures if figure[0] is of] for of in (True, False))
    assert ours == alone
    assert figures[2][1] == []
    assert figures[1][1] == figures[3][1]


def test_each_origin_has_its_own_rate_and_all_are_exported(mixed: Path) -> None:
    with Store.open(mixed) as store:
        every = frame(store, Question(beside=True, alpha=170.0))
        told = store_stats(store, Question(threshold=0.5, alpha=170.0)).scored
    assert told is not None
    assert [*told.rates["origin"]] == list(BESIDE)
    for origin, rate in told.rates["origin"].items():
        off = every["disagreement"][every["kind"] == origin].dropna().abs()
        assert (rate.count, rate.total) == ((off >= 0.5).sum(), len(off))
        assert rate.rate == pytest.approx((off >= 0.5).mean())
    exported = here("export", "--db", str(mixed), "-q", cwd=mixed.parent).stdout.splitlines()
    assert Counter(json.loads(row)["kind"] for row in exported) == Counter(every["kind"])


def test_a_store_without_positions_of_games_speaks_of_those_off_the_games(mixed: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    shutil.copy(mixed, path)
    with Store.open(path, write=True) as store:
        store.connection.execute("UPDATE positions SET origin = 'policy_move' WHERE origin = 'game'")
        every = frame(store, Question(beside=True, alpha=170.0))
        told = store_stats(store, Question(threshold=0.5, alpha=170.0))
    hits = int((every["disagreement"].abs() >= 0.5).sum())
    assert told.scored is not None
    assert (told.scored.rate.count, told.scored.rate.total) == (hits, every["disagreement"].notna().sum())
    assert "positions off these games are misjudged by 0.5 or more" in told.headline


def test_a_position_beside_a_game_is_in_its_game_s_part(mixed: Path, tmp_path: Path) -> None:
    """And nobody else's part depends on it, nor which families are held out."""
    of_path = dict[bool, dict[tuple[int, int], str]]()
    for path in (shutil.copy(mixed, tmp_path / "mixed.db"), without(mixed, tmp_path / "games.db")):
        is_mixed = Path(path).name == "mixed.db"
        with Store.open(path, write=True) as store:
            split = parts.choose(store, games=0.3, families=0.2)
            assert split.materials or split.openings
            every = frame(store, Question(beside=True), only=("position_id", "game_id", "kind", "part"))
        of_games = every[every["kind"] == "game"]
        names = zip(of_games["position_id"], of_games["game_id"], of_games["part"], strict=True)
        of_path[is_mixed] = {(number, game): part for number, game, part in names}
        if is_mixed:
            whole = every
    assert of_path[True] == of_path[False]
    sure = whole[whole["part"] != parts.NEITHER]
    assert (sure.groupby("game_id")["part"].nunique() == 1).all()
    beside = sure[sure["kind"] != "game"].merge(sure[sure["kind"] == "game"], on="game_id")
    assert (beside["part_x"] == beside["part_y"]).all()
    assert beside["part_x"].nunique() == 3  # training, games, families
