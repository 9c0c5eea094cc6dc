"""Checkpoints of a PyTorch training loop: everything that has a `state_dict`, and the states of the random number generators."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any, Callable

import torch

PARTS, RNG = "parts.pt", "rng.pt"


class TrainingState:
    """`TrainingState(model=model, optimizer=optimizer, …)`: `save` and `load` as `Job.checkpoint` and `Job.restore` take them.

    Attributes:
        replicated: All ranks hold the same parts, as in data-parallel training, and rank 0 saves them for all; otherwise each
            rank saves its own, as in sharded training.
    """

    def __init__(self, *, replicated: bool = False, **parts: Any) -> None:
        self._replicated, self._parts = replicated, parts

    def save(self, folder: Path) -> Callable[[], None]:
        """Copy everything to host memory now. Returns the function that writes the copy while training continues."""
        rng = _rng_state()
        parts = None
        if not self._replicated or _rank() == 0:
            parts = {name: _copied(part.state_dict()) for name, part in self._parts.items()}

        def write() -> None:
            torch.save(rng, folder / RNG)
            if parts is not None:
                torch.save(parts, folder / PARTS)

        return write

    def load(self, folder: Path) -> None:
        """Load into the given objects, on their present devices."""
        own = folder / PARTS
        parts = torch.load(
            own if own.exists() else folder.with_suffix(".rank-0000") / PARTS, map_location="cpu", weights_only=True
        )
        for name, part in self._parts.items():
            part.load_state_dict(parts[name])
        _set_rng_state(torch.load(folder / RNG, map_location="cpu", weights_only=True))


def _rank() -> int:
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    return int(torch.distributed.get_rank()) if distributed else 0


def _copied(state: Any) -> Any:
    if isinstance(state, torch.Tensor):
        return state.detach().to("cpu", copy=True)
    if isinstance(state, dict):
        return {name: _copied(value) for name, value in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)(_copied(value) for value in state)
    return state


def _rng_state() -> dict[str, Any]:
    rng: dict[str, Any] = {"torch": torch.get_rng_state(), "python": random.getstate()}
    if torch.cuda.is_available():
        rng["cuda"] = torch.cuda.get_rng_state_all()
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        kind, keys, *rest = numpy.random.get_state()
        rng["numpy"] = (kind, keys.tolist(), *rest)
    return rng


def _set_rng_state(rng: dict[str, Any]) -> None:
    torch.set_rng_state(rng["torch"])
    random.setstate(rng["python"])
    if "cuda" in rng and torch.cuda.device_count() == len(rng["cuda"]):
        torch.cuda.set_rng_state_all(rng["cuda"])
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy" in rng:
        numpy.random.set_state(rng["numpy"])
