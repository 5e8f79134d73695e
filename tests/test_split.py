"""What is held out: recounted by raw SQL and python-chess, and laws of every split."""

from __future__ import annotations

import json
import shutil
import sqlite3
from dataclasses import replace
from functools import cache
from pathlib import Path, PurePath
from typing import NamedTuple

import chess
import chess.pgn
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from valuerepair.judge.split import HELD_OUT, JUDGED, PARTS, HeldPart, Split, choose_split, read_split, write_split

from tests.cli_tree import LEAVES, SAMPLE, options_of, vr
from tests.expand_doubles import QUESTION, expand_store, mined
from tests.expanded_store import expand_by_key
from tests.mining_doubles import KeyNet, mine_by_key, random_games
from valuerepair.books.options import BookOptions
from valuerepair.books.write import write_books
from valuerepair.chess.board import keys, parse_fens
from valuerepair.chess.openings import UNKNOWN, family, material_family, named_positions
from valuerepair.chess.positions import decode_moves
from valuerepair.errors import ValueRepairError
from valuerepair.judge.compared_nets import find_oracle, measure
from valuerepair.progress import Progress
from valuerepair.question import Question
from valuerepair.store.store import Store
from valuerepair.training.judged import JudgedPositions
from valuerepair.training.sources import StoreSource

Captured = pytest.CaptureFixture[str]
ECOS = ("B90", "C42", "D37", "A00", "E97", "no code", "C00")


