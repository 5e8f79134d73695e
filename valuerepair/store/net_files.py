"""Where the files of a store's nets are: at the path of their last use, if the content is still the same."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from valuerepair.errors import ValueRepairError
from valuerepair.files import file_sha256
from valuerepair.nets.devices import split_key
from valuerepair.nets.registry import KNOWN_NETS

if TYPE_CHECKING:
    from valuerepair.store.store import Store


def net_option(store: Store, key: str) -> str | None:
    """The value of ``--net`` that opens the net with this key: its name if it is one of `KNOWN_NETS`, else its file.

    The file is looked for at its path, then by its name in the store's and in the current folder. None if the path is
    unknown, or no such file has the net's content.
    """
    sha256, _ = split_key(key)
    name = next((net.name for net in KNOWN_NETS.values() if net.sha256 == sha256), None)
    if name is not None:
        return name
    for path in _paths(store, sha256):
        near_store = os.path.join(os.path.dirname(os.path.abspath(store.path)), os.path.basename(path))
        for place in dict.fromkeys((path, near_store, os.path.abspath(os.path.basename(path)))):
            with suppress(ValueRepairError):
                if os.path.isfile(place) and file_sha256(place) == sha256:
                    return from_here(place)
    return None


def reason_missing(store: Store, net: str, key: str) -> str:
    """Why `net_option` finds no file of this net, in words."""
    paths = _paths(store, split_key(key)[0])
    if not paths:
        return f"the store does not know where the net {net} is"
    is_there = os.path.isfile(paths[0])
    return f"{paths[0]} is no longer the net {net}" if is_there else f"the net {net} is not at {paths[0]}"


def _paths(store: Store, sha256: str) -> list[str]:
    """The paths of a net's file when it was last used, as a net or by a judge that searches with it."""
    query = """
        SELECT path FROM nets WHERE sha256 LIKE ? || '%' AND path IS NOT NULL
        UNION SELECT net_path FROM judges WHERE instr(sha256 || options, ?) AND net_path IS NOT NULL
    """
    return [row[0] for row in store.connection.execute(query, (sha256, sha256))] if sha256 else []


def from_here(path: str) -> str:
    """A path as a user would type it: relative if the file is below the current folder, else absolute."""
    inside = os.path.relpath(path)
    return path if inside.startswith(os.pardir) else inside
