"""An engine's own evaluation in the place of a net: values against python-chess's client, supervision, commands."""

from __future__ import annotations

import csv
import hashlib
import io
import math
import random
import sys
from pathlib import Path

import chess
import chess.engine
import numpy as np
import pytest
from click.testing import CliRunner, Result

from tests.mining_doubles import dump, random_games
from tests.test_mining_recorded import engine_games
from valuerepair.chess.positions import Position, PositionBatch, decode_move
from valuerepair.cli import cli
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.nets.registry import locate
from valuerepair.oracles.engine_net import is_engine, open_engine_net, open_evaluator, parse_engine_net
from valuerepair.play.lineup import parse_side
from valuerepair.store.rows import ENGINE_FILL
from valuerepair.store.store import Store

FAKE = f"uci:{sys.executable},arg=-I,arg=-S,arg={Path(__file__).with_name('fake_engine.py')}"


def games(count: int, plies: int = 40) -> list[Position]:
    """Ends of games of random moves, with their histories."""
    dice = random.Random(7)
    positions = []
    for _ in range(count):
        board = chess.Board()
        for _ in range(dice.randint(4, plies)):
            board.push(dice.choice(list(board.legal_moves)))
            if not any(board.legal_moves):
                board.pop()
                break
        positions.append(Position(board.fen(en_passant="legal"), moves=tuple(move.uci() for move in board.move_stack)))
    return positions


def test_values_are_those_that_the_engine_gives_another_client(stockfish: str) -> None:
    """As python-chess asks Stockfish, position by position; by alpha, by another alpha, and by W/D/L."""
    positions = games(40)
    batch = PositionBatch.from_positions(positions)
    with chess.engine.SimpleEngine.popen_uci(stockfish) as engine:
        engine.configure({"Hash": 1, "UCI_ShowWDL": True})
        infos = []
        for position in positions:
            board = chess.Board()
            for move in position.moves:
                board.push_uci(move)
            infos.append(engine.analyse(board, chess.engine.Limit(nodes=1), game=object()))
    for alpha in (170.0, 400.0):
        with open_engine_net(f"uci:{stockfish},nodes=1,alpha={alpha:g}", 2) as net:
            values = net.evaluate(batch)
        expected = [
            math.copysign(1, score.mate() or 0) if score.is_mate() else math.tanh((score.score() or 0) / (2 * alpha))
            for score in (info["score"].relative for info in infos)
        ]
        np.testing.assert_allclose(values.q, expected, atol=1e-6)
        assert np.isnan(values.wdl).all()
        assert [decode_move(move) for move in values.best_move.tolist()] == [str(info["pv"][0]) for info in infos]
    with open_engine_net(f"uci:{stockfish},alpha=wdl", 2) as net:
        values = net.evaluate(batch)
    expected_wdl = [list(info["wdl"].relative) for info in infos]
    np.testing.assert_allclose(1000 * values.wdl, expected_wdl, atol=1e-3)
    np.testing.assert_allclose(values.q, values.wdl[:, 0] - values.wdl[:, 2], atol=1e-6)
    assert 0 < np.abs(values.q).max() <= 1


def test_values_do_not_depend_on_order_or_company(stockfish: str) -> None:
    batch = PositionBatch.from_positions(games(24))
    back = np.arange(24)[::-1]
    with open_engine_net(f"uci:{stockfish}", 2) as net:
        together, reversed_ = net.evaluate(batch), net.evaluate(batch.take(back))
    assert together.q.tolist() == reversed_.q[back].tolist()


def test_an_identity_says_all_that_changes_values(stockfish: str) -> None:
    texts = ["", ",nodes=1", ",nodes=2", ",alpha=400", ",alpha=wdl", ",depth=1", ",option.Contempt=30"]
    keys, names = [], []
    for text in texts[:-1]:
        with open_engine_net(f"uci:{stockfish}{text}", 1) as net:
            keys.append(net.identity.key)
            names.append(net.identity.name.split(" ", 2)[2])
    assert names == ["nodes=1", "nodes=1", "nodes=2", "nodes=1 alpha=400", "nodes=1 alpha=wdl", "depth=1"]
    assert len(set(keys)) == len(keys) - 1
    with pytest.raises(UsageError, match=r"has no option 'NoSuch'"):
        open_engine_net(f"uci:{stockfish},option.NoSuch=1", 1)


