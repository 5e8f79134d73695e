"""Time controls: what is read, how clocks run, and that PGN's tag says the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from valuerepair.archives import options as pgn_tag
from valuerepair.errors import UsageError
from valuerepair.play.time_control import Clock, TimeControl, parse_time_control


@pytest.mark.parametrize(
    ("text", "control", "tag"),
    [
        ("nodes=800", TimeControl(nodes=800), "-"),
        ("nodes=10k", TimeControl(nodes=10_000), "-"),
        ("movetime=100ms", TimeControl(movetime=100), "0.1/move"),
        ("movetime=0.5s", TimeControl(movetime=500), "0.5/move"),
        ("movetime=250", TimeControl(movetime=250), "0.25/move"),
        ("10+0.1", TimeControl(base=10_000, increment=100), "10+0.1"),
        ("1:30+2", TimeControl(base=90_000, increment=2000), "90+2"),
        ("60", TimeControl(base=60_000), "60"),
        ("0+1", TimeControl(base=0, increment=1000), "0+1"),
    ],
)
def test_what_is_read_is_said_again(text: str, control: TimeControl, tag: str) -> None:
    assert parse_time_control(text) == control
    assert control.tag == tag
    assert parse_time_control(str(control)) == control


def test_the_tag_is_what_our_reader_of_archives_understands() -> None:
    assert pgn_tag.parse_time_control(parse_time_control("10+0.1").tag) == (10.0, 0.1)
    assert pgn_tag.parse_time_control(parse_time_control("movetime=100ms").tag) == (40 * 0.1, 0.0)


@pytest.mark.parametrize(
    "text",
    ["", "fast", "10+", "+1", "0", "0+0", "-1+1", "40/60", "nodes=0", "nodes=1.5", "nodes=", "movetime=0", "1e9",
     "movetime=1h", "depth=3", "9999999999", "nan", "inf"],
)  # fmt: skip
def test_nonsense_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_time_control(text)
    assert "\n" not in str(refused.value)


def test_a_clock_runs_for_the_side_that_moves_and_gets_its_increment() -> None:
    control = parse_time_control("10+0.1")
    clock = control.after(control.start(), True, 2.5)
    assert clock == Clock(7600, 10_000, 100, 100)
    assert control.after(clock, False, 0.0) == Clock(7600, 10_100, 100, 100)


def test_a_clock_is_overdrawn_by_the_margin_at_most() -> None:
    control = parse_time_control("1", margin=50)
    assert control.after(control.start(), True, 1.05) == Clock(0, 1000)
    assert control.after(control.start(), True, 1.0511) is None
    assert control.after(control.start(), False, 1.0511) is None
    assert parse_time_control("0+1").start() == Clock(1000, 1000, 1000, 1000)


def test_nodes_have_no_clock() -> None:
    with pytest.raises(ValueError, match="no clock"):
        parse_time_control("nodes=1").start()


@given(st.lists(st.floats(0, 0.9), max_size=60), st.integers(0, 2000), st.integers(0, 500))
def test_time_is_neither_made_nor_lost(seconds: list[float], base: int, increment: int) -> None:
    """Base and increments of a side are its time left and what it used, until it is out of time."""
    control = TimeControl(base=base + 1, increment=increment, margin=0)
    clock: Clock | None = control.start()
    used = 0
    for ply, took in enumerate(seconds):
        assert clock is not None
        before = clock.white if ply % 2 == 0 else clock.black
        clock = control.after(clock, ply % 2 == 0, took)
        assert (clock is None) == (round(1000 * took) > before)
        if clock is None:
            return
        used += round(1000 * took)
        assert clock.white + clock.black == 2 * (base + 1) - used + (ply + 1) * increment
