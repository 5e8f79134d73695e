"""Tablebases in the search: when they are asked, what their answers are worth, and what they prove.

The four smallest tables (three men, without pawns; 14 kB in all, made by Ronald de Man's generator) lie in
goldens/syzygy. Tests of everything up to four men take the folder $VALUEREPAIR_SYZYGY, else the folder `syzygy` in the
cache: the tables of python-chess's source archive will do
(``pip download --no-binary :all: --no-deps chess==1.11.2``, data/syzygy/regular; data/gaviota beside it is used, too).
"""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import chess
import chess.gaviota
import chess.syzygy
import pytest

from tests.mcts_doubles import FakeNet, position, searched
from tests.parity import search_goldens
from tests.parity.search_parity import Lc0Evaluator
from tests.search_trees import Node, board_of, boards_of, endings
from tests.tree_checks import checked_rounds
from valuerepair.chess.positions import Position
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import cache_root
from valuerepair.mcts.forest import Forest
from valuerepair.mcts.layout import ENDED, OPEN, TABLEBASE
from valuerepair.mcts.outcome import choose_move
from valuerepair.mcts.params import SearchParams
from valuerepair.mcts.result import SearchResult
from valuerepair.mcts.search import Search
from valuerepair.mcts.syzygy import Tables

SMALLEST = str(Path(__file__).parent / "goldens" / "syzygy")
WINS_ROOK = position("7k/8/8/8/8/5K2/1r4Q1/8 w - - 0 1")  # Q:b2 leaves queen against king
LOSES_QUEEN = position("7k/8/8/8/8/5K2/1q4R1/8 b - - 0 1")  # Q:g2+ K:g2 is a draw, and there is better
MEN = ("KQkr", "KRkb", "KRkn", "KQkn", "KBkn", "KPkp", "KRkp", "KNkp", "KPPk", "KNPk", "KBPk")


@pytest.fixture(scope="module")
def folder() -> str:
    """Tables of up to four men."""
    tables = Path(os.environ.get("VALUEREPAIR_SYZYGY", cache_root() / "syzygy"))
    if not (tables / "KRvKP.rtbw").is_file():
        pytest.skip(f"no Syzygy tables of four men in {tables} (set VALUEREPAIR_SYZYGY; see the head of this file)")
    return str(tables)


def result_of(start: Position, nodes: int, **options: Any) -> SearchResult:
    return searched(start, nodes, **options).result(0)


def probed(tree: Node) -> list[Node]:
    return [node for node in tree.walk() if node.kind == TABLEBASE and not node.children]


# --- With the smallest tables


def test_a_won_ending_is_certain_and_no_mate() -> None:
    plain = result_of(WINS_ROOK, 60)
    assert {move.certain for move in plain.moves} == {None}
    for certainty in (False, True):
        result = result_of(WINS_ROOK, 60, syzygy=SMALLEST, certainty=certainty)
        best = result.best
        assert (best.move, best.certain, best.mate, best.wl) == ("g2b2", 1, None, 1.0)
        assert result.nodes <= 60 if certainty else result.nodes == 60
    assert result_of(WINS_ROOK, 5000, syzygy=SMALLEST, certainty=True).nodes < 200


def test_tables_save_evaluations() -> None:
    evaluations = {}
    for syzygy in ("", SMALLEST):
        net = FakeNet()
        searched(WINS_ROOK, 300, net, syzygy=syzygy)
        evaluations[syzygy] = sum(net.sizes)
    assert evaluations[SMALLEST] < evaluations[""]


@pytest.mark.parametrize("options", [{}, {"certainty": True}, {"auto_extend": True, "lookahead": True}], ids=str)
def test_tables_are_asked_right_after_captures_only(options: dict[str, Any]) -> None:
    """Few men, no castling rights, no move counted towards the 50: only then is the table's value the position's."""
    at_tables = 0
    for start in (WINS_ROOK, LOSES_QUEEN, *endings(("KRkn", "KQkb", "KBNk"), (0, 7), 6, 2)):
        for node in boards_of(searched(start, 400, syzygy=SMALLEST, **options), start).walk():
            board = node.board
            few = chess.popcount(board.occupied) <= 3 and not board.pawns
            if few and node.depth and board.halfmove_clock == 0 and node.kind != ENDED:
                assert node.kind == TABLEBASE, board.fen()
                at_tables += 1
            if node.kind == TABLEBASE and not node.children:
                assert few, board.fen()
                assert board.halfmove_clock == 0, board.fen()
    assert at_tables > 5


