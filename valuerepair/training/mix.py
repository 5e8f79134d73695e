"""The mixture that repairs a net: a share of games from repair books, the others from normal self-play.

The choice of games and their order depend only on the seed and the content of the chunks: not on names, dates or the
order of folders.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.select import salt, scrambled
from valuerepair.chess.rows import Index
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import check_new_folder, check_room, whole_folder
from valuerepair.progress import Progress
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
from valuerepair.version import __version__

SIDES = ("repair", "normal")


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
        share, inputs, same = manifest["share"], manifest["inputs"], manifest["same_content"]
        lines = [
            f"{self.folder}: {manifest['games']:,} games, {manifest['positions']:,} positions in "
            f"{quantity(len(manifest['files']), 'tar')}",
            f"repair share: {100 * share['games']:.2f} % of the games (requested: {100 * share['asked']:.2f} %), "
            f"{100 * share['positions']:.2f} % of the positions",
        ]
        for name, side in inputs.items():
            mean = side["used_positions"] / side["used_games"]
            lines.append(f"{name}: {side['used_games']:,} of {side['games']:,} games, {mean:.1f} positions per game")
            lines += [f"  {line}" for line in LeftOut(side["left_out"], side["left_out_first"]).lines()]
        if same["in_both"]:
            lines.append(f"warning: {same['in_both']:,} chunks are among both the repair and the normal games")
        if repeated := same["within_repair"] + same["within_normal"]:
            lines.append(f"{repeated:,} chunks have the same content as another one of their side, and are kept")
        return lines


def mix(
    repair: Sequence[str],
    normal: Sequence[str],
    folder: str | Path,
    *,
    share: float,
    seed: int = 0,
    quiet: bool = False,
) -> Mixture:
    """Writes the largest mixture with this share of repair games to `folder`, which appears complete or not at all.

    `repair` and `normal` are folders and tars of training chunks. Raises UsageError if `folder` is not empty, and
    ValueRepairError for a share that the games cannot give, chunks of different input formats, and a disk without room.
    """
    if not 0 < share < 1:
        raise UsageError(f"--share {share:g}: must lie between 0 and 1")
    check_new_folder(folder, (*repair, *normal))
    sides = _read_sides((repair, normal), quiet)
    chosen = choose(sides, share, seed)
    with whole_folder(folder) as partial:
        pairs = list(zip(sides, chosen, strict=True))
        check_room(partial, sum(int(side.size[rows].sum(dtype=np.int64)) + 1024 * len(rows) for side, rows in pairs))
        order = _order(sides, chosen, seed)
        with Progress("Writing", len(order), "games", quiet=quiet) as progress:
            files = _write_tars(partial, sides, order, progress.advance)
        manifest = _manifest(sides, chosen, share, seed) | {"files": files}
        (partial / MANIFEST).write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", "utf-8")
    return Mixture(os.fspath(folder), manifest)


def _read_sides(inputs: Sequence[Sequence[str]], quiet: bool) -> list[ChunkIndex]:
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


def choose(sides: Sequence[ChunkIndex], share: float, seed: int) -> list[Index]:
    """The chunks of the repair and of the normal side; raises ValueRepairError if the share is impossible."""
    shares = (share, 1 - share)
    total = min(side.games / part for side, part in zip(sides, shares, strict=True))
    chosen = []
    for name, side, part in zip(SIDES, sides, shares, strict=True):
        order = np.argsort(_priority(side.digest, seed, name), kind="stable")
        chosen.append(np.sort(order[: _nearest(total * part)]))
    repair, games = len(chosen[0]), sum(map(len, chosen))
    if abs(repair / games - share) > tolerance(share):
        raise ValueRepairError(
            f"--share {share:g}: a mixture of {games:,} games has {repair / games:.4f} at the nearest, {repair:,} "
            f"repair and {games - repair:,} normal ones; use that, or more games"
        )
    return chosen


def tolerance(share: float) -> float:
    """The largest allowed difference between a mixture's share and the requested `share`."""
    return min(0.01, 0.2 * min(share, 1 - share))


