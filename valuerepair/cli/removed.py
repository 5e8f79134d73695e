"""Options that earlier documentation showed and that are gone: what to do instead, in the one line of the error."""

from __future__ import annotations

_SET = "is a parameter of training now: --set {}=VALUE"
# By option alone, or by command and option where the advice differs.
INSTEAD = {
    "--threads": "is gone: vr works with the cores that it may use; `taskset -c 0-3 vr ...` gives it four",
    "--value-head": "is gone: give --heads q, or --heads q,soft",
    "--policy-head": "is gone: give --heads soft, or --heads q,soft",
    "--recall": "belongs to --screen now: --screen auto,recall=0.95",
    "mine --audit": "belongs to --screen now: --screen auto,audit=0.1",
    "--history-fill": "is gone: positions are filled as lc0 does by default; vr selfplay takes --set history_fill=no",
    "--max-bytes": "is gone: cut the archive beforehand, `zstd -dc games.pgn.zst | head -c 1G | vr mine -`",
    "--player": "is gone here: filter the archive beforehand, or in Python by SampleOptions(player=...)",
    "--result": "is gone here: filter the archive beforehand, or in Python by SampleOptions(result=...)",
    "--max-ply": "is gone: in Python it is SampleOptions(max_ply=...)",
    "--min-pieces": "is gone: in Python it is SampleOptions(min_pieces=...)",
    **{f"--{name.replace('_', '-')}": _SET.format(name) for name in (
        "batch", "warmup", "q_ratio", "policy_kl", "average", "weights", "candidates", "holdout", "every", "patience")},
    "--schedule": "is gone: the learning rate falls to 0 by a cosine",
    "--near-duplicates": "is gone: one of a game's positions with the same material and pawns is kept",
    "--search-inferred": "is gone: give --audit 1",
    "--reuse-tree": "is gone: each search begins without a tree, as in lc0's self-play",
    "--win": "is gone: --resign ends games that are won",
    "--movetime": "is gone: a side has it, as in /path/engine,movetime=100 (milliseconds); --tc is a clock for both",
    "--margin": "is gone: a side may be 100 ms late",
    "--report": "is gone: the same command plays only what is missing, and reports",
    "--unweighted": "is gone: in Python it is vr.plot(kind, store, weighted=False)",
    "--points": "is gone: a page shows at most about 100,000 positions one by one",
    "--records": "is gone: in Python it is ChunkOptions(records=...)",
    "--test-deep": "is gone: it is test_deep of DIR/repair.toml, which vr repair --plan writes",
    "--total": "is gone: a mixture has as many games as the share allows",
    "--white": "is gone: the side to move is at the bottom",
    "books --json": "is gone: it is manifest.json in the folder",
    "chunks --json": "is gone: it is manifest.json in the folder",
    "mix --json": "is gone: it is manifest.json in the folder",
    "train --json": "is gone: it is the .training.json beside the net",
}  # fmt: skip


def instead_of(command: str, option: str) -> str | None:
    """What to say of an option that a command (``vr mine``) no longer has; None where it never had it."""
    advice = INSTEAD.get(f"{command.partition(' ')[2]} {option}", INSTEAD.get(option))
    return None if advice is None else f"{option}: {advice}"
