"""Evaluations in PGN comments and EPD opcodes: whose view, before or after the move, and which kind a run takes."""

from __future__ import annotations

import gzip
import io
import re
import subprocess
from pathlib import Path
from typing import Any

import chess
import chess.engine
import chess.pgn
import pytest

from valuerepair.archives.options import RecordedOptions, SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import depth_of, detect, sample
from valuerepair.chess.positions import Position
from valuerepair.errors import UsageError, ValueRepairError

GAME = '[White "{white}"]\n[Black "{black}"]\n[Result "1-0"]\n\n{moves} 1-0\n\n'


def game(moves: str, white: str = "Alpha 1.0", black: str = "Beta 2") -> str:
    return GAME.format(white=white, black=black, moves=moves)


def run(path: Path, kind: str, text: str | None = None, **options: Any) -> tuple[list[Position], ReadReport]:
    if text is not None:
        path.write_text(text)
    wanted = {name: options.pop(name) for name in ("view", "depth", "min_depth", "min_nodes", "by") if name in options}
    chosen: dict[str, Any] = {"per_game": None, "min_ply": 0, "recorded": RecordedOptions(kind, **wanted), **options}
    report = ReadReport()
    positions = [p for batch in sample([str(path)], SampleOptions(**chosen), report) for p in batch]
    assert report.adds_up, report
    return positions, report


def scores(positions: list[Position]) -> list[tuple[str | None, int | None, int | None]]:
    """(move played, centipawns, moves to mate) of each."""
    return [(p.origin.played, p.origin.eval_cp, p.origin.eval_mate) for p in positions]


def extents(positions: list[Position]) -> list[tuple[int, int, int, int]]:
    """(depth, seldepth, nodes, milliseconds) of each."""
    recorded = [p.origin.recorded for p in positions if p.origin.recorded]
    return [(r.depth, r.seldepth, r.nodes, r.time_ms) for r in recorded]


def test_lichess_comments_are_of_the_position_after_the_move_and_whites_view(tmp_path: Path) -> None:
    moves = (
        "1. e4 { [%eval 0.24] [%clk 0:10:00] } e5 { [%eval 0.12,20] } "
        "2. Nc3 { [%eval #-3] } Bc5 { [%eval #4,33] } 3. a3"
    )
    positions, report = run(tmp_path / "a.pgn", "eval", game(moves))
    assert scores(positions) == [("e7e5", -24, None), ("b1c3", 12, None), ("f8c5", None, 3), ("a2a3", None, 4)]
    assert [p.origin.recorded.depth for p in positions if p.origin.recorded] == [0, 20, 0, 33]
    assert report.rejected_positions == {"no recorded evaluation": 1}


def test_whole_numbers_are_the_centipawns_of_chessbase_unless_the_game_has_pawns(tmp_path: Path) -> None:
    """`[%eval 14,24]` is 0.14 pawns at depth 24: Ferdy, Specification and Implementation Guide (Supplement), talkchess
    61222. Pawns have decimals in lichess's files and in those of python-chess."""
    moves = (
        "1. e4 {[%eval 14,24]} e5 {[%eval -6,17] [%emt 0:00:05]} (1... c5 {[%eval 3,17]}) "
        "2. Nc3 {[%eval #-3,9]} Bc5 {[%eval 125,33]} 3. a3"
    )
    positions, _ = run(tmp_path / "a.pgn", "eval", game(moves))
    assert scores(positions) == [("e7e5", -14, None), ("b1c3", -6, None), ("f8c5", None, 3), ("a2a3", 125, None)]
    assert [depth for depth, *_ in extents(positions)] == [24, 17, 9, 33]
    positions, _ = run(tmp_path / "a.pgn", "eval", game(moves.replace("125", "1.25")))
    assert scores(positions) == [("e7e5", -1400, None), ("b1c3", -600, None), ("f8c5", None, 3), ("a2a3", 125, None)]


