"""Elo over a match's games against formulas written out and `play.elo`; the sweep's table read back."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import chess
import chess.pgn
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from matplotlib.container import ErrorbarContainer

import valuerepair as vr
from tests.figure_parts import band, line, words
from valuerepair.cli import cli
from valuerepair.errors import ValueRepairError
from valuerepair.play.elo import MatchScore, Pentanomial, elo_interval
from valuerepair.play.experiment import Row, selfplay_row, setting_of
from valuerepair.play.figures import PlayedGame
from valuerepair.play.game import CHECKMATE, TOO_LONG, GameRecord, Thought
from valuerepair.play.pgn import game_text, read_written
from valuerepair.play.standing import Played as Written
from valuerepair.play.standing import Standing
from valuerepair.report.experiment import read_table, write_table

_MOVES = (Thought("f2f3"), Thought("e7e5"))


def start_of(line: int) -> str:
    """The start of a line: another arrangement of the pieces, without castling; in later ones pawns are missing."""
    turn, arrangement = divmod(line, 960)
    board = chess.Board.from_chess960_pos(arrangement)
    board.set_castling_fen("-")
    for square in range(turn):
        board.remove_piece_at(chess.A7 + square)
    return board.fen()


def write_match(
    path: Path,
    points: list[float | None],
    order: list[int] | None = None,
    names: tuple[str, str] = ("A", "B"),
    lines: int = 10**6,
) -> None:
    """A match's PGN by the project's own writer: the first player's points of each game, None undecided.

    `order`: the numbers of the games as they ended; `lines`: of the book, which comes again.
    """
    texts = []
    for number in order if order is not None else range(len(points)):
        white, black = names if number % 2 == 0 else names[::-1]
        point = points[number]
        of_white = point if number % 2 == 0 or point is None else 1 - point
        result = {None: "*", 0.0: "0-1", 0.5: "1/2-1/2", 1.0: "1-0"}[of_white]
        ending = TOO_LONG if point is None else CHECKMATE
        line = number // 2 % lines
        game = GameRecord(number, line, start_of(line), (), _MOVES, white, black, result, ending)
        texts.append(game_text(game, {"Event": "vr match", "Run": "00", "BookOrder": "sequential"}))
    path.write_text("".join(texts))


def some_points(games: int, seed: int = 0) -> list[float | None]:
    rng = np.random.default_rng(seed)
    return [float(x) for x in rng.choice([0, 0.5, 1], games, p=[0.25, 0.4, 0.35])]


def normal_interval(pairs: np.ndarray, z: float) -> tuple[float, float, float]:
    """Elo of the mean share of pairs and the normal interval's ends, written out."""
    mean, margin = pairs.mean(), z * pairs.std() / math.sqrt(len(pairs))
    value, low, high = (-400 * math.log10(1 / s - 1) for s in (mean, mean - margin, mean + margin))
    return value, low, high


