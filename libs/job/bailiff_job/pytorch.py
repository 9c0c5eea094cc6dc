"""A PyTorch loop's whole state in a checkpoint: whatever has a `state_dict`, and where the random numbers stand."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any, Callable

import torch

PARTS, CHANCE = "parts.pt", "chance.pt"


class TrainingState:
    """`TrainingState(model=model, optimizer=optimizer, …)`: `save` and `load` as `Job.checkpoint` and `Job.restore` take them.

    replicated: all ranks hold the same parts, as in data-parallel training, and rank 0 saves them for all; otherwise each
    rank saves its own, as sharded training needs.
    """

    def __init__(self, *, replicated: bool = False, **parts: Any) -> None:
        self._replicated, self._parts = replicated, parts

    def save(self, folder: Path) -> Callable[[], None]:
        """Copies everything to host memory now; what it returns writes the copy, whatever training does meanwhile."""
        chance = _chance()
        parts = None
        if not self._replicated or _rank() == 0:
            parts = {name: _copied(part.state_dict()) for name, part in self._parts.items()}

        def write() -> None:
            torch.save(chance, folder / CHANCE)
            if parts is not None:
                torch.save(parts, folder / PARTS)

        return write

    def load(self, folder: Path) -> None:
        """Into the objects that were given, on whatever device they are."""
        own = folder / PARTS
        parts = torch.load(
            own if own.exists() else folder.with_suffix(".rank-0000") / PARTS, map_location="cpu", weights_only=True
        )
        for name, part in self._parts.items():
            part.load_state_dict(parts[name])
        _set_chance(torch.load(folder / CHANCE, map_location="cpu", weights_only=True))


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


def _chance() -> dict[str, Any]:
    chance: dict[str, Any] = {"torch": torch.get_rng_state(), "python": random.getstate()}
    if torch.cuda.is_available():
        chance["cuda"] = torch.cuda.get_rng_state_all()
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        kind, keys, *rest = numpy.random.get_state()
        chance["numpy"] = (kind, keys.tolist(), *rest)
    return chance


def _set_chance(chance: dict[str, Any]) -> None:
    torch.set_rng_state(chance["torch"])
    random.setstate(chance["python"])
    if "cuda" in chance and torch.cuda.device_count() == len(chance["cuda"]):
        torch.cuda.set_rng_state_all(chance["cuda"])
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy" in chance:
        numpy.random.set_state(chance["numpy"])
