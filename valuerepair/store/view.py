"""What a store says of one net and one judge, as a frame: all positions, or the candidates."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valuerepair.arrays import Ids
from valuerepair.chess import values
from valuerepair.chess.positions import PHASES, decode_move, decode_moves
from valuerepair.errors import UsageError
from valuerepair.files import written_whole
from valuerepair.question import Question, is_candidate
from valuerepair.store import alpha as alphas
from valuerepair.store.columns import FLAGS, KEYS, WHOLE, WORDS, both_q, cell_of, columns, parameters_of, rows_of
from valuerepair.store.pairs import Pair, judge_of, net_key, net_label, pick
from valuerepair.store.rows import POLICY
from valuerepair.store.store import Store

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = [
    "position_id", "key", "fen", "start_fen", "moves", "ply", "side", "phase", "pieces",
    "source", "game", "game_id", "white", "black", "event", "date", "result", "played",
    "eval_cp", "eval_mate", "history_known", "kind", "part", "parent_id",
    "net", "net_q", "net_w", "net_d", "net_l", "net_best",
    "oracle", "nodes", "depth", "time_ms", "cp", "mate", "deep_w", "deep_d", "deep_l", "deep_best", "pv",
    "deep_q", "disagreement", "weight",
]  # fmt: skip
# Only on request. `screened`: the value is that of the short search of screening, which went no further.
MORE = ("screened", "game_key", "side_code", "phase_code", "deep_own_q", "policy")
TEXTS = (
    "fen", "start_fen", "moves", "source", "white", "black", "event", "date", "result", "played", "kind", "part",
    "net_best", "deep_best", "pv", "policy",
)  # fmt: skip

# In a frame these columns are floats, because some numbers are missing; in a file they are integers or missing.
_WHOLE = ("eval_cp", "eval_mate", "cp", "mate", "deep_w", "deep_d", "deep_l")
_CHUNK_ROWS = 50_000
_CODED = {"side": ("side_code", ("w", "b")), "phase": ("phase_code", PHASES)}
_REPEATED = ("start_fen", "source", "white", "black", "event", "date", "result", "played", "deep_best", "kind", "part")
_AT_ONCE = 10_000
_DERIVED = ("deep_q", "disagreement", "net", "oracle")


def frame(
    store: Store,
    question: Question | None = None,
    *,
    text: bool = True,
    only: Sequence[str] | None = None,
    screened: bool = False,
    ids: Ids | None = None,
    candidates_only: bool = False,
) -> pd.DataFrame:
    """All positions with values of the question's net and judge, one row each, by position_id.

    The columns are `COLUMNS`, or `only` some of them and of `MORE`. All scores are from the side to move: net_q and
    deep_q in [-1, 1], disagreement = net_q - deep_q; net_w/d/l are fractions, deep_w/d/l per mille, cp centipawns, mate
    moves; `moves`, `net_best`, `deep_best`, `played` and `pv` are UCI. Missing numbers are NaN, missing words None.
    `kind` is the origin, `weight` how many positions a row stands for: above 1 for audits of screening. With
    `question.beside` positions that are not of games are among them; with `screened` also those that screening left
    out, with the value of the short search and weight 0. Without `text` the columns `TEXTS` are left out but for kind
    and part; with `ids` or `candidates_only` there are only these positions.

    attrs: net {name, sha256}, oracle {label, digest}, alpha {value, origin}, q_from, beside. Raises ValueRepairError if
    no position is scored.
    """
    import pandas as pd

    asked = question or Question()
    with store.snapshot():
        pair = pick(store, asked.net, asked.oracle)
        alpha = alphas.alpha(store, pair, asked.alpha)
        usual = (*COLUMNS, *(("screened",) if screened else ()))
        wanted = [name for name in only or usual if text or name in WORDS or name not in TEXTS]
        net_q, deep_q = both_q(store, pair, alpha.value, asked.q_from, beside=asked.beside, screened=screened)
        keep = np.ones(len(net_q), np.bool_)
        if candidates_only:
            keep &= is_candidate(net_q - deep_q, asked.threshold)
        read = columns(store, pair, (), beside=asked.beside, screened=screened)
        if ids is not None:
            keep &= np.isin(read["position_id"], ids)
        numbers = [name for name in wanted if name not in (*TEXTS, *_DERIVED, *_CODED) or name in WORDS]
        numbers += [code for name, (code, _) in _CODED.items() if name in wanted]
        texts = [name for name in wanted if name in TEXTS and name not in WORDS]
        kept = read["position_id"][keep]
        if keep.all():
            table = dict(columns(store, pair, numbers, beside=asked.beside, screened=screened))
            table |= _cells(store, pair, texts, None, asked, screened)
        else:
            table = {"position_id": kept} | _cells(store, pair, [*numbers, *texts], kept, asked, screened)
        table |= {"net_q": net_q[keep], "deep_q": deep_q[keep], "disagreement": (net_q - deep_q)[keep]}
        for name, (code, words) in _CODED.items():
            if name in wanted:
                table[name] = np.array(words, object)[table[code]]
        about = attrs(store, pair, asked, alpha)
        named: dict[str, Any] = {**table, "net": about["net"]["name"], "oracle": about["oracle"]["label"]}
        order = [name for name in (*COLUMNS, *MORE) if name in wanted]
        result: pd.DataFrame = pd.DataFrame({name: named[name] for name in order}, np.arange(len(kept)))
        result.attrs.update(about)
        return result


def _cells(
    store: Store, pair: Pair, names: Sequence[str], ids: Ids | None, asked: Question, screened: bool
) -> dict[str, NDArray[Any]]:
    """Columns of the view, of all rows or of those with these `ids`, ascending."""
    if not names:
        return {}
    cells = ", ".join(cell_of(name, screened) for name in names)
    rows, parameters = rows_of(asked.beside, screened), parameters_of(store, pair)
    if ids is not None:
        rows = rows.replace("ORDER BY", "AND position_id IN (SELECT value FROM json_each(:ids)) ORDER BY")
        parameters["ids"] = json.dumps(ids.tolist())
    cursor, same = store.connection.execute(f"SELECT {cells} {rows}", parameters), dict[Any, Any]()
    pieces: dict[str, list[NDArray[Any]]] = {name: [_typed(name, [])] for name in names}
    while found := cursor.fetchmany(_AT_ONCE):
        for name, column in zip(names, zip(*found, strict=True), strict=True):
            # Most words of games are those of many rows, and a million rows should fit into memory.
            cells_of = [same.setdefault(cell, cell) for cell in column] if name in _REPEATED else list(column)
            pieces[name].append(_typed(name, cells_of))
    return {name: np.concatenate(arrays) for name, arrays in pieces.items()}


def _typed(name: str, cells: list[Any]) -> NDArray[Any]:
    if name in KEYS:
        return np.array(cells, np.int64).view(np.uint64)
    if name == "moves":
        cells = [" ".join(decode_moves(np.frombuffer(blob, "<u2"))) for blob in cells]
    elif name == "net_best":
        cells = [decode_move(int.from_bytes(blob[:2], "little")) if blob else None for blob in cells]
    if name in TEXTS:
        column = np.empty(len(cells), object)
        column[:] = cells
        return column
    return np.array(cells, np.int64 if name in WHOLE else bool if name in FLAGS else np.float64)


def candidates(store: Store, question: Question | None = None) -> pd.DataFrame:
    """The rows of `frame` with ``|disagreement| >= threshold``, the largest first, equal ones by position_id."""
    unordered = frame(store, question, candidates_only=True)
    order = np.argsort(-np.abs(unordered["disagreement"].to_numpy()), kind="stable")
    ordered: pd.DataFrame = unordered.iloc[order].reset_index(drop=True)
    return ordered


def attrs(store: Store, pair: Pair, question: Question, alpha: values.Alpha) -> dict[str, Any]:
    """The attrs of a frame of this net and judge."""
    judge = judge_of(store, pair[1])
    return {
        "net": {"name": net_label(store, pair[0]), "sha256": net_key(store, pair[0])},
        "oracle": {"label": judge.label, "digest": judge.digest},
        "alpha": {"value": alpha.value, "origin": alpha.origin},
        "q_from": question.q_from,
        "beside": question.beside,
    }


def format_of(output: str, *others: str) -> str:
    """The form of a table by its file's ending: ``parquet``, ``jsonl``, ``csv``, or one of the `others`. Raises
    UsageError for another ending."""
    forms = ("parquet", "jsonl", "csv", *others)
    if (form := os.path.splitext(output)[1].lower()[1:]) not in forms:
        raise UsageError(f"{output}: the name ends in .{', .'.join(forms[:-1])} or .{forms[-1]}, which says the form")
    return form


def write_stream(frame: pd.DataFrame, form: str, stream: IO[bytes]) -> None:
    """Writes `frame` to an open binary stream.

    In Parquet the frame's attrs (net, oracle, alpha) are in the file's metadata, as pandas writes and reads them.
    """
    table = frame.astype({column: "Int64" for column in _WHOLE if column in frame})
    if form == "parquet":
        table.to_parquet(stream, index=False, compression="zstd")
        return
    for start in range(0, max(len(table), 1), _CHUNK_ROWS):
        part = table.iloc[start : start + _CHUNK_ROWS]
        if form == "csv":
            text = part.to_csv(index=False, header=start == 0, lineterminator="\n")
        else:
            json_lines = part.to_json(orient="records", lines=True, double_precision=15, force_ascii=False)
            # pandas escapes slashes, and a search for a FEN should find it; without rows it writes an empty line
            text = json_lines.replace("\\/", "/") if len(part) else ""
        stream.write(text.encode())


def write_file(frame: pd.DataFrame, path: str) -> None:
    """Writes `frame` to a file, whose ending says the form; it appears complete or not at all."""
    with written_whole(path) as partial, partial.open("wb") as stream:
        write_stream(frame, format_of(path), stream)


class Policy(tuple[tuple[str, float], ...]):
    """The net's best moves of a position, the best first: (UCI move, prior)."""

    @staticmethod
    def of(blob: bytes | None) -> Policy:
        """The moves in a cell of the table net_values."""
        cells = np.frombuffer(blob or b"", POLICY)
        return Policy((decode_move(move), float(p)) for move, p in cells.tolist())

    def rank(self, move: str | None) -> int | None:
        """The rank of a move, 1 for the net's first choice; None if it is not among the eight best."""
        return next((i for i, (known, _) in enumerate(self, 1) if known == move), None)
