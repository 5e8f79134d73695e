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
from pathlib import Path
from typing import IO, Any

from valuerepair import stop
from valuerepair.archives.open import find_sources
from valuerepair.engines.kinds import kind_of, parse_spec
from valuerepair.errors import UsageError, ValueRepairError, one_line
from valuerepair.files import VR, HeldError, claimed, written_whole
from valuerepair.measure.q_scale import for_both
from valuerepair.nets.registry import locate
from valuerepair.pipeline.settings import FILE, Settings, Sizes, default_deep, default_test_deep, differing, read, write
from valuerepair.pipeline.stages import PAGE, Q_SCALES, REPAIRED, STORE, Stage, stages

log = logging.getLogger(__name__)

NOTES = "stages.json"
LOCK = "repair.lock"
_TICK_S = 0.2
_DIGITS = 12  # of a judge's digest
_PR_SET_PDEATHSIG = 1
_HOLDER = 40  # bytes for the name of the lock's holder


@dataclass(frozen=True, slots=True)
class StageNote:
    """The record of a stage: its `command`, the time so far (s), and whether it is `done`."""

    name: str
    command: str
    identity: str
    seconds: float = 0.0
    done: bool = False


class StageNotes:
    """The stages that have started, in their order, as in stages.json."""

    def __init__(self, folder: Path) -> None:
        """Raises ValueRepairError if the file is something else."""
        self._path = folder / NOTES
        self.stages: list[StageNote] = []
        if self._path.exists():
            try:
                self.stages = [StageNote(**row) for row in json.loads(self._path.read_text("utf-8"))["stages"]]
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise ValueRepairError(
                    f"{self._path}: is not a list of stages ({one_line(error)}); remove it to start over"
                ) from None

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


# -- settings and stages ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Repair:
    """A repair in a folder: its settings, stages and state. `identities` name each stage's work, without the folder's
    path."""

    folder: Path
    settings: Settings
    stages: Sequence[Stage]
    identities: Mapping[str, str]
    notes: StageNotes

    @staticmethod
    def of(folder: Path, settings: Settings) -> Repair:
        """The repair with its state. Raises UsageError and ValueRepairError if something would not run."""
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"-o {folder}: is a file, not a folder")
        # The identity depends neither on the folder's path nor on the working directory; a net is identified by its
        # content.
        net = digest_of(settings.net)
        identities = {stage.name: f"{shlex.join(stage.words)} # {net}" for stage in stages(settings, Path())}
        return Repair(folder, settings, stages(settings, folder), identities, StageNotes(folder))

    def first_undone(self) -> int:
        """The index of the first stage that is not done, was done with another command, or whose file was removed."""
        if not (self.folder / STORE).exists():
            return 0
        for number, stage in enumerate(self.stages):
            noted = self.notes.of(stage)
            if noted is None or not noted.done or noted.identity != self.identities[stage.name]:
                return number
            if not all((self.folder / name).exists() for name in (stage.output, *stage.makes) if name):
                return number
        return len(self.stages)

    def command(self, stage: Stage) -> str:
        """The command line, which can also be run alone."""
        command = shlex.join(["vr", *self.words(stage)])
        return f"{command} > {shlex.quote(str(self.folder / stage.output))}" if stage.output else command

    def words(self, stage: Stage) -> list[str]:
        """The words of the command; in a match with the numbers that put both nets' Q on one scale, if known."""
        words = list(stage.words)
        if stage.scaled_by and (numbers := q_scales(self.folder, stage)) is not None:
            for name, number in zip(Q_SCALES, numbers, strict=True):
                words = [word.replace(f"q_scale={name}", f"q_scale={number:.3f}") for word in words]
        return words


def q_scales(folder: Path, stage: Stage) -> tuple[float, float] | None:
    """The numbers that multiply the Q of the repaired net and of its opponent in a match, so that both are equally
    steep in the positions of an earlier match.

    None before that match. Raises ValueRepairError if its output has no such numbers.
    """
    path = folder / stage.scaled_by
    if not path.exists():
        return None
    try:
        return for_both(float(json.loads(path.read_text("utf-8"))["q_scale"]["value"]))
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError) as error:
        raise ValueRepairError(f"{path}: is not the result of a match ({one_line(error)}); remove it") from None


