"""Perft of whole suites: EPD files ``FEN; D1 20; D2 400; ...`` against our move generator, from the command line.

``python -m tests.parity.perft_parity`` runs what a night affords: every entry of `NIGHTLY`'s numbers of leaves.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests import shared_data
from valuerepair.chess import board as rules

SUITES = ("perft.epd", "perft-marcel.epd", "perft-ferdy-double-checks.epd", "ferdy_perft_enpassant_1.epd")
# Leaves an entry may have. All of perft.epd; of perft-marcel.epd all of depth 5 and the smaller half of depth 6 (the
# whole of depth 6 would take 4.2 million million leaves, some hours). The other files end at depth 4.
NIGHTLY: Mapping[str, int] = {"perft.epd": 10**11} | dict.fromkeys(SUITES[1:], 270_000_000)


@dataclass(frozen=True, slots=True)
class Entry:
    """One count of one position: `leaves` sequences of `depth` plies, by the suite `name`."""

    name: str
    fen: str
    depth: int
    leaves: int


@dataclass(frozen=True, slots=True)
class Counted:
    """An entry and what we count."""

    entry: Entry
    ours: int

    @property
    def wrong(self) -> bool:
        return self.ours != self.entry.leaves


def entries(path: Path) -> Iterator[Entry]:
    """All counts of a suite. Its files end in a zero byte."""
    for line in path.read_text("ascii").replace("\0", "").splitlines():
        fen, *counts = line.split(";")
        for count in counts:
            if count.strip():
                depth, leaves = count.split()
                yield Entry(path.name, fen, int(depth.removeprefix("D")), int(leaves))


def count(chosen: Sequence[Entry], threads: int = 1) -> Iterator[Counted]:
    """Counts all entries, the largest first; perft runs without the GIL, so threads are enough."""
    order = sorted(chosen, key=lambda entry: -entry.leaves)
    rows = rules.parse_fens([entry.fen for entry in order])
    with ThreadPoolExecutor(threads) as pool:
        counts = pool.map(lambda i: rules.perft(rows[i : i + 1], order[i].depth), range(len(order)))
        yield from map(Counted, order, counts)


def table(found: Iterable[Counted]) -> list[str]:
    """One line a suite and depth: how many entries, their leaves, how many are wrong."""
    groups: dict[tuple[str, int], list[Counted]] = defaultdict(list)
    for counted in found:
        groups[counted.entry.name, counted.entry.depth].append(counted)
    lines = [f"{'suite':30} {'depth':>5} {'positions':>9} {'leaves':>19} {'wrong':>5}"]
    for (name, depth), group in sorted(groups.items()):
        leaves, wrong = sum(c.ours for c in group), sum(c.wrong for c in group)
        lines.append(f"{name:30} {depth:5} {len(group):9,} {leaves:19,} {wrong:5}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description="Perft of the suites.")
    parser.add_argument("--leaves", type=int, help="Largest entry of any suite (default: what a night affords).")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    shared_data.add_option(parser)
    options = parser.parse_args()
    chosen = [
        entry
        for name in SUITES
        for entry in entries(options.data / "epd" / name)
        if entry.leaves <= (options.leaves or NIGHTLY[name])
    ]
    print(f"{len(chosen):,} entries, {sum(e.leaves for e in chosen):,} leaves", flush=True)
    start, found = time.perf_counter(), []
    for counted in count(chosen, options.threads):
        found.append(counted)
        if counted.wrong:
            print(f"WRONG: {counted.entry.name} {counted.entry.fen} depth {counted.entry.depth}: {counted.ours:,}, ")
            print(f"  not {counted.entry.leaves:,}", flush=True)
    seconds = time.perf_counter() - start
    print("\n".join(table(found)))
    total, wrong = sum(c.ours for c in found), sum(c.wrong for c in found)
    print(f"{total:,} leaves in {seconds:,.0f} s, {total / seconds / 1e6:,.0f} M/s, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
