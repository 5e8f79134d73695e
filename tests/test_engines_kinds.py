"""Kinds of engines: read and written again, as a store tells them, and the files that they name."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from valuerepair.engines.kinds import KINDS, STOCKFISH, kind_of, parse_spec
from valuerepair.errors import UsageError
from valuerepair.files import file_sha256
from valuerepair.oracles.open import open_judge
from valuerepair.play.lineup import parse_side
from valuerepair.store.rows import JudgeIdentity

FAKE = str(Path(__file__).with_name("fake_engine.py"))

WORDS = st.text("ab=,: /-.7", min_size=1).map(str.strip).filter(bool)
NODES = st.integers(1, 10**9)


@given(
    st.sampled_from(["stockfish:", "uci:/e,", "lc0:weights=w,", "uci:/o p/x\\,y,"]),
    NODES,
    st.dictionaries(st.sampled_from(["option.A b", "option.Hash", "arg", "timeout", "start-timeout"]), WORDS),
)
def test_what_is_read_is_written_as_it_can_be_read(begin: str, nodes: int, more: dict[str, str]) -> None:
    more = {name: "2.5" if "timeout" in name else value.replace(",", "\\,") for name, value in more.items()}
    spec = parse_spec(begin + ",".join([f"nodes={nodes}", *(f"{name}={value}" for name, value in more.items())]))
    assert parse_spec(spec.text) == spec
    assert parse_side(spec.text) == spec


@pytest.mark.parametrize(
    "text", ["mcts", "mcts:nodes=7,weights=a\\,b,certainty=1,trees=3", "recorded", "recorded:kind=tcec,min-nodes=10000"]
)
def test_the_own_search_and_recorded_values_are_written_again(text: str) -> None:
    assert parse_spec(parse_spec(text).text) == parse_spec(text)


def test_a_kind_is_one_object_on_every_machine() -> None:
    assert all(pickle.loads(pickle.dumps(kind)) is kind for kind in KINDS.values())
    assert kind_of("of-tomorrow").searches
    with pytest.raises(UsageError, match="does not know where this engine is"):
        kind_of("of-tomorrow").spec_of(JudgeIdentity("of-tomorrow", "E", "", {"nodes": 1}, {}))


def test_a_store_has_no_engine_write_files_nor_say_a_second_command() -> None:
    options = {"Debug Log File": "/home/me/.profile", "Hash": "32"}
    assert STOCKFISH.spec_of(JudgeIdentity("stockfish", "S", "", {"nodes": 5}, options)).options == {"Hash": "32"}
    with pytest.raises(UsageError, match="printable"):
        STOCKFISH.spec_of(JudgeIdentity("stockfish", "S", "", {"nodes": 5}, {"Hash": "1\nsetoption name X value y"}))


def test_a_file_that_an_option_names_is_known_by_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "book").write_bytes(b"moves")
    text = f"uci:{sys.executable},arg={FAKE},option.Book Path=book,nodes=9"
    with open_judge(text, net_path=None, workers=1) as judge:
        assert judge.identity.options["Book Path"] == f"book#{file_sha256(str(tmp_path / 'book'))[:12]}"
        assert judge.identity.options["program"] == f"fake_engine.py#{file_sha256(FAKE)[:12]}"
