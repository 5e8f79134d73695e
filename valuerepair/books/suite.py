"""A suite of blind spots to share: candidates as EPD lines, and a measure of which ones another net shares.

A line has the judge's best move (`bm`), the net's first move if the judge finds that it loses (`am`), the judge's value
(`ce` or `dm`), and in comments what is needed to compare another net on the same terms:

    c0 "net Q +0.73120, sha256 e2f565f42d7c, maia-1900"; c1 "judge Q +0.01230, alpha 170, threshold 0.55, stockfish ..."

`c2` is the game, `c3` the moves to the position (``history startpos: e2e4``), `c4` a second look.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import chess
import numpy as np
from numpy.typing import NDArray

from valuerepair.archives.epd import CE_MATE, CE_MOST, LineSplitter
from valuerepair.archives.open import Stream, find_sources, read_text
from valuerepair.archives.options import EPD, RecordedOptions, SampleOptions
from valuerepair.arrays import Floats
from valuerepair.books.emit import epd_text
from valuerepair.books.select import game_name
from valuerepair.chess import values
from valuerepair.chess.board import keys, parse_fens, replay
from valuerepair.chess.position_text import history_comment, read_operations
from valuerepair.chess.positions import PositionBatch, encode_moves
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.intervals import Rate, weighted
from valuerepair.judge.verdict import NET_RIGHT, evidence
from valuerepair.nets.net import open_net
from valuerepair.question import DEFAULT_THRESHOLD, Question, is_candidate
from valuerepair.store.reached import searched_scores
from valuerepair.text import json_fields

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.store.store import Store


MOST_BYTES = 1 << 28  # of a suite, unpacked: about a million lines
_WHOLE_GAME = 60_000  # characters of a history; a comment of other kinds is cut sooner
_OWN_SCALES = {values.OWN_Q: "own Q", values.OF_WDL: "W/D/L"}
_NET = re.compile(r"net Q ([+-]\d\.\d+), sha256 ([0-9a-f]+), (.+)")
_JUDGE = re.compile(r"judge Q ([+-]\d\.\d+), (?:alpha ([\d.e+]+)|own Q|W/D/L), threshold ([\d.]+), (.+)")


@dataclass(frozen=True, slots=True)
class WrittenSuite:
    """Counts of the candidates of `net`: `positions` are written, the others `left_out`, by reason.

    `avoided` of the positions have an `am`, because the judge finds that the net's first move loses; for `unasked` of
    them the judge has not searched that move.
    """

    net: str
    positions: int
    avoided: int
    unasked: int
    left_out: Mapping[str, int]

    def lines(self) -> list[str]:
        """The counts as text for a terminal."""
        lines = [f"the judge refutes the net's first move in {self.avoided:,} of them (am)"]
        if self.unasked:
            lines[0] += f"; vr confirm would check {self.unasked:,} more"
        return lines + _left_out_lines(self.left_out)


def _left_out_lines(left_out: Mapping[str, int]) -> list[str]:
    reasons = ", ".join(f"{number:,} {reason}" for reason, number in sorted(left_out.items()))
    return [f"left out: {reasons}"] if reasons else []


def write_suite_stream(store: Store, rows: pd.DataFrame, threshold: float, stream: IO[bytes]) -> WrittenSuite:
    """Writes `rows`, from `Store.candidates` at this threshold, as lines of EPD, in their order.

    Leaves out rows where a second look found the net right, and rows whose value was inferred and not searched.
    Raises UsageError for candidates by calibrated Q, ValueRepairError for a recorded move that cannot be played.
    """
    if rows.attrs["calibration"] is not None:
        raise UsageError("--calibration fitted: a suite compares Q as nets give it; leave the option out")
    looks = evidence(store, rows)
    left_out: Counter[str] = Counter()
    inferred = rows["inferred"].to_numpy(np.bool_) if "inferred" in rows else np.zeros(len(rows), np.bool_)
    refuted = (looks["verdict"] == NET_RIGHT).to_numpy(np.bool_)
    for reason, rejected in (("net right at a second look", refuted), ("inferred, not searched", inferred & ~refuted)):
        if rejected.any():
            left_out[reason] = int(rejected.sum())
    chosen, looks = rows[~(refuted | inferred)], looks[~(refuted | inferred)]
    loss = _loss(store, chosen, looks)
    best_moves = zip(chosen["net_best"], chosen["deep_best"], strict=True)
    differs = np.array([_differ(net_best, deep_best) for net_best, deep_best in best_moves], np.bool_)
    avoided = differs & (loss >= threshold)
    second = looks.attrs["second"] or rows.attrs["oracle"]  # selected rows keep the attrs of their frame
    for row, look, refutes in zip(chosen.to_dict("records"), looks.to_dict("records"), avoided.tolist(), strict=True):
        stream.write(_line(row, look, refutes, threshold, rows.attrs, second["label"]).encode())
    unasked = int((differs & np.isnan(loss)).sum())
    return WrittenSuite(rows.attrs["net"]["name"], len(chosen), int(avoided.sum()), unasked, dict(left_out))


def _differ(net_best: object, deep_best: object) -> bool:
    """Whether both moves are known and differ."""
    return isinstance(net_best, str) and isinstance(deep_best, str) and net_best != deep_best


def _loss(store: Store, rows: pd.DataFrame, looks: pd.DataFrame) -> Floats:
    """[n] the cost in Q of the net's first move, from one judge's searches before and after it; NaN without these.

    A second look, which searches both, takes precedence. Otherwise it is the judge itself, if it also searched the
    position after the move (`vr expand` does).
    """
    loss = np.array(looks["second_q"] - looks["after_net_q"], np.float64)
    best = rows["net_best"].tolist()
    missing = [i for i in np.flatnonzero(np.isnan(loss)).tolist() if isinstance(best[i], str)]
    if not missing:
        return loss
    moves = encode_moves([best[i] for i in missing])
    fens = rows["fen"].tolist()
    after = keys(replay(parse_fens([fens[i] for i in missing]), moves, np.arange(len(missing) + 1)))
    oracle_id = store.pick(rows.attrs["net"]["sha256"], rows.attrs["oracle"]["digest"])[1]
    scores_by_key = searched_scores(store, oracle_id, after)
    no_score = (None,) * 6
    scores = np.array([scores_by_key.get(key, no_score) for key in after.tolist()], np.float64)
    alpha, q_from = rows.attrs["alpha"]["value"], rows.attrs["q_from"]
    q = values.deep_q(scores, alpha, q_from)
    loss[missing] = rows["deep_q"].to_numpy(np.float64)[missing] + q
    return loss


def _line(
    row: dict[Hashable, Any],
    look: dict[Hashable, Any],
    refuted: bool,
    threshold: float,
    attrs: Mapping[Any, Any],
    second_judge: str,
) -> str:
    """The line of one candidate; `refuted`: the judge finds that the net's first move loses."""
    net, alpha = attrs["net"], attrs["alpha"]
    scale = "W/D/L" if attrs["q_from"] == "wdl" else _OWN_SCALES.get(alpha["origin"], f"alpha {alpha['value']:g}")
    operations: dict[str, str | int] = {
        "id": f"{game_name(row)} ply {row['ply']}",
        "c0": f"net Q {row['net_q']:+.5f}, sha256 {net['sha256'][:12]}, {net['name']}",
        "c1": f"judge Q {row['deep_q']:+.5f}, {scale}, threshold {threshold:g}, {attrs['oracle']['label']}",
        **_score(row, alpha),
    }
    if game := _game(row):
        operations["c2"] = game
    if look["verdict"] is not None:
        operations["c4"] = f"second look Q {look['second_q']:+.5f}, {look['verdict']}, {second_judge}"
    operations |= {name: int(row[column]) for name, column in (("acn", "nodes"), ("acd", "depth")) if row[column] > 0}
    texts: dict[str, Any] = {
        name: epd_text(text) if isinstance(text, str) else text for name, text in operations.items()
    }
    if row["history_known"] and row["moves"]:
        texts["c3"] = epd_text(history_comment(row["start_fen"], row["moves"]), _WHOLE_GAME)
    board = chess.Board(row["fen"])
    texts |= {"hmvc": board.halfmove_clock, "fmvn": board.fullmove_number}
    for name, move in (("bm", row["deep_best"]), ("am", row["net_best"] if refuted else None)):
        if isinstance(move, str):
            texts[name] = [_move(board, move)]
    written: str = board.epd(**dict(sorted(texts.items())))
    return written + "\n"


