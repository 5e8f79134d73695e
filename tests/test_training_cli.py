"""`vr train` from end to end with real nets: what is written is what was trained, and what was wrong is said."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")
pytest.importorskip("optax")

from valuerepair.training.drawing import is_held

import valuerepair
from tests import random_nets
from tests.chunk_games import GAME
from tests.cli_tree import SAMPLE, vr
from tests.test_docs_formats import rows
from tests.training_doubles import InMemory, learn, positions, store_beside_games, store_source
from tests.v6_records import positions_of, records_of, write_chunk
from valuerepair.chess.values import DEFAULT_ALPHA
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.judge.split import keys_of_games
from valuerepair.nets.conversion import to_onnx
from valuerepair.nets.devices import Heads
from valuerepair.nets.net import describe_net
from valuerepair.nets.planes import unpack_masks
from valuerepair.nets.session import Session
from valuerepair.nets.weights import read_net_file
from valuerepair.question import Question
from valuerepair.store.store import Store
from valuerepair.training import train as training
from valuerepair.training.fit import fit
from valuerepair.training.graph import NetGraph
from valuerepair.training.learner import Learner
from valuerepair.training.losses import LossWeights
from valuerepair.training.options import TrainOptions
from valuerepair.training.sources import TrainingStream
from valuerepair.training.train import read_curve

Captured = pytest.CaptureFixture[str]
# Kinds of nets with each kind of body and embedding; the others are slow tests.
EACH_BODY = ("se-convolution-policy", "map-smolgen", "dense-heads")
QUICK = ["--only", "value", "--steps", "6", "--set", "batch=64", "--set", "warmup=0", "--set", "every=3"]
STORE = ["--store", str(SAMPLE), "--threshold", "0.3"]


def train(net: str, out: Path, captured: Captured, *words: str) -> tuple[int, str, str]:
    return vr(["train", "--net", net, "-o", str(out), *words], captured)


@pytest.fixture(scope="module")
def chunks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve games that all go the same way; whoever moves wins. No test changes them."""
    folder = tmp_path_factory.mktemp("chunks")
    for game in range(12):
        write_chunk(folder / f"{game}.gz", records_of(positions_of(GAME), GAME, result_q=1.0, visits=100 + game))
    return folder


@pytest.fixture
def small(tmp_path: Path) -> str:
    """A net that is quickly compiled, where it matters not which."""
    return str(random_nets.write(replace(random_nets.BY_NAME["se-dense-policy"], blocks=1), tmp_path / "small.pb.gz"))


# -- from end to end --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(maia_file: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A new net, and its curve as Python has it."""
    out = tmp_path_factory.mktemp("trained") / "new.pb.gz"
    options = valuerepair.TrainOptions(only="value", steps=20, batch=64, warmup=0, lr=1e-3, every=10, holdout=0.4)
    curve = valuerepair.train(maia_file, out, store=SAMPLE, question=Question(threshold=0.3), options=options).curve
    return out, curve


def stored_alpha() -> float:
    """The alpha by which all commands read the sample."""
    with closing(sqlite3.connect(f"file:{SAMPLE}?mode=ro", uri=True)) as sql:
        return float(sql.execute("SELECT alpha FROM alpha_fits").fetchone()[0])


