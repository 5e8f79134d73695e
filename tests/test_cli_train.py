"""`vr train` from end to end with real nets: what is written is what was trained, and what was wrong is said."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")
pytest.importorskip("optax")

import valuerepair
from tests import random_nets
from tests.chunk_games import GAME
from tests.cli_tree import SAMPLE, vr
from tests.held_out import hold_out, part_of, split
from tests.training_doubles import copy_of_sample, store_source
from tests.v6_records import positions_of, records_of, write_chunk
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.nets.weights import read_net_file
from valuerepair.question import Question
from valuerepair.store import view
from valuerepair.store.rows import unsigned
from valuerepair.store.store import Store
from valuerepair.training.graph import NetGraph
from valuerepair.training.judged import held_out_keys
from valuerepair.training.sources import is_held
from valuerepair.training.train import read_curve

Captured = pytest.CaptureFixture[str]
QUICK = ["--only", "value", "--steps", "6", "--set", "batch=64", "--set", "warmup=0", "--set", "every=3"]
STORE = ["--db", "sample.db", "--set", "threshold=0.3"]


def of_store(db: Path) -> list[str]:
    return ["--db", str(db), *STORE[2:]]


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


@pytest.fixture
def far_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings end where their first step would begin."""

    def stop(*arguments: Any, **named: Any) -> None:
        raise UsageError("far enough")

    monkeypatch.setattr("valuerepair.training.fit.fit", stop)


# -- from end to end --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample's store, with some games held out."""
    return hold_out(copy_of_sample(tmp_path_factory.mktemp("store")), split(games=0.1))


