"""Which commands this node obeys: those that a certified key of admission or the executor has signed, for its pool.

Admission's fences carry revoked keys and changes of the root key. What the agent has learned is on disk and never forgotten.
"""

import json
from collections.abc import Iterable

from bailiff_bus.envelope import Envelope, InvalidMessage
from bailiff_bus.messages.commands import ROLES, CommandBody, Fence
from bailiff_log.message_signatures import Trust, check_sender
from bailiff_log.order_evidence import subject_of
from bailiff_log.root_keys import root_key_after

from .disk import Storage

FILE = "trust"


class CommandTrust:
    """The keys that one node trusts. first_root_key: of its credentials; the present one may follow from it by changes."""

    def __init__(self, storage: Storage, first_root_key: str) -> None:
        self._storage, self._first_root_key = storage, first_root_key
        stored = json.loads(storage.read(FILE) or b"{}")
        follows = stored.get("first_root_key") == first_root_key
        self.root_key: str = stored["root_key"] if follows else first_root_key
        self.revoked: dict[str, None] = dict.fromkeys(stored.get("revoked", ()))

    def check(self, envelope: Envelope, at: int) -> None:
        """Raises `InvalidMessage` unless the command is from who may send it. at: µs UTC. Learns what fences carry."""
        body = envelope.body
        assert isinstance(body, CommandBody)
        root_key = root_key_after(self.root_key, body.root_key_changes) if isinstance(body, Fence) else self.root_key
        if body.sender not in body.SENDERS:
            raise InvalidMessage("wrong-sender", f"{type(body).__name__} is not a command of {body.sender}")
        check_sender(envelope, Trust((root_key, self.root_key), self.revoked), {ROLES[body.sender]}, at)
        if envelope.subject != subject_of(body, envelope.pool):
            raise InvalidMessage("bad-field", "subject: does not name the command's pool, node and positions")
        if isinstance(body, Fence):
            self._learn(root_key, body.revoked_keys)

    def _learn(self, root_key: str, revoked: Iterable[str]) -> None:
        known = self.revoked | dict.fromkeys(revoked)
        if (root_key, len(known)) == (self.root_key, len(self.revoked)):
            return
        self.root_key, self.revoked = root_key, known
        content = {"first_root_key": self._first_root_key, "root_key": root_key, "revoked": list(known)}
        self._storage.replace(FILE, json.dumps(content).encode())
