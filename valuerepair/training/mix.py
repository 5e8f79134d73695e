"""The mixture that repairs a net: a share of games from repair books, the others from normal self-play.

The choice of games and their shards depend only on the seed and the content of the chunks: not on names, dates or the
order of folders. A smaller mixture of the same seed is part of a larger one.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from valuerepair.archives.select import salt, scrambled
from valuerepair.chess.progress import Progress
from valuerepair.chess.rows import Index
from valuerepair.errors import UsageError, ValueRepairError, check_least, check_word
from valuerepair.files import check_new_folder, check_room, whole_folder
from valuerepair.text import quantity
from valuerepair.training.chunk_files import (
    ChunkIndex,
    LeftOut,
    RandomReader,
    digest_of,
    find_archives,
    format_name,
    read_index,
)
from valuerepair.training.chunk_output import MANIFEST, SHARD_CHUNKS, TarShard, chunk_name
from valuerepair.training.options import SHARE_OF_GAMES
from valuerepair.version import __version__

SIDES = ("repair", "normal")

By = Literal["games", "positions"]
Form = Literal["tar", "links"]


@dataclass(frozen=True, slots=True)
class MixOptions:
    """The mixture to make: the `share` of repair games, counted in the unit `by`; `total` is the mixture's size in it.

    Without `total` the mixture is the largest with that share. `form` is ``tar`` (shards for lczero-training's new
    loader) or ``links`` (folders of loose chunks, for its older one).
    """

    repair: tuple[str, ...]
    normal: tuple[str, ...]
    share: float = SHARE_OF_GAMES
    by: By = "games"
    form: Form = "tar"
    total: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_word("--by", self.by, get_args(By))
        check_word("--form", self.form, get_args(Form))
        if not 0 < self.share < 1:
            raise UsageError(f"--share {self.share:g}: must lie between 0 and 1")
        check_least("total", self.total, 2)


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen chunks of one side, as indices into its `ChunkIndex`."""

    index: ChunkIndex
    chosen: Index

    @property
    def games(self) -> int:
        return len(self.chosen)

    @property
    def positions(self) -> int:
        return int(self.index.records[self.chosen].sum(dtype=np.int64))


def mix(options: MixOptions, out: str | Path, *, quiet: bool = False) -> dict[str, Any]:
    """Writes the mixture and its manifest.json to `out`, which appears complete or not at all; returns the manifest.

    Raises UsageError if `out` is not empty, ValueRepairError for a share that the inputs cannot give, chunks of
    different input formats, and a disk without room.
    """
    check_new_folder(out, (*options.repair, *options.normal))
    sides = _read_sides(options, quiet)
    choices = choose(sides, options)
    with whole_folder(out) as partial:
        room = sum(int(c.index.size[c.chosen].sum(dtype=np.int64)) + 1024 * c.games for c in choices)
        check_room(partial, room)
        order = _order(choices, options.seed)
        with Progress("Writing", len(order), "games", quiet=quiet) as progress:
            written = write_shards(partial, sides, order, options, progress.advance)
        manifest = _manifest(options, choices, written)
        (partial / MANIFEST).write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", "utf-8")
    return manifest


def _read_sides(options: MixOptions, quiet: bool) -> list[ChunkIndex]:
    inputs = (options.repair, options.normal)
    total = sum(find_archives(paths).total_bytes() for paths in inputs)
    with Progress("Reading", total, "bytes", quiet=quiet) as progress:
        sides = [read_index(paths, progress.advance) for paths in inputs]
    repair, normal = (side.input_format for side in sides)
    if repair != normal:
        raise ValueRepairError(
            f"the repair games have input format {format_name(repair)}, the normal ones {format_name(normal)}: "
            "a net is trained on one of them"
        )
    return sides


# -- choosing ---------------------------------------------------------------------------------------------------------


def choose(sides: Sequence[ChunkIndex], options: MixOptions) -> list[Choice]:
    """The chunks of the repair and of the normal side; raises ValueRepairError if the share is impossible."""
    units = [side.records if options.by == "positions" else np.ones(side.games, np.int32) for side in sides]
    available = [int(unit.sum(dtype=np.int64)) for unit in units]
    shares = (options.share, 1 - options.share)
    total = min(n / share for n, share in zip(available, shares, strict=True))
    if options.total is not None:
        # As games are not divided, a mixture may miss the total by almost a game.
        if options.total > total + max(int(unit.max()) for unit in units) - 1:
            raise ValueRepairError(_impossible(options, available, total))
        total = min(total, options.total)
    choices = []
    for name, side, unit, share in zip(SIDES, sides, units, shares, strict=True):
        order = np.argsort(_priority(side.digest, options.seed, name), kind="stable")
        count = _nearest(np.cumsum(unit[order], dtype=np.int64), total * share)
        choices.append(Choice(side, np.sort(order[:count])))
    amounts = [choice.games if options.by == "games" else choice.positions for choice in choices]
    actual = amounts[0] / sum(amounts) if sum(amounts) else 0.0
    if abs(actual - options.share) > tolerance(options.share):
        raise ValueRepairError(
            f"--share {options.share:g}: a mixture of {sum(amounts):,} {options.by} has {actual:.4f} at the nearest, "
            f"{amounts[0]:,} repair and {amounts[1]:,} normal {options.by}; use that, another total, or more games"
        )
    return choices


