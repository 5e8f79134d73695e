"""A device's values against ONNX Runtime's CPU at float32, on real positions: the table of docs/performance.md.

python -m tests.parity.device_parity --device f16-on-cpu --net maia-1900
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.chess.positions import PositionBatch
from valuerepair.nets.conversion import to_onnx
from valuerepair.nets.devices import CPU, DEVICES, Device, usable_cores
from valuerepair.nets.net import Net, NetIdentity, NetValues, Priors, open_net
from valuerepair.nets.registry import locate
from valuerepair.nets.session import Session
from valuerepair.nets.weights import read_net_file

GAMES = Path(__file__).parents[2] / "data" / "games.pgn.zst"
POSITIONS = 5000
HALF = "f16-on-cpu"
HEADER = (
    "| net | device | positions | largest \\|ΔQ\\| | 99.9 % | mean | largest \\|Δprior\\| | other best moves |\n"
    "|---|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True, slots=True)
class Apart:
    """Differences over n positions: of Q (largest, 99.9th percentile, mean), of a legal prior; shares of positions."""

    positions: int
    largest: float
    percentile: float
    mean: float
    prior: float
    best_moves: float

    def row(self, net: str, device: str) -> str:
        return (
            f"| {net} | `{device}` | {self.positions:,} | {self.largest:.2g} | {self.percentile:.2g} | {self.mean:.2g} "
            f"| {self.prior:.2g} | {self.best_moves:.2%} |"
        )


def real_positions(archive: str, count: int) -> PositionBatch:
    """The first `count` positions drawn from an archive, with their history."""
    found: list[PositionBatch] = []
    for batch in sample([archive], SampleOptions(per_game=40), ReadReport()):
        found.append(batch)
        if sum(map(len, found)) >= count:
            break
    rows = PositionBatch.concat(found)
    return rows.take(np.arange(min(count, len(rows))))


def differences(ours: tuple[NetValues, Priors], theirs: tuple[NetValues, Priors]) -> Apart:
    """How far two sets of values and priors of the same positions are apart."""
    (values, (_, _, priors)), (other, (_, _, other_priors)) = ours, theirs
    q = np.abs(values.q.astype(np.float64) - other.q)
    prior = float(np.abs(priors.astype(np.float64) - other_priors).max())
    moved = float(np.mean(values.best_move != other.best_move))
    return Apart(len(q), float(q.max()), float(np.quantile(q, 0.999)), float(q.mean()), prior, moved)


def on_the_cpu(name: str) -> Net:
    """The file that GPUs get at f16, run by the CPU: weights and the output of every layer are float16 there, too."""
    file = read_net_file(locate(name))
    session = Session(to_onnx(file, half=True), Device(CPU, "f16"), usable_cores())
    input_format = file.header.input_format if file.header else 1
    identity = NetIdentity(f"{file.name}-f16", file.sha256, "wdl", input_format, file.size, "-f16")
    return Net(identity, session)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", action="append", choices=[*DEVICES, HALF])
    parser.add_argument("--net", action="append")
    parser.add_argument("--archive", default=str(GAMES))
    parser.add_argument("--positions", type=int, default=POSITIONS)
    given = parser.parse_args()
    batch = real_positions(given.archive, given.positions)
    print(HEADER)
    for name in given.net or ["maia-1900"]:
        with open_net(name, device="cpu") as net:
            reference = net.evaluate_with_priors(batch)
        for device in given.device or [HALF]:
            with on_the_cpu(name) if device == HALF else open_net(name, device=device) as net:
                found = differences(net.evaluate_with_priors(batch), reference)
            print(found.row(net.identity.name, device), flush=True)


if __name__ == "__main__":
    main()
