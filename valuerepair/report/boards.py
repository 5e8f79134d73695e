"""Positions as boards: one SVG for many positions, small enough to keep in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import chess
import chess.svg

from valuerepair.report import style

if TYPE_CHECKING:
    import pandas as pd

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
ElementTree.register_namespace("", _SVG)
ElementTree.register_namespace("xlink", _XLINK)
_CAPTION = 40  # height below a board, in the SVG's units
_GAP = 12


def draw_boards(frame: pd.DataFrame, columns: int = 4, size: int = 200) -> str:
    """The rows of a store's `frame`, in their order, as one SVG of boards in `columns` columns of `size` pixels.

    The side to move is at the bottom. Arrows: the net's best move (vermillion) and the deep search's (blue), or one
    green arrow if they agree. Below each board are both Q, from the side to move, and its game and ply; or the two
    lines of the frame's column `caption`, if it has one.

    Raises ValueError for an invalid FEN.
    """
    cells: list[dict[Any, Any]] = frame.to_dict("records")
    rows = -(-len(cells) // columns)
    width, height = columns * (size + _GAP), rows * (size + _CAPTION + _GAP)
    root = ElementTree.Element(
        _tag("svg"), {"viewBox": f"0 0 {width} {height}", "width": str(width), "height": str(height)}
    )
    definitions = ElementTree.SubElement(root, _tag("defs"))
    for i, cell in enumerate(cells):
        x, y = (i % columns) * (size + _GAP), (i // columns) * (size + _CAPTION + _GAP)
        board = ElementTree.fromstring(_board(cell))
        _move_shared(board, definitions)
        board.attrib.update(x=str(x), y=str(y), width=str(size), height=str(size))
        root.append(board)
        for line, text in enumerate(_caption(i, cell)):
            _add_text(root, x, y + size + 14 * (line + 1), 11, text)
    return ElementTree.tostring(root, encoding="unicode")


def board_svg(
    fen: str,
    *,
    played: str | None = None,
    net: str | None = None,
    deep: str | None = None,
    size: int = 480,
) -> str:
    """A position as SVG, the side to move at the bottom, with an arrow for each of the moves (UCI) and a legend below.

    The played move is orange, the net's vermillion, the search's blue; a move of both net and search is green. Equal
    moves share an arrow, illegal moves have no arrow.
    """
    board = chess.Board(fen)
    sources: dict[chess.Move, list[str]] = {}
    for name, uci in (("net", net), ("search", deep), ("played", played)):
        if (move := legal_move(board, uci)) is not None:
            sources.setdefault(move, []).append(name)
    colours = [_COLOURS["both" if names[:2] == ["net", "search"] else names[0]] for names in sources.values()]
    chosen = [(move, colour, names) for (move, names), colour in zip(sources.items(), colours, strict=True)]
    arrows = [chess.svg.Arrow(move.from_square, move.to_square, color=colour) for move, colour, _ in chosen]
    drawn = ElementTree.fromstring(chess.svg.board(board, orientation=board.turn, arrows=arrows))
    drawn.attrib.update(x="0", y="0", width=str(size), height=str(size))
    legend_height = 22 * max(len(chosen), 1) + 8
    box = {"viewBox": f"0 0 {size} {size + legend_height}", "width": str(size), "height": str(size + legend_height)}
    root = ElementTree.Element(_tag("svg"), box)
    ElementTree.SubElement(root, _tag("rect"), {"width": "100%", "height": "100%", "fill": "#ffffff"})
    root.append(drawn)
    for line, (move, colour, names) in enumerate(chosen):
        y = size + 22 * line + 18
        patch = {"x": "12", "y": str(y - 10), "width": "22", "height": "8", "fill": colour}
        ElementTree.SubElement(root, _tag("rect"), patch)
        _add_text(root, 42, y, 14, f"{' and '.join(names)}: {board.san(move)}")
    return ElementTree.tostring(root, encoding="unicode")


_COLOURS = {"net": style.VERMILLION, "search": style.BLUE, "both": style.GREEN, "played": style.ORANGE}


def legal_move(board: chess.Board, uci: str | None) -> chess.Move | None:
    """The legal move of this text; None without a move, or for an illegal one."""
    return next((move for move in board.legal_moves if move.uci() == uci), None)


def _board(cell: dict[Any, Any]) -> str:
    board = chess.Board(cell["fen"])
    deep, net = (legal_move(board, cell.get(name)) for name in ("deep_best", "net_best"))
    moves = [(deep, style.GREEN)] if deep == net else [(deep, style.BLUE), (net, style.VERMILLION)]
    arrows = [chess.svg.Arrow(move.from_square, move.to_square, color=colour) for move, colour in moves if move]
    return chess.svg.board(board, orientation=board.turn, arrows=arrows, coordinates=False)


def _move_shared(board: ElementTree.Element, definitions: ElementTree.Element) -> None:
    """Moves the pieces and the 64 empty squares, which all boards share, to the sheet's `definitions`."""
    defined = {child.get("id") for child in definitions}
    for group in board.findall(_tag("defs")):
        for drawing in group:
            if drawing.get("id") not in defined:
                defined.add(drawing.get("id"))
                definitions.append(drawing)
        board.remove(group)
    squares = [child for child in board if child.get("class", "").startswith("square ")]
    for square in squares:
        board.remove(square)
    if "squares" not in defined:
        ElementTree.SubElement(definitions, _tag("g"), {"id": "squares"}).extend(squares)
    use = ElementTree.Element(_tag("use"), {f"{{{_XLINK}}}href": "#squares", "href": "#squares"})
    board.insert(0, use)
    for child in list(board):
        if child.tag == _tag("desc") or child.tag.endswith("pre"):
            board.remove(child)  # the position as text: the caption and the pieces show it


def _caption(i: int, cell: dict[Any, Any]) -> tuple[str, str]:
    if "caption" in cell:
        first, _, second = cell["caption"].partition("\n")
        return f"{i + 1}. {first}", second
    side = "White" if cell["fen"].split(" ", 2)[1] == "w" else "Black"
    where = f", game {cell['game']}, ply {cell['ply']}" if cell.get("game") else ""
    return f"{i + 1}. net {cell['net_q']:+.2f}, deep {cell['deep_q']:+.2f}", f"{side} to move{where}"


def _add_text(root: ElementTree.Element, x: int, y: int, size: int, text: str) -> None:
    place = {"x": str(x), "y": str(y), "font-family": "sans-serif", "font-size": str(size), "fill": style.INK}
    ElementTree.SubElement(root, _tag("text"), place).text = text


def _tag(name: str) -> str:
    return f"{{{_SVG}}}{name}"
