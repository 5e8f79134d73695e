"""Second looks at candidates: a deeper search of each, and of the positions after the moves of net and first look.

Raw results go into the store as they come; `valuerepair.judge.verdict` computes from them who was right. The results
are the verdicts and the worst cases of each, and the text of both.
"""

from __future__ import annotations

import logging
import shlex
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from valuerepair.chess import values
from valuerepair.chess.positions import Position
from valuerepair.errors import ValueRepairError, check_least
from valuerepair.judge import verdict
from valuerepair.judge.split import split_file
from valuerepair.oracles.oracle import DeepFailure, Oracle
from valuerepair.progress import Progress
from valuerepair.question import Question
from valuerepair.runs.loop import Look, StoredSearches, after
from valuerepair.runs.stored_oracle import open_second
from valuerepair.runs.summary import NOT_DONE, next_command
from valuerepair.store import db_option, second_looks
from valuerepair.store.rows import AFTER, SECOND, DeepResult, Run, RunRecord
from valuerepair.store.store import Store
from valuerepair.text import finite, format_duration, format_rate, formatted

if TYPE_CHECKING:
    import pandas as pd

# In the order of the text: what the search got wrong deserves more attention than what it got right.
_RESOLVED = (verdict.NET_RIGHT, verdict.SEARCH_RIGHT)
_WORST = 5  # cases of each verdict in the report
_Q_OF_FRAME = ("net_q", "deep_q", "disagreement")


@dataclass(frozen=True)
class ConfirmSummary:
    """The figures of one run of second looks.

    The run made `searches` in `seconds`, of `nodes` nodes in total, `workers` at a time; `failed` second looks have
    failed, in this run or before. `state` is ``finished``, ``interrupted`` (by a signal) or ``limited`` (by
    ``--limit``).
    """

    state: str
    searches: int
    failed: int
    nodes: int
    seconds: float
    workers: int


@dataclass(frozen=True)
class Confirmed:
    """The results of second looks: the `summary` of this run, and the `report` on those of all runs, JSON-able."""

    summary: ConfirmSummary
    report: dict[str, Any]

    @property
    def verdicts(self) -> dict[str, Any]:
        """How often the search is right about the candidates, as `judge.verdict.figures` counts it."""
        verdicts: dict[str, Any] = self.report["verdicts"]
        return verdicts

    def lines(self) -> list[str]:
        """The report as text for a terminal, with the next command."""
        report = self.report
        first = report["alpha_of_first"]
        source = values.Alpha(**first).source(report["q_from"])
        seconds, nodes = report["seconds"], report["nodes"]
        speed = f", {format_rate(nodes / seconds)}" if nodes and seconds else ""
        text_lines = [
            f"{report['net']['name']} against {report['oracle']['label']}, {source}",
            f"searches: {report['searches']:,}, {self.summary.workers} at once, {report['failed']:,} failed; "
            f"{format_duration(seconds)}{speed}",
            *verdict.lines(report["verdicts"]),
        ]
        for resolved in _RESOLVED:
            worst = [case for case in report["cases"] if case["verdict"] == resolved]
            if worst:
                text_lines += [
                    "",
                    f"{resolved}, the largest disagreements (Q of the side to move; in brackets after the move)",
                ]
                text_lines += [line for case in worst for line in _case_lines(case)]
        return [*text_lines, "", *_next(report)]


def confirm_cases(frame: pd.DataFrame, evidence: pd.DataFrame) -> list[dict[str, Any]]:
    """The `_WORST` worst candidates of each resolved verdict, by disagreement; *net right* first.

    `evidence` is `verdict.evidence` of `frame`. Values are Q of the candidate's side to move, also those after a move,
    None if unknown; moves are UCI.
    """
    order = frame["disagreement"].abs().sort_values(ascending=False, kind="stable").index
    cases: list[dict[str, Any]] = []
    for resolved in _RESOLVED:
        worst = [row for row in order if evidence["verdict"][row] == resolved][:_WORST]
        cases += [_case(resolved, frame.loc[row], evidence.loc[row]) for row in worst]
    return cases


def _case(verdict: str, row: pd.Series[Any], evidence: pd.Series[Any]) -> dict[str, Any]:
    return {
        "verdict": verdict,
        "fen": row["fen"],
        **{name: finite(row[name]) for name in _Q_OF_FRAME if name in row},
        **{name: finite(evidence[name]) for name in ("second_q", "after_net_q", "after_deep_q", "after_second_q")},
        # An inferred value has no best move.
        **{name: best if isinstance(best := row[name], str) else None for name in ("net_best", "deep_best")},
        "second_best": evidence["second_best"],
    }


