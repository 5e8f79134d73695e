"""What expansion costs the thread that drives it: processor time a searched position, net and engines not counted.

    python -m tests.parity.expand_cost STORE [--positions 1200] [--alpha 170]

It expands a copy of a mined store by the search that the store was mined with.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

from valuerepair.question import Question
from valuerepair.runs.expand import ExpandOptions, expand
from valuerepair.runs.stored_oracle import open_found
from valuerepair.store.store import Store


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("--positions", type=int, default=1200)
    parser.add_argument("--alpha", type=float)
    given = parser.parse_args()
    question = Question(alpha=given.alpha)
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copy(given.store, folder)
        with Store.open(copy, write=True) as store, open_found(store, question) as (net, oracle):
            options = ExpandOptions(question=question, positions=given.positions)
            begun = time.thread_time()
            summary = expand(store, net, oracle, options)
            spent = time.thread_time() - begun
    tally = summary.tally
    print(f"{tally.planned:,} positions searched, {tally.inferred:,} candidates inferred")
    print(f"processor time of the driving thread: {1000 * spent / tally.planned:.2f} ms a searched position")


if __name__ == "__main__":
    main()
