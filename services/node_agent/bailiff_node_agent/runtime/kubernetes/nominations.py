"""Room for the preemptor: from TERM on kube-scheduler keeps what a pod releases, or gives it to any pod that waits.

It keeps it for pods that are nominated to the node. The bridge nominates the preemptor's once it has read the decision, which on
a busy machine may be later than the end of a quick victim. So its agent looks before it sends TERM.
"""

import asyncio

from bailiff_kubernetes import Api
from bailiff_kubernetes.names import JOB, POOL
from bailiff_kubernetes.resources import PODS, annotations_of
from bailiff_service.logs import logger

NOMINATED_WITHIN_S = 10.0
"""How long TERM waits at most; and never for more than half of the grace."""

WAITS = "TERM waits until the preemptor's pods are nominated"


class Nomination:
    """Of a preemptor's pods to this node. grace_s: of the victim."""

    def __init__(self, node: str, preemptor: str, grace_s: float) -> None:
        self._node, self._preemptor = node, preemptor
        self._is_told = False
        self._until = asyncio.get_running_loop().time() + min(NOMINATED_WITHIN_S, grace_s / 2)

    async def is_settled(self, api: Api) -> bool:
        """Whether it is there, or is not waited for any longer. Raises `ApiError`."""
        if asyncio.get_running_loop().time() >= self._until:
            return True
        found = await api.list(PODS, labels=POOL, fields=f"status.nominatedNodeName={self._node}")
        is_there = any(annotations_of(pod).get(JOB) == self._preemptor for pod in found.items)
        if not is_there and not self._is_told:
            logger().info(WAITS, node=self._node, preemptor=self._preemptor)
            self._is_told = True
        return is_there
