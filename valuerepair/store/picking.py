"""Which net and which oracle a user means."""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
from collections.abc import Iterable

from valuerepair.errors import ValueRepairError

_SHORTEST_DIGEST = 6


def pick(connection: sqlite3.Connection, path: str, net: str | None, oracle: str | None) -> tuple[int, int]:
    """(net_id, oracle_id) of the pair with most scored positions that fits; see `Store.pick`."""
    nets = connection.execute("SELECT id, name, sha256 FROM nets").fetchall()
    oracles = connection.execute("SELECT id, label, digest FROM oracles").fetchall()
    if not nets or not oracles:
        raise ValueRepairError(f"nothing is scored in {path} yet; run vr mine first")
    digest = _sha256_of(net)
    fitting_nets = [i for i, name, sha256 in nets if net is None or sha256 == digest or _is_net(net, name, sha256)]
    fitting_oracles = [i for i, label, found in oracles if oracle is None or _is_oracle(oracle, label, found)]
    if not fitting_nets:
        raise ValueRepairError(f"no net {net} in {path}; it has {_listed(name for _, name, _ in nets)}")
    if not fitting_oracles:
        raise ValueRepairError(f"no oracle {oracle} in {path}; it has {_listed(label for _, label, _ in oracles)}")
    pairs = [(i, j) for i in fitting_nets for j in fitting_oracles if _any_scored(connection, i, j)]
    if not pairs:
        asked = f" by {net or 'any net'} and {oracle or 'any oracle'}" if net or oracle else ""
        raise ValueRepairError(f"no position in {path} is scored{asked} yet; run vr mine first")
    if len(pairs) == 1:  # nearly always; counting takes a look at every row
        return pairs[0]
    counts = {pair: _scored(connection, *pair) for pair in pairs}
    most = [pair for pair, count in counts.items() if count == max(counts.values())]
    return most[0] if len(most) == 1 else max(most, key=lambda pair: (_last_mined(connection, pair[0]), pair))


SCORED = """
FROM deep_values v JOIN net_values n ON n.net_id = ? AND n.position_id = v.position_id
WHERE v.oracle_id = ? AND v.stage = 'full'
"""


def _any_scored(connection: sqlite3.Connection, net_id: int, oracle_id: int) -> bool:
    return bool(connection.execute(f"SELECT EXISTS (SELECT 1 {SCORED})", (net_id, oracle_id)).fetchone()[0])


def _scored(connection: sqlite3.Connection, net_id: int, oracle_id: int) -> int:
    return int(connection.execute(f"SELECT count(*) {SCORED}", (net_id, oracle_id)).fetchone()[0])


def _last_mined(connection: sqlite3.Connection, net_id: int) -> int:
    """The newest run that was for this net, 0 for none: one that was only compared is not the one that is mined for.

    A comparison is known by the options of its run (`candidates.asked_nets`), however it was asked for.
    """
    query = """
        SELECT coalesce(max(run_id), 0) FROM net_values
        WHERE net_id = ? AND run_id NOT IN (SELECT id FROM runs WHERE json_extract(options, '$.history_fill') NOT NULL)
    """
    return int(connection.execute(query, (net_id,)).fetchone()[0])


def _is_net(words: str, name: str, sha256: str) -> bool:
    """Whether the words are the net's name, a path ending in it, or the beginning of its SHA-256."""
    asked = words.lower()
    plain = {_bare(name), name.lower()}
    begins = len(asked) >= _SHORTEST_DIGEST and sha256.startswith(asked)
    return asked in plain or _bare(words) in plain or begins


def _bare(name: str) -> str:
    """``nets/maia-1900.pb.gz`` -> ``maia-1900``."""
    return re.sub(r"(\.pb)?(\.gz)?(\.onnx)?$", "", os.path.basename(name).lower())


def _sha256_of(net: str | None) -> str | None:
    """The SHA-256 of the file that the words name, if they do."""
    if net is None or not os.path.isfile(net):
        return None
    with open(net, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def _is_oracle(words: str, label: str, digest: str) -> bool:
    """Whether the words are the label or part of it, the beginning of the digest, or a ``--deep`` of this oracle."""
    asked, known = words.lower(), label.lower()
    if asked == known or (len(asked) >= _SHORTEST_DIGEST and digest.startswith(asked)):
        return True
    # stockfish:nodes=20000 fits "stockfish 15.1 nodes=20000": every word of it is one of the label's.
    parts = re.split(r"[\s,]+", known)
    return all(word in parts for word in re.split(r"[\s,:]+", asked) if word)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(set(names)))
