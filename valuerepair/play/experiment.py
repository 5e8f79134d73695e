"""Experiments: settings of the search that play games, each kept as it ends, so that the same command goes on.

A trial is a setting that plays itself, or two that play each other. Its games lie in one file of JSON lines, whose
first line says what they were played with; no game is ever played twice, and more games can be asked for later.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.mcts.params import SearchParams
from valuerepair.oracles.mcts_oracle import SEARCH_REVISION
from valuerepair.play.openings import Opening
from valuerepair.play.player import Player
from valuerepair.play.record import GameRecord
from valuerepair.play.referee import Rules
from valuerepair.play.runner import Pairing, play_games

Opener = Callable[["Contestant"], Player]
# Hears of each trial before it is played: its games that are missing, and the work (`work_of`) of the trials after it.
OnTrial = Callable[["Trial", Sequence[int], float], None]


@dataclass(frozen=True, slots=True)
class Contestant:
    """A setting of the search under its name: parameters and nodes a move."""

    name: str
    params: SearchParams
    nodes: int


@dataclass(frozen=True, slots=True)
class Trial:
    """Games of one contestant with itself, or of two: the first is the one whose wins count.

    Self-play takes the openings in turn, again and again. Two contestants play each opening with both colours, games 2k
    and 2k + 1; with `first_is_weaker` each opening once, the first one with the side that has less material.
    """

    name: str
    sides: tuple[Contestant, ...]
    openings: Sequence[Opening]
    games: int
    first_is_weaker: bool = False

    def pairing(self, number: int) -> Pairing:
        """Who plays what in the game of this number."""
        if len(self.sides) == 1:
            return Pairing(number, self.openings[number % len(self.openings)], 0, 0)
        if self.first_is_weaker:
            opening = self.openings[number % len(self.openings)]
            white_has_less = white_material(opening.fen) < 0
            return Pairing(number, opening, int(not white_has_less), int(white_has_less))
        return Pairing(number, self.openings[number // 2 % len(self.openings)], number % 2, 1 - number % 2)


def work_of(trial: Trial, games: int) -> float:
    """What so many games of a trial cost, in nodes a move: games of one experiment are about equally long."""
    return games * sum(side.nodes for side in trial.sides) / len(trial.sides)


@dataclass(frozen=True, slots=True)
class Played:
    """A game as it is kept. `moves` are those after the book.

    `gaps` are, for each of them, the net's own value less that of the search (Q of the best move), for the side to
    move, to three digits; None where the player is no search of ours. `nodes` are those of the whole game.
    """

    number: int
    opening: int
    white: str
    black: str
    result: str
    ending: str
    moves: tuple[str, ...]
    gaps: tuple[float | None, ...]
    nodes: int


@dataclass(frozen=True, slots=True)
class Conditions:
    """What all trials of an experiment have in common; `net` is the net's key."""

    net: str
    rules: Rules
    seed: int
    jobs: int


class GameFile:
    """The games of a trial in a file: reading it changes nothing, and any number may read while one writes.

    A line that was cut off by a crash is left out. Raises UsageError for a file of other conditions.
    """

    def __init__(self, path: Path, identity: dict[str, Any]) -> None:
        self.path, self._identity = path, identity
        self.games: dict[int, Played] = {}
        self._file: FileIO | None = None
        self._read()

    def begin(self) -> None:
        """Takes the right to add games, until `close`. Raises ValueRepairError where another process has it."""
        if self._file is not None:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = self.path.open("ab", buffering=0)
        except OSError as error:
            raise ValueRepairError(f"{self.path}: {error.strerror}; give another folder with --out") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise ValueRepairError(f"{self.path}: another vr plays these games; wait until it is done") from None
        self._file = file
        whole = self._read()
        file.truncate(whole)
        if not whole:
            self._write(self._identity)

    def missing(self, trial: Trial) -> list[int]:
        """The numbers of the trial's games that are not kept yet."""
        return [number for number in range(trial.games) if number not in self.games]

    def add(self, played: Played) -> None:
        """Keeps a game: it is in the file when this returns. Only after `begin`."""
        row = {name: getattr(played, name) for name in Played.__slots__}
        self._write(row | {"moves": " ".join(played.moves)})
        self.games[played.number] = played

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> GameFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, row: dict[str, Any]) -> None:
        """The whole line or nothing of it: what a full disk left of it is cut off again."""
        if self._file is None:
            raise RuntimeError("begin() before games are added")
        end, rest = os.fstat(self._file.fileno()).st_size, memoryview(_line(row))
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self._file.truncate(end)
            raise ValueRepairError(
                f"{self.path}: {error.strerror}; all games before are kept: make room, and give the same command again"
            ) from None

    def _read(self) -> int:
        """Reads the games; the bytes of whole lines."""
        content = self.path.read_bytes() if self.path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        lines = whole.splitlines()
        if lines:
            self._check(_parsed(lines[0]))
        for number, line in enumerate(lines[1:], 2):
            row = _parsed(line)
            if not isinstance(row, dict) or set(row) != set(Played.__slots__):
                raise ValueRepairError(f"{self.path}:{number}: not a game of an experiment")
            row |= {"moves": tuple(row["moves"].split()), "gaps": tuple(row["gaps"])}
            played = Played(**row)
            self.games[played.number] = played
        return len(whole)

    def _check(self, kept: Any) -> None:
        wanted = json.loads(_line(self._identity))
        if kept == wanted:
            return
        before = kept if isinstance(kept, dict) else {}
        other = sorted(name for name in {*wanted, *before} if wanted.get(name) != before.get(name))
        raise UsageError(
            f"{self.path}: its games were played with other {', '.join(other)}; give another folder with --out"
        )


