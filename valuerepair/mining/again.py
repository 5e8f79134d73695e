"""Second looks: a deeper judge searches candidates again (`vr confirm`), and tells who was right, net or search.

Its values go into the store as any judge's; verdicts are computed from them when they are asked for (docs/methods.md,
"Second looks"). The deeper judge of a comparison searches its sample here, too.
"""

from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valuerepair import stop
from valuerepair.arrays import Floats, Ids
from valuerepair.chess import values
from valuerepair.engines.kinds import kind_of
from valuerepair.errors import ValueRepairError, check_least
from valuerepair.mining.judges import is_same_search, open_deeper
from valuerepair.mining.search import SearchCounts, Task, search
from valuerepair.mining.summary import NOT_DONE, next_command
from valuerepair.oracles.oracle import Judge
from valuerepair.progress import Progress
from valuerepair.question import QFrom, Question, check_threshold, is_candidate
from valuerepair.rates import Rate, rate_lines, weighted
from valuerepair.store import db_option, view
from valuerepair.store.pairs import fitting_judges, judge_of, judges, pick
from valuerepair.store.rows import RunRecord, StoredJudge
from valuerepair.store.store import Store
from valuerepair.text import formatted, quantity

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)

SEARCH_RIGHT, NET_RIGHT, UNCLEAR = VERDICTS = ("search right", "net right", "unclear")
_AT_ONCE = 256  # positions that are read from the store together
_WORST = 5  # candidates about which the net was right that are printed


def decide(net_q: Floats, deep_q: Floats, second_q: Floats) -> NDArray[np.int8]:
    """[n] 1 for *search right*, -1 for *net right*, 0 for *unclear*: all Q of the side to move, NaN if unknown.

    A second look decides for the value in whose third it lies of the way from net Q to deep Q, or beyond it.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        way = (second_q - net_q) / (deep_q - net_q)
    # A rounding error must not exclude a look exactly at the border.
    decided = np.where(way >= 2 / 3 - 1e-12, 1, np.where(way <= 1 / 3 + 1e-12, -1, 0))
    return np.where(net_q == deep_q, 0, decided).astype(np.int8)


def search_again(
    store: Store,
    first: StoredJudge,
    judge: Judge,
    ids: Ids,
    progress: Progress,
    command: str = "",
    *,
    is_second_look: bool = True,
) -> SearchCounts:
    """Has a judge search the positions `ids` [n], in this order, that it has no value of, after `first` did.

    The store remembers whose second look it is, unless it `is_second_look` of nobody, but of a comparison. The same
    call resumes, however it ended; a failure is tried again. Raises ValueRepairError if the judge is broken.
    """
    number = store.add_judge(judge.identity)
    missing = ids[store.without_value(number, ids)]
    if len(missing) < len(ids):
        log.info(f"{len(ids) - len(missing):,} of {len(ids):,} positions were searched before")
    progress.set_total(len(missing))

    def tasks() -> Iterator[Task]:
        for begin in range(0, len(missing), _AT_ONCE):
            block = missing[begin : begin + _AT_ONCE]
            yield from (Task(i, position) for i, position in zip(block.tolist(), store.positions(block), strict=True))

    looks = {"first" if is_second_look else "compared": first.digest, "second": judge.identity.digest}
    with stop.flag(), store.running(RunRecord.of({"again": looks}, command, looks)) as run:
        done = search(store, run, judge, number, tasks(), progress)
        run.counts["searched"] = run.counts.get("searched", 0) + done.searched
        run.state = "interrupted" if done.stopped else "finished"
    return done


# -- what second looks say --------------------------------------------------------------------------------------------


def evidence(store: Store, frame: pd.DataFrame, second: str | None = None) -> pd.DataFrame:
    """The verdicts and their evidence, one row for each row of a frame (`store.view.frame`), with its index.

    The looks are those of the judge that `second` names, by default of the one that looked at most rows; of several the
    newest. `second_q` is Q of the side to move by the frame's alpha and ``q_from``, NaN if unknown; `second_best` a UCI
    move, `second_nodes` the nodes of the look, `looked` whether there was one; `verdict` is one of `VERDICTS`, None
    without a look. attrs:
    ``second`` {label, digest} and its ``alpha`` {value, origin}, None without any look. Raises ValueRepairError for a
    judge that is not in the store.
    """
    import pandas as pd

    first = judge_of(store, pick(store, frame.attrs["net"]["sha256"], frame.attrs["oracle"]["digest"])[1])
    ids: list[int] = frame["position_id"].tolist()
    looks = [(judge, _looks(store, judge, ids)) for judge in second_judges(store, first, second)]
    judge, of_id = max(looks, key=lambda look: (len(look[1]), look[0].id), default=(None, {}))
    judge = judge if of_id else None
    alpha, q_from = frame.attrs["alpha"]["value"], frame.attrs["q_from"]
    cells = [of_id.get(number, (None, 0, *[None] * 6)) for number in ids]
    second_q = values.deep_q(np.array([row[2:] for row in cells], np.float64).reshape(-1, 6), alpha, q_from)
    looked = np.array([number in of_id for number in ids], np.bool_)
    net_q, deep_q = (frame[name].to_numpy(np.float64) for name in ("net_q", "deep_q"))
    verdict = np.array([UNCLEAR, SEARCH_RIGHT, NET_RIGHT], object)[decide(net_q, deep_q, second_q)]
    verdict[~looked] = None
    result: pd.DataFrame = pd.DataFrame(
        {
            "second_q": second_q,
            "second_best": pd.Series([row[0] for row in cells], frame.index, object),
            "second_nodes": np.array([row[1] for row in cells], np.int64),
            "looked": looked,
            "verdict": pd.Series(verdict, frame.index, object),
        },
        frame.index,
    )
    result.attrs |= {"second": None, "alpha": None}
    if judge is not None:
        result.attrs["second"] = {"label": judge.label, "digest": judge.digest}
        result.attrs["alpha"] = asdict(alpha_beside(values.Alpha(**frame.attrs["alpha"]), judge, q_from))
    return result


_Looks = dict[int, tuple[Any, ...]]


def alpha_beside(first: values.Alpha, judge: StoredJudge, q_from: QFrom) -> values.Alpha:
    """The alpha of another judge's values beside those that were read by `first`: the same one."""
    if kind_of(judge.kind).gives_q(judge.options):
        return replace(first, origin=values.OWN_Q)
    if q_from == "wdl":
        return replace(first, origin=values.OF_WDL)
    return replace(first, origin="the default" if first.origin == values.OWN_Q else "the first judge's")