@pytest.fixture(scope="module")
def trained(db: Path, maia_file: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A new net, and its curve as Python has it."""
    out = tmp_path_factory.mktemp("trained") / "new.pb.gz"
    options = valuerepair.TrainOptions(
        only="value", steps=12, batch=64, warmup=0, lr=1e-4, every=6, threshold=0.3, holdout=0.2
    )
    return out, valuerepair.train(maia_file, out, store=db, options=options).curve


def test_what_is_written_says_what_was_measured(trained: tuple[Path, Any], db: Path, maia_file: str) -> None:
    """The new file, read by lc0's converter and ONNX Runtime, on the held-out positions of the store."""
    out, curve = trained
    with Store.open(db) as store:
        alpha = store.setting("alpha")["value"]
        source = store_source(db, Question(threshold=0.3, net=maia_file), holdout=0.2)
        frame = view.frame(store, Question(threshold=0.3)).set_index("position_id")
    assert curve.attrs["options"]["alpha"] == alpha
    frame = frame.loc[source.judged.ids[source.held]]
    judged, written, amplitude = curve.set_index("step"), curve.attrs["written"], curve.attrs["amplitude"]
    for net, measures in ((maia_file, judged.loc[0]), (str(out), amplitude["measures"])):
        off = (valuerepair.evaluate(frame, net)["q"] - frame["deep_q"]).abs()
        assert off.mean() == pytest.approx(measures["mean_dq"], abs=2e-4)
        assert (off >= 0.3).mean() == pytest.approx(measures["rate"], abs=0.01)
    assert 0 < amplitude["lambda"] <= 2
    assert amplitude["measures"]["loss"] <= judged.loc[written["step"], "loss"] < judged.loc[0, "loss"]
    assert written["step"] > 0
    assert 0 < written["q"] < 5e-3
    assert curve["policy_kl"].abs().max() < 1e-6
    old, new = NetGraph.open(maia_file), NetGraph.open(out)
    changed = {name for name in old.parameters if not np.array_equal(old.parameters[name], new.parameters[name])}
    assert changed
    assert changed <= old.of_head("value")


def test_the_net_tells_of_its_training_and_its_curve_is_drawn(
    trained: tuple[Path, Any], db: Path, maia_file: str, tmp_path: Path, capsys: Captured
) -> None:
    out, curve = trained
    note = gzip.decompress(out.read_bytes())
    assert f"{curve.attrs['written']['step']} steps".encode() in note
    assert f", lambda {curve.attrs['amplitude']['lambda']:g}".encode() in note
    assert f"lambda {curve.attrs['amplitude']['lambda']:.2f}" in "\n".join(read_curve(out).lines())
    code, printed, _ = vr(["plot", "training", str(out), "-o", str(tmp_path / "curve.svg")], capsys)
    assert code == 0
    assert "12 of 12 steps" in printed
    assert 'id="rate"' in (tmp_path / "curve.svg").read_text()
    assert [path.name for path in out.parent.iterdir() if "checkpoint" in path.name or "lock" in path.name] == []
    code, _, err = train(maia_file, out, capsys, *of_store(db))
    assert (code, err.count("\n")) == (2, 1)
    assert "new.pb.gz: already exists" in err


@pytest.mark.slow
def test_a_training_that_is_finished_says_its_result_again(
    small: str, chunks: Path, tmp_path: Path, capsys: Captured
) -> None:
    """Also where a signal came right after the net was written; of another file there it says that it is in the way."""
    out, words = tmp_path / "new.pb.gz", (*QUICK, "--lr", "1e-3")
    _, first, _ = train(small, out, capsys, str(chunks), *words)
    net, curve = out.read_bytes(), out.with_name("new.training.json").read_bytes()
    code, again, _ = train(small, out, capsys, str(chunks), *words)
    assert (code, again) == (0, first)
    assert (out.read_bytes(), out.with_name("new.training.json").read_bytes()) == (net, curve)
    code, _, err = train(small, out, capsys, str(chunks), *QUICK, "--lr", "1e-2")
    assert (code, err.count("\n")) == (2, 1)
    assert "--lr" in err
    shutil.copy(small, out)
    code, _, err = train(small, out, capsys, str(chunks), *words)
    assert code == 2
    assert f"{out}: already exists" in err


def test_a_learning_rate_of_0_gives_the_old_file(small: str, chunks: Path, tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "same.pb.gz"
    assert train(small, out, capsys, str(chunks), *QUICK, "--lr", "0", "--set", "holdout=0.3")[0] == 0
    assert out.read_bytes() == Path(small).read_bytes()


@pytest.mark.slow
def test_chunks_without_anything_held_out(
    small: str, chunks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """The last net is written then; whoever moves has won all of these games, and that is learned. A net that is
    written wrong keeps another name; the same command checks again, and has nothing to train. Here the net's name is a
    link, which stays, and its target is written."""
    (tmp_path / "elsewhere").mkdir()
    out, target = tmp_path / "new.pb.gz", tmp_path / "elsewhere" / "1.pb.gz"
    out.symlink_to(target)
    words = [str(chunks), *QUICK, "--set", "holdout=0", "--lr", "3e-3"]
    with monkeypatch.context() as patch:
        patch.setattr("valuerepair.training.write_net.check_written", lambda *arguments: (0.01, 0.0))
        code, _, err = train(small, out, capsys, *words)
    assert code == 1
    assert "unchecked.pb.gz" in err
    assert not target.exists()
    code, _, err = train(small, out, capsys, *words)
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


# -- before the first step --------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("far_enough")
def test_what_is_learned_from_is_said_before_it_takes_time(
    db: Path, maia_file: str, tmp_path: Path, capsys: Captured
) -> None:
    """By the frame of the store: all scored positions of its part train, of games that are not held out."""
    with Store.open(db) as store:
        frame = view.frame(store, Question(threshold=0.3, beside=True), only=("game_key", "disagreement", "part"))
    frame = frame[frame["part"] == "train"]
    held = is_held(frame["game_key"].to_numpy(), 0.1)
    learned = frame[~held]
    candidates = int((learned["disagreement"].abs() >= 0.3).sum())
    for words, count, of_candidates in (((), len(learned), candidates), (["--control"], len(learned) - candidates, 0)):
        code, _, err = train(maia_file, tmp_path / "new.pb.gz", capsys, *of_store(db), *words)
        assert code == 2
        assert f"learns from {count:,} positions" in err
        assert f"({of_candidates} candidates)" in err
        assert f"judged on {held.sum()}; {round(6 * count / 256)} steps" in err
        assert "warning: fewer than 2,000 positions" in err
    err = train(maia_file, tmp_path / "new.pb.gz", capsys, *of_store(db), "--steps", "80")[2]
    assert "warning: in more than 10 passes" in err


@pytest.mark.usefixtures("far_enough")
def test_a_store_without_a_split_gets_the_default_one(maia_file: str, tmp_path: Path, capsys: Captured) -> None:
    fresh, net = copy_of_sample(tmp_path), tmp_path / "new.pb.gz"
    assert "held out: 15 % of the games" in train(maia_file, net, capsys, *of_store(fresh))[2]
    assert "held out: " not in train(maia_file, net, capsys, *of_store(fresh))[2]
    assert {"train", "games", "families"} <= {*part_of(fresh).values()}


@pytest.mark.usefixtures("far_enough")
def test_no_chunk_has_a_position_that_judges(db: Path, maia_file: str, tmp_path: Path, capsys: Captured) -> None:
    """The store's games that are held out are known in the chunks, too, although nothing else tells whose they are."""
    valuerepair.write_chunks(str(SAMPLE.with_name("games.pgn.zst")), tmp_path / "chunks")
    with Store.open(db) as store:
        judged = store_source(db, Question(threshold=0.3), holdout=0.4)
        keys = {*held_out_keys(store).tolist(), *judged.judged.keys[judged.held].tolist()}
        query = "SELECT p.key, p.game_id FROM positions p"
        rows = store.connection.execute(query).fetchall()
    held = len({game for key, game in rows if unsigned([key]).item() in keys})
    words = (str(tmp_path / "chunks"), "--set", "holdout=0.4", *of_store(db))
    _, _, err = train(maia_file, tmp_path / "new.pb.gz", capsys, *words)
    left_out = re.search(r"with a held-out position (\d+)", err)
    assert left_out is not None
    assert 50 < held - 1 <= int(left_out[1]) < 1.05 * held  # one game has no result, so no chunk


# -- what is wrong is said --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "fact"),
    [
        ([], 2, "--db"),
        ([*STORE, "--only", "trunk"], 2, "'trunk'"),
        (["missing"], 2, "missing: "),
        (["--db", "missing.db"], 1, "missing.db"),
        ([*STORE, "--set", "weights=soft"], 2, "weights=soft"),
        (["chunks", "--policy", "judge"], 2, "--policy"),
        (["chunks", "--control"], 2, "--control"),
        (["chunks", "--set", "disagreement_weight=1"], 2, "disagreement_weight"),
        ([*STORE, "--policy", "search"], 2, "--policy search"),
        ([*STORE, "--set", "q_ratio=0.5"], 2, "q_ratio"),
        ([*STORE, "-o", "new.onnx"], 2, "-o new.onnx"),
        ([*STORE, "-o", "nowhere/new.pb.gz"], 2, "nowhere"),
    ],
)
def test_wrong_words(
    words: list[str], code: int, fact: str, db: Path, maia_file: str, tmp_path: Path, monkeypatch: Any, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [str(db) if word == "sample.db" else word for word in words]
    status, out, err = train(maia_file, Path("new.pb.gz"), capsys, *words)
    assert (status, out) == (code, "")
    assert fact in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_store_without_values_of_the_net(db: Path, maia_file: str, tmp_path: Path, capsys: Captured) -> None:
    """Candidates are those of the net that is trained: the same net in another file is another one."""
    other = tmp_path / "other.pb.gz"
    other.write_bytes(gzip.compress(gzip.decompress(Path(maia_file).read_bytes()), 1, mtime=7))
    code, _, err = train(str(other), tmp_path / "new.pb.gz", capsys, *of_store(db), *QUICK)
    assert code == 2
    assert f"{other}: {db} has no values of this net" in err


def test_an_onnx_file_cannot_be_trained(maia_file: str, maia_onnx: Path, tmp_path: Path, capsys: Captured) -> None:
    """Nor lc0 weights that wrap one: NetworkStructure NETWORK_ONNX of net.proto, in place of maia's 4."""
    wrapped, message = tmp_path / "wrapped.pb.gz", gzip.decompress(Path(maia_file).read_bytes())
    wrapped.write_bytes(gzip.compress(message.replace(b"\x18\x04 \x02(\x02", b"\x18\x05 \x02(\x02", 1)))
    for net in (maia_onnx, wrapped):
        code, _, err = train(str(net), tmp_path / "new.pb.gz", capsys, str(tmp_path / "chunks"))
        assert code == 2
        assert f"{net}: an ONNX file" in err


def test_chunks_that_cannot_be_learned(maia_file: str, tmp_path: Path, capsys: Captured) -> None:
    """Of another input format, no chunks, one game alone, and illegal moves that are not marked."""
    unmarked = records_of(positions_of(GAME), GAME)
    unmarked["probabilities"][unmarked["probabilities"] < 0] = 0
    cases: tuple[tuple[Any, list[str], str], ...] = (
        (records_of(positions_of(GAME), GAME, 3), [], "input format canonical"),
        (None, [], "no usable chunk"),
        (records_of(positions_of(GAME), GAME), ["--set", "holdout=0.9999999"], "all of its 1 games"),
        (records_of(positions_of(GAME), GAME), [], "holdout=0"),
        (unmarked, ["--set", "holdout=0", *QUICK], "0.gz: a record has too many moves"),
    )
    for number, (records, words, fact) in enumerate(cases):
        (folder := tmp_path / str(number)).mkdir()
        if records is None:
            (folder / "0.gz").write_bytes(gzip.compress(b""))
        else:
            write_chunk(folder / "0.gz", records)
        code, _, err = train(maia_file, tmp_path / "new.pb.gz", capsys, str(folder), *words)
        assert code == 1
        assert fact in err.splitlines()[-1]
        assert "Traceback" not in err


def test_without_jax_one_line_says_what_to_install(
    db: Path, maia_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    code, _, err = train(maia_file, tmp_path / "new.pb.gz", capsys, *of_store(db))
    assert (code, err.count("\n")) == (1, 1)
    assert "valuerepair[train]" in err


def test_a_curve_that_is_none(tmp_path: Path, capsys: Captured) -> None:
    for name, content in (("a.training.json", "{}"), ("b.training.json", "PK"), ("c.training.json", '{"curve": []}')):
        (tmp_path / name).write_text(content)
        with pytest.raises(ValueRepairError, match=name):
            read_curve(tmp_path / name)
    assert "none.training.json" in vr(["plot", "training", str(tmp_path / "none.pb.gz")], capsys)[2]


# -- longer -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_killed_and_gone_on_with_it_ends_in_the_same_file(db: Path, maia_file: str, tmp_path: Path) -> None:
    words = [*QUICK[2:], "--set", "every=1", *of_store(db)]

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
