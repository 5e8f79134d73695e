"""The tables of docs/proof.md and docs/proof/*.md, from the CSV files there: `python -m benchmarks.proof.page`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from benchmarks.proof.amplitude import learned, numbers_of
from benchmarks.proof.analysis import PRIMARY_THRESHOLD, THRESHOLDS
from benchmarks.proof.arms import BY_RESULTS, NET, RESULTS_THRESHOLD, SECOND, SHARES
from benchmarks.proof.tables import CONTROL, ORIGINAL, SAMPLED, against, run
from valuerepair.errors import ValueRepairError
from valuerepair.files import written_whole
from valuerepair.judge.by_kind import WORDS

if TYPE_CHECKING:
    import pandas as pd

SETS = ("families", "games", "archives")


def _columns(threshold: float) -> list[tuple[str, str, str, float | None, str]]:
    """Of each arm on the held-out families: the head, the measure, its scale and threshold, and how it is said."""
    rates = [(f"at {bar:g}", "rate", "recalibrated", bar, "share") for bar in THRESHOLDS if bar >= threshold]
    return [
        (f"at {threshold:g}, raw", "rate", "raw", threshold, "share"),
        *rates,
        ("still", "still", "recalibrated", threshold, "share"),
        ("newly wrong", "newly", "recalibrated", threshold, "share"),
        ("mean abs. ΔQ", "mean_dq", "recalibrated", None, "number"),
        ("first move kept", "top_1", "policy", None, "share"),
        ("KL", "kl", "policy", None, "number"),
    ]


def _read(folder: Path, name: str) -> pd.DataFrame:
    import pandas as pd

    try:
        table: pd.DataFrame = pd.read_csv(folder / f"{name}.csv", dtype={"arm": str, "against": str})
    except FileNotFoundError:
        raise ValueRepairError(f"{folder / name}.csv: is missing; run python -m benchmarks.proof") from None
    return table


def _of(frame: pd.DataFrame, measure: str, scale: str, threshold: float | None) -> pd.DataFrame:
    at = frame["threshold"].isna() if threshold is None else frame["threshold"] == threshold
    chosen: pd.DataFrame = frame[(frame["measure"] == measure) & (frame["scale"] == scale) & at]
    return chosen


def _rows(frame: pd.DataFrame) -> list[Any]:
    return list(frame.itertuples())


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _head(cells: Sequence[str]) -> list[str]:
    return [_row(cells), "|---" * len(cells) + "|"]


def relative(value: float, low: float, high: float) -> str:
    """A change with its interval, in per cent; bold where the interval does not hold 0."""
    text = f"{100 * value:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"
    return f"**{text}**" if low > 0 or high < 0 else text


def changes(folder: Path, threshold: float) -> list[str]:
    """The rate of candidates of each arm, recalibrated: less its control's on each test set, and on the families less
    that of ordinary training; in per cent of these."""
    rows = _of(_read(folder, "differences"), "rate", "recalibrated", threshold)
    of = {
        (row.arm, row.against, row.set): relative(row.relative, row.relative_low, row.relative_high)
        for row in _rows(rows)
    }
    lines = _head(["arm", "control", *SETS, f"{SETS[0]}, less `{SAMPLED}`"])
    for arm in dict.fromkeys(rows["arm"]):
        control, sampled = against(arm)[0], next((other for other in against(arm) if other.endswith(SAMPLED)), "")
        cells = [of[arm, control, name] for name in SETS]
        lines.append(_row([f"`{arm}`", f"`{control}`", *cells, of.get((arm, sampled, SETS[0]), "")]))
    return lines


def measures(folder: Path, threshold: float) -> list[str]:
    """What each arm is on the held-out families."""
    rows, columns = _read(folder, "measures"), _columns(threshold)
    rows = rows[rows["set"] == SETS[0]]
    lines = _head(["arm", "nets", *(head for head, *_ in columns)])
    for arm, of in rows.groupby("arm", sort=False):
        cells = []
        for _, measure, scale, bar, kind in columns:
            value = float(_of(of, measure, scale, bar)["value"].iloc[0])
            cells.append(f"{100 * value:.2f} %" if kind == "share" else f"{value:.4f}")
        lines.append(_row([f"`{arm}`", str(of["seeds"].iloc[0]), *cells]))
    return lines


def visits(folder: Path) -> list[str]:
    """After how many visits the judge's move is found."""
    lines = _head(["arm", "against", "median visits", "found within 800", "sooner less later"])
    for (arm, other), of in _read(folder, "visits").fillna({"against": ""}).groupby(["arm", "against"], sort=False):
        by = {row.measure: (row.value, row.low, row.high) for row in _rows(of)}
        words = [_numbers(by["median"], ".0f"), *(_percent(by.get(name)) for name in ("found", "sooner"))]
        lines.append(_row([f"`{arm}`", f"`{other}`" if other else "", *words]))
    return lines


