"""Sides of a match as text, and the players that come of it."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest

from valuerepair.engines.kinds import LC0, OWN_SEARCH, STOCKFISH, UCI, EngineKind
from valuerepair.engines.spec import EngineSpec
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.mcts.params import SearchParams
from valuerepair.play.lineup import Lineup, distinct, limits_of, params_of, parse_side

FAKE = str(Path(__file__).with_name("fake_engine.py"))


@pytest.mark.parametrize(
    ("text", "kind", "path", "net", "limits"),
    [
        ("net=maia-1900,nodes=800", OWN_SEARCH, None, "maia-1900", {"nodes": 800}),
        ("nodes=10k,certainty=1", OWN_SEARCH, None, None, {"nodes": 10_000}),
        ("mcts:weights=maia-1900,nodes=5", OWN_SEARCH, None, "maia-1900", {"nodes": 5}),
        ("stockfish", STOCKFISH, None, None, {}),
        ("stockfish:nodes=1M", STOCKFISH, None, None, {"nodes": 1_000_000}),
        ("lc0:weights=x.pb.gz,movetime=0.1s", LC0, None, "x.pb.gz", {"movetime": 100}),
        ("/opt/engine,depth=3", UCI, "/opt/engine", None, {"depth": 3}),
        ("./engine", UCI, "./engine", None, {}),
        ("./engine:nodes=20", UCI, "./engine", None, {"nodes": 20}),
        ("fruit:depth=3,hash=16", UCI, "fruit", None, {"depth": 3}),
        ("/opt/a:b", UCI, "/opt/a:b", None, {}),
        ("uci:fruit,nodes=3", UCI, "fruit", None, {"nodes": 3}),
        ("/opt/a=b,nodes=1", UCI, "/opt/a=b", None, {"nodes": 1}),
        ("/opt/with\\,comma,nodes=1", UCI, "/opt/with,comma", None, {"nodes": 1}),
    ],
)
def test_kinds_of_sides(text: str, kind: EngineKind, path: str | None, net: str | None, limits: dict[str, int]) -> None:
    side = parse_side(text)
    assert (side.kind, side.path, side.weights, side.limits) == (kind, path, net, limits)


def test_contempt_is_n_scl() -> None:
    assert params_of(parse_side("net=x,contempt=5,name=C")) == SearchParams(n_scl=5)
    assert params_of(parse_side("net=x,contempt=inf")) == SearchParams()
    assert parse_side("net=x,contempt=5,name=C").name == "C"


def test_options_of_engines() -> None:
    side = parse_side("/e,option.Style=very wild,hash=32,arg=-x,arg=y=z,timeout=5,start-timeout=9,name=My engine")
    assert side.options == {"Style": "very wild", "Hash": "32"}
    assert parse_side("/e,option.Book File=,option.Clear Hash=").options == {"Book File": "", "Clear Hash": ""}
    assert (side.arguments, side.timeout, side.start_timeout, side.name) == (("-x", "y=z"), 5.0, 9.0, "My engine")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is empty"),
        ("net=x,nods=3", "did you mean nodes?"),
        ("net=x,contempt=0", "at least 1, or inf"),
        ("net=x,depth=3", "no setting 'depth'"),
        ("nodes=0", "at least 1"),
        ("stockfish:movetime=soon", "at least 1 ms"),
        ("uci:nodes=3", "say which engine"),
        ("/e,timeout=-1", "seconds above 0"),
        ("net=x,name=a\nb", "printable"),
        ("net=x,trees=3", "--jobs says how many games"),
    ],
)
def test_nonsense_is_refused_in_one_line(text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint.replace("?", r"\?")) as refused:
        parse_side(text)
    assert len(str(refused.value).split("\\n")[0].splitlines()) == 1


def test_whose_limit_holds() -> None:
    assert limits_of(parse_side("stockfish"), 7) == {"nodes": 7}
    assert limits_of(parse_side("stockfish:nodes=9"), 7) == {"nodes": 9}
    assert limits_of(parse_side("stockfish:movetime=9"), None) == {"movetime": 9}
    with pytest.raises(UsageError, match="has no limit; give --nodes"):
        limits_of(parse_side("stockfish"), None)


def test_names_can_be_told_apart() -> None:
    a, b = EngineSpec(OWN_SEARCH, options={"n_scl": "5"}), EngineSpec(OWN_SEARCH)
    assert distinct(["x", "y"], [a, b], [{}, {}]) == ["x", "y"]
    assert distinct(["x", "x"], [a, b], [{"nodes": 1}, {"nodes": 1}]) == ["x nodes=1,n_scl=5", "x nodes=1"]
    assert distinct(["x", "x"], [b, b], [{"nodes": 1}, {"nodes": 1}]) == ["x", "x (2)"]
    assert distinct(["", ""], [a, b], [{}, {}]) == ["", ""]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("no-such-engine,nodes=1", "no such engine; give its path"),
        ("/,nodes=1", "is a folder"),
        (f"lc0:path={sys.executable},weights=x,option.weightsFile=y,nodes=1", "give the net as weights=FILE.pb.gz"),
        (f"{FAKE},nodes=1", "is not executable"),
        (f"{sys.executable},arg={FAKE},option.Hsh=1,nodes=1", "has no option 'Hsh'; did you mean Hash"),
    ],
)
def test_engines_that_do_not_work_are_known_before_the_first_game(text: str, complaint: str) -> None:
    good = f"{sys.executable},arg={FAKE},nodes=1"
    with pytest.raises(ValueRepairError, match=complaint):
        Lineup([parse_side(good), parse_side(text)], None, 1, 2)
    assert psutil.Process().children(recursive=True) == []


def test_sides_that_differ_in_temperature_alone_have_other_identities(shared_data: Path) -> None:
    """A match goes on from a file only where its sides are the same, and moves are drawn by the temperature."""
    net = shared_data / "nets" / "maia-1900.pb.gz"
    sides = [parse_side(f"net={net},nodes=1,temperature={tau}") for tau in (0.5, 0.6)]
    with Lineup(sides, None, 1, 2, device="cpu") as lineup:
        first, second = (seat.identity for seat in lineup.seats)
    assert "temperature=0.5" in first
    assert first.replace("0.5", "0.6") == second