def test_rooks_that_may_castle_are_not_in_the_tables() -> None:
    may = position("4k3/8/8/8/8/6n1/7P/R3K3 w Q - 0 1")  # h:g3 keeps the right, and a pawn
    assert not probed(boards_of(searched(may, 200, syzygy=SMALLEST), may))
    both = position("4k3/8/8/8/8/8/4n3/R3K3 w Q - 0 1")  # K:e2 loses it
    after = probed(boards_of(searched(both, 200, syzygy=SMALLEST), both))
    assert after
    assert all(not node.board.castling_rights for node in after)


def test_what_no_table_knows_is_evaluated() -> None:
    start = position("8/8/8/8/8/2k5/4p1r1/5K2 w - - 0 1")  # K:g2 leaves a pawn; the queen that it becomes is known
    tree = boards_of(searched(start, 400, syzygy=SMALLEST), start)
    pawns = [node for node in tree.walk() if chess.popcount(node.board.occupied) <= 3 and node.board.pawns]
    assert OPEN in {node.kind for node in pawns}
    assert all(node.children for node in pawns if node.kind == TABLEBASE), (
        "proven by the moves from there, not looked up"
    )
    assert any(child.kind == TABLEBASE for node in pawns for child in node.children.values())


@checked_rounds()
def test_trees_of_a_forest_ask_as_they_do_alone() -> None:
    starts = [WINS_ROOK, LOSES_QUEEN, *endings(("KQkr", "KRkn", "KQkb"), (0,), 6, 3)]
    for batch in (1, 4):
        params = SearchParams(syzygy=SMALLEST, minibatch_size=batch, auto_extend=True)
        alone = [next(Forest(FakeNet(), params, trees=1).search([start], 150))[1] for start in starts]
        together = dict(Forest(FakeNet(), params, trees=3, nodes=10).search(starts, 150))
        assert [together[i] for i in range(len(starts))] == alone


def test_forced_chains_end_where_a_table_knows() -> None:
    # 1. Q:g8+ must be answered by K:g8.
    start, at_tables = position("6rk/8/8/8/8/6Q1/8/6K1 w - - 0 1"), 0
    for node in boards_of(searched(start, 300, auto_extend=True, syzygy=SMALLEST), start).walk():
        if chess.popcount(node.board.occupied) <= 3 and node.board.halfmove_clock == 0:
            assert not node.forced
            assert node.kind in (ENDED, TABLEBASE)
            at_tables += 1
    assert at_tables > 0


# --- The root's moves

ROOTS = (
    "7k/8/8/8/8/5K2/8/6Q1 w - - 0 1",
    "7k/8/8/8/8/5K2/8/6R1 w - - 60 90",
    "7k/8/8/8/8/5K2/8/6R1 b - - 3 90",
    "8/8/8/3k4/8/8/4R3/3K4 w - - 90 100",  # too late to mate within 50 moves
    "8/8/8/8/3k4/8/4q3/2K5 w - - 0 1",
)
REPEATED = position("7k/8/8/8/8/5K2/8/6R1 w - - 0 1", "g1g2 h8h7 g2g1 h7h8 f3f4 h8h7")


