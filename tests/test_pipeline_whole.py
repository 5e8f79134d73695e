"""`vr repair` from an archive to a report, with its true commands: a small net, its own search as the judge.

The repairs that are killed are of some minutes: ``pytest -m slow``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import IO, Any

import psutil
import pytest

pytest.importorskip("jax")
pytest.importorskip("optax")


import valuerepair as vr
from tests import random_nets
from tests.vr_runs import here
from valuerepair import stop
from valuerepair.chess.origins import KINDS
from valuerepair.files import VR
from valuerepair.pipeline import run as running
from valuerepair.pipeline import settings as toml
from valuerepair.pipeline.page import RepairOutcome
from valuerepair.pipeline.run import Repair, read_settings, run
from valuerepair.pipeline.settings import Settings, Sizes, TrainSettings

GAMES = Path(__file__).parents[1] / "data" / "wild.pgn.zst"
THRESHOLD = 0.1
NETS = ("repaired.pb.gz", "control.pb.gz")


def tiny(folder: Path) -> Settings:
    """A repair that is done in less than a minute."""
    kind = replace(random_nets.BY_NAME["se-dense-policy"], blocks=1, moves_left=False)
    return Settings(
        archives=(str(GAMES),),
        net=str(random_nets.write(kind, folder / "tiny.pb.gz")),
        deep="mcts:nodes=4",
        threshold=THRESHOLD,
        test_deep="mcts:nodes=20",
        control=True,
        sizes=Sizes(positions=2000, steps=4, rejudge=100, games=4),
        train=TrainSettings(batch=64, lr=5e-6),
        match_nodes=4,
    )


# The stage that runs in a process of its own.
APART = "games"


@contextmanager
def stages_here(folder: Path) -> Iterator[None]:
    """Stages run in the process of the tests, which has imported everything, but for one."""
    apart = running._run_process

    def to_its_end(
        words: list[str], out: IO[bytes] | int | None, lock: int, env: Mapping[str, str]
    ) -> tuple[int, bool]:
        assert tuple(words[:3]) == VR
        assert env == {**os.environ, stop.STAGE: "1"}
        if notes(folder)[-1]["name"] == APART:
            return apart(words, out, lock, env)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(stop.STAGE, env[stop.STAGE])
            done = here(*words[3:], cwd=Path.cwd())
        assert "next: " not in done.stdout
        if not isinstance(out, int | None):
            out.write(done.stdout.encode())
        return done.returncode, False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "_run_process", to_its_end)
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RepairOutcome]:
    folder = tmp_path_factory.mktemp("whole") / "repair"
    folder.mkdir()
    toml.write(tiny(folder.parent), folder / toml.FILE)

    with stages_here(folder):
        outcome = vr.repair(output=folder)
    return folder, outcome


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def notes(folder: Path) -> list[Any]:
    stages: list[Any] = read(folder / "stages.json")["stages"]
    return stages


# -- what comes of it -------------------------------------------------------------------------------------------------


def test_every_stage_was_run_and_its_time_is_noted(whole: tuple[Path, RepairOutcome]) -> None:
    folder, outcome = whole
    stages = Repair.of(folder, read_settings(folder, {})).stages
    assert [note["name"] for note in notes(folder)] == [stage.name for stage in stages]
    assert all(note["done"] for note in notes(folder))
    assert all(note["seconds"] > 0 for note in notes(folder))
    assert outcome.control is not None
    for net in (outcome.repaired, outcome.control):
        assert vr.evaluate("startpos", str(net))["q"].notna().all()
    assert outcome.repaired.read_bytes() != outcome.control.read_bytes()
    assert outcome.took == sum(note["seconds"] for note in notes(folder))


@pytest.mark.slow
def test_a_repair_from_a_store_leaves_that_store_alone(whole: tuple[Path, RepairOutcome], tmp_path: Path) -> None:
    """The store of the other repair, with all that it searched: nothing is mined, and what lies beside the games counts
    as what is learned from. Its first stages are run."""
    store, folder = whole[0] / "store.db", tmp_path / "again"
    before = store.read_bytes()
    repair = Repair.of(folder, read_settings(folder, {"db": str(store), "net": str(whole[0].parent / "tiny.pb.gz")}))
    run(replace(repair, stages=repair.stages[:4]), quiet=True)
    assert store.read_bytes() == before
    assert [note["name"] for note in notes(folder) if note["done"]] == ["copy", "stats", "split", "books"]
    with vr.open_store(folder / "store.db") as own, vr.open_store(store) as other:
        counts = [one.connection.execute("SELECT count(*) FROM positions").fetchone()[0] for one in (own, other)]
        kinds = "SELECT count(DISTINCT id), count(DISTINCT origin) FROM positions JOIN deep_values ON position_id = id"
        judged = other.connection.execute(kinds).fetchone()
    assert counts[0] == counts[1]
    assert (repair.settings.sizes.positions, 4) == judged
    assert repair.settings.deep.startswith("mcts:nodes=4")


def test_matches_have_the_scale_of_q_of_a_quick_match_of_the_same_nets(whole: tuple[Path, RepairOutcome]) -> None:
    """The squares of each side's Q stand in the tags of its games: over all openings they have this ratio."""
    folder, _ = whole
    for name, opponent in (("old", "tiny"), ("control", "control")):
        (command,) = (note["command"] for note in notes(folder) if note["name"] == f"match-{name}")
        scale = read(folder / f"scale-{name}.json")["q_scale"]["value"]
        assert f"repaired.pb.gz,nodes=4,q_scale={min(scale, 1):.3f} " in command
        assert f"{opponent}.pb.gz,nodes=4,q_scale={min(1 / scale, 1):.3f} --games" in command
        quick = (folder / f"scale-{name}.pgn").read_text("utf-8")
        assert quick.count("[Result ") == 4
        squares: dict[str, float] = dict.fromkeys((opponent, "repaired"), 0.0)
        for game in quick.split("[Event ")[1:]:
            tags = dict(re.findall(r'\[(\w+) "(.*)"\]', game))
            (q, roots), (other_q, other_roots) = (
                map(float, tags[f"{colour}Breadth"].partition("net Q ")[2].split(" in "))
                for colour in ("White", "Black")
            )
            assert "nodes=1," in tags["WhiteSide"]
            squares[tags["White"]] += q**2 * (roots + other_roots)
            squares[tags["Black"]] += other_q**2 * (roots + other_roots)
        assert scale == pytest.approx((squares[opponent] / squares["repaired"]) ** 0.5, rel=1e-3)


