"""The result of a repair: the page, and the last lines on a terminal. The claim and the controls come first."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from valuerepair.chess.progress import format_duration
from valuerepair.errors import ValueRepairError
from valuerepair.files import written_whole
from valuerepair.judge import verdict
from valuerepair.mcts.params import SearchParams
from valuerepair.pipeline.plan import CONFIRMED, CONTROL, PAGE, PARTS, REPAIRED, SPLIT, STORE
from valuerepair.pipeline.run import Repair
from valuerepair.report.static_page import document, escape

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_PLACES = {
    "games": "games that training never saw",
    "families": "opening and material families that training never saw",
}
# Of each part the pairs that are compared: the file, the comparison's number in it, and who is A and B.
_PAIRS = (
    ("-control", 0, "the control", "the repaired net"),
    ("", 1, "the old net", "the repaired net"),
    ("", 0, "the old net", "the control"),
)


@dataclass(frozen=True, slots=True)
class Judged:
    """Two nets, `first` (A) and `second` (B), on the positions of a part of the split: `found` is the comparison as
    `vr remeasure --json` has it, `rates` are both nets' shares of candidates as they are."""

    part: str
    first: str
    second: str
    rates: tuple[float, float]
    found: Mapping[str, Any]

    @property
    def finding(self) -> str:
        """Whether B has fewer candidates than A, each recalibrated; see `judge.recalibration.Recalibration`."""
        found = self.found["recalibrated"]
        return "cannot tell" if found is None else str(found["finding"])

    @property
    def raw(self) -> str:
        """The difference of the shares of candidates, as the nets are."""
        return _points(self.found["share_by_games"])

    @property
    def recalibrated(self) -> str:
        """The same, each net recalibrated."""
        return (
            "too few positions" if self.found["recalibrated"] is None else _points(self.found["recalibrated"]["share"])
        )

    @property
    def mean(self) -> str:
        """The difference of the means of abs(net Q - deep Q), each recalibrated."""
        if self.found["recalibrated"] is None:
            return "-"
        low, middle, high = (_number(self.found["recalibrated"]["mean_abs"][k], "+.4f") for k in _INTERVAL)
        return f"{middle} ({low} to {high})"

    @property
    def sentence(self) -> str:
        """What it shows beyond scale, in words."""
        if self.found["recalibrated"] is None:
            return "too few positions for curves"
        words = {"A": self.first, "B": self.second}
        return re.sub(r"\b[AB]\b", lambda match: words[match[0]], self.found["recalibrated"]["sentence"])


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a repair: the two nets, what was `judged`, games before families, the control first of each; what
    `vr match --json` said of the repaired net's `matches`, by opponent; how many times as `steep` its Q is as the
    opponent's, by the spread on held-out games; the verdicts of `second_looks` at the worst candidates, as `vr confirm
    --json` has them; the `page` that shows it."""

    page: Path
    repaired: Path
    control: Path
    judged: Sequence[Judged]
    matches: Mapping[str, Mapping[str, Any]]
    steep: Mapping[str, float]
    second_looks: Mapping[str, Any]

    @property
    def verdict(self) -> str:
        """Whether it repaired, in one sentence: by families, each net recalibrated, against both controls."""
        control, old = (each for each in self.judged if each.part == "families" and each.second == "the repaired net")
        if control.finding == old.finding == "cannot tell":
            return "Whether it repaired cannot be told: too few games of these families were held out."
        said = f"({control.recalibrated} against the control, {old.recalibrated} against the old net)"
        where = f"on {_PLACES['families']}, each net recalibrated, the repaired net has"
        if control.finding == old.finding == "fewer":
            return f"Repaired: {where} fewer candidates than the control and than the old net {said}."
        if worse := [each.first for each in (control, old) if each.finding == "more"]:
            return f"Not repaired: {where} more candidates than {' and '.join(worse)} {said}."
        doubtful = [each.first for each in (control, old) if each.finding != "fewer"]
        return (
            f"Not shown: on {_PLACES['families']}, each net recalibrated, it cannot be said that the repaired net has "
            f"fewer candidates than {' or than '.join(doubtful)} {said}."
        )

    @property
    def breadth(self) -> str:
        """How the scales of the nets differ, which a match at the same cpuct does not allow for."""
        times = " and ".join(f"{times:.2f} times as steep as {name}'s" for name, times in self.steep.items())
        cpuct = SearchParams().cpuct / self.steep[_OPPONENTS["old"]]
        return (
            f"Q of the repaired net is {times}; at the same cpuct a steeper Q is searched more narrowly: for a "
            f"match at equal breadth give the old net cpuct={cpuct:.2f}"
        )

    def as_dict(self) -> dict[str, Any]:
        """All of it, JSON-able; `judged` with the comparisons as `vr remeasure --json` has them."""
        return {
            "verdict": self.verdict,
            "judged": [
                {"part": each.part, "first": each.first, "second": each.second, "rates": each.rates, **each.found}
                for each in self.judged
            ],
            "matches": dict(self.matches),
            "steep": dict(self.steep),
            "second_looks": dict(self.second_looks),
            "repaired": str(self.repaired),
            "control": str(self.control),
            "report": str(self.page),
        }

    def lines(self) -> list[str]:
        """The result as text for a terminal."""
        said = [self.verdict, "", f"{'candidates, B - A, 95 % by games':<46}{'as they are':<32}each recalibrated"]
        said += [
            f"{f'{each.part}: {each.second} - {each.first}':<46}{each.raw:<32}{each.recalibrated}"
            for each in self.judged
        ]
        said += ["", *(f"match against {name}: {_match(found)}" for name, found in self.matches.items())]
        said += [self.breadth, verdict.summary(self.second_looks)]
        return [*said, f"nets: {self.repaired}, {self.control}", f"report: {self.page}"]


_INTERVAL = ("low", "difference", "high")


def _number(value: float | None, form: str) -> str:
    return "?" if value is None else format(value, form)


def _points(interval: Mapping[str, float | None]) -> str:
    """A difference of shares with its interval."""
    low, middle, high = (_number(v if (v := interval[k]) is None else 100 * v, "+.2f") for k in _INTERVAL)
    return f"{middle} points ({low} to {high})"


def _match(found: Mapping[str, Any]) -> str:
    """The result of a match."""
    score, elo = found["score"], next(each for each in found["elo"] if each["level"] == 0.95)
    middle, low, high = (_number(elo[k], "+.0f") for k in ("value", "low", "high"))
    return (
        f"{found['games']:,} games, +{score['wins']} ={score['draws']} -{score['losses']}; "
        f"Elo {middle} (95 %: {low} to {high}), {elo['verdict']}"
    )


# -- the page ---------------------------------------------------------------------------------------------------------


def finish(repair: Repair) -> Outcome:
    """Reads the results of the stages, writes the page and returns the outcome.

    Raises ValueRepairError where a stage's file is not what it should be.
    """
    folder = repair.folder
    try:
        judged = list(_judged(folder))
        matches = {words: _read(folder / f"match-{name}.json") for name, words in _OPPONENTS.items()}
        old, control, repaired = (net["spread"] for net in _read(folder / f"{PARTS[0]}.json")["nets"])
        if not old * control * repaired:
            raise ValueError("one of the nets says the same of every position")
        steep = {_OPPONENTS["old"]: repaired / old, _OPPONENTS["control"]: repaired / control}
        looks = _read(folder / CONFIRMED)["verdicts"]
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise ValueRepairError(f"{folder}: what the stages found cannot be read: {error}") from None
    outcome = Outcome(folder / PAGE, folder / REPAIRED, folder / CONTROL, judged, matches, steep, looks)
    with written_whole(outcome.page) as partial:
        partial.write_text(_document(repair, outcome), "utf-8")
    return outcome


_OPPONENTS = {"old": "the old net", "control": "the control"}


def _held_out(repair: Repair) -> Iterator[pd.DataFrame]:
    """What the store has of the old net, the control and the repaired net on all positions that were held out."""
    import numpy as np

    from valuerepair.judge.split import HELD_OUT, read_split
    from valuerepair.question import Question
    from valuerepair.store.store import Store

    folder, settings = repair.folder, repair.plan.settings
    split = read_split(folder / SPLIT)
    with Store.open(str(folder / STORE)) as store:
        for net in (settings.net, str(folder / CONTROL), str(folder / REPAIRED)):
            question = Question(net=net, alpha=settings.alpha, threshold=settings.threshold)
            frame = store.frame(question, text=False)
            yield frame[np.isin(split.parts(store, frame["position_id"].to_numpy(np.int64)), HELD_OUT)]


def _judged(folder: Path) -> Iterator[Judged]:
    for part in PARTS:
        for name, number, first, second in _PAIRS:
            found = _read(folder / f"{part}{name}.json")
            rates = [net["candidates"]["rate"] for net in found["nets"]]
            yield Judged(part, first, second, (rates[0], rates[number + 1]), found["comparisons"][number])


def _read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def _document(repair: Repair, outcome: Outcome) -> str:
    settings, looks = repair.plan.settings, "\n".join(verdict.lines(outcome.second_looks))
    sections = (
        ("Did it repair?", _claim(outcome)),
        ("Matches", _matches(outcome)),
        ("Was the judge right?", f"<pre>{escape(looks)}</pre>"),
        ("Before and after", _before_and_after(repair)),
        ("Training", _training(outcome)),
        ("Stages", _stages(repair)),
        ("Settings", f"<pre>{escape((repair.folder / 'repair.toml').read_text('utf-8'))}</pre>"),
    )
    body = "".join(f"<section><h2>{title}</h2>\n{content}\n</section>\n" for title, content in sections)
    what = f"{settings.net}, judged by {settings.deep}; candidates from {settings.threshold:g} on"
    return document(f"Repair of {settings.net}", what, body, "repair.css")


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML."""
    top = "".join(f"<th>{each}</th>" for each in heads)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>\n" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead>\n<tbody>{body}</tbody></table>"


def _claim(outcome: Outcome) -> str:
    heads = ("B against A", "candidates A", "B", "B - A", "each recalibrated", "mean |net Q - deep Q|, recalibrated",
             "newly wrong", "in words")  # fmt: skip
    tables = []
    for part in PARTS:
        rows = [
            (
                f"{each.second} against {each.first}",
                *(f"{100 * rate:.2f} %" for rate in each.rates),
                each.raw,
                each.recalibrated,
                each.mean,
                _number(each.found["newly"]["rate"] and 100 * each.found["newly"]["rate"], ".2f") + " %",
                each.sentence,
            )
            for each in outcome.judged
            if each.part == part
        ]
        tables.append(f"<h3>On {_PLACES[part]}</h3>\n{_table(heads, [[escape(c) for c in row] for row in rows])}")
    note = (
        "Below 0 is a repair; intervals are at 95 %, of resampled games. Recalibrated: each net's Q goes through a "
        "curve of its own, which other games drew, so that what is left is more than scale. The control had the same "
        "training without candidates; of each the step is taken that validation games like best. It is one training of "
        "each: another seed gives other figures."
    )
    return f'<p class="verdict">{escape(outcome.verdict)}</p>\n' + "\n".join(tables) + f'\n<p class="small">{note}</p>'


def _matches(outcome: Outcome) -> str:
    rows = [(escape(name), escape(_match(found))) for name, found in outcome.matches.items()]
    return f'{_table(("the repaired net against", "result"), rows)}<p class="small">{escape(outcome.breadth)}.</p>'


def _stages(repair: Repair) -> str:
    rows = []
    for stage in repair.plan.stages:
        noted = repair.notes.of(stage)
        took = format_duration(noted.seconds) if noted is not None else "-"
        command = f"<code>{escape(repair.command(stage))}</code>"
        rows.append((escape(stage.name), f"{escape(stage.size)}<br>{command}", format_duration(stage.seconds), took))
    return _table(("stage", "what", "expected", "took"), rows)


# -- figures ----------------------------------------------------------------------------------------------------------


def _image(figure: Figure, said: str) -> str:
    """A figure as part of the page."""
    from valuerepair.report import style

    with style.house_style():
        figure.draw_without_rendering()
        content = io.BytesIO()
        figure.savefig(content, format="svg", metadata={"Date": None})
    packed = base64.b64encode(content.getvalue()).decode()
    return f'<img alt="{escape(said)}" src="data:image/svg+xml;base64,{packed}">'


def _training(outcome: Outcome) -> str:
    from valuerepair.report import training

    drawn = [training.drawing(str(net)) for net in (outcome.repaired, outcome.control)]
    return "\n".join(_image(each.figure, each.said) for each in drawn)


def _before_and_after(repair: Repair) -> str:
    """Net Q against deep Q of each net, on all positions that were held out."""
    from valuerepair.report import scatter

    settings, images = repair.plan.settings, []
    nets = (settings.net, str(repair.folder / CONTROL), str(repair.folder / REPAIRED))
    for net, frame in zip(nets, _held_out(repair), strict=True):
        figure, counts = scatter.draw(frame, settings.threshold)
        images.append(_image(figure, f"{net}: {counts.candidates:,} candidates of {counts.positions:,} positions"))
    words = '<p class="small">All positions that were held out: the old net, the control, the repaired net.</p>'
    return f'<div class="row">{"".join(images)}</div>\n{words}\n'
