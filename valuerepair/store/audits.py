"""Audits of screening: what a full search stands for where others like it had only the short one."""

from __future__ import annotations

from valuerepair.store.store import Store

# Positions that are doubtful for no net that was mined here: without a full search, or audited.
LEFT = """
FROM deep_values s JOIN positions p ON p.id = s.position_id
LEFT JOIN deep_values f ON f.judge_id = :full AND f.position_id = s.position_id AND f.failed IS NULL
WHERE s.judge_id = :short AND s.failed IS NULL AND (f.position_id IS NULL OR f.weight > 1)
"""


def weigh_audits(store: Store, full_id: int, short_id: int) -> None:
    """Has the audits of each run's positions of one origin stand for all of these that are not doubtful."""
    with store.writing() as connection:
        pair = {"full": full_id, "short": short_id}
        query = f"SELECT p.run_id, p.origin, count(*), count(f.position_id) {LEFT} GROUP BY p.run_id, p.origin"
        for run_id, origin, positions, audits in connection.execute(query, pair).fetchall():
            if audits:
                audited = "f.position_id IS NOT NULL AND p.run_id = :run AND p.origin = :origin"
                connection.execute(
                    "UPDATE deep_values SET weight = :weight WHERE judge_id = :full AND position_id IN "
                    f"(SELECT p.id {LEFT} AND {audited})",
                    {**pair, "run": run_id, "origin": origin, "weight": positions / audits},
                )
