"""A local view of objects that follows the API server: list, then watch, and list again where the watch cannot be continued.

The view is consistent: it has gone through every version that it shows in the server's order, and what is deleted while nobody
watches is found with the next list. An object that was replaced under its name is seen as deleted and added.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Literal

from .client import Api
from .errors import Gone, TooManyRequests, Unreachable
from .resources import Object, Resource, key_of, uid_of

WATCH_S = 120
"""The server ends each watch after this time; it is continued. A connection that died silently is noticed 10 s later."""
BACKOFF_S = (0.1, 15.0)


@dataclass(frozen=True)
class Change:
    """What happened to an object. object: its newest version; before: the version that the view had."""

    kind: Literal["added", "modified", "deleted"]
    object: Object
    before: Object | None = None


@dataclass
class LocalView:
    """The objects of one kind that match the selectors. `changes` keeps it up to date while it is iterated.

    synced: set once the first list is complete. current: set while a watch is open or a list has just been made; not set
    while the server is out of reach: what the view says may then be old. failure: why, for people. trim: keeps what is needed of
    an object, where there are very many.
    """

    api: Api
    resource: Resource
    namespace: str | None = None
    labels: str = ""
    fields: str = ""
    trim: Callable[[Object], Object] | None = None
    objects: dict[tuple[str, str], Object] = field(default_factory=dict)
    synced: asyncio.Event = field(default_factory=asyncio.Event)
    current: asyncio.Event = field(default_factory=asyncio.Event)
    failure: str | None = None
    lists: int = 0
    """How often it listed: 1 while every watch could be continued."""
    _version: str | None = None

    async def changes(self) -> AsyncIterator[Change]:
        """Every change, for ever. The view has a change already when it is yielded."""
        failures = 0
        while True:
            try:
                if self._version is None:
                    for change in await self._relist():
                        yield change
                    self.synced.set()
                self._is_current()
                async for change in self._watch():
                    failures = 0
                    yield change
                failures = 0
            except Gone:
                self._version = None
            except (Unreachable, TooManyRequests) as error:
                self.current.clear()
                self.failure = error.message
                await asyncio.sleep(_backoff(failures, error.retry_after_s))
                failures += 1

    async def wait_for_list(self) -> None:
        """Wait until the view is complete."""
        await self.synced.wait()

    def get(self, name: str, namespace: str = "") -> Object | None:
        return self.objects.get((namespace, name))

    def _trimmed(self, item: Object) -> Object:
        return item if self.trim is None else self.trim(item)

    def _is_current(self) -> None:
        self.failure = None
        self.current.set()

    async def _relist(self) -> list[Change]:
        listing = await self.api.list(self.resource, self.namespace, labels=self.labels, fields=self.fields)
        self.lists += 1
        found = {key_of(item): self._trimmed(item) for item in listing.items}
        changes = [Change("deleted", old, old) for key, old in self.objects.items() if not _is_same(found.get(key), old)]
        for key, item in found.items():
            old = self.objects.get(key)
            if old is None or not _is_same(item, old):
                changes.append(Change("added", item))
            elif item["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"]:
                changes.append(Change("modified", item, old))
        self.objects.clear()
        self.objects.update(found)
        self._version = listing.resource_version
        return changes

    async def _watch(self) -> AsyncIterator[Change]:
        assert self._version is not None
        events = self.api.stream(
            self.resource, self.namespace, self._version, labels=self.labels, fields=self.fields, timeout_s=WATCH_S
        )
        try:
            async for kind, item in events:
                self._is_current()
                change = self._apply(kind, item)
                self._version = item["metadata"]["resourceVersion"]
                if change is not None:
                    yield change
        finally:
            await events.aclose()

    def _apply(self, kind: str, item: Object) -> Change | None:
        if kind == "BOOKMARK":
            return None
        item, key = self._trimmed(item), key_of(item)
        old = self.objects.get(key)
        if kind == "DELETED":
            self.objects.pop(key, None)
            return Change("deleted", item, old)
        self.objects[key] = item
        return Change("added", item) if old is None else Change("modified", item, old)


def _is_same(one: Object | None, other: Object) -> bool:
    return one is not None and uid_of(one) == uid_of(other)


def _backoff(failures: int, retry_after_s: float | None) -> float:
    """Exponential, with jitter, so that many agents do not come back at once."""
    first, last = BACKOFF_S
    longest = min(last, first * 2 ** min(failures, 16))
    return max(retry_after_s or 0.0, random.uniform(longest / 2, longest))  # noqa: S311 - no secret
