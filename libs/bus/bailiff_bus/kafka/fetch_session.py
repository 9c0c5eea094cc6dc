"""Requests for messages: a session, in which the broker remembers what is fetched, and single requests."""

from collections.abc import Iterable, Mapping
from typing import Any

from aiokafka import TopicPartition
from aiokafka.protocol.fetch import FetchRequest_v11

from .access_protocol import request
from .errors import MIB

MAX_PARTITION_BYTES = 4 * MIB
MAX_RESPONSE_BYTES = 8 * MIB  # a first message that is larger is returned all the same
MIN_BYTES = 1
NEW_SESSION, NO_SESSION = 0, -1  # epochs
LAST_EPOCH = 2**31 - 1
_CONSUMER, _READ_UNCOMMITTED, _ANY_EPOCH, _NO_RACK = -1, 0, -1, ""


class FetchSession:
    """An incremental fetch session (KIP-227): a request names only what changed since the one before.

    positions: the next offset of each partition. Without a change in any, a request and its response are a few bytes, whatever
    the number of partitions.
    """

    def __init__(self) -> None:
        self.positions: dict[TopicPartition, int] = {}
        self.sent: dict[TopicPartition, int] = {}
        """The positions that the broker knows: those that a response is about."""
        self._changed: set[TopicPartition] = set()
        self._id, self._epoch = 0, NEW_SESSION

    def fetch(self, at: TopicPartition, offset: int) -> None:
        """Fetch this partition from this offset on."""
        self.positions[at] = offset
        self._changed.add(at)

    def forget(self, at: TopicPartition) -> None:
        """Fetch this partition no more."""
        del self.positions[at]
        self._changed.add(at)

    def request(self, max_wait_ms: int) -> Any:
        """The next request. The broker answers when there are messages, at the latest after `max_wait_ms`."""
        if self._epoch == NEW_SESSION:
            self.sent = dict(self.positions)
            changed, forgotten = self.sent, frozenset[TopicPartition]()
        else:
            changed = {at: self.positions[at] for at in self._changed if at in self.positions}
            forgotten = frozenset(at for at in self._changed if at not in self.positions and at in self.sent)
            self.sent |= changed
            for at in forgotten:
                del self.sent[at]
        self._changed.clear()
        return _request(max_wait_ms, self._id, self._epoch, changed, forgotten)

    def answered(self, response: Any) -> bool:
        """Take note of the response. Returns False if the broker has no such session (any more): then begin a new one."""
        if response.error_code:
            self.restart()
            return False
        self._id = response.session_id  # 0: the broker keeps no session
        self._epoch = NEW_SESSION if self._id == 0 else self._epoch % LAST_EPOCH + 1
        return True

    def restart(self) -> None:
        """Begin a new session with the next request, after a failed one."""
        self._epoch = NEW_SESSION


def single_request(max_wait_ms: int, positions: Mapping[TopicPartition, int]) -> Any:
    """A request for messages without a session."""
    return _request(max_wait_ms, 0, NO_SESSION, positions, ())


def _request(
    max_wait_ms: int, session: int, epoch: int, positions: Mapping[TopicPartition, int], forgotten: Iterable[TopicPartition]
) -> Any:
    fetched: dict[str, list[tuple[int, int, int, int, int]]] = {}
    for at, offset in positions.items():
        fetched.setdefault(at.topic, []).append((at.partition, _ANY_EPOCH, offset, -1, MAX_PARTITION_BYTES))
    dropped: dict[str, list[int]] = {}
    for at in forgotten:
        dropped.setdefault(at.topic, []).append(at.partition)
    return request(
        FetchRequest_v11,
        _CONSUMER,
        max_wait_ms,
        MIN_BYTES,
        MAX_RESPONSE_BYTES,
        _READ_UNCOMMITTED,
        session,
        epoch,
        list(fetched.items()),
        list(dropped.items()),
        _NO_RACK,
    )