def test_every_point_is_the_interval_of_the_pairs_so_far(tmp_path: Path) -> None:
    points = some_points(400)
    order = np.random.default_rng(1).permutation(400).tolist()
    write_match(tmp_path / "match.pgn", points, order)
    figure = vr.plot("match", tmp_path / "match.pgn")
    x, y = line(figure, "elo")
    pairs = (np.array(points[::2], float) + np.array(points[1::2], float)) / 2
    assert x.tolist() == [1, *range(2, 401, 2)]
    bands = {level: band(figure, f"band-{level}") for level in (0.95, 0.99)}
    for games in (150, 280, 400):
        for level, z in ((0.95, 1.959964), (0.99, 2.575829)):
            value, low, high = normal_interval(pairs[: games // 2], z)
            assert y[x == games][0] == pytest.approx(value)
            assert bands[level][games] == pytest.approx((low, high), abs=1e-3)
    # The end is what play/elo says of the whole match.
    counts = [int((pairs == share).sum()) for share in (0, 0.25, 0.5, 0.75, 1)]
    last = elo_interval(Pentanomial((counts[0], counts[1], counts[2], counts[3], counts[4])), 0.95)
    assert (y[-1], *bands[0.95][400]) == pytest.approx(last)
    assert (np.diff([bands[0.95][games][1] - bands[0.95][games][0] for games in (8, 20, 60, 400)]) < 0).all()
    assert f"Elo {last.value:+.1f} ({last.low:+.1f} to {last.high:+.1f}) at 0.95" in words(figure)


def test_a_long_match_whose_openings_come_again_ends_with_what_vr_match_says(tmp_path: Path) -> None:
    """Intervals are over openings there, and not every pair has a point."""
    write_match(tmp_path / "match.pgn", some_points(3000, 2), lines=20)
    standing = Standing(("A", "B"))
    for game in read_written(tmp_path / "match.pgn")[0]:
        standing.add(Written.of_written(game))
    figure = vr.plot("match", tmp_path / "match.pgn")
    x, y = line(figure, "elo")
    assert x[-1] == 3000
    assert 300 < len(x) < 800
    assert (np.diff(x) > 0).all()
    for level in (0.95, 0.99):
        interval = elo_interval(standing.results, level)
        assert (y[-1], *band(figure, f"band-{level}")[3000]) == pytest.approx(interval)
    elo_row = {row["level"]: row for row in standing.as_json()["elo"]}[0.95]
    assert standing.as_json()["intervals_of"] == "openings"
    assert f"Elo {elo_row['value']:+.1f} ({elo_row['low']:+.1f} to {elo_row['high']:+.1f})" in words(figure)


def test_one_game_and_a_match_without_a_loss(tmp_path: Path) -> None:
    write_match(tmp_path / "one.pgn", [0.5])
    one = vr.plot("match", tmp_path / "one.pgn")
    x, y = line(one, "elo")
    assert (x.tolist(), y.tolist()) == ([1], [0])
    assert one.description.endswith(" at 0.95, of games; too few games to show a difference: at least 5 are needed")
    write_match(tmp_path / "won.pgn", [1.0] * 40)
    drawn = vr.plot("match", tmp_path / "won.pgn")
    low = elo_interval(Pentanomial((0, 0, 0, 0, 20)), 0.95).low
    assert f"Elo above {low:+.1f} (all won) at 0.95, of pairs" in drawn.description
    assert np.isnan(line(drawn, "elo")[1]).all()  # no estimate, so no point
    ends = band(drawn, "band-0.95")[40]
    assert ends[0] == pytest.approx(low, abs=0.01)
    assert ends[1] == drawn.axes[0].get_ylim()[1] < math.inf


def test_undecided_games_and_a_half_pair(tmp_path: Path) -> None:
    points = [1.0, None, 0.0, 0.5, None, 1.0, 1.0]
    write_match(tmp_path / "match.pgn", points)
    drawn = vr.plot("match", str(tmp_path / "match.pgn"))
    assert f"7 games, {MatchScore(3, 1, 1)}" in drawn.description
    assert line(drawn, "elo")[1][-1] == pytest.approx(elo_interval(Pentanomial((0, 1, 0, 0, 0))).value)


def test_names_are_anybodys_text(tmp_path: Path) -> None:
    write_match(tmp_path / "match.pgn", some_points(8), names=(r"evil$\nothing$ESC", "B<script>"))
    # The project's writer leaves control characters out; another's might not.
    raw = (tmp_path / "match.pgn").read_text().replace("ESC", "\x1b[31m")
    (tmp_path / "match.pgn").write_text(raw)
    done = CliRunner().invoke(cli, ["plot", "match", str(tmp_path / "match.pgn"), "-o", str(tmp_path / "a.svg")])
    assert done.exit_code == 0, done.output
    assert "\x1b" not in done.output
    text = (tmp_path / "a.svg").read_text()
    assert "<script>" not in text
    assert r"evil$\nothing$ [31m" in "".join(ElementTree.fromstring(text).itertext())
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "match.pgn: no such file"),
        ("", "match.pgn"),
        ('[Event "Casual"]\n[White "A"]\n\n1. e4 e5 *\n\n', "match.pgn"),
        ("undecided", "match.pgn: 4 games, none decided"),
        ("no PGN at all", "match.pgn"),
    ],
)
def test_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, said: str) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "match.pgn"
    if content == "undecided":
        write_match(path, [None] * 4)
    elif content is not None:
        path.write_text(content)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(ValueRepairError) as caught:
        CliRunner().invoke(cli, ["plot", "match", "match.pgn"], catch_exceptions=False)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert sorted(tmp_path.iterdir()) == before


