"""Replicas elect the one that acts by a Lease: by its versions, and by each replica's own clock."""

import copy
from dataclasses import replace

from bailiff_kubernetes import Conflict, NotFound
from bailiff_kubernetes_bridge.leader import LEASE_S, RENEW_WITHIN_S, Leader
from bailiff_service.clock_and_ids import SYSTEM

SECOND = 1_000_000


class Server:
    """An API server with one Lease. lost: it does not answer any more."""

    def __init__(self):
        self.lease, self.version, self.lost = None, 0, False

    async def get(self, resource, name, namespace):
        if self.lost:
            raise Conflict("no answer")
        if self.lease is None:
            raise NotFound("no such lease")
        return copy.deepcopy(self.lease)

    async def create(self, resource, body, namespace):
        self._keep(body)

    async def replace(self, resource, body, namespace):
        if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise Conflict("the object has been modified")
        self._keep(body)

    def _keep(self, body):
        self.version += 1
        self.lease = copy.deepcopy(body)
        self.lease["metadata"]["resourceVersion"] = str(self.version)


class Replicas:
    """Two candidates that share a server and a clock."""

    def __init__(self):
        self.server, self.now = Server(), SECOND
        clock = replace(SYSTEM, boot=lambda: self.now)
        self.one, self.two = (Leader(self.server, "bailiff", "bridge", name, clock) for name in ("one", "two"))

    def leaders(self):
        return [each.is_leader for each in (self.one, self.two)]

    async def pass_time(self, seconds, *renewing):
        for _ in range(seconds):
            self.now += SECOND
            for each in renewing:
                await each._step()


async def test_one_leads_while_it_renews():
    replicas = Replicas()
    await replicas.one._step()
    await replicas.two._step()
    assert replicas.leaders() == [True, False]
    await replicas.pass_time(60, replicas.one, replicas.two)
    assert replicas.leaders() == [True, False]


async def test_another_takes_over_after_the_lease_has_ended_and_never_before_the_first_has_stopped():
    replicas = Replicas()
    await replicas.one._step()
    await replicas.two._step()
    await replicas.pass_time(LEASE_S, replicas.two)
    assert replicas.leaders() == [False, False], f"the first stops after {RENEW_WITHIN_S} s"
    await replicas.pass_time(1, replicas.two)
    assert replicas.leaders() == [False, True]
    await replicas.one._step()
    assert replicas.leaders() == [False, True]
    assert replicas.server.lease["spec"]["leaseTransitions"] == 2


async def test_of_two_writes_of_one_version_one_wins():
    replicas = Replicas()
    await replicas.one._step()
    await replicas.two._step()
    replicas.now += (LEASE_S + 1) * SECOND
    seen = await replicas.server.get(None, "", "")
    await replicas.one._step()  # renews late, but first
    replicas.server.get = lambda *_: _returns(seen)
    await replicas.two._step()
    assert replicas.leaders() == [True, False]


async def _returns(value):
    return value


async def test_a_leader_without_a_server_stops_acting():
    replicas = Replicas()
    await replicas.one._step()
    replicas.server.lost = True
    await replicas.pass_time(RENEW_WITHIN_S, replicas.one)
    assert replicas.leaders() == [False, False]


async def test_a_released_lease_is_free_at_once():
    replicas = Replicas()
    await replicas.one._step()
    await replicas.one.release()
    await replicas.two._step()
    assert replicas.two.is_leader
