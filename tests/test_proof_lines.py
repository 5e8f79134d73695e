"""The lines of the proof are of the part that they are to be of."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.proof.lines import OPENING_PLIES, write_openings, write_ordinary
from tests.cli_tree import SAMPLE
from valuerepair.judge.split import PARTS, choose_split, read_split, write_split
from valuerepair.play.openings import Opening, read_openings
from valuerepair.question import Question
from valuerepair.store.store import Store

QUESTION = Question(threshold=0.3)


def rows_of(lines: list[Opening], split: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    """abs(disagreement) and deep Q of the positions of these lines, all of the part."""
    with Store.open(SAMPLE) as store:
        frame = store.frame(QUESTION)
        parts = read_split(split).parts(store, frame["position_id"].to_numpy(np.int64))
    mine = frame[parts == PARTS.index(part)].set_index("fen")
    found = mine.loc[[line.fen for line in lines]]
    return found["disagreement"].abs().to_numpy(), found["deep_q"].to_numpy()


def test_lines_are_of_their_part(tmp_path: Path) -> None:
    split, book = tmp_path / "split.json", tmp_path / "book.pgn"
    with Store.open(SAMPLE) as store:
        write_split(split, choose_split(store, games=0.3, families=0.0))
    write_ordinary(str(SAMPLE), str(split), QUESTION, 20, book)
    lines = read_openings(book, strict=True)
    off, _ = rows_of(lines, split, "train")
    assert len(off) == 20
    assert (off < 0.3).all()
    write_openings(str(SAMPLE), str(split), QUESTION, 8, book)
    lines = read_openings(book)
    _, deep = rows_of(lines, split, "games")
    assert 0 < len(lines) <= 8
    assert (np.abs(deep) <= 0.3).all()
    assert all(OPENING_PLIES[0] <= len(line.moves) <= OPENING_PLIES[1] for line in lines)
