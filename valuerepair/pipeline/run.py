"""Runs a repair stage by stage: records finished stages, and repeats a changed stage and all stages after it."""

from __future__ import annotations

import ctypes
import hashlib
import json
import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from math import ceil
from pathlib import Path
from typing import IO, Annotated, Any

import msgspec

from valuerepair import signals
from valuerepair.chess.progress import format_duration
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import HeldError, claimed, written_whole
from valuerepair.inputs import Record, Seconds, read_json
from valuerepair.judge.q_scale import for_both
from valuerepair.nets.registry import locate
from valuerepair.pipeline.plan import CONTROL, PAGE, Q_SCALES, REPAIRED, STORE, Plan, Stage, TooLittleTime, plan
from valuerepair.pipeline.rates import rates
from valuerepair.pipeline.settings import (
    FILE,
    HeldOutShares,
    Settings,
    default_deep,
    default_test_deep,
    differing,
    read,
    write,
)
from valuerepair.text import quantity
from valuerepair.training.chunk_files import find_archives

log = logging.getLogger(__name__)

NOTES = "stages.json"
LOCK = "repair.lock"
_TICK_S = 0.2
_DIGITS = 12  # of an oracle's digest
_PR_SET_PDEATHSIG = 1
_HOLDER = 40  # bytes for the name of the lock's holder


@dataclass(frozen=True, slots=True)
class StageNote:
    """The record of a stage: its `command`, the `expected` time, the time so far (s), and whether it is `done`."""

    name: str
    command: str
    identity: str
    expected: Seconds
    seconds: Seconds = 0.0
    done: bool = False


class _StageList(Record):
    stages: list[StageNote]


class StageNotes:
    """The stages that have started, in their order, as in stages.json."""

    def __init__(self, folder: Path) -> None:
        """Raises ValueRepairError if the file is something else."""
        self._path = folder / NOTES
        self.stages: list[StageNote] = []
        if self._path.exists():
            try:
                self.stages = read_json(self._path, _StageList, "a list of stages").stages
            except (OSError, ValueRepairError) as error:
                raise ValueRepairError(f"{error}; remove it to start over") from None

    def of(self, stage: Stage) -> StageNote | None:
        """The record of the stage; None if it has not started."""
        return next((noted for noted in self.stages if noted.name == stage.name), None)

    def note(self, noted: StageNote) -> None:
        """Replaces the record of the stage, also on disk."""
        other_stages = [other for other in self.stages if other.name != noted.name]
        self.stages = [*other_stages, noted]
        self._write()

    def forget(self, names: Sequence[str]) -> None:
        """Forgets these stages."""
        self.stages = [noted for noted in self.stages if noted.name not in names]
        self._write()

    def _write(self) -> None:
        content = {"stages": [asdict(noted) for noted in self.stages]}
        with written_whole(self._path) as partial:
            partial.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")


# -- planning ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Repair:
    """A repair in a folder: its plan and its state. `identities` name each stage's work, without the folder's path."""

    folder: Path
    plan: Plan
    identities: Mapping[str, str]
    notes: StageNotes

    def first_undone(self) -> int:
        """The index of the first stage that is not done, was done with another command, or whose file was removed."""
        if not (self.folder / STORE).exists():
            return 0
        for number, stage in enumerate(self.plan.stages):
            noted = self.notes.of(stage)
            if noted is None or not noted.done or noted.identity != self.identities[stage.name]:
                return number
            if not all((self.folder / name).exists() for name in (stage.output, *stage.makes) if name):
                return number
        return len(self.plan.stages)

    def command(self, stage: Stage) -> str:
        """The command line, which can also be run alone."""
        command = shlex.join(["vr", *self.words(stage)])
        return f"{command} > {shlex.quote(str(self.folder / stage.output))}" if stage.output else command

    def words(self, stage: Stage) -> list[str]:
        """The words of the command; in a match with the numbers that put both nets' Q on one scale, if known."""
        words = [*stage.words, *stage.elsewhere]
        if stage.scaled_by and (numbers := q_scales(self.folder, stage)) is not None:
            for name, number in zip(Q_SCALES, numbers, strict=True):
                words = [word.replace(f"q_scale={name}", f"q_scale={number:.3f}") for word in words]
        return words

    def as_json(self) -> dict[str, Any]:
        """The plan, JSON-able: a row for each stage, in their order; `seconds` are expected."""
        begin = self.first_undone()
        rows = [
            {
                "name": stage.name,
                "command": self.command(stage),
                "size": stage.size,
                "seconds": stage.seconds,
                "done": number < begin,
            }
            for number, stage in enumerate(self.plan.stages)
        ]
        return {"stages": rows, "seconds": sum(stage.seconds for stage in self.plan.stages[begin:])}

    def lines(self) -> list[str]:
        """The plan for a terminal: each stage with its size, its time and its command."""
        begin, lines = self.first_undone(), []
        for number, stage in enumerate(self.plan.stages):
            noted = self.notes.of(stage)
            done = number < begin and noted is not None
            took = f"done, {format_duration(noted.seconds)}" if done and noted else format_duration(stage.seconds)
            lines += [f"{stage.name:<17}{stage.size:<58}{took:>12}", f"  {self.command(stage)}"]
        remaining = sum(stage.seconds for stage in self.plan.stages[begin:])
        label = "in all" if not begin else "still to come"
        return [*lines, f"{'':<17}{label:<58}{format_duration(remaining):>12}", *self.plan.limits]