def test_what_is_written_says_what_was_measured(trained: tuple[Path, Any], maia_file: str) -> None:
    """The new file, read by lc0's converter and ONNX Runtime, on the held-out positions of the store."""
    out, curve = trained
    usual = Question(threshold=0.3, alpha=stored_alpha())
    source = store_source(SAMPLE, replace(usual, net=maia_file), share=0.1, holdout=0.4, seed=0)
    assert curve.attrs["options"]["alpha"] == stored_alpha()
    with valuerepair.open_store(SAMPLE) as store:
        frame = store.frame(usual, cut=True).set_index("position_id").loc[source.draw.ids[source.draw.held_out]]
    assert 0.4 < frame["rung"].notna().mean() < 1
    # All that was sampled is there: each position stands for itself.
    weight, written = np.ones(len(frame)), curve.attrs["written"]
    judged = curve.set_index("step")
    amplitude = curve.attrs["amplitude"]
    for net, measures in ((maia_file, judged.loc[0]), (str(out), amplitude["measures"])):
        off = (valuerepair.evaluate(frame, net)["q"] - frame["deep_q"]).abs()
        assert np.average(off, weights=weight) == pytest.approx(measures["mean_dq"], abs=2e-4)
        assert np.average(off >= 0.3, weights=weight) == pytest.approx(measures["rate"], abs=0.01)
    assert 0 < amplitude["lambda"] <= 2
    assert amplitude["measures"]["loss"] <= judged.loc[written["step"], "loss"]
    assert written["step"] > 0
    assert 0 < written["q"] < 5e-3
    assert judged.loc[written["step"], "loss"] < judged.loc[0, "loss"]
    assert judged.loc[written["step"], "mean_dq"] < judged.loc[0, "mean_dq"]
    assert curve["top_1"].tolist() == [1.0] * len(curve)


def test_only_the_value_head_is_another(trained: tuple[Path, Any], maia_file: str) -> None:
    out, _ = trained
    old, new = NetGraph.open(maia_file), NetGraph.open(out)
    changed = {name for name in old.parameters if not np.array_equal(old.parameters[name], new.parameters[name])}
    assert changed <= old.of_head("value")
    assert changed


def test_the_net_tells_of_its_training_and_its_curve_is_drawn(
    trained: tuple[Path, Any], tmp_path: Path, capsys: Captured
) -> None:
    out, curve = trained
    described = "\n".join(describe_net(out).lines())
    assert f"{curve.attrs['written']['step']} steps" in described
    assert f", lambda {curve.attrs['amplitude']['lambda']:g}" in described
    lines = "\n".join(read_curve(out).lines())
    assert f"amplitude: lambda {curve.attrs['amplitude']['lambda']:.2f} on the games held out; by Q it would" in lines
    code, printed, _ = vr(["plot", "training", str(out), "-o", str(tmp_path / "curve.svg")], capsys)
    assert code == 0
    assert "20 of 20 steps" in printed
    assert 'id="rate"' in (tmp_path / "curve.svg").read_text()
    assert read_curve(out).rows == read_curve(out.with_name("new.training.json")).rows
    assert [path.name for path in out.parent.iterdir() if "checkpoint" in path.name or "lock" in path.name] == []


def test_the_chosen_heads_are_trained_and_no_others(chunks: Path, tmp_path: Path, capsys: Captured) -> None:
    kind = replace(random_nets.BY_NAME["map-heads"], input_format=1, blocks=1)
    net, out = random_nets.write(kind, tmp_path / "old.pb.gz"), tmp_path / "new.pb.gz"
    words = [
        "--only",
        "heads",
        "--steps",
        "4",
        "--set",
        "batch=64",
        "--lr",
        "1e-2",
        "--set",
        "warmup=0",
        "--set",
        "holdout=0",
    ]
    code, _, err = train(str(net), out, capsys, str(chunks), *words, "--heads", "st,soft")
    assert code == 0, err
    for value, policy, same in (("winner", "optimistic", True), ("st", "soft", False)):
        was, now = (NetGraph.open(path, Heads(value, policy)).parameters for path in (net, out))
        assert {name: np.array_equal(was[name], now[name]) for name in was if name.startswith("/value/")} == {
            name: same for name in was if name.startswith("/value/")
        }
        assert all(np.array_equal(was[name], now[name]) for name in was if name.startswith(("/attn_body", "/encoder")))
    code, _, err = train(str(net), tmp_path / "none.pb.gz", capsys, str(chunks), *words, "--heads", "opponent")
    assert code == 2
    assert "has no such policy head; it has vanilla, optimistic, soft" in err


def test_the_curve_has_the_keys_of_its_documentation(trained: tuple[Path, Any]) -> None:
    record = json.loads(trained[0].with_name("new.training.json").read_text())
    heading = "## The curve of a training"
    assert [row[0] for row in rows(heading)] == list(record)
    assert [row[0] for row in rows(heading, 1)] == list(record["curve"][0])


