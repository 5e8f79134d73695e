"""`vr show --family` and `store.family`: the tree against SQL and python-chess, whichever member is asked for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import chess
import pandas as pd
import pytest
from click.testing import CliRunner
from valuerepair.report.family import MARKS, Leaf, family_of, lines

import valuerepair as vr
from tests.expanded_store import expanded_store
from valuerepair.cli import cli
from valuerepair.errors import ValueRepairError
from valuerepair.question import Question
from valuerepair.store.store import Store

ASKED = Question(alpha=170.0)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return expanded_store(tmp_path_factory.mktemp("family"))


@pytest.fixture(scope="module")
def rows(path: Path) -> pd.DataFrame:
    with Store.open(path) as store:
        query = "SELECT e.*, p.fen, p.moves FROM expanded e JOIN positions p ON p.id = e.position_id"
        return pd.read_sql(query, store.connection)


def shown(path: Path, *words: object) -> str:
    done = CliRunner().invoke(cli, ["show", *map(str, words), "--db", str(path), "--alpha", "170"])
    assert done.exit_code == 0, done.output
    return done.stdout


def trees(path: Path, rows: pd.DataFrame) -> dict[int, list[Leaf]]:
    with Store.open(path) as store:
        return {int(root): family_of(store, int(root), ASKED) for root in rows["root_id"].unique()}


def test_each_member_is_there_once_behind_what_it_was_reached_from(path: Path, rows: pd.DataFrame) -> None:
    families = trees(path, rows)
    assert len(families) > 8
    deepest = 0
    for root, leaves in families.items():
        members = rows[rows["root_id"] == root].set_index("position_id")
        assert leaves[0].position_id == root
        assert sorted(leaf.position_id for leaf in leaves[1:]) == sorted(members.index)
        for place, leaf in enumerate(leaves[1:], 1):
            row, parent = members.loc[leaf.position_id], leaves[leaf.after]
            assert leaf.after < place
            assert (parent.position_id, leaf.parent_id) == (row["parent_id"], row["parent_id"])
            assert leaf.level == parent.level + 1
            assert (leaf.step, leaf.distance, leaf.round) == (row["step"], row["distance"], row["round"])
            deepest = max(deepest, leaf.level)
    assert deepest == 2


def test_any_member_has_the_tree_of_its_root(path: Path, rows: pd.DataFrame) -> None:
    families = trees(path, rows)
    with Store.open(path) as store:
        for row in rows.iloc[::17].itertuples():
            assert family_of(store, int(str(row.position_id)), ASKED) == families[int(str(row.root_id))]


def test_moves_are_those_that_python_chess_plays(path: Path, rows: pd.DataFrame) -> None:
    checked = dict.fromkeys(("line", "parent", "child"), 0)
    for leaves in trees(path, rows).values():
        for leaf in leaves[1:]:
            parent = leaves[leaf.after]
            before = chess.Board(leaf.fen if leaf.step == "parent" else parent.fen)
            if leaf.step == "line" and leaf.distance and leaf.distance > 1:
                of_line = [other for other in leaves if other.step == "line" and other.after == leaf.after]
                nearer = [other for other in of_line if other.distance == leaf.distance - 1]
                if not nearer:
                    continue
                before = chess.Board(nearer[0].fen)
            number, san = leaf.move.split()
            assert number == f"{before.fullmove_number}." + ("" if before.turn else "..")
            before.push_san(san)
            assert leaf.later == (leaf.step != "parent")
            if leaf.step != "parent":
                assert before.fen() == leaf.fen
            elif leaf.distance == 1:
                assert before.fen() == parent.fen
            checked[leaf.step or ""] += 1
    assert min(checked.values()) > 20, checked


def test_values_and_marks_are_those_of_the_frame(path: Path, rows: pd.DataFrame) -> None:
    with Store.open(path) as store:
        frame = store.frame(Question(alpha=170.0, expanded="all")).set_index("position_id")
    cut = set(rows.loc[rows["cut_at"].notna(), "position_id"])
    marks = set()
    for leaves in trees(path, rows).values():
        for leaf in leaves:
            marks.add(leaf.mark)
            if leaf.position_id not in frame.index:
                assert leaf.mark == ("cut" if leaf.position_id in cut else "not searched")
                assert leaf.deep_q is None
                continue
            row = frame.loc[leaf.position_id]
            assert (leaf.net_q, leaf.deep_q) == pytest.approx((row["net_q"], row["deep_q"]))
            assert leaf.disagreement == pytest.approx(row["disagreement"])
            assert leaf.candidate == (abs(row["disagreement"]) >= 0.55)
            assert leaf.inferred == bool(row["inferred"])
    assert marks == {"candidate", "inferred candidate", "none", "inferred none", "cut", "not searched"}


def test_text_and_json_say_the_same(path: Path, rows: pd.DataFrame) -> None:
    number = int(rows.loc[rows["step"] == "child", "position_id"].iloc[0])
    text, printed = shown(path, number, "--family"), json.loads(shown(path, number, "--family", "--json"))
    tree = text[text.index("\nfamily ") + 1 :].splitlines()
    assert len(tree) == len(printed["family"]) + 2
    for line, leaf in zip(tree[1:-1], printed["family"], strict=True):
        assert f"  {leaf['position_id']}  net {leaf['net_q']:+.3f}" in line
        assert MARKS[leaf["mark"]][0] in line
        assert leaf["move"] in line
        assert line.endswith("<- this one") == (leaf["position_id"] == number)
    assert "family" not in json.loads(shown(path, number, "--json"))
    assert f"candidates at 0.55: {sum(leaf['candidate'] for leaf in printed['family'])}," in tree[0]


def test_a_terminal_without_unicode_gets_plain_marks(path: Path) -> None:
    with Store.open(path) as store:
        leaves = family_of(store, int(store.candidates(ASKED)["position_id"].iloc[0]), ASKED)
    text = "\n".join(lines(leaves, 0, 0.55, unicode=False))
    assert text.isascii()
    assert len(text.splitlines()) == len(leaves) + 2


def test_the_lines_of_the_tree_lead_to_each_position(path: Path, rows: pd.DataFrame) -> None:
    """A stroke goes down from a row as long as a sibling is still to come, and no further."""
    for leaves in trees(path, rows).values():
        shown = lines(leaves, 0, 0.55)[1:-1]
        for i, leaf in enumerate(leaves[1:], 1):
            at = 3 * (leaf.level - 1)
            later = [k for k in range(i + 1, len(leaves)) if leaves[k].after == leaf.after]
            assert shown[i][at] == ("├" if later else "└")
            for k in range(i + 1, later[0] if later else i + 1):
                assert shown[k][at] == "│"


def test_a_position_without_a_family_says_so(path: Path, rows: pd.DataFrame) -> None:
    with Store.open(path) as store:
        frame = store.frame(ASKED)
    alone = int(frame.loc[~frame["position_id"].isin(rows["root_id"]), "position_id"].iloc[0])
    assert shown(path, alone, "--family").rstrip().endswith("family    none: vr expand reached nothing from it")
    assert json.loads(shown(path, alone, "--family", "--json"))["family"] == []


def test_how_it_was_reached_is_said_of_one_position(path: Path, rows: pd.DataFrame) -> None:
    with Store.open(path) as store:
        frame = store.frame(Question(alpha=170.0, expanded="all"))
    inferred = int(frame.loc[frame["inferred"], "position_id"].iloc[0])
    row = rows[rows["position_id"] == inferred].iloc[0]
    text, printed = shown(path, inferred), json.loads(shown(path, inferred, "--json"))
    assert "inferred from the line of a search" in text
    assert " 0 nodes" not in text
    assert f"reached   by vr expand from position {row['parent_id']}: line, " in text
    assert printed["deep"]["inferred"] is True
    assert printed["reached"] == {name: row[name] for name in ("root_id", "parent_id", "step", "distance")}
    cut = rows.loc[rows["cut_at"].notna(), "position_id"].iloc[0]
    assert "cut by the screening ladder at 1,000 nodes, with a chance of 1.00 %" in shown(path, cut)
    sampled = json.loads(shown(path, row["root_id"], "--json"))
    assert sampled["reached"] is None
    assert sampled["deep"]["inferred"] is False


def test_python_has_it_as_a_frame(path: Path, rows: pd.DataFrame) -> None:
    root = int(rows["root_id"].iloc[0])
    with vr.open_store(path) as store:
        table = store.family(root, ASKED)
        assert store.family(int(table["position_id"].iloc[-1]), ASKED).equals(table)
        nothing = store.family(10**9, ASKED)
    assert table["position_id"].iloc[0] == root
    assert pd.isna(table["parent_id"].iloc[0])
    assert len(table) == 1 + (rows["root_id"] == root).sum()
    assert list(nothing.columns) == list(table.columns)
    assert nothing.empty


def test_other_histories_and_lost_parents_still_make_a_tree(path: Path, rows: pd.DataFrame, tmp_path: Path) -> None:
    """A position met before in another game, one whose parent is gone: nothing is lost. Moves that are none: said."""
    db = tmp_path / "odd.db"
    shutil.copy(path, db)
    root = int(rows["root_id"].iloc[0])
    of = rows[rows["root_id"] == root]["position_id"].tolist()
    with Store.open(db, write=True) as store, store.writing() as connection:
        history = "fen, start_fen, moves"
        other = f"SELECT {history} FROM positions WHERE id = 3"
        connection.execute(f"UPDATE positions SET ({history}) = ({other}) WHERE id = ?", (of[0],))
        connection.execute("UPDATE expanded SET parent_id = 3 WHERE position_id = ?", (of[1],))
    with Store.open(db) as store:
        leaves = family_of(store, root, ASKED)
        assert {leaf.position_id for leaf in leaves} == {root, *of}
        assert len(lines(leaves, root, 0.55)) == len(leaves) + 2
    with Store.open(db, write=True) as store, store.writing() as connection:
        connection.execute("UPDATE positions SET moves = x'0000' WHERE id = ?", (of[2],))
    with Store.open(db) as store, pytest.raises(ValueRepairError, match=f"positions, row id {of[2]}, column moves"):
        family_of(store, root, ASKED)


def test_what_is_not_scored_has_no_family(tmp_path: Path, path: Path) -> None:
    db = tmp_path / "bare.db"
    shutil.copy(path, db)
    with Store.open(db, write=True) as store, store.writing() as connection:
        for table in ("deep_values", "net_values"):
            connection.execute(f"DELETE FROM {table}")
    with pytest.raises(ValueRepairError, match=r"is scored") as caught:
        CliRunner().invoke(cli, ["show", "1", "--family", "--db", str(db)], catch_exceptions=False)
    assert "\n" not in str(caught.value)
