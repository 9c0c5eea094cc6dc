"""A real S3 server (moto's, a process of its own) with the bucket `audit`, and a proxy before it that stops in the middle of
an upload."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fsspec
import pytest
import s3fs

from bailiff_devstack.ports import free_port

ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
BUCKET = "s3://audit"


@contextmanager
def s3_server(folder: Path) -> Iterator[str]:
    """Its address."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with (folder / "s3.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **ENVIRONMENT})
    try:
        while process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                continue
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def use(address: str, monkeypatch: pytest.MonkeyPatch) -> s3fs.S3FileSystem:
    """Lets this process use the server. Returns its files, with the bucket made."""
    for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": address}.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    files = fsspec.filesystem("s3", use_listings_cache=False)
    if not files.exists("audit"):
        files.mkdir("audit")
    return files


class StoppingProxy(threading.Thread):
    """Passes connections on, until the upload of an object whose name has `text` has begun: then nothing more is passed on.

    stopped: set from then on.
    """

    def __init__(self, address: str, text: str) -> None:
        super().__init__(daemon=True)
        self._to = ("127.0.0.1", int(address.rpartition(":")[2]))
        self._text, self.stopped = text.encode(), threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: list[socket.socket] = []
        self.start()

    def run(self) -> None:
        """Accepts connections."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._to)
            self._open += (client, server)
            threading.Thread(target=self._pass, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client, False), daemon=True).start()

    def close(self) -> None:
        """Ends everything."""
        self._listener.shutdown(socket.SHUT_RDWR)
        for each in (self._listener, *self._open):
            each.close()

    def _pass(self, source: socket.socket, to: socket.socket, upload: bool) -> None:
        try:
            while data := source.recv(1 << 16):
                if upload and data.startswith(b"PUT ") and self._text in data.partition(b"\r\n")[0]:
                    to.sendall(data[: len(data) // 2])
                    self.stopped.set()
                    return
                to.sendall(data)
        except OSError:
            return
