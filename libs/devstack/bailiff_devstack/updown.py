"""`make up`, `make status` and `make down`: a whole system on this machine, with its state in one folder."""

import argparse
import asyncio
import contextlib
import fcntl
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from bailiff.cli.closed_pipe import finish_without_reader
from bailiff.client.client import Client
from bailiff.client.errors import ClientError
from bailiff.client.settings import read_key
from bailiff_bus.kafka import KafkaBus
from bailiff_bus.port import BusUnavailable
from bailiff_core.humanize import count_text
from bailiff_node_agent.runtime.process import exposure, why_not_isolated
from bailiff_service.access_tokens import API_TOKEN_FILE

from .emptying import empty, refill
from .identity import Identity, read_record, stop_recorded
from .jobs import end_jobs
from .kafka import EmbeddedKafka
from .operator_key import make_operator, operator_key, user_name
from .ports import LOOPBACK, persistent_port
from .processes import Processes
from .scrape import metrics_lines, write_scrape_file
from .secure_kafka import SecureKafka
from .stack import ENGINES, MODULES, PORT_FILES, START_ERRORS, Plan, Stack

DEFAULT_GPUS = "8xH100-80GB"
POOL = "pool-a"
KEEPER = "keeper"
_KEEPER = Path(__file__).with_name("_keeper.py")
FOLDERS = {"kafka": "kafka", "postgres": "postgres", **dict.fromkeys((*MODULES, KEEPER), "services")}
"""The folder with the log and the record of each process."""
NOT_RUNNING = 3
"""Exit code of `status` where something does not run, as that of `systemctl status`."""


def up(state: Path, gpus: str | None = None, *, secure: bool = False, quiet: bool = False) -> int:
    """Start what does not run, keep it running, and print how to use it. What runs stays as it is.

    Args:
        gpus: GPUs of the node; ignored while the system runs.
        secure: Kafka with TLS, users and access lists.
        quiet: Do not print how to use it.
    """
    state.mkdir(parents=True, exist_ok=True)
    state.chmod(0o700)  # the topics below have commands and variables of jobs
    with _one_at_a_time(state):
        if (state / "kafka" / "data").exists() and secure != (state / "kafka" / "security").exists():
            kind = "without" if secure else "with"
            return _failed(f"the state in {state} is of a Kafka {kind} SECURE=1; use another STATE")
        anew = not _running(state)
        chosen = state / "gpus"
        if anew or not chosen.exists():
            chosen.write_text(gpus or DEFAULT_GPUS)
        elif gpus not in (None, chosen.read_text()):
            print(f"GPUS={gpus} is ignored: the node has {chosen.read_text()} until `make down`")
        stack = _stack(state, chosen.read_text(), secure=secure)
        missing = stack.adopt()
        busy = list(stack.busy_ports(missing))
        for name, port, file in busy:
            print(f"port {port} of {name} is in use by another program: end that, or remove {file} to have another port chosen")
        if busy:
            return _failed("a port is in use")
        try:
            if missing:
                stack.start()
                stack.wait_ready(*stack.services())
            else:
                print("• everything runs already; nothing was started")
            _keep(state, chosen.read_text(), secure=secure)
            if not quiet:  # what the keeper starts again was not drained
                asyncio.run(_refill(state, stack))
        except (*START_ERRORS, ClientError) as fault:
            if anew:
                stack.close()
            return _failed(str(fault))
        except BaseException:
            if anew:
                stack.close()
            raise
        addresses = {name: stack.address(name) for name in MODULES}
        exported = _write_files(state, stack, addresses)
        if not quiet:
            _print_use(state, stack, addresses, f". {state}/environment; export" if secure else f"export {' '.join(exported)}")
    return 0


def _failed(why: str) -> int:
    print(f"Bailiff did not start: {why}", file=sys.stderr)
    return 1


