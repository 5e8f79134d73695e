"""Labels against python-chess and the net's own policy, and their shares."""

from __future__ import annotations

import json
import shutil
from itertools import product
from pathlib import Path

import chess
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from tests.mining_doubles import mine_by_key, random_games
from valuerepair.cli import cli
from valuerepair.measure import labels
from valuerepair.measure.labels import KINDS, LABELS, NAMES, labels_of, masks, names, with_labels
from valuerepair.nets.net import open_net
from valuerepair.question import Question
from valuerepair.report import stats
from valuerepair.store import view
from valuerepair.store.store import Store

SAMPLE = Path(__file__).parents[1] / "data" / "sample.db"
QUESTION = Question(threshold=0.35)


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """1,500 positions of our own games, 638 of them searched; the games have no ECO headers."""
    return Path(shutil.copy(SAMPLE, tmp_path / "a.db"))


def test_sign() -> None:
    assert labels.sign(np.array([0.7, -0.1, 0.0, np.nan])).tolist() == ["optimistic", "pessimistic", None, None]


def test_blindness_by_prior_and_rank() -> None:
    p = np.array([0.8, 0.05, 0.1, 0.099, 0.01, 0.0099, np.nan, np.nan])
    rank = np.array([1, 1, 4, 3, 7, 8, np.nan, np.nan])
    full = np.array([True] * 7 + [False])
    words = ["value", "value", "value", "partly", "partly", "policy", "policy", None]
    assert labels.blindness(p, rank, full).tolist() == words


def test_masks_say_what_names_say() -> None:
    every = list(
        product(
            ("optimistic", "pessimistic", None),
            ("value", "partly", "policy", None),
            *[(True, False)] * 3,
            ("opening", "middlegame", "endgame"),
        )
    )
    columns = ("sign", "blind", "tactical", "in_check", "forced", "phase")
    assert set(columns) == {label.column for label in LABELS}, "a new column belongs into this table"
    assert len(LABELS) <= 32  # the page keeps them as bits
    table = pd.DataFrame(
        {name: pd.Series(cells, dtype=object) for name, cells in zip(columns, zip(*every, strict=True), strict=True)}
    ).assign(**dict.fromkeys(KINDS.values()))
    by_name = masks(table)
    assert list(by_name) == list(NAMES)
    for name, mask in by_name.items():
        assert mask.dtype == np.bool_
        assert mask.tolist() == [name in words for words in names(table)]


# -- of a store -------------------------------------------------------------------------------------------------------


def test_labels_of_real_positions_are_python_chess_s(db: Path) -> None:
    with Store.open(db) as store:
        frame = view.frame(store)
        joined = with_labels(store, frame)
    assert joined.attrs == frame.attrs
    assert list(joined.columns[: len(frame.columns)]) == list(frame.columns)
    for row in joined.to_dict("records"):
        board = chess.Board(row["fen"])
        assert (row["in_check"], row["forced"]) == (board.is_check(), board.legal_moves.count() == 1)
        if row["forced"]:
            assert (row["judge_move_p"], row["blind"]) == (pytest.approx(1), "value")
        best = row["deep_best"] and chess.Move.from_uci(row["deep_best"])
        assert row["tactical"] == bool(best and (board.is_capture(best) or board.gives_check(best)))
        if row["mate"] == 1:
            board.push_uci(row["deep_best"])
            assert board.is_checkmate()
    assert joined["in_check"].sum() > joined["forced"].sum() > 0
    assert 100 < joined["tactical"].sum() < len(joined) - 100


def test_a_move_is_tactical_as_python_chess_says(tmp_path: Path) -> None:
    """Every legal move in positions of random games and in four with castling, promotion and en passant with check; and
    what is no legal move."""
    mine_by_key(random_games(tmp_path / "random.pgn", 20), tmp_path / "key.db")
    special = [
        "r3k3/1P6/8/8/8/8/8/4K2R w K - 0 1",
        "5k2/8/8/8/8/8/8/4K2R w K - 0 1",  # castling gives check
        "8/8/8/1k1pP3/8/8/8/4K2B w - d6 0 1",
        "8/8/8/R2pP2k/8/8/8/4K3 w - d6 0 1",  # en passant uncovers a check
    ]
    with Store.open(tmp_path / "key.db") as store:
        frame = view.frame(store).head(150)
        fens = [*frame["fen"], *special]
        moves = [
            (fen, move) for fen in fens for move in [*map(chess.Move.uci, chess.Board(fen).legal_moves), "a1a8", None]
        ]
        rows = frame.iloc[[0] * len(moves)].assign(
            fen=[fen for fen, _ in moves], deep_best=pd.Series([move for _, move in moves], dtype=object).to_numpy()
        )
        rows.attrs.update(frame.attrs)
        labelled = labels_of(store, rows.reset_index(drop=True))

    def is_tactical(fen: str, words: str | None) -> bool:
        board, move = chess.Board(fen), chess.Move.from_uci(words or "0000")
        return move in board.legal_moves and (board.is_capture(move) or board.gives_check(move))

    assert labelled["tactical"].tolist() == [is_tactical(*move) for move in moves]


