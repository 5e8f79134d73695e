"""docs/formats.md names exactly the tables, columns and keys that the program writes."""

from __future__ import annotations

import json
import re
import sqlite3
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from tests.mcts_doubles import FakeNet
from tests.mix_sides import folder_of
from valuerepair.books.options import BookOptions
from valuerepair.books.write import BookFile, Manifest
from valuerepair.chess.positions import STARTPOS_FEN, Position
from valuerepair.judge.labels import label_frame
from valuerepair.judge.split import Split, write_split
from valuerepair.mcts.forest import Forest
from valuerepair.nets.net import NetIdentity
from valuerepair.oracles.searching import Searched
from valuerepair.play.experiment import selfplay_row, setting_of
from valuerepair.store.queries import COLUMNS
from valuerepair.store.schema import SCHEMA_VERSION, migrate
from valuerepair.training.mix import MixOptions, mix
from valuerepair.training.weighted import measure
from valuerepair.training.weights import parse_formula

PAGE = (Path(__file__).parents[1] / "docs" / "formats.md").read_text("utf-8")


def rows(heading: str, which: int = 0) -> list[list[str]]:
    """The cells of a table below a heading, without the head: the first table, or a later one."""
    section = PAGE.split(f"\n{heading}\n", 1)[1]
    section = re.split(r"\n#+ ", section, maxsplit=1)[0]
    tables = re.findall(r"(?:^\|.*\n)+", section + "\n", re.M)
    return [[cell.strip() for cell in line.strip("|\n ").split("|")] for line in tables[which].splitlines()[2:]]


def names(heading: str, which: int = 0) -> list[str]:
    return [row[0] for row in rows(heading, which)]


@pytest.fixture(scope="module")
def schema() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    migrate(connection, "store")
    return connection


def tables(connection: sqlite3.Connection) -> list[str]:
    return [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]


def test_the_tables_of_the_store(schema: sqlite3.Connection) -> None:
    assert set(re.findall(r"^### Table `(\w+)`$", PAGE, re.M)) == set(tables(schema))
    assert f"is the version of the tables,\n{SCHEMA_VERSION} at present" in PAGE


def test_the_columns_of_each_table(schema: sqlite3.Connection) -> None:
    for table in tables(schema):
        columns = schema.execute(f"SELECT name, type, \"notnull\", pk FROM pragma_table_info('{table}')")
        expected = [[name, kind + ("" if needed or key else " null")] for name, kind, needed, key in columns]
        assert [row[:2] for row in rows(f"### Table `{table}`")] == expected, table


def test_the_columns_of_exports() -> None:
    assert names("### Columns") == COLUMNS


def test_the_columns_of_labels() -> None:
    start = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
    row: dict[str, object] = dict.fromkeys(COLUMNS)
    row |= {"moves": "", "pv": "", "fen": start, "start_fen": start, "phase": "opening"}
    row |= {"net_q": 0.5, "deep_q": -0.5, "disagreement": 1.0} | dict.fromkeys(("mate", "net_w", "deep_w"), np.nan)
    row |= dict.fromkeys(("net_d", "net_l", "deep_d", "deep_l"), np.nan)
    labels = label_frame(pd.DataFrame([row]))
    assert names("### Columns of labels") == [name for name in labels.columns if name not in COLUMNS]


def test_the_keys_of_searches() -> None:
    position, net = Position(STARTPOS_FEN), NetIdentity("a net", "ab", "wdl", 1, 100)
    [(_, result)] = Forest(FakeNet(), trees=1, nodes=5).search([position], 5)
    written = Searched(position, net, result).as_json()
    assert names("## Searches") == list(written)
    assert names("## Searches", 1) == list(written["root_moves"][0])
    failed = list(Searched(position, net, None, "why").as_json())
    assert failed == [*names("## Searches")[: len(failed) - 1], "error"]
    assert failed[-2] == "net_sha256"


def test_the_keys_of_the_manifest_of_a_book() -> None:
    keys = {field.name for field in fields(Manifest)} - {"options"} | {option.name for option in fields(BookOptions)}
    assert set(names("### Manifest of a book")) == keys - {"question", "softness"}
    assert names("### Manifest of a book", 1) == [field.name for field in fields(BookFile)]


def test_mixtures(tmp_path: Path) -> None:
    folders = [folder_of(tmp_path / name, [3, 4, 5, 6], seed) for seed, name in ((0, "repair"), (50, "normal"))]
    mix(MixOptions(repair=(folders[0],), normal=(folders[1],), share=0.5), tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert names("### Manifest of a mixture") == list(manifest)
    columns = pq.read_schema(tmp_path / "out" / "games.parquet")
    assert [row[:2] for row in rows("### Games of a mixture")] == [[field.name, str(field.type)] for field in columns]


def test_training_weights(tmp_path: Path) -> None:
    measure([folder_of(tmp_path / "chunks", [3, 4])], parse_formula("soft"), tmp_path / "w.parquet", quiet=True)
    columns = pq.read_schema(tmp_path / "w.parquet")
    assert [row[:2] for row in rows("## Training weights")] == [[field.name, str(field.type)] for field in columns]


def test_games_of_experiments() -> None:
    row = selfplay_row(setting_of("n_scl=5"), [], 0.5)
    assert names("## Experiments on disk") == [*row, "nodes", "planned"]


def test_the_keys_of_a_split(tmp_path: Path) -> None:
    write_split(tmp_path / "split.json", Split())
    assert names("## Splits") == list(json.loads((tmp_path / "split.json").read_text()))
