"""Options of earlier versions that were removed: what to do instead, in the one line of the error."""

from __future__ import annotations

_SET = "is a parameter of training now: --set {}=VALUE"
# By option alone, or by command and option where the advice differs.
INSTEAD = {
    "--threads": "was removed: vr works with the cores that it may use; `taskset -c 0-3 vr ...` gives it four",
    "--value-head": "was removed: give --heads q, or --heads q,soft",
    "--policy-head": "was removed: give --heads soft, or --heads q,soft",
    "--recall": "belongs to --screen now: --screen auto,recall=0.95",
    "mine --audit": "belongs to --screen now: --screen auto,audit=0.1",
    "--history-fill": "was removed: history is filled as lc0 does by default; vr selfplay has --set history_fill=no",
    "--max-bytes": "was removed: cut the archive beforehand, `zstd -dc games.pgn.zst | head -c 1G | vr mine -`",
    "--player": "was removed here: filter the archive beforehand, or in Python by SampleOptions(player=...)",
    "--result": "was removed here: filter the archive beforehand, or in Python by SampleOptions(result=...)",
    "--max-ply": "was removed: in Python it is SampleOptions(max_ply=...)",
    "--min-pieces": "was removed: in Python it is SampleOptions(min_pieces=...)",
    **{f"--{name.replace('_', '-')}": _SET.format(name) for name in (
        "batch", "warmup", "q_ratio", "policy_kl", "average", "weights", "candidates", "holdout", "every", "patience")},
    "--schedule": "was removed: the learning rate falls to 0 by a cosine",
    "--near-duplicates": "was removed: one of a game's positions with the same material and pawns is kept",
    "--search-inferred": "was removed: give --audit 1",
    "--reuse-tree": "was removed: each search begins without a tree, as in lc0's self-play",
    "--win": "was removed: --resign ends games that are won",
    "--movetime": "was removed: give it to a side, as /path/engine,movetime=100 (milliseconds); --tc is for both",
    "--margin": "was removed: a side may be 100 ms late",
    "--report": "was removed: the same command plays only what is missing, and reports",
    "--unweighted": "was removed: in Python it is vr.plot(kind, store, weighted=False)",
    "--points": "was removed: a page shows at most about 100,000 positions one by one",
    "--records": "was removed: in Python it is ChunkOptions(records=...)",
    "--test-deep": "was removed: it is test_deep of DIR/repair.toml, which vr repair writes when it begins",
    "--times": "was removed: give --nodes N; in Python vr.confirm has times",
    "--total": "was removed: a mixture has as many games as the share allows",
    "--white": "was removed: the side to move is at the bottom",
    "export --share": "was removed: chunks cannot weigh it back as vr train does; in Python ChunkOptions(share=...)",
    "export --draw": "was removed: chunks cannot weigh it back as vr train does; in Python ChunkOptions(draw=...)",
    "rescore --threshold": "was removed: all judged positions are rescored; in Python vr.rescore has candidates_only",
    "books --json": "was removed: it is manifest.json in the folder",
    "chunks --json": "was removed: it is manifest.json in the folder",
    "mix --json": "was removed: it is manifest.json in the folder",
    "train --json": "was removed: it is the .training.json next to the net",
}  # fmt: skip


def instead_of(command: str, option: str) -> str | None:
    """The message for an option that a command (``vr mine``) no longer has; None if it never had it."""
    advice = INSTEAD.get(f"{command.partition(' ')[2]} {option}", INSTEAD.get(option))
    return None if advice is None else f"{option}: {advice}"
