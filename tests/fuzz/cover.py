"""``python -m tests.fuzz.cover TARGET [libFuzzer options]``: coverage-guided fuzzing (pip install atheris).

New inputs that reach other code are kept in tests/fuzz/corpus/TARGET (up to 4 KB each), where the tests read them.
Only for readers in plain Python: engine, header, config, book, repair. Numba cannot compile what is instrumented, and
archives, positions, stores, JSON and Parquet are read by compiled code; these have the mutants.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

CORPUS = Path(__file__).with_name("corpus")
MODULES = ["valuerepair.engines", "valuerepair.books", "valuerepair.nets.weights"]
MODULES += ["valuerepair.cli", "valuerepair.pipeline.settings", "valuerepair.inputs", "tomllib"]


def main() -> None:
    import atheris

    name, *options = sys.argv[1:]
    with atheris.instrument_imports(include=MODULES):
        from tests.fuzz.targets import TARGETS

        target = TARGETS[name]
        seeds = list(target.seeds())
        for data in seeds:
            target.run(data)  # what is imported or compiled on first use
    folder = CORPUS / name
    folder.mkdir(parents=True, exist_ok=True)
    begin = Path(tempfile.mkdtemp(prefix="seeds-"))
    for number, data in enumerate(seeds):
        (begin / str(number)).write_bytes(data)
    run: Callable[[bytes], object] = target.run
    atheris.Setup([sys.argv[0], "-max_len=4096", *options, str(folder), str(begin)], run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
