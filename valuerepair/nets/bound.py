"""An ONNX Runtime session whose inputs lie in the device's memory already when it runs (IO binding).

ONNX Runtime otherwise makes a copy of every input on the device anew for each run. Here each thread has inputs of its
own there for each shape it has met lately, and writes into them.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

SHAPES_KEPT = 16  # a thread; sizes of batches are rounded up to few


class BoundSession:
    """An onnxruntime.InferenceSession with bound inputs. `run` may be called from several threads at once."""

    def __init__(self, session: Any, device: str) -> None:
        """`device` is ONNX Runtime's word for where the inputs are to lie: ``cuda``; ``cpu`` gains nothing."""
        self._session, self._device = session, device
        self._rooms = threading.local()

    @property
    def unbound(self) -> Any:
        """The session itself: it copies its inputs at each run."""
        return self._session

    def get_inputs(self) -> Any:
        return self._session.get_inputs()

    def get_outputs(self) -> Any:
        return self._session.get_outputs()

    def get_providers(self) -> Any:
        return self._session.get_providers()

    def run(self, wanted: Sequence[str], fed: Mapping[str, Any]) -> Any:
        """As InferenceSession.run: the outputs of those names, in this machine's memory."""
        arrays = {name: np.ascontiguousarray(array) for name, array in fed.items()}
        binding, inputs = self._room(tuple(wanted), arrays)
        for name, array in arrays.items():
            inputs[name].update_inplace(array)
        self._session.run_with_iobinding(binding)
        return binding.copy_outputs_to_cpu()

    def _room(self, wanted: tuple[str, ...], arrays: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        import onnxruntime

        kept: dict[Any, tuple[Any, dict[str, Any]]] = self._rooms.__dict__.setdefault("kept", {})
        key = wanted, tuple((name, array.shape, array.dtype.str) for name, array in arrays.items())
        room = kept.pop(key, None)
        if room is None:
            binding = self._session.io_binding()
            inputs = {n: onnxruntime.OrtValue.ortvalue_from_numpy(a, self._device, 0) for n, a in arrays.items()}
            for name, value in inputs.items():
                binding.bind_ortvalue_input(name, value)
            for name in wanted:
                binding.bind_output(name, "cpu")
            room = binding, inputs
            if len(kept) >= SHAPES_KEPT:
                del kept[next(iter(kept))]
        kept[key] = room  # last now: the first is the one not used for longest
        return room
