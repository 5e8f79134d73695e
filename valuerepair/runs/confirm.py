"""A second look at candidates: a deeper search of each, and one after the moves that net and first look preferred.

Raw results go into the store as they come; who was right is computed from them (`valuerepair.judge.verdict`).
"""

from __future__ import annotations

import logging
import os
import shlex
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import chess

from valuerepair import signals
from valuerepair.chess import values
from valuerepair.chess.positions import Position
from valuerepair.chess.progress import Progress, format_duration, format_rate
from valuerepair.engines.kinds import chosen_spec, default_kind, kind_of, parse_spec
from valuerepair.engines.spec import EngineSpec
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.judge import verdict
from valuerepair.judge.split import split_file
from valuerepair.nets.devices import device_of, split_key
from valuerepair.nets.heads import heads_of
from valuerepair.oracles.open import open_oracle
from valuerepair.oracles.oracle import DeepFailure, Oracle
from valuerepair.question import Question
from valuerepair.runs.failures import Failures
from valuerepair.runs.loop import TICK_S, SearchLoop, stored_run
from valuerepair.runs.summary import next_command
from valuerepair.store import DEFAULT_PATH, files, second_looks
from valuerepair.store.rows import AFTER, SECOND, DeepResult, OracleIdentity, Run, RunRecord
from valuerepair.store.second_looks import StoredOracle
from valuerepair.store.store import Store

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.nets.net import Net

log = logging.getLogger(__name__)

_CHECKMATED = DeepResult(mate=0)
_DRAWN = DeepResult(cp=0, wdl=(0, 1000, 0))


@dataclass(frozen=True)
class ConfirmOptions:
    """`limit`: look at the first candidates of the frame only, at most this many, however often the run is interrupted.
    `retry_failed`: search again what failed before. `command`: the command line, kept in the store for the reader of
    it. Raises UsageError for a limit below 1."""

    limit: int | None = None
    retry_failed: bool = False
    command: str = ""

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise UsageError(f"--limit {self.limit}: must be at least 1")


@dataclass(frozen=True)
class ConfirmSummary:
    """What one run of second looks did.

    `searches` were made in `seconds`, with `nodes` in all, `workers` at once; `failed` looks could not be made, now or
    before. `state` is ``finished``, ``interrupted`` (by a signal) or ``limited`` (by ``--limit``).
    """

    state: str
    searches: int
    failed: int
    nodes: int
    seconds: float
    workers: int


@dataclass(frozen=True)
class _Look:
    """One search to be made: of a candidate, or of the position after a move from it."""

    position_id: int
    stage: str
    position: Position = field(compare=False)


@dataclass
class _Work:
    """A candidate: its `row` in the frame, and the stages that are to come."""

    row: int
    stages: list[str] = field(default_factory=list)


def confirm(
    store: Store,
    frame: pd.DataFrame,
    oracle: Oracle,
    options: ConfirmOptions,
    *,
    progress: Progress | None = None,
) -> ConfirmSummary:
    """Looks by `oracle` at each candidate of `frame` (of `Store.candidates`), in its order, and keeps what it sees.

    A candidate gets a search of its position, one after the net's preferred move and one after the first look's (or,
    where that one named none, after the move of the second look). What the store has is not searched again, so the same
    call goes on where an earlier one stopped, however it ended. Results are committed about once a second. In the main
    thread SIGINT and SIGTERM end the run cleanly, with the searches in flight awaited for a short while.

    Raises ValueRepairError when the oracle is broken as a whole, and what it and the store raise.
    """
    asked = {name: frame.attrs[name] for name in ("net", "oracle", "alpha", "q_from")}
    if frame.attrs["calibration"]:
        asked["calibration"] = "fitted"
    work = {"second look": oracle.identity.digest, **asked}
    with stored_run(store, RunRecord.of(work, options.command, asked)) as run:
        if run.resumed and (made := second_looks.made(store.connection, run.id)):
            log.info(f"going on with {made:,} searches made before")
        looking = _SecondLooks(store, frame, oracle, options, run, progress or Progress("confirming", quiet=True))
        with looking.counted():
            state = looking.work()
            counts = looking.counts()
    store.end_run(run, "finished" if state == "finished" else "interrupted", counts)
    return looking.summary(state)


