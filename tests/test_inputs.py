"""What anybody may have written: every reader takes it, or refuses it with one line that names the file."""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from valuerepair.training.drawing import read_weights

from tests.cli_tree import SAMPLE
from tests.vr_runs import here
from valuerepair.chess.position_text import read_position, read_positions
from valuerepair.cluster.connection import parse_cluster
from valuerepair.errors import ValueRepairError
from valuerepair.judge.split import Split, read_split, write_split
from valuerepair.nets import canary, session
from valuerepair.nets.net import open_net
from valuerepair.nets.protobuf import LC0
from valuerepair.nets.weights import LC0_MAGIC, read_net_file
from valuerepair.pipeline.plan import Stage
from valuerepair.pipeline.rates import Rates, rates
from valuerepair.pipeline.run import StageNote, StageNotes, q_scales
from valuerepair.pipeline.settings import Settings
from valuerepair.report.training import drawing as draw_training
from valuerepair.training import checkpoint, chunk_output
from valuerepair.training.chunk_output import ChunkOutput
from valuerepair.training.store_chunks import ChunkOptions
from valuerepair.training.train import Training, read_curve, write_curve

# -- JSON -------------------------------------------------------------------------------------------------------------

OTHER_FILES = {
    "empty": b"",
    "not JSON": b"hello",
    "not UTF-8": b'{"version": "\xff\xfe"}',
    "UTF-16": '{"version": 1}'.encode("utf-16"),
    "a list": b"[]",
    "null": b"null",
    "nested lists": b"[" * 100_000,
    "nested objects": b'{"a":' * 100_000,
    "nested below an unknown key": b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "cut off": b'{"version": "valuerepair 0.',
    "a key with a line break and escapes": b'{"\\n\\u001b[31m' + b"x" * 5000 + b'": 1}',
}
OTHER_VALUES = [
    "[" * 100_000 + "]" * 100_000, "1e999", "-1e999", "NaN", "null", "true", "-1", "0", "1.5", '""', '"text"', "[]",
    "{}", "[null]", '[{"a": 1}]', "9" * 5000, "9" * 30, '"\\ud800"', '"\\u0000"',
]  # fmt: skip


@dataclass(frozen=True)
class JsonReader:
    """`write` makes a good file in a folder and returns its path; `read` reads it. An `open` one takes other fields."""

    write: Callable[[Path], Path]
    read: Callable[[Path], object]
    open: bool = False


def write_a_split(folder: Path) -> Path:
    write_split(folder / "split.json", Split(openings=("Sicilian Defense",), materials=("KQvKR",), archives=("a.pgn",)))
    return folder / "split.json"


def write_a_curve(folder: Path) -> Path:
    row = {"step": 0, "lr": 0.0, "train_loss": None, "loss": 1.5, "mean_dq": 0.2, "rate": 0.1, "policy_kl": 0.0}
    about = {"output": "new.pb.gz", "net": {"name": "old", "sha256": "0"}, "options": {"steps": 100, "lr": 1e-3}}
    about |= {"written": {"step": 50}, "amplitude": {"lambda": 0.9, "lambda_in_q": None}}
    write_curve(folder / "new.pb.gz", Training(about, [row, {**row, "step": 50, "train_loss": 1.4}]))
    return folder / "new.training.json"


def write_stages(folder: Path) -> Path:
    StageNotes(folder).note(StageNote("mine", "vr mine a.pgn", "identity", 10.0, 12.5, True))
    return folder / "stages.json"


def write_unfinished(folder: Path) -> Path:
    chunks = folder / "chunks"
    with patch.object(chunk_output, "SHARD_CHUNKS", 1), ChunkOutput(chunks, {"seed": 1}, ChunkOptions()) as output:
        output.add(b"1", 1)
        output.add(b"2", 1)
    return folder / "chunks" / "unfinished.json"


def go_on(path: Path) -> object:
    chunks = path.parent
    with patch.object(chunk_output, "SHARD_CHUNKS", 1), ChunkOutput(chunks, {"seed": 1}, ChunkOptions()) as output:
        return output.chunks


def write_a_match(folder: Path) -> Path:
    (folder / "scale-old.json").write_text('{"q_scale": {"value": 0.74, "low": 0.7}, "games": 402}')
    return folder / "scale-old.json"