def archive(path: Path, games: int, seed: int) -> Path:
    """Random games, most of them with the header of another opening than was played."""
    texts = random_games(path, games, seed, plies=90).read_text().split("[Event ")[1:]
    tags = [f'[ECO "{ECOS[i % len(ECOS)]}"]\n' if i % 3 else "" for i in range(len(texts))]
    path.write_text("".join(f"{tag}[Event {text}" for tag, text in zip(tags, texts, strict=True)))
    return path


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two archives."""
    folder = tmp_path_factory.mktemp("split")
    for name, games in (("one.pgn", 130), ("other.pgn", 30)):
        mine_by_key(archive(folder / name, games, len(name)), folder / "a.db")
    return folder / "a.db"


@pytest.fixture(scope="module")
def path(sampled: Path) -> Path:
    """The same with what was reached from its worst candidates."""
    copied = Path(shutil.copy(sampled, sampled.with_name("expanded.db")))
    expand_by_key(copied, roots=60)
    return copied


class Row(NamedTuple):
    id: int
    key: int
    game: int
    archive: str
    opening: str
    material: str
    roots: frozenset[int]


def told(db: Path) -> list[Row]:
    """All positions of a store, by python-chess."""
    query = """
        SELECT p.id, p.key, p.game_id, g.source, json_extract(g.headers, '$.ECO'), p.moves, p.fen, p.start_fen,
        (SELECT group_concat(root_id) FROM expanded e WHERE e.position_id = p.id)
        FROM positions p JOIN games g ON g.id = p.game_id ORDER BY p.id
    """
    rows = []
    with sqlite3.connect(db) as connection:
        for number, key, game, source, eco, moves, fen, start, roots in connection.execute(query):
            code = (
                eco
                if eco in ECOS and eco != "no code"
                else after(start, tuple(decode_moves(np.frombuffer(moves, "<u2"))))[1]
            )
            of = frozenset(map(int, (roots or "").split(",") if roots else ()))
            rows.append(Row(number, key, game, PurePath(source).name, family(code), kinds(chess.Board(fen)), of))
    return rows


def kinds(board: chess.Board) -> str:
    order = (chess.QUEEN, chess.ROOK, chess.BISHOP, chess.KNIGHT)
    sides = [[bool(board.pieces(kind, colour)) for kind in order] for colour in chess.COLORS]
    names = ["K" + "".join(letter for letter, on_board in zip("QRBN", side, strict=True) if on_board) for side in sides]
    return "v".join(name for _, name in sorted(zip(sides, names, strict=True), reverse=True))


@cache
def named() -> dict[str, str]:
    codes = {}
    for eco, _, moves in named_positions():
        board = chess.Board()
        for move in moves:
            board.push_uci(move)
        codes[" ".join(board.epd(en_passant="legal").split()[:4])] = eco
    return codes


@cache
def after(start: str, moves: tuple[str, ...]) -> tuple[chess.Board, str]:
    """The board after these moves, and the last name on the way; the positions of a game share most of theirs."""
    if not moves:
        return chess.Board(start), ""
    before, code = after(start, moves[:-1])
    board = before.copy(stack=False)
    board.push_uci(moves[-1])
    return board, named().get(" ".join(board.epd(en_passant="legal").split()[:4]), code)


def parts_of(db: Path, split: Split) -> dict[int, str]:
    with Store.open(db) as store:
        ids = np.array([number for (number,) in store.connection.execute("SELECT id FROM positions")], np.int64)
        return {
            number: PARTS[part] for number, part in zip(ids.tolist(), split.parts(store, ids).tolist(), strict=True)
        }


def chosen(db: Path, **options: object) -> Split:
    with Store.open(db) as store:
        return choose_split(store, **options)  # type: ignore[arg-type]


SPLITS = st.builds(
    lambda games, families, seed: {"games": games, "families": families, "seed": seed},
    st.sampled_from([0.0, 0.15, 0.5]), st.sampled_from([0.0, 0.1, 0.3]), st.integers(0, 2**40),
)  # fmt: skip


@settings(max_examples=6, deadline=None)
@given(SPLITS)
@pytest.mark.slow
def test_every_position_is_where_its_own_count_says(path: Path, options: dict[str, object]) -> None:
    split = chosen(path, **options)
    parts, rows = parts_of(path, split), _told(path)
    broken = {r.game for r in rows if not r.roots and (r.opening in split.openings or r.material in split.materials)}
    held = {row.game for row in rows if parts[row.id] == "games"}
    for row in rows:
        of_family = row.opening in split.openings or row.material in split.materials
        if of_family:
            expected = "families"
        else:
            expected = "neither" if row.game in broken else "games" if row.game in held else "train"
        if row.roots and (expected != "train" or any(parts[root] != "train" for root in row.roots)):
            expected = "neither"
        assert parts[row.id] == expected
    of_game: dict[int, set[str]] = {}
    for row in rows:
        of_game.setdefault(row.game, set()).add(parts[row.id])
    assert all(len(part_names - {"neither"}) <= 1 for part_names in of_game.values())


def test_a_position_that_is_not_there(path: Path) -> None:
    with Store.open(path) as store, pytest.raises(ValueRepairError, match="no positions of these numbers"):
        chosen(path, seed=3).parts(store, np.array([10**9], np.int64))


@cache
def _told(path: Path) -> list[Row]:
    return told(path)


def test_about_as_much_is_held_out_as_was_asked_for(path: Path) -> None:
    rows = [row for row in _told(path) if not row.roots]
    for seed in range(6):
        split = chosen(path, games=0.3, families=0.2, seed=seed)
        parts = parts_of(path, split)
        of_part = [sum(parts[row.id] == part for row in rows) for part in PARTS]
        assert of_part[2] == pytest.approx(0.2 * len(rows), abs=0.02 * len(rows))
        whole = {row.game for row in rows} - {row.game for row in rows if parts[row.id] in ("families", "neither")}
        held = {row.game for row in rows if parts[row.id] == "games"}
        assert abs(len(held) - 0.3 * len(whole)) < 4 * (0.21 * len(whole)) ** 0.5
        assert UNKNOWN not in split.openings
        assert split.openings
        assert split.materials
        for name in (*split.openings, *split.materials):
            assert sum(name in (row.opening, row.material) for row in rows) <= 0.1 * len(rows)


def test_other_seeds_hold_out_others_and_the_same_seed_the_same(path: Path) -> None:
    splits = [chosen(path, families=0.2, seed=seed) for seed in (1, 2, 3, 1)]
    assert splits[0] == splits[3]
    assert len({split.openings for split in splits}) > 1
    assert len({split.materials for split in splits}) > 1
    held = [{n for n, part in parts_of(path, Split(games=0.3, seed=s)).items() if part == "games"} for s in (1, 2)]
    assert held[0] != held[1]
    less = {n for n, part in parts_of(path, Split(games=0.1, seed=1)).items() if part == "games"}
    assert less < held[0]


def test_more_games_and_what_is_reached_change_nobodys_part(sampled: Path, path: Path, tmp_path: Path) -> None:
    """Nor where the archive lies."""
    split = chosen(path, games=0.3, families=0.2)
    before = parts_of(sampled, split)
    assert before.items() <= parts_of(path, split).items()
    more = Path(shutil.copy(path, tmp_path / "more.db"))
    mine_by_key(archive(tmp_path / "third.pgn", 40, 77), more)
    assert before.items() <= parts_of(more, split).items()
    renamed = Path(shutil.copy(sampled.with_name("one.pgn"), tmp_path / "renamed.pgn"))
    mine_by_key(renamed, tmp_path / "elsewhere.db")
    own_parts, other_parts = (parts_of_games(db, Split(games=0.3), name)
                   for db, name in ((sampled, "one.pgn"), (tmp_path / "elsewhere.db", "renamed.pgn")))  # fmt: skip
    common = own_parts.keys() & other_parts.keys()
    assert len(common) > 100
    assert {own_parts[number] for number in common} == {"train", "games"}
    assert all(own_parts[number] == other_parts[number] for number in common)


def parts_of_games(db: Path, split: Split, name: str) -> dict[int, str]:
    """By their number in an archive; of a split without families."""
    parts = parts_of(db, split)
    with sqlite3.connect(db) as connection:
        rows = connection.execute(
            "SELECT p.id, g.number, g.source FROM positions p JOIN games g ON g.id = p.game_id"
        ).fetchall()
    return {number: parts[position] for position, number, source in rows if PurePath(source).name == name}


def test_nothing_of_the_values_is_looked_at(sampled: Path, tmp_path: Path) -> None:
    other = Path(shutil.copy(sampled, tmp_path / "other.db"))
    with sqlite3.connect(other) as connection:
        connection.executescript("DELETE FROM deep_values; UPDATE net_values SET q = -q")
    assert chosen(other, families=0.2) == chosen(sampled, families=0.2)


def test_a_root_that_was_reached_itself_passes_on_what_it_is(path: Path, tmp_path: Path) -> None:
    """As another net's expansion may go out from a position that the first one's reached, and an archive brought."""
    split, chained = Split(games=0.5), Path(shutil.copy(path, tmp_path / "chained.db"))
    parts = parts_of(path, split)
    train, held = (next(row for row in _told(path) if row.roots and parts[min(row.roots)] == part)
                   for part in ("train", "games"))  # fmt: skip
    assert parts[train.id] == "train"
    with sqlite3.connect(chained) as connection:
        connection.execute("UPDATE expanded SET root_id = ? WHERE position_id = ?", (held.id, train.id))
    assert parts_of(chained, split)[train.id] == "neither"


# -- who goes by it ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("expanded", ["no", "all"])
def test_training_never_reads_what_is_not_train(path: Path, expanded: str) -> None:
    split = chosen(path, games=0.3, families=0.2)
    question = Question(threshold=0.3, expanded=expanded)  # type: ignore[arg-type]
    parts = parts_of(path, split)
    with Store.open(path) as store:
        judged = JudgedPositions(store, question, split=split)
        scored = store.frame(question)["position_id"].tolist()
    source = StoreSource(judged, 1, holdout=0.2)
    read = judged.ids[np.concatenate([source.trained, source.held])].tolist()
    assert {parts[number] for number in read} == {"train"}
    assert set(judged.ids.tolist()) == {number for number in scored if parts[number] == "train"}
    assert 0 < source.held_games < source.games


def test_where_all_is_held_out_there_is_nothing_to_train_on(path: Path) -> None:
    with Store.open(path) as store:
        materials = {material_family(fen) for fen in store.frame(Question())["fen"]}
        with pytest.raises(ValueRepairError, match="part to train on"):
            JudgedPositions(store, Question(), split=Split(materials=tuple(materials)))


def test_a_split_that_takes_the_place_of_another_says_what_it_costs(
    sampled: Path, tmp_path: Path, capsys: Captured
) -> None:
    db, file = str(shutil.copy(sampled, tmp_path / "a.db")), tmp_path / "split.json"
    again = ["split", "--db", db, "-o", str(file), "--seed"]
    assert "warning" not in vr([*again, "1"], capsys)[2]
    assert "warning" not in vr([*again, "1"], capsys)[2]
    before = parts_of(sampled, read_split(file))
    complaint = vr([*again, "2"], capsys)[2]
    after = parts_of(sampled, read_split(file))
    held = [number for number, part in before.items() if part in JUDGED]
    lost = sum(after[number] == "train" for number in held)
    assert lost
    words = f"held out other positions of this store; {lost} of these {len(held)} are for training from now on"
    assert words in complaint
    assert "warning" not in vr([*again[:4], "-", "--seed", "3"], capsys)[2]  # the store does not get to know it


def test_what_follows_a_book_goes_by_the_split_of_the_store(sampled: Path, tmp_path: Path, capsys: Captured) -> None:
    db, file = str(shutil.copy(sampled, tmp_path / "a.db")), tmp_path / "split.json"
    assert vr(["split", "--db", db, "-o", str(file)], capsys)[0] == 0
    book = ["books", "--db", db, "-o", str(tmp_path / "book"), "--threshold", "0.3"]
    for named in ([], ["--split", str(file)]):
        assert vr([*book, *named], capsys)[1].splitlines()[-1].count(f"--split {file}") == 1


@pytest.mark.slow
def test_expansion_goes_out_from_train_alone(tmp_path: Path) -> None:
    db = mined(tmp_path)
    split = chosen(db, games=0.4, families=0.1)
    before = parts_of(db, split)
    with Store.open(db) as store:
        candidates = set(store.candidates(QUESTION)["position_id"])
    train = {number for number in candidates if before[number] == "train"}
    assert 0 < len(train) < len(candidates)
    summary = expand_store(db, split=split)
    with Store.open(db) as store:
        roots = {number for (number,) in store.connection.execute("SELECT DISTINCT root_id FROM expanded")}
    assert roots <= train
    assert summary.counts()["roots"] == len(train)
    assert summary.start.sampled_found == len(candidates)
    # What the archive gave for its nodes is not less by what is held out.
    after = parts_of(db, split)
    assert before.items() <= after.items()
    assert {after[number] for number in after.keys() - before.keys()} <= {"train", "neither"}
    without = expand_store(db)
    assert without.counts()["roots"] == len(candidates)


def test_expansion_of_what_is_held_out_says_so(tmp_path: Path) -> None:
    db = mined(tmp_path)
    with Store.open(db) as store:
        materials = {material_family(fen) for fen in store.candidates(QUESTION)["fen"]}
    with pytest.raises(ValueRepairError, match="the split holds out all"):
        expand_store(db, split=Split(materials=tuple(materials)))


def test_a_book_is_of_train(path: Path, tmp_path: Path) -> None:
    split = chosen(path, games=0.3, families=0.2)
    of = parts_of(path, split)
    parts = {row.key: of[row.id] for row in _told(path)}
    question = Question(threshold=0.3, expanded="all")
    with Store.open(path) as store:
        manifest = write_books(store, tmp_path, question, BookOptions(parents=2), split)
        numbers = set(store.candidates(question)["position_id"])
    candidates = [row.key for row in _told(path) if row.id in numbers]
    book = entries(tmp_path / "book.pgn")
    own = [entry.key for entry in book if "ParentOf" not in entry.headers or "NetQ" in entry.headers]
    assert {parts[key] for key in own} == {"train"}
    # No parent is what is held out, nor of a held-out material family.
    held = {key for key, part in parts.items() if part in JUDGED}
    assert not {entry.key for entry in book} & held
    assert not {kinds(entry.board) for entry in book} & set(split.materials)
    assert manifest.left_out["not for training by the split"] == sum(parts[key] != "train" for key in candidates)
    assert len(own) + sum(manifest.left_out.values()) == len(candidates)


@pytest.mark.slow
def test_a_book_keeps_away_from_held_out_positions_that_are_no_candidates(tmp_path: Path) -> None:
    split, question = Split(games=0.5), Question(threshold=0.1)
    with Store.open(SAMPLE) as store:
        manifest = write_books(store, tmp_path, question, BookOptions(parents=4), split)
        rows = store.connection.execute("SELECT id, fen FROM positions").fetchall()
        parts = split.parts(store, np.array([number for number, _ in rows], np.int64))
    held = {men_and_pawns(chess.Board(fen)) for (_, fen), part in zip(rows, parts, strict=True) if part in HELD_OUT}
    book = entries(tmp_path / "book.pgn")
    assert len(book) > 500
    assert not {men_and_pawns(entry.board) for entry in book} & held
    reason = "near-duplicate of a held-out position"
    assert min(manifest.left_out[reason], manifest.parents["left_out"][reason]) > 0


def men_and_pawns(board: chess.Board) -> tuple[str, ...]:
    """What near-duplicates have in common: the men of both sides, whichever has which, and where the pawns stand."""
    placement = sorted(board.board_fen())
    white, black = ("".join(filter(case, placement)) for case in (str.isupper, str.islower))
    pawns = (str(board.pieces(chess.PAWN, colour)) for colour in chess.COLORS)
    return "v".join(sorted((white, black.upper()))), *pawns


class Entry(NamedTuple):
    """Of a book: the key of its position, as the store has it, its tags, and the position."""

    key: int
    headers: chess.pgn.Headers
    board: chess.Board


def entries(file: Path) -> list[Entry]:
    with file.open() as text:
        games = [game for game in iter(lambda: chess.pgn.read_game(text), None) if game is not None]
    boards = [game.end().board() for game in games]
    position_keys = keys(parse_fens([board.fen(en_passant="fen") for board in boards])).view(np.int64).tolist()
    return [Entry(*cells) for cells in zip(position_keys, (game.headers for game in games), boards, strict=True)]


@pytest.fixture(scope="module")
def two(path: Path) -> Path:
    """The store with another net's values of the archive's positions, half as bold."""
    db = Path(shutil.copy(path, path.with_name("two.db")))
    with sqlite3.connect(db) as connection:
        connection.executescript("""
            INSERT INTO nets SELECT id + 1, 'half-net', replace(sha256, 'ab', 'ba'), history_fill, value_head,
                input_format, size FROM nets;
            INSERT INTO net_values SELECT 2, position_id, q / 2, w, d, l, best_move, best_p, entropy, moves_left, run_id
                FROM net_values WHERE position_id NOT IN (SELECT position_id FROM expanded);
        """)
    return db


@pytest.mark.parametrize("part", ["games", pytest.param("families", marks=pytest.mark.slow), "held-out"])
def test_nets_are_compared_on_what_is_held_out(two: Path, part: str, tmp_path: Path, capsys: Captured) -> None:
    split = chosen(two, games=0.3, families=0.2)
    write_split(tmp_path / "s.json", split)
    parts = parts_of(two, split)
    words = ["compare", "key-net", "half-net", "--db", str(two), "--alpha", "300"]
    words += ["--split", str(tmp_path / "s.json"), "--part", part]
    code, out, _ = vr([*words, "--json", "-o", str(tmp_path / "wrong.csv")], capsys)
    assert code == 0
    printed = json.loads(out)
    with Store.open(two) as store:
        one, other = (store.frame(Question(net=net, alpha=300.0)) for net in ("key-net", "half-net"))
    kept = {part} if part != "held-out" else {"games", "families"}
    one, other = (frame[[parts[number] in kept for number in frame["position_id"]]] for frame in (one, other))
    wrong = [frame["disagreement"].abs().to_numpy() >= 0.55 for frame in (one, other)]
    assert (printed["part"], printed["positions"], printed["games"]) == (part, len(one), one["game_id"].nunique())
    assert [net["candidates"]["count"] for net in printed["nets"]] == [hit.sum() for hit in wrong]
    assert printed["comparisons"][0]["counts"]["repaired"] == (wrong[0] & ~wrong[1]).sum()
    written = [line.split(",")[0] for line in (tmp_path / "wrong.csv").read_text().splitlines()[1:]]
    assert {int(number) for number in written} == set(one["position_id"][wrong[0] | wrong[1]])
    code, out, _ = vr(words, capsys)
    assert f"positions that are held out ({part})" in out.splitlines()[0]


def test_a_comparison_by_another_split_than_the_stores_own_says_what_was_for_training(
    two: Path, tmp_path: Path, capsys: Captured
) -> None:
    db, own, other = str(shutil.copy(two, tmp_path / "a.db")), tmp_path / "own.json", tmp_path / "other.json"
    assert vr(["split", "--db", db, "-o", str(own), "--seed", "1"], capsys)[0] == 0
    write_split(other, split := replace(read_split(own), seed=2))
    words = ["compare", "key-net", "half-net", "--db", db, "--split"]
    assert "warning" not in vr([*words, str(own)], capsys)[2]
    complaint = vr([*words, str(other)], capsys)[2]
    by_own, by_other = (parts_of(two, each) for each in (read_split(own), split))
    held = [number for number, part in by_other.items() if part in JUDGED]
    trained = sum(by_own[number] == "train" for number in held)
    assert trained
    assert f"warning: {trained} of these {len(held)} positions are for training by {own}, the split of" in complaint


def test_values_that_are_missing_are_computed_of_the_part_alone(two: Path, tmp_path: Path) -> None:
    db = Path(shutil.copy(two, tmp_path / "a.db"))
    parts = parts_of(db, split := chosen(db, games=0.3, families=0.2))
    with sqlite3.connect(db) as connection:
        connection.execute("DELETE FROM net_values WHERE net_id = 2")
        full = {n for (n,) in connection.execute("SELECT position_id FROM deep_values WHERE stage = 'full'")}
    wanted = {number for number in full if parts[number] == "families"}
    net = KeyNet()
    net.identity = replace(KeyNet.identity, name="half-net", sha256="ba" * 32)
    with Store.open(db, write=True) as store:
        oracle = find_oracle(store, None, ["key-net"], HeldPart.of(store, split, "families"))
        assert oracle.scored == len(wanted)
        assert measure(store, net, oracle, Progress("", quiet=True)) == len(wanted)
        assert measure(store, net, oracle, Progress("", quiet=True)) == 0
    with sqlite3.connect(db) as connection:
        assert {n for (n,) in connection.execute("SELECT position_id FROM net_values WHERE net_id = 2")} == wanted


def test_a_part_without_anything_and_a_part_without_a_split(two: Path, tmp_path: Path, capsys: Captured) -> None:
    write_split(tmp_path / "s.json", Split())
    words = ["compare", "key-net", "half-net", "--db", str(two)]
    code, _, err = vr([*words, "--part", "games"], capsys)
    assert (code, err) == (2, "vr: --part games: needs --split, which says what is held out\n")
    code, _, err = vr([*words, "--split", str(tmp_path / "s.json"), "--part", "families"], capsys)
    assert (code, str(two) in err) == (1, True)
    choice = next(option for option in options_of(LEAVES["vr compare"]) if option.name == "part").type
    assert set(choice.choices) == set(JUDGED)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("part", "expanded"),
    [*((part, "all") for part in (None, "train", "games", "families", "held-out")), (None, "no")],
)
@pytest.mark.slow
def test_an_export_is_of_one_part_and_of_train_unless_asked(
    path: Path, part: str | None, expanded: str, tmp_path: Path, capsys: Captured
) -> None:
    split = chosen(path, games=0.3, families=0.2)
    write_split(tmp_path / "s.json", split)
    parts = parts_of(path, split)
    words = ["export", "--db", str(path), "--expanded", expanded]
    every = list(map(json.loads, vr(words, capsys)[1].splitlines()))
    words += ["--split", str(tmp_path / "s.json"), *(["--part", part] if part else [])]
    code, out, err = vr(words, capsys)
    assert (code, err) == (0, "")
    kept = {"games", "families"} if part == "held-out" else {part or "train"}
    wanted = [row["position_id"] for row in every if parts[int(row["position_id"])] in kept]
    assert [json.loads(line)["position_id"] for line in out.splitlines()] == wanted
    assert 0 < len(wanted) < len(every)


# -- the file and the command -----------------------------------------------------------------------------------------


def test_a_written_split_is_the_same_when_read(path: Path, tmp_path: Path) -> None:
    split = chosen(path, games=0.25, families=0.2, seed=7)
    write_split(tmp_path / "split.json", split)
    assert read_split(tmp_path / "split.json") == split
    written = json.loads((tmp_path / "split.json").read_text())
    assert written.keys() == {"version", "games", "openings", "materials", "seed"}
    assert written["openings"] == list(split.openings)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is not a split"),
        ("[]", "is not a split"),
        ('{"games": 0.1}', "is not a split"),
        ({"games": "many"}, "is not a split"),
        ({"openings": ["Sicilan Defense"]}, "Sicilan Defense: not an opening family"),
        ({"materials": ["KRvKQ"]}, "KRvKQ: not a material family"),
        ({"materials": ["KRPvKR"]}, "KRPvKR: not a material family"),
        ({"games": 1.0}, "lies in"),
    ],
)
def test_a_file_that_says_no_split(content: str | dict[str, object], said: str, tmp_path: Path) -> None:
    file = tmp_path / "split.json"
    write_split(file, Split(openings=("Sicilian Defense",), materials=("KQvKR", "KRvKR")))
    read_split(file)
    file.write_text(content if isinstance(content, str) else json.dumps(json.loads(file.read_text()) | content))
    with pytest.raises(ValueRepairError, match=said) as caught:
        read_split(file)
    assert str(file) in str(caught.value)
    assert caught.value.exit_code == 1
    assert "\n" not in str(caught.value)


def test_the_command_writes_and_counts(path: Path, tmp_path: Path, capsys: Captured) -> None:
    words = ["split", "--db", str(path), "-o", str(tmp_path / "s.json"), "--families", "0.2", "--seed", "3"]
    code, out, err = vr(words, capsys)
    assert (code, err) == (0, "")
    split = read_split(tmp_path / "s.json")
    assert split == chosen(path, families=0.2, seed=3)
    parts = parts_of(path, split)
    with Store.open(path) as store:
        candidates = store.candidates(Question())["position_id"].tolist()
    games = {row.id: row.game for row in _told(path)}
    assert out.splitlines()[-1] == f"next: vr books --db {path} --split {tmp_path / 's.json'}"
    for line, part in zip(out.splitlines()[2:-1], PARTS, strict=True):
        mine = [number for number, its_part in parts.items() if its_part == part]
        counted = [len(mine), len({games[number] for number in mine}), sum(parts[n] == part for n in candidates)]
        assert line.split() == [part, *(f"{count:,}" for count in counted)]


def test_before_anything_is_searched_there_are_no_candidates_to_count(
    path: Path, tmp_path: Path, capsys: Captured
) -> None:
    bare = Path(shutil.copy(path, tmp_path / "bare.db"))
    with sqlite3.connect(bare) as connection:
        connection.executescript("DELETE FROM deep_values")
    code, out, _ = vr(["split", "--db", str(bare), "-o", str(tmp_path / "s.json")], capsys)
    assert code == 0
    assert "candidates" not in out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--games", "1"], 2, "lies in"),
        (["--families", "-0.1"], 2, "lies in"),
        (["--families", "0.000001"], 1, "small enough"),
        (["-o", "nosuch/folder/s.json"], 2, "there is no folder"),
    ],
)
def test_what_cannot_be_split_so(words: list[str], code: int, said: str, tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "s.json"
    status, out, err = vr(["split", "--db", str(SAMPLE), "-o", str(file), *words], capsys)
    assert (status, out) == (code, "")
    assert said in err
    assert err.count("\n") == 1
    assert not file.exists()
