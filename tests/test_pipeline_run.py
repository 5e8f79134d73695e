"""A repair stage by stage: what is run again after an end in the middle, and after settings were changed.

The commands are stand-ins here: what each makes is a digest of its words and of all that lies in the folder, so that
anything stale, anything that is lacking and anything that was run in another order shows. The true commands are run in
test_pipeline_whole.py.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO

import pytest

from tests.cli_tree import SAMPLE
from valuerepair import stop
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import VR, claimed
from valuerepair.pipeline import run as running
from valuerepair.pipeline import settings as toml
from valuerepair.pipeline.run import LOCK, NOTES, Repair, read_settings, run
from valuerepair.pipeline.settings import HeldOutShares, Settings, Sizes, TrainSettings
from valuerepair.pipeline.stages import PAGE
from valuerepair.store.store import Store

SIZES = Sizes(positions=5000, steps=20, rejudge=100, games=10)
SETTINGS = Settings(archives=("games.pgn",), net="old.pb.gz", deep="stockfish:nodes=100", control=True, sizes=SIZES)
STAGES = 15
DIGEST_OF = running.digest_of
OLD = hashlib.sha256(b"old").hexdigest()[:16]


class Killed(BaseException):
    """The process ends here, whatever it was about to do."""


class Commands:
    """Stands for the processes of the stages. `dies` says, at each place in a command where that can be, whether it is
    the end of it; `code` is the exit code."""

    def __init__(self) -> None:
        self.run: list[str] = []
        self.env: dict[str, dict[str, str]] = {}
        self.code = 0
        self.trains: str | None = None  # what a training writes, None for another net each time
        self.interrupted = False
        self.dies: Callable[[], bool] = lambda: False

    def __call__(
        self, words: list[str], out: IO[bytes] | int | None, lock: int, env: Mapping[str, str]
    ) -> tuple[int, bool]:
        assert tuple(words[:3]) == VR
        words = words[3:]
        self.env[words[0]] = dict(env)
        assert os.fstat(lock).st_ino == (self.folder / LOCK).stat().st_ino
        self._live()
        if self.code or self.interrupted:
            return self.code, self.interrupted
        self.run.append(words[0])
        digest = self._digest(words)
        if words[0] == "mine":
            (self.folder / "store.db").touch()
        if words[0] == "train":
            net = Path(words[words.index("-o") + 1])
            assert not net.exists() or net.with_name(net.name.replace(".pb.gz", ".checkpoint")).exists()
            net.with_name(net.name.replace(".pb.gz", ".checkpoint")).touch()
            self._live()
            net.with_name(net.name.replace(".pb.gz", ".training.json")).write_text(digest)
            net.write_text(self.trains or digest)
            self._live()
            net.with_name(net.name.replace(".pb.gz", ".checkpoint")).unlink()
        if words[0] == "books":
            Path(words[words.index("-o") + 1]).mkdir(exist_ok=True)
        if words[0] == "match":
            target = Path(words[words.index("-o") + 1])
            target.write_text(digest)
        self._live()
        if not isinstance(out, int | None):
            # Q of the repaired net is twice as steep as the old net's, and the control's a quarter steeper than its.
            scale = 1.25 if "control.pb.gz" in words[2] else 0.5
            out.write(json.dumps({"digest": digest, "q_scale": {"value": scale}}).encode())
        self._live()
        return 0, False

    folder: Path

    def _live(self) -> None:
        if self.dies():
            raise Killed

    def _digest(self, words: list[str]) -> str:
        """Of the words and of all that the stages before have made."""
        digest = hashlib.sha256(" ".join(words).replace(str(self.folder), "").encode())
        for path in sorted(self.folder.iterdir()):
            kept = path.name.endswith((".pb.gz", ".pgn"))
            if kept and path.name not in (NOTES, toml.FILE) and str(path) not in words:
                digest.update(path.name.encode() + path.read_bytes())
        return digest.hexdigest()


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    stand_in = Commands()
    stand_in.folder = tmp_path
    monkeypatch.setattr(running, "_run_process", stand_in)
    monkeypatch.setattr(running, "digest_of", lambda net: DIGEST_OF(net) if Path(net).exists() else OLD)
    return stand_in


def of(settings: Settings, folder: Path) -> Repair:
    """The repair of a folder where these settings were written down."""
    folder.mkdir(exist_ok=True)
    toml.write(settings, folder / toml.FILE)
    return Repair.of(folder, read_settings(folder, {}))


def made(folder: Path) -> dict[str, str]:
    """All that a repair leaves, but what it took, and when."""
    files = [path for path in folder.iterdir() if path.name not in (NOTES, toml.FILE, LOCK)]
    content = {path.name: path.read_text("utf-8") if path.is_file() else "" for path in files}
    notes = json.loads((folder / NOTES).read_text("utf-8"))["stages"]
    return content | {f"done {stage['name']}": stage["identity"] for stage in notes if stage["done"]}


def variants() -> list[Settings]:
    """Settings that differ in what stages of all kinds depend on."""
    return [
        SETTINGS,
        replace(SETTINGS, threshold=0.4),
        replace(SETTINGS, alpha=113.0),
        replace(SETTINGS, sizes=replace(SIZES, positions=6000)),
        replace(SETTINGS, sizes=replace(SIZES, steps=40)),
        replace(SETTINGS, train=TrainSettings(batch=64)),
        replace(SETTINGS, match_nodes=5),
        replace(SETTINGS, sizes=replace(SIZES, games=20)),
        replace(SETTINGS, test_deep="stockfish:nodes=3000"),
    ]


def test_what_no_repair_made_is_not_removed(tmp_path: Path, commands: Commands) -> None:
    commands.folder = folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "books").mkdir()
    for name in ("books/thesis.pgn", "repaired.pb.gz", "notes.txt", PAGE):
        (folder / name).write_text("mine")
    repair = Repair.of(folder, SETTINGS)
    with pytest.raises(
        UsageError, match=r"mine: has files of something else \(books, repaired\.pb\.gz, report\.html\)"
    ):
        run(repair, quiet=True)
    assert commands.run == []
    assert {path.name for path in folder.iterdir()} - {LOCK} == {
        "books",
        "notes.txt",
        "repaired.pb.gz",
        PAGE,
    }
    assert (folder / "books" / "thesis.pgn").read_text() == "mine"


@pytest.mark.parametrize("seed", range(12))
def test_whatever_ended_it_and_was_changed_it_comes_to_what_a_fresh_one_makes(
    seed: int, tmp_path: Path, commands: Commands
) -> None:
    dice = random.Random(seed)
    worn, fresh = tmp_path / "repair", tmp_path / "other"
    settings = SETTINGS
    for _ in range(8):
        commands.folder = worn
        settings = dice.choice(variants())
        commands.dies = lambda: dice.random() < 0.08
        try:
            run(of(settings, worn), quiet=True)
        except Killed:
            continue
    commands.dies = lambda: False
    run(of(settings, worn), quiet=True)
    commands.folder = fresh
    run(of(settings, fresh), quiet=True)
    assert made(worn) == made(fresh)
    assert len([name for name in made(worn) if name.startswith("done")]) == STAGES


@pytest.mark.parametrize(
    ("settings", "again"),
    [
        (replace(SETTINGS, sizes=replace(SIZES, games=20)), 4),
        (replace(SETTINGS, match_nodes=50), 4),
        (replace(SETTINGS, test_deep="stockfish:nodes=3000"), 5),
        (replace(SETTINGS, train=TrainSettings(batch=64)), 11),
        (replace(SETTINGS, sizes=replace(SIZES, positions=6000)), STAGES),
        (replace(SETTINGS, alpha=113.0), STAGES - 1),
        (replace(SETTINGS, split=HeldOutShares(games=0.3)), STAGES - 2),
        (SETTINGS, 0),
    ],
)
def test_what_was_changed_is_run_again_with_all_after_it(
    settings: Settings, again: int, tmp_path: Path, commands: Commands
) -> None:
    run(of(SETTINGS, tmp_path), quiet=True)
    commands.run.clear()
    repair = of(settings, tmp_path)
    assert repair.first_undone() == STAGES - again
    run(repair, quiet=True)
    assert len(commands.run) == again


REMOVED = (
    "store.db", "books", "repaired.pb.gz", "repaired.training.json", "families.json", "match-old.pgn",
    "match-control.json",
)  # fmt: skip


@pytest.mark.parametrize("name", REMOVED)
def test_what_was_removed_is_made_again(name: str, tmp_path: Path, commands: Commands) -> None:
    run(of(SETTINGS, tmp_path), quiet=True)
    whole, path = made(tmp_path), tmp_path / name
    path.rmdir() if path.is_dir() else path.unlink()
    run(of(SETTINGS, tmp_path), quiet=True)
    assert made(tmp_path) == whole


def test_defaults_of_the_machine_do_not_reach_the_stages(
    tmp_path: Path, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VR_MINE_SEED", "5")
    monkeypatch.setenv("VALUEREPAIR_STOCKFISH", "none")
    run(of(SETTINGS, tmp_path))
    assert "VR_MINE_SEED" not in commands.env["mine"]
    assert commands.env["mine"]["VALUEREPAIR_STOCKFISH"] == "none"
    # The repair says what comes next.
    assert all(stop.STAGE in env for env in commands.env.values())
    assert commands.env.keys() == {"mine", "stats", "split", "books", "train", "compare", "match"}


def test_another_folder_and_another_place_are_the_same_work(
    tmp_path: Path, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(of(SETTINGS, tmp_path), quiet=True)
    monkeypatch.chdir(tmp_path.parent)
    assert of(SETTINGS, Path(tmp_path.name)).first_undone() == STAGES


def test_the_store_of_another_judge_is_not_taken_for_this_one(tmp_path: Path, commands: Commands) -> None:
    run(of(SETTINGS, tmp_path), quiet=True)
    whole = made(tmp_path)
    for other in (replace(SETTINGS, deep="stockfish:nodes=200"), replace(SETTINGS, net="other.pb.gz")):
        with pytest.raises(UsageError, match=r"store was mined differently .* another folder, or remove store.db"):
            run(of(other, tmp_path), quiet=True)
        assert made(tmp_path) == whole
    (tmp_path / "store.db").unlink()
    run(of(other, tmp_path), quiet=True)


def test_a_net_that_was_replaced_is_not_taken_for_the_old_one(
    tmp_path: Path, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "digest_of", DIGEST_OF)
    net = tmp_path.parent / f"{tmp_path.name}.pb.gz"
    settings = replace(SETTINGS, net=str(net))
    net.write_bytes(b"one")
    run(of(settings, tmp_path), quiet=True)
    assert of(settings, tmp_path).first_undone() == STAGES
    net.write_bytes(b"two")
    with pytest.raises(UsageError, match=rf"store was mined differently \({net} has been replaced since\)"):
        run(of(settings, tmp_path), quiet=True)
    net.unlink()
    with pytest.raises(ValueRepairError, match=f"{net}: No such file"):
        of(settings, tmp_path)


def test_a_stage_that_fails_is_named_and_what_comes_after_waits(tmp_path: Path, commands: Commands) -> None:
    commands.code = 1
    with pytest.raises(ValueRepairError, match=r"^mine failed \(exit code 1\), see above; fix that, and run"):
        run(of(SETTINGS, tmp_path), quiet=True)
    commands.code = -9
    with pytest.raises(ValueRepairError, match=r"^mine was ended by signal 9"):
        run(of(SETTINGS, tmp_path), quiet=True)
    assert commands.run == []
    commands.code = 0
    run(of(SETTINGS, tmp_path), quiet=True)
    assert len(commands.run) == STAGES


def test_an_interruption_ends_it_and_the_time_is_kept(tmp_path: Path, commands: Commands) -> None:
    commands.code, commands.interrupted = 130, True
    with pytest.raises(KeyboardInterrupt):
        run(of(SETTINGS, tmp_path), quiet=True)
    (noted,) = of(SETTINGS, tmp_path).notes.stages
    assert (noted.name, noted.done) == ("mine", False)
    assert noted.seconds > 0
    # A command that was at its end as the signal came is done; the next one does not begin.
    commands.code = 0
    with pytest.raises(KeyboardInterrupt):
        run(of(SETTINGS, tmp_path), quiet=True)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_stage_does_not_outlive_the_repair(tmp_path: Path) -> None:
    """After kill -9 too; while it runs, the lock names both."""
    program = (
        "import os, sys\nfrom valuerepair.files import claimed\nfrom valuerepair.pipeline.run import _run_process\n"
        f"with claimed({str(tmp_path / LOCK)!r}) as lock:\n"
        "    stage = [sys.executable, '-c', 'print(1, flush=True); import time; time.sleep(90)']\n"
        "    _run_process(stage, None, lock, os.environ)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"1\n"
    who, stage = (tmp_path / LOCK).read_text().split(", its stage ")
    assert int(who) == parent.pid
    assert int(stage)
    parent.kill()
    begun = time.monotonic()
    assert parent.wait()
    assert parent.stdout.read() == b""  # nobody holds its other end any more
    assert time.monotonic() - begun < 60


def test_two_at_one_folder_are_one_too_many(tmp_path: Path, commands: Commands) -> None:
    repair = of(SETTINGS, tmp_path)
    with claimed(tmp_path / LOCK) as lock:
        os.pwrite(lock, b"4711   ", 0)
        with pytest.raises(ValueRepairError, match=r"another vr repair is already running \(process 4711\)"):
            run(repair, quiet=True)
        os.ftruncate(lock, 0)
    run(repair, quiet=True)
    assert not (tmp_path / LOCK).exists()


@pytest.mark.parametrize("content", ["{", '{"stages": [{"name": "mine"}]}', '{"stages": 3}', "[]"])
def test_notes_that_are_none_are_one_line(content: str, tmp_path: Path, commands: Commands) -> None:
    (tmp_path / NOTES).write_text(content)
    with pytest.raises(ValueRepairError, match=r"stages\.json: is not a list of stages") as error:
        of(SETTINGS, tmp_path)
    assert "\n" not in str(error.value)


def test_a_store_that_was_mined_says_its_judge_and_the_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, any_maia: Path
) -> None:
    """Its judge in use, by the digest; all sizes follow from the positions that it has judged for this net."""
    monkeypatch.setattr(running, "_check_inputs", lambda settings: None)
    settings = read_settings(tmp_path / "none", {"db": str(SAMPLE), "net": str(any_maia)})
    with Store.open(SAMPLE) as store:
        assert store.setting("judge").startswith(settings.judge)
    assert (len(settings.judge), settings.deep, settings.sizes) == (12, "stockfish:nodes=50000", Sizes.of(638))
    with pytest.raises(UsageError, match=r"--db .*sample\.db: "):
        read_settings(tmp_path / "none", {"db": str(SAMPLE), "net": "unknown-net"})


def test_matches_are_played_with_q_on_one_scale(tmp_path: Path, commands: Commands) -> None:
    """A quick match of the same nets tells the numbers: before it none stands there. The Q of the steeper net is
    multiplied by less than 1, whichever that is."""
    repair = of(SETTINGS, tmp_path)
    matches = [stage for stage in repair.stages if stage.scaled_by]
    assert all("q_scale=Q_SCALE" in repair.command(stage) for stage in matches)
    run(repair, quiet=True)
    commands_of = {
        stage["name"]: stage["command"] for stage in json.loads((tmp_path / NOTES).read_text("utf-8"))["stages"]
    }
    old, control = (commands_of[stage.name] for stage in matches)
    sides = f"net={tmp_path}/repaired.pb.gz,nodes=100,q_scale={{}} net={{}},nodes=100,q_scale={{}} "
    assert sides.format("0.500", "old.pb.gz", "1.000") in old
    assert sides.format("1.000", f"{tmp_path}/control.pb.gz", "0.800") in control


@pytest.mark.parametrize("content", ["{", "{}", '{"q_scale": null}', '{"q_scale": {"value": 0}}'])
def test_a_quick_match_without_a_scale_is_one_line(content: str, tmp_path: Path, commands: Commands) -> None:
    run(of(SETTINGS, tmp_path), quiet=True)
    (tmp_path / "scale-old.json").write_text(content)
    (tmp_path / "match-old.json").unlink()
    with pytest.raises(ValueRepairError, match=r"scale-old\.json: ") as error:
        run(of(SETTINGS, tmp_path), quiet=True)
    assert "\n" not in str(error.value)


def test_a_training_that_changed_nothing_is_said_and_no_match_is_played(tmp_path: Path, commands: Commands) -> None:
    commands.trains = "old"
    with pytest.raises(ValueRepairError, match=r"repaired\.pb\.gz is the old net: no step of the training was better"):
        run(of(SETTINGS, tmp_path), quiet=True)
    assert commands.run[-1] == "train"
    commands.trains = None
    run(of(replace(SETTINGS, sizes=replace(SIZES, steps=40)), tmp_path), quiet=True)
    assert commands.run[-1] == "match"