@pytest.mark.parametrize("fast", [False, True])
def test_the_roots_moves_are_those_of_lc0(shared_data: Path, fast: bool) -> None:
    net = shared_data / "nets" / "maia-1900.pb.gz"
    starts, filtered = [*map(position, ROOTS), REPEATED], 0
    flags = [f"--syzygy-paths={SMALLEST}", *["--syzygy-fast-play"] * fast]
    with search_goldens.engine(net, flags) as process:
        theirs = [search_goldens.search(process, start, 60)["visits"] for start in starts]
    params = SearchParams(syzygy=SMALLEST, syzygy_fast_play=fast, lc0_floats=True)
    results = dict(Forest(Lc0Evaluator(net), params, trees=len(starts)).search(starts, 60))
    for i, (start, visits) in enumerate(zip(starts, theirs, strict=True)):
        assert {move.move: move.visits for move in results[i].moves if move.visits} == visits, start.fen
        legal = {move.uci() for move in board_of(start).legal_moves}
        assert {move.move for move in results[i].moves} == legal, "those left out are listed, too"
        assert sum(move.net_prior for move in results[i].moves) == pytest.approx(1, abs=1e-3)
        kept, _ = Tables(SMALLEST).root_moves(start.fen, nearest=fast or start is REPEATED) or ((), False)
        assert set(visits) <= set(kept)
        filtered += len(kept) < len(legal)
    assert filtered >= 4


def test_fast_play_takes_the_shortest_way() -> None:
    start = position(ROOTS[1])
    every, fast = (result_of(start, 60, syzygy=SMALLEST, syzygy_fast_play=on) for on in (False, True))
    nearest, _ = Tables(SMALLEST).root_moves(start.fen, nearest=True) or ((), False)
    assert {move.move for move in fast.moves if move.prior} == set(nearest)
    assert {move.move for move in every.moves if move.prior} > set(nearest)


def test_after_a_repetition_only_the_shortest_way_is_left() -> None:
    tables = Tables(SMALLEST)
    free, strict = (tables.root_moves(REPEATED.fen, nearest=nearest) for nearest in (False, True))
    assert free is not None
    assert strict is not None
    with chess.syzygy.open_tablebase(SMALLEST) as own:
        board, distances = chess.Board(REPEATED.fen), {}
        for move in list(board.legal_moves):
            board.push(move)
            distances[move.uci()] = own.probe_dtz(board) if own.probe_wdl(board) == -2 else 0
            board.pop()
    least = max(distance for distance in distances.values() if distance)  # of the side that loses they are negative
    assert set(strict[0]) == {move for move, distance in distances.items() if distance == least}
    assert set(free[0]) == {move for move, distance in distances.items() if distance}
    assert len(strict[0]) < len(free[0])


@pytest.mark.parametrize("men", [pytest.param("KQk", marks=pytest.mark.slow), "KRk"])
def test_won_endings_are_won_whatever_the_net_says(men: str) -> None:
    """Against the longest defence, by a net that knows nothing, in time for the 50-move rule."""
    with chess.syzygy.open_tablebase(SMALLEST) as tables:
        for start in endings((men,), (0,), 3, 21):
            board = board_of(start)
            if tables.probe_wdl(board) != (2 if board.turn else -2):
                continue
            while not board.is_game_over(claim_draw=True):
                if board.turn:
                    at = Position(
                        board.fen(), board.root().fen(), tuple(m.uci() for m in board.move_stack), board.ply()
                    )
                    board.push_uci(result_of(at, 8, syzygy=SMALLEST, lookahead=True).best_move)
                else:
                    board.push(max(list(board.legal_moves), key=lambda move: _left(tables, board, move)))
            assert board.is_checkmate(), board
            assert not board.turn


def _left(tables: chess.syzygy.Tablebase, board: chess.Board, move: chess.Move) -> int:
    """Plies to the mate after a move of the losing side; more where it takes the last piece."""
    board.push(move)
    try:
        return 1000 if tables.probe_wdl(board) != 2 else tables.probe_dtz(board)
    finally:
        board.pop()


def test_a_temperature_does_not_draw_what_the_tables_left_out() -> None:
    result = result_of(position(ROOTS[3]), 30, syzygy=SMALLEST)
    kept, _ = Tables(SMALLEST).root_moves(ROOTS[3], nearest=False) or ((), False)
    params = SearchParams(temperature=5.0, temp_visit_offset=10.0)
    drawn = {choose_move(result, params, 0, seed) for seed in range(300)}
    assert drawn == set(kept) < {move.move for move in result.moves}


