"""The bus on Kafka, over aiokafka 0.14.

Every call to a broker is bounded by `request_timeout` and fails as `BusUnavailable` with a sentence that names the
servers; aiokafka by itself would go on for ever. What aiokafka logs goes to our log as one-line warnings.
"""

from .admin import connected_admin, copies_meant, refusals
from .bus import KafkaBus
from .calls import tls_of

__all__ = ["KafkaBus", "connected_admin", "copies_meant", "refusals", "tls_of"]
