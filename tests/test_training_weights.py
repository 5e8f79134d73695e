"""Training weights: lczero-training's formulas as its own code computes them, figures, side files, drawn chunks."""

from __future__ import annotations

import gzip
import json
import math
import subprocess
import tarfile
from dataclasses import astuple
from itertools import product
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lczero_training import compile_position_sampling, run_python
from tests.v6_records import positions_of, records_of
from valuerepair.chess import v6
from valuerepair.chess.positions import PHASES, boards, phases
from valuerepair.cli.weights import command
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.judge.weights import effective_sample_size, weights_of
from valuerepair.training.chunk_files import pack
from valuerepair.training.weighted import measure, write_sampled
from valuerepair.training.weights import (
    DiffFocus,
    Formula,
    PositionSampling,
    Soft,
    WeightTally,
    formula_text,
    parse_formula,
    phases_of,
    tally_lines,
)

Records = np.ndarray[Any, np.dtype[np.void]]


def records(n: int, seed: int = 0) -> Records:
    """Records with values as in self-play, some without the net's, one in ten without the policy's divergence."""
    draw = np.random.default_rng(seed)
    sample = np.zeros(n, v6.RECORD)
    sample["version"], sample["input_format"] = 6, 1
    sample["best_q"] = draw.uniform(-1, 1, n)
    sample["orig_q"] = np.clip(sample["best_q"] + draw.normal(0, 0.3, n), -1, 1)
    sample["orig_q"][draw.random(n) < 0.1] = np.nan
    sample["policy_kld"] = draw.exponential(0.2, n) * (draw.random(n) > 0.1)
    sample["visits"] = np.arange(n)
    return sample


# -- the trainers' own code -------------------------------------------------------------------------------------------

_SAMPLE = """
import json, random, sys
import chunkparser
path, *parameters = sys.argv[1:]
parser = chunkparser.ChunkParserInner.__new__(chunkparser.ChunkParserInner)
parser.init_structs()
parser.sample = 1
(parser.diff_focus_min, parser.diff_focus_slope, parser.diff_focus_q_weight,
 parser.diff_focus_pol_scale) = map(float, parameters)
data, kept = open(path, "rb").read(), []
for i in range(200):
    random.random = lambda: (i + 0.5) / 200
    kept.append([int.from_bytes(r[8340:8344], "little") for r in parser.sample_record(data)])
print(json.dumps(kept))
"""


@pytest.mark.parametrize("formula", [DiffFocus(), DiffFocus(0.3, 1.5, 2.0, 8.0), DiffFocus(1, 0), DiffFocus(-0.1, 2)])
def test_diff_focus_keeps_what_the_older_trainer_keeps(formula: DiffFocus, tmp_path: Path) -> None:
    sample = records(400)
    (tmp_path / "records").write_bytes(sample.tobytes())
    kept = run_python(tmp_path, _SAMPLE, str(tmp_path / "records"), *map(repr, astuple(formula)))
    weights = formula.weigh(sample)
    for i, names in enumerate(kept):
        assert names == np.flatnonzero((i + 0.5) / 200 <= weights).tolist()
    assert len(set(weights.tolist())) > 1 or formula.slope == 0


@pytest.fixture(scope="module")
def theirs_compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_position_sampling(tmp_path_factory.mktemp("trainer"))


@pytest.mark.parametrize(
    "formula",
    [
        PositionSampling(),
        PositionSampling(q_weight=6.0, pol_scale=3.5),
        PositionSampling(6.0, 3.5, alpha=3.0, beta=0.025, gamma=0.5, tau=0.8, default_weight=0.3),
        PositionSampling(1.0, 0.0, alpha=2.0, beta=0.1, gamma=2.0, tau=5.0),
    ],
)
def test_position_sampling_is_that_of_the_newer_trainer(formula: PositionSampling, theirs_compiled: Path) -> None:
    sample = records(500, seed=1)
    frames = np.stack([sample[name] for name in ("best_q", "orig_q", "policy_kld")], 1).astype("<f4")
    program = [str(theirs_compiled), *map(repr, astuple(formula))]
    done = subprocess.run(program, input=frames.tobytes(), capture_output=True, check=True)
    theirs = np.array(done.stdout.split(), np.float64)
    np.testing.assert_allclose(formula.weigh(sample), theirs, rtol=2e-6, atol=1e-7)