def second_judges(store: Store, first: StoredJudge, words: str | None = None) -> list[StoredJudge]:
    """The judges that looked again after `first` (`search_again`); or those that `words` fit.

    The same search with a higher limit looked again, too, unless it did for a comparison. By another kind of limit
    nobody can tell whether it is deeper.
    """
    if words is not None:
        return [judge for judge in fitting_judges(store, words) if judge.id != first.id]
    query = """
        SELECT DISTINCT json_extract(options, '$.first') IS NOT NULL, json_extract(options, '$.second') FROM runs
        WHERE ? IN (json_extract(options, '$.first'), json_extract(options, '$.compared'))
    """
    searched = {(bool(is_look), digest) for is_look, digest in store.connection.execute(query, (first.digest,))}
    return [
        judge
        for judge in judges(store)
        if (True, judge.digest) in searched
        or ((False, judge.digest) not in searched and is_same_search(first, judge) and _has_more(first, judge))
    ]


def _has_more(first: StoredJudge, judge: StoredJudge) -> bool:
    return any(judge.limits.get(name, 0) > limit for name, limit in first.limits.items())


def _looks(store: Store, judge: StoredJudge, ids: list[int]) -> _Looks:
    """Best move, nodes and scores of a judge's values of these positions, by their ids."""
    query = """
        SELECT position_id, best_move, nodes, cp, mate, w, d, l, q FROM deep_values
        WHERE judge_id = ? AND failed IS NULL AND position_id IN (SELECT value FROM json_each(?))
    """
    return {row[0]: row[1:] for row in store.connection.execute(query, (judge.id, json.dumps(ids)))}


@dataclass(frozen=True)
class Looks:
    """How often the search is right about the candidates at a threshold.

    `candidates` and `looked` count rows; `second` and `alpha` are as in `evidence`. `rates` gives for each verdict the
    share of those looked at, with its 95 % interval by games, weighted by the rows' weights.
    """

    threshold: float
    candidates: int
    looked: int
    second: Mapping[str, str] | None
    alpha: Mapping[str, Any] | None
    rates: Mapping[str, Rate]

    def lines(self) -> list[str]:
        """The figures as text for a terminal; nothing without candidates."""
        if not self.candidates:
            return []
        of_all = f"{quantity(self.candidates, 'candidate')} at {self.threshold:g}"
        if self.second is None or self.alpha is None:
            return [f"second looks: none yet at the {of_all} (vr confirm)"]
        text = [f"second looks by {self.second['label']}, {values.Alpha(**self.alpha).source()}"]
        text.append(f"{self.looked:,} of {of_all} looked at")
        if self.looked < self.candidates:
            text[-1] += ": the shares are of these, no sample of all (vr confirm looks at the worst first)"
        return text + rate_lines("verdict", self.rates.items())

    def as_json(self) -> dict[str, Any]:
        """The fields, JSON-able."""
        rates = {verdict: rate.figures("count", "total") for verdict, rate in self.rates.items()}
        return {**vars(self), "rates": rates}


