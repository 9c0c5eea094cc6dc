"""Gang placement: nodes and devices for all tasks of a unit at once, or the reason why the unit is unschedulable.

Layers, bottom to top: step_budget, task_requirements, topology_parts; allocation_index, equivalence_classes; result and
cluster_resources (free resources per node, with trial changes and rollback); indices over them (free_gpu_index, node_index,
topology_domains); node_scoring and packing; backtracking searches (search, devices); solve; topology; gang (`place_unit`);
joint_placement, feasibility. `encode_placement` and `decode_placement` translate to the compact form in records.
"""

from .cluster_resources import ClusterResources
from .feasibility import could_ever_fit
from .gang import place_unit
from .placement_codec import decode_placement, encode_placement
from .result import GangPlacement, NoFit, TaskPlacement
from .step_budget import StepBudget

__all__ = [
    "ClusterResources",
    "GangPlacement",
    "NoFit",
    "StepBudget",
    "TaskPlacement",
    "could_ever_fit",
    "decode_placement",
    "encode_placement",
    "place_unit",
]
