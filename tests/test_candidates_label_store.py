"""Priors and labels in a store: real positions of our own games, the real net, the real Stockfish."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import chess
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from tests.mining_doubles import mine_by_key, random_games
from valuerepair.chess.positions import PositionBatch, encode_move
from valuerepair.cli import cli
from valuerepair.errors import ValueRepairError
from valuerepair.judge.labelled import add_priors, labels_of, missing_priors, names, net_id_of, with_labels
from valuerepair.judge.labels import NAMES
from valuerepair.nets.net import Net, Priors, open_net
from valuerepair.question import Question
from valuerepair.report import stats as stats_module
from valuerepair.store import priors as stored
from valuerepair.store.store import Store

GAMES = Path(__file__).parents[1] / "data" / "games.pgn.zst"
THRESHOLD = "0.2"


def vr(*arguments: str | Path) -> str:
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: str | Path) -> str:
    with pytest.raises(ValueRepairError) as caught:
        CliRunner().invoke(cli, [str(argument) for argument in arguments], catch_exceptions=False)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture(scope="module")
def net_file(shared_data: Path) -> Path:
    return shared_data / "nets" / "maia-1900.pb.gz"


@pytest.fixture(scope="module")
def mined(net_file: Path, stockfish: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """80 positions of our own games, some with ECO headers, not labelled yet."""
    db = tmp_path_factory.mktemp("labels") / "a.db"
    vr(
        "mine",
        GAMES,
        "--db",
        db,
        "--positions",
        "80",
        "--deep",
        "stockfish:nodes=1000",
        "--net",
        net_file,
        "--screen",
        "off",
        "-q",
    )
    with Store.open(db, write=True) as store, store.writing() as connection:
        connection.execute("DELETE FROM priors")
        hostile = {1: "B90", 2: "'; DROP TABLE games; --", 3: "\x1b[31mC42", 4: "E99" * 1000, 5: ""}
        for number, text in hostile.items():
            connection.execute("UPDATE games SET headers = json_set(headers, '$.ECO', ?) WHERE id = ?", (text, number))
    return db


@pytest.fixture
def db(mined: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(mined, tmp_path / "a.db"))


@pytest.fixture(scope="module")
def net(net_file: Path) -> Net:
    return open_net(str(net_file), device="cpu")


def test_stored_priors_are_the_nets(db: Path, net: Net) -> None:
    with Store.open(db, write=True) as store:
        frame = store.candidates(Question(threshold=float(THRESHOLD)))
        ids, (net_id, oracle_id) = frame["position_id"].tolist(), store.pick()
        assert len(ids) > 10
        assert add_priors(store, net, net_id, oracle_id, ids) == len(ids)
        assert missing_priors(store, net_id, oracle_id, ids) == []
        assert add_priors(store, net, net_id, oracle_id, ids) == 0
        questions, priors = stored.moves_of_interest(store, oracle_id, ids), stored.read_priors(store, net_id, ids)
        best = store.connection.execute("SELECT position_id, best_p FROM net_values").fetchall()
    moves, offsets, p = net.priors(PositionBatch.from_positions([candidate.position for candidate in questions]))
    for i, question in enumerate(questions):
        every = dict(zip(moves[offsets[i] : offsets[i + 1]].tolist(), p[offsets[i] : offsets[i + 1]], strict=True))
        legal = {encode_move(move.uci()) for move in chess.Board(question.position.fen).legal_moves}
        assert set(every) == legal
        rows = priors[priors["position_id"] == question.position_id]
        assert {question.played, question.deep_best} <= set(rows["move"])
        order = sorted(every.values(), reverse=True)
        for move, share, rank in rows[["move", "p", "rank"]].itertuples(index=False):
            assert share == pytest.approx(float(every[encode_move(move)]), abs=1e-5)
            assert order[rank - 1] == pytest.approx(share, abs=1e-5)
    top = priors[priors["rank"] == 1].set_index("position_id")["p"]
    assert top.index.tolist() == sorted(ids)
    # From other batches: rounding differs in the last digits.
    np.testing.assert_allclose(top, pd.Series(dict(best))[top.index], atol=1e-5)


class StoppingNet:
    """Breaks off in its second batch."""

    def __init__(self, net: Net) -> None:
        self.net, self.batches = net, 0

    def priors(self, batch: PositionBatch) -> Priors:
        self.batches += 1
        if self.batches == 2:
            raise KeyboardInterrupt
        return self.net.priors(batch)


def test_what_an_interruption_left_is_not_asked_again(db: Path, net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("valuerepair.judge.labelled.BATCH_ROWS", 7)
    with Store.open(db, write=True) as store:
        ids, pair = store.frame(text=False)["position_id"].tolist(), store.pick()
        with pytest.raises(KeyboardInterrupt):
            add_priors(store, StoppingNet(net), *pair, ids)
        assert len(missing_priors(store, *pair, ids)) == len(ids) - 7
        assert add_priors(store, net, *pair, ids) == len(ids) - 7


def test_moves_that_are_not_legal_are_not_asked_for(db: Path, net: Net) -> None:
    with Store.open(db, write=True) as store:
        ids, pair = store.frame(text=False)["position_id"].tolist()[:2], store.pick()
        with store.writing() as connection:
            connection.execute("UPDATE deep_values SET best_move = 'a1a1' WHERE position_id = ?", (ids[0],))
            connection.execute("UPDATE positions SET played = NULL WHERE id = ?", (ids[1],))
        assert add_priors(store, net, *pair, ids) == 2
        assert missing_priors(store, *pair, ids) == []
        assert "a1a1" not in set(stored.read_priors(store, pair[0], ids)["move"])


def test_labels_of_real_candidates(db: Path, net: Net) -> None:
    with Store.open(db, write=True) as store:
        frame = store.frame()
        add_priors(store, net, *store.pick(), frame["position_id"].tolist())
        labels, joined = labels_of(store, frame), with_labels(store, frame)
        assert store.connection.execute("SELECT count(*) FROM games").fetchone()[0] > 5
    assert joined.attrs == frame.attrs
    assert list(joined.columns[: len(frame.columns)]) == list(frame.columns)
    assert labels["oracle_move_p"].between(0, 1).all()
    for row, fen, best, mate in zip(
        labels.to_dict("records"), frame["fen"], frame["deep_best"], frame["mate"], strict=True
    ):
        board = chess.Board(fen)
        assert (row["in_check"], row["legal_moves"]) == (board.is_check(), board.legal_moves.count())
        assert row["forced"] == (board.legal_moves.count() == 1)
        if row["forced"]:
            assert (row["oracle_move_p"], row["blind"]) == (pytest.approx(1), "value")
        if row["missed_mate"]:
            assert not np.isnan(mate)
        assert chess.Move.from_uci(best) in board.legal_moves
    by_game = dict(zip(frame["game_id"], labels["eco"], strict=True))
    assert by_game[1] == "B90"
    assert all(eco is None or len(eco) == 3 for eco in labels["eco"])
    mates = frame[frame["mate"] == 1]
    for fen, best in zip(mates["fen"], mates["deep_best"], strict=True):
        board = chess.Board(fen)
        board.push_uci(best)
        assert board.is_checkmate()


def test_the_shares_are_those_of_the_labels(db: Path, net: Net) -> None:
    with Store.open(db, write=True) as store:
        frame = store.candidates(Question(threshold=float(THRESHOLD)))
        half = frame["position_id"].tolist()[::2]
        add_priors(store, net, *store.pick(), half)
        weighted = frame.assign(weight=np.where(frame["phase"] == "endgame", 5.0, 1.0))
        labels, figures = labels_of(store, frame), stats_module.label_figures(store, weighted, float(THRESHOLD))
    rows = {row["label"]: row for row in json.loads(json.dumps(figures))["rates"]}
    assert list(rows) == list(NAMES)
    for name in NAMES:
        assert rows[name]["count"] == sum(name in words for words in names(labels))
    assert rows["optimistic"]["count"] == int((frame["disagreement"] > 0).sum())
    assert rows["value-blind"]["total"] == figures["with_priors"] == len(half)
    endgames = (frame["phase"] == "endgame").to_numpy()
    expected = 5 * endgames.sum() / (5 * endgames.sum() + (~endgames).sum())
    assert rows["endgame"]["rate"] == pytest.approx(expected)
    assert rows["endgame"]["low"] < expected < rows["endgame"]["high"]
    assert any("blindness is known of" in line for line in stats_module.label_lines(figures))


def test_labels_need_no_net_when_it_is_only_recorded(tmp_path: Path) -> None:
    """A net without a policy, and no net at all: all other labels are there."""
    path = tmp_path / "key.db"
    mine_by_key(random_games(tmp_path / "random.pgn", 20), path)
    with Store.open(path, write=True) as store:
        frame = store.candidates(Question(threshold=0.55))
        assert net_id_of(store, frame) == store.pick()[0]
        figures = stats_module.sections(store, frame, 0.55)
        empty = stats_module.sections(store, store.candidates(Question(threshold=2.0)), 2.0)
    assert figures["labels"]["with_priors"] == 0
    assert json.loads(json.dumps(figures)) == figures
    assert stats_module.section_lines(empty) == []
    with Store.open(path, write=True) as store, store.writing() as connection:
        connection.execute("UPDATE nets SET history_fill = 'recorded'")
    result = CliRunner().invoke(cli, ["stats", "--db", str(path)], catch_exceptions=False)
    assert "middlegame" in result.output
    assert "blind" not in result.output


# -- as a user types it -----------------------------------------------------------------------------------------------


def test_vr_export_has_labels(db: Path, tmp_path: Path) -> None:
    vr("export", "--db", db, "-o", tmp_path / "x.parquet")
    vr("export", "--db", db, "-o", tmp_path / "x.csv")
    exported = pd.read_parquet(tmp_path / "x.parquet")
    with Store.open(db) as store:
        plain = store.frame()
    assert list(exported.columns)[: len(plain.columns)] == list(plain.columns)
    assert {"sign", "blind", "material", "eco", "wdl_kl"} <= set(exported.columns)
    rows = [json.loads(line) for line in vr("export", "--db", db).splitlines()]
    assert [row["material"] for row in rows] == exported["material"].tolist()
    assert pd.read_csv(tmp_path / "x.csv")["material"].tolist() == exported["material"].tolist()


def test_progress_is_seen_from_the_first_rung_that_says_enough(tmp_path: Path) -> None:
    """Scores of a rung below 10,000 nodes, of other stages than rungs, and of a rung too near the end do not count."""
    mine_by_key(random_games(tmp_path / "random.pgn", 12), tmp_path / "a.db")
    with Store.open(tmp_path / "a.db", write=True) as store, store.writing() as connection:
        connection.execute("UPDATE deep_values SET cp = 400, mate = NULL, nodes = 1000000")
        every = [number for (number,) in connection.execute("SELECT position_id FROM deep_values ORDER BY 1")]
        fall, rise = 500, 350
        ladders: list[tuple[dict[str, int], int, str | None]] = [
            ({"10000": fall}, 1_000_000, "no progress"),
            ({"10000": rise}, 1_000_000, None),
            ({"5000": rise, "10000": fall, "20000": rise}, 1_000_000, "no progress"),
            ({"5000": fall, "20000": rise}, 1_000_000, None),
            ({"9999": fall, "second": fall, "after:e2e4": fall}, 1_000_000, None),
            ({"10000": fall}, 200_000, "no progress"),
            ({"10000": fall}, 199_999, None),
            ({}, 1_000_000, None),
        ]
        copied = "cp, mate, w, d, l, q, depth, seldepth, nodes, time_ms, best_move, pv, run_id"
        for number, (rungs, nodes, _) in zip(every, ladders, strict=False):
            connection.execute("UPDATE deep_values SET nodes = ? WHERE position_id = ?", (nodes, number))
            for stage, cp in rungs.items():
                connection.execute(
                    f"INSERT INTO deep_values (oracle_id, stage, position_id, {copied}) SELECT oracle_id, ?, "
                    f"position_id, ?{copied[2:]} FROM deep_values WHERE stage = 'full' AND position_id = ?",
                    (stage, cp, number),
                )
    with Store.open(tmp_path / "a.db") as store:
        frame = store.frame(Question(alpha=170.0))
        labelled = labels_of(store, frame).set_index(frame["position_id"])["fortress_like"]
    assert labelled[every[: len(ladders)]].tolist() == [word for *_, word in ladders]