def confirm_report(
    store: Store, frame: pd.DataFrame, threshold: float, summary: ConfirmSummary, second: str
) -> dict[str, Any]:
    """The report after a run, JSON-able; `second` is the digest of the oracle of the second looks."""
    return {
        "store": store.path,
        "pair_options": store.pair_options(*store.pick(frame.attrs["net"]["sha256"], frame.attrs["oracle"]["digest"])),
        **{str(name): value for name, value in frame.attrs.items() if name in ("net", "oracle", "q_from", "expanded")},
        "split": split_file(store),
        "alpha_of_first": frame.attrs["alpha"],
        **{name: figure for name, figure in asdict(summary).items() if name != "workers"},
        "verdicts": verdict.figures(store, frame, threshold, second),
        "cases": confirm_cases(frame, verdict.evidence(store, frame, second)),
    }


def _case_lines(case: dict[str, Any]) -> list[str]:
    def move(name: str) -> str:
        value = case.get(f"after_{name}_q")
        return f"{case[f'{name}_best'] or '-'}" + ("" if value is None else f" ({value:+.2f})")

    values = "  ".join(
        f"{name} {formatted(case[f'{name}_q'], '+.2f')} {move(name)}" for name in ("net", "deep", "second")
    )
    return [f"  {case['fen']}", f"    {values}"]


def _next(report: dict[str, Any]) -> list[str]:
    if report["state"] == "interrupted":
        return [NOT_DONE]
    if report["state"] == "limited":
        return ["done for this --limit: give a larger one, or none, to look at the other candidates"]
    if (report["verdicts"].get("rates") or {}).get(verdict.SEARCH_RIGHT, {}).get("count"):
        alpha = values.Alpha(**report["alpha_of_first"])
        question = (report["store"], report["pair_options"], report["verdicts"]["threshold"], alpha, report["q_from"])
        options = {"expanded": report["expanded"], "split": report["split"]}
        return [f"next: {next_command('vr books', *question, **options)} --confirmed"]
    return [f"next: {shlex.join(['vr', 'stats', *db_option(report['store'])])}"]


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ConfirmOptions:
    """`limit`: look at no more than this number of candidates, the first of the frame, however often the run is
    interrupted. `command`: the command line, which the store records. Raises UsageError for a limit below 1."""

    limit: int | None = None
    command: str = ""

    def __post_init__(self) -> None:
        check_least("--limit", self.limit)


def confirm(
    store: Store,
    frame: pd.DataFrame,
    oracle: Oracle,
    options: ConfirmOptions,
    *,
    progress: Progress | None = None,
) -> ConfirmSummary:
    """Searches each candidate of `frame` (of `Store.candidates`) with `oracle`, in order, and stores the results.

    A candidate gets a search of its position, one after the net's preferred move, and one after the move of the first
    look (or of the second look, if the first gave none). What the store has is not searched again, so the same call
    resumes a run, however it ended. Results are committed about once a second. In the main thread SIGINT and SIGTERM
    end the run cleanly, after a short wait for the searches in flight.

    Raises ValueRepairError when the oracle as a whole is broken, and the errors of oracle and store.
    """
    settings = {name: frame.attrs[name] for name in ("net", "oracle", "alpha", "q_from")}
    work = {"second look": oracle.identity.digest, **settings}
    with store.running(RunRecord.of(work, options.command, settings)) as run:
        if run.resumed and (made := second_looks.searches_made(store.connection, run.id)):
            log.info(f"resuming: {made:,} searches were made before")
        loop = _SecondLooks(store, frame, oracle, options, run, progress or Progress("confirming", quiet=True))
        with loop.taking_signals():
            state = loop.work()
            counts = loop.counts()
    store.end_run(run, "finished" if state == "finished" else "interrupted", counts)
    return loop.summary(state)


def confirm_candidates(
    store: Store,
    question: Question,
    deep: str | None,
    options: ConfirmOptions,
    *,
    progress: Progress,
) -> Confirmed:
    """Takes second looks, by a deeper search, at the candidates of a question; the store must be open for writing.

    `deep` is the search, None for the default one (`second_spec`). If `question.net` is the net's file, a search with
    that net uses this file. Raises ValueRepairError without candidates, and the errors of `open_second` and `confirm`.
    """
    frame = store.candidates(question)
    if not len(frame):
        raise ValueRepairError(
            f"{store.path}: no candidates at {question.threshold:g} to look at; mine more, or lower --threshold"
        )
    first = second_looks.oracle_of(store.connection, frame.attrs["oracle"]["digest"])
    with open_second(store, first, deep, frame.attrs["net"], question.net) as second:
        summary = confirm(store, frame, second, options, progress=progress)
    report = confirm_report(store, frame, question.threshold, summary, second.identity.digest)
    return Confirmed(summary, report)


