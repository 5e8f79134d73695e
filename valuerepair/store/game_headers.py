"""Headers of the games that positions come from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from valuerepair.store.connect import store_errors

if TYPE_CHECKING:
    from valuerepair.store.store import Store


def header(store: Store, game_ids: Sequence[int], name: str) -> list[str | None]:
    """The header of this name of each game, None where a game has none. It is text that anybody may have written."""
    query = "SELECT id, headers FROM games WHERE id IN (SELECT value FROM json_each(?))"
    wanted = json.dumps(sorted({int(number) for number in game_ids}))
    with store_errors(store.path):
        found = {number: json.loads(text).get(name) for number, text in store.connection.execute(query, (wanted,))}
    return [found.get(int(number)) for number in game_ids]
