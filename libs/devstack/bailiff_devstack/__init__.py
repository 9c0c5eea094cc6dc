"""A real Kafka, and the services around it, as plain child processes on one machine.

This room is for the demo, the tests and `make up`: it starts things, tells when they answer, and ends exactly what it
started. It needs neither Docker nor a JDK. What may not enter: anything that a service needs in production (no service
imports this package), any rule of Bailiff's, any address of a package registry, and any wait that is a bare sleep.
"""

from bailiff_devstack.identity import stop_recorded
from bailiff_devstack.jars import JarMismatchError, JarUnavailableError
from bailiff_devstack.kafka import EmbeddedKafka
from bailiff_devstack.kafka_cluster import KafkaCluster
from bailiff_devstack.kafka_java import KafkaStartError
from bailiff_devstack.ports import free_port, free_ports
from bailiff_devstack.postgres import EmbeddedPostgres, PostgresStartError
from bailiff_devstack.processes import ProcessDiedError, Processes

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