class _SecondLooks(SearchLoop["_Look"]):
    """A run of second looks: candidates, and the positions after the moves that net and first look preferred."""

    def __init__(
        self,
        store: Store,
        frame: pd.DataFrame,
        oracle: Oracle,
        options: ConfirmOptions,
        run: Run,
        progress: Progress,
    ) -> None:
        oracle_id = store.add_oracle(oracle.identity)
        failures = Failures(store, oracle_id, run, f"the second look ({oracle.identity.label})")
        super().__init__(store, oracle, oracle_id, run, progress, failures)
        self._frame = frame
        self._rows = {int(number): row for row, number in enumerate(frame["position_id"])}
        # Where there is no move, a frame may hold None or NaN.
        moves = ([move if isinstance(move, str) else "" for move in frame[f"{who}_best"]] for who in ("net", "deep"))
        self._preferred = list(zip(*moves, strict=True))
        self._failed, self._scored = 0, False
        work, self._limited = self._plan(options)
        self._total = sum(len(each.stages) for each in work)
        self._coming = self._looks(work)
        self._followers: deque[_Look] = deque()
        progress.set_total(self._total)
        self._ticked, self._planned = self._started, False

    # -- what is to be searched ---------------------------------------------------------------------------------------

    def _plan(self, options: ConfirmOptions) -> tuple[list[_Work], bool]:
        """The candidates with searches to come, and whether the limit leaves some out."""
        ids = [int(number) for number in self._frame["position_id"].iloc[: options.limit]]
        with self._store.writing() as connection:
            second_looks.take_over(connection, self._oracle_id, ids, self._run.id)
            done = second_looks.finished(connection, self._oracle_id, ids)
            failed = {} if options.retry_failed else second_looks.failed(connection, self._oracle_id)
        self._scored = bool(done)
        work = []
        for row, number in enumerate(ids):
            there = done.get(number, {})
            wanted = self._stages(row, there.get(SECOND))
            self._failed += sum((number, stage) in failed for stage in wanted)
            stages = [stage for stage in wanted if stage not in there and (number, stage) not in failed]
            if stages:
                work.append(_Work(row, stages))
        return work, len(ids) < len(self._frame)

    def _stages(self, row: int, second_best: str | None) -> list[str]:
        """All searches of a candidate; where the first look named no move, the second look's own counts."""
        net_best, deep_best = self._preferred[row]
        moves = dict.fromkeys(move for move in (net_best, deep_best or second_best) if move)
        return [SECOND, *(AFTER + move for move in moves)]

    def _looks(self, work: list[_Work]) -> Iterator[_Look]:
        """The searches to make, generated as they are needed; ends of games are recorded and not searched."""
        for each in work:
            position = self._position(each.row)
            number = int(self._frame["position_id"].iloc[each.row])
            for stage in each.stages:
                look = self._look(number, stage, position)
                if look is not None:
                    yield look

    def _position(self, row: int) -> Position:
        cells = self._frame.iloc[row]
        moves = tuple(str(cells["moves"]).split())
        known = bool(cells["history_known"])
        return Position(str(cells["fen"]), str(cells["start_fen"]), moves, int(cells["ply"]), history_known=known)

    def _look(self, number: int, stage: str, position: Position) -> _Look | None:
        """The search of a stage; None where there is none to make, because the move ends the game."""
        if stage == SECOND:
            return _Look(number, stage, position)
        reached = after(position, stage.removeprefix(AFTER))
        if isinstance(reached, Position):
            return _Look(number, stage, reached)
        if reached is not None:
            self._store.add_deep(number, self._oracle_id, reached, self._run, stage)
        self._add_to_total(-1)
        return None

    # -- the loop -----------------------------------------------------------------------------------------------------

    @property
    def _is_more_to_come(self) -> bool:
        return not self._planned or bool(self._followers)

    @property
    def _any_scored(self) -> bool:
        return self._scored

    def _feed(self) -> None:
        while not signals.count() and len(self._searching) < self._oracle.capacity:
            look = self._followers.popleft() if self._followers else next(self._coming, None)
            self._planned = look is None
            if look is None:
                return
            self._begin(look, self._oracle.submit(look.position))

    def _take(self, key: _Look, outcome: DeepResult) -> None:
        self._scored = True
        self._nodes += outcome.nodes
        self._store.add_deep(key.position_id, self._oracle_id, outcome, self._run, key.stage)
        if key.stage == SECOND:
            self._follow(key, outcome.best_move)

    def _take_failure(self, key: _Look, failure: DeepFailure) -> None:
        self._failed += 1
        self._failures.add(key.position_id, failure, key.stage)

    def _end(self) -> str:
        if self._failures.held:
            raise self._failures.hopeless()
        return "limited" if self._limited else "finished"

    def _follow(self, look: _Look, best: str | None) -> None:
        """Adds the search after the second look's own move, where the first look named none."""
        row = self._rows[look.position_id]
        for stage in self._stages(row, best):
            if stage not in self._stages(row, None):
                self._add_to_total(1)
                follower = self._look(look.position_id, stage, look.position)
                if follower is not None:
                    self._followers.append(follower)

    def _add_to_total(self, amount: int) -> None:
        self._total += amount
        self._progress.set_total(self._total)

    # -- the end ------------------------------------------------------------------------------------------------------

    def _show(self) -> None:
        if time.monotonic() - self._ticked < TICK_S:
            return
        self._ticked = time.monotonic()
        if self._nodes:
            self._progress.note(format_rate(self._nodes / (time.monotonic() - self._started)))
        # A plain log gets its line also while nothing finishes.
        self._progress.advance(0)

    def counts(self) -> dict[str, Any]:
        """What the store keeps of the run; it does not depend on how often the run was interrupted."""
        done = second_looks.finished(self._store.connection, self._oracle_id, list(self._rows))
        return {"looked": sum(SECOND in stages for stages in done.values()), "failed": self._failed}

    def summary(self, state: str) -> ConfirmSummary:
        seconds = time.monotonic() - self._started
        return ConfirmSummary(state, self._done, self._failed, self._nodes, seconds, self._oracle.workers)


