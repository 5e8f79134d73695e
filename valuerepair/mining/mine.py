"""Mining: samples positions, has the net and the judge evaluate them, and stores the results."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field, replace
from queue import SimpleQueue
from typing import Any

from valuerepair import stop
from valuerepair.archives.open import find_sources
from valuerepair.archives.options import SampleOptions
from valuerepair.chess import values
from valuerepair.chess.positions import Position
from valuerepair.errors import UsageError, ValueRepairError, check_least
from valuerepair.mining.feed import Feed, Reader
from valuerepair.mining.off_game import lines_of
from valuerepair.mining.screening import MARGIN, Screening, audits_to_come, short_nodes
from valuerepair.mining.search import SearchCounts, Task, search
from valuerepair.mining.summary import MineSummary, nothing_sampled, summary
from valuerepair.nets.net import Evaluator, NetFacts
from valuerepair.oracles.oracle import DeepOutcome, Judge
from valuerepair.oracles.recorded import RecordedSource
from valuerepair.progress import Progress
from valuerepair.question import Question
from valuerepair.store.alpha import chosen_alpha
from valuerepair.store.rows import JudgeIdentity, Run, RunRecord
from valuerepair.store.store import Store

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MineOptions:
    """Options of one run of mining.

    `sample`: which positions are drawn. `question`: how candidates are counted, and what screening looks for (its net
    and judge do not count: those that are open do). `screen`: the margin of screening, in thresholds; None: every
    position is searched in full. `limit`: the most positions to search in this run. `command`: the command line, which
    the store records.

    Raises UsageError for invalid values.
    """

    sample: SampleOptions = field(default_factory=SampleOptions)
    question: Question = field(default_factory=Question)
    limit: int | None = None
    screen: float | None = MARGIN
    command: str = ""

    def __post_init__(self) -> None:
        check_least("limit", self.limit)
        if self.screen is not None and not 0 < self.screen < 1:
            raise UsageError(f"--screen {self.screen:g}: a margin lies between 0 and 1; or off")


class _Nothing(Judge):
    """Stands for the judge of recorded evaluations, which searches nothing."""

    workers = 1

    def __init__(self, identity: JudgeIdentity) -> None:
        self.identity = identity

    def submit(self, position: Position, nodes: int | None = None) -> Future[DeepOutcome]:
        raise AssertionError("recorded evaluations are not searched")

    def close(self, *, cancel: bool = False) -> None:
        pass


def mine(
    paths: Sequence[str],
    options: MineOptions,
    store: Store,
    net: Evaluator | None,
    judge: Judge | RecordedSource,
    *,
    progress: Progress | None = None,
) -> MineSummary:
    """Samples `paths`, scores every sampled position by `net` and `judge`, and stores all results in `store`.

    With a `RecordedSource` the evaluations recorded with the positions are the judge's: nothing is searched or
    screened, and `options.limit` is the number of evaluations to take. Training chunks have the values of their own
    net: the source names it, and `net` is None.

    What the store has is not evaluated again, so the same call resumes a run, however it ended; a different call adds
    to the store. Results are committed about once a second: whatever happens, at most the searches in flight and the
    results of the last second are lost. In the main thread SIGINT and SIGTERM end the run; the summary's state says so.

    Raises ValueRepairError when no position could be sampled, when the judge or the net as a whole is broken, and the
    errors of reading, store and judge; what was scored before is stored.
    """
    recorded = judge if isinstance(judge, RecordedSource) else None
    if isinstance(judge, RecordedSource):
        options = replace(options, sample=replace(options.sample, recorded=judge.wanted), screen=None)
        judge = _Nothing(judge.identity)
    facts: NetFacts | None = recorded.net if net is None and recorded is not None else net
    assert facts is not None
    sampling, started = sampling_options(options.sample), time.monotonic()
    lines = None if net is None else lines_of(net, options.sample)
    pair = store.add_net(facts.identity), store.add_judge(judge.identity)
    screening = _screening(store, pair, judge, options)
    # A run that goes on screens as it began, whatever alpha is in use now.
    settings = sampling | ({"alpha": screening.alpha} if screening is not None else {})
    record = RunRecord.of(
        mining_work(paths, sampling, facts, judge.identity), options.command, settings, facts.provider
    )
    events, bar = SimpleQueue[Any](), progress or Progress("mining", quiet=True)
    uncut = net is None and options.limit is None  # without a net, batches need not be small
    with (
        stop.flag(),
        Reader(paths, options.sample, events, uncut=uncut, lines=lines) as reader,
        store.running(record) as run,
    ):
        store.use(net=facts.identity.key, judge=judge.identity.digest)
        store.commit()
        if run.resumed:
            log.info("resuming: what the store has is not evaluated again")
        if screening is not None:
            screening = replace(screening, alpha=run.options.get("alpha", screening.alpha))
        with Feed(
            reader, store, run, net, *pair, events, bar, screening=screening, recorded=recorded, limit=options.limit
        ) as feed:
            done = search(store, run, judge, pair[1], feed, bar, screening=screening, events=events)
            if screening is not None and not (done.stopped or feed.limited):
                audit(store, run, judge, pair[1], screening, done, bar)
            if recorded is not None and feed.without_evaluation and not feed.imported and not feed.earlier:
                raise ValueRepairError(f"{', '.join(paths[:3])}: none of the positions has a recorded evaluation")
            result = summary(
                store, pair, options.question, reader, feed, done, time.monotonic() - started, judge, facts
            )
            run.state = "finished" if result.state == "finished" else "interrupted"
            run.counts |= result.counts()
    if not feed.sampled and result.state == "finished":
        raise ValueRepairError(nothing_sampled(paths, reader.report))
    return result


def _screening(store: Store, pair: tuple[int, int], judge: Judge, options: MineOptions) -> Screening | None:
    """The screening of a run; None if everything is searched in full."""
    nodes = short_nodes(judge.identity)
    if options.screen is None or nodes is None:
        if options.screen not in (None, MARGIN):
            log.info(f"--screen {options.screen:g}: not for this judge; every position is searched in full")
        return None
    short = judge.shorter(nodes)
    short_id = store.add_judge(short.identity)
    store.add_judge(judge.identity, short_id)
    question = options.question
    used = chosen_alpha(store, pair, question.alpha)
    alpha = values.DEFAULT_ALPHA if used is None else used.value
    return Screening(short, short_id, question.threshold, alpha, question.q_from, options.screen)


def audit(
    store: Store, run: Run, judge: Judge, judge_id: int, screening: Screening, done: SearchCounts, progress: Progress
) -> None:
    """Searches the audits that are missing, and has audits stand for all that was left out; adds to what was `done`."""
    missing = [*audits_to_come(store, judge_id, screening.judge_id)]
    positions = store.positions(missing)
    if progress.total is not None:
        progress.set_total(progress.total + len(missing))
    # Any weight above 1 marks an audit until all are weighed.
    tasks = (Task(number, positions[i], weight=2.0) for i, number in enumerate(missing))
    audits = search(store, run, judge, judge_id, tasks, progress)
    store.weigh_audits(judge_id, screening.judge_id)
    store.commit()
    done.searched += audits.searched
    done.failed += audits.failed
    done.nodes += audits.nodes
    done.stopped = audits.stopped


def sampling_options(sample: SampleOptions) -> dict[str, Any]:
    """The sampling options that decide which positions are drawn, JSON-able; those at their defaults are left out."""
    defaults = asdict(SampleOptions())
    options = {name: value for name, value in asdict(sample).items() if value != defaults[name] and name != "threads"}
    if sample.off_game is not None:
        options["off_game"] = sample.shares_beside
    return options


def mining_work(
    paths: Sequence[str], options: Mapping[str, Any], net: NetFacts, judge: JudgeIdentity
) -> dict[str, Any]:
    """Everything that decides what a run samples and scores; two runs with the same result are the same work.

    Archives are identified by absolute path and size: a grown archive is new work, a moved store is not.
    """
    archives = [
        [os.path.abspath(source.path), os.path.getsize(source.path) if os.path.isfile(source.path) else -1]
        for source in find_sources(paths)
    ]
    return {"archives": archives, "options": dict(options), "net": net.identity.key, "judge": judge.digest}