def tolerance(share: float) -> float:
    """The largest allowed difference between a mixture's share and the requested `share`."""
    return min(0.01, 0.2 * min(share, 1 - share))


def _impossible(options: MixOptions, available: Sequence[int], most: float) -> str:
    assert options.total is not None
    side = int(options.total * (1 - options.share) > available[1] and options.total * options.share <= available[0])
    needed = options.total * (options.share, 1 - options.share)[side]
    possible = f"at this share {int(most):,} in all is the most"
    low, high = 1 - available[1] / options.total, available[0] / options.total
    if high >= low and high > 0 and low < 1:
        possible += f", at this total --share {max(low, 0):.4f} to {min(high, 1):.4f}"
    return (
        f"--share {options.share:g} of {options.total:,} {options.by} needs {needed:,.0f} {SIDES[side]} "
        f"{options.by}, there are {available[side]:,}; {possible}"
    )


def _priority(digest: NDArray[np.uint64], seed: int, purpose: str) -> NDArray[np.uint64]:
    return scrambled(digest ^ salt(seed, "mixture", purpose))


def _nearest(cumulated: Index, target: float) -> int:
    """How many elements, from the first on, have the sum nearest to `target`; at least one."""
    i = int(np.searchsorted(cumulated, target))
    if i == len(cumulated) or (i > 0 and target - cumulated[i - 1] <= cumulated[i] - target):
        i -= 1
    return i + 1


def _order(choices: Sequence[Choice], seed: int) -> Index:
    """[n, 2]: side and index of all chosen chunks, shuffled."""
    pairs = np.concatenate(
        [np.stack([np.full(c.games, s), c.chosen], 1) for s, c in enumerate(choices)], dtype=np.int64
    )
    digests = np.concatenate([choice.index.digest[choice.chosen] for choice in choices])
    ordered: Index = pairs[np.argsort(_priority(digests, seed, "order"), kind="stable")]
    return ordered


# -- the manifest -----------------------------------------------------------------------------------------------------