def q_scales(folder: Path, stage: Stage) -> tuple[float, float] | None:
    """The numbers that multiply the Q of the repaired net and of its opponent in a match, so that both are equally
    steep in the positions of an earlier match.

    None before that match. Raises ValueRepairError if its output has no such numbers.
    """
    path = folder / stage.scaled_by
    if not path.exists():
        return None
    try:
        return for_both(read_json(path, _MatchOutput, "a match").q_scale.value)
    except (OSError, ValueRepairError) as error:
        raise ValueRepairError(f"{error}; remove it") from None


class _Scale(msgspec.Struct):
    value: Annotated[float, msgspec.Meta(gt=0, le=1e6)]


class _MatchOutput(msgspec.Struct):
    """The part of the output of `vr match --json` that another match needs."""

    q_scale: _Scale


def read_settings(folder: Path, given: Mapping[str, Any]) -> Settings:
    """The settings of a folder; for a new folder the `given` ones, and defaults for the others.

    Raises UsageError for invalid settings, in the file or on the command line.
    """
    path = folder / FILE
    if path.exists():
        stored = read(path)
        for line in differing(given, stored):
            log.info(line)
        return stored
    if not given.get("archives") and not given.get("store"):
        raise UsageError(f"{folder}: there is no repair to resume; give archives of games, and --net")
    deep = given.get("deep") or default_deep()
    former = next_round(given.get("net", ""))
    if former and "seed" not in given and not given.get("store"):
        log.info(f"{given['net']}: is of an earlier vr repair; seed {former['seed']} draws other positions")
    chosen = {**former, **given}
    if given.get("store"):
        # Invalid settings are reported before the store is opened.
        settings = Settings(**chosen)
        deep, digest = judge_of(settings.store, settings.net, given.get("deep"))
        chosen["oracle"] = digest[:_DIGITS]
    return Settings(**{"test_deep": default_test_deep(deep), **chosen, "deep": deep})


def next_round(net: str) -> dict[str, Any]:
    """The settings of a repair whose net a former repair made, if the net still lies in its folder; else none.

    The next seed draws other positions. Games and families are held out by the former seed, so that the net has not
    learned from the held-out games; families may differ by a few.
    """
    path = Path(net)
    if path.name not in (REPAIRED, CONTROL):
        return {}
    try:
        former = read(path.with_name(FILE))
    except UsageError:  # not the folder of a repair of this version
        return {}
    held_out = former.seed if former.split.seed is None else former.split.seed
    return {"seed": former.seed + 1, "split": HeldOutShares(seed=held_out)}


def judge_of(path: str, net: str, deep: str | None) -> tuple[str, str]:
    """The ``--deep`` text and the digest of the judge that has most values of this net in a store.

    Raises UsageError for a store without values of the net, for another judge than `deep`, and for a judge that cannot
    search again; ValueRepairError for a store in which nothing is scored.
    """
    from valuerepair.judge.compared_nets import find_oracle, lacking, measuring_command
    from valuerepair.runs.stored_oracle import stored_spec
    from valuerepair.store.second_looks import oracle_of
    from valuerepair.store.store import Store

    file = str(locate(net))
    with Store.open(path) as store:
        command = measuring_command(store, file)
        try:
            pair = store.pick(file)
        except ValueRepairError as error:
            raise UsageError(f"--store {path}: {error}; give --net, or first run: {command}") from None
        if deep is not None and store.pick(file, deep) != pair:
            raise UsageError(f"--deep {deep}: most positions of {path} have another judge; leave --deep out")
        oracle = oracle_of(store.connection, store.names(*pair)[1])
        if missing := len(lacking(store, pair[0], find_oracle(store, oracle.digest, []))):
            log.warning(
                f"warning: {path} has no values of {net} for {quantity(missing, 'position')}, which it will not learn; "
                f"to add them: {command}"
            )
    if deep is not None:
        return deep, oracle.digest
    try:
        return stored_spec(oracle), oracle.digest
    except UsageError as error:
        raise UsageError(f"--store {path}: its judge, {oracle.label}, cannot be run again: {error}") from None


