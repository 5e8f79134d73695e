"""The text of --deep: what it means, and what is said when it is wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from valuerepair.engines.kinds import LC0, OWN_SEARCH, STOCKFISH, UCI, parse_spec
from valuerepair.engines.spec import EngineSpec
from valuerepair.errors import UsageError


def test_the_forms_of_the_help() -> None:
    assert parse_spec("stockfish") == EngineSpec(STOCKFISH, {"nodes": 1_000_000})
    assert parse_spec("stockfish:nodes=250k") == EngineSpec(STOCKFISH, {"nodes": 250_000})
    assert parse_spec("lc0") == EngineSpec(LC0, {"nodes": 1000})
    assert parse_spec("lc0:nodes=1_000,weights=a b.pb.gz") == EngineSpec(LC0, {"nodes": 1000}, weights="a b.pb.gz")
    assert parse_spec("uci:/opt/my engine,depth=20,option.Hash=64,option.Book Path=/b\\,c") == EngineSpec(
        UCI, {"depth": 20}, "/opt/my engine", options={"Hash": "64", "Book Path": "/b,c"}
    )
    assert parse_spec("uci:odd=name,nodes=2M,movetime=500,timeout=9.5,start-timeout=60,arg=-x,arg=y=z,hash=128") == (
        EngineSpec(
            UCI,
            {"nodes": 2_000_000, "movetime": 500},
            "odd=name",
            options={"Hash": "128"},
            arguments=("-x", "y=z"),
            timeout=9.5,
            start_timeout=60.0,
        )
    )
    assert parse_spec("stockfish:path=sf16").path == "sf16"
    assert parse_spec("mcts") == EngineSpec(OWN_SEARCH, {"nodes": 200})
    assert parse_spec("mcts:nodes=2k,certainty=1,N-Scl=inf,CPuct=1.5,weights=maia-1100,trees=32") == EngineSpec(
        OWN_SEARCH,
        {"nodes": 2000},
        weights="maia-1100",
        options={"certainty": "1", "n_scl": "inf", "cpuct": "1.5"},
        trees=32,
    )


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("", "stockfish, mcts, lc0, uci, recorded"),
        ("fish:nodes=1", "fish"),
        ("stockfish:node=100", "nodes"),
        ("stockfish:zzz=100", "zzz"),
        ("stockfish:nodes", "NAME=VALUE"),
        ("stockfish:nodes=", "NAME=VALUE"),
        ("stockfish:nodes=0", "nodes=0"),
        ("stockfish:nodes=1e6", "nodes=1e6"),
        ("stockfish:depth=3000000000", "depth=3000000000"),
        ("stockfish:timeout=nan", "timeout=nan"),
        ("stockfish:weights=x", "weights="),
        ("stockfish:option.=3", "option."),
        ("stockfish:name=x", "name="),
        ("uci", "uci:/path/engine"),
        ("uci:nodes=100", "uci:/path/engine"),
        ("uci:/a", "nodes=N"),
        ("uci:/a,path=/b,nodes=1", "path"),
        ("mcts:nodes=0", "nodes=0"),
        ("mcts:certanty=1", "certainty"),
        ("mcts:depth=5", "depth"),
        ("mcts:certainty=maybe", "certainty=maybe"),
        ("mcts:n_scl=0", "n_scl=0"),
        ("mcts:cpuct=-1", "cpuct=-1"),
        ("mcts:movetime=5", "movetime="),
        ("mcts:trees=0", "trees=0"),
    ],
)
def test_what_is_wrong_is_named_in_one_line(text: str, fact: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_spec(text)
    assert str(caught.value).startswith(f"--deep {text!r}: ")
    assert fact in str(caught.value)
    assert "\n" not in str(caught.value)


@given(
    st.text()
    | st.text().map("stockfish:".__add__)
    | st.text().map("uci:/e,nodes=".__add__)
    | st.text().map("mcts:".__add__)
)
def test_no_text_gives_anything_but_a_spec_or_a_usage_error(text: str) -> None:
    try:
        spec = parse_spec(text)
    except UsageError:
        return
    assert spec.limits
    assert all(v > 0 for v in spec.limits.values())
