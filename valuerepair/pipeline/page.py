"""The result of a repair as a page and as text for a terminal, with its claims first."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from valuerepair.chess.origins import GAME
from valuerepair.errors import ValueRepairError, one_line
from valuerepair.files import read_json, written_whole
from valuerepair.measure.compare import WORDS
from valuerepair.pipeline.run import Repair
from valuerepair.pipeline.stages import CONTROL, PAGE, PARTS, REJUDGED, REPAIRED, STORE
from valuerepair.play.elo import MatchScore
from valuerepair.question import DEFAULT_THRESHOLD
from valuerepair.rates import Interval
from valuerepair.report.static_page import document, escape
from valuerepair.text import format_duration, formatted, table_lines

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_PLACES = {
    "games": "held-out games",
    "families": "opening and material families that training never saw",
}
OLD, CONTROLLING, NEW = "the old net", "the control", "the repaired net"
# The pairs of nets that are compared on each part: the file's ending, the number of the comparison in it, A and B.
_PAIRS = (("", 0, OLD, NEW),)
_PAIRS_CONTROL = (*_PAIRS, ("-control", 0, CONTROLLING, NEW), ("", 1, OLD, CONTROLLING))
_OPPONENTS = {"old": OLD, "control": CONTROLLING}


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim about the repaired net: its `name`, whether it is `shown`, and the figures that decide it (`why`)."""

    name: str
    shown: bool
    why: str

    @property
    def line(self) -> str:
        """The claim, the answer and the figures."""
        return f"{self.name}: {'shown' if self.shown else 'not shown'}; {self.why}"


@dataclass(frozen=True, slots=True)
class NetComparison:
    """Two nets, `first` (A) and `second` (B), on the positions of a part of the split; `figures` is the comparison as
    `vr compare --json` prints it."""

    part: str
    first: str
    second: str
    figures: Mapping[str, Any]

    @property
    def rows(self) -> Sequence[Mapping[str, Any]]:
        """A row for each origin of positions; see `measure.compare.OriginRow`."""
        rows: Sequence[Mapping[str, Any]] = self.figures["by_origin"]
        return rows

    @property
    def candidates(self) -> Mapping[str, Any]:
        """The candidates among positions of games at the default threshold; see `measure.compare.CandidatesAt`."""
        of_games = next(row for row in self.rows if row["origin"] == GAME)
        at: Mapping[str, Any] = next(each for each in of_games["candidates"] if each["threshold"] == DEFAULT_THRESHOLD)
        return at


