"""Checks the wheel and the source archive in a folder: all that is tracked is in them, nothing else, and not too large.

Run in a clone: `python .ci/package_contents.py FOLDER`, where `hatchling build -d FOLDER` has put both.
"""

from __future__ import annotations

import email
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

WHEEL_LIMIT, FILE_LIMIT = 5_000_000, 250_000

folder = Path(sys.argv[1])
(wheel,) = folder.glob("*.whl")
(archive,) = folder.glob("*.tar.gz")
tracked = set(subprocess.run(["git", "ls-files"], check=True, capture_output=True, text=True).stdout.splitlines())


def differences(what: str, found: set[str], wanted: set[str]) -> list[str]:
    return [f"{what}: lacks {name}" for name in sorted(wanted - found)] + [
        f"{what}: {name} does not belong there" for name in sorted(found - wanted)
    ]


with zipfile.ZipFile(wheel) as packed:
    sizes = {each.filename: each.file_size for each in packed.infolist()}
    (about,) = (name for name in sizes if name.endswith(".dist-info/METADATA"))
    facts = email.message_from_bytes(packed.read(about))
    scripts = packed.read(about.replace("METADATA", "entry_points.txt")).decode()
own = {name for name in sizes if ".dist-info/" not in name}
wrong = differences(wheel.name, own, {name for name in tracked if name.startswith("valuerepair/")})
wrong += [f"{name}: {size:,} bytes, at most {FILE_LIMIT:,}" for name, size in sizes.items() if size > FILE_LIMIT]
if (size := wheel.stat().st_size) > WHEEL_LIMIT:
    wrong.append(f"{wheel.name}: {size:,} bytes, at most {WHEEL_LIMIT:,}")
if "vr = valuerepair.__main__:main" not in scripts:
    wrong.append(f"{wheel.name}: has no command vr")

with tarfile.open(archive) as unpacked:
    inside = {each.name.partition("/")[2] for each in unpacked if each.isfile()}
wrong += differences(archive.name, inside, tracked | {"PKG-INFO"})

changes = re.search(r"^## (\S+)", Path("CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
if changes is None or changes[1] != facts["Version"]:
    wrong.append(f"CHANGELOG.md: begins with {changes and changes[1]}, the version is {facts['Version']}")
print(f"{wheel.name}: {size / 1e6:.1f} MB, {len(sizes)} files; {archive.name}: {archive.stat().st_size / 1e6:.1f} MB")
sys.exit("\n".join(wrong) or 0)