def test_cutechess_comments_are_of_the_position_before_the_move_and_the_movers_view(tmp_path: Path) -> None:
    moves = (
        "1. e4 {book} e5 {+0.65/12 1.2s} 2. Nf3 {-M6/64 0.16s} Nc6 {+M17/17 0s} "
        "3. Bb5 {0.00/9 2s, n=500, sd=20} a6 {0s} 4. Ba4"
    )
    positions, report = run(tmp_path / "a.pgn", "cutechess", game(moves))
    assert scores(positions) == [("e7e5", 65, None), ("g1f3", None, -3), ("b8c6", None, 9), ("f1b5", 0, None)]
    assert extents(positions) == [(12, 0, 0, 1200), (64, 0, 0, 160), (17, 0, 0, 0), (9, 20, 500, 2000)]
    players = [p.origin.recorded.by for p in positions if p.origin.recorded]
    assert players == ["Beta 2", "Alpha 1.0", "Beta 2", "Alpha 1.0"]
    assert report.rejected_positions == {"no recorded evaluation": 3}


def test_tcec_comments_are_of_the_position_before_the_move_and_whites_view(tmp_path: Path) -> None:
    moves = (
        "1. e4 {book, mb=+0+0+0+0+0,} e5 {d=16, sd=53, mt=70033, s=9, n=26518605, pv=e5 Nf3, tb=0, wv=0.43, R50=50,} "
        "2. Nf3 {d=2, sd=3, mt=5, n=77, pv=Nf3, wv=-M4, R50=47,} Nc6 {d=1, sd=1, mt=232, n=0, pv=Nc6, wv=0.00,} 3. Bb5"
    )
    positions, report = run(tmp_path / "a.pgn", "tcec", game(moves))
    assert scores(positions) == [("e7e5", -43, None), ("g1f3", None, -2)]
    assert extents(positions) == [(16, 53, 26518605, 70033), (2, 3, 77, 5)]
    # What an engine writes without a search is no evaluation.
    assert report.rejected_positions == {"no recorded evaluation": 3}


def test_comments_of_self_play_are_of_the_position_before_the_move_and_the_movers_view(tmp_path: Path) -> None:
    moves = (
        "1. e4 {book} e5 {[%eval -0.30,4]\nq=+0.0344 wdl=488/59/453 n=8 net=+0.0653} 2. Nf3 {q=-1.0000 net=-0.5000} "
        "Nc6 {q=+0.2000 wdl=600/0/400 n=100} 3. Bb5 {[%eval 1.00,4]} a6"
    )
    positions, report = run(tmp_path / "a.pgn", "selfplay", game(moves))
    recorded = [p.origin.recorded for p in positions if p.origin.recorded]
    assert [(r.q, r.net_q, r.wdl, r.nodes, r.by) for r in recorded] == [
        (0.0344, 0.0653, (488, 59, 453), 8, "Beta 2"),
        (-1.0, -0.5, None, 0, "Alpha 1.0"),
    ]
    # What has no value of a net is an engine's, and no search of this project.
    assert report.rejected_positions == {"no recorded evaluation": 4}
    assert detect([str(tmp_path / "a.pgn")]).kind == "selfplay"


@pytest.mark.parametrize(
    ("tags", "taken"),
    [
        ('[Search "nodes=8 device=CPU"]', ["Beta 2", "Alpha 1.0"]),
        ('[Search "nodes=8 device=CPU q_scale=0.5"]', []),
        ('[WhiteSide "net nodes=8,q_scale=0.5"]\n[BlackSide "net nodes=8"]', ["Beta 2"]),
    ],
)
def test_the_q_of_a_scaled_search_is_not_taken(tags: str, taken: list[str], tmp_path: Path) -> None:
    """Every Q of such a search is another number than the same search of the net would give."""
    text = game("1. e4 e5 {q=+0.0344 n=8 net=+0.0653} 2. Nf3 {q=+0.5000 n=8 net=+0.5000} Nc6")
    positions, report = run(tmp_path / "a.pgn", "selfplay", text.replace("[White ", f"{tags}\n[White ", 1))
    assert [p.origin.recorded.by for p in positions if p.origin.recorded] == taken
    scaled = {"evaluation of a search that scaled the net's Q (q_scale)": 2 - len(taken)} if len(taken) < 2 else {}
    assert report.rejected_positions == {"no recorded evaluation": 2, **scaled}


