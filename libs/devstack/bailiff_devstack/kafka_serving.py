"""Checks that a broker serves clients, with one hand-written Metadata request and no Kafka client."""

import socket
import ssl
import struct
from collections.abc import Iterator, Sequence

from .ports import LOOPBACK


def serves(port: int, cluster: str, others: Sequence[int] = (), tls: ssl.SSLContext | None = None, host: str = LOOPBACK) -> bool:
    """Whether the broker serves clients: its metadata response lists it and the others as alive, and names the cluster.

    An open port is not enough: it opens before the controller assigns partitions to the broker, and topics created in
    between fail; or it is another program's. The request is Metadata, version 4, for no topics: key, version,
    correlation id, no client id.
    """
    body = struct.pack(">hhih", 3, 4, 1, -1) + struct.pack(">i?", 0, False)
    try:
        with _connected(host, port, tls) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            response = _read(connection, struct.unpack(">i", _read(connection, 4))[0])
    except (OSError, EOFError):
        return False
    alive = list(_live_ports(response))
    return all(each in alive for each in (port, *others)) and cluster.encode() in response


def _connected(host: str, port: int, tls: ssl.SSLContext | None) -> socket.socket:
    connection = socket.create_connection((host, port), timeout=1.0)
    return tls.wrap_socket(connection, server_hostname=host) if tls is not None else connection


def _live_ports(metadata: bytes) -> Iterator[int]:
    """Ports of the brokers in a metadata response: (number, host, port, rack) each, strings prefixed by their length."""
    _correlation, _throttle, brokers = struct.unpack_from(">iii", metadata)
    at = 12
    for _ in range(brokers):
        _number, host = struct.unpack_from(">ih", metadata, at)
        port, rack = struct.unpack_from(">ih", metadata, at + 6 + host)
        yield port
        at += 6 + host + 6 + max(0, rack)


def _read(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise EOFError
        received += part
    return received