def _move(board: chess.Board, uci: str) -> chess.Move:
    try:
        return board.parse_uci(uci)
    except ValueError as error:
        raise ValueRepairError(f"a recorded move cannot be played: {error}; mine its game again") from None


def _score(row: dict[Hashable, Any], alpha: Mapping[str, Any]) -> dict[str, int]:
    """`dm` if the side to move mates, otherwise `ce`; if it is mated, the `ce` of a mate in the EPD standard.

    For a search with a net, whose Q is not a function of its centipawns, `ce` is computed from its Q.
    """
    mate, cp = row["mate"], row["cp"]
    if not np.isnan(mate):
        return {"dm": int(mate)} if mate > 0 else {"ce": -max(CE_MATE + 2 * int(mate), CE_MOST + 1)}
    if np.isnan(cp) or alpha["origin"] == values.OWN_Q:
        cp = values.q_to_cp(row["deep_q"], alpha["value"])
    return {"ce": int(np.clip(np.rint(cp), -CE_MOST, CE_MOST))}


def _game(row: dict[Hashable, Any]) -> str:
    """The players, the event, the date and the result, if known."""
    white, black = row["white"], row["black"]
    players = f"{white} - {black}" if isinstance(white, str) and isinstance(black, str) else None
    texts = (players, row["event"], row["date"], row["result"])
    return ", ".join(text for text in texts if isinstance(text, str) and text.strip(" ?.*"))