def after(position: Position, uci: str) -> Position | DeepResult | None:
    """The position after a move; how the game ended where the move ends it; None where the move is not legal.

    The end is as an engine says it: ``mate 0`` for the side that is mated, 0 centipawns for stalemate, too little
    material, the third occurrence and 50 moves each, counted with the known history.
    """
    board = chess.Board(position.start_fen)
    for move in position.moves:
        board.push_uci(move)
    try:
        chosen = board.parse_uci(uci)
    except ValueError:
        return None
    board.push(chosen)
    if board.is_checkmate():
        return _CHECKMATED
    drawn = board.is_stalemate() or board.is_insufficient_material() or board.is_fifty_moves()
    if drawn or board.is_repetition(3):
        return _DRAWN
    return Position(
        board.fen(),
        position.start_fen,
        (*position.moves, chosen.uci()),
        position.ply + 1,
        history_known=position.history_known,
    )


DEFAULT_TIMES = 10.0


@dataclass(frozen=True)
class Depth:
    """How deep the second look is: by an oracle of its own (`deep`, a ``--deep`` text), or by `nodes`, or by `times`
    the first look's limit (None: `DEFAULT_TIMES`). At most one of the three.

    Raises UsageError for more than one, and for values that are no second look.
    """

    deep: str | None = None
    nodes: int | None = None
    times: float | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("deep", "nodes", "times") if getattr(self, name) is not None]
        if len(given) > 1:
            raise UsageError(f"--{given[0]} and --{given[1]} both say how deep the second look is: give one of them")
        if self.nodes is not None and self.nodes < 1:
            raise UsageError(f"--nodes {self.nodes}: must be at least 1")
        if self.times is not None and not 1 < self.times < 1e6:
            raise UsageError(f"--times {self.times:g}: a second look is deeper than the first: give a number above 1")


