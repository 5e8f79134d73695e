"""What a net file is, in lines for a user."""

from __future__ import annotations

from pathlib import Path

from valuerepair.nets.devices import CPU
from valuerepair.nets.header import INPUT_FORMATS
from valuerepair.nets.session import Session
from valuerepair.nets.weights import read_net_file


def describe_lines(path: Path) -> list[str]:
    """What a net file is, for a user; lc0 nets by their own header, ONNX files by their tensors."""
    file = read_net_file(path)
    lines = [f"{file.name}: {file.path}", f"SHA-256 {file.sha256}, {file.size:,} bytes"]
    if header := file.header:
        steps = f", {header.training_steps:,} training steps" if header.training_steps else ""
        return [
            *lines,
            "read from the net's own header (lc0 protobuf):",
            f"  tower   {header.network}, {header.blocks} blocks x {header.filters} channels{steps}",
            f"  input   {INPUT_FORMATS.get(header.input_format, 'unknown')} (format {header.input_format})",
            f"  policy  {header.policy}",
            f"  value   {header.value}",
            f"  moves left head  {'yes' if header.moves_left else 'no'}",
            f"  needs lc0 {header.min_version} or later",
        ]
    tensors = Session(file.path, CPU, 1, file.sha256).tensors
    heads = [name for name in (tensors.policy, tensors.wdl, tensors.value, tensors.mlh) if name]
    return [
        *lines,
        "read from the ONNX file's tensors (it does not say which planes it wants; classical 112 are assumed):",
        f"  input   {tensors.planes} [{tensors.fixed_batch or 'batch'},112,8,8] {tensors.dtype.__name__}",
        f"  heads   {', '.join(heads)} ({'WDL' if tensors.wdl else 'scalar'} value)",
    ]