def noise(folder: Path) -> list[str]:
    """What a longer look at candidates says."""
    lines = _head(["", "of", "value"])
    for row in _rows(_read(folder, "noise").fillna({"against": ""})):
        value = (row.value, row.low, row.high)
        sizes = f"{row.positions} of {row.games} games"
        if row.measure == "confirmed":
            lines.append(_row(["candidates by the longer look, too", sizes, _percent(value)]))
        elif row.measure == "mean_dq":
            lines.append(_row([f"mean abs. ΔQ: `{row.arm}`, look {row.look}", sizes, _numbers(value, ".3f")]))
        elif row.against:
            words = f"`{row.arm}` against `{row.against}`, look {row.look}"
            lines.append(_row([f"still candidates: {words}", sizes, relative(*value) + " %"]))
        elif row.arm != ORIGINAL:
            lines.append(_row([f"still candidates: `{row.arm}`, look {row.look}", sizes, _percent(value)]))
    return lines


def aside(folder: Path) -> list[str]:
    """What nets are in the games, one random move aside, and in searches."""
    rows = _read(folder, "aside").fillna({"against": ""})
    of = {
        (row.place, row.scale, row.arm, row.against, row.measure): (row.value, row.low, row.high) for row in _rows(rows)
    }
    lines = _head(["arm", "", "at 0.3, raw", "slope, raw", "at 0.3", "at 0.3, less `original`", "less `control`"])
    for arm in dict.fromkeys(rows["arm"]):
        for place, words in (("game", "in the games"), ("aside", "a move aside"), ("search", "in a search")):
            raw, own = (of[place, scale, arm, "", "rate"] for scale in ("raw", "recalibrated"))
            cells = [_percent(raw), _numbers(of[place, "raw", arm, "", "slope"], ".2f"), _percent(own)]
            changes = [of.get((place, "recalibrated", arm, other, "rate")) for other in ("original", "control")]
            lines.append(
                _row([f"`{arm}`", words, *cells, *(relative(*change) if change else "" for change in changes)])
            )
    return lines


def families(folder: Path) -> list[str]:
    """The primary measure over drawn games, and over drawn families."""
    lines = _head(["arm", "control", "games drawn", "families drawn"])
    for row in _rows(_read(folder, "families")):
        drawn = ((row.low, row.high), (row.family_low, row.family_high))
        lines.append(
            _row([f"`{row.arm}`", f"`{row.against}`", *(relative(row.relative, *interval) for interval in drawn)])
        )
    return lines


def matches(folder: Path) -> list[str]:
    """The matches, from the side that is named first."""
    lines = _head(["", "against", "games", "won", "drawn", "lost", "Elo (95 %, by pairs)"])
    for row in _rows(_read(folder, "matches")):
        counts = (f"{count:,}" for count in (row.games, row.wins, row.draws, row.losses))
        sides = (name.replace(" ", ", ") for name in (row.side, row.against))
        lines.append(_row([*sides, *counts, _numbers((row.elo, row.low, row.high), "+.1f")]))
    return lines


def by_amplitude(folder: Path) -> list[str]:
    """How much a net corrects by each share of candidates, and what that does to their rate, against what it did."""
    rates = _of(_read(folder, "measures"), "rate", "recalibrated", PRIMARY_THRESHOLD)
    of = {(row.set, row.arm): float(row.value) for row in _rows(rates)}
    sets = ("games", "families")
    numbers = {name: numbers_of(of[name, ORIGINAL], of[name, SAMPLED]) for name in sets}
    lines = _head(
        ["candidates drawn", *(f"{what}, {name}" for name in sets for what in ("amplitude", "due", "measured"))]
    )
    shares: list[tuple[str, float | None]] = [(CONTROL, 0.0), (SAMPLED, None)]
    for arm, share in [*shares, *((f"{round(100 * share)}", share) for share in SHARES)]:
        cells = []
        for name in sets:
            here, none = learned(*numbers[name], share), learned(*numbers[name], 0.0)
            measured = of[name, arm] / of[name, CONTROL] - 1
            cells += [f"{here.amplitude:.2f}", f"{100 * (here.rate / none.rate - 1):+.1f}", f"{100 * measured:+.1f}"]
        lines.append(_row([f"`{arm}`", *cells]))
    return lines


