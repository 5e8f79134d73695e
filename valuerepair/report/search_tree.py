"""The tree of a search as a file: JSON for programs, or a web page whose nodes unfold."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import chess

from valuerepair.chess.positions import Position
from valuerepair.errors import UsageError
from valuerepair.files import written_whole
from valuerepair.mcts.snapshot import Snapshot, TreeNode
from valuerepair.oracles.searching import Searched
from valuerepair.report.boards import board_svg
from valuerepair.report.static_page import document, escape
from valuerepair.text import formatted, quantity

_DECIMALS = 6


def kind_of(path: str | os.PathLike[str]) -> str:
    """The kind of a tree's file, by the ending of its name. Raises UsageError for another ending."""
    kind = Path(path).suffix.lower()
    if kind not in (".json", ".html"):
        raise UsageError(f"{os.fspath(path)}: the name of a tree's file ends in .json or .html")
    return kind


def write_tree(searched: Searched, path: str | os.PathLike[str]) -> None:
    """Writes the tree of a search (searched with `tree_nodes`), as JSON or HTML by the file's ending.

    Raises UsageError for another ending and for a search without a tree, OSError if the file cannot be written.
    """
    kind, tree = kind_of(path), searched.tree
    if tree is None:
        raise UsageError(f"{searched.position.fen}: no tree was kept: {searched.reason or 'search with tree_nodes'}")
    with written_whole(path) as partial:
        as_page = kind == ".html"
        partial.write_text(_page(searched, tree) if as_page else json.dumps(as_json(searched, tree)) + "\n", "utf-8")


def as_json(searched: Searched, tree: Snapshot) -> dict[str, Any]:
    """The position's output of `vr search --json`, with the nodes of the tree, JSON-able (docs/formats.md)."""
    sans = _sans(chess.Board(searched.position.fen), tree.nodes)
    nodes = [_row(i, node, san) for i, (node, san) in enumerate(zip(tree.nodes, sans, strict=True))]
    return {**searched.as_json(), "settings": tree.params.changes(), "tree_size": tree.size, "tree": nodes}


