"""The devices that a kubelet offers to pods.

A kubelet that restarts does not answer, and then offers none of a resource until its device plugin has registered again. That
breaks no device, and no pod that runs: the devices that were offered last stand. After a bounded time no more pods are placed.
"""

import threading
import time
from collections.abc import Callable

from bailiff_node_agent.runtime.kubernetes.pod_resources import KubeletUnavailable, PodResources
from bailiff_service.logs import logger


class KubeletOffers:
    """is_device: whether a resource of this name is one of devices. grace_s: so long it may offer none. Any thread may ask."""

    def __init__(self, kubelet: PodResources, is_device: Callable[[str], bool], grace_s: float) -> None:
        self._kubelet, self._is_device, self._grace_s = kubelet, is_device, grace_s
        self.known: dict[str, str] = {}
        """The resource of each device that was ever offered."""
        self._last: dict[str, str] = {}
        self._offered_at: dict[str, float] = {}
        self._problem = ""
        self._absent: frozenset[str] = frozenset()
        self._lock = threading.Lock()

    def healthy(self) -> dict[str, str]:
        """The resource of each healthy device. Raises `KubeletUnavailable` where the kubelet has never answered."""
        with self._lock:
            try:
                self._read(self._kubelet.allocatable())
            except KubeletUnavailable as problem:
                if not self.known:
                    raise
                if not self._problem:
                    logger().warning("the kubelet does not answer", why=str(problem))
                self._problem = str(problem)
            return dict(self._last)

    def away(self) -> str:
        """Why no pod with devices can be placed here: nobody has offered them for longer than the grace. Empty: it can."""
        since, offered_at = time.monotonic() - self._grace_s, dict(self._offered_at)  # no lock: a call to the kubelet may hold it
        late = sorted(resource for resource, at in offered_at.items() if at <= since)
        if self._problem and late:
            return f"its kubelet has not answered for {self._grace_s:g} s"
        late = [resource for resource in late if resource in self._absent]
        return f"no device plugin has offered {', '.join(late)} for {self._grace_s:g} s" if late else ""

    def _read(self, answer: dict[str, str]) -> None:
        offered = {device: resource for device, resource in answer.items() if self._is_device(resource)}
        present = frozenset(offered.values())
        absent = frozenset(self._offered_at) - present
        if absent > self._absent:
            logger().warning("no device plugin offers these", resources=sorted(absent))
        self._last = {device: resource for device, resource in self._last.items() if resource in absent} | offered
        self._offered_at |= dict.fromkeys(present, time.monotonic())
        self._problem, self._absent = "", absent
        self.known |= offered