def second_spec(first: StoredOracle, depth: Depth) -> str | None:
    """The ``--deep`` text of the second look at what `first` looked at; None for the default oracle.

    Without an oracle of its own it is the first one's engine and options with more nodes. Recorded evaluations are
    looked at by a real search. Raises UsageError where the first oracle cannot be had again from what the store knows.
    """
    if depth.deep is not None:
        parse_spec(depth.deep)
        return depth.deep
    kind = kind_of(first.kind)
    if not kind.searches:
        return _of_recorded(depth)
    spec = kind.again(first)
    return replace(spec, limits=_deeper(first, spec.limits, depth)).text


def _of_recorded(depth: Depth) -> str | None:
    if depth.times is not None:
        raise UsageError("--times: recorded evaluations have no nodes to multiply; give --nodes N or --deep SPEC")
    if depth.nodes is None:
        return None
    return EngineSpec(default_kind(), {"nodes": depth.nodes}).text


def _deeper(first: StoredOracle, limits: Mapping[str, int], depth: Depth) -> dict[str, int]:
    """The limits of the second look at what `first` looked at with `limits`."""
    if depth.nodes is not None:
        before = limits.get("nodes")
        if before is not None and depth.nodes <= before:
            raise UsageError(f"--nodes {depth.nodes}: the first look had {before:,}; a second one is deeper")
        return {"nodes": depth.nodes}
    if "depth" in limits:
        raise UsageError(f"{first.label}: a depth cannot be multiplied; give --nodes N or --deep SPEC")
    times = depth.times or DEFAULT_TIMES
    return {name: max(value + 1, round(times * value)) for name, value in limits.items()}


@contextmanager
def open_second(
    store: Store,
    first: StoredOracle,
    depth: Depth,
    net: Mapping[str, Any],
    *,
    net_file: str | None = None,
    workers: int | None = None,
) -> Iterator[Oracle]:
    """Opens the oracle of the second look, and closes it.

    `net` is the mined net as in a frame's attrs and `net_file` its file where the user gave one: searches with a net
    take that one unless they name another. Without it the net is where the store knows it to lie. Raises UsageError for
    an oracle that cannot look deeper than the first, and what `oracles.open.open_oracle` raises.
    """
    spec = chosen_spec(second_spec(first, depth))
    with ExitStack() as stack:
        path, shared = None, None
        if spec.kind.takes_net and spec.weights is None:
            path = _net_path(store, first, depth, net, net_file)
        if path is not None and spec.kind.built_in:
            shared = stack.enter_context(_open_net(path, first, net))
        oracle = stack.enter_context(open_oracle(spec, net_path=path, net=shared, workers=workers))
        _check_deeper(first, oracle.identity)
        if oracle.identity.kind == first.kind and oracle.identity.engine != first.engine:
            log.info(
                f"the first look was by {first.engine}, this is {oracle.identity.engine}: they count as two engines"
            )
        yield oracle


def _check_deeper(first: StoredOracle, second: OracleIdentity) -> None:
    if second.digest == first.digest:
        raise UsageError(f"{second.label} took the first look; give more --nodes or another --deep")
    same = (second.kind, second.engine, second.sha256) == (first.kind, first.engine, first.sha256)
    before, after = first.limits.get("nodes"), second.limits.get("nodes")
    # Searches with another net, or other options, are other oracles, and may be shallower.
    if (
        same
        and before
        and after
        and after <= before
        and _plain_options(first.options) == _plain_options(second.options)
    ):
        raise UsageError(f"--deep: the first look had {before:,} nodes, this one {after:,}; a second look is deeper")


def _plain_options(options: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in options.items() if name != "Hash"}


