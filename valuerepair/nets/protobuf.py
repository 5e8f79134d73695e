"""The protobuf messages of lc0's nets and of ONNX files, as Google's library reads and writes them.

Fields that are not described here, such as those of later versions, are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from numpy.typing import NDArray


def message_types(description: str) -> Any:
    """The classes of messages as attributes, from a line for each: ``Name: type field number field number; type* ...``.

    `*` means repeated. Enumerations are int32; texts and messages that are not read are bytes.
    """
    file = FileDescriptorProto(name="messages.proto")
    bodies = dict(line.split(": ") for line in description.strip().splitlines())
    for name, body in bodies.items():
        message = file.message_type.add(name=name)
        for group in body.split(";"):
            kind, *words = group.split()
            label = FieldDescriptorProto.LABEL_REPEATED if kind.endswith("*") else FieldDescriptorProto.LABEL_OPTIONAL
            kind = kind.rstrip("*")
            of_type = {"type": f"TYPE_{kind.upper()}"}
            if kind in bodies:
                of_type = {"type": "TYPE_MESSAGE", "type_name": f".{kind}"}
            for field, number in zip(words[::2], words[1::2], strict=True):
                message.field.add(name=field, number=int(number), label=label, **of_type)
    pool = DescriptorPool()
    pool.Add(file)
    return SimpleNamespace(**{name: GetMessageClass(pool.FindMessageTypeByName(name)) for name in bodies})


def parsed(kind: Any, content: bytes) -> Any:
    """The message of this class. Raises ValueError for other bytes."""
    try:
        return kind.FromString(content)
    except DecodeError:
        raise ValueError("its protobuf is damaged") from None


# lc0's proto/net.proto
LC0 = message_types("""
Layer: float min_val 1 max_val 2; bytes params 3; int32 encoding 4; uint32* dims 5
ConvBlock: Layer weights 1 biases 2 bn_means 3 bn_stddivs 4 bn_gammas 5 bn_betas 6
SEunit: Layer w1 1 b1 2 w2 3 b2 4
Residual: ConvBlock conv1 1 conv2 2; SEunit se 3
Smolgen: Layer compress 1 dense1_w 2 dense1_b 3 ln1_gammas 4 ln1_betas 5 dense2_w 6 dense2_b 7 ln2_gammas 8 ln2_betas 9
MHA: Layer q_w 1 q_b 2 k_w 3 k_b 4 v_w 5 v_b 6 dense_w 7 dense_b 8 rpe_q 10 rpe_k 11 rpe_v 12; Smolgen smolgen 9
FFN: Layer dense1_w 1 dense1_b 2 dense2_w 3 dense2_b 4
EncoderLayer: MHA mha 1; FFN ffn 4; Layer ln1_gammas 2 ln1_betas 3 ln2_gammas 5 ln2_betas 6
PolicyHead: Layer ip_pol_w 1 ip_pol_b 2 ip2_pol_w 3 ip2_pol_b 4 ip3_pol_w 5 ip3_pol_b 6 ip4_pol_w 7; \
EncoderLayer* pol_encoder 8; uint32 pol_headcount 9; ConvBlock policy1 10 policy 11
ValueHead: Layer ip_val_w 1 ip_val_b 2 ip1_val_w 3 ip1_val_b 4 ip2_val_w 5 ip2_val_b 6 ip_val_err_w 7 ip_val_err_b 8 \
ip_val_cat_w 9 ip_val_cat_b 10; ConvBlock value 11
PolicyHeads: Layer ip_pol_w 1 ip_pol_b 2; PolicyHead vanilla 3 optimistic_st 4 soft 5 opponent 6; bytes* other_heads 7
ValueHeads: ValueHead winner 1 q 2 st 3; bytes* other_heads 4
Weights: ConvBlock input 1 policy 3 value 6 policy1 11 moves_left 12; Residual* residual 2; Layer ip_pol_w 4 \
ip_pol_b 5 ip1_val_w 7 ip1_val_b 8 ip2_val_w 9 ip2_val_b 10 ip1_mov_w 13 ip1_mov_b 14 ip2_mov_w 15 ip2_mov_b 16 \
ip2_pol_w 17 ip2_pol_b 18 ip3_pol_w 19 ip3_pol_b 20 ip4_pol_w 22 ip_emb_w 25 ip_emb_b 26 ip_val_w 29 ip_val_b 30 \
ip_mov_w 31 ip_mov_b 32 ip_mult_gate 33 ip_add_gate 34 smolgen_w 35 smolgen_b 36 ip_emb_preproc_w 37 \
ip_emb_preproc_b 38 ip_emb_ln_gammas 39 ip_emb_ln_betas 40 ip_emb_ffn_ln_gammas 42 ip_emb_ffn_ln_betas 43; \
EncoderLayer* pol_encoder 21 encoder 27; uint32 pol_headcount 24 headcount 28; FFN ip_emb_ffn 41; \
ValueHeads value_heads 44; PolicyHeads policy_heads 45
TrainingParams: uint32 training_steps 1; float learning_rate 2 mse_loss 3 policy_loss 4 accuracy 5; bytes lc0_params 6
NetworkFormat: int32 input 1 output 2 network 3 policy 4 value 5 moves_left 6 default_activation 7 \
smolgen_activation 8 ffn_activation 9 input_embedding 10
Format: int32 weights_encoding 1; NetworkFormat network_format 2
EngineVersion: uint32 major 1 minor 2 patch 3
Net: fixed32 magic 1; bytes license 2 onnx_model 11; EngineVersion min_version 3; Format format 4; \
TrainingParams training_params 5; Weights weights 10; bytes* backend_cache 12
""")

# onnx/onnx.proto3, without "Proto" at the end of names
ONNX = message_types("""
Model: int64 ir_version 1; Graph graph 7; OperatorSetId* opset_import 8
OperatorSetId: string domain 1; int64 version 2
Graph: Node* node 1; string name 2; Tensor* initializer 5; ValueInfo* input 11 output 12
Node: string* input 1 output 2; string name 3 op_type 4; Attribute* attribute 5
Attribute: string name 1; float f 2; int64 i 3; int64* ints 8; int32 type 20
Tensor: int64* dims 1; int32 data_type 2 data_location 14; string name 8; bytes raw_data 9
ValueInfo: string name 1; Type type 2
Type: TensorType tensor_type 1
TensorType: int32 elem_type 1; TensorShape shape 2
TensorShape: Dimension* dim 1
Dimension: int64 dim_value 1; string dim_param 2
""")

# -- ONNX models without the `onnx` package: canaries for providers, and nodes around a net ----------------------------

IR_VERSION, OPSET = 8, 17
INTEGER = 2  # AttributeProto.AttributeType.INT
# TensorProto.DataType
ELEMENTS: dict[str, int] = {"float32": 1, "uint8": 2, "int32": 6, "int64": 7, "bool": 9, "float16": 10}

Shape = Sequence[int | str]  # a str is a symbolic dimension


def model(
    inputs: Mapping[str, Shape],
    outputs: Mapping[str, Shape],
    nodes: Sequence[tuple[str, Sequence[str], Sequence[str]]],
    weights: Mapping[str, NDArray[np.float32]],
) -> bytes:
    """A float32 model. Each node is (operator, input names, output names), without attributes."""
    graph = ONNX.Graph(
        name="graph",
        node=[node(*parts) for parts in nodes],
        initializer=[weight(name, array) for name, array in weights.items()],
        input=[value(name, shape) for name, shape in inputs.items()],
        output=[value(name, shape) for name, shape in outputs.items()],
    )
    opset = ONNX.OperatorSetId(version=OPSET)
    content: bytes = ONNX.Model(ir_version=IR_VERSION, graph=graph, opset_import=[opset]).SerializeToString()
    return content


def read_model(content: bytes) -> Any:
    """The ModelProto of an ONNX file. Raises ValueError for another file."""
    read = parsed(ONNX.Model, content)
    if not read.HasField("graph"):
        raise ValueError("its protobuf is damaged")
    return read


def node(
    operator: str, inputs: Sequence[str], outputs: Sequence[str], *, name: str | None = None, **attributes: int
) -> Any:
    """A NodeProto; the attributes are integers."""
    messages = [ONNX.Attribute(name=key, i=number, type=INTEGER) for key, number in attributes.items()]
    return ONNX.Node(op_type=operator, input=inputs, output=outputs, name=name, attribute=messages)


def renamed(part: Any, old: str, new: str) -> Any:
    """A copy of a NodeProto with `new` in place of `old` at the beginning of its name, and of inputs and outputs."""

    def changed(name: str) -> str:
        return new + name[len(old) :] if name.startswith(old) else name

    copy = ONNX.Node()
    copy.CopyFrom(part)
    copy.name, copy.input[:], copy.output[:] = changed(part.name), map(changed, part.input), map(changed, part.output)
    return copy


def weight(name: str, array: NDArray[Any]) -> Any:
    """A constant of a graph, a TensorProto, with an element type in `ELEMENTS`."""
    content = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    return ONNX.Tensor(dims=array.shape, data_type=ELEMENTS[array.dtype.name], name=name, raw_data=content)


def value(name: str, shape: Shape, element: str = "float32") -> Any:
    """An input or an output of a graph, a ValueInfoProto."""
    sizes = [{"dim_param": size} if isinstance(size, str) else {"dim_value": size} for size in shape]
    tensor = {"elem_type": ELEMENTS[element], "shape": {"dim": sizes}}
    return ONNX.ValueInfo(name=name, type={"tensor_type": tensor})


def replace(repeated: Any, parts: Iterable[Any]) -> None:
    """Replaces the parts of a repeated field; some of the new parts may be old ones."""
    new_parts = list(parts)
    del repeated[:]
    repeated.extend(new_parts)
