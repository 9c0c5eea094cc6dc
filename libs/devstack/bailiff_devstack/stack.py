"""The whole system on one machine: Kafka, topics, and each service as a process of its own, under one folder.

For `make demo`, `make up` and the process tests.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from bailiff.witness.service import own_key
from bailiff.witness.settings import WitnessSettings
from bailiff_bus.port import BusUnavailable
from bailiff_bus.topic_admin import create_topics
from bailiff_core.model.certificate import Role
from bailiff_log.credentials import issued_credentials
from bailiff_node_agent.runtime.fork_server import ForkServerDied
from bailiff_service.access_tokens import API_TOKEN_FILE, service_token

from .forked import fork_server
from .identity import wait_until
from .jars import JarMismatchError, JarUnavailableError
from .jobs import end_jobs
from .kafka import EmbeddedKafka
from .kafka_cluster import KafkaCluster
from .kafka_java import KafkaStartError
from .managed import Managed
from .operator_key import CONSOLE as CONSOLE_NAME
from .operator_key import console_key
from .ports import LOOPBACK, free_ports, is_free, persistent_port
from .postgres import EmbeddedPostgres, PostgresStartError
from .processes import ProcessDiedError, Processes

SERVICES = {
    "admission": "bailiff_admission",
    "victim-selection": "bailiff_victim_selection",
    "eviction-executor": "bailiff_eviction_executor",
    "node-agent": "bailiff_node_agent",
}
AUDITOR = "auditor"  # if the plan includes it, with a PostgreSQL
API = "api"  # the HTTP API over its archive
ROLLUP = "rollup"  # the live metrics
CONSOLE = "console"  # the web console
WITNESS = "witness"  # cosigns the seals
ENGINES = "engines"
"""The folder, below the state, in which admission keeps its engine, for `audit replay` after an upgrade."""
MODULES = {
    **SERVICES,
    AUDITOR: "bailiff_auditor",
    API: "bailiff_auditor.api",
    ROLLUP: "bailiff_rollup",
    CONSOLE: "bailiff_console",
    WITNESS: "bailiff.witness",
}

CERTIFIED: Mapping[str, Role] = {
    "admission": "admission",
    "victim-selection": "victim-selection",
    "eviction-executor": "eviction-executor",
    AUDITOR: "auditor",
    API: "api",
    ROLLUP: "rollup",
    CONSOLE: "console",
    WITNESS: "witness",
}
"""The roles in the services' certificates."""

INTERPRETER_VARIABLES = ("PYTHON", "LD_")
"""Variables that take effect when a program starts: a service that has one is started anew instead of forked."""

NOT_FOR_JOBS = ("services", "kafka", "postgres", "archive", "environment", "credentials", "policy.yaml")
"""Files and folders beside the state folder: logs, data and addresses of the servers."""

PORT_FILES = {
    "kafka": ("kafka.port", "kafka/scram.port"),
    "postgres": ("postgres/port",),
    API: ("api.port",),
    CONSOLE: ("console.port", "console-jobs.port"),
    WITNESS: ("witness.port",),
}
"""Files with the ports that stay the same at every start."""

ADDRESS_WITHIN_S = 10.0
"""Time in which a service that runs has written its address."""

START_ERRORS = (
    ForkServerDied,
    JarMismatchError,
    JarUnavailableError,
    KafkaStartError,
    PostgresStartError,
    ProcessDiedError,
    BusUnavailable,
    TimeoutError,
)


@dataclass(frozen=True)
class Plan:
    """What to start. nodes: in the form of the agent's settings. env: settings for all services, by variable.

    archive: with the auditor and a PostgreSQL; api: with the HTTP API; rollup: with the live metrics; console: with the web
    console; witness: with a witness of the seals.
    """

    pools: Sequence[str] = ("pool-a",)
    nodes: Sequence[Mapping[str, object]] = ({"name": "node-1", "pool": "pool-a", "gpus": "8xH100-80GB"},)
    policy: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    port: int | None = None
    archive: bool = False
    api: bool = False
    rollup: bool = False
    console: bool = False
    witness: bool = False


