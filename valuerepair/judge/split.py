"""What is held out from training, to judge by: the part that each position of a store belongs to.

A split holds out games, and complete families of openings and of material. It is one value, kept in a readable file and
shared by everything that chooses positions: expansion, books, training, comparison.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.select import in_share, salt, scrambled
from valuerepair.arrays import Flags, Ids
from valuerepair.chess import board
from valuerepair.chess.origins import BESIDE, OriginGame
from valuerepair.chess.positions import decode_moves
from valuerepair.chess.rows import Boards
from valuerepair.errors import UsageError, ValueRepairError, check_word, one_line
from valuerepair.files import read_json, written_whole
from valuerepair.judge.openings import (
    MAX_PLIES,
    UNKNOWN,
    all_families,
    eco_code,
    families_of_boards,
    families_of_plies,
    families_on_the_way,
    family_of_signature,
    material_family,
    opening_families,
)
from valuerepair.question import DEFAULT_THRESHOLD, Question, is_candidate
from valuerepair.store import files
from valuerepair.store.queries import snapshot
from valuerepair.store.rows import game_row, unsigned
from valuerepair.store.store import Store
from valuerepair.text import table_lines
from valuerepair.version import __version__

log = logging.getLogger(__name__)


PARTS = ("train", "games", "families", "neither")
TRAIN, GAMES, FAMILIES, NEITHER = range(len(PARTS))
HELD_OUT = (GAMES, FAMILIES)
_ROWS_AT_ONCE = 50_000
_MATERIAL = re.compile(r"K[QRBN]*vK[QRBN]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """What is held out: a share of `games`, and families of `openings` and `materials`.

    `games` are drawn by hash of `seed` and game, so that other games have no effect. Families are named as
    `judge.openings.family` and `material_family` name them. Raises UsageError for a share outside [0, 1) and for an
    unknown family.
    """

    games: float = 0.15
    openings: tuple[str, ...] = ()
    materials: tuple[str, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.games < 1:
            raise UsageError(f"a share of games to hold out lies in [0, 1), not {self.games:g}")
        opening_names = all_families()
        for name in self.openings:
            if name not in opening_names:
                raise UsageError(f"{name}: not an opening family, such as {min(opening_names)}")
        for name in self.materials:
            if not _MATERIAL.fullmatch(name) or family_of_signature(name) != name:
                raise UsageError(f"{name}: not a material family, such as KRvKR")

    def __str__(self) -> str:
        """What is held out, in words."""
        items = [
            f"{100 * self.games:g} % of the games",
            f"{len(self.openings):,} opening families",
            f"{len(self.materials):,} material families",
        ]
        return "held out: " + ", ".join(items)

    @property
    def digest(self) -> str:
        """16 hex digits that identify it."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:16]

    def parts(self, store: Store, position_ids: Ids) -> NDArray[np.int8]:
        """int8[n]: the part of each of these positions of a store, an index into `PARTS`.

        A sampled position of a held-out family is in ``families``. The other positions of a game that has a position of
        a held-out family are in ``neither``. Of the remaining positions, those of held-out games are in ``games``, all
        others in ``train``. A position beside a game is in the part of
        the game; but if that is ``train`` and the position is of a held-out family, it is in ``neither``. A position
        that `vr expand` reached is in ``train`` if the rules for sampled positions put it there, and if all positions
        that it was reached from are in ``train``; otherwise it is in ``neither``. Positions of these two kinds do not
        change the part of other positions. So no game is in two parts, except for ``neither``. Raises ValueRepairError
        for a position that is not in the store.
        """
        stored = _Stored.of(store, self)
        return self.parts_of(stored)[stored.rows(position_ids)]

    def among(self, store: Store, position_ids: Ids, part: str = "train") -> Flags:
        """bool[n]: which of these positions are in this part, one of `PARTS`, or in any held-out part (`TOGETHER`).

        Raises UsageError for an unknown part, and the errors of `parts`.
        """
        check_word("--part", part, dict.fromkeys((*PARTS, *JUDGED)))
        return np.isin(self.parts(store, position_ids), _numbers_of(part))

    def free_plies(self, game: OriginGame, placed: Boards) -> int:
        """How many positions at the beginning of a game training may see, whether or not a store has them.

        0 if the game is held out, or one of its positions has a held-out opening; else the number of positions before
        the first with a held-out material. `placed` are the boards of the game.
        """
        if self._holds_out_games(key_of_game(game))[0]:
            return 0
        if self.openings and families_on_the_way(game.headers.get("ECO"), board.keys(placed)) & set(self.openings):
            return 0
        held = _Names.of(families_of_boards(placed)).among(self.materials) if self.materials else np.zeros(0, np.bool_)
        return int(np.argmax(held)) if held.any() else len(placed)

    def of_held_families(self, placed: Boards) -> Flags:
        """bool[n]: which boards of a game, given from its first on, have a held-out opening or material."""
        held = _Names.of(families_of_plies(board.keys(placed))).among(self.openings)
        return held | _Names.of(families_of_boards(placed)).among(self.materials)

    def held_out(self, store: Store) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """The keys of a store's held-out positions, and the keys of their games (`key_of_game`), each ascending."""
        stored = _Stored.of(store, self)
        held = np.isin(self.parts_of(stored), HELD_OUT)
        query = "SELECT p.key FROM json_each(?) j JOIN positions p ON p.id = j.value"
        rows = store.connection.execute(query, (json.dumps(stored.ids[held].tolist()),)).fetchall()
        return np.unique(unsigned([key for (key,) in rows])), np.unique(stored.keys[stored.game[held]])

    def _holds_out_games(self, keys: NDArray[np.uint64]) -> Flags:
        """bool[n]: whether the games of these keys are held out by the draw of games."""
        return in_share(scrambled(keys ^ salt("games held out", self.seed)), self.games)

    def parts_of(self, stored: _Stored) -> NDArray[np.int8]:
        """The parts of all positions in `stored`."""
        game, sampled, beside = stored.game, stored.sampled, stored.beside
        family = stored.opening.among(self.openings) | stored.material.among(self.materials)
        has_family = np.zeros(len(stored.keys), np.bool_)  # games with a position of a held-out family
        has_family[game[family & sampled & ~beside]] = True
        held = self._holds_out_games(stored.keys)[game]
        parts = np.select(
            [family & (has_family[game] | ~beside), has_family[game], held],
            [FAMILIES, NEITHER, GAMES],
            default=TRAIN,
        ).astype(np.int8)
        parts[~sampled & (parts != TRAIN)] = NEITHER
        parts[beside & family & (parts == TRAIN)] = NEITHER
        # A root may be reached itself, for another net.
        reached, roots = stored.reached
        while (moved := reached[(parts[reached] == TRAIN) & (parts[roots] != TRAIN)]).size:
            parts[moved] = NEITHER
        return parts


