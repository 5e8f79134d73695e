"""The end of a run: what the net's policy says of its candidates, and what else there is to say."""

from __future__ import annotations

from collections.abc import Sequence

from valuerepair.candidates.priors import PolicyNet, add_priors
from valuerepair.deep.oracle import OracleIdentity
from valuerepair.deep.spec import RECORDED
from valuerepair.mining.options import Evaluator, MineOptions
from valuerepair.mining.recorded import remarks
from valuerepair.store import Store
from valuerepair.store.recall import recall_line
from valuerepair.store.rows import Run


def keep_priors(store: Store, net: Evaluator, net_id: int, oracle_id: int, options: MineOptions, alpha: float) -> None:
    """Keeps the priors of the moves that matter in the candidates at the run's threshold, if the net has a policy."""
    if not isinstance(net, PolicyNet):
        return
    wanted = ("position_id", "disagreement")
    frame = store.frame(*store.names(net_id, oracle_id), alpha, options.q_from, only=wanted)
    candidates = frame.loc[frame["disagreement"].abs() >= options.threshold, "position_id"].tolist()
    add_priors(store, net, net_id, oracle_id, candidates)


def closing_remarks(
    store: Store, net_id: int, oracle_id: int, oracle: OracleIdentity, run: Run, options: MineOptions
) -> Sequence[str]:
    """What recorded evaluations, or the screening ladder, have to say at the end."""
    if oracle.kind == RECORDED:
        return remarks(store, run.id, net_id, oracle_id, oracle)
    if options.screen is None:
        return ()
    line = recall_line(store, net_id, oracle_id, options.threshold, options.alpha, options.q_from)
    return (line,) if line else ()