class Stack(Managed):
    """A running system. A context manager: leaving it stops every process that it started."""

    def __init__(
        self,
        folder: Path,
        plan: Plan | None = None,
        *,
        die_with_parent: bool = True,
        progress: Callable[[str], None] = lambda _: None,
        kafka: EmbeddedKafka | KafkaCluster | None = None,
    ) -> None:
        self.folder, self.plan, self._progress = folder, plan or Plan(), progress
        self.kafka: EmbeddedKafka | KafkaCluster = kafka or EmbeddedKafka(
            folder / "kafka", port=self.plan.port, die_with_parent=die_with_parent, progress=progress
        )
        self.postgres = EmbeddedPostgres(folder / "postgres", die_with_parent=die_with_parent, progress=progress)
        self.processes = Processes(folder / "services", die_with_parent=die_with_parent)
        self._http: dict[str, int] = {}
        self._postgres_executor: ThreadPoolExecutor | None = None

    def start(self) -> None:
        """Start Kafka, create topics, start all services and wait until each is ready. PostgreSQL starts concurrently.

        What `adopt` found running stays as it is. It does not wait for auditor, API, roll-up, console and witness.
        """
        (self.folder / "state").mkdir(parents=True, exist_ok=True)
        postgres_started: Future[None] | None = None
        if self.plan.archive and not self.postgres.running():
            self._postgres_executor = ThreadPoolExecutor(1)
            postgres_started = self._postgres_executor.submit(self.postgres.start)
        self.start_kafka()
        running = self.processes.running()
        for name in self.services():
            if name == AUDITOR and postgres_started is not None:
                postgres_started.result()
            if name not in running:
                self.start_service(name)
        self._progress("waiting for the services to become ready")
        self.wait_ready(*SERVICES)

    def wait_ready(self, *names: str) -> None:
        """Wait a minute at most until these services are ready; not any longer once one of them, or Kafka, has ended."""
        self.processes.wait_ready(*names, timeout_s=60, broker=self.kafka.running)

    def services(self) -> list[str]:
        """The planned services, in the order in which they start."""
        planned = {
            ROLLUP: self.plan.rollup,
            AUDITOR: self.plan.archive,
            API: self.plan.api,
            CONSOLE: self.plan.console,
            WITNESS: self.plan.witness,
        }
        return [*SERVICES, *(name for name, wanted in planned.items() if wanted)]

    def adopt(self) -> list[str]:
        """Take over what another process has started in this folder; returns the names of what does not run."""
        assert isinstance(self.kafka, EmbeddedKafka)
        servers = {"kafka": self.kafka.adopt, **({"postgres": self.postgres.adopt} if self.plan.archive else {})}
        missing = [name for name, adopt in servers.items() if not adopt()]
        for name in self.services():
            if not self.processes.adopt(name):
                missing.append(name)
            elif wait_until(self._address_file(name).exists, ADDRESS_WITHIN_S):  # it may have just started
                self._http[name] = int(self._address_file(name).read_text().rpartition(":")[2])
                self.processes.adopt(name, f"{self.address(name)}/readyz")
            else:
                self.processes.stop(name)
                missing.append(name)
        return missing

    def busy_ports(self, names: Iterable[str]) -> Iterator[tuple[str, int, Path]]:
        """Ports of these servers, at which they are known already, that other programs use: name, port and its file."""
        for name in names:
            for file in (self.folder / each for each in PORT_FILES.get(name, ())):
                if file.exists() and not is_free(persistent_port(file)):
                    yield name, persistent_port(file), file

    def _address_file(self, process: str) -> Path:
        return self.folder / "state" / f"{process}.address"

    def start_kafka(self) -> None:
        """Start Kafka, create its topics, and write the files that the services read."""
        fork_server(tuple(MODULES.values()))  # imports the services meanwhile
        if not self.kafka.running():
            self._progress("starting Kafka")
            self.kafka.start()
        asyncio.run(self._create_topics())
        pools = [{"name": name, "partition": partition} for partition, name in enumerate(self.plan.pools)]
        (self.folder / "pools.yaml").write_text(yaml.safe_dump({"pools": pools}))
        self._http = dict(zip(SERVICES, free_ports(len(SERVICES)), strict=True)) | self._http

    async def _create_topics(self) -> None:
        self._progress("creating topics")  # inside the event loop, which handles Ctrl-C
        await create_topics(self.kafka.settings("operator"), len(self.plan.pools))

    def start_service(self, name: str, *, replica: str = "", env: Mapping[str, str] | None = None) -> str:
        """Start one service (again). Returns its process name: the service's name plus `replica`."""
        process = name + replica
        port = self._http.get(process) or free_ports(1)[0]
        self._http[process] = port
        self._progress(f"starting {process}")
        settings = {**self.environment(process, port), **self.plan.env, **(env or {})}
        self.certify(process, settings)
        url, enter = f"{self.address(process)}/readyz", self.enter(process)
        if enter or any(variable.startswith(INTERPRETER_VARIABLES) for variable in settings):
            self.processes.start(process, [*enter, sys.executable, "-m", MODULES[name]], env=settings, ready_url=url)
        else:
            server = fork_server(tuple(MODULES.values()))
            self.processes.start_forked(process, MODULES[name], server, env=settings, ready_url=url)
        return process

    def host(self, process: str) -> str:  # noqa: ARG002 - all are on this machine
        """The address at which the process serves HTTP."""
        return LOOPBACK

    def enter(self, process: str) -> Sequence[str]:  # noqa: ARG002
        """The beginning of the process's command, which takes it to the network namespace that has this address."""
        return ()

    def environment(self, process: str, port: int) -> dict[str, str]:
        """A service's settings as environment variables. process: its name, then perhaps that of a replica; or an operator's."""
        role = next((name for name in MODULES if process.startswith(name)), "operator")
        settings = {
            **(self.kafka_environment(role) if role != API else {}),
            "BAILIFF_STATE_DIR": str(self.folder / "state"),
            "BAILIFF_ENGINES": str(self.folder / ENGINES),
            "BAILIFF_POOLS": str(self.folder / "pools.yaml"),
            "BAILIFF_HTTP_HOST": self.host(process),
            "BAILIFF_HTTP_PORT": str(port),
            "BAILIFF_INSTANCE": process,
            "BAILIFF_HTTP_ADDRESS_FILE": str(self._address_file(process)),
        }
        if role != "operator":
            settings["BAILIFF_CREDENTIALS"] = str(self.folder / "credentials" / process)
        if process.startswith("node-agent"):
            settings["BAILIFF_NODES"] = json.dumps([dict(node) for node in self.plan.nodes])
            settings["BAILIFF_MASTER_ADDRESS"] = "127.0.0.1"
            settings["BAILIFF_ATTACH_LISTEN"] = "127.0.0.1:0"
            settings["BAILIFF_RUN_AS"] = "agent"  # a single user's machine
            settings["BAILIFF_HIDDEN_FROM_JOBS"] = json.dumps([str(self.folder / name) for name in NOT_FOR_JOBS])
        if process.startswith((AUDITOR, API)):
            settings["BAILIFF_POSTGRES"] = self.postgres.dsn
        if process.startswith((AUDITOR, CONSOLE)) and self.plan.witness:
            settings["BAILIFF_WITNESS_KEYS"] = json.dumps([self.witness])
        if process.startswith(API):
            settings["BAILIFF_API_PORT"] = str(persistent_port(self.folder / "api.port"))
        if process.startswith(CONSOLE):
            settings["BAILIFF_CONSOLE_PORT"] = str(persistent_port(self.folder / "console.port"))
            settings["BAILIFF_CONSOLE_JOBS_PORT"] = str(persistent_port(self.folder / "console-jobs.port"))
            if self.plan.api:
                settings["BAILIFF_API"] = self.api
            if console_key(self.folder).exists():
                settings |= {"BAILIFF_KEY": str(console_key(self.folder)), "BAILIFF_ACTOR": CONSOLE_NAME}
        if process.startswith("admission"):
            settings["BAILIFF_SPECS_KEY"] = str(self.folder / "credentials" / "specs.key")  # all replicas need the same one
        if process.startswith(WITNESS):
            settings["BAILIFF_WITNESS_PORT"] = str(persistent_port(self.folder / "witness.port"))
        if process.startswith("admission") and self.plan.policy is not None:
            settings["BAILIFF_POLICY"] = str(self.plan.policy)
        return settings

    def certify(self, process: str, env: Mapping[str, str]) -> None:
        """Make keys and a certificate for this process where it has none, an agent's in a folder per node.

        The pools' root key is made with the first.
        """
        folder, now = self.folder / "credentials", time.time_ns() // 1000
        role = next((role for name, role in CERTIFIED.items() if process.startswith(name)), None)
        if role is not None:
            issued_credentials(folder / process, folder / "root.key", role=role, name=process, now=now)
            return
        nodes = json.loads(env["BAILIFF_NODES"])
        names = [f"{node['name']}-{n}" for node in nodes if node.get("count") for n in range(node["count"])]
        for name in (*names, *(node["name"] for node in nodes if not node.get("count"))):
            issued_credentials(folder / process / name, folder / "root.key", role="node", name=name, now=now)

    def kafka_environment(self, role: str) -> dict[str, str]:
        """A principal's connection settings as environment variables."""
        settings = self.kafka.settings(role)
        given = {"bootstrap": settings.bootstrap} | settings.with_secrets()
        return {f"BAILIFF_KAFKA__{name.upper()}": str(value) for name, value in given.items()}

    @property
    def api(self) -> str:
        """The URL of the HTTP API, the same at every start from one folder."""
        return f"http://127.0.0.1:{persistent_port(self.folder / 'api.port')}"

    @property
    def console(self) -> str:
        """The URL of the web console, the same at every start from one folder."""
        return f"http://127.0.0.1:{persistent_port(self.folder / 'console.port')}"

    @property
    def witness(self) -> str:
        """Key and URL of the witness, the same at every start from one folder."""
        key, _ = own_key(WitnessSettings(state_dir=self.folder / "state"))
        return f"{key} http://127.0.0.1:{persistent_port(self.folder / 'witness.port')}"

    @property
    def api_token(self) -> str:
        """The token that the HTTP API asks for."""
        return service_token(None, self.folder / "state" / API_TOKEN_FILE, "api_token")

    @property
    def console_link(self) -> str:
        """The URL that signs in to the web console: it contains the console's token."""
        return f"{self.console}/auth/sign-in?token={self.console_token}"

    @property
    def console_token(self) -> str:
        """The token that the web console asks for."""
        return service_token(None, self.folder / "state" / "console.token", "console_token")

    def address(self, process: str) -> str:
        """The process's URL."""
        return f"http://{self.host(process)}:{self._http[process]}"

    def close(self) -> None:
        """Stop the services, PostgreSQL, the tasks that still run, and Kafka."""
        if self._postgres_executor is not None:
            self._postgres_executor.shutdown()  # PostgreSQL may be about to start
        self.processes.stop_all()
        self.postgres.close()
        end_jobs(self.folder / "state")
        self.kafka.close()