@dataclass(frozen=True, slots=True)
class RepairOutcome:
    """The result of a repair.

    `repaired` and `control` are the nets' files (None without a control), `judged` their comparisons, on games first,
    then on families, `rejudged` the figures of a deeper judge (None without one), `matches` the repaired net's matches
    by opponent as `vr match --json` prints them, `took` the seconds, `page` the HTML page of all this.
    """

    page: Path
    repaired: Path
    control: Path | None
    judged: Sequence[NetComparison]
    rejudged: Mapping[str, Any] | None
    matches: Mapping[str, Mapping[str, Any]]
    took: float

    @property
    def better_judge(self) -> Claim:
        """Whether the repaired net's values are nearer to the judge's than the old net's, for each kind of held-out
        position, and the deeper judge shows no kind to be worse."""
        pairs = [pair for pair in self.judged if (pair.first, pair.second) == (OLD, NEW)]
        doubts = [
            f"on {_PLACES[pair.part]}, {_named(doubtful)}"
            for pair in pairs
            if (doubtful := [row for row in pair.rows if not Interval.of_figures(row["change"]).high < 0])
        ]
        if worse := [row for row in self._by_deeper_judge if Interval.of_figures(row["change"]).low > 0]:
            doubts.append(f"by the deeper judge, {_named(worse)}")
        if any({row["origin"] for row in pair.rows} == {GAME} for pair in pairs):
            doubts.append("beside the games, where a search looks most, no position was judged")
        if doubts:
            return Claim("better judge", False, f"the squared error is not clearly smaller: {'; '.join(doubts)}")
        parts = " and on ".join(_PLACES[pair.part] for pair in pairs)
        return Claim("better judge", True, f"the squared error is smaller for each kind of position, on {parts}")

    @property
    def _by_deeper_judge(self) -> Sequence[Mapping[str, Any]]:
        """The deeper judge's rows, by origin of positions; empty without such a judge."""
        pairs: Sequence[Mapping[str, Any]] = [] if self.rejudged is None else self.rejudged["comparisons"]
        return [row for pair in pairs for row in pair["by_origin"]]

    @property
    def better_player(self) -> Claim:
        """Whether the repaired net beats the old one, with both searched about as broadly."""
        match = self.matches[OLD]
        elo = _elo(match)
        # q_scale makes both nets' Q equally steep in the positions of the quick match, but maybe not in this match's.
        breadth = "not quite at equal breadth" if match.get("advised") else "at equal breadth"
        return Claim("better player", elo["low"] is not None and elo["low"] > 0, f"{breadth} {_match(match)}")

    @property
    def owed_to_candidates(self) -> Claim | None:
        """Whether the gain comes from the candidates: the repaired net against the control, on families of positions.

        None without a control.
        """
        pair = next((j for j in self.judged if (j.part, j.first, j.second) == ("families", CONTROLLING, NEW)), None)
        if pair is None:
            return None
        change = Interval.of_figures(pair.candidates["change"])
        why = f"on {_PLACES['families']}, candidates {change.points} against the control"
        return Claim("owed to the candidates", change.high < 0, why)

    @property
    def claims(self) -> list[Claim]:
        """All claims, the most important first."""
        claims = [self.better_judge, self.better_player, self.owed_to_candidates]
        return [claim for claim in claims if claim is not None]

    def lines(self) -> list[str]:
        """The result as text for a terminal."""
        text = [claim.line for claim in self.claims]
        for pair in self.judged:
            text += ["", *_origin_lines(_title(pair), pair.rows)]
        if self.rejudged is not None:
            text += ["", *_origin_lines(_rejudged_title(self.rejudged), self._by_deeper_judge)]
        text += ["", *(f"match against {name}: {_match(match)}" for name, match in self.matches.items())]
        nets = [str(net) for net in (self.repaired, self.control) if net is not None]
        text.append(f"time: {format_duration(self.took)}")
        return [*text, f"nets: {', '.join(nets)}" if len(nets) > 1 else f"net: {nets[0]}", f"report: {self.page}"]


def _named(rows: Sequence[Mapping[str, Any]]) -> str:
    """Kinds of positions, each with the difference of its squared errors."""
    *others, last = (f"{WORDS[row['origin']]} ({Interval.of_figures(row['change']).for_brackets})" for row in rows)
    return f"{', '.join(others)} and {last}" if others else last


def _elo(match: Mapping[str, Any]) -> Mapping[str, Any]:
    interval: Mapping[str, Any] = next(interval for interval in match["elo"] if interval["level"] == 0.95)
    return interval


def _match(match: Mapping[str, Any]) -> str:
    """The result of a match, in words."""
    score, elo = match["score"], _elo(match)
    middle, low, high = (formatted(elo[k], "+.0f") for k in ("value", "low", "high"))
    return (
        f"Elo {middle} (95 %: {low} to {high}), {match['games']:,} games, "
        f"{MatchScore(score['wins'], score['draws'], score['losses'])}; {_breadth(match)}"
    )


def _breadth(match: Mapping[str, Any]) -> str:
    """How broadly both sides of a match searched."""
    first, second = (formatted(moves, ".2f") for moves in match["effective_root_moves"])
    text = f"effective root moves {first}, the opponent's {second}"
    if advised := match.get("advised"):
        text += f"; its searches suggest q_scale={advised['q_scale']:g} for {advised['player']}"
    return text


def _cells(row: Mapping[str, Any]) -> list[str]:
    """The cells of a kind of position: name, number, squared errors, change in candidates at each threshold."""
    return [
        WORDS[row["origin"]],
        f"{row['positions']:,}",
        *(formatted(error, ".4f") for error in row["squared_error"]),
        Interval.of_figures(row["change"]).for_brackets,
        *(Interval.of_figures(rate["change"]).points for rate in row["candidates"]),
    ]