def _net_path(
    store: Store, first: StoredOracle, depth: Depth, net: Mapping[str, Any], net_file: str | None
) -> str | None:
    """The file of the net to search with: the first look's own, or with another oracle the mined one."""
    from valuerepair.nets.registry import KNOWN_NETS, locate
    from valuerepair.nets.weights import read_net_file

    wanted = split_key(str(net["sha256"]))[0]
    kind = kind_of(first.kind)
    if depth.deep is None and kind.searches:
        wanted = kind.net_of(first) or ""
    for name in (net_file, files.net_words(store, wanted)):
        if name is not None and (name in KNOWN_NETS or os.path.isfile(name)):
            path = Path(locate(name))
            if read_net_file(path).sha256 == wanted:
                return str(path)
    if not kind.searches:
        return None
    raise UsageError(
        f"the second look searches with a net, and {files.why_not(store, wanted[:12], wanted)}; "
        "give its file by --net FILE, or as weights=FILE in --deep"
    )


def _open_net(path: str, first: StoredOracle, net: Mapping[str, Any]) -> Net:
    from valuerepair.nets.net import open_net
    from valuerepair.nets.planes import FILLS, HistoryFill

    fill: HistoryFill = next((each for each in FILLS if each == net["history_fill"]), "fen_only")
    device = device_of(str(first.options.get("precision", ""))) or "auto"
    heads = heads_of(str(first.options.get("heads", "")))
    return open_net(path, device=device, history_fill=fill, value_head=heads.value, policy_head=heads.policy)


# What the search got wrong is worth more attention than what it got right.
_RESOLVED = (verdict.NET_RIGHT, verdict.SEARCH_RIGHT)


def confirm_cases(frame: pd.DataFrame, found: pd.DataFrame, count: int) -> list[dict[str, Any]]:
    """The `count` worst candidates of each resolved verdict, by disagreement; *net right* first.

    `found` is `verdict.evidence` of `frame`. Values are Q of the candidate's mover, those after moves too, None where
    nothing is known; moves are UCI.
    """
    order = frame["disagreement"].abs().sort_values(ascending=False, kind="stable").index
    picked: list[dict[str, Any]] = []
    for each in _RESOLVED:
        worst = [row for row in order if found["verdict"][row] == each][:count]
        picked += [_case(each, frame.loc[row], found.loc[row]) for row in worst]
    return picked


_Q_OF_FRAME = ("net_q", "calibrated_q", "deep_q", "disagreement")


def _case(verdict: str, row: pd.Series[Any], found: pd.Series[Any]) -> dict[str, Any]:
    return {
        "verdict": verdict,
        **{name: _plain_cell(row[name]) for name in ("fen", *_Q_OF_FRAME) if name in row},
        **{name: _plain_cell(found[name]) for name in ("second_q", "after_net_q", "after_deep_q", "after_second_q")},
        **{name: row[name] for name in ("net_best", "deep_best")},
        "second_best": found["second_best"],
    }


def _plain_cell(cell: Any) -> Any:
    if isinstance(cell, str):
        return cell
    return None if isnan(cell) else float(cell)


def confirm_report(
    store: Store, frame: pd.DataFrame, threshold: float, summary: ConfirmSummary, second: str, count: int
) -> dict[str, Any]:
    """All there is to say after a run, JSON-able; `second` is the digest of the oracle that looked."""
    return {
        "store": store.path,
        "pair_options": store.pair_options(*store.pick(frame.attrs["net"]["sha256"], frame.attrs["oracle"]["digest"])),
        **{str(name): value for name, value in frame.attrs.items() if name in ("net", "oracle", "q_from", "expanded")},
        "calibration": frame.attrs["calibration"],
        "split": split_file(store),
        "alpha_of_first": frame.attrs["alpha"],
        "state": summary.state,
        "searches": summary.searches,
        "failed": summary.failed,
        "nodes": summary.nodes,
        "seconds": summary.seconds,
        "verdicts": verdict.figures(store, frame, threshold, second),
        "cases": confirm_cases(frame, verdict.evidence(store, frame, second), count),
    }


