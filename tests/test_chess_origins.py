"""Origins and evaluations as columns say what the records say that they stand for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from valuerepair.archives.chunks import per_mille
from valuerepair.archives.options import CHUNKS, EVAL, RecordedOptions
from valuerepair.chess.origins import Origin, OriginGame, Origins, QColumns, Recorded
from valuerepair.chess.positions import Position, PositionBatch
from valuerepair.oracles.recorded import RecordedSource, net_values, result_of
from valuerepair.store.rows import DeepColumns

_GAMES = [
    OriginGame("a.pgn", 1, 0, {"White": "A"}, "1-0", 1 << 63),
    OriginGame("a.pgn", 2, 90, {"White": "B"}, None),
    OriginGame("b.tar", 1, 5),
]
_recorded = st.none() | st.builds(
    Recorded,
    st.sampled_from([EVAL, CHUNKS]),
    cp=st.none() | st.integers(-900, 900),
    mate=st.none() | st.integers(1, 9),
    depth=st.integers(0, 40),
    best_move=st.none() | st.just("e2e4"),
    pv=st.sampled_from([(), ("e2e4",), ("e2e4", "e7e5")]),
)


@st.composite
def _origins(draw: st.DrawFn) -> list[Origin]:
    origins = []
    for _ in range(draw(st.integers(0, 6))):
        game, recorded = draw(st.sampled_from(_GAMES)), draw(_recorded)
        played = draw(st.sampled_from([None, "e2e4", "g1f3"]))
        about = game.source, game.number, game.offset, game.headers, played, game.result, recorded
        origins.append(Origin(*about, game_key=game.key))
    return origins


def _q_columns(n: int, seed: int) -> QColumns:
    dice = np.random.default_rng(seed)
    q, d = dice.uniform(-1, 1, n), dice.uniform(0, 1, n)
    best = ["e2e4" if i % 3 else None for i in range(n)]
    net_q, net_d = dice.uniform(0, 1, (2, n)).astype(np.float32)
    return QColumns(CHUNKS, q, per_mille(q, d), dice.integers(0, 900, n), best, net_q, net_d)


@given(_origins(), _origins(), st.data())
def test_columns_give_the_records_they_were_made_of(
    first: list[Origin], second: list[Origin], data: st.DataObject
) -> None:
    columns = [Origins.of(first), Origins.of(second)]
    assert list(columns[0]) == first
    games = [OriginGame(o.source, o.game, o.offset, o.headers, o.result, o.game_key) for o in first]
    assert games == list(columns[0].game)
    together = Origins.concat(columns)
    assert list(together) == first + second
    rows = data.draw(st.lists(st.integers(0, len(together) - 1), max_size=9)) if len(together) else []
    assert list(together.take(np.array(rows, np.int64))) == [(first + second)[i] for i in rows]
    assert list(together[1:3]) == (first + second)[1:3]


@given(_origins())
def test_origins_have_the_scores_of_their_evaluations(origins: list[Origin]) -> None:
    columns = Origins.of(origins)
    assert columns.scores("cp") == [origin.eval_cp for origin in origins]
    assert columns.scores("mate") == [origin.eval_mate for origin in origins]


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 99))
def test_evaluations_that_are_q_are_columns_and_records(n: int, more: int, seed: int) -> None:
    first, second = _q_columns(n, seed), _q_columns(more, seed + 1)
    both = QColumns.concat([first, second])
    assert list(both) == [*first, *second]
    assert list(both.take(np.arange(n + more)[::-1])) == [*first, *second][::-1]
    for row, recorded in enumerate(both):
        assert recorded.q == both.q[row]
        assert sum(recorded.wdl or ()) == 1000
        assert recorded.pv == ((recorded.best_move,) if recorded.best_move else ())
    # Evaluations of several kinds together are records again, as are those beside positions without any.
    games, nothing = [_GAMES[0]] * (n + more), [None] * (n + more)
    mixed = Origins.concat([Origins(games, nothing, both), Origins(games, nothing), Origins(games, nothing, nothing)])
    assert [origin.recorded for origin in mixed] == [*both, *nothing, *nothing]


@pytest.mark.parametrize(
    ("q", "d", "expected"),
    [
        (1.0, 0.0, [1000, 0, 0]),
        (-1.0, 0.0, [0, 0, 1000]),
        (0.0, 1.0, [0, 1000, 0]),
        (0.25, 0.5, [375, 500, 125]),
        (1.0005, 0.0, [1000, 0, 0]),  # drift of 32-bit means
        (np.nan, 0.5, [0, 1000, 0]),
    ],
)
def test_per_mille(q: float, d: float, expected: list[int]) -> None:
    assert per_mille(np.array([q]), np.array([d])).tolist() == [expected]


@given(st.integers(0, 9), st.integers(0, 99))
def test_a_batch_of_evaluations_is_what_one_at_a_time_is(n: int, seed: int) -> None:
    columns = Origins([_GAMES[2]] * n, [None] * n, _q_columns(n, seed))
    _same_at_once([Position("8/8/8/8/8/8/8/8 w - - 0 1", origin=origin) for origin in columns], columns)


@given(_origins())
def test_a_batch_of_records_is_what_one_at_a_time_is(origins: list[Origin]) -> None:
    _same_at_once([Position("8/8/8/8/8/8/8/8 w - - 0 1", origin=origin) for origin in origins], Origins.of(origins))


def _same_at_once(positions: list[Position], columns: Origins) -> None:
    for kind in (CHUNKS, EVAL):
        source = RecordedSource.of(RecordedOptions(kind))
        batch = replace(PositionBatch.from_positions(positions), origin=columns)
        recorded_values = [(i, position.origin.recorded) for i, position in enumerate(positions)]
        scored = [
            (i, result_of(recorded))
            for i, recorded in recorded_values
            if recorded is not None and recorded.kind == kind
        ]
        rows, values = source.deep_values(batch)
        assert rows.tolist() == [i for i, _ in scored]
        expected = DeepColumns.of([outcome for _, outcome in scored])
        assert [list(column) for column in values] == [list(column) for column in expected]
    at_once = net_values(batch)
    apart = net_values(PositionBatch.from_positions(positions))
    np.testing.assert_array_equal(at_once.wdl, apart.wdl)
