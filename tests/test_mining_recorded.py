"""Whole runs of `vr mine --deep recorded`: comments of engine games, training chunks, the evaluation dump."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest

from tests.mining_doubles import KeyNet, KeyOracle, random_games
from tests.v6_records import positions_of, records_of, write_chunk
from tests.vr_runs import here
from valuerepair.archives.options import RecordedOptions, SampleOptions
from valuerepair.engines.kinds import parse_spec
from valuerepair.mining.mine import MineOptions, mine
from valuerepair.mining.summary import MineSummary
from valuerepair.nets.net import Evaluator, open_net
from valuerepair.oracles.recorded import RecordedSource, recorded_options
from valuerepair.question import Question
from valuerepair.store.pairs import judges
from valuerepair.store.store import Store
from valuerepair.store.view import frame


def engine_games(path: Path, games: int, view: str) -> Path:
    """Games with cutechess comments whose scores, by the material, go with the results, written in a view."""
    dice = random.Random(3)
    worth = {chess.PAWN: 1, chess.KNIGHT: 3, chess.BISHOP: 3, chess.ROOK: 5, chess.QUEEN: 9, chess.KING: 0}
    with path.open("w") as file:
        for number in range(games):
            board = chess.Board()
            words = []
            lean = 0.0
            for ply in range(40):
                moves = list(board.legal_moves)
                if not moves:
                    break
                move = dice.choice(moves)
                lean = sum(worth[p.piece_type] * (1 if p.color else -1) for p in board.piece_map().values())
                shown = lean if view == "white" or board.turn else -lean
                words.append(f"{board.san(move)} {{{shown:+.2f}/{8 + ply % 5} 0.1s}}")
                board.push(move)
            result = "1-0" if lean > 0 else "0-1" if lean < 0 else "1/2-1/2"
            names = f'[White "W{number % 2}"]\n[Black "B"]\n[Round "{number}"]\n[Result "{result}"]\n\n'
            file.write(f"{names}{' '.join(words)} {result}\n\n")
    return path


def mine_recorded(
    archive: Path, db: Path, deep: str = "recorded", net: Evaluator | None = None, **sample: Any
) -> MineSummary:
    """Mines recorded evaluations, with the stand-in net unless another one is given."""
    paths, spec = [str(archive)], parse_spec(deep)
    wanted = recorded_options(spec, paths)
    options = MineOptions(sample=SampleOptions(**sample))
    with Store.open(db, create=True) as store:
        return mine(paths, options, store, net or KeyNet(), RecordedSource.of(wanted))


def test_engine_comments_are_mined_and_a_wrong_view_is_told(tmp_path: Path, maia_file: str) -> None:
    net = open_net(maia_file, device="cpu", threads=1)
    right = mine_recorded(engine_games(tmp_path / "a.pgn", 300, "mover"), tmp_path / "a.db", net=net, per_game=2)
    assert right.scored == right.sampled > 500
    assert right.failed == 0
    assert "recorded evaluations: depth 8 to 12, median 10; nodes not recorded" in right.remarks
    [warning] = [line for line in right.remarks if line.startswith("warning: ")]
    assert warning.startswith("warning: evaluations by 3 players (B, W0, W1) are in one judge")
    assert right.turned == ""
    wrong = mine_recorded(engine_games(tmp_path / "b.pgn", 300, "white"), tmp_path / "b.db", net=net, per_game=2)
    assert "contradict the net with Black to move" in wrong.turned
    assert "recorded:view=white" in wrong.turned
    assert not any(line.startswith("next: ") for line in wrong.lines())
    mended = mine_recorded(tmp_path / "b.pgn", tmp_path / "b.db", "recorded:view=white,by=b", net, per_game=2)
    assert not any("contradict" in line or "players" in line for line in (*mended.remarks, mended.turned))
    assert mended.report.rejected_positions["evaluation by another player"] > 1000
    with Store.open(tmp_path / "b.db") as store:
        labels = [judge.label for judge in judges(store)]
        assert labels == ["recorded kind=cutechess", "recorded kind=cutechess view=white by=b"]
        assert set(frame(store, Question(oracle="recorded:by=b"))["side"]) == {"b"}


def test_the_store_holds_a_recorded_and_a_searched_value_of_one_position(tmp_path: Path) -> None:
    archive = engine_games(tmp_path / "a.pgn", 20, "mover")
    first = mine_recorded(archive, tmp_path / "a.db")
    with Store.open(tmp_path / "a.db", create=True) as store, KeyOracle() as oracle:
        again = mine([str(archive)], MineOptions(), store, KeyNet(), oracle)
    assert again.sampled == first.sampled
    with Store.open(tmp_path / "a.db") as store:
        recorded, searched = frame(store, Question(oracle="recorded")), frame(store, Question(oracle="key"))
        assert set(searched["position_id"]) <= set(recorded["position_id"])
        assert len(searched) > 10
        assert recorded["eval_cp"].tolist() == recorded["cp"].tolist()
        assert (recorded["depth"] >= 8).all()


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    archive = engine_games(tmp_path / "a.pgn", 60, "mover")
    paths, wanted = [str(archive)], RecordedOptions("cutechess")
    with Store.open(tmp_path / "a.db", create=True) as store:
        source, options = RecordedSource.of(wanted), MineOptions(limit=10)
        first = mine(paths, options, store, KeyNet(), source)
        assert (first.state, first.scored) == ("limited", 10)
        second = mine(paths, replace(options, limit=None), store, KeyNet(), source)
        assert (second.state, second.earlier) == ("finished", 10)
        assert second.scored == second.sampled == 60
        assert store.connection.execute("SELECT count(*) FROM runs").fetchone() == (1,)


def chunk_folder(path: Path, games: int) -> Path:
    path.mkdir()
    dice = random.Random(4)
    for number in range(games):
        moves: list[str] = []
        while len(moves) < 30:
            board = chess.Board()
            moves.clear()
            while len(moves) < 30 and any(board.legal_moves):
                moves.append(dice.choice(list(board.legal_moves)).uci())
                board.push_uci(moves[-1])
        q = np.linspace(-0.9, 0.9, len(moves))
        records = records_of(positions_of(moves), moves, orig_q=q, best_q=-q, orig_d=0.05, best_d=0.1, result_q=1)
        records["orig_q"][::3] = np.nan
        write_chunk(path / f"game_{number:06}.gz", records)
    return path


def test_chunks_bring_their_own_net_and_none_is_opened(tmp_path: Path) -> None:
    chunk_folder(tmp_path / "chunks", 12)
    done = here("mine", "chunks", "--deep", "recorded", "--positions", "9999", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "net: recorded in chunks on recorded" in done.stdout
    assert "deep: recorded chunks kind=chunks\n" in done.stdout
    assert "  120 no value of the net (NaN)" in done.stdout
    assert "depth not recorded; nodes 800 to 800, median 800" in done.stdout
    assert "deep Q from: the search's own Q" in done.stdout
    with Store.open(tmp_path / "valuerepair.db") as store:
        scored = frame(store)
    assert len(scored) > 150
    assert np.allclose(scored["net_q"], -scored["deep_q"])
    assert np.allclose(scored["net_w"] + scored["net_d"] + scored["net_l"], 1)
    assert scored["net_best"].isna().all()
    assert (scored["nodes"] == 800).all()
    assert set(scored["deep_w"] + scored["deep_d"] + scored["deep_l"]) == {1000}
    for row in scored.head(20).to_dict("records"):
        assert chess.Move.from_uci(row["deep_best"]) in chess.Board(row["fen"]).legal_moves
    again = here("mine", "chunks", "--deep", "recorded", "--positions", "9999", cwd=tmp_path)
    assert f"scored: {len(scored)} of {len(scored)}, 0 failed, {len(scored)} of them before" in again.stdout
    for command in (["stats"], ["plot", "-o", "a.svg"], ["books", "--threshold", "1.0"], ["export", "-o", "a.csv"]):
        follow = here(*command, cwd=tmp_path)
        assert follow.returncode == 0, follow.stderr


def test_two_sets_of_chunks_are_two_nets_unless_named_alike(tmp_path: Path) -> None:
    chunk_folder(tmp_path / "a", 3)
    chunk_folder(tmp_path / "b", 3)
    for archive, deep in (("a", "recorded"), ("b", "recorded"), ("a", "recorded:net=T80"), ("b", "recorded:net=T80")):
        assert here("mine", archive, "--deep", deep, cwd=tmp_path).returncode == 0
    with Store.open(tmp_path / "valuerepair.db") as store:
        assert [name for (name,) in store.connection.execute("SELECT name FROM nets ORDER BY id")] == [
            "recorded in a",
            "recorded in b",
            "recorded in T80",
        ]
        assert [judge.label for judge in judges(store)] == [f"recorded {n} kind=chunks" for n in ("a", "b", "T80")]
    wrong = here("mine", "a", "--deep", "recorded", "--net", "maia-1900", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "training chunks hold the values of their own net; name it: recorded:net=NAME" in wrong.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["mine", "games.pgn", "--deep", "recorded"], 1, "no recorded evaluation in the first 64 MiB"),
        (["mine", "-", "--deep", "recorded"], 2, "say what comes from standard input"),
        (["mine", "games.pgn", "--deep", "recorded:kind=dump"], 1, "2 no recorded evaluation"),
        (
            ["mine", "old", "--deep", "recorded"],
            1,
            "no training chunk of version 6 here: 1 x training data of version 5",
        ),
        (["mine", "games.pgn", "--deep", "recorded:kind=pgn"], 2, "give one of eval, cutechess"),
        (["eval", "startpos", "--deep", "recorded"], 2, "No such option"),
    ],
)
def test_errors_are_one_line(tmp_path: Path, shared_data: Path, arguments: list[str], code: int, said: str) -> None:
    random_games(tmp_path / "games.pgn", 2)
    (tmp_path / "old").mkdir()
    records = records_of(positions_of(["e2e4"]), ["e2e4"], version=5)
    write_chunk(tmp_path / "old" / "game_000000.gz", records)
    net = ["--net", str(shared_data / "nets" / "maia-1900.pb.gz")] if "games.pgn" in arguments else []
    done = here(*arguments, *net, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_dump_is_mined_with_a_net(tmp_path: Path, shared_data: Path) -> None:
    dice = random.Random(5)
    lines = []
    for _ in range(400):
        board = chess.Board()
        for _ in range(dice.randrange(10, 40)):
            board.push(dice.choice(list(board.legal_moves)))
        if not board.is_game_over():
            lean = sum(len(board.pieces(p, True)) - len(board.pieces(p, False)) for p in (1, 2, 3, 4, 5))
            score = {"cp": 300 * lean, "line": next(iter(board.legal_moves)).uci()}
            lines.append(json.dumps({"fen": board.epd(), "evals": [{"pvs": [score], "knodes": 7, "depth": 25}]}))
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    net = shared_data / "nets" / "maia-1900.pb.gz"
    done = here("mine", "a.jsonl", "--deep", "recorded", "--net", net, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "deep: recorded kind=dump" in done.stdout
    assert "depth 25 to 25, median 25; nodes 7,000 to 7,000, median 7,000" in done.stdout
    assert "warning" not in done.stdout
    # The same scores taken for the mover's: a dump has no results of games, but the net tells.
    done = here("mine", "a.jsonl", "--deep", "recorded:view=mover", "--net", net, "--db", "b.db", cwd=tmp_path)
    assert "contradict the net with Black to move" in done.stdout
    assert "recorded:view=white" in done.stdout


def test_a_run_loads_no_data_frames_before_it_needs_them() -> None:
    """A short import of training chunks would spend a quarter of its time on them."""
    code = "import sys, valuerepair.mining.mine\nprint('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
