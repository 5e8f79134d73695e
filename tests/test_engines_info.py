"""Parsing what engines say: any order of fields, garbled lines, bounds, and python-chess as the judge."""

from __future__ import annotations

import chess
import chess.engine
import pytest
from hypothesis import given
from hypothesis import strategies as st

from valuerepair.engines.uci import (
    EngineOption,
    EngineSetup,
    Info,
    SearchReader,
    UciEngine,
    parse_info,
    parse_option,
)

STOCKFISH_LINE = (
    "info depth 7 seldepth 9 multipv 1 score cp 34 wdl 55 943 2 nodes 2000 nps 333333 hashfull 0 tbhits 0 time 6 "
    "pv e2e4 c7c5 g1f3 a7a8q"
)
LC0_LINE = "info depth 3 seldepth 5 time 502 nodes 10 score cp 64 wdl 491 51 458 nps 20 tbhits 0 pv e2e4 c7c5"


def test_stockfish_and_lc0_lines() -> None:
    assert parse_info(STOCKFISH_LINE) == Info(
        {"depth": 7, "seldepth": 9, "multipv": 1, "nodes": 2000, "nps": 333333, "time": 6},
        34,
        None,
        (55, 943, 2),
        False,
        ("e2e4", "c7c5", "g1f3", "a7a8q"),
    )
    lc0 = parse_info(LC0_LINE)
    assert lc0 is not None
    assert (lc0.cp, lc0.wdl, lc0.pv, lc0.numbers["nodes"]) == (64, (491, 51, 458), ("e2e4", "c7c5"), 10)


@given(st.permutations(["depth 7", "score cp 34 lowerbound", "wdl 55 943 2", "nodes 2000", "pv e2e4 c7c5", "time 6"]))
def test_any_order_of_fields_reads_the_same(fields: list[str]) -> None:
    info = parse_info("info " + " ".join(fields))
    assert info == Info({"depth": 7, "nodes": 2000, "time": 6}, 34, None, (55, 943, 2), True, ("e2e4", "c7c5"))


def _report(*lines: str) -> tuple[int | None, int | None, int, tuple[str, ...]]:
    reader = SearchReader()
    for line in lines:
        reader.add(line)
    report = reader.report("bestmove e2e4 ponder e7e5", 12)
    return report.cp, report.mate, report.nodes, report.pv


def test_the_last_exact_score_of_the_first_variation_counts_and_the_last_node_count() -> None:
    exact = "info depth 8 score cp 20 nodes 100 pv e2e4"
    assert _report(exact, "info depth 9 score cp 90 lowerbound nodes 300 pv d2d4") == (20, None, 300, ("e2e4",))
    assert _report(exact, "info depth 8 multipv 2 score cp -50 nodes 200 pv a2a3") == (20, None, 100, ("e2e4",))
    assert _report(exact, "info depth 9 score mate -3 nodes 200 pv e2e4 e7e5") == (None, -3, 200, ("e2e4", "e7e5"))
    assert _report("info depth 1 score cp 90 upperbound nodes 3") == (90, None, 3, ())
    assert _report(exact, "info nodes 555 nps 3") == (20, None, 555, ("e2e4",))


def test_answers_without_a_score_or_a_move_are_refused() -> None:
    with pytest.raises(ValueError, match="without a score"):
        SearchReader().report("bestmove e2e4", 0)
    reader = SearchReader()
    reader.add(STOCKFISH_LINE)
    for garbled in ("bestmove", "bestmove e2-e4", "bestmove e9e4"):
        with pytest.raises(ValueError, match="garbled"):
            reader.report(garbled, 0)
    assert reader.report("bestmove (none)", 0).best_move is None
    assert reader.report("bestmove 0000", 0).best_move is None


def test_a_promotion_in_upper_case_is_the_same_move() -> None:
    """cutechess takes it, too (Board::pieceFromSymbol)."""
    reader = SearchReader()
    reader.add("info depth 1 score cp 500 nodes 20 pv f7f8R h8g7 e2e4")
    report = reader.report("bestmove f7f8R ponder h8g7", 0)
    assert (report.best_move, report.pv) == ("f7f8r", ("f7f8r", "h8g7", "e2e4"))


@pytest.mark.parametrize(
    ("offered", "value", "line"),
    [
        # UCI, setoption: "name and value of the option in <id> should not be case sensitive".
        ("UCI_ShowWDL type check default false", "True", "setoption name UCI_ShowWDL value true"),
        ("Style type combo default Solid var Solid var Very Wild", "very wild", "setoption name Style value Very Wild"),
        ("Style type combo default a var A var a", "a", "setoption name Style value a"),
        ("Path type string default x", "/A  b", "setoption name Path value /A  b"),
        # UCI, option: "for empty strings ... <empty>"; lc0 has empty defaults, and takes that word as it is.
        ("NalimovPath type string default <empty>", "", "setoption name NalimovPath value <empty>"),
        ("LogFile type string default ", "", "setoption name LogFile value "),
        # UCI's example: "setoption name Clear Hash".
        ("Clear Hash type button", "", "setoption name Clear Hash"),
        ("Clear Hash type button", "true", "setoption name Clear Hash"),
    ],
)
def test_options_are_set_as_uci_says(offered: str, value: str, line: str) -> None:
    option = parse_option(f"option name {offered}")
    assert option is not None
    assert option.setting(option.spelled(value)) == line


def test_options_of_every_kind() -> None:
    lines = {
        "Hash type spin default 16 min 1 max 33554432": EngineOption("Hash", "spin", "16"),
        "Bonus type spin default -5 min -100 max 0": EngineOption("Bonus", "spin", "-5"),
        "Analysis Style type combo default very wild var solid var very wild": EngineOption(
            "Analysis Style", "combo", "very wild", ("solid", "very wild")
        ),
        "SyzygyPath type string default <empty>": EngineOption("SyzygyPath", "string", "<empty>"),
        "Ponder type check default false": EngineOption("Ponder", "check", "false"),
        "Clear Hash type button": EngineOption("Clear Hash", "button"),
        "Broken": None,
    }
    assert {line: parse_option(f"option name {line}") for line in lines} == lines


@pytest.mark.parametrize(
    "fen",
    [
        chess.STARTING_FEN,
        "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R b KQkq - 0 1",
        "7k/8/5K2/6Q1/8/8/8/8 w - - 0 1",
        "8/8/8/8/4k3/8/4P3/4K3 b - - 40 60",
    ],
)
def test_python_chess_reads_the_same_from_stockfish(stockfish: str, fen: str) -> None:
    with chess.engine.SimpleEngine.popen_uci(stockfish) as other:
        other.configure({"Threads": 1, "Hash": 16, "UCI_ShowWDL": True})
        expected = other.analyse(chess.Board(fen), chess.engine.Limit(nodes=30_000))
    engine = UciEngine(EngineSetup(stockfish, (), {"Threads": "1", "Hash": "16", "UCI_ShowWDL": "true"}))
    engine.start()
    report = engine.search(f"position fen {fen}", "go nodes 30000", 30)
    engine.close()
    score = expected["score"].relative
    assert (report.cp, report.mate) == (score.score(), score.mate())
    assert report.wdl == tuple(expected["wdl"].relative)
    assert (report.nodes, report.depth, report.seldepth) == (
        expected["nodes"],
        expected["depth"],
        expected["seldepth"],
    )
    assert report.pv == tuple(m.uci() for m in expected["pv"])