def test_shallow_ones_and_those_of_other_players_are_counted(tmp_path: Path) -> None:
    text = game("1. e4 {+0.20/9 1s} e5 {+0.30/12 1s} 2. Nf3 {+0.10/8 1s}")
    positions, report = run(tmp_path / "a.pgn", "cutechess", text, min_depth=9, by="alpha")
    assert scores(positions) == [("e2e4", 20, None)]
    assert report.rejected_positions == {"evaluation by another player": 1, "evaluation of less than depth 9": 1}
    _, report = run(tmp_path / "a.pgn", "cutechess", text, min_nodes=1)
    assert report.rejected_positions == {"evaluation of fewer than 1 nodes": 3}


def test_evaluations_with_and_without_depth_are_not_mixed(tmp_path: Path) -> None:
    text = game("1. e4 {[%eval 0.2]} e5 {[%eval 0.3,20]} 2. Nf3")
    assert scores(run(tmp_path / "a.pgn", "eval", text, depth=True)[0]) == [("g1f3", 30, None)]
    positions, report = run(tmp_path / "a.pgn", "eval", text, depth=False)
    assert scores(positions) == [("e7e5", -20, None)]
    assert report.rejected_positions["evaluation with a depth, unlike the first ones"] == 1


def test_one_run_takes_one_kind(tmp_path: Path) -> None:
    text = (
        game("1. e4 {[%eval 0.2]} e5 2. Nf3")
        + game("1. d4 {+0.65/12 1.2s} d5")
        + game("1. c4 {d=1, n=5, wv=0.10,} c5")
        + game("1. f4 {q=+0.0100 wdl=500/10/490 n=9 net=-0.2000} f5")
        + game("1. b4 b5")
    )
    for kind in ("eval", "cutechess", "tcec", "selfplay"):
        positions, report = run(tmp_path / "a.pgn", kind, text)
        assert len(positions) == 1
        assert report.rejected == {"evaluations of another kind": 3, "no recorded evaluation": 1}
    with pytest.raises(UsageError, match="only cutechess, tcec and selfplay comments say which player"):
        RecordedOptions("eval", by="x")
    with pytest.raises(UsageError, match="no kind 'x'"):
        RecordedOptions("x")


def test_epd_scores_with_depth_and_nodes(tmp_path: Path) -> None:
    lines = (
        'r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5Q2/PPPP1PPP/RNB1K1NR b KQkq - ce -120; acd 20; acn 5000; acs 3; id "a";\n'
        "4k3/8/8/8/8/8/4P3/4K3 w - - bm #3;\n"
        "4k3/8/8/8/8/8/3P4/4K3 w - - bm d4;\n"
    )
    positions, report = run(tmp_path / "a.epd", "epd", lines)
    assert scores(positions) == [(None, -120, None), (None, None, 3)]
    first = positions[0].origin.recorded
    assert first is not None
    assert (first.depth, first.nodes, first.time_ms) == (20, 5000, 3000)
    assert report.rejected_positions == {"no recorded evaluation": 1}
    assert scores(run(tmp_path / "a.epd", "epd", view="white")[0])[0] == (None, 120, None)
    _, report = run(tmp_path / "a.epd", "eval")
    assert report.rejected_positions == {"evaluations of another kind": 2, "no recorded evaluation": 1}


def read_games(path: Path, mark: str) -> list[chess.pgn.Game]:
    """The first games that have the mark, as python-chess reads them."""
    data = path.read_bytes()
    if path.suffix == ".zst":
        data = subprocess.run(["zstd", "-dc", path], capture_output=True, check=True).stdout
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("latin-1").replace("\r", "")
    texts = [part for part in text.split("\n\n[Event ") if mark in part][:20]
    games = [chess.pgn.read_game(io.StringIO("[Event " + part)) for part in texts]
    return [one for one in games if one is not None]


