"""lichess's evaluation dump: which evaluation counts, whose view, castling, and lines that are none."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import chess
import pytest
import zstandard

from valuerepair.archives.options import RecordedOptions, SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.chess.origins import Recorded
from valuerepair.chess.positions import Position
from valuerepair.errors import ValueRepairError

# The sample on database.lichess.org, shortened.
SAMPLE = (
    '{"fen":"2bq1rk1/pr3ppn/1p2p3/7P/2pP1B1P/2P5/PPQ2PB1/R3R1K1 w - -","evals":['
    '{"pvs":[{"cp":311,"line":"g2e4 f7f5 e4b7 c8b7 f2f3 b7f3 e1e6 d8h4 c2h2 h4g4"}],"knodes":206765,"depth":36},'
    '{"pvs":[{"cp":292,"line":"g2e4 f7f5 e4b7 c8b7 f2f3 b7f3 e1e6 d8h4 c2h2 h4g4"},'
    '{"cp":277,"line":"f4g3 f7f5 e1e5 d8f6 a1e1 b7f7 g2c6 f8d8 d4d5 e6d5"}],"knodes":92958,"depth":34}]}'
)
BLACK = "r3k2r/pppq1ppp/8/8/8/8/PPPQ1PPP/R3K2R b KQkq -"


def entry(fen: str, *evaluations: dict[str, Any]) -> str:
    return json.dumps({"fen": fen, "evals": list(evaluations)}, separators=(",", ":"))


def evaluation(depth: int, knodes: int, line: str = "", **score: int) -> dict[str, Any]:
    return {"pvs": [{**score, "line": line}], "knodes": knodes, "depth": depth}


def run(path: Path, text: str, **options: Any) -> tuple[list[Position], ReadReport]:
    path.write_text(text)
    report = ReadReport()
    chosen = {"recorded": RecordedOptions("dump"), **options}
    positions = [p for batch in sample([str(path)], SampleOptions(**chosen), report) for p in batch]
    assert report.adds_up, report
    return positions, report


def recorded(path: Path, text: str, **options: Any) -> Recorded:
    ((position,), _) = run(path, text, **options)
    assert position.origin.recorded is not None
    return position.origin.recorded


def test_the_sample_that_lichess_gives(tmp_path: Path) -> None:
    record = recorded(tmp_path / "a.jsonl", SAMPLE)
    assert (record.kind, record.cp, record.mate, record.depth, record.nodes) == ("dump", 311, None, 36, 206_765_000)
    assert record.best_move == "g2e4"
    assert " ".join(record.pv) == "g2e4 f7f5 e4b7 c8b7 f2f3 b7f3 e1e6 d8h4 c2h2 h4g4"


def test_the_deepest_evaluation_counts_and_of_equally_deep_ones_that_of_most_nodes(tmp_path: Path) -> None:
    fen = "4k3/8/8/8/8/8/4P3/4K3 w - -"
    text = entry(
        fen, evaluation(20, 900, cp=1), evaluation(30, 10, cp=2), evaluation(30, 50, cp=3), evaluation(29, 99, cp=4)
    )
    assert recorded(tmp_path / "a.jsonl", text).cp == 3


def test_scores_are_whites_and_come_out_from_the_side_to_move(tmp_path: Path) -> None:
    assert recorded(tmp_path / "a.jsonl", entry(BLACK, evaluation(20, 1, cp=150))).cp == -150
    assert recorded(tmp_path / "a.jsonl", entry(BLACK, evaluation(20, 1, mate=3))).mate == -3
    as_written = RecordedOptions("dump", view="mover")
    assert recorded(tmp_path / "a.jsonl", entry(BLACK, evaluation(20, 1, cp=150)), recorded=as_written).cp == 150


def test_castling_is_the_kings_move_and_a_rooks_stays_one(tmp_path: Path) -> None:
    line = recorded(tmp_path / "a.jsonl", entry(BLACK, evaluation(20, 1, "e8h8 e1a1 h7h6 d1e1 f8e8 e1e8", cp=1))).pv
    assert line == ("e8g8", "e1c1", "h7h6", "d1e1", "f8e8", "e1e8")
    # King's move or castling, both from e1: only a rook of one's own is castled with.
    line = recorded(tmp_path / "a.jsonl", entry("k7/8/8/8/8/8/8/4R1K1 w - -", evaluation(9, 1, "e1h1", cp=1))).pv
    assert line == ()


def test_lines_are_cut_at_what_is_illegal(tmp_path: Path) -> None:
    for line, legal in (("e2e4 e2e4", ("e2e4",)), ("xyz", ()), ("", ())):
        record = recorded(tmp_path / "a.jsonl", entry("4k3/8/8/8/8/8/4P3/4K3 w - -", evaluation(9, 1, line, cp=1)))
        assert (record.pv, record.best_move) == (legal, legal[0] if legal else None)


def test_positions_are_those_of_the_fens(tmp_path: Path) -> None:
    dice = random.Random(1)
    fens = []
    for _ in range(300):
        board = chess.Board()
        for _ in range(dice.randrange(60)):
            moves = list(board.legal_moves)
            if not moves:
                break
            board.push(dice.choice(moves))
        if any(board.legal_moves):
            fens.append(board.epd())
    fens = list(dict.fromkeys(fens))
    text = "\n".join(entry(fen, evaluation(10 + i % 7, i, cp=i)) for i, fen in enumerate(fens))
    positions, report = run(tmp_path / "a.jsonl", text)
    assert [p.fen for p in positions] == [f"{fen} 0 1" for fen in fens]
    assert [p.origin.game for p in positions] == list(range(1, len(fens) + 1))
    data = (tmp_path / "a.jsonl").read_bytes()
    assert all(data[p.origin.offset :].startswith(f'{{"fen":"{fens[i]}"'.encode()) for i, p in enumerate(positions))
    assert not any(p.history_known for p in positions)
    assert report.without_history == len(fens)
    sides = [1 if fen.split()[1] == "w" else -1 for fen in fens]
    assert [p.origin.eval_cp for p in positions] == [sign * i for i, sign in enumerate(sides)]


def test_what_is_no_position_is_counted_with_its_line(tmp_path: Path) -> None:
    good = evaluation(20, 5, cp=10)
    lines = [
        SAMPLE,
        '{"fen":"4k3/8/8/8/8/8/4P3/4K3 w - -","evals":[{"pvs":[{"cp":1',
        "[1, 2]",
        '{"evals":[]}',
        entry("4k3/8/8/8/8/8/4P3/4K3 x - -", good),
        entry("k7/8/8/8/8/8/8/R3K3 w - -", good),
        entry("k7/8/8/8/8/8/8/1R2K3 b Q -", good),
        entry("1r2k3/8/8/8/8/8/8/R3K3 b Ab -", good),
        entry("7k/5Q2/6K1/8/8/8/8/8 b - -", good),
        entry("4k3/8/8/8/8/8/4P3/4K3 b - -"),
        entry("4k3/8/8/8/8/8/4P3/3K4 b - -", {"pvs": [], "knodes": 1, "depth": 1}),
        "",
        entry("4k3/8/8/8/8/8/3P4/4K3 b - -", good),
    ]
    positions, report = run(tmp_path / "a.jsonl", "\n".join(lines))
    assert len(positions) == 2
    assert report.games == 12
    assert report.rejected == {"not a position": 3, "illegal position": 2, "Chess960": 2}
    assert report.rejected_positions == {"no legal move": 1, "no recorded evaluation": 2}
    shown = {what for _, _, what in report.examples}
    assert "not a position: line 3" in shown
    assert "illegal position: line 5: the side to move is neither w nor b" in shown
    assert "Chess960: line 7" in shown


def test_unusual_spelling_of_the_same_object(tmp_path: Path) -> None:
    spaced = json.dumps(json.loads(SAMPLE), indent=None, sort_keys=True)
    assert recorded(tmp_path / "a.jsonl", spaced + "\n").cp == 311
    escaped = SAMPLE.replace("/", "\\/")
    assert recorded(tmp_path / "a.jsonl", escaped + "\n").cp == 311


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({"min_depth": 37}, "evaluation of less than depth 37"),
        ({"min_nodes": 206_765_001}, "evaluation of fewer than 206,765,001 nodes"),
    ],
)
def test_too_shallow_ones_are_counted(tmp_path: Path, wanted: dict[str, Any], reason: str) -> None:
    positions, report = run(tmp_path / "a.jsonl", SAMPLE, recorded=RecordedOptions("dump", **wanted))
    assert (positions, report.rejected_positions) == ([], {reason: 1})
    assert (
        recorded(tmp_path / "a.jsonl", SAMPLE, recorded=RecordedOptions("dump", min_depth=36, min_nodes=10)).cp == 311
    )


def test_other_kinds_are_not_taken_for_it(tmp_path: Path) -> None:
    _, report = run(tmp_path / "a.jsonl", SAMPLE, recorded=RecordedOptions("eval"))
    assert report.rejected_positions == {"evaluations of another kind": 1}
    _, report = run(tmp_path / "a.jsonl", SAMPLE, recorded=None, min_elo=2000)
    assert report.rejected == {"no Elo": 1}


def test_board_filters_and_a_packed_dump_that_breaks_off(tmp_path: Path) -> None:
    text = SAMPLE + "\n" + entry("4k3/8/8/8/8/8/4P3/4K3 w - -", evaluation(9, 1, cp=1)) + "\n"
    assert run(tmp_path / "a.jsonl", text, max_pieces=5)[1].rejected_positions == {"more than 5 pieces": 1}
    check = entry("4k3/8/8/8/8/8/4r3/4K3 w - -", evaluation(9, 1, cp=1))
    assert run(tmp_path / "a.jsonl", check, no_check=True)[1].rejected_positions == {"in check": 1}
    many = (entry("4k3/8/8/8/8/8/4P3/4K3 w - -", evaluation(9, i * 7919 % 10**6, cp=i)) for i in range(50_000))
    packed = zstandard.compress("\n".join(many).encode())
    (tmp_path / "b.jsonl.zst").write_bytes(packed[: len(packed) // 2])
    report = ReadReport()
    batches = list(sample([str(tmp_path / "b.jsonl.zst")], SampleOptions(recorded=RecordedOptions("dump")), report))
    assert sum(map(len, batches)) == 1
    assert 10_000 < report.duplicates < 50_000
    assert "breaks off" in report.truncated[0][1]
    with pytest.raises(ValueRepairError, match="no games found"):
        run(tmp_path / "c.jsonl", '{"no": 1}\n')