@contextlib.contextmanager
def _one_at_a_time(state: Path) -> Iterator[None]:
    with (state / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("• waiting for another `make up` or `make down`", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _running(state: Path) -> dict[str, Identity]:
    """The processes that run, by name."""
    found = {name: read_record(state / folder, name) for name, folder in FOLDERS.items()}
    return {name: identity for name, identity in found.items() if identity is not None and identity.alive()}


def _stack(state: Path, gpus: str, *, secure: bool) -> Stack:
    plan = Plan(
        nodes=[{"name": "node-1", "pool": POOL, "gpus": gpus}],
        policy=make_operator(state),
        port=persistent_port(state / "kafka.port"),
        archive=True,
        api=True,
        rollup=True,
        console=True,
        witness=True,
    )

    kafka = SecureKafka(state / "kafka", port=plan.port, die_with_parent=False, progress=_progress) if secure else None
    return Stack(state, plan, die_with_parent=False, progress=_progress, kafka=kafka)


def _progress(text: str) -> None:
    print(f"• {text}", flush=True)


def _keep(state: Path, gpus: str, *, secure: bool) -> None:
    """Start the process that starts again what ends, unless it runs."""
    processes = Processes(state / FOLDERS[KEEPER], die_with_parent=False)
    if not processes.adopt(KEEPER):
        again = [sys.executable, "-m", "bailiff_devstack.updown", "up", "--quiet", "--state", str(state), "--gpus", gpus]
        again += ["--secure"] if secure else []
        processes.start(KEEPER, [sys.executable, "-I", "-S", str(_KEEPER), str(state), *again])


def _write_files(state: Path, stack: Stack, addresses: dict[str, str]) -> list[str]:
    """Write the files with addresses and settings; returns the settings of the `bailiff` command as `NAME=value`."""
    own = {"BAILIFF_KEY": str(operator_key(state)), "BAILIFF_ENGINES": str(state / ENGINES)}
    api = {"BAILIFF_SNAPSHOTS": stack.api, "BAILIFF_API_TOKEN_FILE": str(state / "state" / API_TOKEN_FILE)}
    environment = {**stack.kafka_environment("operator"), **own, **api}
    exported = [f"{name}={shlex.quote(value)}" for name, value in environment.items()]
    _private(state / "environment", "".join(f"export {each}\n" for each in exported))
    _private(state / "archive", stack.postgres.dsn + "\n")
    _private(state / "witness", stack.witness + "\n")
    write_scrape_file(state / "prometheus.yml", addresses)
    return exported


def _print_use(state: Path, stack: Stack, addresses: dict[str, str], connect: str) -> None:
    print(
        f"""
Bailiff is running. Console: {stack.console_link}
Kafka: {stack.kafka.settings("operator").bootstrap}; state and logs: {state}/

  {connect} PATH={Path(sys.executable).parent}:$PATH
  bailiff submit --gpus 8 -- sleep 600                    # a training job on all GPUs
  bailiff submit --gpus 4 --class inference --follow -- sleep 20     # which this one preempts
  bailiff list                                            # running and pending jobs
  bailiff audit tail -f                                   # decisions as they are made, until Ctrl-C
  bailiff audit verify --archive $(cat {state}/archive)   # verify the archived log in PostgreSQL
  bailiff audit verify --witnesses 1 --witness-key "$(cat {state}/witness)"     # by what the witness saw, from the first seal on
  export BAILIFF_API={stack.api}               # read through the HTTP API
  bailiff accounting                                      # GPU-hours used, lost and waited for, from the archive
  curl -s -H "Authorization: Bearer $(cat $BAILIFF_API_TOKEN_FILE)" $BAILIFF_API/v1/pools     # the HTTP API itself
  prometheus --config.file={state}/prometheus.yml         # scrape every service; the addresses change at each `make up`

Metrics:
{metrics_lines(addresses)}

The link signs in to the console: whoever has it is its user.
BAILIFF_KEY is your key: requests that it signs are those of the operator {user_name()}.
BAILIFF_ENGINES has what each release decided with: `bailiff audit replay` needs it after an upgrade.
{_isolation()}
  make status                                             # what runs; what ends is started again by itself
  make down                                               # let jobs save, and stop; `make up` continues from there"""
    )


def _isolation() -> str:
    """A line where jobs can reach what they should not."""
    exposed = exposure(why_not_isolated())
    return f"Warning: {exposed}. What to do: docs/how-to/security.md\n" if exposed else ""


def status(state: Path) -> int:
    """Print what runs and where its log is; returns `NOT_RUNNING` where something does not run."""
    running, lines = _running(state), []
    if not running:
        print("nothing runs: `make up` starts it")
        return NOT_RUNNING
    for name, folder in FOLDERS.items():
        log = state / folder / f"{name}.log"
        if name in running:
            lines.append(f"{name:<18} runs          pid {running[name].pid:<8} {_address(state, name):<24} {log}")
        else:
            lines.append(f"{name:<18} does not run  {'':<12} {'':<24} {log}")
    print("\n".join(lines))
    missing = len(FOLDERS) - len(running)
    if missing:
        print(f"\n{count_text(missing, 'process')} missing: `make up` starts what does not run, and touches nothing else")
    return NOT_RUNNING if missing else 0


def _address(state: Path, name: str) -> str:
    """Where users reach it; else where its metrics are."""
    port, metrics = next(iter(PORT_FILES.get(name, ())), None), state / "state" / f"{name}.address"
    if port is not None:
        return f"{LOOPBACK}:{persistent_port(state / port)}"
    return metrics.read_text().strip().removeprefix("http://") if metrics.exists() else ""


def down(state: Path, *, at_once: bool = False) -> int:
    """Stop what `up` started, after its jobs have saved.

    Args:
        at_once: Do not wait for jobs to save.
    """
    if not state.exists():
        print("nothing was running")
        return 0
    with _one_at_a_time(state):
        running = _running(state)
        if KEEPER in running:
            running[KEEPER].end(grace_s=5.0)
        if "admission" in running:
            _empty(state, at_once=at_once)
        stopped = [name for name in stop_recorded(state / "services") if name != KEEPER]
        jobs = end_jobs(state / "state")
        stopped += stop_recorded(state / "postgres")
        stopped += stop_recorded(state / "kafka")
    print(f"stopped: {', '.join(stopped)}" if stopped else "nothing was running")
    if jobs:
        was, its = ("was", "its job") if jobs == 1 else ("were", "their jobs")
        print(f"{count_text(jobs, 'running task')} {was} killed without notice; `make up` requeues and restarts {its}")
    return 0


def _empty(state: Path, *, at_once: bool) -> None:
    """Let all jobs save; Ctrl-C ends their grace."""
    stack = _stack(state, (state / "gpus").read_text(), secure=(state / "kafka" / "security").exists())
    assert isinstance(stack.kafka, EmbeddedKafka)
    if not stack.kafka.adopt():
        return

    async def ask(at_once: bool) -> None:
        async with _client(state, stack) as client:
            await empty(client, POOL, at_once=at_once, say=_progress)

    try:
        try:
            asyncio.run(ask(at_once))
        except KeyboardInterrupt:
            _progress("not waiting any longer")
            asyncio.run(ask(at_once=True))
    except (ClientError, BusUnavailable, KeyboardInterrupt) as problem:
        _progress(f"jobs could not be asked to save: {problem}")


async def _refill(state: Path, stack: Stack) -> None:
    async with _client(state, stack) as client:
        await refill(client, POOL, _progress)


def _client(state: Path, stack: Stack) -> Client:
    """A connection of the person who runs `make`, who is an operator."""
    bus = KafkaBus(stack.kafka.settings("operator"))
    return Client(bus, source="make", private_key=read_key(operator_key(state)), cache=state / "cache")


def _private(file: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    file.touch(mode=0o600)
    file.write_text(text)


def main() -> int:
    """Parse and run."""
    parser = argparse.ArgumentParser(prog="bailiff_devstack.updown")
    parser.add_argument("what", choices=["up", "status", "down"])
    parser.add_argument("--state", type=Path, default=Path(".bailiff"))
    parser.add_argument("--gpus", help=f"GPUs of the node, by default {DEFAULT_GPUS}")
    parser.add_argument("--secure", action="store_true")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--now", action="store_true", help="do not wait for jobs to save")
    finish_without_reader()
    options = parser.parse_args()
    state = options.state.absolute()
    if options.what == "up":
        return up(state, options.gpus, secure=options.secure, quiet=options.quiet)
    if options.what == "down":
        return down(state, at_once=options.now)
    return status(state)


if __name__ == "__main__":
    sys.exit(main())
