"""Which replica acts: whoever holds a Lease. Each write of it names the version that it replaces, so two never both get it.

A leader that was stopped for long does not know it yet when it continues. So every change that it makes names the version, or the
uid, of the object that it saw, and every request has an id that another leader would use as well: late changes have no effect.
"""

import asyncio
from datetime import UTC, datetime

from bailiff_kubernetes import Api, ApiError, NotFound
from bailiff_kubernetes.client import micro_time
from bailiff_kubernetes.resources import LEASES, Object
from bailiff_service.clock_and_ids import ClockAndIds
from bailiff_service.logs import logger

LEASE_S, RENEW_WITHIN_S, RETRY_S = 15, 10, 2


class Leader:
    """One candidate. identity: unique among the replicas. changed: called when it becomes the leader or no longer is."""

    def __init__(self, api: Api, namespace: str, name: str, identity: str, clock: ClockAndIds) -> None:
        self._api, self._namespace, self._name, self._identity, self._clock = api, namespace, name, identity, clock
        self._observed: tuple[str, int] = ("", 0)  # version of the Lease, and when it was first seen here
        self._renewed_at: int | None = None
        self.changed = asyncio.Event()

    @property
    def is_leader(self) -> bool:
        """Whether this replica may act: it renewed the Lease long before another could take it."""
        return self._renewed_at is not None and self._clock.boot() - self._renewed_at < RENEW_WITHIN_S * 1_000_000

    async def run(self) -> None:
        """Keep or seek the Lease, for ever."""
        try:
            while True:
                before = self.is_leader
                await self._step()
                if self.is_leader != before:
                    logger().info("leader" if self.is_leader else "not the leader", lease=self._name)
                    self.changed.set()
                await asyncio.sleep(RETRY_S)
        finally:
            self._renewed_at = None

    async def release(self) -> None:
        """Give the Lease back, so that another replica need not wait for its end."""
        try:
            lease = await self._api.get(LEASES, self._name, self._namespace)
            if lease["spec"].get("holderIdentity") == self._identity:
                lease["spec"] = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
                await self._api.replace(LEASES, lease, self._namespace)
        except ApiError as error:
            logger().warning("the Lease was not released; it ends by itself", lease=self._name, reason=error.message)

    async def _step(self) -> None:
        started = self._clock.boot()
        try:
            lease = await self._api.get(LEASES, self._name, self._namespace)
            if self._may_take(lease):
                await self._api.replace(LEASES, self._held(lease), self._namespace)
                self._renewed_at = started
            else:
                self._renewed_at = None
        except NotFound:
            await self._create(started)
        except ApiError as error:  # a conflict: another replica was faster; else the server is out of reach
            logger().info("the Lease was not renewed", lease=self._name, reason=error.message)

    async def _create(self, started: int) -> None:
        metadata = {"name": self._name, "namespace": self._namespace}
        lease: Object = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": {}}
        try:
            await self._api.create(LEASES, self._held(lease), self._namespace)
            self._renewed_at = started
        except ApiError as error:
            logger().warning("the Lease was not created", lease=self._name, reason=error.message)

    def _may_take(self, lease: Object) -> bool:
        """Its own, a released one, or one whose version has not changed for its duration, by this machine's own clock."""
        version, spec = lease["metadata"]["resourceVersion"], lease.get("spec") or {}
        if spec.get("holderIdentity") in (self._identity, "", None):
            return True
        if self._observed[0] != version:
            self._observed = (version, self._clock.boot())
        return self._clock.boot() - self._observed[1] > (spec.get("leaseDurationSeconds") or LEASE_S) * 1_000_000

    def _held(self, lease: Object) -> Object:
        now, spec = micro_time(datetime.now(UTC)), lease.get("spec") or {}
        is_own = spec.get("holderIdentity") == self._identity
        return {
            **lease,
            "spec": {
                **spec,
                "holderIdentity": self._identity,
                "leaseDurationSeconds": LEASE_S,
                "renewTime": now,
                "acquireTime": spec.get("acquireTime") or now if is_own else now,
                "leaseTransitions": (spec.get("leaseTransitions") or 0) + (not is_own),
            },
        }