# -- another net on a suite -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Suite:
    """The n positions of a suite, with their histories, and a frame with the contents of their lines.

    Columns, from the side to move: line (its number), id, fen; net, net_sha256 (its beginning) and net_q of the net
    that the position was collected for (None and NaN without one); judge, deep_q, threshold. `left_out`: lines, by
    reason.
    """

    path: str
    batch: PositionBatch
    rows: pd.DataFrame
    left_out: Mapping[str, int]


def read_suite(path: str | os.PathLike[str], *, alpha: float | None = None, threshold: float | None = None) -> Suite:
    """Reads an EPD file whose lines have `ce`, `dm` or ``bm #N``: a suite of `write_suite_stream`, or any other.

    Deep Q and threshold come from the line. With `alpha`, Q is computed from the centipawns instead, unless the judge
    gave a Q itself; `threshold` overrides the line's. The defaults are 170 and 0.55. Raises UsageError for a missing
    file and for numbers out of range, ValueRepairError for a file without any such line.
    """
    Question(alpha=alpha, threshold=DEFAULT_THRESHOLD if threshold is None else threshold)  # checks both
    [source, *more] = find_sources([os.fspath(path)])
    if more:
        raise UsageError(f"{path}: give one EPD file, not a folder")
    with Stream(source, most=MOST_BYTES) as stream:
        block = LineSplitter(source).feed(stream.read(MOST_BYTES), last=True)
        if stream.broken:
            raise ValueRepairError(f"{path}: {stream.broken}")
    parsed = block.parse(SampleOptions(per_game=None, min_ply=0, recorded=RecordedOptions(EPD)))
    if not len(parsed.game):
        raise ValueRepairError(f"{path}: no line of EPD with a value (ce, dm or bm #N)")
    batch = parsed.batch(np.ones(len(parsed.game), np.bool_))
    left_out = Counter(line.reason for line in parsed.rejected) + parsed.rejected_positions
    texts = dict(zip(block.numbers, block.lines, strict=True))
    return Suite(os.fspath(path), batch, _table(batch, texts, alpha, threshold), dict(left_out))


def _table(
    batch: PositionBatch, texts: Mapping[int, bytes], alpha: float | None, threshold: float | None
) -> pd.DataFrame:
    """The frame of a `Suite`; `texts` are the lines by their numbers."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    origins = batch.origin
    for fen, game, recorded in zip(batch.fen, origins.game, origins.recorded or (), strict=True):
        assert recorded is not None
        comments = read_operations(read_text(texts[game.number]))
        net = _NET.fullmatch(comments.get("c0", ""))
        judge = _JUDGE.fullmatch(comments.get("c1", ""))
        scores = np.array([recorded.cp, recorded.mate, None, None, None, None], np.float64)
        deep_q = float(values.deep_q(scores, values.DEFAULT_ALPHA if alpha is None else alpha))
        if judge is not None and (alpha is None or judge[2] is None):
            deep_q = float(judge[1])
        own_threshold = float(judge[3]) if judge is not None else DEFAULT_THRESHOLD
        rows.append(
            {
                "line": game.number,
                "id": comments.get("id"),
                "fen": fen,
                "net": net[3] if net is not None else None,
                "net_sha256": net[2] if net is not None else None,
                "net_q": float(net[1]) if net is not None else np.nan,
                "judge": judge[4] if judge is not None else None,
                "deep_q": deep_q,
                "threshold": own_threshold if threshold is None else threshold,
            }
        )
    table: pd.DataFrame = pd.DataFrame(rows)
    # As objects, because newer pandas would turn None into NaN.
    for name in ("id", "net", "net_sha256", "judge"):
        table[name] = pd.Series([row[name] for row in rows], table.index, object)
    return table


@dataclass(frozen=True, slots=True)
class SharedSpots:
    """The share of the blind spots of a net (`of`) that `net` shares: the rate `shared`, its 95 % interval by games.

    `of_sha256` is the beginning of its hash. If the lines name no net, `of` is None and all errors count.
    `opposite` counts errors of the threshold or more in the other direction, which are not shared.
    """

    net: str
    sha256: str
    of: str | None
    of_sha256: str | None
    judge: str | None
    threshold: float
    shared: Rate
    opposite: int

    @property
    def itself(self) -> bool:
        """Whether the spots are the net's own."""
        return self.of_sha256 is not None and self.sha256.startswith(self.of_sha256)


