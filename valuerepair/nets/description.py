"""What a net file is, as figures and in lines for a user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from valuerepair.nets.devices import CPU
from valuerepair.nets.header import INPUT_FORMATS
from valuerepair.nets.session import Session
from valuerepair.nets.weights import read_net_file


def describe(path: Path) -> dict[str, Any]:
    """What a net file is, as JSON has it; `read_from` is header (lc0's own) or tensors (ONNX, which says less)."""
    file = read_net_file(path)
    found: dict[str, Any] = {"name": file.name, "path": str(file.path), "sha256": file.sha256, "bytes": file.size}
    if header := file.header:
        return found | {
            "read_from": "header",
            "tower": header.network,
            "blocks": header.blocks,
            "channels": header.filters,
            "training_steps": header.training_steps,
            "input_format": header.input_format,
            "input": INPUT_FORMATS.get(header.input_format, "unknown"),
            "policy": header.policy,
            "value": header.value,
            "moves_left": bool(header.moves_left),
            "min_lc0": header.min_version,
        }
    tensors = Session(file.path, CPU, 1, file.sha256).tensors
    return found | {
        "read_from": "tensors",
        "input": tensors.planes,
        "fixed_batch": tensors.fixed_batch,
        "dtype": tensors.dtype.__name__,
        "heads": [name for name in (tensors.policy, tensors.wdl, tensors.value, tensors.mlh) if name],
        "value": "WDL" if tensors.wdl else "scalar",
    }


def describe_lines(found: dict[str, Any]) -> list[str]:
    """The same (of `describe`) for a user."""
    lines = [f"{found['name']}: {found['path']}", f"SHA-256 {found['sha256']}, {found['bytes']:,} bytes"]
    if found["read_from"] == "header":
        steps = f", {found['training_steps']:,} training steps" if found["training_steps"] else ""
        return [
            *lines,
            "read from the net's own header (lc0 protobuf):",
            f"  tower   {found['tower']}, {found['blocks']} blocks x {found['channels']} channels{steps}",
            f"  input   {found['input']} (format {found['input_format']})",
            f"  policy  {found['policy']}",
            f"  value   {found['value']}",
            f"  moves left head  {'yes' if found['moves_left'] else 'no'}",
            f"  needs lc0 {found['min_lc0']} or later",
        ]
    return [
        *lines,
        "read from the ONNX file's tensors (it does not say which planes it wants; classical 112 are assumed):",
        f"  input   {found['input']} [{found['fixed_batch'] or 'batch'},112,8,8] {found['dtype']}",
        f"  heads   {', '.join(found['heads'])} ({found['value']} value)",
    ]
