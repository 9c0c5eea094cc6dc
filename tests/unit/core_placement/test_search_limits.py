"""The limits of the searches decide: with another one, the same state may be decided otherwise. So they belong to `LOGIC`."""

from importlib import import_module

import pytest

LIMITS = {
    "victims.batch": {"MAX_NEED_LENGTH": 600},
    "victims.candidates": {"MAX_EXAMPLES": 5},
    "victims.consolidation": {"JOINT_STEPS": 300, "JOINT_PLACEMENT_STEPS": 5_000, "MAX_OPTIONS": 200},
    "victims.fit_oracle": {"PLACEMENT_STEPS": 200, "NODES_PER_STEP": 8},
    "victims.heterogeneous_gangs": {"PLACEMENT_STEPS": 10_000},
    "victims.infeasibility": {"STEPS": 1_000, "MAX_JOBS_NAMED": 5, "MAX_EXCLUDED": 20_000},
    "victims.knapsack": {"SETS_PER_STEP": 16, "MAX_SETS_PER_COMPONENT": 3_000},
    "victims.objective": {"MAX_CLASSES": 64},
    "victims.relocation": {"STEPS_PER_MOVE": 200},
    "victims.search": {"RUNNER_UP_TRIES": 2, "IMPROVEMENTS": 5, "PLACEMENT_STEPS": 10_000, "RELOCATION_STEPS": 2_000},
    "victims.search_again": {"MAX_PENDING": 16},
    "victims.set_weights": {"MAX_TIE_BROKEN": 2_000},
    "victims.shortlist": {"MOST_GAINS": 16},
    "victims.slot_combinations": {"COMBINATIONS_PER_STEP": 50, "MAX_TIED_EFFORT": 1_000, "MAX_LAYERS": 256},
    "victims.solve": {"PLACEMENT_STEPS": 10_000, "MOVE_STEPS": 5_000, "MAX_JOBS_NAMED": 50},
    "placement.backtracking": {"NODES_PER_STEP": 16},
    "placement.feasibility": {"STEPS": 2_000},
    "placement.node_scoring": {"RATIO_SCALE": 10**9},
    "placement.packing": {"MAX_SCANNED": 64},
    "placement.shared_checkpoints": {"MAX_NAMED": 5},
    "placement.topology_domains": {"RATIO_SCALE": 10**9},
    "quota.usage": {"NO_DEVICE": 2**37},
    "quota.fair_share": {"STEPS": (1000, 1, 1)},
    "actions.allocate": {"MAX_REASON_CHARS": 2_000},
    "actions.migrate": {"MAX_REASON_CHARS": 2_000},
    "actions.preempt": {"MAX_REASON_CHARS": 2_000},
    "actions.requesting": {"MAX_SELECTION_REQUESTS": 64, "MAX_SELECTION_TIMEOUTS": 3},
    "actions.returning": {"STEPS": 1_000},
    "actions.schedule_timeouts": {"MAX_REASON_CHARS": 2_000},
    "lifecycle.coordinated_checkpoint": {"MARGIN": 2, "ROUND_TRIPS": 2, "MIN_ROUND_TRIP": 100_000},
    "lifecycle.enforcement": {"MAX_REASON_CHARS": 1_000},
    "lifecycle.operator_actions": {"MAX_REASON_CHARS": 1_000},
    "lifecycle.outcome": {"YIELDED": 85},
    "lifecycle.termination": {"GROWTH_BACKOFF": 16_000_000, "MAX_EXIT_CODES": 100},
    "fold.apply": {"STALE_KEPT": 10_000, "FORGOTTEN_KEPT": 2_000},
    "fold.keys": {"MAX_WAITING_NODES": 100},
}


@pytest.mark.parametrize("name", LIMITS)
def test_another_limit_raises_logic(name: str) -> None:
    module = import_module(f"bailiff_core.{name}")
    assert {limit: getattr(module, limit) for limit in LIMITS[name]} == LIMITS[name]