def choose_split(store: Store, *, games: float = 0.15, families: float = 0.10, seed: int = 0) -> Split:
    """A split of a store, chosen without regard to values.

    `games` is the share of the games to hold out, `families` the share of the sampled positions to hold out by family:
    up to half of it by openings, the rest by material. Families are drawn in the order of a hash of seed and name; one
    is taken if it brings the share nearer to the wanted one. Unknown openings are never taken, and neither are
    families that alone have more than half of the share. Raises UsageError for shares outside [0, 1), ValueRepairError
    for a store without positions and if no family is small enough.
    """
    if not isinstance(seed, int):
        raise UsageError(f"the seed of a split is a whole number, not {seed!r}")
    if not 0 <= families < 1:
        raise UsageError(f"a share of families to hold out lies in [0, 1), not {families:g}")
    split = Split(games=games, seed=seed)  # checks the share before anything is read
    stored = _Stored.read(store, openings=families > 0, materials=families > 0)
    of_games = stored.sampled & ~stored.beside
    if not of_games.any():
        raise ValueRepairError(f"{store.path}: has no positions of games to split by; mine first")
    if games and len(stored.keys) > 1 and len(np.unique(stored.keys)) == 1:
        log.warning(
            f"warning: {store.path}: nothing tells its games apart, so --games holds out all or none; loose training "
            "chunks have no headers: pack them in a tar, and mine that"
        )
    wanted, held = families * of_games.sum(), np.zeros(len(of_games), np.bool_)
    openings = _draw(stored.opening, of_games, held, wanted / 2, wanted / 2, seed)
    materials = _draw(stored.material, of_games, held, wanted, wanted / 2, seed)
    if families and not openings and not materials:
        raise ValueRepairError(
            f"{store.path}: no family of its {of_games.sum():,} positions is small enough to hold out {families:g} of "
            "them; mine more, or give --families 0"
        )
    return Split(games=split.games, openings=openings, materials=materials, seed=seed)


