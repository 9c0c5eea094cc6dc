"""The bridge process: follows the cluster and the pools' logs, and carries out what is due while it is the leader."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from bailiff.client.client import Client
from bailiff.client.settings import service_key
from bailiff_bus.port import Bus
from bailiff_kubernetes import Api, ApiError, Conflict, NotFound
from bailiff_service.clock_and_ids import ClockAndIds
from bailiff_service.logs import logger
from bailiff_service.metrics import Metrics
from bailiff_service.race import race
from bailiff_service.settings import read_pools

from .actions import Change, Send
from .carry_out import CarryOut
from .cluster import ClusterWatch
from .evaluation import Evaluation
from .leader import Leader
from .metrics import BridgeMetrics
from .pool_log import PoolLog
from .requests import Requests
from .settings import BridgeSettings
from .submission import Rules
from .view import ClusterView
from .work_queue import WorkQueue

ROUND_INTERVAL_S, IDLE_INTERVAL_S = 0.05, 1.0
RESEND_POLL_S = 1.0


class KubernetesBridge:
    """Runs until stopped."""

    name = "kubernetes-bridge"

    def __init__(self, settings: BridgeSettings, metrics: Metrics, bus: Bus, clock: ClockAndIds) -> None:
        self._settings, self._bus, self._clock = settings, bus, clock
        self._metrics, self._registry = BridgeMetrics(), metrics.registry
        self._rules = Rules(settings.cluster, settings.kubernetes_priority_classes, settings.kubernetes_controllers)
        self._wake = asyncio.Event()
        source = f"/kubernetes/{settings.cluster}"
        key = service_key(settings.key)
        client = Client(bus, source=source, actor=settings.actor, private_key=key, now=clock.wall)
        self._requests = Requests(client, clock, key or clock.random_bytes())
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
                carry_out = CarryOut(api, self._watch, settings.instance)
                queue = WorkQueue(partial(self._carry_out, carry_out), self._may_act)
                evaluations = {pool.name: Evaluation(pool, self._rules, queue) for pool in self._pools}
                logs = [pool.run() for pool in self._pools]
                senders = [self._send(pool, evaluations[pool.name]) for pool in self._pools]
                rounds = self._rounds(self._watch, evaluations, queue)
                await race(self._leader.run(), self._watch.run(), rounds, queue.run(), *senders, *logs, stop.wait())
                await self._leader.release()
        finally:
            await self._bus.close()

    async def _rounds(self, watch: ClusterWatch, evaluations: Mapping[str, Evaluation], queue: WorkQueue) -> None:
        """Evaluate after changes; what is due is sent and carried out meanwhile. Rounds take at most a third of the time."""
        while True:
            began = time.monotonic()
            if self._may_act():
                self._round(watch.view(), evaluations, queue)
            else:
                queue.clear()
                for evaluation in evaluations.values():
                    evaluation.forget()
            pause_s = max(ROUND_INTERVAL_S, 2 * (time.monotonic() - began))
            with suppress(TimeoutError):
                async with asyncio.timeout(IDLE_INTERVAL_S):
                    await self._wake.wait()
            await asyncio.sleep(pause_s)
            self._wake.clear()

    def _round(self, cluster: ClusterView, evaluations: Mapping[str, Evaluation], queue: WorkQueue) -> None:
        look_at = queue.to_look_at()
        for name, evaluation in evaluations.items():
            with self._metrics.round_seconds.labels(name).time():
                evaluation.round(cluster, [uid for pool, uid in look_at if pool == name])
            self._metrics.due.labels(name).set(queue.count(name) + len(evaluation.sends()))

    async def _send(self, pool: PoolLog, evaluation: Evaluation) -> None:
        """Send the requests that are due, and those again that show no effect."""
        while True:
            if self._may_act():
                sent = await self._requests.send(pool, evaluation.sends())
                self._metrics.actions.labels(pool.name, Send.__name__).inc(sent)
            with suppress(TimeoutError):
                async with asyncio.timeout(RESEND_POLL_S):
                    await evaluation.has_sends.wait()
            evaluation.has_sends.clear()

    def _may_act(self) -> bool:
        """Whether this replica is the leader and sees the cluster as it is."""
        is_leader = self._leader is not None and self._leader.is_leader
        return is_leader and self._watch is not None and self._watch.fault() is None

    async def _carry_out(self, carry_out: CarryOut, pool: str, action: Change) -> None:
        kind = type(action).__name__
        try:
            await carry_out(action)
            self._metrics.actions.labels(pool, kind).inc()
        except (Conflict, NotFound) as error:  # the object has changed or gone: the next round sees it
            logger(pool=pool).debug("not carried out", action=kind, reason=error.message)
        except ApiError as error:
            self._metrics.failed.labels(pool, kind).inc()
            logger(pool=pool).warning("not carried out", action=kind, reason=error.message)
