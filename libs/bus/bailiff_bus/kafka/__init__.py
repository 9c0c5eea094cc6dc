"""The bus on Kafka, over aiokafka 0.14.

Every call to a broker is limited by `request_timeout` and fails as `BusUnavailable`, whose text names the servers;
aiokafka itself would retry without end. aiokafka's logs go to the service's log as one-line warnings.
"""

from .admin import configured_replication, connected_admin, raise_for_error
from .bus import KafkaBus
from .tls import build_ssl_context

__all__ = ["KafkaBus", "build_ssl_context", "configured_replication", "connected_admin", "raise_for_error"]