def planned(
    folder: Path, settings: Settings, *, cluster: str | None = None, quiet: bool = False, for_display: bool = False
) -> Repair:
    """The plan and the state of a repair. Measures this machine unless the folder has its rates.

    If the budget is too small, a plan `for_display` is the shortest one and takes longer. Raises UsageError and
    ValueRepairError if something would not run.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"-o {folder}: is a file, not a folder")
    notes = StageNotes(folder)
    done = " ".join(noted.identity for noted in notes.stages if noted.done)
    # Chunks that are already mixed need not exist any more.
    find_archives([path for path in settings.normal if f"--normal {shlex.quote(path)} " not in done])
    speed = rates(settings, folder, quiet=quiet)
    try:
        chosen = plan(settings, speed, folder, cluster)
    except TooLittleTime as error:
        if not for_display:
            raise
        log.info(f"{error}; this is the plan for that")
        settings = replace(settings, budget=f"{ceil(error.seconds)}s")
        chosen = plan(settings, speed, folder, cluster)
    # The identity depends neither on the folder's path nor on the working directory; a net is identified by its
    # content.
    relative, net = plan(chosen.settings, speed, Path(), None), digest_of(settings.net)
    identities = {stage.name: f"{shlex.join(stage.words)} # {net}" for stage in relative.stages}
    return Repair(folder, chosen, identities, notes)


def digest_of(net: str) -> str:
    """The beginning of the SHA-256 of a net's file. Raises ValueRepairError if it cannot be read."""
    path = locate(net)
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise ValueRepairError(f"--net {path}: {error.strerror}") from None


# -- running ----------------------------------------------------------------------------------------------------------


def run(repair: Repair, *, quiet: bool = False) -> None:
    """Runs the stages that are not done. The same call resumes a run, whatever ended it.

    Raises ValueRepairError if a stage fails (its own message is on standard error), or if another process works in the
    same folder; KeyboardInterrupt once an interrupted stage has ended.
    """
    folder = repair.folder
    with ExitStack() as stack:
        try:
            lock = stack.enter_context(claimed(folder / LOCK))
        except HeldError as error:
            holder = error.content.decode("ascii", "replace").strip()
            raise ValueRepairError(f"{folder}: another vr repair is already running (process {holder})") from None
        os.pwrite(lock, str(os.getpid()).ljust(_HOLDER).encode(), 0)
        stack.callback(os.ftruncate, lock, 0)
        if not (folder / FILE).exists():
            _check_no_other_files(repair)
            write(repair.plan.settings, folder / FILE)
        begin = repair.first_undone()
        _check_store(repair, begin)
        _remove_old_results(repair, begin)
        for number, stage in enumerate(repair.plan.stages[begin:], begin + 1):
            which = f"[{number}/{len(repair.plan.stages)}] {stage.name}"
            _check_trained(repair, stage)
            log.info(f"{which}: {stage.size}; expected: {format_duration(stage.seconds)}")
            log.info(f"$ {repair.command(stage)}")
            _run_stage(repair, stage, lock, quiet)


def _check_no_other_files(repair: Repair) -> None:
    """Raises UsageError if a new repair's folder has files named like its results, which would be taken for these."""
    if repair.notes.stages:
        return
    stage_files = (name for stage in repair.plan.stages for name in (*stage.makes, *stage.leaves, stage.output))
    if present := sorted(name for name in {STORE, PAGE, *stage_files} if name and (repair.folder / name).exists()):
        raise UsageError(
            f"{repair.folder}: has files of something else ({', '.join(present)}); give another folder by -o"
        )


def _check_store(repair: Repair, begin: int) -> None:
    """Raises UsageError if the store has values of another judge or net: they would be mistaken for the new ones.

    Positions of the same judge and net may already be in it.
    """
    if begin > 0 or not (repair.folder / STORE).exists():
        return
    stage = repair.plan.stages[0]
    noted = repair.notes.of(stage)
    if noted is None or noted.identity == repair.identities[stage.name]:
        return
    before, now = (_without_size(shlex.split(identity)) for identity in (noted.identity, repair.identities[stage.name]))
    if before != now:
        difference = noted.command if before[:-1] != now[:-1] else f"{repair.plan.settings.net} has been replaced since"
        raise UsageError(
            f"{repair.folder}: its store was mined differently ({difference}); give another folder, or remove {STORE}"
        )


