"""The pipeline on a Dask cluster: workers run the net and the engines, the driver samples, screens and writes.

What the pipeline holds is a `ClusterNet` and a `ClusterOracle`: they take what the local ones take (``answer``,
``submit``, ``climb``) and give futures, so that it does not know where the work is done. The protocol, driver to
worker:

1. *look* (per worker and role, net or search): the worker compares the version of this package, opens the net or the
   engines, and answers with what it has: an `Offer`, files that it lacks, or a reason why it is of no use. Offers that
   differ from what was agreed on are refused, in one line.
2. *keep*: the pieces of a net file that a worker lacks, into its cache, under the file's SHA-256. Engines are never
   sent.
3. *evaluate*, *search*: a chunk of jobs; the answer is a list, in order. A chunk goes to one worker by name and is
   never moved by the scheduler, so that the driver knows what died with it. A climb is one job: it never changes
   worker.
4. *leave*: the driver goes, the worker closes what it had opened for it.

A chunk whose worker is lost is done again once, alone on a worker; when that is lost too, it is cut into halves, down
to the one position that kills workers, which is recorded as failed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from valuerepair.cluster.address import ClusterAddress as ClusterAddress
    from valuerepair.cluster.address import parse_cluster as parse_cluster
    from valuerepair.cluster.opening import evaluators as evaluators
    from valuerepair.cluster.opening import open_on_cluster as open_on_cluster

_HOMES = {
    "ClusterAddress": "address",
    "evaluators": "opening",
    "open_on_cluster": "opening",
    "parse_cluster": "address",
}
__all__ = ["ClusterAddress", "evaluators", "open_on_cluster", "parse_cluster"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