def _manifest(options: MixOptions, choices: Sequence[Choice], written: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest, without a time stamp: the same options give the same bytes."""
    games, positions = (sum(amounts) for amounts in ([c.games for c in choices], [c.positions for c in choices]))
    digests = [np.unique(choice.index.digest[choice.chosen]) for choice in choices]
    return {
        "version": f"valuerepair {__version__}",
        "seed": options.seed,
        "by": options.by,
        "share": {
            "asked": options.share,
            "games": choices[0].games / games,
            "positions": choices[0].positions / positions,
        },
        "total_asked": options.total,
        "games": games,
        "positions": positions,
        "input_format": choices[0].index.input_format,
        "inputs": {name: _input(choice) for name, choice in zip(SIDES, choices, strict=True)},
        "same_content": {
            "within_repair": choices[0].games - len(digests[0]),
            "within_normal": choices[1].games - len(digests[1]),
            "in_both": len(np.intersect1d(digests[0], digests[1])),
        },
        "form": options.form,
        **written,
    }


def _input(choice: Choice) -> dict[str, Any]:
    index = choice.index
    return {
        "given": list(index.inputs),
        "archives": len(index.archives.paths),
        "sha256": index.sha256,
        "games": index.games,
        "positions": index.positions,
        "used_games": choice.games,
        "used_positions": choice.positions,
        "left_out": index.left_out.reasons,
        "left_out_first": index.left_out.examples,
        "broken_off": index.left_out.broken_off,
    }


@dataclass(frozen=True, slots=True)
class Mixture:
    """What `mix` wrote to a `folder`; `manifest` is the content of its manifest.json."""

    folder: str
    manifest: Mapping[str, Any]

    @property
    def broken_off(self) -> Sequence[tuple[str, str]]:
        """The tars that break off, each with where."""
        return [archive for side in self.manifest["inputs"].values() for archive in side["broken_off"]]

    def lines(self) -> list[str]:
        """The mixture in lines for a terminal."""
        manifest = self.manifest
        share, inputs = manifest["share"], manifest["inputs"]
        files = quantity(len(manifest["files"]), "tar" if manifest["form"] == "tar" else "folder")
        lines = [
            f"{self.folder}: {manifest['games']:,} games, {manifest['positions']:,} positions in {files}",
            f"repair share: {100 * share['games']:.2f} % of the games, {100 * share['positions']:.2f} % of the "
            f"positions (requested: {100 * share['asked']:.2f} % of the {manifest['by']})",
        ]
        for name, side in inputs.items():
            mean = side["used_positions"] / side["used_games"]
            lines.append(f"{name}: {side['used_games']:,} of {side['games']:,} games, {mean:.1f} positions per game")
            lines += [f"  {line}" for line in LeftOut(side["left_out"], side["left_out_first"]).lines()]
        same = manifest["same_content"]
        if same["in_both"]:
            lines.append(f"warning: {same['in_both']:,} chunks are among both the repair and the normal games")
        if repeated := same["within_repair"] + same["within_normal"]:
            lines.append(f"{repeated:,} chunks have the same content as another one of their side, and are kept")
        if manifest.get("copied"):
            lines.append(f"{manifest['copied']:,} chunks were copied: they lie in tars, or on another disk")
        return lines


LIST = "games.parquet"
_SCHEMA = pa.schema(
    [
        ("file", pa.string()),
        ("game", pa.string()),
        ("side", pa.string()),
        ("archive", pa.string()),
        ("offset", pa.int64()),
        ("positions", pa.int32()),
    ]
)


def write_shards(
    folder: Path, indices: Sequence[ChunkIndex], order: Index, options: MixOptions, on_game: Callable[[], None]
) -> dict[str, Any]:
    """Writes the chunks in this order ([n, 2]: side, index) into shards with nearly equal numbers of games.

    Returns their part of the manifest: the shards by name, each with its SHA-256 and counts; for loose chunks also how
    many are ``linked`` and ``copied``.
    """
    files, shards = dict[str, dict[str, Any]](), -(-len(order) // SHARD_CHUNKS)
    write = _write_tar if options.form == "tar" else _write_links
    with _SideChunks(indices) as source, pq.ParquetWriter(folder / LIST, _SCHEMA, compression="zstd") as list_:
        for number in range(shards):
            begin, end = (len(order) * n // shards for n in (number, number + 1))
            part = order[begin:end]
            name = f"mix-{number:05d}" + (".tar" if options.form == "tar" else "")
            files[name] = {**write(folder / name, source, begin, part, on_game), **source.counts(part)}
            list_.write_table(source.table(name, begin, part))
    links = {"linked": source.linked, "copied": source.copied} if options.form == "links" else {}
    return {**links, "files": files}


def _write_tar(path: Path, source: _SideChunks, begin: int, part: Index, on_game: Callable[[], None]) -> dict[str, Any]:
    """A shard as a tar: its SHA-256 and size."""
    tar = TarShard(path)
    for game, (side, i) in enumerate(part.tolist(), begin):
        tar.add(chunk_name(game), source.read(side, i))
        on_game()
    return {"sha256": tar.close(), "bytes": tar.bytes}


def _write_links(
    path: Path, source: _SideChunks, begin: int, part: Index, on_game: Callable[[], None]
) -> dict[str, Any]:
    """A shard as a folder of loose chunks."""
    path.mkdir()
    sha = hashlib.sha256()
    for game, (side, i) in enumerate(part.tolist(), begin):
        content = source.read(side, i)
        sha.update(hashlib.sha256(content).digest())
        source.put(side, i, content, path / chunk_name(game))
        on_game()
    return {"sha256": sha.hexdigest()}


class _SideChunks:
    """The chunks of all sides, read again; a context manager."""

    def __init__(self, indices: Sequence[ChunkIndex]) -> None:
        self._indices = indices
        self.linked = self.copied = 0
        self._readers = [RandomReader(index.archives) for index in indices]

    def __enter__(self) -> _SideChunks:
        return self

    def __exit__(self, *_: object) -> None:
        for reader in self._readers:
            reader.close()

    def read(self, side: int, i: int) -> bytes:
        """The packed chunk; raises ValueRepairError if it has changed since it was counted."""
        index = self._indices[side]
        archive = int(index.archive[i])
        content = self._readers[side].read(archive, int(index.offset[i]), int(index.size[i]))
        if digest_of(content) != index.digest[i]:
            raise ValueRepairError(f"{index.archives.paths[archive]}: was changed while it was read; run it again")
        return content

    def put(self, side: int, i: int, content: bytes, target: Path) -> None:
        """Makes `target` a hard link to a loose chunk on the same disk, or else a copy."""
        index = self._indices[side]
        archive = int(index.archive[i])
        if not index.archives.is_tar(archive):
            with suppress(OSError):  # another disk, or one without links: copying reports any other error
                os.link(os.path.realpath(index.archives.paths[archive]), target)
                self.linked += 1
                return
        target.write_bytes(content)
        self.copied += 1

    def counts(self, part: Index) -> dict[str, int]:
        """Games and positions of some chunks, in all and of each side."""
        counts = {"games": len(part), "positions": 0}
        for side, name in enumerate(SIDES):
            chunks = part[part[:, 0] == side, 1]
            positions = int(self._indices[side].records[chunks].sum(dtype=np.int64))
            counts["positions"] += positions
            counts |= {f"{name}_games": len(chunks), f"{name}_positions": positions}
        return counts

    def table(self, name: str, begin: int, part: Index) -> pa.Table:
        """The rows of `LIST` for one shard."""
        rows = []
        for game, (side, i) in enumerate(part.tolist(), begin):
            index = self._indices[side]
            archive = int(index.archive[i])
            rows.append(
                {
                    "file": name,
                    "game": chunk_name(game),
                    "side": SIDES[side],
                    "archive": index.archives.names[archive],
                    "offset": int(index.offset[i]),
                    "positions": int(index.records[i]),
                }
            )
        return pa.Table.from_pylist(rows, _SCHEMA)
