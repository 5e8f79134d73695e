"""Recorded evaluations as oracles: identities, what is said of them, and whole runs of `vr mine --deep recorded`."""

from __future__ import annotations

import json
import random
import sqlite3
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
from valuerepair.archives import SampleOptions
from valuerepair.archives.recorded_options import RecordedOptions
from valuerepair.deep import DeepFailure, DeepResult, parse_spec
from valuerepair.deep.recorded import (
    RecordedNet,
    RecordedOracle,
    chunk_net_name,
    identity_of,
    recorded_options,
    result_of,
)
from valuerepair.errors import UsageError
from valuerepair.mining import MineOptions, MineSummary, mine
from valuerepair.mining.opening import open_evaluators
from valuerepair.mining.recorded import agreement, point_of_view
from valuerepair.positions import Origin, Position, PositionBatch, Recorded
from valuerepair.store import Store, schema


def vr(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "valuerepair", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False, timeout=240)


# -- identities and settings ------------------------------------------------------------------------------------------


def test_what_changes_values_makes_another_oracle() -> None:
    options = [
        RecordedOptions("eval"),
        RecordedOptions("eval", depth=False),
        RecordedOptions("eval", min_depth=20),
        RecordedOptions("eval", view="mover"),
        RecordedOptions("cutechess"),
        RecordedOptions("cutechess", by="Leela"),
        RecordedOptions("dump", min_nodes=1000),
    ]
    assert len({identity_of(each).digest for each in options}) == len(options)
    # What is so anyway, or follows from the archive, does not.
    by_depth = identity_of(RecordedOptions("eval", view="white", depth=True))
    assert by_depth.label == "recorded kind=eval"
    assert identity_of(RecordedOptions("eval", depth=True)).digest == by_depth.digest
    assert identity_of(RecordedOptions("cutechess", depth=True)).digest == identity_of(options[4]).digest
    # With and without depth together, from standard input, is neither.
    assert identity_of(options[0]).label == "recorded kind=eval depth=any"
    assert identity_of(options[5]).label == "recorded kind=cutechess by=Leela"
    assert identity_of(options[2]).label == "recorded min-depth=20 kind=eval"
    chunks = RecordedOptions("chunks")
    assert identity_of(chunks, "a.tar").digest != identity_of(chunks, "b.tar").digest
    assert identity_of(chunks, "T80").label == "recorded T80 kind=chunks"