def test_what_was_judged_is_what_the_store_has_of_the_held_out_parts(whole: tuple[Path, RepairOutcome]) -> None:
    """Counted once more by SQL."""
    folder, outcome = whole
    query = """
        SELECT n.name, p.part, v.q - d.q, p.origin FROM net_values v JOIN nets n ON n.id = v.net_id
        JOIN deep_values d ON d.position_id = v.position_id
        JOIN judges j ON j.id = d.judge_id JOIN settings s ON s.name = 'judge' AND s.value = '"' || j.digest || '"'
        JOIN positions p ON p.id = v.position_id WHERE d.q IS NOT NULL
    """
    with sqlite3.connect(folder / "store.db") as connection:
        values = connection.execute(query).fetchall()
    judged = {(comparison.part, comparison.first, comparison.second): comparison for comparison in outcome.judged}
    assert len(judged) == 6
    for part in ("games", "families"):
        printed = read(folder / f"{part}.json")
        names = [net["name"] for net in printed["nets"]]
        assert names == ["tiny", "repaired", "control"]
        rows = judged[part, "the old net", "the repaired net"].rows
        held = [kind for which, of_part, _, kind in values if which == "tiny" and of_part == part]
        assert {row["origin"]: row["positions"] for row in rows} == Counter(held)
        assert set(held) == {*KINDS}
        for number, name in enumerate(names[1:]):
            in_games = printed["comparisons"][number]["by_origin"][0]
            at = next(at for at in in_games["candidates"] if at["threshold"] == THRESHOLD)
            for net, of_net in (("first", "tiny"), ("second", name)):
                off = [
                    abs(value) for which, of_part, value, kind in values
                    if which == of_net and of_part == part and kind == "game"
                ]  # fmt: skip
                assert at[net]["total"] == len(off) > 90
                assert at[net]["count"] == sum(value >= THRESHOLD - 1e-9 for value in off)
    against = judged["families", "the control", "the repaired net"]
    assert against.figures == read(folder / "families-control.json")["comparisons"][0]
    assert (against.figures["first"], against.figures["second"]) == ("control", "repaired")


def test_no_game_that_judges_was_trained_on(whole: tuple[Path, RepairOutcome]) -> None:
    """The trainings say how many games they had; SQL says how many there are of train."""
    folder, _ = whole
    with sqlite3.connect(folder / "store.db") as connection:
        query = "SELECT count(DISTINCT game_id) FROM positions WHERE part = 'train'"
        (train,) = connection.execute(query).fetchone()
    for net in NETS:
        curve = read(folder / net.replace(".pb.gz", ".training.json"))
        assert curve["games"]["all"] == train
        assert curve["curve"][-1]["step"] == 4
        # All kinds of positions are learned, and so judged on the way.
        assert {f"rate_{kind}" for kind in KINDS} <= curve["curve"][0].keys()


