"""The bridge process: follows the cluster and the pools' logs, and carries out what `reconcile` says while it is the leader."""

import asyncio
from collections.abc import Mapping

from bailiff.client.client import Client
from bailiff.client.errors import ClientError
from bailiff.client.settings import read_key
from bailiff_bus.port import Bus
from bailiff_kubernetes import Api, ApiError, Conflict, NotFound
from bailiff_service.clock_and_ids import ClockAndIds
from bailiff_service.logs import logger
from bailiff_service.metrics import Metrics
from bailiff_service.race import race
from bailiff_service.settings import SettingsError, read_pools

from .actions import Action, Send
from .carry_out import CarryOut
from .cluster import ClusterWatch
from .leader import Leader
from .metrics import BridgeMetrics
from .pool_log import PoolLog
from .reconcile import reconcile
from .requests import Requests
from .settings import BridgeSettings
from .submission import Rules

ROUND_INTERVAL_S, IDLE_INTERVAL_S = 0.05, 5.0
AT_ONCE = 32  # changes in the cluster


class KubernetesBridge:
    """Runs until stopped."""

    name = "kubernetes-bridge"

    def __init__(self, settings: BridgeSettings, metrics: Metrics, bus: Bus, clock: ClockAndIds) -> None:
        self._settings, self._bus, self._clock = settings, bus, clock
        self._metrics, self._registry = BridgeMetrics(), metrics.registry
        self._rules = Rules(settings.cluster, settings.kubernetes_priority_classes)
        self._wake = asyncio.Event()
        source = f"/kubernetes/{settings.cluster}"
        client = Client(bus, source=source, actor=settings.actor, private_key=_key_of(settings), now=clock.wall)
        self._requests = Requests(client, clock)
        snapshots = settings.state_dir / self.name
        self._pools = [PoolLog(bus, pool, metrics, snapshots, source, self._wake.set) for pool in read_pools(settings.pools)]
        self._watch: ClusterWatch | None = None
        self._leader: Leader | None = None
        self._unreachable: str | None = "connecting to the API server"

    def readiness(self) -> Mapping[str, str | None]:
        """Ready when the cluster and every log were read. A replica that is not the leader is ready, too."""
        cluster = self._watch.fault() if self._watch is not None else self._unreachable
        return {"cluster": cluster, **{pool.name: None if pool.is_read else "reading its log" for pool in self._pools}}

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set."""
        with self._metrics.served(self._registry):
            await self._run(stop)

    async def _run(self, stop: asyncio.Event) -> None:
        settings = self._settings
        try:
            async with await Api.connect(settings.kubeconfig) as api:
                identity = f"{settings.instance}-{self._clock.random_bytes().hex()[:8]}"
                self._watch = ClusterWatch(api, self._wake.set)
                self._leader = Leader(api, settings.lease_namespace, settings.lease_name, identity, self._clock)
                self._metrics.leader.set_function(lambda: self._leader is not None and self._leader.is_leader)
                logs = [pool.run() for pool in self._pools]
                rounds = self._rounds(CarryOut(api, self._watch, settings.instance))
                await race(self._leader.run(), self._watch.run(), rounds, *logs, stop.wait())
                await self._leader.release()
        finally:
            await self._bus.close()

    async def _rounds(self, carry_out: CarryOut) -> None:
        while True:
            for pool in self._pools:
                await self._round(pool, carry_out)
            try:
                async with asyncio.timeout(IDLE_INTERVAL_S):
                    await self._wake.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(ROUND_INTERVAL_S)  # several changes, one round
            self._wake.clear()

    async def _round(self, pool: PoolLog, carry_out: CarryOut) -> None:
        view = pool.view()
        if view is None or self._watch is None or self._watch.fault() is not None or not self._may_act():
            return
        with self._metrics.round_seconds.labels(pool.name).time():
            actions = reconcile(self._watch.view(), view, self._rules)
        self._metrics.due.labels(pool.name).set(len(actions))
        sends = [action for action in actions if isinstance(action, Send)]
        sent = await self._requests.send(pool.name, sends)
        self._metrics.actions.labels(pool.name, Send.__name__).inc(sent)
        others = [action for action in actions if not isinstance(action, Send)]
        for first in range(0, len(others), AT_ONCE):
            if not self._may_act():
                return
            done = (self._carry_out(pool.name, action, carry_out) for action in others[first : first + AT_ONCE])
            await asyncio.gather(*done)

    def _may_act(self) -> bool:
        return self._leader is not None and self._leader.is_leader

    async def _carry_out(self, pool: str, action: Action, carry_out: CarryOut) -> None:
        kind = type(action).__name__
        try:
            await carry_out(action)
            self._metrics.actions.labels(pool, kind).inc()
        except (Conflict, NotFound) as error:  # the object has changed or gone: the next round sees it
            logger(pool=pool).debug("not carried out", action=kind, reason=error.message)
        except ApiError as error:
            self._metrics.failed.labels(pool, kind).inc()
            logger(pool=pool).warning("not carried out", action=kind, reason=error.message)


def _key_of(settings: BridgeSettings) -> bytes | None:
    try:
        return read_key(settings.key) if settings.key is not None else None
    except ClientError as problem:
        raise SettingsError([problem.text]) from None