def test_chunks_of_one_net_belong_together_only_when_that_is_said() -> None:
    assert chunk_net_name(["/data/a.tar"], {}) == "a.tar"
    assert chunk_net_name(["x/a", "b.tar", "c", "d", "e"], {}) == "a, b.tar, c and 2 more"
    assert chunk_net_name(["/data/a.tar"], {"net": "T80"}) == "T80"
    names = {"a.tar", "b.tar", "T80"}
    assert len({RecordedNet(name).identity.sha256 for name in names}) == 3
    assert RecordedNet("T80").identity.name == "recorded in T80"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("recorded:kind=lichess", "kind=lichess: give one of eval, cutechess, tcec, epd, dump, chunks"),
        ("recorded:view=black", "view=black: give one of white, mover"),
        ("recorded:min-depth=0", "min-depth=0: must be a whole number of at least 1"),
        ("recorded:knid=eval", "no setting 'knid' of recorded; did you mean kind?"),
        ("recorded:kind", "'kind' is not NAME=VALUE"),
    ],
)
def test_settings_are_checked_when_they_are_read(text: str, message: str) -> None:
    with pytest.raises(UsageError) as wrong:
        parse_spec(text)
    assert message in str(wrong.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("recorded:kind=chunks,view=white", "training chunks are the mover's view and have no depth"),
        ("recorded:kind=chunks,min-depth=3", "training chunks are the mover's view and have no depth"),
        ("recorded:kind=dump,net=T80", "net= names the net of training chunks; for dump give --net"),
        ("recorded:kind=eval,by=x", "only cutechess and tcec comments say which player evaluated"),
    ],
)
def test_settings_that_make_no_sense_together(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        recorded_options(parse_spec(text), ["-"])


def test_a_given_kind_is_taken_without_a_look_at_the_archives() -> None:
    said: list[str] = []
    options = recorded_options(parse_spec("recorded:kind=tcec,min-nodes=10k,by=LCZero"), ["-"], said.append)
    assert options == RecordedOptions("tcec", min_nodes=10_000, by="LCZero")
    assert said == [
        "deep values: recorded ones, {d=16, ..., wv=0.43, ...} comments of PGN files, as TCEC writes them; "
        "nothing is searched"
    ]


EVALS = "1. e4 {[%eval 0.2]} e5 {[%eval 0.3,20]} 2. Nf3 {[%eval 0.1]} Nc6 {[%eval 0.4,18]} 3. Bb5"


def test_evaluations_with_and_without_depth_are_never_one_oracle_unsaid(tmp_path: Path) -> None:
    path = tmp_path / "a.pgn"
    path.write_text(f'[Result "*"]\n\n{EVALS} *\n')
    for text in ("recorded", "recorded:kind=eval"):
        said: list[str] = []
        assert recorded_options(parse_spec(text), [str(path)], said.append) == RecordedOptions("eval", depth=False)
        assert said[-1].startswith("these evaluations have no depth: how deep they looked is not known")
    both = RecordedOptions("eval")
    with Store.open(tmp_path / "a.db", create=True) as store:
        options = MineOptions(sample=SampleOptions(per_game=None, min_ply=0, recorded=both))
        done = mine([str(path)], options, store, KeyNet(), RecordedOracle(identity_of(both), "eval"))
    assert done.remarks == [
        "recorded evaluations: depth 18 to 20, median 19 (2 do not say); nodes not recorded",
        "warning: 2 of 4 evaluations do not say how deep they looked and are in one oracle with the others; "
        "recorded:min-depth=1 leaves them out",
    ]


def test_the_oracle_hands_out_what_positions_bring() -> None:
    recorded = Recorded("eval", cp=31, depth=20, nodes=5, best_move="e2e4", pv=("e2e4",))
    position = Position(chess.STARTING_FEN, origin=Origin(recorded=recorded))
    with RecordedOracle(identity_of(RecordedOptions("eval")), "eval") as oracle:
        outcome = oracle.submit(position).result()
        assert outcome == DeepResult(cp=31, depth=20, nodes=5, best_move="e2e4", pv=("e2e4",))
        for other in (None, replace(recorded, kind="tcec")):
            outcome = oracle.submit(replace(position, origin=Origin(recorded=other))).result()
            assert outcome == DeepFailure("no recorded evaluation", 0)
    assert result_of(Recorded("epd", cp=900, mate=3)) == DeepResult(mate=3)


def test_the_recorded_net_gives_what_the_records_say() -> None:
    origins = [Origin(recorded=Recorded("chunks", q=0.1, net_q=0.5, net_d=0.3)), Origin(recorded=Recorded("chunks"))]
    batch = PositionBatch.from_positions([Position(chess.STARTING_FEN, origin=o) for o in origins])
    values = RecordedNet("x").evaluate(batch)
    assert values.q.tolist()[0] == 0.5
    assert values.wdl[0].tolist() == pytest.approx([0.6, 0.3, 0.1])
    assert np.isnan(values.q[1])
    assert values.best_move.tolist() == [0, 0]
    assert np.isnan(values.entropy).all()


# -- the point of view ------------------------------------------------------------------------------------------------


def test_agreement_is_pearsons_correlation_with_fishers_interval() -> None:
    dice = np.random.default_rng(0)
    x = dice.normal(size=400)
    y = 0.5 * x + dice.normal(size=400)
    y[:10] = np.nan
    found = agreement(x, y)
    r = np.corrcoef(x[10:], y[10:])[0, 1]
    assert found.n == 390
    assert found.r == pytest.approx(r)
    assert found.high == pytest.approx(np.tanh(np.arctanh(r) + 1.96 / np.sqrt(387)))
    assert not found.none
    assert agreement(x, -y).none
    assert agreement(x, dice.normal(size=400)).none
    assert not agreement(x[:99], -x[:99]).none
    assert not agreement(x, np.zeros(400)).none


@pytest.mark.parametrize("noise", [0.5, 2.0])
def test_the_wrong_view_shows_by_side(noise: float) -> None:
    dice = np.random.default_rng(1)
    n = 1200
    white = np.arange(n) % 2 == 0
    truth = dice.normal(size=n)
    results = np.sign(np.round(truth + noise * dice.normal(size=n)))
    q = np.tanh(truth)
    assert point_of_view(white, q, results, "the results", "mover") is None
    turned = np.where(white, q, -q)
    warning = point_of_view(white, turned, results, "the results", "mover")
    assert warning is not None
    assert warning.startswith("warning: where Black is to move the recorded evaluations do not go with the results")
    assert warning.endswith("they seem to be written from White's view: recorded:view=white")
    warning = point_of_view(white, turned, results, "the results", "white")
    assert warning is not None
    assert warning.endswith("they seem to be written from the mover's view: recorded:view=mover")
    warning = point_of_view(white, -q, results, "the net", "white")
    assert warning is not None
    assert "do not go with the net (correlation -0." in warning
    assert warning.endswith("they are of other positions, or from the other side's view")
    warning = point_of_view(white, -turned, results, "the results", "mover")
    assert warning is not None
    assert warning.endswith("they may be written from Black's view")


# -- whole runs -------------------------------------------------------------------------------------------------------


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


def mine_recorded(archive: Path, db: Path, deep: str = "recorded", **sample: Any) -> MineSummary:
    """Mines recorded evaluations with the stand-in net."""
    paths, spec = [str(archive)], parse_spec(deep)
    wanted = recorded_options(spec, paths)
    options = MineOptions(sample=SampleOptions(recorded=wanted, **sample))
    with Store.open(db, create=True) as store:
        return mine(paths, options, store, KeyNet(), RecordedOracle(identity_of(wanted), wanted.kind))


def test_engine_comments_are_mined_and_a_wrong_view_is_told(tmp_path: Path) -> None:
    right = mine_recorded(engine_games(tmp_path / "a.pgn", 300, "mover"), tmp_path / "a.db", per_game=2)
    assert right.scored == right.sampled > 500
    assert right.failed == 0
    assert "recorded evaluations: depth 8 to 12, median 10; nodes not recorded" in right.remarks
    # KeyNet's values are noise, so that evaluations do not go with it; with the results they do.
    warnings = [line for line in right.remarks if line.startswith("warning: ")]
    assert warnings[0].startswith("warning: evaluations by 3 players (B, W0, W1) are in one oracle")
    assert "do not go with the net" in warnings[1]
    wrong = mine_recorded(engine_games(tmp_path / "b.pgn", 300, "white"), tmp_path / "b.db", per_game=2)
    assert any("do not go with the results of the games" in line for line in wrong.remarks)
    assert wrong.remarks[-1].endswith("recorded:view=white")
    mended = mine_recorded(tmp_path / "b.pgn", tmp_path / "b.db", "recorded:view=white,by=b", per_game=2)
    assert not any("results" in line or "players" in line for line in mended.remarks)
    assert mended.report.rejected_positions["evaluation by another player"] > 1000
    with Store.open(tmp_path / "b.db") as store:
        labels = store.oracles()["label"].tolist()
        assert labels == ["recorded kind=cutechess", "recorded kind=cutechess view=white by=b"]
        assert set(store.frame(oracle="recorded:by=b")["side"]) == {"b"}


def test_the_store_holds_a_recorded_and_a_searched_value_of_one_position(tmp_path: Path) -> None:
    archive = engine_games(tmp_path / "a.pgn", 20, "mover")
    first = mine_recorded(archive, tmp_path / "a.db")
    with Store.open(tmp_path / "a.db", create=True) as store, KeyOracle() as oracle:
        again = mine([str(archive)], MineOptions(), store, KeyNet(), oracle)
    assert again.sampled == first.sampled
    with Store.open(tmp_path / "a.db") as store:
        recorded, searched = store.frame(oracle="recorded"), store.frame(oracle="key")
        assert set(searched["position_id"]) <= set(recorded["position_id"])
        assert len(searched) > 10
        assert recorded["eval_cp"].tolist() == recorded["cp"].tolist()
        assert (recorded["depth"] >= 8).all()


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    archive = engine_games(tmp_path / "a.pgn", 60, "mover")
    paths, wanted = [str(archive)], RecordedOptions("cutechess")
    with Store.open(tmp_path / "a.db", create=True) as store:
        oracle = RecordedOracle(identity_of(wanted), wanted.kind)
        options = MineOptions(sample=SampleOptions(recorded=wanted), limit=10)
        first = mine(paths, options, store, KeyNet(), oracle)
        assert (first.state, first.scored) == ("limited", 10)
        second = mine(paths, replace(options, limit=None), store, KeyNet(), oracle)
        assert (second.state, second.earlier) == ("finished", 10)
        assert second.scored == second.sampled == 60
        assert second.run_id == first.run_id


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
    done = vr("mine", "chunks", "--deep", "recorded", "--per-game", "50", "--min-ply", "0", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "net: recorded in chunks on recorded" in done.stdout
    assert "deep: recorded chunks kind=chunks\n" in done.stdout
    assert "  120 no value of the net (NaN)" in done.stdout
    assert "depth not recorded; nodes 800 to 800, median 800" in done.stdout
    assert "deep Q from: the search's own Q" in done.stdout
    with Store.open(tmp_path / "valuerepair.db") as store:
        frame = store.frame()
    assert len(frame) > 200
    assert np.allclose(frame["net_q"], -frame["deep_q"])
    assert np.allclose(frame["net_w"] + frame["net_d"] + frame["net_l"], 1)
    assert frame["net_best"].isna().all()
    assert frame["net_entropy"].isna().all()
    assert (frame["nodes"] == 800).all()
    assert set(frame["deep_w"] + frame["deep_d"] + frame["deep_l"]) == {1000}
    for row in frame.head(20).to_dict("records"):
        assert chess.Move.from_uci(row["deep_best"]) in chess.Board(row["fen"]).legal_moves
    again = vr("mine", "chunks", "--deep", "recorded", "--per-game", "50", "--min-ply", "0", cwd=tmp_path)
    assert f"scored: {len(frame)} of {len(frame)}, 0 failed, {len(frame)} of them before" in again.stdout
    for command in (["stats"], ["plot", "-o", "a.svg"], ["books", "--threshold", "1.0"], ["export", "-o", "a.csv"]):
        follow = vr(*command, cwd=tmp_path)
        assert follow.returncode == 0, follow.stderr


def test_two_sets_of_chunks_are_two_nets_unless_named_alike(tmp_path: Path) -> None:
    chunk_folder(tmp_path / "a", 3)
    chunk_folder(tmp_path / "b", 3)
    for archive, deep in (("a", "recorded"), ("b", "recorded"), ("a", "recorded:net=T80"), ("b", "recorded:net=T80")):
        assert vr("mine", archive, "--deep", deep, cwd=tmp_path).returncode == 0
    with Store.open(tmp_path / "valuerepair.db") as store:
        assert store.nets()["name"].tolist() == ["recorded in a", "recorded in b", "recorded in T80"]
        assert store.oracles()["label"].tolist() == [f"recorded {n} kind=chunks" for n in ("a", "b", "T80")]
    wrong = vr("mine", "a", "--deep", "recorded", "--net", "maia-1900", cwd=tmp_path)
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
        (["search", "startpos", "--deep", "recorded"], 2, "No such option"),
    ],
)
def test_errors_are_one_line(tmp_path: Path, shared_data: Path, arguments: list[str], code: int, said: str) -> None:
    random_games(tmp_path / "games.pgn", 2)
    (tmp_path / "old").mkdir()
    records = records_of(positions_of(["e2e4"]), ["e2e4"], version=5)
    write_chunk(tmp_path / "old" / "game_000000.gz", records)
    net = ["--net", str(shared_data / "nets" / "maia-1900.pb.gz")] if "games.pgn" in arguments else []
    done = vr(*arguments, *net, cwd=tmp_path)
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
    done = vr("mine", "a.jsonl", "--deep", "recorded", "--net", net, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "deep: recorded kind=dump" in done.stdout
    assert "depth 25 to 25, median 25; nodes 7,000 to 7,000, median 7,000" in done.stdout
    assert "warning" not in done.stdout
    # The same scores taken for the mover's do not go with the net where Black is to move.
    done = vr("mine", "a.jsonl", "--deep", "recorded:view=mover", "--net", net, "--db", "b.db", cwd=tmp_path)
    assert "where Black is to move the recorded evaluations do not go with the net" in done.stdout
    assert "recorded:view=white" in done.stdout


def test_evaluators_are_opened_for_searching_too(tmp_path: Path, shared_data: Path, stockfish: str) -> None:
    net = str(shared_data / "nets" / "maia-1900.pb.gz")
    sample = SampleOptions()
    with open_evaluators(["x"], sample, "stockfish:nodes=100", net, workers=1) as opened:
        assert opened.sample is sample
        assert opened.oracle.identity.kind == "stockfish"
        assert opened.net.identity.name == "maia-1900"


def test_an_older_store_learns_that_policies_may_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    connection = sqlite3.connect(path)
    connection.executescript(
        f"{schema.MIGRATIONS[0]} PRAGMA application_id = {schema.APPLICATION_ID}; PRAGMA user_version = 1;"
        "INSERT INTO runs VALUES (1, 'i', 'c', '{}', 0, '{}', 't', NULL, 'finished', '{}');"
        "INSERT INTO games VALUES (1, 's', 1, 1, 0, NULL, NULL, NULL, NULL, NULL, '{}');"
        "INSERT INTO positions VALUES (1, 5, 'f', 's', x'', 1, 0, 'w', 'opening', 32, 1, NULL, NULL, NULL, 1);"
        "INSERT INTO nets VALUES (1, 'n', 'h', 'fen_only', 'wdl', 1, 9);"
        "INSERT INTO net_values VALUES (1, 1, 0.5, 0.6, 0.3, 0.1, 796, 0.25, 1.5, NULL, 1);"
    )
    connection.close()
    with Store.open(path, write=True) as store:
        assert store.connection.execute("SELECT * FROM net_values").fetchall() == [
            (1, 1, 0.5, 0.6, 0.3, 0.1, 796, 0.25, 1.5, None, 1)
        ]
        store.connection.execute("INSERT INTO nets VALUES (2, 'm', 'g', 'recorded', 'wdl', 1, 0)")
        store.connection.execute("INSERT INTO net_values VALUES (2, 1, 0.5, 0.6, 0.3, 0.1, NULL, NULL, NULL, NULL, 1)")