def scale_of(path: Path) -> object:
    stage = Stage("match", ("match",), "", 1.0, scaled_by=path.name)
    return q_scales(path.parent, stage)


def write_a_scheduler_file(folder: Path) -> Path:
    (folder / "scheduler.json").write_text('{"type": "Scheduler", "id": "a", "address": "tcp://10.0.0.1:8786"}')
    return folder / "scheduler.json"


JSON_READERS = {
    "split": JsonReader(write_a_split, read_split),
    "curve": JsonReader(write_a_curve, read_curve, open=True),
    "stages": JsonReader(write_stages, lambda path: StageNotes(path.parent)),
    "unfinished chunks": JsonReader(write_unfinished, go_on),
    "match": JsonReader(write_a_match, scale_of, open=True),
    "scheduler file": JsonReader(write_a_scheduler_file, lambda path: parse_cluster(str(path)), open=True),
}


@pytest.fixture(params=JSON_READERS)
def reader(request: pytest.FixtureRequest) -> JsonReader:
    return JSON_READERS[request.param]


@pytest.mark.parametrize("kind", OTHER_FILES)
def test_another_file_is_refused_with_one_line(reader: JsonReader, kind: str, tmp_path: Path) -> None:
    path = reader.write(tmp_path)
    path.write_bytes(OTHER_FILES[kind])
    assert_refused(reader.read, path)


def test_a_file_with_other_fields_is_read_or_refused_with_one_line(reader: JsonReader, tmp_path: Path) -> None:
    path = reader.write(tmp_path)
    reader.read(path)
    good = json.loads(path.read_text("utf-8"))
    refused = 0
    for text in with_other_fields(good):
        path.write_text(text, "utf-8")
        try:
            reader.read(path)
        except ValueRepairError as error:
            assert_one_line(error, path)
            refused += 1
    assert refused > len(OTHER_VALUES)


@pytest.mark.fuzz
@pytest.mark.filterwarnings("ignore")  # of a picture with numbers that are too large for it
def test_every_curve_that_is_read_can_be_drawn(tmp_path: Path) -> None:
    path = write_a_curve(tmp_path)
    for text in with_other_fields(json.loads(path.read_text("utf-8"))):
        path.write_text(text, "utf-8")
        with suppress(ValueRepairError):
            draw_training(str(path))


def test_a_missing_and_an_unknown_field_are_named(reader: JsonReader, tmp_path: Path) -> None:
    path = reader.write(tmp_path)
    good = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({**good, "nosuchfield": 1}))
    if reader.open:
        reader.read(path)
    else:
        assert "nosuchfield" in assert_refused(reader.read, path)
    needed = "address" if "address" in good else next(iter(good))
    path.write_text(json.dumps({name: value for name, value in good.items() if name != needed}))
    assert needed in assert_refused(reader.read, path)


def with_other_fields(good: Any) -> Iterator[str]:
    """The JSON text with each value, also inside, replaced by each of the others, and each key taken out."""
    if isinstance(good, dict):
        for name in good:
            rest = {key: value for key, value in good.items() if key != name}
            yield json.dumps(rest)
            for other in [*OTHER_VALUES, *with_other_fields(good[name])]:
                yield json.dumps(rest)[:-1] + (", " if rest else "") + f"{json.dumps(name)}: {other}}}"
    elif isinstance(good, list) and good:
        for other in [*OTHER_VALUES, *with_other_fields(good[0])]:
            yield f"[{', '.join([other, *map(json.dumps, good[1:])])}]"


def assert_refused(read: Callable[[Path], object], path: Path) -> str:
    with pytest.raises(ValueRepairError) as caught:
        read(path)
    return assert_one_line(caught.value, path)


def assert_one_line(error: ValueRepairError, path: Path) -> str:
    said = str(error)
    assert said.isprintable(), repr(said)
    assert str(path) in said or str(path.parent) in said
    assert len(said) < 500 + len(str(path))
    return said


# -- files that are made anew where they are none ----------------------------------------------------------------------

MEASURED = Rates(1000, 1.0, 1.0, 2.0, 300.0, 6e6, 500.0, 400.0, 800.0, 50.0)


