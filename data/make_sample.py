"""Makes data/sample.db, the store that the notebooks, the tests and the examples of docs/python.md read.

    python data/make_sample.py --other maia-1100.pb.gz --other meangirl-8.pb.gz

It is mined from data/games.pgn.zst by the commands in `COMMANDS`, as a user would give them, in a folder of its own, so
that no path of the machine gets into the store. Nets of other strengths are asked about the same positions; their
values are stored, not they. Then the file is made fit to be kept: one file, no write-ahead log, no free pages.

Stockfish must be installed, maia-1900 is pulled by itself. Stockfish searches by nodes with one thread and an emptied
hash table, but two machines may round a net's value differently, and screening then leaves out other positions: the
figures move a little.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

DATA = Path(__file__).resolve().parent
STORE = "sample.db"
# maia-1900 plays as people do, and against Stockfish its alpha is nearly twice the default; so Q of both lie closer
# together, and at the usual 0.55 a store of this size has 14 candidates.
THRESHOLD = "0.35"
COMMANDS = (
    f"mine data/games.pgn.zst --positions 1500 --deep stockfish:nodes=100000 --threshold {THRESHOLD} --db {STORE} -q",
    f"stats --use alpha=slope --db {STORE}",
    f"confirm --db {STORE} -q",
    f"books --limit 50 --db {STORE} -o book -q",
    f"selfplay book/book.pgn --net maia-1900 --nodes 50 --set certainty=1 --db {STORE} -o games.pgn -q",
)


def vr(words: str, folder: Path) -> None:
    """Runs one command of this project in `folder`; what it says goes to standard output."""
    print(f"$ vr {words}", flush=True)
    subprocess.run([sys.executable, "-m", "valuerepair", *shlex.split(words)], cwd=folder, check=True)


def make(folder: Path, others: list[Path]) -> Path:
    """The store, in `folder`, which is empty; `others` are files of nets."""
    (folder / "data").mkdir()
    shutil.copy(DATA / "games.pgn.zst", folder / "data")
    for command in COMMANDS:
        vr(command, folder)
    for net in others:
        shutil.copy(net, folder)
        vr(f"compare maia-1900 {net.name} --db {STORE} -q", folder)
    return folder / STORE


def settle(path: Path) -> None:
    """One file without a log beside it, which reading leaves as it is, and which names no path of this machine."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("UPDATE nets SET path = NULL")
    connection.execute("UPDATE judges SET net_path = NULL")
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("VACUUM")
    connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes data/sample.db.")
    parser.add_argument("--other", action="append", type=Path, default=[], metavar="FILE", help="another net")
    parser.add_argument("-o", "--output", type=Path, default=DATA / STORE)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        store = make(Path(name), options.other)
        settle(store)
        partial = options.output.with_name(f".{options.output.name}.{os.getpid()}")
        shutil.copy(store, partial)
        os.replace(partial, options.output)
    print(f"{options.output}: {options.output.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
