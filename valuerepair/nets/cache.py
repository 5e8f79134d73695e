"""The user's cache folder: pulled nets, converted nets and measured batch sizes. All of it can be made again."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from valuerepair.errors import ValueRepairError


def cache_folder(part: str) -> Path:
    """The folder of one part of the cache, made if needed.

    ``$VALUEREPAIR_CACHE``, else ``$XDG_CACHE_HOME/valuerepair``, else ``~/.cache/valuerepair``. Raises
    ValueRepairError when it cannot be made.
    """
    try:
        folder = cache_root() / part
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ValueRepairError(
            f"the cache folder cannot be made: {reason}; set VALUEREPAIR_CACHE to a folder you can write to"
        ) from None
    return folder


def cache_root() -> Path:
    """Where the cache lies; nothing is made."""
    if own := os.environ.get("VALUEREPAIR_CACHE", ""):
        return Path(own).expanduser().absolute()
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification has relative paths ignored.
    return (Path(xdg) if os.path.isabs(xdg) else Path.home() / ".cache") / "valuerepair"


@contextlib.contextmanager
def written_whole(target: Path) -> Iterator[Path]:
    """A temporary name beside `target` that becomes `target` when the block ends well, and vanishes otherwise.

    Two processes that write the same file at once both succeed; readers see one whole file or none.
    """
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)  # mkstemp makes private files
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
