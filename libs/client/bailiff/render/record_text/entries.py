"""The entries of all record types."""

from bailiff_core.records.payload import Payload

from . import evictions, log, nodes, placement, preemptions, requests, tasks
from .registry import RecordText

ENTRIES: dict[type[Payload], RecordText] = {
    kind: entry
    for subject in (evictions, log, nodes, placement, preemptions, requests, tasks)
    for kind, entry in subject.describes.by_type.items()
}
