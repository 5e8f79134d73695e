"""Recorded evaluations as judges: identities, settings, values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import chess
import numpy as np
import pytest

from tests.mining_doubles import KeyNet
from valuerepair.archives.options import RecordedOptions, SampleOptions
from valuerepair.chess.origins import Origin, Recorded
from valuerepair.chess.positions import Position, PositionBatch
from valuerepair.engines.kinds import parse_spec
from valuerepair.errors import UsageError
from valuerepair.mining.mine import MineOptions, mine
from valuerepair.oracles.recorded import (
    RecordedNet,
    RecordedSource,
    chunk_net_name,
    identity_of,
    net_values,
    recorded_options,
    result_of,
)
from valuerepair.store.rows import DeepColumns, DeepResult
from valuerepair.store.store import Store

# -- identities and settings ------------------------------------------------------------------------------------------


def test_what_changes_values_makes_another_judge() -> None:
    options = [
        RecordedOptions("eval"),
        RecordedOptions("eval", depth=False),
        RecordedOptions("eval", min_depth=20),
        RecordedOptions("eval", view="mover"),
        RecordedOptions("cutechess"),
        RecordedOptions("cutechess", by="Leela"),
        RecordedOptions("dump", min_nodes=1000),
    ]
    assert len({identity_of(option).digest for option in options}) == len(options)
    # What is so anyway, or follows from the archive, does not.
    by_depth = identity_of(RecordedOptions("eval", view="white", depth=True))
    assert by_depth.label == "recorded kind=eval"
    assert identity_of(RecordedOptions("eval", depth=True)).digest == by_depth.digest
    assert identity_of(RecordedOptions("cutechess", depth=True)).digest == identity_of(options[4]).digest
    # With and without depth together, from standard input, is neither.
    assert identity_of(options[0]).label == "recorded kind=eval depth=any"
    assert identity_of(options[5]).label == "recorded kind=cutechess by=Leela"
    assert identity_of(options[2]).label == "recorded min-depth=20 kind=eval"
    chunks = RecordedOptions("chunks")
    assert identity_of(chunks, "a.tar").digest != identity_of(chunks, "b.tar").digest
    assert identity_of(chunks, "T80").label == "recorded T80 kind=chunks"


def test_chunks_of_one_net_belong_together_only_when_that_is_said() -> None:
    assert chunk_net_name(["/data/a.tar"], {}) == "a.tar"
    assert chunk_net_name(["x/a", "b.tar", "c", "d", "e"], {}) == "a, b.tar, c and 2 more"
    assert chunk_net_name(["/data/a.tar"], {"net": "T80"}) == "T80"
    names = {"a.tar", "b.tar", "T80"}
    assert len({RecordedNet.named(name).identity.sha256 for name in names}) == 3
    assert RecordedNet.named("T80").identity.name == "recorded in T80"


@pytest.mark.parametrize("setting", ["kind=lichess", "view=black", "min-depth=0", "knid=eval", "kind"])
def test_settings_are_checked_when_they_are_read(setting: str) -> None:
    with pytest.raises(UsageError, match=setting.partition("=")[0]):
        parse_spec(f"recorded:{setting}")


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("recorded:kind=chunks,view=white", "training chunks"),
        ("recorded:kind=chunks,min-depth=3", "training chunks"),
        ("recorded:kind=selfplay,view=white", "selfplay"),
        ("recorded:kind=dump,net=T80", "net="),
        ("recorded:kind=eval,by=x", "which player"),
    ],
)
def test_settings_that_make_no_sense_together(text: str, fact: str) -> None:
    with pytest.raises(UsageError, match=fact):
        recorded_options(parse_spec(text), ["-"])


def test_a_given_kind_is_taken_without_a_look_at_the_archives(said: list[str]) -> None:
    options = recorded_options(parse_spec("recorded:kind=tcec,min-nodes=10k,by=LCZero"), ["-"])
    assert options == RecordedOptions("tcec", min_nodes=10_000, by="LCZero")
    assert said == [
        "deep values: recorded ones, {d=16, ..., wv=0.43, ...} comments of PGN files, as TCEC writes them; "
        "nothing is searched"
    ]


EVALS = "1. e4 {[%eval 0.2]} e5 {[%eval 0.3,20]} 2. Nf3 {[%eval 0.1]} Nc6 {[%eval 0.4,18]} 3. Bb5"


def test_evaluations_with_and_without_depth_are_never_one_judge_unsaid(tmp_path: Path, said: list[str]) -> None:
    path = tmp_path / "a.pgn"
    path.write_text(f'[Result "*"]\n\n{EVALS} *\n')
    for text in ("recorded", "recorded:kind=eval"):
        said.clear()
        assert recorded_options(parse_spec(text), [str(path)]) == RecordedOptions("eval", depth=False)
        assert said[-1].startswith("these evaluations have no depth: their depth is unknown")
    both = RecordedOptions("eval")
    with Store.open(tmp_path / "a.db", create=True) as store:
        options = MineOptions(sample=SampleOptions(per_game=None, min_ply=0))
        done = mine([str(path)], options, store, KeyNet(), RecordedSource.of(both))
    assert done.remarks == ["recorded evaluations: depth 18 to 20, median 19 (2 do not say); nodes not recorded"]


def test_the_deep_values_are_what_positions_bring() -> None:
    recorded = Recorded("eval", cp=31, depth=20, nodes=5, best_move="e2e4", pv=("e2e4",))
    origins = [Origin(recorded=brought) for brought in (None, recorded, replace(recorded, kind="tcec"))]
    batch = PositionBatch.from_positions([Position(chess.STARTING_FEN, origin=origin) for origin in origins])
    rows, columns = RecordedSource.of(RecordedOptions("eval")).deep_values(batch)
    assert rows.tolist() == [1]
    outcome = DeepResult(cp=31, depth=20, nodes=5, best_move="e2e4", pv=("e2e4",))
    assert list(columns) == list(DeepColumns.of([outcome]))
    assert result_of(Recorded("epd", cp=900, mate=3)) == DeepResult(mate=3)


def test_the_values_of_the_chunks_net_are_what_the_records_say() -> None:
    origins = [Origin(recorded=Recorded("chunks", q=0.1, net_q=0.5, net_d=0.3)), Origin(recorded=Recorded("chunks"))]
    batch = PositionBatch.from_positions([Position(chess.STARTING_FEN, origin=o) for o in origins])
    values = net_values(batch)
    assert values.q.tolist()[0] == 0.5
    assert values.wdl[0].tolist() == pytest.approx([0.6, 0.3, 0.1])
    assert np.isnan(values.q[1])
    assert values.best_move.tolist() == [0, 0]
    assert np.isnan(values.priors).all()
