"""What a match says: the line while it runs, the table at its end."""

from __future__ import annotations

import math
from collections import Counter

from valuerepair.chess.progress import format_duration
from valuerepair.play.elo import FEWEST, Score, elo_interval, moments
from valuerepair.play.elo_words import bounds_words, elo_words, few_words, los_words, value_words
from valuerepair.play.outlook import Remaining
from valuerepair.play.sprt import H0, H1, Sprt
from valuerepair.play.standing import FAULTS, Standing

_PLURAL = {"crashed": "crashes", "out of time": "losses on time", "illegal move": "illegal moves"}


def progress_note(standing: Standing, games: int, left: Remaining | None) -> str:
    """Results so far, the test, and the time left with its bounds (nine chances in ten).

    The score is that of all games, Elo with its interval at 0.95 that of whole pairs: each says of how many.
    """
    score, (counted, _, _) = standing.tally.score, moments(standing.results)
    words = [f"of {games:,}", f"{score} in {score.games:,} {'game' if score.games == 1 else 'games'}"]
    if counted >= FEWEST:
        words.append(f"Elo {elo_words(elo_interval(standing.results, 0.95))} in {counted:,} {standing.of}")
    elif counted:
        words.append(f"Elo: too few {standing.of} yet")
    if standing.sprt is not None:
        words.append(f"LLR {standing.sprt.llr(standing.tested):.2f} ({_bounds(standing.sprt)})")
    faults = sum(sum(counts.values()) for counts in standing.faults)
    if faults:
        words.append(f"{faults} faults")
    if left is not None:
        at_most = "at most " if standing.sprt is not None else ""
        low, high = format_duration(left.low), format_duration(left.high)
        words.append(f"{at_most}{format_duration(left.seconds)} left ({low} to {high})")
    return ", ".join(words)


def report_lines(standing: Standing) -> list[str]:
    """The table, from the first player's side."""
    first, second = standing.names
    tally, results = standing.tally, standing.results
    undecided = f", {tally.undecided:,} undecided" if tally.undecided else ""
    lines = [f"{first} against {second}: {standing.games:,} games{undecided}"]
    lines += [_row(what, score) for what, score in _by_colour(standing)]
    pairs = tally.pairs
    lines.append(f"{pairs.pairs:,} {'pair' if pairs.pairs == 1 else 'pairs'} with 0, 1/2, 1, 3/2, 2 points: {pairs}")
    if tally.score.games:
        elo, normalized = elo_interval(results).value, standing.normalized
        said = f"Elo {value_words(elo)}"
        if normalized is not None and not math.isnan(normalized.value):
            said += f", normalized {value_words(normalized.value)}"
        lines.append(f"{said}, LOS {los_words(results)} (of {standing.of})")
        if (remark := few_words(results)) is not None:
            lines.append(f"  {remark}")
        for level, (interval, verdict) in standing.levels.items():
            lines.append(f"  at {level:.2f}: {bounds_words(interval):>20}  {_said(first, verdict)}")
    if standing.sprt is not None:
        lines.append(_sprt_line(standing.sprt, standing))
    lines.append("endings: " + _counts(standing.endings))
    lines.append("faults: " + _faults(standing))
    return lines


def _by_colour(standing: Standing) -> list[tuple[str, Score]]:
    tally = standing.tally
    return [("all", tally.score), ("White", tally.as_white), ("Black", tally.as_black)]


def _row(what: str, score: Score) -> str:
    share = f"{100 * score.points / score.games:5.1f} %" if score.games else "    -"
    return f"  {what:<6} {score!s:<22} {share}"


def _said(first: str, verdict: str) -> str:
    return verdict if verdict == "not shown" else f"{first} is {verdict}"


def _bounds(sprt: Sprt) -> str:
    return "{:.2f} to {:.2f}".format(*sprt.bounds)


def _sprt_line(sprt: Sprt, standing: Standing) -> str:
    found = {H0: "H0 accepted: not stronger than elo0", H1: "H1 accepted: at least elo1"}.get(standing.verdict)
    test = f"SPRT elo0={sprt.elo0:g} elo1={sprt.elo1:g} {sprt.model}"
    return f"{test}: LLR {sprt.llr(standing.tested):.2f} ({_bounds(sprt)}), {found or 'not decided'}"


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.most_common()) or "none"


def _faults(standing: Standing) -> str:
    words = []
    for fault in FAULTS:
        by = [counts[fault] for counts in standing.faults]
        whose = [f"{name} {count:,}" for name, count in zip(standing.names, by, strict=True) if count]
        words.append(f"{_PLURAL[fault]} {sum(by):,}" + (f" ({', '.join(whose)})" if whose else ""))
    return ", ".join(words)