def second_looks(store: Store, frame: pd.DataFrame, threshold: float, second: str | None = None) -> Looks:
    """The looks at the candidates among the rows of `frame`, by the judge that `evidence` takes."""
    check_threshold(threshold)
    rows = frame[is_candidate(frame["disagreement"], threshold)]
    judged = evidence(store, rows, second)
    looked = judged["looked"].to_numpy(np.bool_)
    words = judged["verdict"].to_numpy(object)[looked]
    weight, game = rows["weight"].to_numpy(np.float64)[looked], rows["game_id"].to_numpy(np.int64)[looked]
    return Looks(
        threshold,
        len(rows),
        int(looked.sum()),
        judged.attrs["second"],
        judged.attrs["alpha"],
        {word: weighted(words == word, weight, game) for word in VERDICTS},
    )


# -- vr confirm -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Confirmed:
    """Second looks at the candidates of a question.

    `net` and `judge` are names, `alpha` and `q_from` of the first look. `done` is what this call searched, `workers` at
    a time. `verdicts` has all looks; `cases` are the candidates with the largest disagreements about which
    the net was right: rows of the frame with those of `evidence`, most disagreeing first. `state` is ``finished``,
    ``interrupted`` (by a signal) or ``limited`` (by the limit).
    """

    state: str
    store: str
    net: str
    judge: str
    alpha: values.Alpha
    q_from: str
    done: SearchCounts
    workers: int
    verdicts: Looks
    cases: list[dict[str, Any]]

    def lines(self) -> list[str]:
        """The results for a terminal, with the next command."""
        text = [
            f"{self.net} against {self.judge}, {self.alpha.source(self.q_from)}",
            f"searched again: {self.done.line(self.workers)}",
            *self.verdicts.lines(),
        ]
        if self.cases:
            text += ["", "net right, the largest disagreements (Q of the side to move)"]
        for case in self.cases:
            looks = (
                f"{name} {formatted(case[f'{name}_q'], '+.2f')} {case[f'{name}_best'] or '-'}"
                for name in ("net", "deep", "second")
            )
            text += [f"  {case['fen']}", f"    {'  '.join(looks)}"]
        return [*text, "", self._next()]

    def _next(self) -> str:
        if self.state == "interrupted":
            return NOT_DONE
        if self.state == "limited":
            return "done for this --limit: give a larger one, or none, to look at the other candidates"
        if self.verdicts.rates[SEARCH_RIGHT].count:
            return f"next: {next_command('vr books', self.store, self.verdicts.threshold)} --confirmed"
        return f"next: {shlex.join(['vr', 'stats', *db_option(self.store)])}"


def confirm(
    store: Store,
    question: Question,
    deep: str | None = None,
    *,
    limit: int | None = None,
    command: str = "",
    progress: Progress | None = None,
) -> Confirmed:
    """Searches the candidates of a question again, deeper, the largest disagreements first; the store must be writable.

    `deep` is the search, None for the first one with ten times its limits (`mining.judges.deeper_spec`). Only the first
    `limit` candidates are looked at. If `question.net` is the net's file, a search with that net uses it. Raises
    UsageError for a limit below 1 and a search that is no deeper, ValueRepairError without candidates and for a broken
    judge.
    """
    check_least("--limit", limit)
    frame = view.candidates(store, question)
    if not len(frame):
        raise ValueRepairError(
            f"{store.path}: no candidates in games at {question.threshold:g}, and others get no second look; "
            "mine more, or lower --threshold"
        )
    net, first = frame.attrs["net"], judge_of(store, pick(store, question.net, frame.attrs["oracle"]["digest"])[1])
    ids = frame["position_id"].to_numpy()[:limit]
    with open_deeper(store, first, deep, net, question.net) as judge:
        done = search_again(store, first, judge, ids, progress or Progress("confirming", quiet=True), command)
        second, workers = judge.identity.digest, judge.workers
    looks = frame.join(evidence(store, frame, second))
    return Confirmed(
        state="interrupted" if done.stopped else "limited" if len(ids) < len(frame) else "finished",
        store=store.path,
        net=net["name"],
        judge=first.label,
        alpha=values.Alpha(**frame.attrs["alpha"]),
        q_from=question.q_from,
        done=done,
        workers=workers,
        verdicts=second_looks(store, frame, question.threshold, second),
        cases=looks[looks["verdict"] == NET_RIGHT].head(_WORST).astype(object).to_dict("records"),
    )