def _row(number: int, node: TreeNode, san: str) -> dict[str, Any]:
    return {
        "id": number,
        "parent": node.parent,
        "uci": node.move or None,
        "san": san or None,
        "depth": node.depth,
        "n": node.visits,
        "p": _number(node.prior),
        "q": _number(node.q),
        "wdl": [_number(share) for share in node.wdl],
        "moves_left": _number(node.m),
        "net_q": _number(node.net_q),
        "bounds": [node.lower, node.upper],
        "kind": node.kind,
        "forced": node.forced,
        "sampled": node.sampled,
        "frozen": node.frozen,
        "moves": node.moves,
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(value, _DECIMALS)


def _sans(root: chess.Board, nodes: Sequence[TreeNode]) -> list[str]:
    """[n] the move that leads to each node, in SAN; empty for the root."""
    boards, sans = [root], [""]
    for node in nodes[1:]:
        assert node.parent is not None
        board = boards[node.parent].copy(stack=False)
        sans.append(board.san_and_push(chess.Move.from_uci(node.move)))
        boards.append(board)
    return sans


# -- the page ---------------------------------------------------------------------------------------------------------

_COLUMNS = ("N", "P", "Q", "net Q", "proven", "frozen")
_HEAD = '<div class="head"><b>move</b>' + "".join(f"<span>{name}</span>" for name in _COLUMNS) + "</div>\n"
_WORDS = (
    "N is the number of visits, P the net's prior, Q the mean over all visits and net Q the net's own value, as seen "
    "by the player who makes the move, so signs change from ply to ply. The bar of a move is its share of visits. Blue "
    "moves are those of the player to move at the top, orange ones the opponent's."
)
_FROZEN = " Frozen: the visits of a move when search-contempt froze its node; later visits are drawn in proportion."


def _page(searched: Searched, tree: Snapshot) -> str:
    assert searched.result is not None
    result, nodes, fen = searched.result, tree.nodes, searched.position.fen
    settings = " ".join(f"{name}={value}" for name, value in tree.params.changes().items())
    drawn = sum(node.visits > 0 for node in nodes)
    subtitle = (
        fen
        + _played(searched.position)
        + (f"; {settings}" if settings else "")
        + (f"; the {drawn:,} most visited of {tree.size:,} positions" if drawn < tree.size else "")
    )
    root = "".join(f"<p>{escape(line)}</p>\n" for line in searched.root_lines(result))
    net = max(result.moves, key=lambda move: -1.0 if math.isnan(move.net_prior) else move.net_prior).move
    board = board_svg(fen, net=net, deep=result.best_move, size=360)
    words = _WORDS + (_FROZEN if any(node.frozen is not None for node in nodes) else "")
    rows = f'<div class="rows"><div>\n{_HEAD}{_unfolding(chess.Board(fen), nodes, result.best.pv)}</div></div>\n'
    if tree.size == len(nodes) == 1:
        rows, words = "", "No move has a visit: the values above are those of the net alone."
    section = f'<section>\n{rows}<p class="small">{words}</p>\n</section>\n'
    head = f'<section class="root">{board}<div>{root}</div></section>\n'
    return document("A search", subtitle, head + section, "tree.css")


def _played(position: Position) -> str:
    """The moves that led to a position, as text that follows its FEN."""
    if not position.moves:
        return ""
    start = chess.Board(position.start_fen)
    played = start.variation_san([chess.Move.from_uci(move) for move in position.moves])
    return f", after {played}" + ("" if start == chess.Board() else f" from {position.start_fen}")


def _unfolding(board: chess.Board, nodes: Sequence[TreeNode], expected: Sequence[str]) -> str:
    """HTML of all nodes below the root, as elements that unfold; the expected line is unfolded."""
    sans = _sans(board, nodes)
    children_of: list[list[int]] = [[] for _ in nodes]
    for i, node in enumerate(nodes[1:], 1):
        assert node.parent is not None
        children_of[node.parent].append(i)
    for children in children_of:
        children.sort(key=lambda i: (-nodes[i].visits, i))
    opened = set(_line(nodes, children_of, expected))
    parts = [""] * len(nodes)
    # From the last to the first, as children come after their parents: no recursion, so any depth works.
    for i in range(len(nodes) - 1, 0, -1):
        cells = _cells(nodes, children_of, i, _numbered(board, nodes[i].depth, sans[i]))
        inner = "".join(parts[child] for child in children_of[i]) + _hidden_visits(nodes, children_of[i], i)
        side = "mover" if nodes[i].depth % 2 else "opponent"
        depth, state = f'style="--depth:{nodes[i].depth}"', " open" if i in opened else ""
        details = f'<details class="{side}" {depth}{state}><summary>{cells}</summary>\n{inner}</details>\n'
        parts[i] = details if inner else f'<div class="leaf {side}" {depth}>{cells}</div>\n'
        for child in children_of[i]:
            parts[child] = ""
    return "".join(parts[child] for child in children_of[0]) + _hidden_visits(nodes, children_of[0], 0)


def _line(nodes: Sequence[TreeNode], children_of: Sequence[Sequence[int]], moves: Sequence[str]) -> Iterator[int]:
    """The nodes along a line of moves, while the tree has them."""
    node = 0
    for move in moves:
        child = next((i for i in children_of[node] if nodes[i].move == move), None)
        if child is None:
            return
        yield (node := child)


def _hidden_visits(nodes: Sequence[TreeNode], children: Sequence[int], node: int) -> str:
    """A note on the visits below a node whose children are not shown; empty without such visits."""
    own = int(not nodes[node].forced and not math.isnan(nodes[node].net_q))
    hidden = nodes[node].visits - own - sum(nodes[i].visits for i in children)
    # Visits of a proven node, except the root, end in it and not below it.
    if hidden <= 0 or (nodes[node].kind != "open" and node > 0):
        return ""
    return f'<p class="rest">and {quantity(hidden, "visit")} to positions with few</p>\n'


def _numbered(board: chess.Board, depth: int, san: str) -> str:
    ply = board.ply() + depth - 1
    return f"{ply // 2 + 1}{'...' if ply % 2 else '.'} {san}"


def _cells(nodes: Sequence[TreeNode], children_of: Sequence[Sequence[int]], number: int, move: str) -> str:
    node = nodes[number]
    assert node.parent is not None
    siblings = children_of[node.parent]
    share = node.visits / max(sum(nodes[i].visits for i in siblings), 1)
    texts = (
        f"{node.visits:,}",
        formatted(node.prior, ".2%", ""),
        f"{node.q:+.4f}",
        formatted(node.net_q, "+.4f", ""),
        _proven(node),
        formatted(node.frozen, ",", ""),
    )
    return f'<b style="--share:{share:.1%}">{escape(move)}</b>' + "".join(f"<span>{text}</span>" for text in texts)


def _proven(node: TreeNode) -> str:
    """The proven value of a move, for the player who makes it."""
    if node.kind == "repetition":
        return "repetition"
    if node.kind == "open":
        return {(-1, 0): "no win", (0, 1): "no loss"}.get((node.lower, node.upper), "") + "forced" * node.forced
    table = " (table)" if node.kind == "tablebase" else ""
    if node.lower and not table:
        return f"mate {node.lower * (round(node.m) // 2 + 1)}"
    return {1: "win", 0: "draw", -1: "loss"}[node.lower] + table
