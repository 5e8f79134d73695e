"""The tree of a search as a file: its sums, its proofs, its lines, and what lc0 counts; the page that unfolds."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import chess
import pytest
from click.testing import CliRunner

import valuerepair as vr
from tests.mcts_doubles import KIWIPETE, POSITIONS, FakeNet, PlainSearch, position, searched
from tests.parity.search_goldens import load
from tests.search_trees import OPTIONS, board_of, boards_of, ids, prove
from valuerepair.chess.positions import Position
from valuerepair.cli import cli
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.mcts.params import SearchParams
from valuerepair.mcts.snapshot import Snapshot, TreeNode

TRAP = "r1bqkbnr/pppp1ppp/2n5/4p3/2B1P3/5Q2/PPPP1PPP/RNB1K1NR b KQkq - 3 3"
DRAWN = "8/8/8/8/8/4k3/8/4KR2 b - - 99 90"
LOST = "k7/8/1K6/8/8/8/8/7R b - - 0 1"
ALL = 10**9


@pytest.fixture
def maia(shared_data: Path) -> str:
    return str(shared_data / "nets" / "maia-1900.pb.gz")


def snapshot(start: Position, nodes: int, most: int = ALL, **options: Any) -> Snapshot:
    return searched(start, nodes, **options).snapshot(0, most)


def lines(tree: Snapshot) -> list[tuple[str, ...]]:
    """The moves that lead to each node."""
    paths: list[tuple[str, ...]] = []
    for node in tree.nodes:
        paths.append((*paths[node.parent], node.move) if node.parent is not None else ())
    return paths


def children(tree: Snapshot) -> list[list[TreeNode]]:
    children_of: list[list[TreeNode]] = [[] for _ in tree.nodes]
    for node in tree.nodes[1:]:
        assert node.parent is not None
        children_of[node.parent].append(node)
    return children_of


# --- What a node says


@pytest.mark.parametrize("start", POSITIONS[:6], ids=lambda p: p.fen)
def test_visits_and_values_of_every_node_are_those_of_lc0s_search(start: Position) -> None:
    """Of lc0's search in plain Python, which the goldens of the real program hold."""
    plain = PlainSearch(FakeNet(), start, SearchParams())
    plain.run(150)
    tree = snapshot(start, 150)
    expected = {path: node_values for path, node_values in plain.tree().items() if node_values[0]}
    named = dict(zip(lines(tree), tree.nodes, strict=True))
    assert named.keys() == expected.keys()
    for path, (visits, wl, d) in expected.items():
        node = named[path]
        # lc0 sees a node by the player who moved there; it prints the root's for the player to move.
        assert node.visits == visits
        assert node.d == pytest.approx(d, abs=1e-5)
        assert node.wl == pytest.approx(wl if path else -wl, abs=1e-5)


@pytest.mark.parametrize("options", [*OPTIONS, {"draw_score": -0.5}], ids=ids)
def test_sums_are_those_of_the_moves_below(options: dict[str, Any]) -> None:
    """The formula of docs/formats.md for `q`, by the values of the list alone."""
    means = 0
    for start in POSITIONS:
        tree = snapshot(start, 200, **options)
        for i, (node, below) in enumerate(zip(tree.nodes, children(tree), strict=True)):
            if node.kind != "open":
                continue
            own = 0 if node.forced else 1
            assert node.visits == own + sum(child.visits for child in below)
            if not node.visits:
                continue
            total = 0.0 if node.forced else node.net_q
            change = -1 if i else 1  # the root's is seen by the player who makes the moves below
            q = (total + change * sum(child.visits * child.q for child in below)) / node.visits
            assert sum(node.wdl) == pytest.approx(1)
            if options.get("certainty") and node.wl in (node.lower, node.upper):
                assert node.d == pytest.approx(1 - abs(node.wl))  # brought into the bounds
                if "draw_score" in options:
                    continue
                q = min(max(q, node.lower), node.upper)
            assert node.q == pytest.approx(q, abs=1e-4)
            means += len(below) > 1
    assert means > 100


def test_a_draw_has_its_score_for_the_player_who_moves() -> None:
    for start, white in ((position(KIWIPETE), True), (position("7k/8/8/8/8/8/r6P/7K b - - 0 1"), False)):
        for node in snapshot(start, 80, draw_score=0.25).nodes:
            # The root is seen by the player to move, who makes the moves to odd depths.
            whites = white == (node.depth == 0 or node.depth % 2 == 1)
            assert node.q == pytest.approx(node.wl + (0.25 if whites else -0.25) * node.d)