def _without_size(words: list[str]) -> list[str]:
    free = ("--positions", "--off-game", "--threshold", "--alpha")
    return [word for i, word in enumerate(words) if word not in free and (not i or words[i - 1] not in free)]


def _check_trained(repair: Repair, stage: Stage) -> None:
    """Raises ValueRepairError if a stage compares nets, and training has written the old net again."""
    repaired = str(repair.folder / REPAIRED)
    if stage.words[0] in ("compare", "match") and digest_of(repaired) == digest_of(repair.plan.settings.net):
        raise ValueRepairError(
            f"{repaired} is the old net: no step of the training was better on held-out games, so there is nothing to "
            f"compare; give it more positions, or change [train] or steps in {repair.folder / FILE}"
        )


def _remove_old_results(repair: Repair, begin: int) -> None:
    """Removes the files that will be made again: those of the first changed stage and of all stages after it."""
    stages = repair.plan.stages[begin:]
    first = repair.notes.of(stages[0]) if stages else None
    if first is not None and not first.done and first.identity == repair.identities[first.name]:
        stages = stages[1:]  # it has started, and resumes
    for stage in stages:
        for name in (*stage.makes, *stage.leaves, *([stage.output] if stage.output else [])):
            path = repair.folder / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    if stages:
        (repair.folder / PAGE).unlink(missing_ok=True)  # it shows nets that will be replaced
    repair.notes.forget([stage.name for stage in stages])


def _run_stage(repair: Repair, stage: Stage, lock: int, quiet: bool) -> None:
    """Runs a stage to its end, and records its time. A stage whose result is complete is not run again."""
    before = repair.notes.of(stage)
    noted = StageNote(stage.name, repair.command(stage), repair.identities[stage.name], stage.seconds)
    if before is not None:
        noted = replace(noted, seconds=before.seconds)
    repair.notes.note(noted)
    start = time.monotonic()
    code, interrupted = 0, False
    if before is None or not _is_complete(repair.folder, stage):
        code, interrupted = _run_command(repair, stage, lock, quiet)
    noted = replace(noted, seconds=noted.seconds + time.monotonic() - start, done=code == 0)
    repair.notes.note(noted)
    if interrupted or code == signals.EXIT_CODE:
        raise KeyboardInterrupt
    if code:
        why = f"was ended by signal {-code}" if code < 0 else f"failed (exit code {code})"
        raise ValueRepairError(f"{stage.name} {why}, see above; fix that, and run the same command again to resume")


def _is_complete(folder: Path, stage: Stage) -> bool:
    """Whether the stage's result is complete: a net without a checkpoint, a file that is written at the end."""
    if stage.output:
        return (folder / stage.output).exists()
    unfinished = [name for name in stage.leaves if name.endswith(".checkpoint") and (folder / name).exists()]
    return bool(stage.final) and (folder / stage.final).exists() and not unfinished


def _run_command(repair: Repair, stage: Stage, lock: int, quiet: bool) -> tuple[int, bool]:
    """Runs a stage's command; returns its exit code, and whether a signal came, which is passed on to it.

    The command has a session of its own, so that Ctrl-C reaches it once, through this process; and it holds the lock,
    so that no other repair starts while it lives. On Linux it dies with this process, also by kill -9. Its words are
    all its settings: defaults from valuerepair.toml and the environment, which may change, do not reach it.
    """
    words = [sys.executable, "-m", "valuerepair", *repair.words(stage)]
    words += ["-q"] if quiet else []
    defaults = (f"VR_{stage.words[0].upper()}_", "VR_DB")
    env = {name: value for name, value in os.environ.items() if not name.startswith(defaults)} | {signals.STAGE: "1"}
    if not stage.output:
        return _run_process(words, subprocess.DEVNULL if quiet else None, lock, env)
    target = repair.folder / stage.output
    partial = target.with_name(f".{target.name}.part")
    try:
        with partial.open("wb") as out:
            code, interrupted = _run_process(words, out, lock, env)
        if not code:
            os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    return code, interrupted


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _run_process(words: list[str], out: IO[bytes] | int | None, lock: int, env: Mapping[str, str]) -> tuple[int, bool]:
    signals.check()
    passed_on = 0
    with (
        signals.left_to_loop(),
        subprocess.Popen(
            words, stdout=out, env=env, pass_fds=(lock,), start_new_session=True, preexec_fn=_die_with_parent
        ) as process,
    ):
        os.pwrite(lock, f"{os.getpid()}, its stage {process.pid}".ljust(_HOLDER).encode(), 0)
        while process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_TICK_S)
            if signals.count() > passed_on:
                passed_on += 1
                process.send_signal(signal.SIGTERM)  # not SIGINT, which prints a traceback while Python starts
        return process.returncode, signals.count() > 0
