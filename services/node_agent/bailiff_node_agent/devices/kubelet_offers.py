"""The devices that a kubelet offers to pods.

A kubelet that restarts does not answer, and then offers none of a resource until its device plugin has registered again. For a
bounded time the devices that were offered last stand. What a pod holds is unknown meanwhile, so no device is given back.
"""

import threading
import time
from collections.abc import Callable
from typing import Protocol

from bailiff_node_agent.runtime.kubernetes.pod_resources import KubeletUnavailable
from bailiff_service.logs import logger


class Kubelet(Protocol):
    """The part of the pod-resources API that is read here."""

    def allocatable(self) -> dict[str, str]: ...


class KubeletOffers:
    """is_device: whether a resource of this name is one of devices. grace_s: so long devices that are not offered stand.

    Any thread may ask.
    """

    def __init__(self, kubelet: Kubelet, is_device: Callable[[str], bool], grace_s: float) -> None:
        self._kubelet, self._is_device, self._grace_s = kubelet, is_device, grace_s
        self.known: dict[str, str] = {}
        """The resource of each device that was ever offered."""
        self._last: dict[str, str] = {}
        self._offered_at: dict[str, float] = {}
        self._problem: KubeletUnavailable | None = None
        self._absent: frozenset[str] = frozenset()
        self._lock = threading.Lock()

    def healthy(self) -> dict[str, str]:
        """The resource of each healthy device. Raises `KubeletUnavailable` once the kubelet has not answered for too long."""
        with self._lock:
            self._ask()
            since = time.monotonic() - self._grace_s
            stands = {resource for resource, at in self._offered_at.items() if at > since}
            if self._problem is None:
                stands |= self._offered_at.keys() - self._absent
            elif not stands:
                late = f", and has not for {self._grace_s:g} s" if self.known else ""
                raise KubeletUnavailable(f"{self._problem}{late}")
            return {device: resource for device, resource in self._last.items() if resource in stands}

    def why_not(self, device: str) -> str:
        """Why a known device is not healthy although the kubelet answers."""
        resource = self.known[device]
        if resource in self._absent:
            return f"no device plugin has offered {resource} for {self._grace_s:g} s"
        return "the device plugin reports it as unhealthy"

    def _ask(self) -> None:
        try:
            answer = self._kubelet.allocatable()
        except KubeletUnavailable as problem:
            if self._problem is None:
                logger().warning("the kubelet does not answer", why=str(problem), devices_stand_s=self._grace_s)
            self._problem = problem
            return
        offered = {device: resource for device, resource in answer.items() if self._is_device(resource)}
        present = frozenset(offered.values())
        absent = frozenset(self._offered_at) - present
        if absent > self._absent:
            logger().warning("no device plugin offers these", resources=sorted(absent), devices_stand_s=self._grace_s)
        self._last = {device: resource for device, resource in self._last.items() if resource in absent} | offered
        self._problem, self._absent = None, absent
        self._offered_at |= dict.fromkeys(present, time.monotonic())
        self.known |= offered
