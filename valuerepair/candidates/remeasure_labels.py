"""The labels of the candidates of nets that are compared, and the policies that some of them need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from valuerepair.candidates.asked_nets import AskedNet, AskedOracle, words_for
from valuerepair.candidates.label_changes import OF_POLICY
from valuerepair.candidates.labelled import labels_of, names, net_id_of
from valuerepair.candidates.labelling import complete
from valuerepair.candidates.priors import missing_priors
from valuerepair.errors import ValueRepairError
from valuerepair.store import Store

if TYPE_CHECKING:
    from valuerepair.store.queries import QFrom


def candidate_labels(
    store: Store, words: str, oracle: AskedOracle, threshold: float, alpha: float, q_from: QFrom
) -> tuple[dict[int, frozenset[str]], bool]:
    """The labels (`labelled.names`) of a net's candidates by position_id, and whether its policy is known for all."""
    frame = store.candidates(threshold, words, oracle.digest, alpha, q_from)
    labels = labels_of(store, frame)
    numbers = frame["position_id"].tolist()
    known = not missing_priors(store, net_id_of(store, frame), oracle.id, numbers)
    return dict(zip(numbers, names(labels), strict=True)), known


def without_policy(labels: dict[int, frozenset[str]]) -> dict[int, frozenset[str]]:
    """The labels less those that need a policy."""
    return {number: each - OF_POLICY for number, each in labels.items()}


def complete_policies(
    db: str,
    nets: Sequence[AskedNet],
    oracle: AskedOracle,
    threshold: float,
    alpha: float | None,
    q_from: QFrom,
    *,
    quiet: bool = False,
    say: Callable[[str], None] = lambda line: None,
    **net_options: Any,
) -> None:
    """Computes the priors of each net's candidates that the store lacks, where the net's file is known.

    The store is opened for writing only if something is missing. A policy that cannot be had is said, and costs no
    more than its labels. `alpha` and `q_from` are as in a comparison: None is the first net's.
    """
    number = None
    for net in {net.id: net for net in nets if net.id}.values():
        with Store.open(db) as store:
            if number is None:
                number = store.alpha(nets[0].id, oracle.id, alpha).value
            frame = store.candidates(threshold, words_for(store, net, oracle), oracle.digest, number, q_from)
            missing = missing_priors(store, net_id_of(store, frame), oracle.id, frame["position_id"].tolist())
        if not missing:
            continue
        try:
            with Store.open(db, write=True) as store:
                complete(store, frame, net.path or None, quiet=quiet, say=say, **net_options)
        except ValueRepairError as error:
            say(f"the policy of {net.name} stays unknown, and with it the labels that need it: {error}")