def test_without_distances_moves_that_keep_win_draw_and_loss_are_left(tmp_path: Path) -> None:
    for table in Path(SMALLEST).glob("*.rtbw"):
        (tmp_path / table.name).write_bytes(table.read_bytes())
    start = position("8/8/8/8/3k4/8/4R3/3K4 w - - 0 1")
    tables_moves = Tables(str(tmp_path)).root_moves(start.fen, nearest=False)
    assert tables_moves is not None
    assert not tables_moves[1]
    board = board_of(start)
    with chess.syzygy.open_tablebase(SMALLEST) as tables:
        for move in list(board.legal_moves):
            board.push(move)
            assert (tables.probe_wdl(board) == -2) == (move.uci() in tables_moves[0])
            board.pop()
    assert not Tables("").may_have(start.fen)
    castles = "4k3/8/8/8/8/8/8/R3K3 w Q - 0 1"
    assert not Tables(SMALLEST).may_have(castles)


def test_moves_that_are_asked_for_go_before_the_tables() -> None:
    search = Search(FakeNet(), SearchParams(syzygy=SMALLEST))
    search.set_position(position(ROOTS[0]))
    result = search.run(nodes=20, root_moves=["f3e3"])
    assert [move.move for move in result.moves] == ["f3e3"]
    everything = search.run(nodes=20)
    assert len(everything.moves) == board_of(position(ROOTS[0])).legal_moves.count()


def test_a_kept_tree_is_not_gone_on_with_where_the_tables_choose() -> None:
    search, start = Search(FakeNet(), SearchParams(syzygy=SMALLEST)), position(ROOTS[0])
    search.set_position(start)
    best = search.run(nodes=40).best_move
    board = board_of(start)
    board.push_uci(best)
    reply = next(iter(board.legal_moves)).uci()
    assert not search.set_position(position(start.fen, f"{best} {reply}"))


# --- Answers


@pytest.mark.parametrize(("wdl", "value"), [(2, 1), (1, 0), (0, 0), (-1, 0), (-2, -1), (None, None)])
def test_cursed_wins_and_blessed_losses_are_draws(
    monkeypatch: pytest.MonkeyPatch, wdl: int | None, value: int | None
) -> None:
    tables = Tables(SMALLEST)
    monkeypatch.setattr(tables, "_tables", SimpleNamespace(get_wdl=lambda board: wdl))
    assert tables.probe(WINS_ROOK.fen) == value


def test_the_number_of_men_is_that_of_the_largest_table() -> None:
    assert (Tables("").men, Tables(os.pathsep).men, Tables(SMALLEST).men) == (0, 0, 3)


def test_folders_without_tables_are_refused_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^--syzygy .*nowhere: no such folder$"):
        Tables(f"{SMALLEST}{os.pathsep}{tmp_path}/nowhere")
    with pytest.raises(UsageError, match=r"no Syzygy tables \(\*\.rtbw\) there$"):
        Forest(FakeNet(), SearchParams(syzygy=str(tmp_path)))


@pytest.mark.parametrize("content", [b"", b"no table at all", (Path(SMALLEST) / "KQvK.rtbw").read_bytes()[:40]])
def test_a_damaged_table_is_a_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "KQvK.rtbw").write_bytes(content)
    with pytest.raises(ValueRepairError, match=r"^--syzygy: a damaged table"):
        result_of(WINS_ROOK, 200, syzygy=str(tmp_path))


@pytest.mark.parametrize(("at", "byte"), [(6, 0), (20, 20)])
def test_a_table_with_one_byte_of_another_value_is_a_line(tmp_path: Path, at: int, byte: int) -> None:
    """A piece that there is not; a symbol that is made of itself."""
    content = bytearray((Path(SMALLEST) / "KRvK.rtbw").read_bytes())
    content[at] = byte
    (tmp_path / "KRvK.rtbw").write_bytes(content)
    with pytest.raises(ValueRepairError, match=r"^--syzygy: a damaged table"):
        Tables(str(tmp_path)).probe("8/8/8/8/8/2k5/8/K6R w - - 0 1")