@pytest.mark.parametrize("kind", OTHER_FILES)
def test_a_batch_size_is_measured_where_its_file_is_none(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VALUEREPAIR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(session.Session, "measure", lambda *given: {32: 1.0})
    path = onnx_net(tmp_path / "good.onnx")
    session.Session(path, "0" * 64).tune()
    (file,) = (tmp_path / "cache" / "tuning").iterdir()
    for content in (OTHER_FILES[kind], file.read_bytes().replace(b"32,", b"-1,"), file.read_bytes()):
        file.write_bytes(content)
        own = session.Session(path, "0" * 64)
        own.tune()
        assert own.batch_size == 32


@pytest.mark.parametrize("kind", OTHER_FILES)
def test_rates_are_measured_where_their_file_is_none(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("valuerepair.pipeline.rates._measured_apart", lambda asked: MEASURED)
    (tmp_path / "a.pgn").write_text("1. e4 *\n")
    settings = Settings(archives=(str(tmp_path / "a.pgn"),))
    assert rates(settings, tmp_path, quiet=True) == MEASURED
    file = tmp_path / "rates.json"
    good = file.read_text()
    for content in (OTHER_FILES[kind], good.replace("300.0", "0").encode(), good.replace("300.0", "1e999").encode()):
        assert content != good.encode()
        file.write_bytes(content)
        assert rates(settings, tmp_path, quiet=True) == MEASURED


# -- checkpoints ------------------------------------------------------------------------------------------------------

ARRAYS = {"state0": np.arange(6, dtype=np.float32).reshape(2, 3), "best0": np.ones(4, np.float32)}


def write_a_checkpoint(folder: Path) -> Path:
    notes = checkpoint.Notes(10, 5, math.inf, 1.5, 2, [{"step": 5, "train_loss": math.nan, "loss": 0.5}])
    checkpoint.save(folder / "new.checkpoint", {"the net": "abc"}, notes, ARRAYS)
    return folder / "new.checkpoint"


def load_a_checkpoint(path: Path) -> object:
    return checkpoint.load(path, {"the net": "abc"}, ARRAYS)


def npz(*, packed: int = zipfile.ZIP_STORED, bits: int = 0) -> bytes:
    """A NumPy archive, which checkpoints were; with `bits` of the flags set, as of encryption."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", packed) as archive:
        archive.writestr("state0.npy", bytes(100 << 20 if packed else 100))
    content = bytearray(held.getvalue())
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + at] |= bits
    return bytes(content)


def test_a_checkpoint_is_the_same_when_read(tmp_path: Path) -> None:
    notes, arrays = checkpoint.load(write_a_checkpoint(tmp_path), {"the net": "abc"}, ARRAYS)
    assert (notes.step, notes.best_loss, notes.curve) == (10, None, [{"step": 5, "train_loss": None, "loss": 0.5}])
    assert all(np.array_equal(arrays[name], ARRAYS[name]) for name in ARRAYS)


@pytest.mark.parametrize("kind", OTHER_FILES)
def test_another_file_is_no_checkpoint(kind: str, tmp_path: Path) -> None:
    path = write_a_checkpoint(tmp_path)
    path.write_bytes(OTHER_FILES[kind] + b"\n")
    assert_refused(load_a_checkpoint, path)


@pytest.mark.parametrize(
    "content",
    [
        npz,
        lambda: npz(bits=1),
        lambda: npz(packed=zipfile.ZIP_DEFLATED),
        lambda: npz(packed=zipfile.ZIP_LZMA),
        lambda: bytes(20 << 20),
    ],
)
def test_archives_and_bombs_are_no_checkpoints(content: Callable[[], bytes], tmp_path: Path) -> None:
    path = tmp_path / "new.checkpoint"
    path.write_bytes(content())
    assert_refused(load_a_checkpoint, path)


def test_a_checkpoint_with_another_first_line_is_read_or_refused(tmp_path: Path) -> None:
    path = write_a_checkpoint(tmp_path)
    line, _, arrays = path.read_bytes().partition(b"\n")
    for text in with_other_fields(json.loads(line)):
        path.write_bytes(text.encode() + b"\n" + arrays)
        with suppress(ValueRepairError):
            load_a_checkpoint(path)


@pytest.mark.parametrize("kind", ["cut off", "too long", "other shapes", "other kinds", "folder", "pipe", "/dev/zero"])
def test_a_checkpoint_with_other_arrays_is_refused(kind: str, tmp_path: Path) -> None:
    path = write_a_checkpoint(tmp_path)
    content = path.read_bytes()
    others = {"cut off": content[:-1], "too long": content + b"x"}
    others["other shapes"] = content.replace(b"[2,3]", b"[3,2]")
    others["other kinds"] = content.replace(b"<f4", b"|O8", 1)
    path.unlink()
    if kind in others:
        assert others[kind] != content
        path.write_bytes(others[kind])
    else:
        another_kind(path, kind)
    assert "cannot be read as a checkpoint" in assert_refused(load_a_checkpoint, path)


# -- files of another kind --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["folder", "pipe", "/dev/zero", "/dev/urandom"])
def test_only_regular_files_are_read(reader: JsonReader, kind: str, tmp_path: Path) -> None:
    path = reader.write(tmp_path)
    path.unlink()
    assert_refused(reader.read, another_kind(path, kind))


def another_kind(path: Path, kind: str) -> Path:
    """Something else than a regular file, of that name."""
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(kind)
    return path


def test_a_file_that_is_too_large_is_refused(reader: JsonReader, tmp_path: Path) -> None:
    path = reader.write(tmp_path)
    with path.open("r+b") as file:
        file.truncate(1 << 30)
    assert_refused(reader.read, path)


# -- nets -------------------------------------------------------------------------------------------------------------


def onnx_net(path: Path, kind: str = "good") -> Path:
    """A small net of lc0's tensors that computes its heads of the sum of all planes; the empty board's is 0."""
    from onnx import TensorProto, helper, numpy_helper

    batch: list[str | int] = ["batch"]
    shapes = {"/input/planes": [*batch, 112, 8, 8], "/output/policy": [*batch, 1858], "/output/wdl": [*batch, 3]}
    weights: dict[str, np.ndarray[Any, Any]] = {
        "axes": np.array([1, 2, 3], np.int64),
        "flat": np.array([-1, 1], np.int64),
        "policy": np.ones((1, 1858), np.float32),
        "wdl": np.zeros((1, 3), np.float32),
        "many": np.array([1000], np.float32),
        "two": np.array([2, 1858], np.int64),
        "true": np.array(True),
    }
    odd = {
        "NaN": [helper.make_node("Neg", ["sum"], ["minus"]), helper.make_node("Sqrt", ["minus"], ["odd"])],
        "infinite": [helper.make_node("Mul", ["sum", "many"], ["much"]), helper.make_node("Exp", ["much"], ["odd"])],
        "endless": [helper.make_node("Loop", ["", "true", "sum"], ["odd"], body=_same_again())],
    }.get(kind, [helper.make_node("Identity", ["sum"], ["odd"])])
    wide = "/output/policy" if kind != "fewer rows" else "wide"
    nodes = [
        helper.make_node("ReduceSum", ["/input/planes", "axes"], ["all"], keepdims=1),
        helper.make_node("Reshape", ["all", "flat"], ["sum"]),
        *odd,
        helper.make_node("MatMul", ["odd", "policy"], [wide]),
        helper.make_node("MatMul", ["sum", "wdl"], ["even"]),
        helper.make_node("Softmax", ["even"], ["/output/wdl"], axis=1),
    ]
    if kind == "fewer rows":  # [batch, 1858] is declared, [1, 1858] given
        nodes.append(helper.make_node("ReduceMean", ["wide"], ["/output/policy"], axes=[0], keepdims=1))
    if kind == "another input":
        shapes["more"] = [*batch, 4]
    if kind == "another shape":
        shapes["/input/planes"] = [*batch, 8, 8, 112]
    if kind == "a huge batch":
        batch[0] = 1_000_000
        shapes = {name: [batch[0], *shape[1:]] for name, shape in shapes.items()}
    element = TensorProto.INT64 if kind == "another type" else TensorProto.FLOAT
    if kind == "another type":
        nodes.insert(0, helper.make_node("Cast", ["/input/planes"], ["cast"], to=TensorProto.FLOAT))
        nodes[1].input[0] = "cast"
    inputs = [name for name in shapes if not name.startswith("/output")]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(name, element, shapes[name]) for name in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes[name]) for name in shapes if "output" in name],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def _same_again() -> Any:
    """The body of a loop that goes on for ever."""
    from onnx import TensorProto, helper

    kinds = {"number": TensorProto.INT64, "go": TensorProto.BOOL, "x": TensorProto.FLOAT}
    kinds |= {"on": TensorProto.BOOL, "y": TensorProto.FLOAT}
    values = {
        name: helper.make_tensor_value_info(name, kind, ["batch", 1] if kind == TensorProto.FLOAT else [])
        for name, kind in kinds.items()
    }
    nodes = [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Identity", ["x"], ["y"])]
    return helper.make_graph(nodes, "again", [values[x] for x in ("number", "go", "x")], [values["on"], values["y"]])


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("NaN", "output /output/policy is not a number"),
        ("infinite", "output /output/policy is not a number"),
        ("endless", "gives no answer in 0.5 s"),
        ("fewer rows", "output /output/policy is [1, 1858], not [8, 1858]"),
        ("another input", "one input of planes [batch,112,8,8] is needed"),
        ("another shape", "one input of planes [batch,112,8,8] is needed"),
        ("another type", "is tensor(int64); only float32 and float16"),
        ("a huge batch", "runs 1,000,000 positions at once"),
    ],
)
def test_an_onnx_net_that_is_none(kind: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "FIRST_ANSWER_S", 0.5)
    path = onnx_net(tmp_path / "odd.onnx", kind)

    def opened() -> None:
        with open_net(str(path), device="cpu", threads=1) as net:
            net.evaluate(canary.positions())

    with pytest.raises(ValueRepairError) as caught:
        opened()
    assert said in assert_one_line(caught.value, path)


def test_an_onnx_net_that_is_one(tmp_path: Path) -> None:
    with open_net(str(onnx_net(tmp_path / "good.onnx")), device="cpu") as net:
        assert np.allclose(net.evaluate(canary.positions()).q, 0)


def net_of(blocks: int) -> bytes:
    """The beginning of an lc0 net with so many empty residual blocks."""
    return LC0_MAGIC + bytes(LC0.Net(weights={"residual": [{}] * blocks}).SerializeToString())


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("gigabytes of zeros", lambda: gzip.compress(LC0_MAGIC + bytes(300 << 20), 1), "unpacks to more than"),
        ("nothing but empty members", lambda: gzip.compress(b"") * 100_000, "is not a net"),
        ("100,000 empty blocks", lambda: gzip.compress(net_of(100_000)), "it has 100,000 blocks, which no net has"),
        ("100,000 empty blocks, not packed", lambda: net_of(100_000), "it has 100,000 blocks, which no net has"),
    ],
)
def test_a_packed_net_that_is_none(name: str, content: Callable[[], bytes], said: str, tmp_path: Path) -> None:
    path = tmp_path / "net.pb.gz"
    path.write_bytes(content())
    begun = time.process_time()
    assert said in assert_refused(read_net_file, path)
    assert time.process_time() - begun < 10


@pytest.mark.parametrize("kind", ["folder", "pipe", "/dev/zero", "/dev/urandom"])
def test_a_net_is_a_regular_file(kind: str, tmp_path: Path) -> None:
    assert_refused(read_net_file, another_kind(tmp_path / "net.pb.gz", kind))


# -- weights and positions --------------------------------------------------------------------------------------------


def weights_file(path: Path, numbers: pa.Array, weights: pa.Array | None = None) -> str:
    pq.write_table(pa.table({"position_id": numbers, "weight": numbers if weights is None else weights}), path)
    return str(path)


def test_a_billion_weights_are_refused_unread(tmp_path: Path) -> None:
    """Runs of equal values: the file is small."""
    path = tmp_path / "w.parquet"
    many = pa.table({"position_id": np.zeros(1 << 20, np.int64), "weight": np.ones(1 << 20)})
    with pq.ParquetWriter(path, many.schema) as file:
        for _ in range(12):
            file.write_table(many)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(ValueRepairError, match=r"--draw .*w.parquet: has 12,582,912 rows, more than"):
        read_weights("--draw", str(path), ("position_id",), 10_000_000)


@pytest.mark.parametrize(
    "kind", ["text", "lists", "nulls", "not finite", "cut off", "not parquet", "folder", "pipe", "/dev/zero"]
)
def test_weights_that_are_none(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "w.parquet"
    columns = {"text": pa.array(["a"]), "lists": pa.array([[1]]), "nulls": pa.array([None], pa.float64())}
    if kind in columns:
        weights_file(path, pa.array([1]), columns[kind])
    elif kind == "not finite":
        weights_file(path, pa.array([1]), pa.array([math.inf]))
    elif kind == "cut off":
        weights_file(path, pa.array([1]))
        path.write_bytes(path.read_bytes()[:-20])
    elif kind == "not parquet":
        path.write_bytes(b"PAR1" + bytes(1000) + b"PAR1")
    else:
        another_kind(path, kind)
    assert "--draw" in assert_refused(lambda path: read_weights("--draw", str(path), ("position_id",), 100), path)


@pytest.mark.parametrize("move", ["0000", "--", "Z0", "@@@@", "e2e9", "a1a1", "9" * 5000, "\x1b[31m", "e1e8"])
def test_a_move_that_is_none(move: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not legal in"):
        read_position(f"startpos moves {move}")
    path = tmp_path / "a.epd"
    path.write_text(f"startpos moves e2e4 {move}\n")
    assert "line 1: move" in assert_refused(lambda path: list(read_positions(str(path))), path)


@pytest.mark.parametrize("fen", ["9" * 5000, "8/8/8/8/8/8/8/8 w - - 0 1", f"4k3/8/8/8/8/8/8/4K3 w - - {'9' * 5000} 1"])
def test_a_fen_that_is_none(fen: str, tmp_path: Path) -> None:
    path = tmp_path / "a.epd"
    path.write_text(f"{fen}\n")
    assert_refused(lambda path: list(read_positions(str(path))), path)


# -- commands ---------------------------------------------------------------------------------------------------------

NESTED = "[" * 100_000


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["eval", "startpos moves 0000", "--net", "good.onnx"], 2),
        (["eval", "--net", "pipe.onnx"], 1),
        (["eval", "--net", "zero.pb.gz"], 1),
        (["eval", "--net", "NaN.onnx"], 1),
        (["nets", "describe", "pipe.pb.gz"], 1),
        (["--config", "nested.toml", "stats"], 2),
        (["--config", "pipe.toml", "stats"], 2),
        (["--config", "number.toml", "stats", "--db", str(SAMPLE)], 2),
        (["plot", "training", "nested.json"], 1),
        (["plot", "training", "pipe.json"], 1),
        (["books", "check", "pipe.pgn"], 1),
        (["books", "check", "zero.epd"], 1),
        (["export", "--db", str(SAMPLE), "--split", "nested.json", "-o", "a.parquet"], 1),
        (["export", "--db", str(SAMPLE), "--split", "pipe.json", "-o", "a.parquet"], 1),
        (["mine", "a.pgn", "--cluster", "nested.json"], 2),
        (["mine", "a.pgn", "--cluster", "pipe.json"], 2),
        (["weights", "pipe.tar"], 1),
    ],
)
def test_a_command_ends_in_one_line(words: list[str], code: int, tmp_path: Path) -> None:
    folder = tmp_path
    for name in ("onnx", "pb.gz", "toml", "json", "pgn", "parquet", "tar"):
        os.mkfifo(folder / f"pipe.{name}")
    for name in ("pb.gz", "epd"):
        (folder / f"zero.{name}").symlink_to("/dev/zero")
    (folder / "nested.json").write_text(NESTED)
    (folder / "nested.toml").write_text(f"a = {NESTED}")
    (folder / "number.toml").write_text(f"[stats]\nthreshold = 0x{'f' * 6000}\n")
    (folder / "a.pgn").write_text("1. e4 e5 2. Nf3 Nc6 *\n")
    onnx_net(folder / "good.onnx")
    onnx_net(folder / "NaN.onnx", "NaN")
    done = here(*words, cwd=folder)
    assert done.returncode == code, done.stderr
    *_, line = done.stderr.splitlines()
    assert line.startswith("vr: ")
    assert "Traceback" not in done.stderr
    assert len(line) < 700
