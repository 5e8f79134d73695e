"""`vr elo` on PGN: of `vr match` its own figures, of others what they published of their matches, and who ended how."""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import sys
import tarfile
from collections import Counter
from pathlib import Path

import chess
import chess.pgn
import pytest
from click.testing import CliRunner

import valuerepair as vr
from tests.match_doubles import fake_side, write_book
from tests.vr_runs import here
from valuerepair.cli import cli
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.play.elo import MatchScore, Pentanomial, elo_interval, normalized_elo
from valuerepair.play.match_pgn import TaggedGame, matches_of, read_games
from valuerepair.play.standing import Standing, level_lines, report_lines

RESULTS = {0.0: "0-1", 0.5: "1/2-1/2", 1.0: "1-0"}


def game(white: str, black: str, result: str, moves: str = "1. e4 e5", **tags: str) -> str:
    every = {"White": white, "Black": black, "Result": result, **tags}
    return "".join(f'[{name} "{text}"]\n' for name, text in every.items()) + f"\n{moves} {result}\n\n"


def own_line(line: int) -> dict[str, str]:
    """The tags of a line of a book of positions, as in games of `vr match`."""
    return {"FEN": chess.Board.from_chess960_pos(line).fen(), "BookLine": str(line + 1), "BookPlies": "0"}


def fastchess(pair: int, first_is_white: bool, points: float) -> str:
    """A game of A against B as fastchess writes it with a book of FENs: both games of a pair have one round."""
    white, black = ("A", "B") if first_is_white else ("B", "A")
    result = RESULTS[points if first_is_white else 1 - points]
    fen = f"4k3/8/8/8/8/8/4P3/4K3 w - - 0 {pair + 1}"
    return game(white, black, result, "1. Kd1 {+0.10/9 0.1s}", Round=str(pair + 1), SetUp="1", FEN=fen)


def match_of(pentanomial: tuple[int, int, int, int, int], wins: int) -> list[str]:
    """The games of a match by its pairs and the number of wins, which says how many pairs of 1 point are two draws."""
    won_lost = wins - 2 * pentanomial[4] - pentanomial[3]
    kinds = [(0.0, 0.0), (0.0, 0.5), (0.5, 0.5), (0.5, 1.0), (1.0, 1.0), (1.0, 0.0)]
    counts = [*pentanomial[:2], pentanomial[2] - won_lost, *pentanomial[3:], won_lost]
    pairs = [kind for kind, count in zip(kinds, counts, strict=True) for _ in range(count)]
    return [fastchess(i, k == i % 2, points) for i, pair in enumerate(pairs) for k, points in enumerate(pair)]


def read(texts: list[str], folder: Path, player: str | None = None, sprt: str | None = None) -> Standing:
    """The one match of these games, each of which is another than all before."""
    (folder / "match.pgn").write_text("".join(f'[GameId "{i}"]\n{text}' for i, text in enumerate(texts)))
    whole = vr.elo(folder / "match.pgn", player, sprt=sprt).whole
    assert whole is not None
    return whole


@pytest.mark.parametrize(
    ("pentanomial", "wld", "elo", "normalized", "los", "test", "llr"),
    [
        # github.com/brunocodutra/cinder, pull requests 773 and 879: what fastchess printed.
        ((36, 340, 767, 462, 82), (999, 785, 1590), (22.07, 7.16), (36.25, 11.72), 100.00, "elo0=0,elo1=3", 2.89),
        # 106 games of the published totals are in pairs that were not whole yet.
        ((115, 1156, 2443, 1233, 141), (2740, 2611, 4825), (4.40, 3.91), (7.61, 6.75), 98.64, "elo0=-3,elo1=1", 2.90),
    ],
)
def test_what_fastchess_printed_of_its_matches(
    tmp_path: Path,
    pentanomial: tuple[int, int, int, int, int],
    wld: tuple[int, int, int],
    elo: tuple[float, float],
    normalized: tuple[float, float],
    los: float,
    test: str,
    llr: float,
) -> None:
    """In the order in which games end with many at once: no matter."""
    texts = match_of(pentanomial, wld[0])
    random.Random(0).shuffle(texts)
    standing = read(texts, tmp_path, "A", f"{test},beta=0.1")
    assert standing.tally.pairs == Pentanomial(pentanomial)
    assert (standing.tally.score.wins, standing.tally.score.losses, standing.tally.score.draws) == wld
    for estimate, published in ((elo_interval(standing.results), elo), (normalized_elo(standing.results), normalized)):
        assert (estimate.value, (estimate.high - estimate.low) / 2) == pytest.approx(published, abs=0.0051)
    figures = standing.as_json()
    assert 100 * figures["los"] == pytest.approx(los, abs=0.0051)
    assert figures["sprt"]["llr"] == pytest.approx(llr, abs=0.0051)
    assert (figures["sprt"]["low"], figures["sprt"]["high"]) == pytest.approx((-2.25, 2.89), abs=0.0051)
    assert figures["sprt"]["accepted"] == "H1"


