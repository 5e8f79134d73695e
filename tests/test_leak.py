"""Nothing that is held out is learned: mined, split, mined again and merged, whatever is written for training is read
back, and has no position that a net is judged by."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import valuerepair as vr
from tests import random_nets
from tests.mining_doubles import mine_by_key, random_games
from valuerepair.archives.options import SampleOptions
from valuerepair.archives.rows import ReadReport
from valuerepair.archives.sampling import sample
from valuerepair.mining.mine import MineOptions
from valuerepair.nets.net import open_net
from valuerepair.nets.weights import read_net_file
from valuerepair.play.referee import DrawRule, Rules
from valuerepair.question import Question
from valuerepair.store.store import Store
from valuerepair.training.options import TrainOptions
from valuerepair.training.samples import of_positions, wdl_of
from valuerepair.training.selfplay import SelfplayOptions
from valuerepair.training.sources import TrainingStream
from valuerepair.training.train import _sources

THRESHOLD = 0.3
OF_THE_BOARD = [*range(12), *range(104, 109)]  # planes of men, castling rights and the side to move


@dataclass(frozen=True)
class Mined:
    """A net, an archive of games that are in the store and of others, and the merged store."""

    net: Path
    archive: Path
    store: Path


def games(path: Path, count: int, seed: int, white: str = "W", skip: int = 0) -> Path:
    """Random games with results; the same seed gives the same moves, whoever played them."""
    text = random_games(path, skip + count, seed=seed, plies=70).read_text()
    decided = text.replace('[Result "*"]', '[Result "1-0"]').replace('[White "W', f'[White "{white}')
    path.write_text("".join(re.split(r"(?=\[Event )", decided)[1 + skip :]))
    return path


@pytest.fixture(scope="module")
def mined(tmp_path_factory: pytest.TempPathFactory) -> Mined:
    folder = tmp_path_factory.mktemp("mined")
    kind = replace(random_nets.BY_NAME["se-dense-policy"], blocks=1, moves_left=False)
    path = random_nets.write(kind, folder / "net.pb.gz")

    def mine(archive: Path, store: Path, seed: int) -> None:
        drawn = SampleOptions(per_game=5, off_game="random_move:0.2", seed=seed)
        with open_net(path, device="cpu") as net:
            mine_by_key(archive, store, net=net, options=MineOptions(sample=drawn))

    mine(games(folder / "first.pgn", 60, 1), folder / "a.db", 0)
    vr.split(folder / "a.db", games=0.3, families=0.2)
    both = games(folder / "same.pgn", 60, 1, white="Other")
    both.write_text(both.read_text() + games(folder / "new.pgn", 40, 2).read_text())
    mine(both, folder / "a.db", 7)
    mine(games(folder / "elsewhere.pgn", 40, 1, white="Third", skip=40), folder / "b.db", 3)
    vr.merge_stores([folder / "a.db", folder / "b.db"], folder / "merged.db")
    return Mined(path, both, folder / "merged.db")


def placed(fens: Iterable[str]) -> set[str]:
    """Men, side to move and castling rights."""
    return {" ".join(fen.split()[:3]) for fen in fens}


def held_out(store: Path) -> set[str]:
    with closing(sqlite3.connect(store)) as connection:
        return placed(fen for (fen,) in connection.execute("SELECT fen FROM positions WHERE part <> 'train'"))


def boards(*folders: Path) -> set[str]:
    """What training chunks have."""
    options = SampleOptions(per_game=None, min_ply=0)
    batches = sample([str(folder) for folder in folders], options, ReadReport())
    return placed(position.fen for batch in batches for position in batch)


def test_a_game_keeps_its_part_whatever_comes_later(mined: Mined) -> None:
    """Copies under other names, and positions that were drawn later, have the part of the game."""
    with closing(sqlite3.connect(mined.store)) as connection:
        rows = connection.execute("SELECT game_id, part, origin FROM positions").fetchall()
        (moves,) = connection.execute("SELECT count(*) FROM games").fetchone()
    assert moves == 120  # the games of three archives, each once
    parts: dict[int, set[str]] = {}
    for game, part, origin in rows:
        if origin == "game":
            parts.setdefault(game, set()).add(part)
    assert all(of_game in ({"train"}, {"games"}) or "train" not in of_game for of_game in parts.values())
    assert {part for of_game in parts.values() for part in of_game} == {"train", "games", "families", "neither"}


def test_nothing_held_out_is_written_or_learned(mined: Mined, tmp_path: Path, said: list[str]) -> None:
    held = held_out(mined.store)
    assert len(held) > 200
    question = Question(net=str(mined.net), threshold=THRESHOLD)

    vr.write_books(mined.store, tmp_path / "books", question, vr.BookOptions(parents=2))
    lines = (tmp_path / "books" / "book.epd").read_text().splitlines()
    assert len(lines) > 100
    assert not placed(lines) & held

    vr.write_chunks([], tmp_path / "store", store=mined.store, net=mined.net, question=question)
    assert len(boards(tmp_path / "store")) > 200
    assert not boards(tmp_path / "store") & held

    vr.write_chunks(mined.archive, tmp_path / "unaware")
    vr.write_chunks(mined.archive, tmp_path / "games", store=mined.store, question=question)
    assert len(boards(tmp_path / "unaware") & held) > 200
    assert len(boards(tmp_path / "games")) > 1000
    assert not boards(tmp_path / "games") & held

    vr.write_books(mined.store, tmp_path / "few", question, vr.BookOptions(limit=30))
    options = SelfplayOptions(
        net=str(mined.net),
        nodes=4,
        training=str(tmp_path / "played"),
        rules=Rules(draw=DrawRule(1, 12, 1)),
        device="cpu",
    )
    vr.selfplay(tmp_path / "few" / "book.pgn", tmp_path / "played.pgn", mined.store, options)
    assert len(boards(tmp_path / "played")) > 100
    assert not boards(tmp_path / "played") & held
    assert any("training records of the games played now were left out" in line for line in said)

    vr.mix(tmp_path / "played", tmp_path / "games", tmp_path / "mixture", share=0.3)
    assert not boards(tmp_path / "mixture") & held

    assert not learned(mined, question, [str(tmp_path / "unaware")]) & bits_of_held(mined.store)


def learned(mined: Mined, question: Question, chunks: list[str]) -> set[bytes]:
    """The positions of a pass of training on the store and on chunks that know nothing of it."""
    sources = _sources(read_net_file(mined.net), chunks, str(mined.store), question, TrainOptions(holdout=0.0), True)
    stream = TrainingStream(sources, 64, 0)
    batches = islice(stream.batches(), stream.positions // 64 + 1)
    return {row.tobytes() for batch in batches for row in batch.bits[:, OF_THE_BOARD]}


def bits_of_held(store: Path) -> set[bytes]:
    with Store.open(store) as opened:
        rows = opened.connection.execute("SELECT id FROM positions WHERE part <> 'train'").fetchall()
        batch = opened.positions([number for (number,) in rows])
    q = np.zeros(len(batch))
    bits = of_positions(batch, q, wdl_of(q, q), 1).batch().bits
    return {row.tobytes() for row in bits[:, OF_THE_BOARD]}
