"""Record types of the audit log, and their encoding.

`facts` came from outside; `decisions` are yielded by `decide`; `wire` encodes records as Kafka headers and value, and
decodes them; `chain` checks that a record continues the log. Fields are only ever added, with a default.
Requests, commands and reports are not records: they are in `bailiff_bus`.
"""

from . import decisions, facts
from .chain import Break, ChainHead, continues, follow
from .log_keys import LogKeys, SignatureCheck
from .payload import AUDIT_TYPES, Payload
from .wire import Record, Wire, decode, encode, record_hash

__all__ = [
    "AUDIT_TYPES",
    "Break",
    "ChainHead",
    "LogKeys",
    "Payload",
    "Record",
    "SignatureCheck",
    "Wire",
    "continues",
    "decisions",
    "decode",
    "encode",
    "facts",
    "follow",
    "record_hash",
]