@dataclass(frozen=True)
class MeasuredSuite:
    """Nets on a suite. `rows` are those of `Suite` with `net_N`, `q_N`, `shared_N` for each net N, from 1."""

    path: str
    rows: pd.DataFrame
    shares: list[SharedSpots]
    left_out: Mapping[str, int]

    def as_json(self) -> dict[str, Any]:
        """All but the rows, JSON-able."""
        plain = {"suite": self.path, "positions": len(self.rows), "left_out": dict(self.left_out)}
        return {**plain, "shares": json_fields(self.shares)}

    def lines(self) -> list[str]:
        """Text for a terminal: the net whose blind spots they are, then a line for each net."""
        lines = []
        for group in dict.fromkeys((share.of, share.judge, share.threshold) for share in self.shares):
            suite_net, judge, threshold = group
            in_group = [share for share in self.shares if (share.of, share.judge, share.threshold) == group]
            positions = f"blind spots of {suite_net}" if suite_net is not None else "positions with a value"
            judged_by = f" (judge: {judge})" if judge is not None else ""
            lines.append(f"{in_group[0].shared.total:,} {positions}, {threshold:g} or more off{judged_by}")
            lines += [f"  {_shared_words(share)}" for share in in_group]
        lines += _left_out_lines(self.left_out)
        if any(share.of is not None and not share.itself for share in self.shares):
            lines.append(
                "a suite is chosen by one net's errors, so other nets look better on it: "
                "judge two nets by a suite of each, or by all positions (vr remeasure --db)"
            )
        return lines


def _shared_words(spots: SharedSpots) -> str:
    verb = "misjudges" if spots.of is None else "has" if spots.itself else "shares"
    opposite = f"; {spots.opposite:,} more in the other direction" if spots.opposite else ""
    return f"{spots.net} {verb} {spots.shared}{opposite}"


def measure_suite(
    path: str | os.PathLike[str],
    nets: Sequence[str],
    *,
    threshold: float | None,
    alpha: float | None,
    device: str,
) -> MeasuredSuite:
    """Which positions of a suite (`read_suite`) each of the nets misjudges too: the blind spots that it shares.

    A net shares a blind spot if its Q is off by the threshold or more, in the same direction as the Q of the net that
    the suite was collected for. A net is a file or a name; `device` is as in `nets.net.open_net`. Raises UsageError and
    ValueRepairError.
    """
    suite = read_suite(path, alpha=alpha, threshold=threshold)
    rows, shares = suite.rows, list[SharedSpots]()
    for number, spec in enumerate(nets, 1):
        with open_net(spec, device=device) as net:
            q = net.evaluate(suite.batch).q.astype(np.float64)
            name, key = net.identity.name, net.identity.key
        error = q - rows["deep_q"].to_numpy(np.float64)
        old_error = (rows["net_q"] - rows["deep_q"]).to_numpy(np.float64)  # of the suite's net
        wrong = is_candidate(error, rows["threshold"].to_numpy(np.float64))
        shared = wrong & ~(np.sign(error) * np.sign(old_error) < 0)
        rows = rows.assign(**{f"net_{number}": name, f"q_{number}": q, f"shared_{number}": shared})
        shares += _by_group(rows, name, key, shared, wrong & ~shared)
    return MeasuredSuite(suite.path, rows, shares, suite.left_out)


def _by_group(
    rows: pd.DataFrame, name: str, key: str, shared: NDArray[np.bool_], opposite: NDArray[np.bool_]
) -> list[SharedSpots]:
    """The shares of one net, for each net, judge and threshold that the lines name."""
    games = np.unique(_games(rows), return_inverse=True)[1]
    spots = []
    columns = [rows[column].tolist() for column in ("net", "net_sha256", "judge", "threshold")]
    groups = list(zip(*columns, strict=True))
    for group in dict.fromkeys(groups):
        suite_net, suite_sha256, judge, threshold = group
        in_group = np.array([other == group for other in groups], np.bool_)
        rate = weighted(shared[in_group], np.ones(int(in_group.sum())), games[in_group])
        spots.append(
            SharedSpots(name, key, suite_net, suite_sha256, judge, threshold, rate, int(opposite[in_group].sum()))
        )
    return spots


def _games(rows: pd.DataFrame) -> list[str]:
    """The game of each position: its id without the ply, or its line if it has no such id."""
    return [
        name.partition(" ply ")[0] if isinstance(name, str) and " ply " in name else f"line {line}"
        for name, line in zip(rows["id"], rows["line"], strict=True)
    ]
