"""What is held out from training, to judge nets by: the column `part` of positions.

A sampled position of a held-out family is in the part ``families``. The other positions of a game that has one are in
``neither``. Of the rest, those of held-out games are in ``games``, all others in ``train``. Positions beside a game,
and neighbours, are in the part of their game; but if that is ``train`` and they are of a held-out family, in
``neither``; they do not change the part of others. So no game is in two parts, except for ``neither``.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.select import in_share, salt, scrambled
from valuerepair.arrays import Flags
from valuerepair.chess import board
from valuerepair.chess.openings import (
    MAX_PLIES,
    UNKNOWN,
    eco_code,
    families_of_boards,
    families_of_plies,
    families_on_the_way,
    material_family,
    opening_families,
)
from valuerepair.chess.origins import GAME
from valuerepair.chess.positions import decode_moves
from valuerepair.chess.rows import Boards
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.store.rows import unsigned

if TYPE_CHECKING:
    from valuerepair.chess.origins import OriginGame
    from valuerepair.store.store import Store

TRAIN, GAMES, FAMILIES, NEITHER = PARTS = ("train", "games", "families", "neither")
HELD_OUT = (GAMES, FAMILIES)
DEFAULT_GAMES, DEFAULT_FAMILIES = 0.15, 0.10
_GAMES_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class Split:
    """What is held out: a share of the `games`, drawn by the hash of `seed` and their moves, so that other games have
    no effect, and families of `openings` and `materials`, as `chess.openings` names them."""

    games: float
    seed: int
    openings: frozenset[str] = frozenset()
    materials: frozenset[str] = frozenset()

    def __str__(self) -> str:
        """What is held out, in words."""
        share, openings, materials = 100 * self.games, len(self.openings), len(self.materials)
        return f"held out: {share:g} % of the games, {openings:,} opening families, {materials:,} material families"

    def as_json(self) -> dict[str, Any]:
        """Its fields, JSON-able."""
        return {**asdict(self), "openings": sorted(self.openings), "materials": sorted(self.materials)}

    @property
    def digest(self) -> str:
        """16 hex digits that identify it."""
        return hashlib.sha256(json.dumps(self.as_json()).encode()).hexdigest()[:16]

    def holds_games(self, keys: NDArray[np.uint64]) -> Flags:
        """bool[n]: whether the games of these keys (`OriginGame.key`) are held out by the draw of games."""
        return in_share(scrambled(keys ^ salt("games held out", self.seed)), self.games)

    def free_plies(self, game: OriginGame, placed: Boards) -> int:
        """How many positions at the beginning of a game training may see, whether or not the store has it.

        0 if the game is held out, or one of its positions has a held-out opening; else the number of positions before
        the first with a held-out material. `placed` are the boards of the game.
        """
        if self.holds_games(np.array([game.key], np.uint64))[0]:
            return 0
        if self.openings and families_on_the_way(game.headers.get("ECO"), board.keys(placed)) & self.openings:
            return 0
        held = _among(families_of_boards(placed), self.materials)
        return int(np.argmax(held)) if held.any() else len(placed)

    def of_held_families(self, placed: Boards) -> Flags:
        """bool[n]: which boards of a game, given from its first on, have a held-out opening or material."""
        openings = _among(families_of_plies(board.keys(placed)), self.openings)
        return openings | _among(families_of_boards(placed), self.materials)


def split_of(store: Store) -> Split | None:
    """What is held out of a store; None if nothing was decided yet."""
    settings = store.setting("split")
    if settings is None:
        return None
    rows = store.connection.execute("SELECT kind, name FROM held_families").fetchall()
    openings, materials = (
        frozenset(name for kind, name in rows if kind == wanted) for wanted in ("opening", "material")
    )
    return Split(settings["games"], settings["seed"], openings, materials)


def choose(store: Store, *, games: float = DEFAULT_GAMES, families: float = DEFAULT_FAMILIES, seed: int = 0) -> Split:
    """Decides what is held out of a store, without regard to values, and gives each position its part.

    `games` is the share of the games, `families` the share of the positions of games to hold out by family: up to half
    of it by openings, the rest by material. Families are drawn in the order of a hash of seed and name; one is taken if
    it brings the share nearer to the wanted one, and has at most half of it. Raises UsageError for shares outside
    [0, 1), ValueRepairError for a store without positions of games, and if no family is small enough.
    """
    for name, share in (("--games", games), ("--families", families)):
        if not 0 <= share < 1:
            raise UsageError(f"{name} {share:g}: a share to hold out lies in [0, 1)")
    openings, materials = frozenset[str](), frozenset[str]()
    of_openings, of_materials = list[str](), list[str]()
    for rows in _read(store, None):
        of_games = [i for i, row in enumerate(rows) if row.origin == GAME]
        for families_of, found in zip(_families(rows), (of_openings, of_materials), strict=True):
            found += [sys.intern(families_of[i]) for i in of_games]
    n = len(of_openings)
    if not n:
        raise ValueRepairError(f"{store.path}: has no positions of games to split by; mine first")
    if families:
        wanted, held = families * n, np.zeros(n, np.bool_)
        openings = _draw(of_openings, held, wanted / 2, wanted / 2, seed)
        materials = _draw(of_materials, held, wanted, wanted / 2, seed)
        if not openings and not materials:
            raise ValueRepairError(
                f"{store.path}: no family of its {n:,} positions is small enough to hold out {families:g} of "
                "them; mine more, or give --families 0"
            )
    with store.writing() as connection:
        store.use(split={"games": games, "families": families, "seed": seed})
        connection.execute("DELETE FROM held_families")
        of_kinds = [("opening", name) for name in sorted(openings)] + [("material", name) for name in sorted(materials)]
        connection.executemany("INSERT INTO held_families VALUES (?, ?)", of_kinds)
        assign(store)
    return Split(games, seed, openings, materials)


def ensured(store: Store) -> tuple[Split, str]:
    """The store's split, and if there was none the default one, with a line that says so (else empty)."""
    known = split_of(store)
    if known is not None:
        return known, ""
    try:
        split = choose(store)
    except ValueRepairError:  # no family of a small store is small enough
        split = choose(store, families=0)
    store.commit()
    return split, f"{split} (the default of vr split)"