# -- the sweep --------------------------------------------------------------------------------------------------------


def report() -> list[Row]:
    """Games of known results at three settings of N_scl, one without draws, and two temperatures."""
    rng = np.random.default_rng(0)

    def row(setting: str, wins: int, draws: int, losses: int) -> Row:
        results = ["1-0"] * wins + ["1/2-1/2"] * draws + ["0-1"] * losses + ["*"]
        moves = [("e4",) * int(rng.integers(20, 60)) for _ in results]
        games = [
            PlayedGame(i, i // 2, str(i // 2), "own", "own", result, CHECKMATE, 0, sans, None, (0.1, 0.7))
            for i, (result, sans) in enumerate(zip(results, moves, strict=True))
        ]
        return selfplay_row(setting_of(setting), games, 0.55) | {"nodes": 50, "planned": 40}

    settings = [row("n_scl=5", 12, 5, 9), row("n_scl=100", 7, 0, 9), row("n_scl=inf", 3, 20, 2)]
    return [*settings, row("temperature=0.5", 6, 12, 5), row("temperature=1", 9, 5, 11)]


def test_the_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_table(report(), tmp_path)
    again = read_table(str(tmp_path))
    pd.testing.assert_frame_equal(pd.DataFrame(again), pd.DataFrame(report()), check_dtype=False)


def test_the_sweeps_lines_are_the_tables_shares(tmp_path: Path) -> None:
    write_table(report(), tmp_path)
    table = pd.read_csv(tmp_path / "table.csv")
    figure = vr.plot("sweep", tmp_path)
    by_scl, by_tau, _, _ = figure.axes
    zero = table[(table["kind"] == "n_scl") & table["value"].isna()]  # infinity is temperature 0, too
    for axes, rows in (
        (by_scl, table[table["kind"] == "n_scl"]),
        (by_tau, pd.concat([zero, table[table["kind"] == "temperature"]])),
    ):
        decided = rows[["wins", "draws", "losses"]].sum(axis=1)
        for column, label in (("wins", "White wins"), ("draws", "draws"), ("losses", "Black wins")):
            (drawn,) = (container for container in axes.containers if container.get_label() == label)
            assert isinstance(drawn, ErrorbarContainer)
            drawn_shares = drawn.lines[0].get_ydata()
            np.testing.assert_allclose(np.array(drawn_shares, np.float64), rows[column] / decided)
        ratios = [text.get_text() for text in axes.texts]
        assert [f"{ratio:.2f}" for ratio in (rows["wins"] + rows["losses"]) / rows["draws"]] == [
            text for text in ratios if text.replace(".", "").isdigit() or text == "inf"
        ]
    assert words(figure).count("self-play,") == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "table.csv; vr experiment selfplay -o FOLDER makes it"),
        ("a,b\n1,2\n", "no sweeps in it; give the folder of a vr experiment selfplay"),
        ("kind,setting,ratio\nn_scl,x,y\n", "table.csv: line 2 is not a row of vr experiment"),
        ("kind,setting,first\nmatch,x,5\n", "no sweeps in it"),
    ],
)
def test_a_table_that_is_none(tmp_path: Path, content: str | None, said: str) -> None:
    if content is not None:
        (tmp_path / "table.csv").write_text(content)
    with pytest.raises(ValueRepairError, match=r"table\.csv") as caught:
        vr.plot("sweep", tmp_path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