# -- formulas ---------------------------------------------------------------------------------------------------------


def test_soft_is_the_weight_of_books() -> None:
    sample = records(300)
    has_net_q = ~np.isnan(sample["orig_q"])
    gap = sample["orig_q"][has_net_q].astype(float) - sample["best_q"][has_net_q]
    np.testing.assert_allclose(Soft(0.3, 0.05).weigh(sample)[has_net_q], weights_of(gap, 0.3, 0.05))
    floored = Soft(0.3, 0.05, floor=0.2, unknown=0.7).weigh(sample)
    np.testing.assert_allclose(floored[has_net_q], 0.2 + 0.8 * weights_of(gap, 0.3, 0.05))
    assert (floored[~has_net_q] == 0.7).all()
    assert (Soft().weigh(sample)[~has_net_q] == 0).all()


@pytest.mark.parametrize("formula", [PositionSampling(6, 3.5, default_weight=0.3), DiffFocus(0.1, 2)])
def test_a_divergence_that_is_not_a_number_is_not_known(formula: Formula, tmp_path: Path) -> None:
    """The older trainer keeps such a record, in which policy_kld > 0 is false; the newer one has no weight for it."""
    game = records(40)
    game["policy_kld"][7], game["orig_q"][7] = np.nan, 0.5
    (tmp_path / "0.gz").write_bytes(pack(game))
    measured = measure([str(tmp_path)], formula, tmp_path / "side.parquet", quiet=True)
    weights = pq.read_table(tmp_path / "side.parquet")["weight"].to_numpy()
    assert weights[7] == pytest.approx(1 if isinstance(formula, DiffFocus) else 0.3)
    assert measured.as_json()["mean"] == pytest.approx(weights.mean(), rel=1e-6)


@pytest.mark.parametrize("formula", [DiffFocus(0.1, 2), PositionSampling(6, 3.5, 3, 0.025, 0.5), Soft(0.4, 0.2, 0.1)])
@given(best=st.floats(-1, 1), gaps=st.tuples(st.floats(0, 2), st.floats(0, 2)), kld=st.floats(1e-6, 5))
@settings(max_examples=100, deadline=None)
def test_more_disagreement_never_weighs_less(
    formula: Formula, best: float, gaps: tuple[float, float], kld: float
) -> None:
    sample = np.zeros(4, v6.RECORD)
    sample["best_q"], sample["policy_kld"] = best, kld
    sample["orig_q"] = [best + min(gaps), best + max(gaps), best - min(gaps), best - max(gaps)]
    weights = formula.weigh(sample)
    assert ((weights >= 0) & (weights <= 1)).all()
    assert weights[0] <= weights[1] + 1e-6
    assert weights[2] <= weights[3] + 1e-6
    np.testing.assert_allclose(weights[:2], weights[2:], atol=1e-5)


@given(st.sampled_from([DiffFocus(0.5, 2, 1, 3), PositionSampling(alpha=0.25), Soft(0.75, 0.5, 0.125, 1.0)]))
def test_formulas_are_read_as_they_are_written(formula: Formula) -> None:
    assert parse_formula(formula_text(formula)) == formula


def test_formulas_by_name() -> None:
    assert parse_formula("soft") == Soft()
    assert parse_formula("diff-focus:slope=2,q-weight=1") == DiffFocus(slope=2, q_weight=1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hard", "must be one of diff-focus, position-sampling, soft"),
        ("soft:slope=1", "setting slope: must be one of threshold, softness, floor, unknown"),
        ("soft:threshold", "'threshold' is not NAME=VALUE; soft has threshold, softness, floor, unknown"),
        ("diff-focus:slope=nan", "slope: must be a number"),
        ("diff-focus:q-weight=0,pol-scale=0", "must not be negative, nor both 0"),
        ("diff-focus:slope=-1,min=0", "min and slope must not be negative"),
        ("diff-focus:min=-0.1", "min and slope must not be negative"),
        ("soft:softness=-1", "softness must not be negative"),
        ("position-sampling:tau=0", "tau must be above 0"),
    ],
)
def test_wrong_formulas(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"--formula {text}: .*{message}"):
        parse_formula(text)