def _nearest(target: float) -> int:
    """The number of games, at least one, nearest to `target`; the smaller of two."""
    return max(1, int(np.ceil(target - 0.5)))


def _priority(digest: NDArray[np.uint64], seed: int, purpose: str) -> NDArray[np.uint64]:
    return scrambled(digest ^ salt(seed, "mixture", purpose))


def _order(sides: Sequence[ChunkIndex], chosen: Sequence[Index], seed: int) -> Index:
    """[n, 2]: side and index of all chosen chunks, shuffled."""
    pairs = np.concatenate([np.stack([np.full(len(rows), s), rows], 1) for s, rows in enumerate(chosen)])
    digests = np.concatenate([side.digest[rows] for side, rows in zip(sides, chosen, strict=True)])
    ordered: Index = pairs[np.argsort(_priority(digests, seed, "order"), kind="stable")]
    return ordered


# -- writing ----------------------------------------------------------------------------------------------------------


def _manifest(sides: Sequence[ChunkIndex], chosen: Sequence[Index], share: float, seed: int) -> dict[str, Any]:
    """The manifest, without a time stamp: the same options give the same bytes."""
    games = [len(rows) for rows in chosen]
    positions = [int(side.records[rows].sum(dtype=np.int64)) for side, rows in zip(sides, chosen, strict=True)]
    digests = [np.unique(side.digest[rows]) for side, rows in zip(sides, chosen, strict=True)]
    return {
        "version": f"valuerepair {__version__}",
        "seed": seed,
        "share": {"asked": share, "games": games[0] / sum(games), "positions": positions[0] / sum(positions)},
        "games": sum(games),
        "positions": sum(positions),
        "input_format": sides[0].input_format,
        "inputs": {
            name: {
                "given": list(side.inputs),
                "archives": len(side.archives.paths),
                "sha256": side.sha256,
                "games": side.games,
                "positions": side.positions,
                "used_games": games[s],
                "used_positions": positions[s],
                "left_out": side.left_out.reasons,
                "left_out_first": side.left_out.examples,
                "broken_off": side.left_out.broken_off,
            }
            for s, (name, side) in enumerate(zip(SIDES, sides, strict=True))
        },
        "same_content": {
            "within_repair": games[0] - len(digests[0]),
            "within_normal": games[1] - len(digests[1]),
            "in_both": len(np.intersect1d(digests[0], digests[1])),
        },
    }


def _write_tars(
    folder: Path, sides: Sequence[ChunkIndex], order: Index, on_game: Callable[[], None]
) -> dict[str, dict[str, Any]]:
    """Writes the chunks in this order ([n, 2]: side, index) into tars with nearly equal numbers of games; returns the
    facts of each."""
    files, shards = dict[str, dict[str, Any]](), -(-len(order) // SHARD_CHUNKS)
    readers = [RandomReader(side.archives) for side in sides]
    try:
        for number in range(shards):
            begin, end = (len(order) * n // shards for n in (number, number + 1))
            name = f"mix-{number:05d}.tar"
            tar, counts = TarShard(folder / name), {f"{side}_games": 0 for side in SIDES}
            for game, (side, i) in enumerate(order[begin:end].tolist(), begin):
                tar.add(chunk_name(game), _content(readers[side], sides[side], i))
                counts[f"{SIDES[side]}_games"] += 1
                on_game()
            files[name] = {"sha256": tar.close(), "bytes": tar.bytes, "games": end - begin, **counts}
    finally:
        for reader in readers:
            reader.close()
    return files


def _content(reader: RandomReader, index: ChunkIndex, i: int) -> bytes:
    """The packed chunk; raises ValueRepairError if it has changed since it was counted."""
    archive = int(index.archive[i])
    content = reader.read(archive, int(index.offset[i]), int(index.size[i]))
    if digest_of(content) != index.digest[i]:
        raise ValueRepairError(f"{index.archives.paths[archive]}: was changed while it was read; run it again")
    return content