def headline(folder: Path) -> list[str]:
    """Training that is ordinary, that sees no candidates, and that sees more of them, at both thresholds."""
    rows = _read(folder, "differences")
    lines = _head(["", "less", "threshold", *SETS])
    for arm, other in ((SAMPLED, ORIGINAL), (CONTROL, ORIGINAL), (SAMPLED, CONTROL), ("5", SAMPLED), ("20", SAMPLED)):
        for threshold in THRESHOLDS:
            some = _of(rows, "rate", "recalibrated", threshold)
            some = some[(some["arm"] == arm) & (some["against"] == other)]
            of = {r.set: relative(r.relative, r.relative_low, r.relative_high) for r in _rows(some)}
            lines.append(_row([f"`{arm}`", f"`{other}`", f"{threshold:g}", *(of[name] for name in SETS)]))
    return lines


def labels(folder: Path) -> list[str]:
    """What is left of the error by each way to spend a budget of the judge's nodes."""
    rows = [row for row in _rows(_read(folder, "labels").fillna({"against": ""})) if not row.against]
    lines = _head(["labels", "nets", "positions", "nodes", "squared error (95 %)"])
    for row in rows:
        spent = [f"{row.positions:,}", f"{row.nodes / 1e6:.1f} million"] if row.nodes else ["", ""]
        error = _numbers((row.value, row.low, row.high), ".4f")
        lines.append(_row([f"`{row.arm}`", str(row.seeds), *spent, error]))
    return lines


def labels_compared(folder: Path) -> list[str]:
    """Ways to spend the budget against others: shares of the largest budget, and the error less the other's."""
    rows = [row for row in _rows(_read(folder, "labels").fillna({"against": ""})) if row.against]
    lines = _head(["labels", "share of the budget", "against", "its share", "error, less the other's"])
    for row in rows:
        change = relative(row.value, row.low, row.high) + " %"
        lines.append(_row([f"`{row.arm}`", f"{row.share:g}", f"`{row.against}`", f"{row.against_share:g}", change]))
    return lines


_BY_JUDGE = {
    ("deeper", "families", 0.55): "families at 0.55, deeper judge",
    ("first", "families", 0.55): "families at 0.55",
    ("first", "families", 0.3): "families at 0.3",
    ("first", "games", 0.55): "games at 0.55",
    ("first", "games", 0.3): "games at 0.3",
}


def shares(folder: Path) -> list[str]:
    """Rates of candidates of each way to draw them, and how much of what was learned was kept."""
    rows = _read(folder, "shares").fillna({"against": ""})
    lines = _head(["drawn", "λ", *_BY_JUDGE.values()])
    for arm, some in rows[rows["against"] == ""].groupby("arm", sort=False):
        kept = some["amplitude"].iloc[0]
        cells = [f"`{arm}`", "" if isnan(kept) else f"{kept:.2f}"]
        lines.append(_row([*cells, *(_percent((r.value, r.low, r.high)) for r in _by_judge(some))]))
    return lines


def shares_compared(folder: Path) -> list[str]:
    """The rates of each way to draw candidates less those of another, in per cent of these."""
    rows = _read(folder, "shares").fillna({"against": ""})
    lines = _head(["drawn", "less", *_BY_JUDGE.values()])
    for (arm, other), some in rows[rows["against"] != ""].groupby(["arm", "against"], sort=False):
        changes = (relative(r.value, r.low, r.high) for r in _by_judge(some))
        lines.append(_row([f"`{arm}`", f"`{other}`", *changes]))
    return lines


def _by_judge(rows: pd.DataFrame) -> list[Any]:
    """In the order of `_BY_JUDGE`."""
    of = {(row.judge, row.set, row.threshold): row for row in _rows(rows)}
    return [of[at] for at in _BY_JUDGE]


def player_nets(folder: Path) -> list[str]:
    """The nets that were trained, and how much of what they learned was kept."""
    lines = _head(["net", "SHA-256", "positions", "step", "λ"])
    for row in _read(folder, "player-nets").to_dict("records"):
        cells = [f"`{row['net']}`", f"`{row['sha256'][:12]}`", f"{row['positions']:,}", f"{row['step']:,}"]
        lines.append(_row([*cells, f"{row['lambda']:.2f}"]))
    return lines