def test_phases_of_records_are_those_of_the_boards() -> None:
    """A game of python-chess to its end, both colours to move, in a plain and in a canonical format."""
    board, draw = chess.Board(), np.random.default_rng(3)
    moves: list[str] = []
    while not board.is_game_over() and len(moves) < 300:
        legal = sorted(board.legal_moves, key=lambda move: (not board.is_capture(move), move.uci()))
        move = legal[0] if draw.random() < 0.5 else legal[int(draw.integers(len(legal)))]
        moves.append(move.uci())
        board.push(move)
    positions = positions_of(moves)
    expected = phases(boards([position.fen for position in positions])).tolist()
    assert set(expected) == {0, 1, 2}
    for input_format in (1, 3):
        assert phases_of(records_of(positions, moves, input_format)).tolist() == expected


# -- figures ----------------------------------------------------------------------------------------------------------


def tally_of(games: list[np.ndarray[Any, Any]]) -> WeightTally:
    tally = WeightTally()
    for weights in games:
        tally.add(weights, np.zeros(len(weights)), np.zeros(len(weights), np.int64))
    return tally


def test_figures_are_those_of_all_weights_at_once() -> None:
    draw = np.random.default_rng(0)
    games = [draw.beta(0.3, 2, int(n)) for n in draw.integers(1, 90, 200)]
    every, tally = np.concatenate(games), tally_of(games)
    figures = tally.figures()
    assert figures["positions"] == len(every)
    assert figures["mean"] == pytest.approx(every.mean())
    assert figures["effective_positions"] == pytest.approx(effective_sample_size(every))
    assert figures["effective_games"] == pytest.approx(effective_sample_size([game.sum() for game in games]))
    for share, value in figures["quantiles"].items():
        assert value == pytest.approx(np.quantile(every, float(share), method="inverted_cdf"), rel=0.004, abs=2e-6)
    for factor in (0.3, 1.0, 2.5, 40.0):
        assert tally.kept(factor) == pytest.approx(np.minimum(factor * every, 1).mean(), abs=1e-4)
    for keep in (0.01, 0.2, 0.9):
        reached = tally.factor(keep)
        assert reached is not None
        assert np.minimum(reached * every, 1).mean() == pytest.approx(keep, abs=2e-4)


def test_what_weighs_nothing_cannot_be_kept() -> None:
    tally = tally_of([np.array([0.0, 0.0, 0.0, 0.5])])
    assert tally.factor(0.3) is None
    assert tally.factor(0.25) == pytest.approx(2.0, rel=1e-6)
    assert tally.histogram()[2] == 3
    assert tally_of([np.zeros(3)]).figures()["effective_positions"] == 0


@pytest.mark.parametrize("largest", [1.0, 0.025, 3.0, 0.9975, 1e-6])
def test_every_weight_is_in_the_histogram(largest: float) -> None:
    """The largest ones lie in its last bin."""
    for weights in (np.full(100, largest), np.random.default_rng(3).uniform(0, largest, 1_000).clip(None, largest)):
        tally = tally_of([np.append(weights, largest)])
        _, counts, zeros = tally.histogram()
        assert counts.sum() + zeros == tally.positions
        assert counts[-1] or largest <= 1e-5


def test_bands_add_up(chunks: Path) -> None:
    figures = measure([str(chunks)], Soft(floor=0.01), quiet=True).tally.figures()
    for rows in (figures["phases"], figures["disagreement"]):
        assert sum(row["positions"] for row in rows) == figures["positions"]
        assert sum(row["share_of_weight"] for row in rows) == pytest.approx(1)
    assert figures["disagreement"][-1]["from"] is None
    assert figures["disagreement"][-1]["positions"] == figures["net_unknown"] > 0
    assert [row["phase"] for row in figures["phases"]] == list(PHASES)
    assert any("not known" in line for line in tally_lines(figures, 0.5))