@dataclass(frozen=True)
class Confirmed:
    """What came of second looks: the `summary` of this run, and the `report` on all there are, JSON-able."""

    summary: ConfirmSummary
    report: dict[str, Any]

    @property
    def verdicts(self) -> dict[str, Any]:
        """How often the search is right about the candidates, as `judge.verdict.figures` counts it."""
        found: dict[str, Any] = self.report["verdicts"]
        return found

    def lines(self) -> list[str]:
        """For the user, with what to do next."""
        return confirm_lines(self.report, self.summary.workers)


def confirm_candidates(
    store: Store,
    question: Question,
    depth: Depth,
    options: ConfirmOptions,
    *,
    workers: int | None = None,
    show: int = 5,
    progress: Progress,
) -> Confirmed:
    """Looks again at the candidates of a question, in a store that is open for writing, by a deeper search.

    `question.net` may be the net's file, which a search with it then takes. `workers` searches go on at once; `show` of
    the worst cases of each verdict are in the report. Raises ValueRepairError where there is no candidate, and what
    `open_second` and `confirm` raise.
    """
    frame = store.candidates(question)
    if not len(frame):
        raise ValueRepairError(
            f"{store.path}: no candidates at {question.threshold:g} to look at; mine more, or lower --threshold"
        )
    first = second_looks.oracle_of(store.connection, frame.attrs["oracle"]["digest"])
    with open_second(store, first, depth, frame.attrs["net"], net_file=question.net, workers=workers) as second:
        summary = confirm(store, frame, second, options, progress=progress)
    report = confirm_report(store, frame, question.threshold, summary, second.identity.digest, show)
    return Confirmed(summary, report)


def confirm_lines(report: dict[str, Any], workers: int) -> list[str]:
    """A `report` as text for a terminal, with what to do next."""
    first = report["alpha_of_first"]
    source = values.Alpha(**first).source(report["q_from"]) + (", net Q calibrated" if report["calibration"] else "")
    seconds, nodes = report["seconds"], report["nodes"]
    speed = f", {format_rate(nodes / seconds)}" if nodes and seconds else ""
    shown = [
        f"{report['net']['name']} against {report['oracle']['label']}, {source}",
        f"searches: {report['searches']:,}, {workers} at once, {report['failed']:,} failed; "
        f"{format_duration(seconds)}{speed}",
        *verdict.lines(report["verdicts"]),
    ]
    for each in _RESOLVED:
        worst = [case for case in report["cases"] if case["verdict"] == each]
        if worst:
            shown += ["", f"{each}, the largest disagreements (Q of the side to move; in brackets after the move)"]
            shown += [line for case in worst for line in _case_lines(case)]
    return [*shown, "", *_next(report)]


def _case_lines(case: dict[str, Any]) -> list[str]:
    def move(name: str) -> str:
        value = case.get(f"after_{name}_q")
        return f"{case[f'{name}_best'] or '-'}" + ("" if value is None else f" ({value:+.2f})")

    values = "  ".join(f"{name} {_signed(case[f'{name}_q'])} {move(name)}" for name in ("net", "deep", "second"))
    return [f"  {case['fen']}", f"    {values}"]


def _signed(value: float | None) -> str:
    return "?" if value is None else f"{value:+.2f}"


def _next(report: dict[str, Any]) -> list[str]:
    option = "" if report["store"] == DEFAULT_PATH else f" --db {shlex.quote(report['store'])}"
    if report["state"] == "interrupted":
        return ["not done yet: give the same command again to go on where it stopped"]
    if report["state"] == "limited":
        return ["done for this --limit: give a larger one, or none, to look at the other candidates"]
    if (report["verdicts"].get("rates") or {}).get(verdict.SEARCH_RIGHT, {}).get("count"):
        alpha, calibrated = values.Alpha(**report["alpha_of_first"]), bool(report["calibration"])
        asked = (report["store"], report["pair_options"], report["verdicts"]["threshold"], alpha, report["q_from"])
        how = {"calibrated": calibrated, "expanded": report["expanded"], "split": report["split"]}
        return [f"next: {next_command('vr books', *asked, **how)} --confirmed"]
    return [f"next: vr stats{option}"]
