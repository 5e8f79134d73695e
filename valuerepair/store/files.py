"""Where the files lie that a store's values came from: nets, and the split of what is held out.

A path is where a file lay when it was last used. It is believed only as far as the content agrees: a net that was
trained anew under the same name is another one. Engines are not among them, as a store may come from anybody: what it
names is read, and never run.
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


def keep_path(connection: StoreConnection, role: str, sha256: str, path: str) -> None:
    """Records where the file with this content lies."""
    connection.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?)", (role, sha256, os.path.abspath(path)))


def kept_path(store: Store, role: str, sha256: str = "") -> str | None:
    """Where the file lay when it was last used, whatever is there now; None where that is not known."""
    query = "SELECT path FROM files WHERE role = ? AND sha256 = ?"
    row = store.connection.execute(query, (role, sha256)).fetchone()
    return None if row is None else str(row[0])


def places(store: Store, role: str, sha256: str = "") -> Iterator[str]:
    """Files that may be the one: where it lay, then those of its name beside the store and in the current folder."""
    path = kept_path(store, role, sha256)
    if path is not None:
        name = os.path.basename(path)
        beside = os.path.join(os.path.dirname(os.path.abspath(store.path)), name)
        yield from (each for each in dict.fromkeys((path, beside, os.path.abspath(name))) if os.path.isfile(each))


def find_file(store: Store, role: str, sha256: str) -> str | None:
    """The file with this content; None where it is not known, or gone."""
    for path in places(store, role, sha256):
        with suppress(ValueRepairError):
            if file_sha256(path) == sha256:
                return path
    return None


def found_nets(store: Store) -> dict[str, str]:
    """The files of all nets that are still where they lay, by SHA-256."""
    rows = store.connection.execute("SELECT sha256 FROM files WHERE role = ?", (NET,)).fetchall()
    files = {sha256: find_file(store, NET, sha256) for (sha256,) in rows}
    return {sha256: path for sha256, path in files.items() if path is not None}


def net_words(store: Store, key: str) -> str | None:
    """What a ``--net`` opens the net of this key by: its name where that is known everywhere, else its file; None where
    that is not known, or gone."""
    sha256, _ = split_key(key)
    known = next((net.name for net in KNOWN_NETS.values() if net.sha256 == sha256), None)
    if known is not None:
        return known
    path = find_file(store, NET, sha256)
    return None if path is None else from_here(path)


def why_not(store: Store, net: str, sha256: str) -> str:
    """Why the file of a net of this name is not at hand, in words."""
    path = kept_path(store, NET, sha256)
    if path is None:
        return f"the store does not know where the net {net} lies"
    return f"{path} is not the net {net} any more" if os.path.isfile(path) else f"the net {net} is not at {path}"


def from_here(path: str) -> str:
    """A path as one types it: from the current folder where the file is in that, else from the root."""
    inside = os.path.relpath(path)
    return path if inside.startswith(os.pardir) else inside
