"""Matches: every failure is counted and nothing hangs, each opening has both colours, resumed games are kept."""

from __future__ import annotations

import errno
import fcntl
import math
import os
import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import chess
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.match_doubles import fake_side, read_games, write_book
from tests.play_doubles import INITIAL
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.play.elo import H0, MatchScore, Sprt, elo_interval, parse_sprt
from valuerepair.play.lineup import Lineup, parse_side
from valuerepair.play.match import MatchEnd, MatchOptions, MatchPlan, play_match, play_sides
from valuerepair.play.openings import built_in_openings, check_playable, read_openings
from valuerepair.play.referee import DrawRule, Rules, parse_draw_rule
from valuerepair.play.standing import Played, Standing, level_lines, report_lines
from valuerepair.progress import Progress

FAULTS = ("crashed", "out of time", "illegal move")
# For tests of what is refused and what goes on: of their games nobody asks how they end.
SHORT = Rules(max_plies=16)


@pytest.fixture(autouse=True)
def no_process_left() -> Iterator[None]:
    yield
    assert psutil.Process().children(recursive=True) == []


def run(tmp_path: Path, plan: MatchPlan, *sides: str, jobs: int = 2) -> MatchEnd:
    parsed = [parse_side(side) for side in sides]
    with (
        Lineup(parsed, plan.nodes, jobs, plan.games) as lineup,
        Progress("match", quiet=True) as progress,
    ):
        return play_match(plan, lineup, tmp_path / "match.pgn", progress=progress)


def plan_of(tmp_path: Path, lines: int = 4, **changes: Any) -> MatchPlan:
    openings = read_openings(write_book(tmp_path / "book.pgn", lines))
    return MatchPlan(openings, 2 * lines, "book.pgn", **{"nodes": 10, **changes})


def test_every_failure_is_counted_and_the_match_goes_to_its_end(tmp_path: Path) -> None:
    """In the second opening one crashes, in the third one moves illegally, in the fourth one hangs."""
    bad = fake_side("bad", "crash-on=moves d2d4", "illegal-on=moves c2c4", "hang-on=moves g1f3", settings="timeout=3")
    end = run(tmp_path, plan_of(tmp_path), fake_side("good"), bad)
    standing = end.standing
    assert (standing.games, end.interrupted) == (8, False)
    assert standing.faults == (Counter(), Counter(dict.fromkeys(FAULTS, 2)))
    games = read_games(tmp_path / "match.pgn")
    failed = [game for game in games if game.headers["Ending"].partition(":")[0] in FAULTS]
    assert {(g.headers["White"], g.headers["Result"]) for g in failed} == {("good", "1-0"), ("bad", "0-1")}
    assert Counter(game.headers["Termination"] for game in failed) == {
        "abandoned": 2,
        "time forfeit": 2,
        "rules infraction": 2,
    }
    assert "faults: crashes 2 (bad 2), losses on time 2 (bad 2), illegal moves 2 (bad 2)" in report_lines(standing)


def test_each_opening_is_played_with_both_colours_once_and_results_are_those_of_the_boards(tmp_path: Path) -> None:
    end = run(tmp_path, plan_of(tmp_path), fake_side("one"), fake_side("two"))
    games = read_games(tmp_path / "match.pgn")
    starts = [(" ".join(m.uci() for m in list(g.mainline_moves())[:2]), g.headers["White"]) for g in games]
    book = [" ".join(move.uci() for move in game.mainline_moves()) for game in read_games(tmp_path / "book.pgn")]
    expected = {(line, white) for line in book for white in ("one", "two")}
    assert len(starts) == 8
    assert set(starts) == expected
    assert sorted(int(game.headers["Round"]) for game in games) == list(range(1, 9))
    points = Counter[str]()
    for game in games:
        outcome = game.end().board().outcome(claim_draw=True)
        assert outcome is not None
        assert outcome.result() == game.headers["Result"]
        winner = game.headers["White" if outcome.winner else "Black"] if outcome.winner is not None else "draw"
        points[winner] += 1
    assert end.standing.tally.score == MatchScore(points["one"], points["draw"], points["two"])
    share = (points["one"] + points["draw"] / 2) / 8
    elo = elo_interval(end.standing.results).value
    assert elo == pytest.approx(-400 * math.log10(1 / share - 1) if 0 < share < 1 else elo)