def test_a_net_that_is_there_is_not_written_over(trained: tuple[Path, Any], maia_file: str, capsys: Captured) -> None:
    code, _, err = train(maia_file, trained[0], capsys, *STORE)
    assert (code, err.count("\n")) == (2, 1)
    assert "new.pb.gz: already exists, from a training that differs in --" in err


def test_a_training_that_is_finished_says_its_result_again(
    small: str, chunks: Path, tmp_path: Path, capsys: Captured
) -> None:
    """Also where a signal came right after the net was written; of another file there it says that it is in the way."""
    out, words = tmp_path / "new.pb.gz", (*QUICK, "--lr", "1e-3")
    _, first, _ = train(small, out, capsys, str(chunks), *words)
    net, curve = out.read_bytes(), out.with_name("new.training.json").read_bytes()
    code, again, err = train(small, out, capsys, str(chunks), *words)
    assert (code, again) == (0, first)
    assert "this training was finished before" in err
    assert (out.read_bytes(), out.with_name("new.training.json").read_bytes()) == (net, curve)
    code, _, err = train(small, out, capsys, str(chunks), *QUICK, "--lr", "1e-2")
    assert (code, err.count("\n")) == (2, 1)
    assert f"{out}: already exists, from a training that differs in --lr; remove it" in err
    shutil.copy(small, out)
    code, _, err = train(small, out, capsys, str(chunks), *words)
    assert (code, err) == (2, f"vr: {out}: already exists; remove it, or give another -o\n")


def test_a_learning_rate_of_0_gives_the_old_file(small: str, chunks: Path, tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "same.pb.gz"
    code, printed, _ = train(
        small, out, capsys, str(chunks), *QUICK, "--lr", "0", "--set", "average=swa", "--set", "holdout=0.3"
    )
    assert code == 0
    assert "no step improved the net" in printed
    assert out.read_bytes() == Path(small).read_bytes()


def test_chunks_without_anything_held_out(small: str, chunks: Path, tmp_path: Path, capsys: Captured) -> None:
    """The last net is written then; whoever moves has won all of these games, and that is learned. Here the net's name
    is a link, which stays, and its target is written."""
    (tmp_path / "elsewhere").mkdir()
    out, target = tmp_path / "new.pb.gz", tmp_path / "elsewhere" / "1.pb.gz"
    out.symlink_to(target)
    words = [*QUICK, "--set", "holdout=0", "--lr", "3e-3"]
    code, _, err = train(small, out, capsys, str(chunks), *words)
    assert code == 0, err
    assert os.readlink(out) == str(target)
    assert read_net_file(target).sha256 == read_curve(out).about["written"]["sha256"]
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["1.pb.gz"]
    record = json.loads((tmp_path / "new.training.json").read_text("utf-8"))
    assert record["written"]["step"] == 6
    losses = [row["train_loss"] for row in record["curve"][1:]]
    assert losses[1] < 0.5 * losses[0]
    q = valuerepair.evaluate(positions_of(GAME), str(out))["q"]
    assert q.mean() > 0.5 > valuerepair.evaluate(positions_of(GAME), small)["q"].mean()


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, id=kind.name, marks=() if kind.name in EACH_BODY else pytest.mark.slow)
        for kind in random_nets.KINDS
    ],
)
def test_what_is_kept_is_what_the_value_head_is_given(kind: random_nets.Kind, tmp_path: Path) -> None:
    """The value of positions in another order than they were kept in, against the whole net in ONNX Runtime."""
    samples = positions(64)
    file = read_net_file(random_nets.write(kind, tmp_path / "net.pb.gz"))
    net = NetGraph.open(file.path)
    learner = Learner(net, TrainOptions(only="value", batch=64), LossWeights(policy=0, moves_left=0))
    assert learner.room >= len(samples)
    learner.keep([samples])
    other = samples.take(np.random.default_rng(1).permutation(64))
    net_q = learner.evaluate({name: net.parameters[name] for name in learner.trained}, other.batch()).q
    planes = np.empty((64, 112, 8, 8), np.float32)
    unpack_masks(other.masks, other.rule50, planes)
    expected = Session(to_onnx(file)).run(planes).q
    np.testing.assert_allclose(net_q, expected, atol=1e-5)
    assert np.std(expected) > 1e-4


