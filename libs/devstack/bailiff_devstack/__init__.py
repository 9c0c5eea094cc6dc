"""Runs Kafka, PostgreSQL and Bailiff's services as child processes on one machine.

For the demo, the tests and `make up`: it starts processes, waits until they are ready, and stops exactly what it started. It
needs neither Docker nor a JDK. It contains nothing that a service needs in production (no service imports this package).
"""

from .identity import stop_recorded
from .jars import JarMismatchError, JarUnavailableError
from .kafka import EmbeddedKafka
from .kafka_cluster import KafkaCluster
from .kafka_java import KafkaStartError
from .ports import free_port, free_ports
from .postgres import EmbeddedPostgres, PostgresStartError
from .processes import ProcessDiedError, Processes

__all__ = [
    "EmbeddedKafka",
    "EmbeddedPostgres",
    "JarMismatchError",
    "JarUnavailableError",
    "KafkaCluster",
    "KafkaStartError",
    "PostgresStartError",
    "ProcessDiedError",
    "Processes",
    "free_port",
    "free_ports",
    "stop_recorded",
]