def test_a_match_goes_on_where_it_was_and_keeps_every_game(tmp_path: Path) -> None:
    sides = fake_side("one"), fake_side("two")
    run(tmp_path, plan_of(tmp_path, lines=1, rules=SHORT), *sides)
    path = tmp_path / "match.pgn"
    with pytest.raises(UsageError, match=r"game 1 is of another run: Book was 'book\.pgn 1 lines"):
        run(tmp_path, plan_of(tmp_path, rules=SHORT), *sides)
    path.unlink()
    first = run(tmp_path, _fewer(plan_of(tmp_path, rules=SHORT), 4), *sides)
    before = path.read_text()
    path.write_text(before + '[Event "vr match"]\n[Round "7"]\n\n1. e4 cut o')
    second = run(tmp_path, plan_of(tmp_path, rules=SHORT), *sides)
    assert (first.standing.games, second.before, second.standing.games) == (4, 4, 8)
    assert path.read_text().startswith(before)
    assert sorted(int(game.headers["Round"]) for game in read_games(path)) == list(range(1, 9))
    assert all(re.fullmatch(r"20\d\d\.\d\d\.\d\d", game.headers["Date"]) for game in read_games(path))
    again = run(tmp_path, plan_of(tmp_path, rules=SHORT), *sides)
    assert again.standing.as_json() == second.standing.as_json()


def test_another_side_is_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, lines=1, rules=SHORT)
    run(tmp_path, plan, fake_side("one"), fake_side("two"), jobs=1)
    before = (tmp_path / "match.pgn").read_text()
    with pytest.raises(UsageError, match="game 1 is of another run: side B was 'two' and now is 'three'"):
        run(tmp_path, plan, fake_side("one"), fake_side("three"), jobs=1)
    four = _fewer(plan, 4)
    run(tmp_path, four, fake_side("one"), fake_side("two"), jobs=1)
    before = (tmp_path / "match.pgn").read_text()
    with pytest.raises(ValueRepairError, match="has more than 2 games; give more --games"):
        run(tmp_path, plan, fake_side("one"), fake_side("two"), jobs=1)
    assert (tmp_path / "match.pgn").read_text() == before


def test_two_runs_do_not_write_one_file(tmp_path: Path) -> None:
    with (tmp_path / "match.pgn").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ValueRepairError, match="another vr is writing it"):
            run(tmp_path, plan_of(tmp_path, lines=1), fake_side("one"), fake_side("two"))


