"""Access to the Kubernetes API for the node agent's runtime, the bridge and `bailiff doctor`: names, client, watch.

It holds no scheduling rules, no Kafka and nothing about one service. `names` has every label, annotation, gate, finalizer and
condition that Bailiff writes; `resources` the kinds of objects; `client` the requests; `watch` a local view that
follows the server.
The official client (the extra `kubernetes`) is imported with the first connection only.
"""

from .client import Api, Listing
from .errors import (
    AlreadyExists,
    ApiError,
    BudgetForbids,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    TooManyRequests,
    Unreachable,
)
from .execution import Execution
from .names import pod_name, shared_claim_name, task_hash
from .resources import Object, Resource
from .watch import Change, LocalView

__all__ = [
    "AlreadyExists",
    "Api",
    "ApiError",
    "BudgetForbids",
    "Change",
    "Conflict",
    "Execution",
    "Forbidden",
    "Gone",
    "Invalid",
    "Listing",
    "LocalView",
    "NotFound",
    "Object",
    "Resource",
    "TooManyRequests",
    "Unreachable",
    "pod_name",
    "shared_claim_name",
    "task_hash",
]
