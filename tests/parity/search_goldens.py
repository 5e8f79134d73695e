"""lc0's searches of 300 positions in its plain deterministic mode, and lc0 run on them again for a new golden file.

    python -m tests.parity.search_goldens --raw /tmp/goldens.jsonl        (about an hour of one core; may be resumed)
    python -m tests.parity.search_goldens --raw /tmp/goldens.jsonl --pack

The positions and what is searched of each are those of the committed file, gzip, one position a line: openings,
middlegames and endgames of `data/games.pgn.zst`, mates, stalemates, endings, repetitions, clocks of 90 to 99. The raw
file is appended to, one search a line, and searches that it has are not made again; `--pack` makes the new file of it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import chess

from tests import lc0_oracle
from valuerepair.chess.positions import Position
from valuerepair.mcts.params import SearchParams
from valuerepair.nets.registry import locate

GOLDENS = Path(__file__).parents[1] / "goldens" / "lc0-search.jsonl.gz"
# Without out-of-order evaluation a batch of one is one visit also where the leaf ends the game: counts are exact.
PLAIN_FLAGS = (
    *("--backend=eigen", "--threads=1", "--minibatch-size=1", "--max-prefetch=0", "--task-workers=0"),
    *("--smart-pruning-factor=0", "--nncache=0", "--solid-tree-threshold=2000000000"),
    "--no-out-of-order-eval",
    "--verbose-move-stats",
    "--show-wdl",
)
# Name of each configuration: lc0's flags; the names of our parameters are the same with underscores.
CONFIGS = {
    "default": (),
    "plain": ("--no-sticky-endgames", "--no-two-fold-draws"),
    "sticky only": ("--no-two-fold-draws",),
    "two-fold only": ("--no-sticky-endgames",),
    "cpuct-factor 0": ("--cpuct-factor=0", "--cpuct=1.2"),
    "fpu absolute": ("--fpu-strategy=absolute", "--fpu-value=0"),
    "root's own": (
        *("--root-has-own-cpuct-params", "--cpuct-at-root=2.5", "--cpuct-base-at-root=5000"),
        *("--cpuct-factor-at-root=2", "--fpu-strategy-at-root=absolute", "--fpu-value-at-root=1.0"),
    ),
    "draw-score": ("--draw-score=0.2",),
    "temperature": ("--policy-softmax-temp=1.0",),
}
_LINE = re.compile(
    r"info string (\S+)\s+\(\s*\d+\s*\) N:\s+(\d+) .*\(P:\s*([\d.]+)%\).*?"
    r"(?:\(U:\s*([-\d.]+)\) \(S:\s*([-\d.]+)\).*)?$"
)


@dataclass(frozen=True)
class Case:
    """One position to search: `name` is unique and stable; ``A`` to ``D`` were also measured by hand."""

    name: str
    category: str
    position: Position


Job = tuple[str, int, Case]


@dataclass(frozen=True)
class Golden:
    """One position with q and d of the net (lc0's backend) and lc0's searches by configuration and nodes."""

    case: Case
    net: tuple[float, float]
    searches: dict[tuple[str, int], dict[str, Any]]

    def root_q(self, config: str, nodes: int) -> float:
        """The mean of the root, mover's view: its own value and the visits of its moves. Draw score 0."""
        search = self.searches[config, nodes]
        mean: float = (self.net[0] + sum(n * search["q"][move] for move, n in search["visits"].items())) / nodes
        return mean


def jobs() -> list[Job]:
    """All searches of the committed file as (configuration, nodes, position), the quick ones first."""
    searches = [(config, nodes, golden.case) for golden in load() for config, nodes in golden.searches]
    order = list(CONFIGS)
    return sorted(searches, key=lambda job: (job[1] > 800, order.index(job[0]), job[1]))


@contextmanager
def engine(net: Path, flags: Iterable[str]) -> Iterator[subprocess.Popen[str]]:
    command = [lc0_oracle.binary(), f"--weights={net}", *PLAIN_FLAGS, *flags]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def search(process: subprocess.Popen[str], position: Position, nodes: int) -> dict[str, Any]:
    """What lc0 found: `visits` and `q` of every visited move (UCI, castling e1g1; mover's view), `best`, `info`."""
    assert process.stdin
    assert process.stdout
    process.stdin.write(f"ucinewgame\n{position.uci}\ngo nodes {nodes}\n")
    process.stdin.flush()
    board = chess.Board(position.fen)
    visits, values, info = dict[str, int](), dict[str, float](), ""
    for line in process.stdout:
        if line.startswith("bestmove"):
            break
        if line.startswith("info depth"):
            info = line
        elif (match := _LINE.match(line)) and match[1] != "node" and int(match[2]):
            move = board.parse_uci(match[1]).uci()
            visits[move], values[move] = int(match[2]), round(float(match[5]) - float(match[4]), 5)
    else:
        raise AssertionError(f"lc0 ended while searching {position.uci}")
    assert sum(visits.values()) == nodes - 1, f"{position.uci}: {sum(visits.values())} visits of {nodes}"
    order = sorted(visits, key=lambda m: -visits[m])
    return {
        "visits": {m: visits[m] for m in order},
        "q": {m: values[m] for m in order},
        "best": board.parse_uci(line.split()[1]).uci(),
        **_score(info),
    }


def _score(info: str) -> dict[str, Any]:
    score = re.search(r"score (cp|mate) (-?\d+)", info)
    wdl = re.search(r"wdl (\d+) (\d+) (\d+)", info)
    assert score, info
    assert wdl, info
    return {score[1]: int(score[2]), "wdl": [int(n) for n in wdl.groups()]}


def run(raw: Path, net: Path) -> None:
    done = {(r["config"], r["nodes"], r["name"]) for r in _read(raw)} if raw.exists() else set()
    left = [job for job in jobs() if (job[0], job[1], job[2].name) not in done]
    with raw.open("a", encoding="utf-8") as out:
        while left:
            config = left[0][0]
            with engine(net, CONFIGS[config]) as process:
                while left and left[0][0] == config:
                    _, nodes, case = left.pop(0)
                    record = {"config": config, "nodes": nodes, "name": case.name}
                    _write(out, {**record, **search(process, case.position, nodes)})


def pack(raw: Path, net: Path) -> None:
    """The committed file: each position with its raw value (q, d of the net by lc0's backend) and its searches."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for record in _read(raw):
        by_name.setdefault(record.pop("name"), []).append(record)
    backend = lc0_oracle.backend(net)
    cases = [golden.case for golden in load()]
    # No time stamp: the same searches give the same file.
    with gzip.GzipFile(GOLDENS, "wb", mtime=0) as out:
        for case in cases:
            answer = backend.evaluate(lc0_oracle.game_state(case.position).as_input(backend))[0]
            line = {
                "name": case.name,
                "category": case.category,
                "fen": case.position.fen,
                "start_fen": case.position.start_fen,
                "moves": " ".join(case.position.moves),
                "net": [answer.q(), answer.d()],
                "searches": by_name[case.name],
            }
            out.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
    print(f"{GOLDENS}: {GOLDENS.stat().st_size} bytes, {sum(map(len, by_name.values()))} searches")


def load() -> list[Golden]:
    """The committed goldens, in the order of the positions."""
    with gzip.open(GOLDENS, "rt", encoding="utf-8") as lines:
        return [_golden(json.loads(line)) for line in lines]


def _golden(line: dict[str, Any]) -> Golden:
    position = Position(line["fen"], line["start_fen"], tuple(line["moves"].split()))
    searches = {(s["config"], s["nodes"]): s for s in line["searches"]}
    return Golden(Case(line["name"], line["category"], position), tuple(line["net"]), searches)


def params_of(config: str, **more: str) -> SearchParams:
    """Our parameters that mean what lc0's flags of a configuration do."""
    settings = dict(more)
    for flag in CONFIGS[config]:
        name, _, value = flag.removeprefix("--").partition("=")
        settings[name.removeprefix("no-")] = value or str(int(not name.startswith("no-")))
    return SearchParams().with_settings(settings)


def _read(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _write(out: IO[str], record: dict[str, Any]) -> None:
    out.write(json.dumps(record, separators=(",", ":")) + "\n")
    out.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description="Golden searches by lc0.")
    parser.add_argument("--raw", type=Path, required=True, help="JSON lines of finished searches, appended to")
    parser.add_argument("--pack", action="store_true", help="write the golden file of the raw one")
    options = parser.parse_args()
    net = locate(None)
    if options.pack:
        pack(options.raw, net)
    else:
        run(options.raw, net)


if __name__ == "__main__":
    main()