@pytest.mark.parametrize(
    ("pentanomial", "wins", "words"),
    [
        # The lines of fastchess with these pairs said "DrawRatio: 38.12 %, PairsRatio: 1.26" and "44.47 %", "1.26".
        ((104, 524, 876, 653, 141), 1272, "with 1 point: 337 a win and a loss, 539 two draws; draw ratio 38.1 %"),
        ((40, 309, 631, 363, 76), 796, "with 1 point: 281 a win and a loss, 350 two draws; draw ratio 44.5 %"),
    ],
)
def test_even_pairs_and_ratios_are_those_of_fastchess(
    tmp_path: Path, pentanomial: tuple[int, int, int, int, int], wins: int, words: str
) -> None:
    standing = read(match_of(pentanomial, wins), tmp_path, "A")
    assert standing.tally.score.wins == wins
    lines = report_lines(standing)
    assert lines[5] == f"  {words}, pairs ratio 1.26"
    value, low, high = normalized_elo(standing.results)
    assert level_lines(standing)[0] == f"normalized Elo {value:+.1f} (95 %: {low:+.1f} to {high:+.1f})"
    value, low, high = elo_interval(standing.results, 0.95)
    assert lines[6].startswith(f"Elo {value:+.1f} (95 %: {low:+.1f} to {high:+.1f}), LOS ")
    assert sum(" to " in line for line in lines if not line.startswith("SPRT")) == 1


def test_what_cutechess_printed_of_matches_without_pairs(tmp_path: Path) -> None:
    """github.com/cutechess/cutechess/issues/543, and pull request 570 of cinder, which says it by colour, too.

    cutechess takes each game as one of its own, and so do we where nothing says what the openings are.
    """
    texts = [game("A", "B", "1-0")] * 880 + [game("A", "B", "0-1")] * 759 + [game("B", "A", "1/2-1/2")] * 1863
    standing = read(texts, tmp_path, sprt="elo0=0,elo1=5,model=logistic")
    value, low, high = elo_interval(standing.results)
    assert (value, (high - low) / 2) == pytest.approx((12.0, 7.9), abs=0.051)
    figures = standing.as_json()
    assert (figures["los"], figures["sprt"]["llr"]) == pytest.approx((0.999, 2.95), abs=0.0051)
    assert figures["intervals_of"] == "games"

    white = [("1-0", 605), ("0-1", 437), ("1/2-1/2", 958)]
    black = [("0-1", 433), ("1-0", 600), ("1/2-1/2", 967)]
    texts = [game("dev", "base", result) for result, count in white for _ in range(count)]
    texts += [game("base", "dev", result) for result, count in black for _ in range(count)]
    standing = read(texts, tmp_path, sprt="elo0=-5,elo1=5,model=logistic")
    assert [standing.tally.as_white, standing.tally.as_black] == [MatchScore(605, 958, 437), MatchScore(433, 967, 600)]
    figures = standing.as_json()
    assert figures["elo"][1]["value"] == pytest.approx(0.1, abs=0.051)
    assert (figures["los"], figures["sprt"]["llr"]) == pytest.approx((0.509, 0.0555), abs=0.00051)


