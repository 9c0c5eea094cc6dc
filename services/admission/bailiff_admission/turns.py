"""Which waiting request is taken next: users take turns (deficit round robin), so nobody waits for another user's backlog.

Rules, for every rank (`OPERATORS` before `KNOWN` before `UNKNOWN`):

* A user's requests keep their order.
* In each round a user may have taken `QUANTUM` bytes; what is left over counts in the next round. A request counts as at least
  `SMALLEST` bytes, so a user waits for at most `ceil(size / QUANTUM)` rounds of the other users of the same rank.
* One of `LATER_EVERY` requests is one of each later rank, while any of that waits: no rank starves, also where an
  operator's key is stolen.
* At most `max_waiting` requests and `max_bytes` of a rank wait. Beyond that, the newest request of the user with most waiting
  bytes is shed, to be rejected.
* At most `MAX_USERS` users of a rank have turns of their own. Further ones share one until it is empty, so invented names gain
  little.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Request = TypeVar("Request")

OPERATORS, KNOWN, UNKNOWN = RANKS = range(3)
QUANTUM, SMALLEST = 4096, 512
LATER_EVERY = 8
MAX_WAITING, MAX_BYTES, MAX_USERS = 10_000, 16 * 2**20, 256
OTHERS = ""


@dataclass(frozen=True, slots=True)
class User:
    """Whose turn a request waits for. rank: one of `RANKS`. paced: whether the rates of users count the request."""

    rank: int
    name: str
    paced: bool = True


@dataclass(slots=True)
class _Queue(Generic[Request]):
    """One user's waiting requests with their costs. credit: bytes that may be taken before the next user's turn."""

    credit: int = QUANTUM
    cost: int = 0
    waiting: deque[tuple[Request, int]] = field(default_factory=deque)


@dataclass(slots=True)
class _Rank(Generic[Request]):
    """The waiting users of one rank, whose turn it is first. passed: requests of other ranks taken while these wait."""

    max_waiting: int
    max_bytes: int
    users: OrderedDict[str, _Queue[Request]] = field(default_factory=OrderedDict)
    waiting: int = 0
    cost: int = 0
    passed: int = 0

    def add(self, name: str, request: Request, cost: int) -> None:
        if name not in self.users and (OTHERS in self.users or len(self.users) >= MAX_USERS):
            name = OTHERS
        queue = self.users.setdefault(name, _Queue())
        queue.waiting.append((request, cost))
        self._count(queue, 1, cost)

    def take(self) -> Request:
        while True:
            name, queue = next(iter(self.users.items()))
            cost = queue.waiting[0][1]
            if cost <= queue.credit:
                break
            queue.credit += QUANTUM
            self.users.move_to_end(name)
        request, _ = queue.waiting.popleft()
        queue.credit -= cost
        self._count(queue, -1, -cost)
        if not queue.waiting:
            del self.users[name]
        return request

    def shed(self) -> tuple[str, Request] | None:
        """The newest request of the user with most waiting bytes, and who that is, if there are too many."""
        if self.waiting <= self.max_waiting and self.cost <= self.max_bytes:
            return None
        name, queue = max(self.users.items(), key=lambda each: each[1].cost)
        request, cost = queue.waiting.pop()
        self._count(queue, -1, -cost)
        if not queue.waiting:
            del self.users[name]
        return name, request

    def _count(self, queue: _Queue[Request], requests: int, cost: int) -> None:
        self.waiting += requests
        self.cost += cost
        queue.cost += cost


class Turns(Generic[Request]):
    """The waiting requests of all users."""

    def __init__(self, max_waiting: int = MAX_WAITING, max_bytes: int = MAX_BYTES) -> None:
        self._ranks: list[_Rank[Request]] = [_Rank(max_waiting, max_bytes) for _ in RANKS]

    def __len__(self) -> int:
        return sum(rank.waiting for rank in self._ranks)

    def add(self, user: User, request: Request, size: int) -> list[tuple[User, Request]]:
        """A request waits. Returns those that are shed for it, possibly itself."""
        rank, shed = self._ranks[user.rank], list[tuple[User, Request]]()
        rank.add(user.name, request, max(size, SMALLEST))
        while (excess := rank.shed()) is not None:
            shed.append((User(user.rank, excess[0]), excess[1]))
        return shed

    def take(self, limit: int) -> list[Request]:
        """The next requests, at most `limit`."""
        return [self._next() for _ in range(min(limit, len(self)))]

    def _next(self) -> Request:
        first, *later = waiting = [rank for rank in self._ranks if rank.waiting]
        taken = next((rank for rank in later if rank.passed >= LATER_EVERY - 1), first)
        for rank in waiting:
            rank.passed += 1
        taken.passed = 0
        return taken.take()