def test_a_second_run_runs_nothing_and_says_the_same(whole: tuple[Path, RepairOutcome]) -> None:
    folder, outcome = whole
    before = (folder / "stages.json").read_bytes()
    done = here("repair", "-o", folder, "-q", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == outcome.lines()
    assert (folder / "stages.json").read_bytes() == before


class Reader(HTMLParser):
    """The text of a page, and all that its elements refer to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.refers, self.open = "", list[str](), list[str]()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.refers += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "action", "data")]
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_needs_nothing_but_itself_and_says_what_was_found(whole: tuple[Path, RepairOutcome]) -> None:
    folder, outcome = whole
    page = outcome.page.read_text("utf-8")
    reader = Reader(page)
    assert reader.open == []
    assert len(reader.refers) == 5
    assert all(address.startswith("data:image/svg+xml;base64,") for address in reader.refers)
    assert not re.search(r"https?://|@import|url\(|<script", page)
    for claim in outcome.claims:
        assert claim.line in reader.text
    for stage_note in notes(folder):
        assert stage_note["command"] in reader.text
    # What is claimed comes first, then the controls of it, then the rest.
    places = [
        reader.text.index(words)
        for words in ("Is it repaired?", "By kind of position", "By the deeper judge", "Matches", "Stages")
    ]
    assert places == sorted(places)


# -- ended in the middle ----------------------------------------------------------------------------------------------


def start(folder: Path) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "valuerepair", "repair", "-o", str(folder)]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def wait_for(process: subprocess.Popen[str], stage: str) -> None:
    """Until the stage has begun."""
    assert process.stderr is not None
    for line in process.stderr:
        if re.match(rf"\[\d+/\d+\] {stage}: ", line):
            return
    raise AssertionError(f"ended before {stage}, with {process.wait()}")


def mine_long(folder: Path) -> None:
    """Plans enough positions for mining to last until a signal comes."""
    settings = folder / toml.FILE
    settings.write_text(settings.read_text("utf-8").replace("positions = 2000 ", "positions = 25000 "), "utf-8")


def kill(process: subprocess.Popen[str]) -> None:
    """All of it at once, as when the machine stops."""
    family = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    for child in family:
        child.kill()
    process.wait()
    psutil.wait_procs(family)


def results(folder: Path) -> Iterator[tuple[str, Any]]:
    """What must not depend on how often it was ended."""
    for name in NETS:
        yield name, (folder / name).read_bytes()
    for path in sorted(folder.glob("*.json")):
        if path.name != "stages.json" and "match" not in path.name:
            yield path.name, path.read_text("utf-8").replace(str(folder), "")


@pytest.fixture
def begun(whole: tuple[Path, RepairOutcome], tmp_path: Path) -> Path:
    """The folder of the same repair, with nothing done."""
    folder = tmp_path / "repair"
    folder.mkdir()
    shutil.copy(whole[0] / toml.FILE, folder / toml.FILE)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("wait", [0.2, 1.5, 3.5])
def test_killed_in_every_stage_it_comes_to_the_same(
    begun: Path, whole: tuple[Path, RepairOutcome], wait: float
) -> None:
    for stage_note in notes(whole[0]):
        done = [note["name"] for note in notes(begun) if note["done"]] if (begun / "stages.json").exists() else []
        if stage_note["name"] in done:
            continue  # on a quick machine, within the wait for the stage before
        process = start(begun)
        wait_for(process, stage_note["name"])
        time.sleep(wait)
        kill(process)
    vr.repair(output=begun)
    assert [note["name"] for note in notes(begun) if note["done"]] == [note["name"] for note in notes(whole[0])]
    assert dict(results(begun)) == dict(results(whole[0]))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.slow
def test_a_signal_ends_the_stage_cleanly_and_says_how_to_go_on(begun: Path, number: int) -> None:
    mine_long(begun)
    process = start(begun)
    wait_for(process, "mine")
    time.sleep(2.5)
    (stage,) = psutil.Process(process.pid).children()
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"not done yet: vr repair -o {begun} resumes it" in err
    assert "Traceback" not in err
    assert not stage.is_running()
    (noted,) = notes(begun)
    assert (noted["name"], noted["done"]) == ("mine", False)
    assert not (begun / "repair.lock").exists()