def _heads(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    rates = [f"candidates at {rate['threshold']:g}, B - A" for rate in rows[0]["candidates"]] if rows else []
    return ["positions", "number", "error A", "error B", "error, B - A", *rates]


def _origin_lines(title: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The rows by origin of two nets, as a table for a terminal."""
    yield f"{title} (squared errors; B - A below 0 is better; 95 % by games)"
    columns = " | ".join(f"{head}:<" for head in _heads(rows))
    yield from table_lines(columns, (_cells(row) for row in rows))


def _title(pair: NetComparison) -> str:
    return f"A = {pair.first}, B = {pair.second}, on {_PLACES[pair.part]}"


def _rejudged_title(rejudged: Mapping[str, Any]) -> str:
    return f"A = {OLD}, B = {NEW}, by a deeper judge, {rejudged['judge']}"


# -- the page ---------------------------------------------------------------------------------------------------------


def finish(repair: Repair) -> RepairOutcome:
    """Reads the results of the stages, writes the page and returns the outcome.

    Raises ValueRepairError if the file of a stage cannot be read or has other contents.
    """
    folder, settings = repair.folder, repair.settings
    try:
        judged = [
            NetComparison(part, first, second, _read(folder / f"{part}{name}.json")["comparisons"][number])
            for part in PARTS
            for name, number, first, second in (_PAIRS_CONTROL if settings.control else _PAIRS)
        ]
        has_deeper_judge = any(stage.output == REJUDGED for stage in repair.stages)
        rejudged = _read(folder / REJUDGED)["deeper"] if has_deeper_judge else None
        opponents = {name: words for name, words in _OPPONENTS.items() if name == "old" or settings.control}
        matches = {words: _read(folder / f"match-{name}.json") for name, words in opponents.items()}
        outcome = RepairOutcome(
            folder / PAGE,
            folder / REPAIRED,
            folder / CONTROL if settings.control else None,
            judged,
            rejudged,
            matches,
            sum(note.seconds for note in repair.notes.stages),
        )
        html = _document(repair, outcome)
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
        raise ValueRepairError(f"{folder}: the results of the stages cannot be read: {one_line(error)}") from None
    with written_whole(outcome.page) as partial:
        partial.write_text(html, "utf-8")
    return outcome


def _read(path: Path) -> dict[str, Any]:
    return read_json(path, "the result of a stage")


def _document(repair: Repair, outcome: RepairOutcome) -> str:
    settings = repair.settings
    sections = (
        ("Is it repaired?", _claims(outcome)),
        ("By kind of position", _by_origin(outcome)),
        ("By the deeper judge", _by_deeper_judge(outcome)),
        ("Matches", _matches(outcome)),
        ("Before and after", _before_and_after(repair)),
        ("Training", _training(outcome)),
        ("Stages", _stages(repair, outcome)),
        ("Settings", f"<pre>{escape((repair.folder / 'repair.toml').read_text('utf-8'))}</pre>"),
    )
    body = "".join(f"<section><h2>{title}</h2>\n{content}\n</section>\n" for title, content in sections)
    summary = f"{settings.net}, judged by {settings.deep}; candidates from {settings.threshold:g} on"
    return document(f"Repair of {settings.net}", summary, body, "repair.css")


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """An HTML table; heads and cells are HTML, too."""
    top = "".join(f"<th>{head}</th>" for head in heads)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>\n" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead>\n<tbody>{body}</tbody></table>"


def _claims(outcome: RepairOutcome) -> str:
    note = (
        "A better judge has a smaller squared error for each kind of position, in games and beside them, with the "
        "whole interval below 0; a better player wins with the whole interval above 0. It is one training: another "
        "seed gives other figures."
    )
    claims = "\n".join(f'<p class="verdict">{escape(claim.line)}</p>' for claim in outcome.claims)
    return f'{claims}\n<p class="small">{note}</p>'


def _by_origin(outcome: RepairOutcome) -> str:
    tables = [f"<h3>{escape(_title(pair))}</h3>\n{_table_by_origin(pair.rows)}" for pair in outcome.judged]
    note = (
        "Squared error: the mean square of net Q &minus; deep Q, each net's Q times the number that fits it "
        "best, so that a mere change of scale does not count. Candidates: positions where net Q, without that "
        "number, is off by the threshold or more. Differences below 0 are better; intervals are at 95 %, by games."
    )
    return "\n".join(tables) + f'\n<p class="small">{note}</p>'


def _table_by_origin(rows: Sequence[Mapping[str, Any]]) -> str:
    cells = ([escape(cell) for cell in _cells(row)] for row in rows)
    return _table(_heads(rows), cells)


def _by_deeper_judge(outcome: RepairOutcome) -> str:
    """The figures of the judge that never judged a training position."""
    if (rejudged := outcome.rejudged) is None:
        return "<p>No deeper judge was used: <code>test_deep</code> is empty, or <code>rejudge</code> is 0.</p>"
    note = "The deeper judge searched a random sample of the held-out positions. No net was trained on its values."
    table = _table_by_origin(rejudged["comparisons"][0]["by_origin"])
    title = f"<h3>{escape(_rejudged_title(rejudged))}</h3>"
    return f'{title}\n{table}\n<p class="small">{note}</p>'


def _matches(outcome: RepairOutcome) -> str:
    rows = [(escape(name), escape(_match(match))) for name, match in outcome.matches.items()]
    note = (
        "The steeper Q is multiplied by a number that spreads it as widely as the other net's in a quick match of "
        "both; otherwise its search would be narrower."
    )
    return f'{_table(("the repaired net against", "result"), rows)}<p class="small">{note}</p>'


def _stages(repair: Repair, outcome: RepairOutcome) -> str:
    rows = []
    for stage in repair.stages:
        note = repair.notes.of(stage)
        took = format_duration(note.seconds) if note is not None else "-"
        command = f"<code>{escape(repair.command(stage))}</code>"
        rows.append((escape(stage.name), f"{escape(stage.size)}<br>{command}", took))
    rows.append(("all", "", format_duration(outcome.took)))
    return _table(("stage", "what", "took"), rows)


# -- figures ----------------------------------------------------------------------------------------------------------


def _image(figure: Figure, description: str) -> str:
    """A figure as an image within the page."""
    from valuerepair.report import style

    packed = base64.b64encode(style.content_of(figure, "svg")).decode()
    return f'<img alt="{escape(description)}" src="data:image/svg+xml;base64,{packed}">'


def _training(outcome: RepairOutcome) -> str:
    """The curve of each training, and the share of its change that was written (its amplitude)."""
    from valuerepair.report import plots
    from valuerepair.training.train import read_curve

    parts = []
    for net in (outcome.repaired, outcome.control):
        if net is None:
            continue
        drawn, about = plots.training(str(net)), read_curve(str(net)).about
        parts.append(_image(drawn.figure, drawn.description))
        if (amplitude := about.get("amplitude")) is not None:
            parts.append(f'<p class="small">Amplitude: {amplitude["lambda"]:.2f} of the change was written.</p>')
    return "\n".join(parts)


def _held_out(repair: Repair) -> Iterator[tuple[str, pd.DataFrame]]:
    """Each net's name, and its frame of the store for the held-out positions of games."""
    from valuerepair.question import Question
    from valuerepair.store import view
    from valuerepair.store.parts import HELD_OUT
    from valuerepair.store.store import Store

    folder, settings = repair.folder, repair.settings
    nets = [settings.net, str(folder / REPAIRED), *([str(folder / CONTROL)] if settings.control else [])]
    with Store.open(str(folder / STORE)) as store:
        for net in nets:
            frame = view.frame(store, Question(net=net, alpha=settings.alpha, threshold=settings.threshold), text=False)
            yield net, frame[frame["part"].isin(HELD_OUT)]


def _before_and_after(repair: Repair) -> str:
    """Net Q against deep Q of each net, on the positions of held-out games."""
    from valuerepair.report import plots

    settings, images, names = repair.settings, [], []
    for net, frame in _held_out(repair):
        figure = plots.scatter_of(frame, settings.threshold)
        images.append(_image(figure, f"{net}: {figure.description}"))
        names.append(net)
    words = f'<p class="small">All positions of games that were held out: {escape(", ".join(names))}.</p>'
    return f'<div class="row">{"".join(images)}</div>\n{words}\n'