def test_an_engine_that_crashes_is_restarted(tmp_path: Path, said: list[str]) -> None:
    """Once: the value is there. Always: that position has none and says why, the others have theirs."""
    board = chess.Board()
    for move in ("a2a3", "h7h6"):
        board.push_uci(move)
    batch = PositionBatch.from_positions([Position(chess.STARTING_FEN), Position(board.fen(), moves=("a2a3", "h7h6"))])
    with open_engine_net(f"{FAKE},arg=crash-once-on=h7h6,arg=mark={tmp_path / 'mark'}", 1) as net:
        whole = net.evaluate(batch)
    assert sum("restarted" in line for line in said) == 1
    with open_engine_net(f"{FAKE},arg=crash-on=h7h6", 2) as net:
        values, failed = net.answer(batch).result()
        assert list(failed) == [1]
        assert failed[1][1] == 3
        assert values.q.tolist() == whole.q[:1].tolist()
        with pytest.raises(ValueRepairError, match="has no value of rnbqkbnr/ppppppp1"):
            net.evaluate(batch)


_BARE = """
import sys
for line in sys.stdin:
    said = {"uci": "%suciok", "isready": "readyok", "go": "info depth 1 score cp 30\\nbestmove e2e4"}
    if line.split()[0] in said:
        print(said[line.split()[0]], flush=True)
"""


def test_w_d_l_must_be_given(tmp_path: Path) -> None:
    """By an engine that does not offer it, that is said at once; by one that does not keep its word, of a position."""
    batch = PositionBatch.from_positions([Position(chess.STARTING_FEN)])
    for offered in ("", "option name UCI_ShowWDL type check default false\\n"):
        (tmp_path / "bare.py").write_text(_BARE % offered)
        text = f"uci:{sys.executable},arg={tmp_path / 'bare.py'}"
        with open_engine_net(text, 1) as net:
            np.testing.assert_allclose(net.evaluate(batch).q, math.tanh(30 / 340), atol=1e-6)
        if not offered:
            with pytest.raises(UsageError, match="UCI_ShowWDL"):
                open_engine_net(f"{text},alpha=wdl", 1)
            continue
        with open_engine_net(f"{text},alpha=wdl", 1) as net:
            assert net.answer(batch).result()[1] == {0: ("the engine gave no W/D/L", 1)}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("uci:", "say which engine"),
        ("uci:nodes=1", "say which engine"),
        ("uci:x,movetime=10", "movetime"),
        ("uci:x,alpha=0", "alpha=0"),
        ("uci:x,alpha=q", "alpha=q"),
        ("uci:x,name=y", "name="),
        ("uci:x,depht=1", "depht"),
    ],
)
def test_what_is_wrong_with_a_text_is_said(text: str, words: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_engine_net(text)
    assert str(error.value).startswith(f"--net {text!r}: ")
    assert words in str(error.value)


def test_texts() -> None:
    plain, full = parse_engine_net("uci:x"), parse_engine_net("uci:./x,depth=3,alpha=wdl,hash=4,option.A=b\\,c")
    assert (plain.engine.limits, plain.engine.path, plain.alpha) == ({"nodes": 1}, "x", 170.0)
    assert (full.engine.limits, full.engine.options, full.alpha) == (
        {"depth": 3},
        {"UCI_ShowWDL": "true", "Hash": "4", "A": "b,c"},
        None,
    )
    assert [is_engine(net) for net in ("uci:x", "maia-1900", None)] == [True, False, False]
    with pytest.raises(UsageError, match="vr mine and vr remeasure"):
        locate("uci:x,nodes=1")
    with pytest.raises(UsageError, match="--device cuda"):
        open_evaluator(FAKE, 1, device="cuda")
    with pytest.raises(ValueRepairError, match="no such engine"):
        open_evaluator("uci:/nowhere/engine", 1)


def vr(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words))