def test_vr_elo_says_what_vr_match_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of its games, the file as it is, packed and through a pipe; openings come again, and one game is given up."""
    write_book(tmp_path / "book.pgn", 3)
    sides = (fake_side("one"), fake_side("two", "crash-after=40"))
    common = ("--openings", "book.pgn", "--games", "8", "--nodes", "9", "--jobs", "1", "--max-plies", "60")
    done = here("match", *sides, *common, "--sprt", "elo0=0,elo1=30", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    *table, where = done.stdout.splitlines()
    assert " undecided" in table[0]
    assert "crashed" in table[-2]
    assert where == "games in match.pgn"
    lines = here("elo", "match.pgn", "--sprt", "elo0=0,elo1=30", cwd=tmp_path).stdout.splitlines()
    assert [line for line in lines if not line.startswith("without a result: ")] == table

    figures = json.loads(here("match", *sides, *common, "--json", cwd=tmp_path).stdout)
    packed = gzip.compress((tmp_path / "match.pgn").read_bytes())
    (tmp_path / "match.pgn.gz").write_bytes(packed)
    again = json.loads(here("elo", "match.pgn.gz", "--json", cwd=tmp_path).stdout)
    assert again["whole"] == {name: value for name, value in figures.items() if name not in ("planned", "pgn")}
    assert again["mean_seconds"] > 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(packed)))
    assert json.loads(here("elo", "-", "--json", cwd=tmp_path).stdout) == again


def test_a_tournament_is_counted_by_its_tags(shared_data: Path) -> None:
    """800 games of cutechess, recounted from the text; the table of one player is that of its four matches together."""
    path = shared_data / "pgn" / "leela-ID352.pgn.gz"
    text = gzip.decompress(path.read_bytes()).decode()
    tags = [re.findall(rf'^\[{name} "(.*)"\]', text, re.M) for name in ("White", "Black", "Result")]
    counted = Counter(zip(*tags, strict=True))
    table = vr.elo(path)
    assert (table.games, len(table.matches), table.whole) == (800, 4, None)
    for match in (*table.matches, vr.elo(path, "ID352").whole):
        assert match is not None
        first, second = match.names
        seconds = {second} if second != "all others" else set(tags[0]) - {first}
        for score, white in ((match.tally.as_white, True), (match.tally.as_black, False)):
            won, lost = ("1-0", "0-1") if white else ("0-1", "1-0")
            games = [(first, rival) if white else (rival, first) for rival in seconds]
            counts = [sum(counted[pair[0], pair[1], result] for pair in games) for result in (won, "1/2-1/2", lost)]
            assert score == MatchScore(*counts)
    mates = {sign: len(re.findall(rf"{sign} mates\}}", text)) for sign in ("White", "Black")}
    whole = vr.elo([path], "ID352").whole
    assert whole is not None
    assert whole.endings["checkmate"] == sum(mates.values())
    assert whole.endings["repetition"] == len(re.findall(r"Draw by 3-fold repetition\}", text))
    printed = CliRunner().invoke(cli, ["elo", str(path)]).output
    assert "5 players, 4 matches, 800 games" in printed
    assert "one against all others: --player NAME" in printed
    refused = here("elo", str(path), "--sprt", "elo0=0,elo1=5", cwd=path.parent)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "4 matches; say --player NAME" in refused.stderr
    for name, advice in (("ID35", "did you mean ID352?"), ("nobody", "there are ")):
        unknown = here("elo", str(path), "--player", name, cwd=path.parent)
        assert f"--player {name}: has no game in {path}; {advice}" in unknown.stderr


def shown_in_the_guide(command: str) -> str:
    guide = (Path(__file__).parents[1] / "docs/guide/elo.md").read_text("utf-8")
    return guide.split(f"$ {command}\n")[1].split("```")[0]


def test_the_table_of_the_guide(shared_data: Path) -> None:
    command = "vr elo leela-ID352.pgn.gz --player ID352"
    printed = here(*command.split()[1:], cwd=shared_data / "pgn").stdout
    assert printed == shown_in_the_guide(command)


def test_the_plan_of_the_guide(tmp_path: Path) -> None:
    command = "vr elo --resolve 5 --draws 0.6 --game-time 40 --jobs 8 --sprt elo0=0,elo1=5"
    assert here(*command.split()[1:], cwd=tmp_path).stdout == shown_in_the_guide(command)


def test_one_player_among_many_has_pairs_where_most_of_its_games_do(tmp_path: Path) -> None:
    paired = [fastchess(i, k == 0, 0.5 + k / 2) for i in range(40) for k in range(2)]
    single = [game("C", "A", "1/2-1/2")]
    standing = read(paired + single * 6, tmp_path, "A")
    assert (standing.names, standing.unit, standing.tally.pairs.pairs) == (("A", "all others"), "pairs", 40)
    standing = read(paired + single * 60, tmp_path, "A")
    assert (standing.unit, standing.games) == ("games", 140)
    assert standing.as_json()["pentanomial"] == [0] * 5


def test_pairs_of_a_gauntlet_are_those_of_each_opponent(tmp_path: Path) -> None:
    """A game without a counterpart changes no pair, unless more than a tenth of all games are such games."""
    pairs = [fastchess(i, k == 0, (0.0, 0.5, 1.0)[(i + k) % 3]) for i in range(20) for k in range(2)]
    pairs += [fastchess(i, k == 0, k / 2).replace('"B"', '"C"') for i in range(2) for k in range(2)]
    alone = [fastchess(100 + i, True, 1.0).replace('"B"', '"C"') for i in range(5)]
    whole = read(pairs, tmp_path, "A")
    assert (whole.unit, whole.tally.pairs.pairs) == ("pairs", 22)
    for more in (1, 4):
        standing = read(pairs + alone[:more], tmp_path, "A", "elo0=0,elo1=5")
        assert (standing.tally.pairs, standing.games) == (whole.tally.pairs, 44 + more)
        assert (standing.levels, standing.tested) == (whole.levels, whole.tested)
    assert read(pairs + alone, tmp_path, "A").unit == "games"


BOOKED = "1. e4 {book} e5 {book} 2. Nf3 {+0.20/9 1s} Nc6 {0.00/9 1s}"
PLAIN = "1. e4 e5 2. d4 d5 3. Nf3 {+0.20/9 1s} Nc6 {0.00/9 1s}"
# A player that says nothing of its moves, a beginning too short to be an opening, and the games of a server.
TOLD_NOTHING = (
    "1. e4 e5 {+0.10/9 1s} 2. Nf3 Nc6 {+0.20/9 1s}",
    "1. e4 e5 2. Nf3 {+0.20/9 1s} Nc6 {0.00/9 1s}",
    "1. e4 {[%clk 0:03:00]} e5 {[%clk 0:03:00]}",
)


@pytest.mark.parametrize("moves", [BOOKED, PLAIN, PLAIN.replace("d5 3.", "$2 d5 $10 3."), *TOLD_NOTHING])
def test_what_is_taken_for_an_opening(tmp_path: Path, moves: str) -> None:
    """Moves marked as book, or four plies and more before the first comment: `cutechess` GUI, TCEC."""
    others = [moves.replace("1. e4 ", f"1. {pawn}3 ") for pawn in "abcdfgh"]
    texts = [game("BA"[k], "AB"[k], "1/2-1/2", opening) for opening in (moves, *others) for k in range(2)]
    random.Random(1).shuffle(texts)
    standing = read(texts, tmp_path)
    assert standing.tally.pairs.counts == ((0, 0, 0, 0, 0) if moves in TOLD_NOTHING else (0, 0, 8, 0, 0))
    assert standing.unit == ("games" if moves in TOLD_NOTHING else "pairs")
    again = read([*texts, *texts], tmp_path)
    assert again.unit == ("games" if moves in TOLD_NOTHING else "openings")


ENDED = [
    # cutechess and fastchess, in the comment of the last move or behind it
    ("20. Qg7# {+128.00/2 0.23s, White mates}", {}, "1-0", "checkmate"),
    ("20. Kb2 {0.00/40 1s, Draw by 3-fold repetition}", {}, "1/2-1/2", "repetition"),
    ("20. Kb2 {0.00/40 1s, Draw by insufficient mating material}", {}, "1/2-1/2", "material"),
    ("20. Kb2 {0.00/40 1s, Draw by stalemate}", {}, "1/2-1/2", "stalemate"),
    ("20. Kb2 {0.00/40 1s, Draw by fifty moves rule}", {}, "1/2-1/2", "50 moves"),
    ("20. Kb2 {Draw by adjudication}", {"Termination": "adjudication"}, "1/2-1/2", "adjudicated draw"),
    ("20. Kb2 {White wins by adjudication}", {"Termination": "adjudication"}, "1-0", "adjudicated win"),
    ("20. Kb2 {0.1s, Draw by adjudication: SyzygyTB}", {"Termination": "adjudication"}, "1/2-1/2", "tablebase"),
    ("20. Kb2 {0.1s, Black loses on time}", {"Termination": "time forfeit"}, "1-0", "out of time"),
    ("20. Kb2 {0.1s, Black makes an illegal move: f5c2}", {"Termination": "illegal move"}, "1-0", "illegal move"),
    ("20. Kb2 {0.1s, White disconnects}", {"Termination": "abandoned"}, "0-1", "crashed"),
    ("20. Kb2 {0.1s, White's connection stalls}", {"Termination": "stalled connection"}, "0-1", "crashed"),
    ("20. Kb2 {0.1s, No result}", {"Termination": "unterminated"}, "*", "stopped"),
    ("20. Kb2 {White resigns}", {}, "0-1", "resigned"),
    # TCEC, lichess, chess.com, FICS, and a bare game
    ("20. Kb2", {"Termination": "adjudication", "TerminationDetails": "TCEC draw rule"}, "1/2-1/2", "adjudicated draw"),
    ("20. Kb2", {"TerminationDetails": "50-move rule"}, "1/2-1/2", "50 moves"),
    ("20. Kb2 {[%clk 0:00:03]}", {"Termination": "Time forfeit"}, "0-1", "out of time"),
    ("20. Qg7# {[%clk 0:00:03]}", {"Termination": "Normal"}, "1-0", "checkmate"),
    ("20. Kb2 {[%clk 0:00:03]}", {"Termination": "Normal"}, "1-0", "normal"),
    ("20. Kb2", {"Termination": "A won by resignation"}, "1-0", "resigned"),
    ("20. Kb2 {Game drawn by mutual agreement}", {}, "1/2-1/2", "draw agreed"),
    ("20. Qg7#", {}, "1-0", "checkmate"),
    ("20. Kb2", {}, "1-0", "not said"),
    ("20. Kb2", {}, "*", "stopped"),
    # Names say nothing of endings, nor do parts of words.
    ("20. Kb2", {"White": "Crash", "Termination": "Crash won by resignation"}, "1-0", "resigned"),
    ("20. Kb2 {Timeout Bot resigns}", {"White": "Timeout Bot"}, "0-1", "resigned"),
    ("20. Kb2", {"Termination": "StallionBot won by resignation"}, "1-0", "resigned"),
    ("20. Kb2", {"White": "A", "Termination": "A won - game abandoned"}, "1-0", "crashed"),
    # Results that are none
    ("20. Kb2", {}, "1/2", "result not readable"),
    ("20. Kb2", {}, "0.5-0.5", "result not readable"),
    ("20. Kb2", {}, "", "result not readable"),
]


@pytest.mark.parametrize(("moves", "tags", "result", "ending"), ENDED)
def test_how_games_end(tmp_path: Path, moves: str, tags: dict[str, str], result: str, ending: str) -> None:
    texts, won = [game("A", "B", result, moves, **tags)], {"1-0": MatchScore(wins=1), "0-1": MatchScore(losses=1)}
    expected = {ending: won.get(result, MatchScore(draws=1))}
    if result not in RESULTS.values():  # a file without a decided game is refused
        texts.append(game("A", "B", "1/2-1/2", Ending="decided"))
        expected = {"decided": MatchScore(draws=1)}
    standing = read(texts, tmp_path)
    assert standing.endings == {ending: 1, **dict.fromkeys(expected, 1)}
    assert standing.by_ending == expected
    at_fault = ending in ("out of time", "illegal move", "crashed")
    assert [sum(counts.values()) for counts in standing.faults] == [
        at_fault and result == "0-1",
        at_fault and result == "1-0",
    ]


def test_a_draw_on_time_is_nobodys_fault_and_what_has_no_result_is_named(tmp_path: Path) -> None:
    texts = [
        game("A", "B", "1/2-1/2", Termination="Time forfeit"),
        game("B", "A", "*", "1. e4 {0.1s, White's connection stalls}"),
        game("A", "B", "1-0", Termination="Time forfeit"),
    ]
    (tmp_path / "match.pgn").write_text("".join(texts))
    lines = CliRunner().invoke(cli, ["elo", str(tmp_path / "match.pgn")]).output.splitlines()
    assert lines[0] == "A against B: 3 games, 1 undecided"
    assert lines[-3:] == [
        "endings: out of time 2 (+1), crashed 1",
        "faults: crashes 1 (unknown player 1), losses on time 1 (B 1), illegal moves 0",
        "without a result: game 2 (crashed)",
    ]


def test_games_without_a_move_are_left_out(tmp_path: Path) -> None:
    """Draws by a connection that stalled before the first move, as cutechess writes them."""
    drawn = [game("A", "B", "1/2-1/2", "{no move}", Termination="stalled connection", Round=str(n)) for n in range(5)]
    won = [game("A", "B", "1-0", "1. e4 e5"), game("B", "A", "1/2-1/2", "1. d4 d5"), game("A", "B", "1-0", "1. c4 c5")]
    (tmp_path / "match.pgn").write_text("".join(won + drawn))
    lines = CliRunner().invoke(cli, ["elo", str(tmp_path / "match.pgn")]).output.splitlines()
    assert lines[0] == "A against B: 3 games"
    assert lines[-2:] == [
        "faults: crashes 0, losses on time 0, illegal moves 0",
        "left out: 5 games without a move (crashed 5)",
    ]
    # Results alone are taken as they are.
    assert read([*drawn, game("A", "B", "1-0", "")], tmp_path).games == 6


def test_two_matches_of_the_same_players_have_their_own_pairs() -> None:
    """Runs of `vr match` number their games each from 1."""

    def own(run: str, number: int, white: str, result: str) -> TaggedGame:
        black = "B" if white == "A" else "A"
        return TaggedGame(1, white, black, result, "checkmate", 9, None, b"%d" % (number // 2), run, number)

    games = [own("one", 1, "B", "1-0"), own("two", 0, "A", "1-0"), own("two", 1, "B", "0-1"), own("one", 0, "A", "0-1")]
    (match,) = matches_of(games)
    assert match.names == ("A", "B")
    assert Standing.after(match.names, match.games).tally.pairs.counts == (1, 0, 0, 0, 1)
    # The same command, run on two machines: other games of the same numbers.
    (match,) = matches_of([games[3], games[0], own("one", 0, "A", "1-0"), own("one", 1, "B", "0-1")])
    assert Standing.after(match.names, match.games).tally.pairs.counts == (1, 0, 0, 0, 1)
    (turned,) = matches_of(games[:1], "B")
    assert [turned_game.number % 2 for turned_game in turned.games] == [0]


def test_games_read_twice_count_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The same file twice, under another name or in one file; not games of which only the result is told."""
    texts = match_of((2, 3, 10, 6, 4), 20)
    (tmp_path / "a.pgn").write_text("".join(texts))
    (tmp_path / "b.pgn.gz").write_bytes(gzip.compress("".join(texts[::-1]).rstrip().encode()))
    with caplog.at_level("INFO", "valuerepair"):
        figures = vr.elo(tmp_path, sprt="elo0=0,elo1=5").as_json()
    assert "50 of 100 games are copies of earlier ones and are left out" in caplog.text
    assert figures == vr.elo(tmp_path / "a.pgn", sprt="elo0=0,elo1=5").as_json()
    (tmp_path / "results.pgn").write_text(game("A", "B", "1-0", "") * 7 + game("B", "A", "0-1", "") * 3)
    assert vr.elo(tmp_path / "results.pgn").games == 10