@pytest.mark.parametrize("options", OPTIONS, ids=ids)
def test_nodes_are_those_of_a_walk_with_python_chess(options: dict[str, Any]) -> None:
    for start in POSITIONS:
        forest = searched(start, 150, **options)
        tree, walked = forest.snapshot(0, ALL), boards_of(forest, start)
        at = [walked]
        for node in tree.nodes[1:]:
            assert node.parent is not None
            above = at[node.parent]
            move = chess.Move.from_uci(node.move)
            assert move in above.board.legal_moves
            if not node.visits:
                assert above.looked_ahead[node.move] == node.lower == node.upper
                assert node.depth == above.depth + 1
                continue
            walked_node = above.children[node.move]
            at.append(walked_node)
            assert (node.visits, node.lower, node.upper, node.forced, node.depth) == (
                *(walked_node.visits, walked_node.lower, walked_node.upper, walked_node.forced, walked_node.depth),
            )
            assert node.frozen == (above.frozen.get(node.move, 0) if above.frozen else None)
            assert node.sampled == bool(walked_node.frozen)
            if node.kind == "open":
                assert node.moves == walked_node.board.legal_moves.count()
        assert len(at) == tree.size == sum(1 for _ in walked.walk())
        # Moves of the root that are not legal in the tree but known to be proven, and no others, have no visits.
        unvisited = sum(not node.visits for node in tree.nodes)
        assert unvisited == sum(len(node.looked_ahead) for node in walked.walk())


@pytest.mark.parametrize("options", OPTIONS, ids=ids)
def test_bounds_of_the_root_are_those_of_minimax_by_python_chess(options: dict[str, Any]) -> None:
    """Over what was tried; see `prove`. Also of a cut tree."""
    proven = 0
    for start in (*POSITIONS, position("6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1"), position(DRAWN), position(LOST)):
        forest = searched(start, 150, **options)
        # `prove` sees a node by the player who moved there.
        upper, lower = (-bound for bound in prove(boards_of(forest, start)))
        for most in (ALL, 1):
            root = forest.snapshot(0, most).nodes[0]
            assert (root.lower, root.upper) == (lower, upper)
            assert root.kind == ("proven" if lower == upper else "open")
        if forest.result(0).certain == 1 or {move.certain for move in forest.result(0).moves} == {-1}:
            assert lower == upper == forest.result(0).certain
        proven += lower == upper
    assert proven >= 3


def test_a_root_that_tables_prove_says_so() -> None:
    tables = str(Path(__file__).parent / "goldens" / "syzygy")
    start = position("7k/8/8/8/8/5K2/1r4Q1/8 w - - 0 1")  # Q:b2 leaves queen against king
    root = snapshot(start, 60, syzygy=tables).nodes[0]
    assert (root.lower, root.upper, root.kind) == (1, 1, "tablebase")
    ending = position("7k/8/8/8/8/5K2/8/6R1 w - - 60 90")  # moves that keep the win are searched, and not all do
    assert 0 < snapshot(ending, 20, syzygy=tables).nodes[0].moves < board_of(ending).legal_moves.count()


def test_frozen_visits_are_those_of_n_scl_at_the_opponents_nodes() -> None:
    frozen = 0
    for start in POSITIONS[:4]:
        tree = snapshot(start, 300, n_scl=5)
        for node, below in zip(tree.nodes, children(tree), strict=True):
            counts = [child.frozen for child in below if child.frozen is not None]
            if node.depth % 2 and node.kind == "open" and node.visits > 6 and not node.forced:
                assert sum(counts) == 5
                assert len(counts) == len(below)
                frozen += 1
            elif node.depth % 2 == 0:
                assert counts == []
    assert frozen > 20
    assert all(node.frozen is None for node in snapshot(POSITIONS[0], 300).nodes)


@pytest.mark.parametrize("most", [1, 2, 17, 60])
def test_the_most_visited_nodes_are_kept_with_those_above_them(most: int) -> None:
    for options in ({}, {"certainty": True, "auto_extend": True}):
        for start in POSITIONS:
            whole, part = snapshot(start, 120, **options), snapshot(start, 120, most, **options)
            assert len(part.nodes) == min(most, whole.size)
            assert part.size == whole.size
            kept, every = lines(part), dict(zip(lines(whole), whole.nodes, strict=True))
            assert set(kept) <= set(every)
            least = min(node.visits for node in part.nodes)
            assert sum(node.visits > least for node in whole.nodes) <= len(part.nodes)
            assert [every[line].visits for line in kept] == [node.visits for node in part.nodes]


# --- The files


