"""What anybody may have written: every reader takes it, or refuses it with one line that names the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from valuerepair.chess.position_text import read_position, read_positions
from valuerepair.cluster.connection import parse_cluster
from valuerepair.errors import ValueRepairError
from valuerepair.files import read_toml
from valuerepair.nets import canary, session
from valuerepair.nets.net import open_net
from valuerepair.nets.weights import read_net_file
from valuerepair.training import checkpoint

ARRAYS = {"state0": np.arange(6, dtype=np.float32).reshape(2, 3), "best0": np.ones(4, np.float32)}
READERS: dict[str, Callable[[Path], object]] = {
    "scheduler.json": lambda path: parse_cluster(str(path)),
    "repair.toml": read_toml,
    "new.checkpoint": lambda path: checkpoint.load(path, {"the net": "abc"}, ARRAYS),
    "net.pb.gz": read_net_file,
}
OTHER_FILES = {
    "not UTF-8": b'{"version": "\xff\xfe"}',
    "null": b"null",
    "nested": b"[" * 100_000,
    "cut off": b'{"version": "valuerepair 0.',
    "a key with a line break and escapes": b'{"\\n\\u001b[31m' + b"x" * 5000 + b'": 1}',
}


def assert_refused(read: Callable[[Path], object], path: Path) -> str:
    with pytest.raises(ValueRepairError) as caught:
        read(path)
    return assert_one_line(caught.value, path)


def assert_one_line(error: ValueRepairError, path: Path) -> str:
    said = str(error)
    assert said.isprintable(), repr(said)
    assert str(path) in said
    assert len(said) < 500 + len(str(path))
    return said


@pytest.mark.parametrize("kind", OTHER_FILES)
@pytest.mark.parametrize("name", READERS)
def test_another_file_is_refused_with_one_line(name: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(OTHER_FILES[kind] + b"\n")
    assert_refused(READERS[name], tmp_path / name)


def test_a_checkpoint_is_the_same_when_read_and_refused_where_it_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "new.checkpoint"
    written = checkpoint.Notes(10, 5, 0.5, 1.5, 2, [{"step": 5, "train_loss": None, "loss": 0.5}])
    checkpoint.save(path, {"the net": "abc"}, written, ARRAYS)
    notes, arrays = checkpoint.load(path, {"the net": "abc"}, ARRAYS)
    assert notes == written
    assert all(np.array_equal(arrays[name], ARRAYS[name]) for name in ARRAYS)
    content = path.read_bytes()
    for other in (
        content[:-1],
        content + b"x",
        content.replace(b"[2,3]", b"[3,2]"),
        content.replace(b"<f4", b"|O8", 1),
    ):
        path.write_bytes(other)
        assert_refused(READERS[path.name], path)


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
        "two": np.array([2, 1858], np.int64),
        "true": np.array(True),
    }
    odd = {
        "NaN": [helper.make_node("Neg", ["sum"], ["minus"]), helper.make_node("Sqrt", ["minus"], ["odd"])],
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
        ("endless", "gives no answer in 0.5 s"),
        ("fewer rows", "output /output/policy is [1, 1858], not [8, 1858]"),
        ("another input", "is not an lc0 net"),
        ("another type", "is not an lc0 net"),
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
    with open_net(str(onnx_net(tmp_path / "good.onnx")), device="cpu") as net:
        assert np.allclose(net.evaluate(canary.positions()).q, 0)


# -- positions ---------------------------------------------------------------------------------------------------------


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