@checked_rounds()
def test_a_damaged_table_at_the_root_leaves_the_forest_as_it_was(tmp_path: Path) -> None:
    for name in ("KRvK.rtbw", "KRvK.rtbz"):
        (tmp_path / name).write_bytes(b"no table at all")
    forest = Forest(FakeNet(), SearchParams(syzygy=str(tmp_path)), trees=2)
    with pytest.raises(ValueRepairError, match=r"^--syzygy: a damaged table"):
        forest.add(position(ROOTS[1]), 10)
    assert (forest.free, forest.busy) == (2, 0)
    start = position()
    assert [i for i, _ in forest.search([start, start], 10)] == [0, 1]


# --- With tables of up to four men, where there are some


def truth(tables: chess.syzygy.Tablebase, board: chess.Board) -> int:
    """The value for the player who moved, without the 50-move rule's say: -2 to 2."""
    return -tables.probe_wdl(board)


def test_every_value_from_the_tables_is_theirs_and_so_is_what_follows(folder: str) -> None:
    looked_up = proven = 0
    with chess.syzygy.open_tablebase(folder) as tables:
        for start in endings(MEN, (0,), 40, 11):  # the search has the tables of three men
            options: dict[str, Any] = {"certainty": True, "lookahead": True, "auto_extend": True}
            for node in boards_of(searched(start, 200, syzygy=SMALLEST, **options), start).walk():
                if chess.popcount(node.board.occupied) > 4 or node.depth == 0 or not any(node.board.legal_moves):
                    continue
                if node.kind == TABLEBASE and node.board.halfmove_clock == 0:
                    value = truth(tables, node.board)
                    assert node.wl == (value == 2) - (value == -2), node.board.fen()
                    looked_up += 1
                elif node.wl == 1 == node.lower:
                    assert truth(tables, node.board) > 0, node.board.fen()
                    proven += 1
                elif node.wl == -1 == node.upper:
                    assert truth(tables, node.board) < 0, node.board.fen()
                    proven += 1
    assert looked_up > 30
    assert proven > 20


def test_what_is_proven_without_tables_agrees_with_them(folder: str) -> None:
    proven = 0
    with chess.syzygy.open_tablebase(folder) as tables:
        for start in endings(MEN, (0,), 120, 12):
            tree = boards_of(searched(start, 300, certainty=True, lookahead=True), start)
            repeats = any(node.board.is_repetition(3) for node in tree.walk())
            for node in tree.walk():
                if node.depth and not repeats and any(node.board.legal_moves):
                    value = truth(tables, node.board)
                    assert node.lower <= (value > 0) - (value < 0) <= node.upper, node.board.fen()
                    proven += (node.lower, node.upper) != (-1, 1)
    assert proven > 300


def test_mates_are_no_longer_than_said_by_gaviotas_tables(folder: str) -> None:
    gaviota = Path(os.environ.get("VALUEREPAIR_GAVIOTA", Path(folder).parent.parent / "gaviota"))
    if not (gaviota / "kqk.gtb.cp4").is_file():
        pytest.skip(f"no Gaviota tables in {gaviota} (set VALUEREPAIR_GAVIOTA)")
    mates = 0
    with chess.gaviota.open_tablebase(str(gaviota)) as tables:
        for start in endings(("KQk", "KRk"), (0,), 60, 13):
            result = searched(start, 1500, certainty=True, lookahead=True).result(0)
            board = board_of(start)
            for move in result.moves:
                if move.mate is None:
                    continue
                board.push_uci(move.move)
                plies = -tables.probe_dtm(board) if not board.is_checkmate() else 0
                mate_plies = 2 * move.mate - 2 if move.mate > 0 else 2 * move.mate + 1
                assert abs(plies) <= abs(mate_plies), (start.fen, move)
                assert plies * mate_plies >= 0, (start.fen, move)
                mates += 1
                board.pop()
    assert mates > 5