def policy_nets(folder: Path) -> list[str]:
    """The nets that differ in their policy target, on the games that training held out."""
    rows = _read(folder, "policy-nets")
    kinds = [name.removeprefix("squared_") for name in rows.columns if name.startswith("squared_")]
    head = ["net", "SHA-256", "policy target", "learning rate", "step", "λ", "first move the judge's", "KL"]
    lines = _head([*head, *(f"error {WORDS[kind]}" for kind in kinds)])
    for row in rows.to_dict("records"):
        cells = [f"`{row['net']}`", f"`{row['sha256'][:12]}`", f"`{row['policy']}`", f"{row['lr']:g}"]
        cells += [f"{row['step']:,}", f"{row['lambda']:.2f}", f"{100 * row['judge_move']:.1f} %"]
        lines.append(_row([*cells, f"{row['policy_kl']:.3f}", *(f"{row[f'squared_{kind}']:.4f}" for kind in kinds)]))
    return lines


def player_kinds(folder: Path, part: str = "player") -> list[str]:
    """A net against the old one by kind of position: squared errors, and candidates at both thresholds."""
    return _kinds(_read(folder, f"{part}-kinds"), "judge")


def starts_kinds(folder: Path) -> list[str]:
    """A net against that which learned from ordinary positions alone, on ordinary test positions and on others."""
    return _kinds(_read(folder, "starts-kinds"), "test")


def _kinds(rows: pd.DataFrame, second: str) -> list[str]:
    """Comparisons by kind of position; their second column is `second`."""
    lines = _head(["net", second, "positions", "number", "error, old and new", "change",
                   *(f"candidates at {bar:g}, points" for bar in THRESHOLDS)])  # fmt: skip
    for row in rows.to_dict("records"):
        errors = "" if isnan(row["old"]) else f"{row['old']:.4f}, {row['new']:.4f}"
        points = [_points(row, f"_{bar:g}", 100, "+.2f") for bar in THRESHOLDS]
        cells = [f"`{row['net']}`", row[second], WORDS[row["kind"]], f"{row['positions']:,}", errors]
        lines.append(_row([*cells, _points(row, "", 1, "+.4f"), *points]))
    return lines


def player_matches(folder: Path, part: str = "player") -> list[str]:
    """The matches of new nets, from their side."""
    lines = _head(["match", "games", "won", "drawn", "lost", "effective root moves", "Elo (95 %, by pairs)"])
    for row in _rows(_read(folder, f"{part}-matches")):
        counts = (f"{count:,}" for count in (row.games, row.wins, row.draws, row.losses))
        breadth = f"{row.moves:.2f}, {row.old:.2f}"
        lines.append(_row([f"`{row.match}`", *counts, breadth, _numbers((row.elo, row.low, row.high), "+.1f")]))
    return lines


def player_tries(folder: Path) -> list[str]:
    """What narrower settings are worth to each net, against itself by default settings."""
    tries = {(NET if row.side == "old" else row.net, row.setting): row for row in _rows(_read(folder, "player-tries"))}
    nets, settings = (list(dict.fromkeys(key[part] for key in tries)) for part in (0, 1))
    lines = _head(["setting", *(f"`{net}`" for net in nets)])
    for setting in settings:
        rows = (tries.get((net, setting)) for net in nets)
        cells = ("" if row is None else _numbers((row.elo, row.low, row.high), "+.0f") for row in rows)
        lines.append(_row([f"`{setting}`", *cells]))
    return lines


def first_moves(folder: Path) -> list[str]:
    """Q before a net's own first move, and how it changes by it: by the net and by the judge."""
    lines = _head(["net", "positions", "Q less the judge's", "change by the move", "by the judge", "correlation"])
    for row in _rows(_read(folder, "first-moves")):
        means = (
            _numbers((row.bias, row.bias_low, row.bias_high), "+.3f"),
            _numbers((row.change, row.change_low, row.change_high), "+.3f"),
            _numbers((row.judged, row.judged_low, row.judged_high), "+.3f"),
        )
        lines.append(_row([f"`{row.net}`", f"{row.positions:,}", *means, f"{row.correlation:.2f}"]))
    return lines


def player_breadth(folder: Path) -> list[str]:
    """How broadly both nets are searched by each of the settings, on the same positions."""
    lines = _head(["net", "settings", "positions", "effective root moves", "less the old net's by default"])
    for row in _read(folder, "player-breadth").fillna({"settings": ""}).to_dict("records"):
        settings = f"`{row['settings']}`" if row["settings"] else "default"
        cells = [row["net"], settings, f"{row['positions']:,}", f"{row['moves']:.2f}"]
        lines.append(_row([*cells, _points(row, "", 1, "+.2f") if row["change"] else ""]))
    return lines