def _draw(families: Sequence[str], held: Flags, wanted: float, largest: float, seed: int) -> frozenset[str]:
    """The families to hold out, so that about `wanted` positions are `held`, which is updated."""
    names, codes = np.unique(np.array(families, object).astype(str), return_inverse=True)
    chosen = set()
    for code in sorted(range(len(names)), key=lambda i: seeded_hash(seed, str(names[i]))):
        rows, name = codes == code, str(names[code])
        before, after = int(held.sum()), int((held | rows).sum())
        if name != UNKNOWN and rows.sum() <= largest and abs(after - wanted) < abs(before - wanted):
            held |= rows
            chosen.add(name)
    return frozenset(chosen)


def seeded_hash(seed: int, text: str) -> int:
    """63 bits that depend on seed and text only."""
    digest = hashlib.blake2b(f"{seed}\n{text}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def assign(store: Store, game_ids: Iterable[int] | None = None) -> None:
    """Gives the positions of these games, or of all, their part; without a split they stay in ``train``."""
    split = split_of(store)
    if split is None:
        return
    with store.writing() as connection:
        for rows in _read(store, game_ids):
            updates = [(part, row.id) for row, part in zip(rows, _parts(split, rows), strict=True) if part != row.part]
            connection.executemany("UPDATE positions SET part = ? WHERE id = ?", updates)


@dataclass(frozen=True, slots=True)
class _Row:
    """A position, with the key and the ECO code of its game."""

    id: int
    game_id: int
    fen: str
    start_fen: str
    moves: bytes
    origin: str
    part: str
    game_key: int
    eco: str


def _read(store: Store, game_ids: Iterable[int] | None) -> Iterator[list[_Row]]:
    """The positions of these games, or of all, some thousand whole games at a time."""
    if game_ids is None:
        game_ids = [row[0] for row in store.connection.execute("SELECT id FROM games ORDER BY id")]
    ids = [*game_ids]
    query = """
        SELECT p.id, g.id, p.fen, p.start_fen, p.moves, p.origin, p.part, g.key, json_extract(g.headers, '$.ECO')
        FROM json_each(?) j JOIN games g ON g.id = j.value JOIN positions p ON p.game_id = g.id
    """
    for begin in range(0, len(ids), _GAMES_AT_ONCE):
        rows = store.connection.execute(query, (json.dumps(ids[begin : begin + _GAMES_AT_ONCE]),)).fetchall()
        yield [_Row(*(*row[:8], eco_code(row[8] if isinstance(row[8], str) else None))) for row in rows]


def _parts(split: Split, rows: Sequence[_Row]) -> list[str]:
    """The part of each position; the rows are whole games."""
    openings, materials = _families(rows)
    of_family = _among(openings, split.openings) | _among(materials, split.materials)
    games, of_game = np.array([row.game_id for row in rows]), np.array([row.origin == GAME for row in rows])
    with_family = np.isin(games, games[of_family & of_game])
    is_held = split.holds_games(unsigned([row.game_key for row in rows]))
    in_parts = [with_family & of_family, with_family, is_held, of_family]
    parts: list[str] = np.select(in_parts, [FAMILIES, NEITHER, GAMES, NEITHER], TRAIN).tolist()
    return parts


def _families(rows: Sequence[_Row]) -> tuple[list[str], list[str]]:
    """The opening family of each position, by the ECO code of its game's header, else by its moves; and its material
    family."""
    first = (np.frombuffer(row.moves, "<u2")[:MAX_PLIES] for row in rows)
    moves: list[Any] = [() if row.eco else decode_moves(packed) for row, packed in zip(rows, first, strict=True)]
    openings = opening_families([row.eco for row in rows], [row.start_fen for row in rows], moves)
    return openings, [material_family(row.fen) for row in rows]


def _among(names: Sequence[str], held: frozenset[str]) -> Flags:
    return np.array([name in held for name in names], np.bool_)
