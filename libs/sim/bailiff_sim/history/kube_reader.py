"""What the readers of Kubernetes objects share: nodes, priority classes, the latest time seen."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .kube_objects import Seen, machine, time_of
from .records import Found, Site, Source, Tier
from .values import Unreadable

Take = Callable[[Mapping[str, Any]], None]
EVENT_TIMES = ("eventTime", "firstTimestamp", "deprecatedFirstTimestamp")


class KubeReader:
    """Collects the objects; `rows` yields the attempts when all are read."""

    def __init__(self, scheduler: str) -> None:
        self.site = Site(scheduler)
        self.names: dict[str, str] = {}
        self.take_by_kind: dict[str, Take] = {"Node": self._take_node, "PriorityClass": self.take_class}
        self._latest = self._other_gpus = 0

    def read(self, files: Sequence[Path]) -> Source:
        """The rows of the files."""
        return Source(self.site, self.rows(files), self.names)

    def rows(self, files: Sequence[Path]) -> Iterator[Found]:
        """The attempts."""
        raise NotImplementedError

    def take(self, seen: Seen) -> None:
        """Takes in one object."""
        self.saw(seen.at)
        take = self.take_by_kind.get(str(seen.object.get("kind")))
        if take is not None:
            take(seen.object)

    def saw(self, *moments: int | None) -> None:
        """Times that occur in the objects, µs UTC."""
        self._latest = max(self._latest, *(at or 0 for at in moments))

    def take_class(self, found: Mapping[str, Any]) -> None:
        """Takes in a priority class."""
        self.site.tiers[found["metadata"]["name"]] = Tier(int(found.get("value", 0)))

    def tier_of(self, spec: Mapping[str, Any], name: object) -> str:
        """The priority class of a spec, else a name for its number."""
        value = spec.get("priority")
        return str(name or ("" if value is None else f"priority-{value}"))

    def say_other_gpus(self) -> None:
        """Says that parts of GPUs are not counted, if there are any."""
        if self._other_gpus:
            self.site.unknown.append("GPU slices (MIG, time slicing) and resource claims: they are not counted")

    def _take_node(self, found: Mapping[str, Any]) -> None:
        made = machine(found)
        if made is not None:
            self.site.machines.append(made)


def created_at(meta: Mapping[str, Any]) -> int:
    """The creation time, µs UTC. Raises `Unreadable`."""
    created = time_of(meta, "creationTimestamp")
    if created is None:
        raise Unreadable("metadata.creationTimestamp: expected a time, found nothing")
    return created


def involved(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object that an Event is about."""
    found: Mapping[str, Any] = event.get("involvedObject") or event.get("regarding") or {}
    return found