# -- chunks -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def chunks(tmp_path: Path) -> Path:
    """Twenty loose games, and twenty in a tar."""
    folder = tmp_path / "chunks"
    (folder / "sub").mkdir(parents=True)
    for i in range(20):
        (folder / "sub" / f"game_{i:06d}.gz").write_bytes(pack(records(30 + i, seed=i)))
    with tarfile.open(folder / "run.tar", "w") as tar:
        for i in range(20):
            path = tmp_path / f"training.{i}.gz"
            path.write_bytes(pack(records(40, seed=100 + i)))
            tar.add(path, f"run/{path.name}")
    return folder


def read_all(folder: Path) -> dict[str, Records]:
    records_by_name = {
        str(path.relative_to(folder)): np.frombuffer(gzip.decompress(path.read_bytes()), v6.RECORD)
        for path in sorted(folder.rglob("*.gz"))
    }
    for path in sorted(folder.rglob("*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                file = tar.extractfile(member)
                assert file is not None
                records_by_name[Path(member.name).name] = np.frombuffer(gzip.decompress(file.read()), v6.RECORD)
    return records_by_name


def test_side_file(chunks: Path, tmp_path: Path) -> None:
    formula = DiffFocus()
    measurement = measure([str(chunks)], formula, tmp_path / "side.parquet", quiet=True)
    side = pd.read_parquet(tmp_path / "side.parquet")
    assert side.columns.tolist() == ["chunk", "digest", "record", "weight"]
    assert len(side) == measurement.tally.positions == sum(len(game) for game in read_all(chunks).values())
    for name, game in read_all(chunks).items():
        rows = side[side.chunk == (f"run.tar: run/{name}" if name.startswith("training") else name)]
        assert rows.record.tolist() == list(range(len(game)))
        np.testing.assert_allclose(rows.weight, formula.weigh(game), rtol=1e-6)


def test_sampled_chunks_keep_order_and_records(chunks: Path, tmp_path: Path) -> None:
    measurement = measure([str(chunks)], DiffFocus(0.05, 1.0), quiet=True)
    manifest = write_sampled(measurement, tmp_path / "out", quiet=True)
    before, after = read_all(chunks), read_all(tmp_path / "out")
    assert set(after) <= set(before)
    for name, game in after.items():
        kept = game["visits"].tolist()
        assert kept == sorted(set(kept))
        assert game.tobytes() == before[name][kept].tobytes()
    assert manifest["kept"] == {"games": len(after), "positions": sum(map(len, after.values()))}
    assert (tmp_path / "out" / "run.tar").exists()


def test_members_of_one_name_in_folders_of_a_tar_stay_apart(tmp_path: Path) -> None:
    names = ("game_0", "x" * 110, "é" * 60)
    games = {f"{folder}/{name}.gz": i for i, (folder, name) in enumerate(product("abc", names))}
    games["d/game_0_2.gz"] = len(games)
    with tarfile.open(tmp_path / "run.tar", "w") as tar:
        for name, seed in games.items():
            path = tmp_path / "one.gz"
            path.write_bytes(pack(records(40, seed=seed)))
            tar.add(path, name)
    (tmp_path / "one.gz").unlink()
    measured = measure([str(tmp_path / "run.tar")], Soft(floor=1, unknown=1), quiet=True)
    write_sampled(measured, tmp_path / "out", quiet=True)
    with tarfile.open(tmp_path / "out" / "run.tar") as tar:
        kept_names = tar.getnames()
        packed = [file.read() for member in tar if (file := tar.extractfile(member)) is not None]
    assert len(set(kept_names)) == len(games)
    assert all(len(name.encode()) <= 100 and name.endswith(".gz") for name in kept_names)
    kept = sorted(gzip.decompress(content) for content in packed)
    assert kept == sorted(records(40, seed=seed).tobytes() for seed in games.values())


def test_sampled_shares_are_as_expected(chunks: Path, tmp_path: Path) -> None:
    formula = DiffFocus(0.05, 1.0)
    measurement = measure([str(chunks)], formula, quiet=True)
    counts: dict[tuple[str, int], int] = {}
    for seed in range(12):
        out = tmp_path / str(seed)
        write_sampled(measurement, out, keep=0.4, seed=seed, quiet=True)
        for name, game in read_all(out).items():
            for record in game["visits"].tolist():
                counts[name, record] = counts.get((name, record), 0) + 1
    factor = measurement.tally.factor(0.4)
    assert factor is not None
    chances, drawn = [], []
    for name, game in read_all(chunks).items():
        chances += np.minimum(factor * formula.weigh(game), 1).tolist()
        drawn += [counts.get((name, i), 0) for i in range(len(game))]
    chance, share = np.array(chances), np.array(drawn) / 12
    assert abs(share.mean() - 0.4) < 0.015
    for low in np.arange(0.1, 1.0, 0.1):
        part = (chance >= low) & (chance < low + 0.1)
        if part.sum() > 50:
            deviation = (chance[part] * (1 - chance[part]) / 12).sum() ** 0.5 / part.sum()
            assert abs(share[part].mean() - chance[part].mean()) < 4 * deviation
    assert (share[chance >= 1] == 1).all()


def test_sampling_is_reproducible(chunks: Path, tmp_path: Path) -> None:
    measurement = measure([str(chunks)], Soft(floor=0.1), quiet=True)
    outs = [tmp_path / name for name in "abc"]
    for out, seed in zip(outs, (5, 5, 6), strict=True):
        write_sampled(measurement, out, seed=seed, quiet=True)
    a, b, c = ({p.name: p.read_bytes() for p in out.rglob("*") if p.is_file()} for out in outs)
    assert a == b
    assert a != c


def steep(n: int, seed: int, k: float = 2.0) -> Records:
    """Records of a net whose Q is k times as steep in log odds as the search's, and right but for that."""
    steep_records = records(n, seed)
    steep_records["orig_q"] = np.tanh(k * np.arctanh(0.95 * steep_records["best_q"]))
    return steep_records


def test_a_net_of_another_scale_is_not_taken_for_a_blind_one(tmp_path: Path) -> None:
    for i in range(60):
        (tmp_path / f"game_{i:06d}.gz").write_bytes(pack(steep(60, i)))
    raw, fitted = (
        measure([str(tmp_path)], Soft(threshold=0.2), calibration=calibration, quiet=True)
        for calibration in ("none", "fitted")
    )
    # By up to 0.27 the net's Q is off; one that is right weighs 1 / (1 + exp(2)).
    assert raw.tally.mean > 0.4
    assert fitted.tally.mean == pytest.approx(1 / (1 + math.exp(2)), abs=0.01)
    assert fitted.calibration is not None
    # What 0.5 is worth follows from the definition: the search's Q where the net's is 0.5.
    assert fitted.calibration.worth(0.5).q == pytest.approx(math.tanh(math.atanh(0.5) / 2) / 0.95, abs=0.01)
    assert raw.sha256 == fitted.sha256
    manifest = write_sampled(fitted, tmp_path / "out", quiet=True)
    assert manifest["calibration"]["games"] == 60
    kept = read_all(tmp_path / "out")
    for name, game_records in kept.items():  # as they were: only their weights went by the curve
        assert np.isin(game_records["orig_q"], steep(60, int(name[5:11]))["orig_q"]).all()


def test_a_chunk_is_weighed_by_the_curve_of_others(tmp_path: Path) -> None:
    """One chunk that says the opposite of all others changes nothing for itself."""
    for i in range(60):
        (tmp_path / f"game_{i:06d}.gz").write_bytes(pack(steep(60, i)))
    other = steep(60, 60)
    other["orig_q"] *= -1
    (tmp_path / "game_000060.gz").write_bytes(pack(other))
    formula = Soft(threshold=0.3, softness=0)
    measure([str(tmp_path)], formula, tmp_path / "side.parquet", calibration="fitted", quiet=True)
    side = pq.read_table(tmp_path / "side.parquet").to_pydict()
    weights = [w for chunk, w in zip(side["chunk"], side["weight"], strict=True) if chunk.startswith("game_000060")]
    worth = np.tanh(np.arctanh(other["orig_q"].astype(float)) / 2) / 0.95  # by the definition of all the others
    gap = np.abs(worth - other["best_q"])
    clear = np.abs(gap - 0.3) > 0.05
    assert clear.sum() > 30
    assert (np.array(weights)[clear] == (gap >= 0.3)[clear]).all()


def test_too_few_chunks_for_a_curve(chunks: Path, tmp_path: Path) -> None:
    (tmp_path / "few").mkdir()
    (tmp_path / "few" / "game_1.gz").write_bytes(pack(records(40)))
    with pytest.raises(ValueRepairError, match="too few records have the net's own Q"):
        measure([str(tmp_path / "few")], Soft(), calibration="fitted", quiet=True)


def test_refusals(chunks: Path, tmp_path: Path) -> None:
    measurement = measure([str(chunks)], Soft(threshold=3.0, softness=0), quiet=True)
    with pytest.raises(ValueRepairError, match=r"--keep 0.5: only 0.0000 of the positions weigh anything"):
        write_sampled(measurement, tmp_path / "out", keep=0.5, quiet=True)
    with pytest.raises(UsageError, match="not empty"):
        write_sampled(measurement, chunks, quiet=True)
    with pytest.raises(UsageError, match=r"ends in .parquet"):
        measure([str(chunks)], Soft(), tmp_path / "side.csv", quiet=True)
    twice = measure([str(chunks), str(chunks)], Soft(), quiet=True)
    with pytest.raises(UsageError, match=r"two of the inputs have a file run.tar"):
        write_sampled(twice, tmp_path / "out", quiet=True)
    with pytest.raises(UsageError, match=r"two of the inputs have a file run.tar"):
        measure([str(chunks), str(chunks)], Soft(), tmp_path / "side.parquet", quiet=True)
    with pytest.raises(ValueRepairError, match=r"out: none of 1,\d{3} positions is kept"):
        write_sampled(measurement, tmp_path / "out", quiet=True)
    assert not (tmp_path / "out").exists()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "game_1.gz").write_bytes(b"\x1f\x8bnothing")
    with pytest.raises(ValueRepairError, match="no usable chunk"):
        measure([str(tmp_path / "bad")], Soft(), tmp_path / "side.parquet", quiet=True)
    assert not (tmp_path / "side.parquet").exists()
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("formula", [DiffFocus(), PositionSampling(), Soft()])
@pytest.mark.parametrize("calibration", ["none", "fitted"])
def test_an_infinite_value_is_named(formula: Formula, calibration: Any, tmp_path: Path) -> None:
    infinite = records(40)
    infinite["best_q"][6] = -np.inf
    (tmp_path / "game_1.gz").write_bytes(pack(infinite))
    with pytest.raises(ValueRepairError, match=r"^game_1\.gz: record 7 of 40: best_q is -inf; leave this chunk out$"):
        measure([str(tmp_path)], formula, calibration=calibration, quiet=True)


def test_command_line(chunks: Path, tmp_path: Path) -> None:
    def run(*arguments: str) -> Any:
        return CliRunner().invoke(command, [str(chunks), *arguments], catch_exceptions=False)

    (chunks / "broken_game.gz").write_bytes(gzip.compress(b"not a chunk"))
    text = run("--plot", str(tmp_path / "weights.svg")).output
    assert text.startswith("diff-focus:min=0.025,slope=3,q_weight=6,pol_scale=3.5\n")
    assert "left out: no training chunk 1; first: broken_game.gz" in text
    plot = (tmp_path / "weights.svg").read_text()
    assert all(f'id="{gid}"' in plot for gid in ("positions", "weight", "weights", "phase-weight"))
    out = str(tmp_path / "out")
    printed = json.loads(run("--formula", "soft:floor=0.1", "--sampled", out, "--keep", "0.2", "--json").stdout)
    assert printed["formula"]["floor"] == 0.1
    assert printed["kept"]["positions"] == sum(map(len, read_all(tmp_path / "out").values()))
    with pytest.raises(UsageError, match="needs --sampled"):
        run("--keep", "0.2")
    with pytest.raises(UsageError, match=r"ends in .png, .svg or .pdf"):
        run("--plot", "weights.txt")


@pytest.mark.filterwarnings("error")
def test_a_plot_of_records_without_the_net_s_q_says_so(tmp_path: Path) -> None:
    unknown = records(40)
    unknown["orig_q"] = np.nan
    (tmp_path / "game_1.gz").write_bytes(pack(unknown))
    CliRunner().invoke(command, [str(tmp_path), "--plot", str(tmp_path / "weights.svg")], catch_exceptions=False)
    assert "no record has the net's own Q" in (tmp_path / "weights.svg").read_text()
