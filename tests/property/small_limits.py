"""Limits of the searches, made small, so that small pools reach what only large ones would, and each step counts."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from random import Random
from unittest.mock import patch

LIMITS: dict[str, dict[str, tuple[int, ...]]] = {
    "placement.packing_search": {"NODES_PER_STEP": (1, 2)},
    "placement.feasibility": {"STEPS": (1, 10)},
    "placement.packing": {"MAX_SCANNED": (0, 1, 2)},
    "placement.topology": {"NODES_PER_STEP": (1, 2)},
    "victims.candidates": {"SHORTLIST_COST": (1, 2), "SHORTLIST_JOBS": (1, 3)},
    "victims.consolidation": {"JOINT_STEPS": (2, 10), "JOINT_PLACEMENT_STEPS": (3, 20), "MAX_OPTIONS": (2, 5)},
    "victims.fit_oracle": {"NODES_PER_STEP": (1, 2), "PLACEMENT_STEPS": (2, 10)},
    "victims.heterogeneous_gangs": {"MIN_ACTIVE_JOBS": (0, 0, 3), "PLACEMENT_STEPS": (5, 20)},
    "victims.infeasibility": {"STEPS": (2, 10), "MAX_JOBS_NAMED": (1, 2)},
    "victims.knapsack": {"SETS_PER_STEP": (1, 2), "MAX_SETS_PER_COMPONENT": (5, 20, 60)},
    "victims.relocation": {"STEPS_PER_MOVE": (2, 10)},
    "victims.search": {"IMPROVEMENTS": (1, 2), "PLACEMENT_STEPS": (5, 20), "RELOCATION_STEPS": (5, 20)},
    "victims.set_weights": {"MAX_TIE_BROKEN": (2, 5)},
    "victims.shortlist": {"INITIAL_SIZE": (1, 1, 2), "MIN_ACTIVE_JOBS": (0, 0, 3), "MOST_GAINS": (1, 2)},
    "victims.slot_combinations": {"COMBINATIONS_PER_STEP": (1, 3), "MAX_LAYERS": (2, 5), "MAX_TIED_EFFORT": (0, 3)},
    "victims.batch": {"MOVE_STEPS": (5, 20), "PLACEMENT_STEPS": (5, 20)},
}


@contextmanager
def small_limits(random: Random, percent: int = 50) -> Iterator[None]:
    """Each limit is small with this chance."""
    with ExitStack() as patches:
        for name, limits in LIMITS.items():
            module = import_module(f"bailiff_core.{name}")
            for limit, values in limits.items():
                value = random.choice(values)
                assert getattr(module, limit) > value
                if random.randrange(100) < percent:
                    patches.enter_context(patch.object(module, limit, value))
        yield