def test_positions_beside_the_games_have_rows_of_their_own(maia_file: str, tmp_path: Path, capsys: Captured) -> None:
    db, out = store_beside_games(tmp_path), tmp_path / "new.pb.gz"
    words = ["--store", str(db), "--threshold", "0.3", "--set", "holdout=0.4", *QUICK, "--lr", "1e-3"]
    code, printed, err = train(maia_file, out, capsys, *words)
    assert code == 0, err
    assert re.search(r"games \(\d+ beside them, \d+ candidates", err)
    lines = [line.split() for line in printed.splitlines()]
    at = next(i for i, line in enumerate(lines) if line[:1] == ["candidates"])
    assert [line[0] for line in lines[at + 1 : at + 4]] == ["game", "aside", "search"]
    first = json.loads(out.with_name("new.training.json").read_text())["curve"][0]
    assert float(lines[at + 2][1]) / 100 == pytest.approx(first["rate_aside"], abs=1e-4)
    assert lines[at + 2][2] == "%"


# -- what is wrong is said --------------------------------------------------------------------------------------------


def test_what_is_learned_from_is_said_before_it_takes_time(
    maia_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """Counted by plain SQL: all sampled positions of games that are not held out, searched in full or cut."""
    monkeypatch.setattr("valuerepair.training.fit.fit", lambda *arguments, **named: stop())

    def stop() -> None:
        raise UsageError("far enough")

    usual = Question(threshold=0.3, alpha=stored_alpha())
    with Store.open(SAMPLE) as store:
        frame = store.frame(usual, cut=True)
        query = "SELECT searched, count(*) FROM screened WHERE searched OR cut_at > 0 GROUP BY searched"
        counts = dict(store.connection.execute(query))
        games = keys_of_games(store, frame["game_id"].to_numpy())
    assert (frame["rung"].isna().sum(), frame["rung"].notna().sum()) == (counts[1], counts[0])
    held = is_held(games, 0.1)
    learned = frame[~held]
    candidates = learned["rung"].isna() & (learned["disagreement"].abs() >= 0.3)
    steps = round(6 * len(learned) / 256)
    code, _, err = train(maia_file, tmp_path / "new.pb.gz", capsys, "--store", str(SAMPLE), "--threshold", "0.3")
    assert code == 2
    assert (
        f"learns from {len(learned):,} positions of {len(np.unique(games[~held])):,} games "
        f"({candidates.sum()} candidates, "
        f"{learned['rung'].notna().sum()} that screening cut, by their last rung), judged on {held.sum()}; "
        f"{steps} steps are {steps * 256 / len(learned):.3g} passes"
    ) in err
    assert "warning: fewer than 2,000 positions" in err
    assert "passes a net learns" not in err
    more = ["--store", str(SAMPLE), "--threshold", "0.3", "--steps", "80"]
    assert "warning: in more than 10 passes" in train(maia_file, tmp_path / "new.pb.gz", capsys, *more)[2]


def test_a_store_is_asked_for_the_values_of_the_chosen_head(
    maia_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nets = []

    def scaled(store: Store, question: Question) -> tuple[Question, list[str]]:
        nets.append(question.net)
        return question, []

    def draw(store: Store, question: Question, *arguments: Any, **named: Any) -> None:
        nets.append(question.net)
        raise UsageError("far enough")

    monkeypatch.setattr(Store, "for_training", scaled)
    monkeypatch.setattr(training, "StoreDraw", draw)
    for head in ("winner", "q"):
        with pytest.raises(UsageError, match="far enough"):
            training.train(maia_file, tmp_path / "new.pb.gz", store=str(SAMPLE), options=TrainOptions(value_head=head))
    assert nets == [maia_file] * 2 + [read_net_file(maia_file).sha256 + "-q"] * 2


def test_a_share_of_the_positions_is_one_by_the_alpha_that_trains(
    maia_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr(training, "StoreDraw", lambda *arguments, **named: stop())

    def stop() -> None:
        raise UsageError("far enough")

    with Store.open(SAMPLE) as store:
        frame = store.frame(Question(alpha=DEFAULT_ALPHA))[["disagreement", "weight"]].dropna()
        own = store.frame(Question())["disagreement"].dropna().abs()
    words = ["--store", str(SAMPLE), "--threshold", "worst:5%", "--alpha", str(DEFAULT_ALPHA)]
    code, _, err = train(maia_file, tmp_path / "new.pb.gz", capsys, *words)
    assert code == 2
    match = re.search(r"threshold worst:5% is ([\d.]+): ", err)
    assert match is not None
    off = frame["disagreement"].abs()
    share = np.average(off >= float(match[1]), weights=frame["weight"])
    assert 0.04 < share <= 0.0501
    assert (own >= float(match[1])).mean() < 0.5 * (off >= float(match[1])).mean()


def test_training_says_which_alpha_it_learns_by_and_what_that_does(
    maia_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    def stop(*arguments: Any) -> None:
        raise UsageError("far enough")

    monkeypatch.setattr(training, "_train", stop)
    db = Path(shutil.copy(SAMPLE, tmp_path / "sample.db"))
    lines = train(maia_file, tmp_path / "new.pb.gz", capsys, "--store", str(db), "--alpha", "170")[2].splitlines()
    assert lines[0] == "training targets: alpha 170 (given)"
    steep = re.match(r"by alpha 170 the net's Q would become ([\d.]+) times as steep .*; alpha (\d+) would", lines[1])
    assert steep is not None
    with Store.open(db) as store:
        frame = store.frame(Question(net=maia_file, alpha=170.0)).dropna(subset="deep_q")
    mass = (frame.weight * frame.net_q**2).sum()
    assert float(steep[1]) == round((frame.weight * frame.net_q * frame.deep_q).sum() / mass, 2)
    lines = train(maia_file, tmp_path / "new.pb.gz", capsys, "--store", str(db), "--alpha", steep[2])[2].splitlines()
    assert lines[0] == f"training targets: alpha {steep[2]} (given)"
    assert lines[1].startswith(f"by alpha {steep[2]} the net's Q would keep its scale: 1.00 times as steep")
    lines = train(maia_file, tmp_path / "new.pb.gz", capsys, "--store", str(db))[2].splitlines()
    assert re.match(rf"training targets: alpha {steep[2]} \(stored fit of .* positions \(slope\)\)", lines[0])
    with closing(sqlite3.connect(db)) as sql, sql:
        sql.execute("DELETE FROM alpha_fits")
    lines = train(maia_file, tmp_path / "new.pb.gz", capsys, "--store", str(db))[2].splitlines()
    assert re.match(rf"training targets: alpha {steep[2]} \(fitted on .* positions \(slope\)\)", lines[0])
    assert vr(["stats", "--db", str(db), "--net", "maia-1900", "--save-alpha", "results"], capsys)[0] == 0
    lines = train(maia_file, tmp_path / "new.pb.gz", capsys, "--store", str(db))[2].splitlines()
    assert re.match(r"training targets: alpha \d+ \(stored fit of .* positions \(results\)\)", lines[0])


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "nothing to learn from: give training chunks, or --store"),
        ([*STORE, "--lr", "-1"], 2, "--lr -1: must be a number that is not negative"),
        ([*STORE, "--only", "trunk"], 2, "'trunk' is not one of"),
        (["missing"], 2, "missing: no such file or folder"),
        (["--store", "missing.db"], 1, "missing.db"),
        (["chunks", "--threshold", "worst:2%"], 2, "worst:2%: is a share of a store's positions"),
        ([*STORE, "--threshold", "2"], 1, "no candidate among the"),
        ([*STORE, "--set", "weights=soft"], 2, "--set weights: weighs training chunks"),
        (["chunks", "--set", "candidates=9"], 2, "--set candidates: needs --store"),
        ([*STORE, "--set", "candidates=9", "--draw", "w.csv"], 2, "--set candidates: has no effect with --draw"),
        (["chunks", "--policy", "judge"], 2, "--policy: needs --store"),
        ([*STORE, "--policy", "search"], 2, "--policy search: give net, judge or judge:SHARE"),
        ([*STORE, "--policy", ""], 2, "--policy '': give net, judge or judge:SHARE"),
        ([*STORE, "--set", "q_ratio=0.5"], 2, "--set q_ratio: is of training chunks"),
        ([*STORE, "-o", "new.onnx"], 2, "-o new.onnx: a net's name ends in .pb.gz"),
        ([*STORE, "-o", "nowhere/new.pb.gz"], 2, "nowhere/new.pb.gz: there is no folder "),
    ],
)
def test_wrong_words(
    words: list[str], code: int, said: str, maia_file: str, tmp_path: Path, monkeypatch: Any, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = train(maia_file, Path("new.pb.gz"), capsys, *words)
    assert (status, out) == (code, "")
    assert said in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_store_without_values_of_the_net(maia_file: str, tmp_path: Path, capsys: Captured) -> None:
    """Candidates are those of the net that is trained: the same net in another file is another one."""
    other = tmp_path / "other.pb.gz"
    other.write_bytes(gzip.compress(gzip.decompress(Path(maia_file).read_bytes()), 1, mtime=7))
    code, _, err = train(str(other), tmp_path / "new.pb.gz", capsys, *STORE, *QUICK)
    assert code == 2
    assert f"{other}: {SAMPLE} has no values of this net; first run: vr compare " in err


def test_no_chunk_has_a_position_that_judges(maia_file: str, tmp_path: Path, capsys: Captured) -> None:
    """The store's games that are held out are known in the chunks, too, although nothing else tells whose they are."""
    archive = str(SAMPLE.with_name("games.pgn.zst"))
    valuerepair.write_game_chunks(archive, tmp_path / "chunks", options=valuerepair.GameChunkOptions(games=30))
    with Store.open(SAMPLE) as store:
        query = "SELECT DISTINCT g.id FROM games g JOIN positions p ON p.game_id = g.id WHERE g.number <= 30"
        games = np.array([number for (number,) in store.connection.execute(query)], np.int64)
        held = int(is_held(keys_of_games(store, games), 0.4).sum())
    words = ["--set", "holdout=0.4", *STORE, *QUICK]
    code, _, err = train(maia_file, tmp_path / "new.pb.gz", capsys, str(tmp_path / "chunks"), *words)
    assert code == 0, err
    assert held > 5
    assert f"left out: with a held-out position {held};" in err


def test_an_onnx_file_cannot_be_trained(maia_file: str, maia_onnx: Path, tmp_path: Path, capsys: Captured) -> None:
    """Nor lc0 weights that wrap one: NetworkStructure NETWORK_ONNX of net.proto, in place of maia's 4."""
    wrapped, message = tmp_path / "wrapped.pb.gz", gzip.decompress(Path(maia_file).read_bytes())
    wrapped.write_bytes(gzip.compress(message.replace(b"\x18\x04 \x02(\x02", b"\x18\x05 \x02(\x02", 1)))
    for net in (maia_onnx, wrapped):
        code, _, err = train(str(net), tmp_path / "new.pb.gz", capsys, str(tmp_path / "chunks"))
        assert code == 2
        assert f"{net}: an ONNX file cannot be trained" in err


def test_chunks_of_another_input_format(maia_file: str, tmp_path: Path, capsys: Captured) -> None:
    folder = tmp_path / "chunks"
    folder.mkdir()
    write_chunk(folder / "0.gz", records_of(positions_of(GAME), GAME, 3))
    code, _, err = train(maia_file, tmp_path / "new.pb.gz", capsys, str(folder))
    assert code == 1
    assert "input format canonical, the net wants classical 112 planes" in err


def test_one_game_cannot_be_both_learned_and_judged_by(maia_file: str, tmp_path: Path, capsys: Captured) -> None:
    folder = tmp_path / "chunks"
    folder.mkdir()
    (folder / "empty.gz").write_bytes(gzip.compress(b""))
    assert "no usable chunk" in train(maia_file, tmp_path / "new.pb.gz", capsys, str(folder))[2]
    write_chunk(folder / "0.gz", records_of(positions_of(GAME), GAME))
    code, _, err = train(maia_file, tmp_path / "new.pb.gz", capsys, str(folder), "--set", "holdout=0.9999999")
    assert code == 1
    assert "all of its 1 games are held out" in err
    code, _, err = train(maia_file, tmp_path / "new.pb.gz", capsys, str(folder))
    assert code == 1
    assert "no game is left to be held out; give more games, or --set holdout=0" in err


def test_illegal_moves_that_are_not_marked(maia_file: str, tmp_path: Path, capsys: Captured) -> None:
    records = records_of(positions_of(GAME), GAME)
    records["probabilities"][records["probabilities"] < 0] = 0
    (folder := tmp_path / "chunks").mkdir()
    write_chunk(folder / "0.gz", records)
    code, _, err = train(maia_file, tmp_path / "new.pb.gz", capsys, str(folder), "--set", "holdout=0", *QUICK)
    assert code == 1
    assert "0.gz: a record has too many moves; illegal ones are not -1" in err
    assert [line for line in err.splitlines() if line.startswith("vr: ")] == err.splitlines()[-1:]
    assert "Traceback" not in err


def test_without_jax_one_line_says_what_to_install(
    maia_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    code, _, err = train(maia_file, tmp_path / "new.pb.gz", capsys, *STORE)
    assert (code, err) == (1, "vr: training needs JAX and optax: pip install 'valuerepair[train]'\n")


def test_a_net_that_is_written_wrong_keeps_another_name(
    small: str, chunks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr("valuerepair.training.write_net.check_written", lambda *arguments: (0.01, 0.0))
    words = [str(chunks), *QUICK, "--set", "holdout=0"]
    code, _, err = train(small, tmp_path / "new.pb.gz", capsys, *words)
    assert code == 1
    assert "differs from the trained parameters by 1.0e-02 in Q" in err
    assert (tmp_path / "new.unchecked.pb.gz").exists()
    assert not (tmp_path / "new.pb.gz").exists()
    monkeypatch.undo()  # the same command checks again, and has nothing to train
    assert train(small, tmp_path / "new.pb.gz", capsys, *words)[0] == 0


def test_a_training_that_has_only_begun_is_drawn(trained: tuple[Path, Any], tmp_path: Path, capsys: Captured) -> None:
    record = json.loads(trained[0].with_name("new.training.json").read_text())
    first = {"step": 0, "lr": 0.0, "train_loss": None}
    (tmp_path / "new.training.json").write_text(json.dumps(record | {"curve": [first]}))
    code, out, err = vr(["plot", "training", str(tmp_path / "new.pb.gz"), "-o", str(tmp_path / "a.svg")], capsys)
    assert code == 0, err
    assert "no step yet" in out + err


def test_a_curve_that_is_none(tmp_path: Path, capsys: Captured) -> None:
    for name, content in (("a.training.json", "{}"), ("b.training.json", "PK"), ("c.training.json", '{"curve": []}')):
        (tmp_path / name).write_text(content)
        with pytest.raises(ValueRepairError, match="is not a curve that vr train wrote"):
            read_curve(tmp_path / name)
    assert "No such file" in vr(["plot", "training", str(tmp_path / "none.pb.gz")], capsys)[2]


# -- longer -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("only", ["all", "value"])
def test_killed_and_gone_on_with_it_ends_in_the_same_file(only: str, maia_file: str, tmp_path: Path) -> None:
    words = [*QUICK[2:], "--set", "every=1", "--only", only, "--set", "average=ema", *STORE]

    def begin(name: str) -> subprocess.Popen[bytes]:
        out = tmp_path / f"{name}.pb.gz"
        command = [sys.executable, "-m", "valuerepair", "train", "--net", maia_file, "-o", str(out), *words]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    assert begin("whole").wait(600) == 0
    kills, seen = 0, 0
    while True:
        process = begin("cut")
        while process.poll() is None:
            path = tmp_path / "cut.checkpoint"
            now = path.stat().st_mtime_ns if path.exists() else seen
            if now != seen and kills < 3:
                seen, kills = now, kills + 1
                process.send_signal(signal.SIGKILL)
                break
            time.sleep(0.01)
        if process.wait(600) == 0:
            break
    assert kills == 3
    for ending in ("pb.gz", "training.json"):
        whole, cut = ((tmp_path / f"{name}.{ending}").read_bytes() for name in ("whole", "cut"))
        assert whole.replace(b"whole.pb.gz", b"cut.pb.gz") == cut


@pytest.mark.slow
def test_one_pass_over_lc0s_own_games_makes_held_out_games_better(
    maia_file: str, lc0: str, tmp_path: Path, capsys: Captured
) -> None:
    (tmp_path / "lc0").mkdir()
    command = [lc0, "selfplay", f"--weights={maia_file}", "--backend=eigen", "--games=40", "--parallelism=8"]
    command += ["--visits=10", "--training", "--history-fill-new=fen_only", "--temperature=1", "--noise-epsilon=0.1"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    subprocess.run(command, check=True, capture_output=True, env=environment, timeout=1800)
    out = tmp_path / "new.pb.gz"
    words = ["--steps", "12", "--lr", "3e-5"]
    for setting in ("every=12", "warmup=4", "q_ratio=1", "holdout=0.2"):
        words += ["--set", setting]
    code, _, err = train(maia_file, out, capsys, str(tmp_path / "lc0"), *words)
    assert code == 0, err
    curve = json.loads((tmp_path / "new.training.json").read_text("utf-8"))["curve"]
    assert curve[-1]["loss"] < curve[0]["loss"] - 0.005
    assert curve[-1]["policy"] < curve[0]["policy"]


@pytest.mark.slow
def test_a_real_net_learns_256_positions_by_heart(maia_file: str, tmp_path: Path) -> None:
    dice = np.random.default_rng(1)
    some = learn(positions(256), np.eye(3)[dice.integers(0, 3, 256)])
    some.shares[some.cuts[:-1] + dice.integers(0, np.diff(some.cuts))] = 1
    outcome = fit(
        NetGraph.open(maia_file),
        TrainingStream([InMemory(some)], 256, 0),
        [],
        TrainOptions(steps=200, lr=2e-3, warmup=10, every=20),
        policy_kl=0,
        threshold=0.3,
        checkpoint=tmp_path / "checkpoint",
        identity={},
        quiet=True,
    )
    assert outcome.curve[1]["train_loss"] > 1
    assert outcome.curve[-1]["train_loss"] < 0.01


def test_the_copy_of_a_folder_is_the_same_source(maia_file: str, chunks: Path, tmp_path: Path) -> None:
    from valuerepair.training.sources import ChunkSource

    shutil.copytree(chunks, tmp_path / "copy")
    assert ChunkSource([str(chunks)], 1).identity == ChunkSource([str(tmp_path / "copy")], 1).identity


@pytest.mark.slow
def test_chunks_of_a_store_teach_what_the_store_does(maia_file: str, tmp_path: Path, capsys: Captured) -> None:
    """Each step has all positions, in whatever order: what is learned of the judge's value is the same."""
    chunks, drawn = tmp_path / "chunks", ["--threshold", "0.3", "--share", "1"]
    question, options = valuerepair.Question(threshold=0.3), valuerepair.ChunkOptions(share=1)
    count = valuerepair.write_chunks(SAMPLE, chunks, question, options, net=maia_file)["chunks"]
    steps = ["--only", "heads", "--steps", "6", "--set", "warmup=0", "--set", "holdout=0", "--lr", "1e-3"]
    by_store, by_chunks = tmp_path / "store.pb.gz", tmp_path / "chunks.pb.gz"
    for out, words in (
        (by_store, ["--store", str(SAMPLE), *drawn]),
        (by_chunks, [str(chunks), "--set", "q_ratio=1"]),
    ):
        code, _, complaint = train(maia_file, out, capsys, *words, *steps, "--set", f"batch={count}")
        assert code == 0, complaint
    frame = valuerepair.open_store(SAMPLE).frame()
    old, one, other = (
        valuerepair.evaluate(frame, net=str(net))["q"].to_numpy() for net in (maia_file, by_store, by_chunks)
    )
    assert np.abs(one - old).mean() > 0.01
    assert np.abs(one - other).max() < 5e-4  # a written net differs from the trained parameters by as much
