"""Victim selection: the cheapest set of units to evict so that a preemptor fits, and a proof that no set is cheaper.

`select_batch` solves the open requests of a selection, `select_victims` one request under one action; `revalidate_proposal`
checks a proposal against the current state when it arrives. All evictions are simulated at once, the preemptor is placed
as a whole, and victims that still fit are reprieved.

Layers, bottom to top: objective (costs), candidates, trial (evictions tried, and what the action permits), fit_oracle,
relocation, branch_and_bound and knapsack (search methods), infeasibility (reasons), the solvers search, consolidation, shortlist
and heterogeneous_gangs, proposals (the records), batch, revalidate, reprieve.
"""

from .batch import SelectionBatch, apply_proposal, select_batch, select_victims
from .reprieve import evictions_to_cancel
from .revalidate import Accepted, Stale, revalidate_proposal

__all__ = [
    "Accepted",
    "SelectionBatch",
    "Stale",
    "apply_proposal",
    "evictions_to_cancel",
    "revalidate_proposal",
    "select_batch",
    "select_victims",
]
