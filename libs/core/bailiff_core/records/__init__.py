"""What the audit log may hold, and its bytes.

`facts` came from outside; `decisions` are what `decide` yields; `wire` turns a record into Kafka headers and a
value and back; `chain` says whether a record continues the log. Fields are only ever added, with a default.
Requests, commands and reports are not records: they live with the topics in `bailiff_bus`.
"""

from . import decisions, facts
from .chain import Break, ChainHead, continues, follow
from .payload import AUDIT_TYPES, Payload
from .wire import Record, Wire, decode, encode, record_hash

__all__ = [
    "AUDIT_TYPES",
    "Break",
    "ChainHead",
    "Payload",
    "Record",
    "Wire",
    "continues",
    "decisions",
    "decode",
    "encode",
    "facts",
    "follow",
    "record_hash",
]
