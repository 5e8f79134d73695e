"""Completing what labels need: the priors that are not in the store yet, from the net that the store knows."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from valuerepair.candidates.labelled import net_id_of
from valuerepair.candidates.priors import add_priors, missing_priors
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.nets.devices import device_of, split_key
from valuerepair.nets.registry import KNOWN_NETS, locate
from valuerepair.nets.winograd import VARIANT
from valuerepair.progress import Progress

if TYPE_CHECKING:
    import pandas as pd

    from valuerepair.nets import Net
    from valuerepair.store import Store

# The history fill of values that came with their positions: their net is not at hand.
RECORDED_FILL = "recorded"


def complete(
    store: Store,
    frame: pd.DataFrame,
    net_file: str | None = None,
    *,
    quiet: bool = False,
    say: Callable[[str], None] = lambda line: None,
    **net_options: Any,
) -> int:
    """Computes and keeps the priors of a frame's rows that the store lacks; says of how many positions.

    `net_file` is the net's file where the user gave one; a known net is found by its name. `net_options` are those of
    `nets.open_net`. The net is opened only if something is missing; of values recorded in an archive no net is at
    hand, which is said. Raises UsageError when the net's file is not known, ValueRepairError when it is another net.
    """
    which, net_id = frame.attrs["net"], net_id_of(store, frame)
    numbers = frame["position_id"].tolist()
    oracle_id = store.pick(which["sha256"], frame.attrs["oracle"]["digest"])[1]
    missing = len(missing_priors(store, net_id, oracle_id, numbers))
    if not missing:
        return 0
    if which["history_fill"] == RECORDED_FILL:
        say(f"the values of {which['name']} are recorded ones: its policy is not known, and so no blindness")
        return 0
    with (
        open_stored(which, net_file, say=say, **net_options) as net,
        Progress("priors", missing, "positions", quiet=quiet) as progress,
    ):
        return add_priors(store, net, net_id, oracle_id, numbers, progress)


def open_stored(
    which: Mapping[str, Any],
    net_file: str | None = None,
    *,
    say: Callable[[str], None] = lambda line: None,
    **net_options: Any,
) -> Net:
    """Opens the net of a frame's attrs, ``{name, sha256, history_fill}``, to compute as it did for the store."""
    from valuerepair.nets import open_net

    key, name = str(which["sha256"]), str(which["name"])
    sha256, variant = split_key(key)
    winograd = variant == VARIANT
    path = _file_of(name, sha256, net_file, say)
    if (device := device_of(variant)) is not None:  # of another precision, which only some devices have
        net_options["device"] = device
    net = open_net(path, history_fill=which["history_fill"], winograd=winograd, say=say, **net_options)
    if net.identity.key != key:
        found = net.identity.key
        net.close()
        raise ValueRepairError(
            f"{path} is not the net {name} of the store (its key is {found[:12]}, not {key[:12]}); give the file of "
            "that one with --net" + (" and compute on the CPU" if winograd else "")
        )
    return net


def _file_of(name: str, sha256: str, given: str | None, say: Callable[[str], None]) -> str:
    if given is not None and os.path.exists(os.path.expanduser(given)):
        return given
    known = next((net for net in KNOWN_NETS.values() if net.sha256 == sha256), None)
    if known is None:
        raise UsageError(
            f"the store does not know where the net {name} ({sha256[:12]}) lies, and its policy is needed; "
            "give its file with --net FILE"
        )
    return str(locate(known.name, say))