def test_a_full_disk_costs_no_finished_game(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk takes the first game and a part of the second."""
    path, write = tmp_path / "match.pgn", os.write

    def write_until_full(descriptor: int, data: bytes) -> int:
        own = path.exists() and os.path.samestat(os.fstat(descriptor), path.stat())
        if own and path.stat().st_size > 0:
            write(descriptor, bytes(data)[:100])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data)

    sides = fake_side("one"), fake_side("two")
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", write_until_full)
        with pytest.raises(ValueRepairError, match="No space left on device; the games so far are kept"):
            run(tmp_path, plan_of(tmp_path, lines=2), *sides, jobs=1)
    assert len(read_games(path)) == 1
    kept = path.read_text()
    end = run(tmp_path, plan_of(tmp_path, lines=2), *sides, jobs=1)
    assert (end.before, end.standing.games) == (1, 4)
    assert path.read_text().startswith(kept)


def test_the_test_ends_the_match(tmp_path: Path) -> None:
    """One engine loses every game at once, so H0 of the other's loss is accepted long before the end."""
    bad = fake_side("bad", "illegal-on=moves")
    plan = _fewer(plan_of(tmp_path, sprt=Sprt(0, 200, 0.2, 0.2, "logistic")), 400)
    end = run(tmp_path, plan, bad, fake_side("good"))
    assert end.standing.verdict == H0
    assert end.standing.games < 60
    assert any("H0 accepted" in line for line in report_lines(end.standing))


def test_the_test_ends_a_match_at_odds(tmp_path: Path) -> None:
    """There each opening is played once, so there are no pairs to test."""
    (tmp_path / "odds.epd").write_text("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1\n")
    sprt = Sprt(-100, 100, model="logistic")
    plan = MatchPlan(read_openings(str(tmp_path / "odds.epd")), 400, "odds.epd", odds=True, nodes=10, sprt=sprt)
    end = run(tmp_path, plan, fake_side("bad", "illegal-on=fen"), fake_side("good"))
    assert end.standing.verdict == H0
    assert end.standing.games < 60
    assert end.standing.tested == end.standing.tally.score


@pytest.mark.parametrize("movetime", [50, 5000])
def test_a_side_with_a_time_of_its_own_must_keep_to_it(tmp_path: Path, movetime: int) -> None:
    sides = [fake_side(name, "slow-on=", "slow=0.3", settings=f"movetime={movetime}") for name in ("a", "b")]
    options = MatchOptions(games=2, jobs=1, rules=Rules(max_plies=12))
    with Progress("match", quiet=True) as progress:
        end = play_sides(sides, options, tmp_path / "match.pgn", progress=progress)
    assert end.standing.endings == Counter({"out of time" if movetime == 50 else "too long": 2})


@settings(deadline=None)  # the first one reads the openings
@given(st.integers(1, 12), st.integers(1, 40), st.integers(0, 5))
def test_schedules_go_through_the_book_evenly_with_both_colours(lines: int, pairs: int, seed: int) -> None:
    openings = built_in_openings()[:lines]
    pairings = list(MatchPlan(openings, 2 * pairs, seed=seed).pairings())
    assert [pairing.number for pairing in pairings] == list(range(2 * pairs))
    count = Counter((p.opening.number, p.white) for p in pairings)
    for number in range(lines):
        assert count[number, 0] == count[number, 1]
    most = max(count.values())
    assert min(count[number, 0] for number in range(lines)) >= most - 1
    assert all(p.white + p.black == 1 for p in pairings)


def test_built_in_openings_are_even_different_and_playable() -> None:
    openings = built_in_openings()
    assert len({opening.key for opening in openings}) == len(openings) > 200
    check_playable(openings, "built-in")
    for opening in random.Random(1).sample(openings, 40):
        board = chess.Board()
        for move in opening.moves:
            board.push(board.parse_uci(move))
        assert board.fen() == opening.fen
        assert not board.is_game_over()


def test_a_book_line_that_ends_the_game_is_refused(tmp_path: Path) -> None:
    """By the rule of `vr books`: mate, bare kings, the third repetition."""
    knights = " ".join(f"{n}. Nf3 Nf6 {n + 1}. Ng1 Ng8" for n in (1, 3))
    for name, line in (("mate", "1. f3 e5 2. g4 Qh4# 0-1"), ("third", f"{knights} *")):
        (tmp_path / f"{name}.pgn").write_text(f'[Event "a"]\n\n1. e4 *\n\n[Event "b"]\n\n{line}\n\n')
        with pytest.raises(ValueRepairError, match=rf"{name}\.pgn: opening 2 ends the game"):
            check_playable(read_openings(tmp_path / f"{name}.pgn"), f"{name}.pgn")
    (tmp_path / "kings.epd").write_text("8/8/4k3/8/8/4K3/8/8 w - -\n")
    with pytest.raises(ValueRepairError, match=r"kings\.epd: opening 1 ends the game"):
        check_playable(read_openings(tmp_path / "kings.epd"), "kings.epd")


@pytest.mark.parametrize("games", [0, 1, 3, -2])
def test_games_are_pairs(games: int) -> None:
    with pytest.raises(UsageError, match="must be even"):
        MatchPlan([INITIAL], games)


def test_counts_in_any_order_are_the_same() -> None:
    games = [
        Played(n, n // 2, ("1-0", "0-1", "1/2-1/2", "*")[n % 7 % 4], ("checkmate", "crashed")[n % 2], n)
        for n in range(40)
    ]
    shuffled = random.Random(0).sample(games, len(games))
    standings = []
    for order in (games, shuffled):
        standing = Standing(("a", "b"), Sprt(0, 5))
        for game in order:
            standing.add(game)
        standings.append(standing.as_json())
    assert standings[0] == standings[1]
    assert standings[0]["games"] == 40
    assert sum(standings[0]["score"].values()) + standings[0]["undecided"] == 40


@pytest.mark.parametrize("openings", [10, 60])
@pytest.mark.parametrize("model", ["logistic", "normalized"])
def test_games_whose_pair_has_no_result_show_nothing(openings: int, model: str) -> None:
    """A side whose wins are quick and whose losses take too long would be better by the quick ones alone."""
    sprt, ends = Sprt(0, 5, model=model), ("checkmate", "too long")
    alone = [Played(n, n // 2 % openings, ("1-0", "*")[n % 2], ends[n % 2], 9) for n in range(60)]
    whole = [Played(60 + n, n // 2 % openings, ("1-0", "0-1", "1/2-1/2", "1-0")[n % 4], ends[0], 9) for n in range(60)]
    standing = Standing(("a", "b"), sprt)
    for game in random.Random(1).sample(alone, len(alone)):
        standing.add(game)
    assert {verdict for _, verdict in standing.levels.values()} == {"not shown"}
    assert (standing.verdict, standing.tally.score, standing.tally.counted) == ("", MatchScore(30), MatchScore())
    assert "no Elo: each decided game has a pair whose other game has no result" in report_lines(standing)
    assert level_lines(standing) == []
    for game in whole:
        standing.add(game)
    without = Standing(("a", "b"), sprt)
    for game in whole:
        without.add(game)
    assert (standing.results, standing.tested) == (without.results, without.tested)
    assert (standing.levels, standing.verdict) == (without.levels, without.verdict)


def test_normalized_elo_of_a_match_is_that_of_fastchess() -> None:
    """The pairs of app/tests/elo_test.cpp, played out."""
    standing = Standing(("a", "b"))
    of_pair = (("0-1", "1-0"), ("0-1", "1/2-1/2"), ("1-0", "1-0"), ("1-0", "1/2-1/2"), ("1-0", "0-1"))
    pairs = [results for results, count in zip(of_pair, (34, 54, 63, 64, 75), strict=True) for _ in range(count)]
    for n, result in enumerate(result for results in pairs for result in results):
        standing.add(Played(n, n // 2, result, "checkmate", 10))
    known = standing.as_json()["normalized_elo"]
    assert (round(known["value"], 2), round((known["high"] - known["low"]) / 2, 2)) == (57.94, 28.28)


def test_what_the_options_read() -> None:
    assert parse_sprt("elo0=-1.5,elo1=5,model=logistic") == Sprt(-1.5, 5, 0.05, 0.05, "logistic")
    assert parse_sprt("elo0=0, elo1=5, alpha=0.1, beta=0.2") == Sprt(0, 5, 0.1, 0.2)
    assert parse_draw_rule("40,8,0.05") == DrawRule(40, 8, 0.05)
    assert Rules(draw=parse_draw_rule("1,1,0")).draw == DrawRule(1, 1, 0.0)


@pytest.mark.parametrize("text", ["", "elo0=0", "elo0=0,elo1=x", "elo0=0,elo1=5,gamma=1", "0,5"])
def test_a_test_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_sprt(text)


def _fewer(plan: MatchPlan, games: int) -> MatchPlan:
    return replace(plan, games=games)


@pytest.mark.slow
def test_a_line_that_a_book_has_twice_is_one_opening(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Two lines, each three times in the book, say what the book with each of them once says, played three times."""
    once, said = write_book(tmp_path / "once.pgn", 2).read_text(), []
    (tmp_path / "thrice.pgn").write_text(3 * once)
    for book in ("once", "thrice"):
        options = MatchOptions(openings=str(tmp_path / f"{book}.pgn"), games=12, nodes="10", jobs=1)
        caplog.clear()
        with caplog.at_level("INFO", "valuerepair"), Progress("match", quiet=True) as progress:
            sides = [fake_side("one"), fake_side("two")]
            end = play_sides(sides, options, tmp_path / f"{book}-games.pgn", progress=progress)
        assert "12 games from 2 openings, so games by nodes" in caplog.text
        said.append((end.standing.as_json(), end.standing.unit))
    assert said[0] == said[1]
    assert said[0][1] == "openings"


LONG = "x" * 200


def long_sides() -> list[str]:
    """Two sides whose names and descriptions differ only after 200 characters."""
    return [fake_side("s", settings=f"option.Book Path={LONG}{n}").replace(",name=s", "") for n in (1, 2)]


def test_sides_that_differ_only_late_are_told_apart(tmp_path: Path) -> None:
    """By their names and by all else that says what played, also by python-chess."""
    end = run(tmp_path, plan_of(tmp_path), *long_sides())
    games = read_games(tmp_path / "match.pgn")
    assert {game.headers["White"] for game in games} == set(end.standing.names)
    for game in games:
        assert game.headers["White"] != game.headers["Black"]
        for colour in ("White", "Black"):
            option = f"Book Path={LONG}{game.headers[colour][-1]}"
            assert option in game.headers[f"{colour}Side"]
            assert re.search(r" sha256:[0-9a-f]{12}$", game.headers[f"{colour}Side"])
