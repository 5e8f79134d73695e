"""The paths of the files that a store was made with: nets, and the split of held-out games.

A path says where a file was when it was last used. A net's file is used only if its content is still the same, as
another net may have been saved under that name. Engines are not recorded: a store may come from anybody, so the files
it names may be read, but never run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from valuerepair.errors import ValueRepairError
from valuerepair.files import file_sha256
from valuerepair.nets.devices import split_key
from valuerepair.nets.registry import KNOWN_NETS

if TYPE_CHECKING:
    from valuerepair.store.connection import StoreConnection
    from valuerepair.store.store import Store

NET, SPLIT = "net", "split"


def record_path(connection: StoreConnection, role: str, sha256: str, path: str) -> None:
    """Records the path of the file with this content."""
    connection.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?)", (role, sha256, os.path.abspath(path)))


def recorded_path(store: Store, role: str, sha256: str = "") -> str | None:
    """The path of the file when it was last used, whether or not the file is still there; None if unknown."""
    query = "SELECT path FROM files WHERE role = ? AND sha256 = ?"
    row = store.connection.execute(query, (role, sha256)).fetchone()
    return None if row is None else str(row[0])


def places(store: Store, role: str, sha256: str = "") -> Iterator[str]:
    """Existing files that may be this one: at its path, then with its name in the store's and in the current folder."""
    path = recorded_path(store, role, sha256)
    if path is not None:
        name = os.path.basename(path)
        near_store = os.path.join(os.path.dirname(os.path.abspath(store.path)), name)
        candidates = dict.fromkeys((path, near_store, os.path.abspath(name)))
        yield from filter(os.path.isfile, candidates)


def find_net(store: Store, sha256: str) -> str | None:
    """The file of the net with this content; None if its path is unknown or it is no longer there."""
    for path in places(store, NET, sha256):
        with suppress(ValueRepairError):
            if file_sha256(path) == sha256:
                return path
    return None


def existing_nets(store: Store) -> dict[str, str]:
    """The files of all nets that can still be found, by SHA-256."""
    rows = store.connection.execute("SELECT sha256 FROM files WHERE role = ?", (NET,)).fetchall()
    files = {sha256: find_net(store, sha256) for (sha256,) in rows}
    return {sha256: path for sha256, path in files.items() if path is not None}


def net_option(store: Store, key: str) -> str | None:
    """The value of ``--net`` that opens the net with this key: its name if it is one of `KNOWN_NETS`, else its file.

    None if the file is unknown or no longer there.
    """
    sha256, _ = split_key(key)
    name = next((net.name for net in KNOWN_NETS.values() if net.sha256 == sha256), None)
    if name is not None:
        return name
    path = find_net(store, sha256)
    return None if path is None else from_here(path)


def reason_missing(store: Store, net: str, sha256: str) -> str:
    """Why the file of the net with this name cannot be found, in words."""
    path = recorded_path(store, NET, sha256)
    if path is None:
        return f"the store does not know where the net {net} is"
    return f"{path} is no longer the net {net}" if os.path.isfile(path) else f"the net {net} is not at {path}"


def from_here(path: str) -> str:
    """A path as a user would type it: relative if the file is below the current folder, else absolute."""
    inside = os.path.relpath(path)
    return path if inside.startswith(os.pardir) else inside