def read_settings(folder: Path, given: Mapping[str, Any]) -> Settings:
    """The settings of a folder; for a new folder the `given` ones, and defaults for the others.

    `positions` among the given ones sets all sizes; without it those of a store follow from its judged positions.
    Raises UsageError for invalid settings, in the file or on the command line, and for an archive, a net or an engine
    that is missing.
    """
    path = folder / FILE
    if path.exists():
        stored = read(path)
        for line in differing(given, stored):
            log.info(line)
        return stored
    if not given.get("archives") and not given.get("db"):
        raise UsageError(f"{folder}: there is no repair to resume; give archives of games, and --net")
    chosen = {name: value for name, value in given.items() if name != "positions"}
    if (positions := given.get("positions")) is not None:
        chosen["sizes"] = Sizes.of(positions)
    if given.get("db") and given.get("deep"):
        raise UsageError("--deep: the store given by --db has its judge; leave one of them out")
    deep = given.get("deep") or default_deep()
    settings = Settings(**{"test_deep": default_test_deep(deep), **chosen, "deep": deep})
    _check_inputs(settings)
    if settings.db:
        deep, digest, judged = judge_of(settings.db, settings.net)
        sizes = settings.sizes if positions is not None else Sizes.of(judged)
        test_deep = given.get("test_deep", default_test_deep(deep))
        settings = replace(settings, deep=deep, test_deep=test_deep, judge=digest[:_DIGITS], sizes=sizes)
    return settings


def _check_inputs(settings: Settings) -> None:
    """Raises UsageError or ValueRepairError if an archive, the net, the engine or JAX is missing."""
    from valuerepair.nets.weights import read_net_file
    from valuerepair.training.train import check_jax

    if settings.archives:
        find_sources(settings.archives)
    if read_net_file(locate(settings.net)).header is None:
        raise UsageError(f"--net {settings.net}: an ONNX file cannot be trained; give the .pb.gz that it was made of")
    judge = parse_spec(settings.deep)
    if not settings.db and not judge.kind.built_in:
        judge.kind.program(judge)
    check_jax()


def judge_of(path: str, net: str) -> tuple[str, str, int]:
    """The ``--deep`` text and the digest of the judge of this net's values in a store, and the number of its positions.

    Raises UsageError for a store without values of the net, and for a judge that cannot search again.
    """
    from valuerepair.store import columns, pairs
    from valuerepair.store.store import Store

    with Store.open(path) as store:
        try:
            pair = pairs.pick(store, str(locate(net)))
        except ValueRepairError as error:
            raise UsageError(f"--db {path}: {error}; give a net that mined it by --net") from None
        judge = pairs.judge_of(store, pair[1])
        judged = len(columns.columns(store, pair, (), beside=True, screened=True)["position_id"])
    try:
        return kind_of(judge.kind).spec_of(judge).text, judge.digest, judged
    except UsageError as error:
        raise UsageError(f"--db {path}: its judge, {judge.label}, cannot be run again: {error}") from None


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
    folder.mkdir(parents=True, exist_ok=True)
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
            write(repair.settings, folder / FILE)
        begin = repair.first_undone()
        _check_store(repair, begin)
        _remove_old_results(repair, begin)
        for number, stage in enumerate(repair.stages[begin:], begin + 1):
            _check_trained(repair, stage)
            log.info(f"[{number}/{len(repair.stages)}] {stage.name}: {stage.size}")
            log.info(f"$ {repair.command(stage)}")
            _run_stage(repair, stage, lock, quiet)


def _check_no_other_files(repair: Repair) -> None:
    """Raises UsageError if a new repair's folder has files named like its results, which would be taken for these."""
    if repair.notes.stages:
        return
    stage_files = (name for stage in repair.stages for name in stage.files)
    if present := sorted(name for name in {STORE, PAGE, *stage_files} if (repair.folder / name).exists()):
        raise UsageError(
            f"{repair.folder}: has files of something else ({', '.join(present)}); give another folder by -o"
        )