def game_file(folder: str | os.PathLike[str], trial: Trial, conditions: Conditions) -> GameFile:
    """The file of a trial's games in the experiment's folder."""
    return GameFile(trial_path(folder, trial.name), _identity(trial, conditions))


def trial_path(folder: str | os.PathLike[str], name: str) -> Path:
    """Where the games of the trial of this name are kept."""
    return Path(folder) / "games" / f"{re.sub('[^A-Za-z0-9_.=+-]+', '-', name)}.jsonl"


def kept_identity(folder: str | os.PathLike[str], name: str) -> dict[str, Any] | None:
    """What the kept games of that name were played with; None where there are none."""
    path = trial_path(folder, name)
    if not path.exists():
        return None
    with path.open("rb") as lines:
        found = _parsed(lines.readline())
    return found if isinstance(found, dict) else None


def play_trial(
    trial: Trial,
    kept: GameFile,
    conditions: Conditions,
    open_player: Opener,
    halted: Callable[[], bool] = lambda: False,
) -> Iterator[Played]:
    """Plays the games that are missing, and yields each as it is kept; none is played when all are there."""
    missing = kept.missing(trial)
    if not missing or halted():
        return
    kept.begin()
    players: list[Player] = []
    try:
        players += [open_player(side) for side in trial.sides]
        pairings = (trial.pairing(number) for number in missing)
        rules, jobs = conditions.rules, min(conditions.jobs, len(missing))
        for record in play_games(pairings, players, rules, jobs, seed=conditions.seed, halted=halted):
            played = played_of(record)
            kept.add(played)
            yield played
    finally:
        for player in players:
            player.close(cancel=True)


def played_of(record: GameRecord) -> Played:
    """What is kept of a game."""
    return Played(
        record.number,
        record.opening,
        record.white,
        record.black,
        record.result,
        record.ending,
        tuple(thought.move for thought in record.thoughts),
        tuple(
            None if thought.search is None or thought.q is None else round(thought.search.net_q - thought.q, 3)
            for thought in record.thoughts
        ),
        sum(thought.nodes for thought in record.thoughts),
    )


def white_material(fen: str) -> int:
    """White's material less Black's, in pawns (1, 3, 3, 5, 9)."""
    worth = {"p": 1, "n": 3, "b": 3, "r": 5, "q": 9}
    board = fen.split(" ", 1)[0]
    return sum(worth.get(each.lower(), 0) * (1 if each.isupper() else -1) for each in board)


def digest_of(openings: Iterable[Opening]) -> str:
    """Which openings they are, in which order."""
    lines = (f"{opening.start_fen} {' '.join(opening.moves)}\n" for opening in openings)
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]


def _identity(trial: Trial, conditions: Conditions) -> dict[str, Any]:
    return {
        "trial": trial.name,
        "sides": [{"name": s.name, "nodes": s.nodes, "params": s.params.changes()} for s in trial.sides],
        "net": conditions.net,
        "search": SEARCH_REVISION,
        "openings": digest_of(trial.openings),
        "weaker_first": trial.first_is_weaker,
        "max_plies": conditions.rules.max_plies,
        "seed": conditions.seed,
    }


def _line(row: dict[str, Any]) -> bytes:
    return json.dumps(row, separators=(",", ":")).encode() + b"\n"


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None
