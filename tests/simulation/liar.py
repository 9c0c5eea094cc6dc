"""The adversary of a run: whose key it has, what it knows, and how it signs."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from bailiff_bus.messages.commands import CommandBody
from bailiff_bus.port import Headers, Message
from bailiff_core.model.certificate import Role
from bailiff_core.model.document import MAX_INTEGER
from bailiff_core.model.message import MessageBody
from bailiff_core.model.state import Job, Node, PoolState, Task
from bailiff_log.credentials import Credentials
from bailiff_log.message_signatures import wrap_signed, wrap_with_key
from bailiff_log.order_evidence import subject_of

from .keys import PoolKeys

ROLES = ("stranger", "node", "selection", "executor", "auditor", "witness", "rollup", "person")
CERTIFIED: dict[str, Role] = {
    "selection": "victim-selection",
    "executor": "eviction-executor",
    "auditor": "auditor",
    "witness": "witness",
    "rollup": "rollup",
}
COUNTS = (0, 1, 2**31, 10**14, MAX_INTEGER - 1, MAX_INTEGER)


@dataclass(frozen=True)
class Forgery:
    """A message of the adversary. copy_of: topic, partition and offset of the message that it repeats."""

    topic: str
    headers: Headers
    value: bytes
    what: str
    key: bytes = b"pool-a"
    copy_of: tuple[str, int, int] | None = None


@dataclass
class Liar:
    """One moment of the adversary. state: of the log now; messages: of a topic; node: whose key it may have."""

    role: str
    state: PoolState
    messages: Callable[[str], list[Message]]
    keys: PoolKeys
    random: Random
    now: int
    node: str
    number: int

    # --- wrapping

    @property
    def credentials(self) -> Credentials | None:
        """The stolen key with its certificate; a stranger may have made one under a root key of its own."""
        if self.role == "stranger":
            own = self.keys.issue("stranger", self.random.choice(("admission", "node")), "node-0", root=b"\x07" * 32)
            return self.random.choice((None, own))
        if self.role == "node":
            return self.keys.issue(f"nodes/{self.node}", "node", self.node)
        if self.role == "person":
            return None
        folder = self.role if self.role in ("selection", "executor") else f"stolen/{self.role}"
        return self.keys.issue(folder, CERTIFIED[self.role], self.role)

    def forged(self, topic: str, body: MessageBody, subject: str | None = None) -> Forgery:
        """The message, signed with the stolen key."""
        if subject is None:
            subject = subject_of(body, self.state.pool) if isinstance(body, CommandBody) else ""
        about: dict[str, Any] = {
            "source": self.random.choice(("/bailiff/pool-a/admission", f"/bailiff/pool-a/node/{self.node}", "/lies")),
            "id": f"lie-{self.number}-{self.random.randrange(10**9)}",
            "pool": self.state.pool,
            "time_us": self.now + self.random.choice((0, 0, -(10**9), 10**12)),
            "subject": subject,
        }
        found, traceparent = self.credentials, self.random.choice(("", "", "00-not-a-trace", "0" * 300))
        if self.role == "node" and found is not None:
            headers, value = wrap_with_key(found.private_key, body, found.certificate, **about, traceparent=traceparent)
        else:
            headers, value = wrap_signed(found, body, **about, traceparent=traceparent)
        return Forgery(topic, headers, value, f"{type(body).__name__} of {self.role}")

    # --- what there is to lie about

    def tasks(self) -> list[tuple[Job, Task]]:
        """Tasks with resources."""
        return [(job, task) for job in self.state.active_jobs() for task in job.tasks if task.state != "reserved"]

    def task(self, mine: bool = False) -> dict[str, Any]:
        """Job, attempt and task: of a real task, or of one that does not exist."""
        number = self.state.node_numbers.get(self.node)
        found = [(job, task) for job, task in self.tasks() if not mine or task.node == number]
        if not found or not self.random.randrange(4):
            return {"job": self.random.choice(["job-0", "job-1", "nowhere"]), "attempt": self.count(), "task": self.count()}
        job, task = self.random.choice(found)
        return {"job": job.id, "attempt": self.random.choice([job.attempt] * 4 + [job.attempt + 1]), "task": task.index}

    def count(self) -> int:
        """A number: ordinary, or at an extreme."""
        return self.random.choice((*COUNTS, self.random.randrange(1000)))

    def victim(self) -> Node | None:
        """A node; for the owner of a node's key mostly this one."""
        nodes = list(self.state.nodes.values())
        mine = [node for node in nodes if node.name == self.node]
        if self.role == "node" and mine and self.random.randrange(4):
            return mine[0]
        return self.random.choice(nodes) if nodes else None

    def seq(self) -> int:
        """A position: of the log, a little beyond its end, or far beyond."""
        end = self.state.seq
        return self.random.choice((end, max(0, end - 5), end + 1, end + 1000, MAX_INTEGER))

    def epoch(self) -> int:
        """An epoch: the present one, the next one, or one that is far away."""
        return self.random.choice((self.state.epoch, self.state.epoch, self.state.epoch + 1, MAX_INTEGER))