def by_python_chess(kind: str, path: Path) -> dict[tuple[str, str], tuple[int | None, int | None]]:
    """FEN and move played -> scores, read independently: python-chess's comments, and the formats' definitions."""
    evaluations: dict[tuple[str, str], tuple[int | None, int | None]] = {}
    for one in read_games(path, {"eval": "%eval", "cutechess": "/", "tcec": "wv="}[kind]):
        for node in one.mainline():
            assert node.parent is not None
            board = node.parent.board()
            score: chess.engine.PovScore | None = None
            if kind == "eval":
                score = node.parent.eval() if node.parent.parent is not None else None
            else:
                pattern = r"^([+-]?)(M?)([\d.]+)/\d+" if kind == "cutechess" else r"wv=(-?)(M?)([\d.]+)"
                match = re.search(pattern, node.comment)
                if match and "n=0," not in node.comment:
                    mate, number = match[2] == "M", float(match[3])
                    value: Any = (
                        chess.engine.Mate(int((number + 1) // 2)) if mate else chess.engine.Cp(round(100 * number))
                    )
                    view = board.turn if kind == "cutechess" else chess.WHITE
                    score = chess.engine.PovScore(-value if match[1] == "-" else value, view)
            if score is not None:
                own = score.pov(board.turn)
                evaluations.setdefault((board.fen(), node.move.uci()), (own.score(), own.mate()))
    return evaluations


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("eval", "lichess-blitz.pgn"),
        pytest.param("cutechess", "leela-ID352.pgn.gz", marks=pytest.mark.slow),
        pytest.param("tcec", "tcec-lc0-s16.pgn.zst", marks=pytest.mark.slow),
    ],
)
def test_real_archives_as_python_chess_reads_them(shared_data: Path, kind: str, name: str) -> None:
    path = shared_data / "pgn" / name
    expected = by_python_chess(kind, path)
    positions, _ = run(path, kind, positions=None)
    ours = {(p.fen, p.origin.played or ""): (p.origin.eval_cp, p.origin.eval_mate) for p in positions}
    # Positions of these games that came first in another one are that one's.
    same = [ours[place] == expected[place] for place in expected if place in ours]
    assert len(same) > 1000
    assert sum(same) / len(same) > 0.99


@pytest.mark.parametrize(
    ("name", "kind", "depth"),
    [
        ("lichess-blitz.pgn", "eval", False),
        ("leela-ID352.pgn.gz", "cutechess", True),
        ("tcec-lc0-s16.pgn.zst", "tcec", True),
    ],
)
def test_the_kind_is_that_of_the_first_evaluation(shared_data: Path, name: str, kind: str, depth: bool) -> None:
    detected = detect([str(shared_data / "pgn" / name)])
    assert (detected.kind, detected.depth) == (kind, depth)


def test_detection_looks_through_archives_in_order(tmp_path: Path) -> None:
    (tmp_path / "a.pgn").write_text(game("1. e4 e5"))
    (tmp_path / "b.epd").write_text("4k3/8/8/8/8/8/4P3/4K3 w - - bm e4;\n")
    with pytest.raises(
        ValueRepairError, match=r"a\.pgn, .*b\.epd: no recorded evaluation in the first 64 MiB; the known kinds are"
    ):
        detect([str(tmp_path)])
    (tmp_path / "c.pgn").write_text(game("1. e4 e5") * 40_000 + game("1. e4 {[%eval 0.30,12]} e5"))
    detected = detect([str(tmp_path)])
    assert (detected.kind, detected.depth, Path(detected.archive).name) == ("eval", True, "c.pgn")
    (tmp_path / "b.epd").write_text("4k3/8/8/8/8/8/4P3/4K3 w - - bm e4; ce 30;\n")
    assert detect([str(tmp_path)]).kind == "epd"
    assert depth_of([str(tmp_path)], "eval") is True
    assert depth_of([str(tmp_path)], "tcec") is None
    assert depth_of(["-", str(tmp_path)], "eval") is None
    with pytest.raises(UsageError, match="say what comes from standard input: recorded:kind=K"):
        detect(["-"])