def _check_store(repair: Repair, begin: int) -> None:
    """Raises UsageError if the store has values of another judge or net: they would be mistaken for the new ones.

    Positions of the same judge and net may already be in it.
    """
    if begin > 0 or not (repair.folder / STORE).exists():
        return
    stage = repair.stages[0]
    noted = repair.notes.of(stage)
    if noted is None or noted.identity == repair.identities[stage.name]:
        return
    before, now = (_without_size(shlex.split(identity)) for identity in (noted.identity, repair.identities[stage.name]))
    if before != now:
        difference = noted.command if before[:-1] != now[:-1] else f"{repair.settings.net} has been replaced since"
        raise UsageError(
            f"{repair.folder}: its store was mined differently ({difference}); give another folder, or remove {STORE}"
        )


def _without_size(words: list[str]) -> list[str]:
    free = ("--positions", "--off-game", "--threshold")
    return [word for i, word in enumerate(words) if word not in free and (not i or words[i - 1] not in free)]


def _check_trained(repair: Repair, stage: Stage) -> None:
    """Raises ValueRepairError if a stage compares nets, and training has written the old net again."""
    repaired = str(repair.folder / REPAIRED)
    if stage.words[0] in ("compare", "match") and digest_of(repaired) == digest_of(repair.settings.net):
        raise ValueRepairError(
            f"{repaired} is the old net: no step of the training was better on held-out games, so there is nothing to "
            f"compare; give it more positions, or change [train] or steps in {repair.folder / FILE}"
        )


def _remove_old_results(repair: Repair, begin: int) -> None:
    """Removes the files that will be made again: those of the first changed stage and of all stages after it."""
    undone = repair.stages[begin:]
    first = repair.notes.of(undone[0]) if undone else None
    if first is not None and not first.done and first.identity == repair.identities[first.name]:
        undone = undone[1:]  # it has started, and resumes
    for stage in undone:
        for name in stage.files:
            path = repair.folder / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    if undone:
        (repair.folder / PAGE).unlink(missing_ok=True)  # it shows nets that will be replaced
    repair.notes.forget([stage.name for stage in undone])


def _run_stage(repair: Repair, stage: Stage, lock: int, quiet: bool) -> None:
    """Runs a stage to its end, and records its time. A stage whose result is complete is not run again."""
    before = repair.notes.of(stage)
    noted = StageNote(stage.name, repair.command(stage), repair.identities[stage.name])
    if before is not None:
        noted = replace(noted, seconds=before.seconds)
    repair.notes.note(noted)
    start = time.monotonic()
    code, interrupted = 0, False
    if before is None or not _is_complete(repair.folder, stage):
        code, interrupted = _run_command(repair, stage, lock, quiet)
    noted = replace(noted, seconds=noted.seconds + time.monotonic() - start, done=code == 0)
    repair.notes.note(noted)
    if interrupted or code == stop.EXIT_CODE:
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
    words = [*VR, *repair.words(stage)]
    words += ["-q"] if quiet else []
    defaults = (f"VR_{stage.words[0].upper()}_", "VR_DB")
    env = {name: value for name, value in os.environ.items() if not name.startswith(defaults)} | {stop.STAGE: "1"}
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
    passed_on = False
    with (
        stop.flag(),
        subprocess.Popen(
            words, stdout=out, env=env, pass_fds=(lock,), start_new_session=True, preexec_fn=_die_with_parent
        ) as process,
    ):
        os.pwrite(lock, f"{os.getpid()}, its stage {process.pid}".ljust(_HOLDER).encode(), 0)
        while process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_TICK_S)
            if stop.asked() and not passed_on:
                passed_on = True
                process.send_signal(signal.SIGTERM)  # not SIGINT, which prints a traceback while Python starts
        return process.returncode, stop.asked()