def run(*words: str) -> str:
    result = CliRunner().invoke(cli, ["search", *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_json_is_what_the_command_says_and_what_lc0_counted(maia: str, tmp_path: Path) -> None:
    golden = next(case for case in load() if case.case.name == "B")
    target = tmp_path / "tree.json"
    printed = run("--net", maia, "--nodes", "100", "--set", "lc0_floats=1", "--json", "--tree", str(target), TRAP)
    tree = json.loads(target.read_text("utf-8"))
    row = json.loads(printed)
    assert {name: tree[name] for name in row} == row
    assert (tree["settings"], tree["tree_size"], len(tree["tree"])) == ({"lc0_floats": "1"}, 100, 100)
    root, *nodes = tree["tree"]
    below = {node["uci"]: node for node in nodes if node["parent"] == 0}
    assert {uci: node["n"] for uci, node in below.items()} == golden.searches["default", 100]["visits"]
    assert root["q"] == pytest.approx(golden.root_q("default", 100), abs=0.01)
    assert (root["q"], root["net_q"]) == (pytest.approx(row["root_q"], abs=1e-6), pytest.approx(row["net_q"], abs=1e-6))
    for move in row["root_moves"]:
        if move["n"]:
            node = below[move["uci"]]
            assert (node["san"], node["n"]) == (move["san"], move["n"])
            assert (node["q"], node["p"]) == (pytest.approx(move["q"], abs=1e-6), pytest.approx(move["p"], abs=1e-6))
            assert node["wdl"] == pytest.approx(move["wdl"], abs=1e-5)


def test_what_the_net_says_of_a_node_is_what_it_says_of_that_position(maia: str) -> None:
    start = position(moves="e2e4 c7c5 g1f3")
    [outcome] = vr.search(start, 60, maia, tree_nodes=40)
    assert outcome.tree is not None
    paths, nodes = lines(outcome.tree), outcome.tree.nodes
    boards = [position(start.start_fen, " ".join([*start.moves, *path])) for path in paths]
    alone = vr.evaluate(boards, maia)["q"]
    for node, q in zip(nodes, alone, strict=True):
        assert node.net_q == pytest.approx(-q if node.parent is not None else q, abs=1e-4)


class Page(HTMLParser):
    """Checks that elements close in their order; keeps the rows with their depth, and what is loaded."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[tuple[int, list[str]]] = []
        self.unfolded: list[bool] = []
        self.row = False
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        assert tag not in ("script", "link", "iframe")
        assert not any(
            str(attributes.get(name, "")).startswith(("http", "//")) for name in ("src", "href", "xlink:href")
        )
        if tag in ("meta", "img"):
            return
        self.open.append(tag)
        if tag == "details":
            self.unfolded.append("open" in attributes)
        if tag == "summary" or (attributes.get("class") or "").startswith("leaf"):
            self.rows.append((self.open.count("details") + (tag != "summary"), []))
            self.row = True

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self.row = self.row and tag not in ("summary", "div")

    def handle_data(self, data: str) -> None:
        if self.row and data.strip():
            self.rows[-1][1].append(data)


def test_the_page_has_every_node_at_its_depth_and_loads_nothing(maia: str, tmp_path: Path) -> None:
    [outcome] = vr.search(TRAP, 120, maia, vr.SearchParams(n_scl=5, certainty=True, lookahead=True), tree_nodes=100)
    vr.write_tree(outcome, tmp_path / "tree.html")
    assert outcome.tree is not None
    text = (tmp_path / "tree.html").read_text("utf-8")
    page = Page(text)
    assert len(page.rows) == len(outcome.tree.nodes) - 1
    board, root = board_of(position(TRAP)), outcome.tree.nodes[0]
    shown = {}
    for depth, (move, visits, *_) in page.rows:
        while len(board.move_stack) >= depth:
            board.pop()
        number, san = move.split(" ")
        assert number == f"{board.fullmove_number}{'.' if board.turn else '...'}"
        board.push_san(san)
        shown[tuple(m.uci() for m in board.move_stack)] = int(visits.replace(",", ""))
    expected = {line: node.visits for line, node in zip(lines(outcome.tree), outcome.tree.nodes, strict=True) if line}
    assert shown == expected
    assert outcome.result is not None
    assert 0 < sum(page.unfolded) <= len(outcome.result.best.pv)
    assert f"the 100 most visited of {outcome.tree.size} positions" in text
    assert root.visits == 120
    assert re.search(r"mate -1<", text)  # ...d6?? Qxf7#, as look-ahead knows


def test_the_page_says_what_the_terminal_says_and_the_moves_played(maia: str, tmp_path: Path) -> None:
    target = tmp_path / "tree.html"
    printed = run("--net", maia, "--moves", "f2f3 e7e5 g2g4", "--nodes", "30", "--tree", str(target), "startpos")
    text = re.sub(r"<style>.*</style>", "", target.read_text("utf-8"), flags=re.DOTALL)
    shown = " ".join(re.sub(r"<[^>]*>", " ", text).split())
    for line in printed.splitlines()[:4]:
        assert " ".join(line.split()) in shown
    assert "best Qh4# (d8h4), proven win, mate in 1" in shown
    assert "b KQkq - 0 2, after 1. f3 e5 2. g4" in shown
    run("--net", maia, "--moves", "Kf2", "--nodes", "3", "--tree", str(target), "8/8/8/4k3/8/8/8/4K2R w K - 0 1")
    assert ", after 1. Kf2 from 8/8/8/4k3/8/8/8/4K2R w K - 0 1" in target.read_text("utf-8")


def test_a_page_without_moves_says_so_and_one_is_not_several(maia: str, tmp_path: Path) -> None:
    target = tmp_path / "tree.html"
    assert ", 1 node, 1 evaluation, " in run("--net", maia, "--nodes", "1", "--tree", str(target), TRAP)
    assert "No move has a visit" in target.read_text("utf-8")
    assert Page(target.read_text("utf-8")).rows == []
    [outcome] = vr.search(TRAP, 2, maia, tree_nodes=1)
    vr.write_tree(outcome, target)
    text = target.read_text("utf-8")
    assert "and 1 visit to positions with few" in text
    assert "No move has a visit" not in text


def test_a_tree_deeper_than_python_recurses_is_written(maia: str, tmp_path: Path) -> None:
    [outcome] = vr.search("startpos", 2, maia, tree_nodes=5)
    assert outcome.tree is not None
    board, nodes = chess.Board(), [outcome.tree.nodes[0]]
    for i, uci in enumerate(["g1f3", "g8f6", "f3g1", "f6g8"] * 400):
        board.push_uci(uci)
        values: dict[str, Any] = {"prior": 0.5, "q": 0, "wl": 0, "d": 0, "net_q": 0.1, "lower": -1, "upper": 1}
        values |= {"visits": 1, "kind": "open", "frozen": None, "moves": 20}
        nodes.append(TreeNode(parent=i, move=uci, depth=i + 1, **values))
    deep = replace(outcome, tree=Snapshot(tuple(nodes), len(nodes), outcome.tree.params))
    for name in ("tree.html", "tree.json"):
        vr.write_tree(deep, tmp_path / name)
        assert (tmp_path / name).stat().st_size > 100_000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["startpos", "--tree", "tree.svg"], "tree.svg: the name of a tree's file ends in .json or .html"),
        (["two.epd", "--tree", "tree.html"], "--tree tree.html: a tree is of one position, and two.epd has more"),
        (["over.epd", "--tree", "tree.html"], "there was nothing to search"),
        (["startpos", "--tree", "nowhere/tree.html"], "nowhere/tree.html: there is no folder "),
        (["startpos", "--tree", "folder.html"], "folder.html: is a folder; give the name of a file"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_written(
    maia: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("two.epd").write_text(f"{TRAP}\n{chess.STARTING_FEN}\n")
    Path("over.epd").write_text("7k/5KQ1/8/8/8/8/8/8 b - - 0 1\n")
    Path("folder.html").mkdir()
    result = CliRunner().invoke(cli, ["search", "--net", maia, *words])
    assert isinstance(result.exception, ValueRepairError), result.output
    assert said in str(result.exception)
    assert "nodes" not in result.stdout, "nothing was searched"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.html", "over.epd", "two.epd"]


def test_the_tree_of_standard_input_does_not_wait_for_a_second_line(maia: str, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "valuerepair", "search", "--net", maia, "--nodes", "20", "--tree", "tree.json", "-"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stdin
        assert process.stdout
        too_late = threading.Timer(60, process.kill)
        too_late.start()
        process.stdin.write(f"{TRAP}\n")
        process.stdin.flush()
        assert process.stdout.readline() == f"{TRAP}\n"
        too_late.cancel()
        process.stdin.write(f"{TRAP}\n")
        process.stdin.close()
        assert process.wait(60) == 2
    assert json.loads((tmp_path / "tree.json").read_text("utf-8"))["nodes"] == 20


def test_the_guides_drawing_of_search_contempt_is_what_it_prints(
    maia: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    guide = (Path(__file__).parents[1] / "docs" / "guide" / "deep-search.md").read_text("utf-8")
    part = guide[guide.index("Figure 1 of the") :]
    command, code, printed = re.findall(r"```(?:sh|python|text)\n(.*?)```", part, re.DOTALL)[:3]
    monkeypatch.chdir(tmp_path)
    run("--net", maia, *command.split()[2:])
    exec(code, {})  # the guide's own
    assert capsys.readouterr().out == printed


def test_a_search_without_a_tree_has_none_to_write(maia: str, tmp_path: Path) -> None:
    [outcome] = vr.search(TRAP, 2, maia)
    with pytest.raises(UsageError, match="no tree was kept: search with tree_nodes"):
        vr.write_tree(outcome, tmp_path / "tree.json")