def test_games_from_the_initial_position_have_no_opening_of_their_own(tmp_path: Path) -> None:
    """Some runners write its FEN; all games would be of one opening. And without comments nothing marks a book."""
    fen = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
    pairs = [("AB"[k], "BA"[k], RESULTS[points]) for points in (0.0, 0.5, 1.0) for _ in range(10) for k in range(2)]
    plain = [game(*players, "1. Kd1 {+0.10/9 0.1s}") for players in pairs]
    with_fen = [game(*players, "1. Kd1 {+0.10/9 0.1s}", FEN=fen, SetUp="1") for players in pairs]
    bare = [game(*players, "1. e4 e5 2. Nf3 Nc6 3. Bb5 a6") for players in pairs]
    for texts in (plain, with_fen, bare):
        standing = read(texts, tmp_path)
        assert (standing.unit, standing.paired) == ("games", False)
    # With moves that are marked it is as without the FEN.
    marked = [
        game("AB"[k], "BA"[k], "1-0", f"1. {f}3 {{book}} e5 {{+0.1/9}}", FEN=fen) for f in "abcdf" for k in (0, 1)
    ]
    assert read(marked, tmp_path).tally.pairs.counts == (0, 0, 5, 0, 0)


def test_names_that_differ_in_case_are_said_to(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "match.pgn").write_text(game("Net", "B", "1-0") + game("net", "B", "1-0") + game("b", "NET", "1-0"))
    with caplog.at_level("INFO", "valuerepair"):
        assert len(vr.elo(tmp_path).matches) == 3
    assert "counted as different players: Net and net and NET, B and b" in caplog.text