class _SecondLooks(StoredSearches):
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
        super().__init__(store, oracle, run, progress, f"the second look ({oracle.identity.label})")
        self._frame = frame
        self._rows = {int(number): row for row, number in enumerate(frame["position_id"])}
        # A frame may have None or NaN in place of a missing move.
        columns = ("net_best", "deep_best")
        moves = ([move if isinstance(move, str) else "" for move in frame[column]] for column in columns)
        self._preferred = list(zip(*moves, strict=True))
        self._failed = 0
        work, self._limited = self._plan(options)
        self._total = sum(len(stages) for _, stages in work)
        self._looks_to_come = self._looks(work)
        self._followers: deque[tuple[Look, Position]] = deque()
        progress.set_total(self._total)

    # -- what is to be searched ---------------------------------------------------------------------------------------

    def _plan(self, options: ConfirmOptions) -> tuple[list[tuple[int, list[str]]], bool]:
        """The candidates that need searches, as pairs of row and stages; and whether the limit leaves any out."""
        ids = [int(number) for number in self._frame["position_id"].iloc[: options.limit]]
        with self._store.writing() as connection:
            second_looks.take_over(connection, self._oracle_id, ids, self._run.id)
            done = second_looks.finished(connection, self._oracle_id, ids)
            failed = second_looks.failed(connection, self._oracle_id)
        self._scored = bool(done)
        work = []
        for row, number in enumerate(ids):
            done_stages = done.get(number, {})
            stages = self._stages(row, done_stages.get(SECOND))
            self._failed += sum((number, stage) in failed for stage in stages)
            missing = [stage for stage in stages if stage not in done_stages and (number, stage) not in failed]
            if missing:
                work.append((row, missing))
        return work, len(ids) < len(self._frame)

    def _stages(self, row: int, second_best: str | None) -> list[str]:
        """All stages of a candidate; the second look's move replaces that of a first look that gave none."""
        net_best, deep_best = self._preferred[row]
        moves = dict.fromkeys(move for move in (net_best, deep_best or second_best) if move)
        return [SECOND, *(AFTER + move for move in moves)]

    def _looks(self, work: list[tuple[int, list[str]]]) -> Iterator[tuple[Look, Position]]:
        """The searches to make, generated when they are needed; where a move ends the game, its result is recorded."""
        for row, stages in work:
            position = self._position(row)
            number = int(self._frame["position_id"].iloc[row])
            for stage in stages:
                look = self._look(number, stage, position)
                if look is not None:
                    yield look

    def _position(self, row: int) -> Position:
        cells = self._frame.iloc[row]
        moves = tuple(str(cells["moves"]).split())
        ply, history_known = int(cells["ply"]), bool(cells["history_known"])
        return Position(str(cells["fen"]), str(cells["start_fen"]), moves, ply, history_known=history_known)

    def _look(self, number: int, stage: str, position: Position) -> tuple[Look, Position] | None:
        """The search of a stage; None if there is nothing to search, because the move ends the game."""
        if stage == SECOND:
            return Look(number, stage), position
        reached = after(position, stage.removeprefix(AFTER))
        if isinstance(reached, Position):
            return Look(number, stage), reached
        if reached is not None:
            self._store.add_deep(number, self._oracle_id, reached, self._run, stage)
        self._add_to_total(-1)
        return None

    # -- the loop -----------------------------------------------------------------------------------------------------

    def _next(self) -> tuple[Look, Position] | None:
        return self._followers.popleft() if self._followers else super()._next()

    def _take(self, key: Look, outcome: DeepResult) -> None:
        super()._take(key, outcome)
        if key.stage == SECOND:
            self._follow(key.position_id, outcome.best_move)

    def _take_failure(self, key: Look, failure: DeepFailure) -> None:
        self._failed += 1
        super()._take_failure(key, failure)

    def _end(self) -> str:
        finished = super()._end()
        return "limited" if self._limited else finished

    def _follow(self, number: int, best: str | None) -> None:
        """Adds the search after the second look's own move, if the first look gave none."""
        row = self._rows[number]
        for stage in self._stages(row, best):
            if stage not in self._stages(row, None):
                self._add_to_total(1)
                follower = self._look(number, stage, self._position(row))
                if follower is not None:
                    self._followers.append(follower)
                    self._is_over = False

    def _add_to_total(self, amount: int) -> None:
        self._total += amount
        self._progress.set_total(self._total)

    # -- the end ------------------------------------------------------------------------------------------------------

    def _show(self) -> None:
        if self._nodes:
            self._progress.note(format_rate(self._nodes / (time.monotonic() - self._started)))
        super()._show()

    def counts(self) -> dict[str, Any]:
        """The counts that the store records of the run; they do not depend on how often it was interrupted."""
        done = second_looks.finished(self._store.connection, self._oracle_id, list(self._rows))
        return {"looked": sum(SECOND in stages for stages in done.values()), "failed": self._failed}

    def summary(self, state: str) -> ConfirmSummary:
        seconds = time.monotonic() - self._started
        return ConfirmSummary(state, self._done, self._failed, self._nodes, seconds, self._oracle.workers)