def test_priors_and_ranks_are_the_nets(db: Path, any_maia: Path) -> None:
    with Store.open(db) as store:
        frame = view.candidates(store, QUESTION)
        labelled = labels_of(store, frame)
        positions = store.positions(frame["position_id"].to_numpy())
    with open_net(str(any_maia), device="cpu", threads=2) as net:
        values = net.evaluate(positions)
    assert labelled["blind"].notna().all()
    for row, move, moves, priors in zip(
        labelled.to_dict("records"), frame["deep_best"], values.moves, values.priors, strict=True
    ):
        best = view.Policy.of(b"".join(m.tobytes() + p.tobytes() for m, p in zip(moves, priors, strict=True) if m))
        rank = best.rank(move)
        assert (rank is None) == np.isnan(row["judge_move_rank"])
        if rank is None:
            assert row["blind"] == "policy"
        else:
            assert row["judge_move_rank"] == rank
            assert row["judge_move_p"] == pytest.approx(best[rank - 1][1], abs=1e-5)


def test_openings_are_by_the_header_if_it_is_a_code(db: Path) -> None:
    with Store.open(db, write=True) as store:
        frame = view.frame(store)
        headers = ["B90", "'; DROP TABLE games; --", "\x1b[31mC42", "E99" * 1000, ""]
        games = frame["game_id"].unique()[: len(headers)].tolist()
        for number, text in zip(games, headers, strict=True):
            store.connection.execute(
                "UPDATE games SET headers = json_set(headers, '$.ECO', ?) WHERE id = ?", (text, number)
            )
        labelled = labels_of(store, frame)
    families = dict(zip(frame["game_id"], labelled["opening_family"], strict=True))
    assert families[games[0]] == "Sicilian Defense"
    assert all(families[number] is None or families[number].isprintable() for number in games[1:])


def test_the_shares_are_those_of_the_labels(db: Path) -> None:
    with Store.open(db, write=True) as store:
        frame = view.candidates(store, QUESTION)
        half = frame["position_id"].tolist()[::2]
        dropped = json.dumps(frame["position_id"].tolist()[1::2])
        store.connection.execute(
            "UPDATE net_values SET policy = NULL WHERE position_id IN (SELECT value FROM json_each(?))", (dropped,)
        )
        weighted = frame.assign(weight=np.where(frame["phase"] == "endgame", 5.0, 1.0))
        labelled = labels_of(store, frame)
        shares = stats.label_shares(weighted, QUESTION.threshold, labelled)
    rates = shares["label"]
    assert list(rates) == list(NAMES)
    for name in NAMES:
        assert rates[name].count == sum(name in words for words in names(labelled))
    for kind in KINDS:
        of_kind = {f"{kind}:{word}": rate.count for word, rate in shares[kind].items()}
        assert of_kind == {word: sum(word in words for words in names(labelled)) for word in of_kind}
    assert rates["optimistic"].count == int((frame["disagreement"] > 0).sum())
    assert rates["value-blind"].total == len(half)
    endgames = (frame["phase"] == "endgame").to_numpy()
    expected = 5 * endgames.sum() / (5 * endgames.sum() + (~endgames).sum())
    assert rates["endgame"].rate == pytest.approx(expected)
    assert rates["endgame"].low < expected < rates["endgame"].high


def test_without_a_policy_all_other_labels_are_there(tmp_path: Path) -> None:
    path = tmp_path / "key.db"
    mine_by_key(random_games(tmp_path / "random.pgn", 20), path)
    with Store.open(path, write=True) as store:
        store.connection.execute("UPDATE net_values SET policy = NULL")
        candidates = view.candidates(store, Question(threshold=0.55))
        shares = stats.label_shares(candidates, 0.55, labels_of(store, candidates))["label"]
    assert shares["value-blind"].total == 0 < shares["middlegame"].count


def test_vr_export_has_labels(db: Path, tmp_path: Path) -> None:
    for name in ("x.parquet", "x.csv"):
        result = CliRunner().invoke(cli, ["export", "--db", str(db), "-o", str(tmp_path / name)])
        assert result.exit_code == 0, result.output
    exported = pd.read_parquet(tmp_path / "x.parquet")
    with Store.open(db) as store:
        plain = view.frame(store)
    assert list(exported.columns)[: len(plain.columns)] == list(plain.columns)
    assert {"sign", "blind", "material_family", "opening", "judge_move_p"} <= set(exported.columns)
    assert pd.read_csv(tmp_path / "x.csv")["material_family"].tolist() == exported["material_family"].tolist()
