"""Every reader of foreign bytes, fuzzed: no crash, no hang, and what python-chess says where both read.

The default suite tries some hundred inputs of each; ``pytest -m fuzz`` a thousand mutants of each, or as many as
VALUEREPAIR_FUZZ_INPUTS says.
"""

from __future__ import annotations

import io
import logging
import os
import random
import time
from pathlib import Path

import chess.pgn
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.archives import read_archive
from tests.fuzz.inputs import games
from tests.fuzz.mutate import HEADERS, NUMBERS, PIECES, change_number, inject_header, insert_piece, mutant
from tests.fuzz.targets import TARGETS

INPUTS = int(os.environ.get("VALUEREPAIR_FUZZ_INPUTS", "1000"))
SLOWEST_S = 20.0  # of one input, on a machine that is busy with other things
CORPUS = Path(__file__).parent / "fuzz" / "corpus"
# Examples in the default suite: a reader that needs a search is slower, and most archives are games.
EXAMPLES = {"server": 12, "pgn": 100, "chunk": 20, "packed": 20}


@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes_are_read_or_refused(name: str) -> None:
    target = TARGETS[name]
    seeds = list(target.seeds())
    lines = [line + b"\n" for seed in seeds for line in seed.split(b"\n")][:300] if target.text else seeds
    pieces = st.one_of(st.sampled_from([*lines, *PIECES, *NUMBERS, *HEADERS]), st.binary(max_size=12))
    damaged = st.integers(0, 2**32).map(lambda seed: mutant(random.Random(seed), seeds, target.damage))

    @settings(
        max_examples=EXAMPLES.get(name, 40), deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    @given(st.one_of(damaged, st.lists(pieces, max_size=20).map(b"".join), st.binary(max_size=600)))
    def check(data: bytes) -> None:
        target.run(data)

    check()


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*/*")), ids=lambda path: f"{path.parent.name}-{path.name[:8]}")
def test_what_once_reached_other_code_is_still_read_or_refused(path: Path) -> None:
    TARGETS[path.parent.name].run(path.read_bytes())


def test_a_game_that_both_read_is_the_same_to_python_chess(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "chess.pgn")  # it logs the illegal moves that it finds
    compared = 0
    for number in range(120):
        dice = random.Random(number)
        text = mutant(dice, games()[:40], (insert_piece, inject_header, change_number))
        handle = io.StringIO(text.decode("utf-8", "replace"))
        game = chess.pgn.read_game(handle)
        found, report = read_archive(text, "a.pgn")
        if game is None or game.errors or handle.read().strip() or (report.games, report.parsed) != (1, 1):
            continue
        moves = [move.uci() for move in game.mainline_moves()]
        assert report.looked_at == len(moves)
        for position in found:
            assert [*position.moves, position.origin.played] == moves[: len(position.moves) + 1]
            assert position.start_fen == game.board().fen()
        compared += 1
    assert compared > 20


@pytest.mark.fuzz
@pytest.mark.parametrize("name", TARGETS)
def test_mutants(name: str, tmp_path: Path) -> None:
    """The failing input is left in the test's folder."""
    target = TARGETS[name]
    seeds = list(target.seeds())
    for number in range(INPUTS):
        data = mutant(random.Random(f"{name} {number}"), seeds, target.damage)
        (tmp_path / "input").write_bytes(data)
        started = time.monotonic()
        target.run(data)
        assert time.monotonic() - started < SLOWEST_S
