"""Time controls: what is read, how clocks run, and that PGN's tag says the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from valuerepair.archives import options as pgn_tag
from valuerepair.errors import UsageError
from valuerepair.play.time_control import MARGIN_MS, Clock, TimeControl, parse_control


def clocked(text: str) -> TimeControl:
    control = parse_control(None, text)
    assert control is not None
    return control


@pytest.mark.parametrize(
    ("text", "control", "tag"),
    [
        ("10+0.1", TimeControl(base=10_000, increment=100), "10+0.1"),
        ("1:30+2", TimeControl(base=90_000, increment=2000), "90+2"),
        ("60", TimeControl(base=60_000), "60"),
        ("0+1", TimeControl(base=0, increment=1000), "0+1"),
    ],
)
def test_what_is_read_is_said_again(text: str, control: TimeControl, tag: str) -> None:
    assert parse_control(None, text) == control
    assert control.tag == str(control) == tag
    assert parse_control(None, control.tag) == control


@pytest.mark.parametrize(("text", "nodes"), [("800", 800), ("10k", 10_000)])
def test_nodes_are_no_time(text: str, nodes: int) -> None:
    control = TimeControl(nodes=nodes)
    assert parse_control(text, None) == control
    assert (control.tag, str(control)) == ("-", f"nodes={nodes}")
    with pytest.raises(ValueError, match="no clock"):
        control.start()


def test_the_tag_is_what_our_reader_of_archives_understands() -> None:
    assert pgn_tag.parse_time_control(clocked("10+0.1").tag) == (10.0, 0.1)


@pytest.mark.parametrize(
    ("nodes", "clock"),
    [
        *((None, text) for text in ("", "fast", "10+", "+1", "0", "0+0", "-1+1", "40/60", "nodes=3", "movetime=100",
                                    "1e9", "9999999999", "nan", "inf")),
        *((text, None) for text in ("", "0", "1.5", "few")),
        ("1", "10+0.1"),
    ],
)  # fmt: skip
def test_nonsense_is_refused_in_one_line(nodes: str | None, clock: str | None) -> None:
    with pytest.raises(UsageError, match=r"^--(nodes|tc) ") as refused:
        parse_control(nodes, clock)
    assert "\n" not in str(refused.value)


def test_a_clock_runs_for_the_side_that_moves_and_gets_its_increment() -> None:
    control = clocked("10+0.1")
    clock = control.after(control.start(), True, 2.5)
    assert clock == Clock(7600, 10_000, 100, 100)
    assert control.after(clock, False, 0.0) == Clock(7600, 10_100, 100, 100)


def test_a_clock_is_overdrawn_by_the_margin_at_most() -> None:
    control, late = clocked("1"), 1 + MARGIN_MS / 1000
    assert control.after(control.start(), True, late) == Clock(0, 1000)
    assert control.after(control.start(), True, late + 0.0011) is None
    assert control.after(control.start(), False, late + 0.0011) is None
    assert clocked("0+1").start() == Clock(1000, 1000, 1000, 1000)


@given(st.lists(st.floats(0, 0.9), max_size=60), st.integers(0, 2000), st.integers(0, 500))
def test_time_is_neither_made_nor_lost(seconds: list[float], base: int, increment: int) -> None:
    """Base and increments of a side are its time left and what it used, until it is out of time."""
    control = TimeControl(base=base + 1, increment=increment)
    clock: Clock | None = control.start()
    used = 0
    for ply, took in enumerate(seconds):
        assert clock is not None
        before = clock.white if ply % 2 == 0 else clock.black
        clock = control.after(clock, ply % 2 == 0, took)
        assert (clock is None) == (round(1000 * took) > before + MARGIN_MS)
        if clock is None:
            return
        used += min(round(1000 * took), before)
        assert clock.white + clock.black == 2 * (base + 1) - used + (ply + 1) * increment