def _draw(family: _Names, available: Flags, held: Flags, wanted: float, largest: float, seed: int) -> tuple[str, ...]:
    """The families to hold out, so that about `wanted` positions are `held`, which is updated."""
    chosen = []
    for code in sorted(range(len(family.names)), key=lambda i: seeded_hash(seed, family.names[i])):
        rows = available & (family.codes == code)
        before, after = int(held.sum()), int((held | rows).sum())
        if family.names[code] != UNKNOWN and rows.sum() <= largest and abs(after - wanted) < abs(before - wanted):
            held |= rows
            chosen.append(family.names[code])
    return tuple(sorted(chosen))


def check_part(part: str | None, split: object) -> None:
    """Raises UsageError for a part without a split."""
    if part is not None and split is None:
        raise UsageError(f"--part {part}: needs --split, which says what is held out")


def seeded_hash(seed: int, text: str) -> int:
    """63 bits that depend on seed and text only."""
    digest = hashlib.blake2b(f"{seed}\n{text}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def keys_of_games(store: Store, game_ids: Ids) -> NDArray[np.uint64]:
    """uint64[n]: the key of each game, by its headers, place and number in the archive, but not by the file's name."""
    rows = store.connection.execute("SELECT id, digest, number FROM games ORDER BY id").fetchall()
    ids, digests, numbers = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return _keys(digests, numbers)[np.searchsorted(ids, game_ids)]


def key_of_game(game: OriginGame) -> NDArray[np.uint64]:
    """uint64[1]: the key of a game of an archive, which `keys_of_games` gives once the game is in a store."""
    _, number, digest, *_ = game_row(game)
    return _keys(np.array([digest], np.int64), np.array([number], np.int64))


def _keys(digests: Ids, numbers: Ids) -> NDArray[np.uint64]:
    return scrambled(digests.view(np.uint64) ^ scrambled(numbers.view(np.uint64)))


# -- a store's positions ----------------------------------------------------------------------------------------------


class _Names(NamedTuple):
    """A name of each position: its number in `names` [n]."""

    codes: Ids
    names: list[str]

    @staticmethod
    def of(texts: Sequence[str]) -> _Names:
        number: dict[str, int] = {}
        codes = np.array([number.setdefault(name, len(number)) for name in texts], np.int64)
        return _Names(codes, list(number))

    def among(self, wanted: Iterable[str]) -> Flags:
        """[n] whether the name is one of these."""
        chosen = set(wanted)
        return np.array([name in chosen for name in self.names], np.bool_)[self.codes]


_REACHED = "SELECT DISTINCT position_id, root_id FROM expanded"
_GAMES = "SELECT id, digest, number, json_extract(headers, '$.ECO') FROM games ORDER BY id"
_POSITIONS = "SELECT id, game_id, fen, start_fen, moves, kind FROM positions ORDER BY id"


class _Stored(NamedTuple):
    """All n positions of a store, by number, and its g games.

    [n]: `ids`; `game`, the row of its game; the families; `beside`, whether it is beside its game. [g]: `keys`.
    `reached`: the rows of positions that `vr expand` reached, and those of their roots.
    """

    path: str
    ids: Ids
    game: Ids
    opening: _Names
    material: _Names
    keys: NDArray[np.uint64]
    reached: tuple[Ids, Ids]
    beside: Flags

    @staticmethod
    def of(store: Store, split: Split) -> _Stored:
        """Reads a store, with the families that the split needs."""
        return _Stored.read(store, openings=bool(split.openings), materials=bool(split.materials))

    @staticmethod
    def read(store: Store, *, openings: bool, materials: bool) -> _Stored:
        """Reads a store; without `openings` or `materials` all families of that kind are unknown."""
        with snapshot(store.connection):
            games = store.connection.execute(_GAMES).fetchall()
            of_games, digests, numbers = (np.array([row[i] for row in games], np.int64) for i in range(3))
            codes = [eco_code(row[3] if isinstance(row[3], str) else None) for row in games]
            ids, game, opening, material = list[int](), [np.empty(0, np.int64)], list[str](), list[str]()
            beside = list[bool]()
            cursor = store.connection.execute(_POSITIONS)
            while rows := cursor.fetchmany(_ROWS_AT_ONCE):
                position_ids, game_ids, fens, start_fens, moves, kinds = zip(*rows, strict=True)
                ids += position_ids
                game.append(np.searchsorted(of_games, game_ids))
                beside += [kind in BESIDE for kind in kinds]
                unknown = [UNKNOWN] * len(rows)
                opening += _openings(start_fens, moves, [codes[i] for i in game[-1].tolist()]) if openings else unknown
                material += [material_family(fen) for fen in fens] if materials else unknown
            reached = np.array(store.connection.execute(_REACHED).fetchall(), np.int64).reshape(-1, 2)
        all_ids = np.array(ids, np.int64)
        of_reached = np.searchsorted(all_ids, reached[:, 0]), np.searchsorted(all_ids, reached[:, 1])
        return _Stored(
            store.path,
            all_ids,
            np.concatenate(game),
            _Names.of(opening),
            _Names.of(material),
            _keys(digests, numbers),
            of_reached,
            np.array(beside, np.bool_),
        )

    def rows(self, position_ids: Ids) -> Ids:
        """[n] where these positions are. Raises ValueRepairError for one that is not there."""
        places = np.minimum(np.searchsorted(self.ids, position_ids), max(len(self.ids) - 1, 0))
        if len(position_ids) and (not len(self.ids) or (self.ids[places] != position_ids).any()):
            raise ValueRepairError(f"{self.path}: has no positions of these numbers")
        return places

    @property
    def sampled(self) -> Flags:
        """[n] whether the position comes from an archive."""
        is_sampled = np.ones(len(self.ids), np.bool_)
        is_sampled[self.reached[0]] = False
        return is_sampled


def _openings(start_fens: Sequence[str], packed_moves: Sequence[bytes], codes: Sequence[str]) -> list[str]:
    """The opening family of each position, by the ECO code of its game's header, else by its moves."""
    first = (np.frombuffer(packed, "<u2")[:MAX_PLIES] for packed in packed_moves)
    moves = [() if code else decode_moves(packed) for packed, code in zip(first, codes, strict=True)]
    return opening_families(codes, start_fens, moves)


# -- the split that a store remembers ---------------------------------------------------------------------------------


def keep_split(store: Store, path: str | os.PathLike[str]) -> None:
    """Stores the path of the store's split; the store is open for writing."""
    with store.writing() as connection:
        files.record_path(connection, files.SPLIT, "", os.fspath(path))
    store.commit()


def known_split(store: Store) -> tuple[str, Split] | None:
    """The store's split and its file, as a user would type it; None without a split, or if its file cannot be read."""
    for path in files.places(store, files.SPLIT):
        with suppress(UsageError, ValueRepairError):
            return files.from_here(path), read_split(path)
    return None


def _reason_unread(path: str) -> str:
    """Why the split of this file is not known, with the file's path."""
    try:
        read_split(path)
    except (UsageError, ValueRepairError) as error:
        return one_line(error)
    return f"{path} cannot be read"


def split_file(store: Store) -> str:
    """The file of the store's split, as a user would type it; empty without a split."""
    stored = known_split(store)
    return "" if stored is None else stored[0]


def warning_of_change(store: Store, split: Split) -> str | None:
    """The warning if this split replaces another one of the store and so moves positions into training; else None."""
    previous = known_split(store)
    if previous is None or previous[1] == split:
        return None
    path, previous_split = previous
    stored = _Stored.of(store, split)
    held = np.isin(previous_split.parts(store, stored.ids), HELD_OUT)
    moved = int((split.parts_of(stored)[held] == TRAIN).sum())
    if not moved:
        return None
    return (
        f"warning: until now {path} held out other positions of this store; {moved:,} of these {held.sum():,} are "
        "for training from now on"
    )


def warning_of_held_out(store: Store, position_ids: Ids, split: Split | None) -> str | None:
    """The warning if the store's split holds out some of these positions, which are chosen for training without a split
    or by another `split`; else None."""
    path = files.recorded_path(store, files.SPLIT)
    if path is None:
        return None
    stored = known_split(store)
    if split is not None and (stored is None or stored[1] == split):
        return None
    if stored is None:
        return f"warning: what is held out of this store is unknown ({_reason_unread(path)}); now nothing is held out"
    held = int((stored[1].parts(store, position_ids) != TRAIN).sum())
    if not held:
        return None
    return (
        f"warning: {held:,} of these {len(position_ids):,} positions are not for training by {stored[0]}; "
        f"--split {shlex.quote(stored[0])} leaves them out"
    )


def warning_of_trained(store: Store, position_ids: Ids, split: Split) -> str | None:
    """The warning if the store's split has some of these positions for training, and nets are judged on them by another
    `split`; else None."""
    stored = known_split(store)
    if stored is None or stored[1] == split:
        return None
    trained = int((stored[1].parts(store, position_ids) == TRAIN).sum())
    if not trained:
        return None
    return (
        f"warning: {trained:,} of these {len(position_ids):,} positions are for training by {stored[0]}, the split of "
        f"this store; for a net that was trained by it give --split {shlex.quote(stored[0])}"
    )


# -- a part that nets are judged by -----------------------------------------------------------------------------------

TOGETHER = "held-out"
JUDGED = (TOGETHER, *(PARTS[number] for number in HELD_OUT))


def _numbers_of(part: str) -> Sequence[int]:
    """The indices into `PARTS` of the parts that a word of `--part` names."""
    return HELD_OUT if part == TOGETHER else [PARTS.index(part)]


@dataclass(frozen=True, slots=True)
class HeldPart:
    """Positions that are held out: one of `JUDGED`, and their numbers in a store, ascending."""

    name: str
    position_ids: Ids = field(compare=False)

    @staticmethod
    def of(store: Store, split: Split, name: str = TOGETHER) -> HeldPart:
        """Raises UsageError for another name, ValueRepairError if the part is empty."""
        check_word("--part", name, JUDGED)
        stored = _Stored.of(store, split)
        ids = stored.ids[np.isin(split.parts_of(stored), _numbers_of(name))]
        if not len(ids):
            raise ValueRepairError(f"{store.path}: the split holds out none of its positions as {name}")
        return HeldPart(name, ids)

    def among(self, position_ids: Ids) -> Flags:
        """[n] which of these positions are in it."""
        return np.isin(position_ids, self.position_ids)


# -- the size of each part --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PartCount:
    """What a store has of a part; `candidates` is None if nothing is scored yet."""

    positions: int
    games: int
    candidates: int | None


def count_parts(store: Store, split: Split) -> dict[str, PartCount]:
    """What a store has of each of `PARTS`; candidates are those at the default threshold."""
    stored = _Stored.of(store, split)
    part = split.parts_of(stored)
    candidates = _candidates(store)
    of_candidates = None if candidates is None else part[np.searchsorted(stored.ids, candidates)]
    return {
        name: PartCount(
            int((part == number).sum()),
            len(np.unique(stored.game[part == number])),
            None if of_candidates is None else int((of_candidates == number).sum()),
        )
        for number, name in enumerate(PARTS)
    }


def _candidates(store: Store) -> Ids | None:
    """The numbers of the candidates; None if nothing is scored."""
    question = Question()
    if store.pair_of(question) is None:
        return None
    frame = store.frame(question, only=("position_id", "disagreement"))
    candidate = is_candidate(frame["disagreement"], question.threshold)
    return frame.loc[candidate, "position_id"].to_numpy(np.int64)


@dataclass(frozen=True, slots=True)
class WrittenSplit:
    """A `split` in the file `output`, and what a store has of each part of it, by its name. `next_step` is the next
    command, None if there is no candidate to train on."""

    output: str
    split: Split
    parts: Mapping[str, PartCount]
    next_step: str | None

    def lines(self) -> list[str]:
        """For a terminal."""
        scored = all(count.candidates is not None for count in self.parts.values())
        head = f"candidates at {DEFAULT_THRESHOLD:g}" if scored else ""
        columns = f":<10 | positions:>11, | games:>11, | {head}:>19,"
        rows = (
            (name, count.positions, count.games, "" if count.candidates is None else count.candidates)
            for name, count in self.parts.items()
        )
        next_lines = [] if self.next_step is None else [f"next: {self.next_step}"]
        return [f"{self.output}: {self.split}", *table_lines(columns, rows), *next_lines]


# -- the file ---------------------------------------------------------------------------------------------------------


def write_split(path: str | os.PathLike[str], split: Split) -> None:
    """Writes a split as JSON that can be read and edited. Raises ValueRepairError if it cannot be written."""
    text = json.dumps({"version": f"valuerepair {__version__}", **asdict(split)}, indent=2, ensure_ascii=False)
    try:
        with written_whole(path) as partial:
            partial.write_text(text + "\n", "utf-8")
    except OSError as error:
        raise ValueRepairError(f"{path}: cannot be written: {error.strerror or error}") from None


def read_split(path: str | os.PathLike[str]) -> Split:
    """The split of a file that `write_split` wrote. Raises UsageError for a missing file, ValueRepairError for another
    kind of file and for invalid values."""
    try:
        written = read_json(path, "a split that vr split wrote")
        names = {"version", *(option.name for option in fields(Split))}
        if odd := names ^ written.keys():
            raise ValueRepairError(f"{path}: is not a split that vr split wrote: {one_line(', '.join(sorted(odd)))}")
        values = {**written, "openings": tuple(written["openings"]), "materials": tuple(written["materials"])}
        del values["version"]
        return Split(**values)
    except TypeError as error:
        raise ValueRepairError(f"{path}: is not a split that vr split wrote: {one_line(error)}") from None
    except UsageError as error:
        raise ValueRepairError(f"{path}: {one_line(error)}") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; vr split writes one") from None