def player_regret(folder: Path) -> list[str]:
    """The Q that both nets' moves lose where they differ."""
    lines = _head(["net", "positions", "number", "judged", "old", "new", "new less old"])
    for row in _read(folder, "player-regret").to_dict("records"):
        cells = [f"`{row['net']}`", WORDS[row["kind"]], f"{row['positions']:,}", f"{row['judged']:,}"]
        lines.append(_row([*cells, f"{row['old']:.4f}", f"{row['new']:.4f}", _points(row, "", 1, "+.4f")]))
    return lines


def _points(row: dict[Any, Any], ending: str, times: float, form: str) -> str:
    """A change with its interval; bold where that does not hold 0."""
    middle, low, high = (times * row[f"{name}{ending}"] for name in ("change", "low", "high"))
    text = _numbers((middle, low, high), form)
    return f"**{text}**" if low > 0 or high < 0 else text


def _numbers(value: tuple[float, float, float], form: str) -> str:
    middle, low, high = (format(number, form) for number in value)
    return f"{middle} ({low} to {high})"


def _percent(value: tuple[float, float, float] | None) -> str:
    return "" if value is None else _numbers((100 * value[0], 100 * value[1], 100 * value[2]), ".1f") + " %"


TABLES: dict[str, Callable[[Path], list[str]]] = {
    "changes": lambda folder: changes(folder, 0.3),
    "changes-0.55": lambda folder: changes(folder, 0.55),
    "families": families,
    "measures": lambda folder: measures(folder, 0.3),
    "changes-by-results": lambda folder: changes(folder / BY_RESULTS, RESULTS_THRESHOLD),
    "measures-by-results": lambda folder: measures(folder / BY_RESULTS, RESULTS_THRESHOLD),
    "matches": matches,
    "visits": visits,
    "noise": noise,
    "aside": aside,
    "headline": headline,
    "amplitude": by_amplitude,
    "labels": lambda folder: labels(folder / SECOND),
    "labels-compared": lambda folder: labels_compared(folder / SECOND),
    "shares": lambda folder: shares(folder / SECOND),
    "shares-compared": lambda folder: shares_compared(folder / SECOND),
    "player-nets": lambda folder: player_nets(folder / SECOND),
    "player-kinds": lambda folder: player_kinds(folder / SECOND),
    "player-matches": lambda folder: player_matches(folder / SECOND),
    "player-tries": lambda folder: player_tries(folder / SECOND),
    "first-moves": lambda folder: first_moves(folder / SECOND),
    "half-kinds": lambda folder: player_kinds(folder / SECOND, "half"),
    "whole-kinds": lambda folder: player_kinds(folder / SECOND, "whole"),
    "surprise-kinds": lambda folder: player_kinds(folder / SECOND, "surprise"),
    "player-breadth": lambda folder: player_breadth(folder / SECOND),
    "player-regret": lambda folder: player_regret(folder / SECOND),
    "policy-nets": lambda folder: policy_nets(folder / SECOND),
    "played-kinds": lambda folder: player_kinds(folder / SECOND, "played"),
    "policy-kinds": lambda folder: player_kinds(folder / SECOND, "policy"),
    "starts-kinds": lambda folder: starts_kinds(folder / SECOND),
    "another-kinds": lambda folder: player_kinds(folder / SECOND, "another"),
    "another-matches": lambda folder: player_matches(folder / SECOND, "another"),
    "again-kinds": lambda folder: player_kinds(folder / SECOND, "again"),
    "again-matches": lambda folder: player_matches(folder / SECOND, "again"),
    "policy-matches": lambda folder: player_matches(folder / SECOND, "policy"),
}


def pages(docs: Path) -> list[Path]:
    """The pages that have tables of results."""
    return [docs / "proof.md", *sorted((docs / "proof").glob("*.md"))]


def filled(text: str, folder: Path) -> str:
    """The page with its tables made anew: each stands between ``<!-- table NAME -->`` and ``<!-- end -->``."""

    def table(match: re.Match[str]) -> str:
        return "\n".join([match[1], *TABLES[match[2]](folder), "<!-- end -->"])

    return re.sub(r"(<!-- table ([\w.-]+) -->)\n.*?<!-- end -->", table, text, flags=re.DOTALL)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.argument("root", default=".", type=click.Path(exists=True, file_okay=False, path_type=Path))
def command(root: Path) -> None:
    """Make the tables of docs/proof.md and docs/proof/*.md anew, of the repository in the folder ROOT."""
    for page in pages(root / "docs"):
        made = filled(page.read_text("utf-8"), root / "docs" / "proof")
        with written_whole(page, None) as partial:
            partial.write_text(made, "utf-8")


if __name__ == "__main__":
    run(command, "page")