def mine(folder: Path, engine: str) -> Result:
    net = ("--net", f"uci:{engine},nodes=1", "--deep", "stockfish:nodes=2000", "--jobs", "1", "--threshold", "0.05")
    return vr("mine", str(folder / "random.pgn"), *net, "--positions", "60", "--db", str(folder / "e.db"))


@pytest.fixture(scope="module")
def mined(tmp_path_factory: pytest.TempPathFactory, stockfish: str) -> Path:
    """A folder with a store of positions judged by Stockfish at one node and at 2,000."""
    folder = tmp_path_factory.mktemp("engine-net")
    random_games(folder / "random.pgn", 40)
    done = mine(folder, stockfish)
    assert done.exit_code == 0, done.output
    return folder


def test_mining_and_what_follows(mined: Path, stockfish: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store's commands take the engine for a net; again nothing is evaluated; what needs a net says so."""
    monkeypatch.chdir(mined)
    before = dump(mined / "e.db")
    assert mine(mined, stockfish).exit_code == 0
    assert dump(mined / "e.db") == before
    with Store.open(mined / "e.db") as store:
        frame = store.frame()
        [row] = store.nets().to_dict("records")
    assert (row["history_fill"], row["value_head"], row["evaluated"]) == (ENGINE_FILL, "scalar", 60)
    assert frame["net_q"].notna().all()
    net = f"--net uci:{stockfish},nodes=1"
    for call in (
        f"stats --labels --threshold 0.05 {net}",
        "show 1",
        f"export -o x.plain {net}",
        "similar 1",
        f"plot by-label --threshold 0.05 -o labels.png {net}",
        "store check",
    ):
        done = vr(*call.split(), "--db", "e.db")
        assert done.exit_code == 0, (call, done.output, done.exception)
        assert "(vr stats --labels)" not in done.output  # there is no policy to ask for
    assert "vr match" in vr("books", "--db", "e.db", "--threshold", "0.05", "-o", "b").output
    for call in ("expand --db e.db", f"eval {net} startpos", f"nets describe {net.split()[1]}"):
        done = vr(*call.split())
        assert isinstance(done.exception, UsageError), (call, done.output)
        assert "engine's" in str(done.exception)


def test_two_evaluations_are_compared(mined: Path, stockfish: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(mined)
    old, new = f"uci:{stockfish},nodes=1", f"uci:{stockfish},nodes=200"
    done = vr("remeasure", "--db", "e.db", "--net", old, "--net", new)
    assert done.exit_code == 0, done.output
    with Store.open(mined / "e.db") as store:
        nets = store.nets()
        assert len(nets) == 2
        assert nets["evaluated"].min() == len(store.frame())


def test_the_text_of_a_deep_search_is_no_net_but_names_the_engine(
    mined: Path, stockfish: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(mined)
    for text, meant in (("stockfish:nodes=1", "uci:stockfish,nodes=1"), ("stockfish", "uci:stockfish")):
        for call in (
            ("mine", "random.pgn", "--net", text, "--db", "x.db"),
            ("mine", "random.pgn", "--net", text, "--deep", "recorded:kind=eval", "--db", "x.db"),
            ("remeasure", "--db", "e.db", "--net", text, "--net", f"uci:{stockfish}"),
        ):
            done = vr(*call)
            assert isinstance(done.exception, UsageError), (call, done.output)
            assert str(done.exception).endswith(f"; did you mean {meant}?")
    for text in ("mcts:nodes=1", "ssh:host", "nosuch:nodes=1"):
        assert "did you mean" not in str(vr("mine", "random.pgn", "--net", text, "--db", "x.db").exception)


def test_a_comma_in_a_path_has_a_backslash(tmp_path: Path, stockfish: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for net, deep search and match side; without it the message says so."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a,b").mkdir()
    material_engine(tmp_path / "a,b" / "hobby")
    random_games(tmp_path / "games.pgn", 6)
    text = "uci:a\\,b/hobby,nodes=1"
    done = vr("mine", "games.pgn", "--net", text, "--deep", text, "--db", "a.db", "--jobs", "1")
    assert done.exit_code == 0, (done.output, done.exception)
    assert vr("stats", "--db", "a.db", "--net", text).exit_code == 0
    (tmp_path / "a,b").rename(tmp_path / "c")  # by its name
    assert vr("stats", "--db", "a.db", "--net", text).exit_code == 0
    (tmp_path / "c").rename(tmp_path / "a,b")
    for side in ("./a\\,b/hobby", "uci:a\\,b/hobby"):
        assert parse_side(side).path == side.replace("\\", "").removeprefix("uci:")
    for call in (
        ("mine", "games.pgn", "--net", "uci:a,b/hobby,nodes=1"),
        ("mine", "games.pgn", "--deep", "uci:a,b/hobby,nodes=1"),
        ("match", "./a,b/hobby", "stockfish", "--nodes", "1"),
    ):
        assert "'b/hobby' is not NAME=VALUE; a comma in a path or value is written \\,; " in str(vr(*call).exception)


def test_a_search_with_a_net_needs_one(mined: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(mined)
    done = vr("mine", "random.pgn", "--net", "uci:stockfish", "--deep", "mcts:nodes=10", "--db", "x.db")
    assert isinstance(done.exception, UsageError)
    assert "weights=" in str(done.exception)


# An engine that is no more than its name, its options and what it answers to `go`, in lines of Python.
_ENGINE = """#!{python} -I
import sys
import chess
WORTH = dict(zip(chess.PIECE_TYPES, (100, 300, 300, 500, 900, 0)))
for line in sys.stdin:
    words = line.split()
    if words[0] == "uci":
        print({about!r}, "uciok", sep="\\n", flush=True)
    elif words[0] == "isready":
        print("readyok", flush=True)
    elif words[0] == "position":
        start, _, moves = line.partition(" moves ")
        board = chess.Board() if words[1] == "startpos" else chess.Board(start.removeprefix("position fen ").strip())
        for move in moves.split():
            board.push(chess.Move.from_uci(move))  # several times faster than with a look at what is legal
    elif words[0] == "go":
{answer}
        print("bestmove", next(iter(board.legal_moves)), flush=True)
"""
_MATERIAL = """
        score = sum(WORTH[man.piece_type] * (1 if man.color else -1) for man in board.piece_map().values())
        if not {white_view} and not board.turn:
            score = -score
        if {scores_in_check} or not board.is_check():
            print("info depth 1 score cp", score)
"""


def write_engine(file: Path, about: str, answer: str) -> str:
    file.write_text(_ENGINE.format(python=sys.executable, about=about, answer=answer))
    file.chmod(0o755)
    return str(file)


def build(folder: Path, score: int) -> str:
    """An engine with an evaluation in a file of its folder, as its author builds it again and again."""
    folder.mkdir(exist_ok=True)
    about = "id name Foo 3.1-dev\noption name EvalFile type string default own.nnue"
    return write_engine(folder / "foo", about, f'        print("info depth 1 score cp {score}")')


def material_engine(file: Path, *, white_view: bool = False, scores_in_check: bool = True) -> str:
    """An engine that counts material; from White's view, or without a score where the side to move is in check."""
    answer = _MATERIAL.format(white_view=white_view, scores_in_check=scores_in_check)
    return write_engine(file, "id name Hobby 1.0", answer)


def warnings_of(done: Result) -> list[str]:
    """The warnings; what they warn of is no ground for a next command."""
    assert done.exit_code == 0, (done.output, done.exception)
    lines = done.output.splitlines()
    warnings = [line for line in lines if line.startswith("warning: ")]
    assert any(line.startswith(("next: ", "no candidates at ")) for line in lines) == (not warnings)
    return warnings


def test_an_engine_that_scores_from_whites_view_is_told(tmp_path: Path, stockfish: str) -> None:
    """As net and as deep search, also by a ladder; as both it shows by the results of the games alone."""
    right = material_engine(tmp_path / "right")
    white = material_engine(tmp_path / "white", white_view=True)
    games = str(engine_games(tmp_path / "games.pgn", 90, "mover"))

    def told(net: str, deep: str, *more: str) -> list[str]:
        db = tmp_path / f"{len(list(tmp_path.iterdir()))}.db"
        common = ("--db", str(db), "--per-game", "2", "--jobs", "1")
        return warnings_of(vr("mine", games, "--net", net, "--deep", deep, *common, *more))

    as_net, as_deep = f"uci:{white},alpha=400", f"uci:{white},nodes=10"
    [warning] = told(as_net, "stockfish:nodes=500", "--screen", "off")
    assert warning.startswith(
        "warning: where Black is to move the scores of the net (hobby 1.0 nodes=1 alpha=400) do not agree with the "
        "results of the games (correlation -"
    )
    assert warning.endswith(
        "; the engine seems to score from White's view, but a UCI score is from the side to move: correct that and "
        "mine again"
    )
    [warning] = told(f"uci:{stockfish}", as_deep, "--screen", "off")
    assert (
        "Black is to move the scores of the deep search (hobby 1.0 nodes=10) do not agree with the results" in warning
    )
    both = told(as_net, as_deep, "--screen", "off")
    assert ["deep search" in warning for warning in both] == [False, True]
    assert not told(f"uci:{right},alpha=400", f"uci:{right},nodes=10", "--screen", "off")
    # Without results one goes by the other; what a ladder searches to the end are the positions where the two differ.
    random_games(Path(games), 120)
    [warning] = told(as_net, "stockfish:nodes=2000", "--screen", "100,400")
    assert "do not agree with the deep search (stockfish" in warning
    assert not told(f"uci:{right},alpha=400", "stockfish:nodes=2000", "--screen", "100,400")
    [warning] = told(as_net, f"uci:{right},nodes=10", "--screen", "off")
    assert "; one of the two engines seems to score from White's view" in warning


def test_positions_that_the_engine_fails_on_are_told(tmp_path: Path, said: list[str]) -> None:
    """While it runs with the FEN, at the end with what helps, by the store's statistics and the position itself."""
    engine = material_engine(tmp_path / "hobby", scores_in_check=False)
    archive, db = random_games(tmp_path / "games.pgn", 120), str(tmp_path / "a.db")
    options = ("--deep", "stockfish:nodes=100", "--screen", "off", "--db", db, "--positions", "120", "--jobs", "1")
    done = vr("mine", str(archive), "--net", f"uci:{engine}", *options)
    assert done.exit_code == 0, (done.output, done.exception)
    with Store.open(db) as store:
        query = "SELECT p.id, p.fen FROM failures f JOIN positions p ON p.id = f.position_id ORDER BY p.id"
        failed = store.connection.execute(query).fetchall()
    assert failed
    assert all(chess.Board(fen).is_check() for _, fen in failed)
    number, fen = failed[0]
    why = "gave a best move without a score"
    assert f"Hobby 1.0 {why}; restarted (position {fen})" in said
    failures = f"the net failed on {len(failed)} positions (first {number}, {fen}): {why}; every one is in check: "
    assert f"{failures}vr mine --no-check draws no such positions\n" in done.output
    assert f"evaluated, {len(failed)} failed\n" in vr("stats", "--db", db).output
    assert f"net       failed: {why}\n" in vr("show", str(number), "--db", db).output
    again = vr("mine", str(archive), "--net", f"uci:{engine}", *options, "--no-check")
    assert "the net failed" not in again.output


def key_of(text: str) -> tuple[str, str]:
    with open_engine_net(text, 1) as net:
        return net.identity.name, net.identity.key


def test_an_evaluation_in_a_file_is_known_by_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given by an option, beside the engine as its default, or the program that an interpreter runs."""
    monkeypatch.chdir(tmp_path)
    engine, net = build(tmp_path / "eng", 0), tmp_path / "eng" / "own.nnue"
    texts = [f"uci:{engine},option.EvalFile=eng/own.nnue", f"uci:{engine}", f"uci:{sys.executable},arg={engine}"]
    seen = []
    for content in (b"a", b"b", b"a"):
        net.write_bytes(content)
        seen.append([key_of(text) for text in texts[:2]])
    assert seen[0] == seen[2]
    digest = hashlib.sha256(b"b").hexdigest()[:12]
    assert [name for name, _ in seen[1]] == [f"foo 3.1-dev nodes=1 EvalFile=own.nnue#{digest}"] * 2
    assert all(first[1] != second[1] for first, second in zip(*seen[:2], strict=True))
    named = net.rename(net.with_name(f"nn-{digest[:12]}.nnue"))
    named.write_bytes(b"b")
    assert key_of(f"uci:{engine},option.EvalFile={named.name}")[0] == f"foo 3.1-dev nodes=1 EvalFile={named.name}"
    before = key_of(texts[2])
    build(tmp_path / "eng", 1)
    assert (key_of(texts[2])[0], key_of(texts[2])[1] != before[1]) == (before[0], True)


def test_builds_of_one_name_are_told_apart(mined: Path, stockfish: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what they are, while they are there; by their SHA-256, when they are not; never by chance."""
    monkeypatch.chdir(mined)
    nets = [f"uci:{build(mined / name, score)},nodes=1" for name, score in (("old", -300), ("new", 300))]
    for net in nets:
        done = vr("remeasure", "--db", "e.db", "--net", net, "--net", f"uci:{stockfish},nodes=1")
        assert done.exit_code == 0, done.output
    for net, sign in zip(nets, (-1, 1), strict=True):
        done = vr("export", "--db", "e.db", "--format", "csv", "--net", net)
        assert done.exit_code == 0, done.output
        values = [float(row["net_q"]) for row in csv.DictReader(io.StringIO(done.stdout))]
        np.testing.assert_allclose(values, sign * math.tanh(300 / 340), atol=1e-6)
    with Store.open(mined / "e.db") as store:
        keys = store.nets().query("name.str.startswith('foo')")["sha256"].tolist()
    by_name = vr("stats", "--db", "e.db", "--net", "foo 3.1-dev nodes=1")
    [taken] = [key for key in keys if f"foo 3.1-dev nodes=1 ({key[:12]}) against stockfish" in by_name.output]
    [other] = [key for key in keys if key != taken]
    remark = f"fits 2 nets; foo 3.1-dev nodes=1 ({taken[:12]}) is used, the others have the SHA-256 {other[:12]}\n"
    assert f"--net foo 3.1-dev nodes=1 {remark}" in by_name.output
    for words in (other[:12], f"foo 3.1-dev nodes=1 ({other[:12]})"):
        by_digest = vr("stats", "--db", "e.db", "--net", words).output
        assert f"foo 3.1-dev nodes=1 ({other[:12]}) against stockfish" in by_digest
        assert "fits" not in by_digest
    assert f"net       foo 3.1-dev nodes=1 ({other[:12]}): Q" in vr("show", "1", "--db", "e.db", "--net", other).output
    both = vr("remeasure", "--db", "e.db", "--net", nets[0], "--net", nets[1]).output
    assert all(f"foo 3.1-dev nodes=1 ({key[:12]})" in both for key in keys)
    assert "stockfish 15.1 nodes=1 against" in vr("stats", "--db", "e.db", "--net", f"uci:{stockfish},nodes=1").output
    build(mined / "new", 77)
    stale = vr("stats", "--db", "e.db", "--net", nets[1])
    assert "has no values of this version of" in str(stale.exception)
    (mined / "new" / "foo").unlink()
    several = vr("stats", "--db", "e.db", "--net", nets[1])
    assert isinstance(several.exception, UsageError)
    assert f"{nets[1]}: no such engine; it may be any of these in e.db: " in str(several.exception)
    assert all(f"foo 3.1-dev nodes=1 ({key[:12]})" in str(several.exception) for key in keys)
    gone = vr("stats", "--db", "e.db", "--net", "uci:./bar 2.0,nodes=1")
    assert "--net uci:./bar 2.0,nodes=1: no such engine, and no net of that name in e.db; it has foo" in str(
        gone.exception
    )
    assert all(key[:12] in str(gone.exception) for key in keys)


def test_positions_without_a_value_are_left_out_of_a_comparison(
    mined: Path, stockfish: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    monkeypatch.chdir(mined)
    with Store.open("e.db") as store:
        in_check = sum(chess.Board(fen).is_check() for fen in store.frame()["fen"])
    hobby = material_engine(tmp_path / "hobby", scores_in_check=False)
    done = vr("remeasure", "--db", "e.db", "--net", f"uci:{stockfish},nodes=1", "--net", f"uci:{hobby}")
    assert done.exit_code == 0, done.output
    assert in_check
    assert any(f"has no value of {in_check} positions, the first of them" in line for line in said)
