"""Which net and which judge of a store are meant, and where the files of nets are."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress

from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.files import file_sha256
from valuerepair.nets.devices import split_key
from valuerepair.nets.registry import KNOWN_NETS
from valuerepair.store.rows import StoredJudge
from valuerepair.store.store import Store

Pair = tuple[int, int]  # the ids of a net and a judge


def pick(store: Store, net: str | None = None, judge: str | None = None) -> Pair:
    """The ids of the net and the judge that these words name; by default those in use (`Store.setting`).

    `net` is a name, a file's path or the beginning of its SHA-256; `judge` a label, the beginning of its digest, or a
    value of ``--deep`` (``stockfish:nodes=20000``). If several pairs fit and none is in use, the one with most values
    counts. Raises ValueRepairError if nothing fits.
    """
    used = store.setting("net"), store.setting("judge")
    pairs = {
        (net_id, known.id): (key == used[0]) + (known.digest == used[1])
        for net_id, key, _ in fitting_nets(store, net)
        for known in fitting_judges(store, judge)
        if _scored(store, (net_id, known.id), "EXISTS (SELECT 1 {})")
    }
    if not pairs:
        by = f" by {net or 'any net'} and {judge or 'any judge'}" if net or judge else ""
        raise ValueRepairError(f"no position in {store.path} is scored{by} yet; run vr mine first")
    best = [pair for pair, fit in pairs.items() if fit == max(pairs.values())]
    return best[0] if len(best) == 1 else max(best, key=lambda pair: _scored(store, pair, "(SELECT count(*) {})"))


def pair_of(store: Store, net: str | None, judge: str | None) -> Pair | None:
    """As `pick`, but None if neither is named and no position has both values."""
    try:
        return pick(store, net, judge)
    except ValueRepairError:
        if net or judge:
            raise
        return None


def _scored(store: Store, pair: Pair, words: str) -> int:
    rows = """
        FROM deep_values v JOIN net_values n ON n.net_id = ? AND n.position_id = v.position_id
        WHERE v.judge_id = ? AND v.failed IS NULL
    """
    return int(store.connection.execute(f"SELECT {words.format(rows)}", pair).fetchone()[0])


def fitting_nets(store: Store, net: str | None) -> list[tuple[int, str, str]]:
    """Id, SHA-256 and name of the nets that these words fit: one, at some precisions; None fits all.

    Raises ValueRepairError if none does, UsageError for the name of several nets.
    """
    nets: list[tuple[int, str, str]] = store.connection.execute("SELECT id, sha256, name FROM nets").fetchall()
    if net is None:
        return nets
    if os.path.isfile(net):  # nets before and after training often share a name
        begin = file_sha256(net)
        fits = [row for row in nets if row[1].startswith(begin)]
    else:
        begin, bare = net.lower() if len(net) >= 6 else "none", _bare(net)
        fits = [row for row in nets if row[1].startswith(begin) or _bare(row[2]) == bare]
    # A key without a precision is also the beginning of those with one.
    fits = [row for row in fits if row[1] == begin] or fits
    if not fits:
        has = ", ".join(sorted({net_label(store, i) for i, _, _ in nets})) or "none"
        raise ValueRepairError(f"no net {net} in {store.path}; it has {has}")
    if len(contents := {split_key(row[1])[0] for row in fits}) > 1:
        digests = ", ".join(sorted(content[:12] for content in contents))
        raise UsageError(f"net {net}: {store.path} has {len(contents)} nets of that name; say which: {digests}")
    return fits


def _bare(name: str) -> str:
    """``nets/maia-1900.pb.gz`` -> ``maia-1900``."""
    return re.sub(r"(\.pb)?(\.gz)?(\.onnx)?$", "", os.path.basename(name).lower())


def net_label(store: Store, net_id: int) -> str:
    """A net's name, with 12 digits of its SHA-256 if the store has another net of this name."""
    query = "SELECT name, sha256, (SELECT count(*) FROM nets o WHERE o.name = n.name) FROM nets n WHERE id = ?"
    name, sha256, namesakes = store.connection.execute(query, (net_id,)).fetchone()
    return str(name) if namesakes == 1 else f"{name} ({sha256[:12]})"


def net_key(store: Store, net_id: int) -> str:
    """The key of a net (`NetIdentity.key`), by which others know it, too."""
    return str(store.connection.execute("SELECT sha256 FROM nets WHERE id = ?", (net_id,)).fetchone()[0])


_JUDGE = "id, label, digest, kind, engine, sha256, limits, options, short_id"


def judges(store: Store) -> list[StoredJudge]:
    """All judges of a store, in the order of their ids."""
    rows = store.connection.execute(f"SELECT {_JUDGE} FROM judges ORDER BY id").fetchall()
    return [StoredJudge(*(*row[:6], json.loads(row[6]), json.loads(row[7]), row[8])) for row in rows]


def judge_of(store: Store, judge_id: int) -> StoredJudge:
    """The judge with this id."""
    return next(judge for judge in judges(store) if judge.id == judge_id)


def fitting_judges(store: Store, words: str | None) -> list[StoredJudge]:
    """The judges that these words fit, without short searches that are not in use if others fit; None fits all.

    Raises ValueRepairError if none does.
    """
    every = judges(store)
    used = store.setting("judge")
    short = {judge.short_id for judge in every} - {judge.id for judge in every if judge.digest == used}
    fits = [judge for judge in every if words is None or _is_judge(words, judge)]
    exact = [judge for judge in fits if words is not None and words.lower() in (judge.label.lower(), judge.digest)]
    fits = exact or [judge for judge in fits if judge.id not in short] or fits
    if not fits and words is not None:
        has = ", ".join(judge.label for judge in every) or "none"
        raise ValueRepairError(f"no judge {words} in {store.path}; it has {has}")
    return fits


def _is_judge(words: str, judge: StoredJudge) -> bool:
    """Whether the words are the label or words of it, the beginning of the digest, or a ``--deep`` of this judge."""
    lowered = words.lower()
    if len(lowered) >= 6 and judge.digest.startswith(lowered):
        return True
    # stockfish:nodes=20000 fits "stockfish 15.1 nodes=20000": the label has every word of it.
    label = re.split(r"[\s,]+", judge.label.lower())
    return all(word in label for word in re.split(r"[\s,:]+", lowered) if word)


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