def test_games_of_self_play_are_paired_by_their_lines(tmp_path: Path) -> None:
    """Those of two nets: each line again after the whole book, with the colours changed. Their numbers are no pairs."""
    texts = []
    for number in range(20):
        turn, line = divmod(number, 10)
        white, black = "AB" if (turn + line) % 2 == 0 else "BA"
        won = line % 3 == 0  # by White, whoever that is: each side has one point of each pair
        tags = {"Round": str(number + 1), "Run": "0123456789abcdef", **own_line(line)}
        texts.append(game(white, black, "1-0" if won else "1/2-1/2", **tags))
    standing = read(texts, tmp_path)
    assert standing.unit == "pairs"
    assert standing.tally.pairs.counts == (0, 0, 10, 0, 0)


def test_games_at_odds_are_tested_one_by_one(tmp_path: Path) -> None:
    """`vr experiment match --odds` plays each line once, the first side with less material: there are no pairs."""
    texts = []
    for line in range(80):
        white, black = "AB" if line % 2 == 0 else "BA"
        tags = {"Round": str(2 * line + line % 2 + 1), "Run": "0123456789abcdef", **own_line(line)}
        points = (0.0, 0.5, 1.0, 1.0)[line // 2 % 4]
        result = RESULTS[points if white == "A" else 1 - points]
        texts.append(game(white, black, result, BookOrder="odds", **tags))
    standing = read(texts, tmp_path, sprt="elo0=0,elo1=10")
    assert (standing.unit, standing.paired, standing.tested) == ("games", False, MatchScore(40, 20, 20))
    assert standing.as_json()["sprt"]["llr"] > 0
    planned = here("elo", "match.pgn", "--resolve", "20", cwd=tmp_path)
    assert planned.returncode == 0, planned.stderr
    assert "no pairs, so counted game by game" in planned.stdout


def test_a_file_whose_lines_end_in_a_carriage_return_alone_has_the_same_games(tmp_path: Path) -> None:
    """As python-chess reads them. The games are more than one piece of the archive's reader."""
    texts = [fastchess(i // 2, i % 2 == 0, i % 3 / 2) for i in range(8000)]
    lines = []
    for name, ending in (("lf", "\n"), ("cr", "\r"), ("crlf", "\r\n")):
        path = tmp_path / f"{name}.pgn"
        path.write_bytes("".join(texts).replace("\n", ending).encode())
        lines.append(CliRunner().invoke(cli, ["elo", str(path)]).output)
        with path.open() as file:  # universal newlines
            first = chess.pgn.read_game(file)
        assert first is not None
        assert (first.headers["White"], first.headers["Round"]) == ("A", "1")
    assert path.stat().st_size > 1 << 20
    assert lines[0].startswith("A against B: 8,000 games\n")
    assert lines[1] == lines[2] == lines[0]


def test_one_game_is_one_game(tmp_path: Path) -> None:
    (tmp_path / "match.pgn").write_text(game("A", "B", "1-0"))
    lines = CliRunner().invoke(cli, ["elo", str(tmp_path / "match.pgn")]).output.splitlines()
    assert lines[0] == "A against B: 1 game"
    assert "1 games" not in " ".join(lines)


def test_an_interval_without_bounds_says_so(tmp_path: Path) -> None:
    """The normal interval of a win and a loss is all shares; cutechess prints ``0.0 +/- inf``."""
    (tmp_path / "match.pgn").write_text(game("A", "B", "1-0") + game("A", "B", "0-1"))
    output = CliRunner().invoke(cli, ["elo", str(tmp_path / "match.pgn")]).output
    assert "; the normal one, as cutechess prints it: without bounds\n" in output
    assert "unknown" not in output


def test_files_folders_and_games_of_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a.pgn").write_text(game("A", "B", "1-0") + '[Event "cut"]\n\n1. e4 *\n\n' + game("A", "A", "1-0"))
    (tmp_path / "b.pgn").write_text(game("B", "A", "1-0"))
    with caplog.at_level("INFO", "valuerepair"):
        table = vr.elo(tmp_path)
    assert (table.games, table.players) == (2, ["A", "B"])
    assert "1 of 4 games have no tags White and Black and are left out" in caplog.text
    read_count: list[int] = []
    assert len(list(read_games([str(tmp_path / name) for name in ("a.pgn", "b.pgn")], read_count.append))) == 3
    assert sum(read_count) == 4


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        ([], "give the PGN of a match, or --resolve ELO --draws SHARE", 2),
        (["none.pgn"], "none.pgn: no such file or folder", 2),
        (["match.pgn", "--draws", "0.5"], "--draws is for --resolve ELO: give that, too", 2),
        (["match.pgn", "--sprt", "5"], "--sprt 5: '5' is not NAME=VALUE; for example elo0=0,elo1=5", 2),
        (["match.pgn", "--player", "b"], "--player b: has no game in match.pgn; did you mean B, Bb?", 2),
        (["match.pgn", "--player", "x"], "--player x: has no game in match.pgn; there are A, B, Bb, C", 2),
        (
            ["--resolve", "5", "--draws", "0.5", "--player", "A"],
            "--player applies to the games of a PGN: give FILE, too",
            2,
        ),
        (["stars.pgn"], "stars.pgn: 5 games, none decided", 1),
        (["games.tar"], "games.tar: a tar archive; unpack it first", 1),
        (["match.pgn", "--resolve", "5"], "there are 4 players; say --player NAME (A, ...)", 2),
        (["match.pgn", "--player", "A", "--resolve", "5"], "A against all others: too few games to plan by", 1),
        (["alone.pgn"], "alone.pgn: one player plays itself, so there is no Elo", 1),
        (["notes.txt"], "notes.txt: not the games of a match: tags White and Black are missing", 1),
        (["empty.pgn"], "empty.pgn: no game in it", 1),
        (["cut.pgn.gz"], "cut.pgn.gz: the gzip stream breaks off", 1),
        (
            ["--resolve", "5"],
            "a plan needs the share of draws (--draws 0.6) or the PGN of some games, one of the two",
            2,
        ),
        (["match.pgn", "--resolve", "5", "--draws", "0.5"], "or the PGN of some games, one of the two", 2),
        (
            ["--resolve", "-5", "--draws", "0.5"],
            "--resolve -5: must be a difference of Elo above 0, and at most 1000",
            2,
        ),
        (["--resolve", "5", "--draws", "60"], "--draws 60: must be a share of the games, from 0 to below 1", 2),
        (["--resolve", "5", "--draws", "0.6", "--jobs", "0"], "--jobs 0: must be at least 1", 2),
        (["--resolve", "5", "--draws", "0.6", "--game-time", "0"], "--game-time 0: must be seconds above 0", 2),
    ],
)
def test_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str, code: int
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("match.pgn").write_text(game("A", "B", "1-0") + game("A", "Bb", "1-0") + game("C", "A", "1-0"))
    Path("alone.pgn").write_text(game("A", "A", "1-0"))
    Path("notes.txt").write_text("Nothing of the kind.\n")
    Path("empty.pgn").write_text("")
    Path("stars.pgn").write_text("".join(game("A", "B", "*", Round=str(i)) for i in range(5)))
    with tarfile.open("games.tar", "w") as archive:
        archive.add("match.pgn")
    Path("cut.pgn.gz").write_bytes(gzip.compress(random.Random(0).randbytes(9000))[:5000])
    with pytest.raises(ValueRepairError) as caught:
        CliRunner().invoke(cli, ["elo", *arguments], catch_exceptions=False)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert (caught.value.exit_code, isinstance(caught.value, UsageError)) == (code, code == 2)


def test_names_cannot_command_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "match.pgn").write_text(game("evil\x1b[31m", "B", "1-0"))
    assert "\x1b" not in CliRunner().invoke(cli, ["elo", str(tmp_path / "match.pgn")]).output
