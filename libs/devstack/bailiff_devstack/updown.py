"""`make up` and `make down`: a whole system on this machine, with its state in one folder."""

import argparse
import json
import shlex
import sys
from pathlib import Path

from bailiff_core.humanize import count_text
from bailiff_node_agent.runtime.process import why_not_isolated
from bailiff_service.access_tokens import API_TOKEN_FILE

from .identity import stop_recorded
from .jobs import end_jobs
from .operator_key import make_operator, operator_key, user_name
from .ports import free_port
from .scrape import metrics_lines, write_scrape_file
from .secure_kafka import SecureKafka
from .stack import MODULES, START_ERRORS, Plan, Stack

ADDRESS = "kafka.json"


def up(state: Path, gpus: str, *, secure: bool = False) -> int:
    """Start everything, and print how to use it. secure: Kafka with TLS, users and access lists."""
    state.mkdir(parents=True, exist_ok=True)
    state.chmod(0o700)  # the topics below have commands and variables of jobs
    earlier = state / "kafka" / "data"
    signs = operator_key(state).exists() or not earlier.exists()  # a pool of an earlier release knows no key
    plan = Plan(
        nodes=[{"name": "node-1", "pool": "pool-a", "gpus": gpus}], policy=make_operator(state) if signs else None,
        port=_port(state), archive=True, api=True, rollup=True, console=True, witness=True,
    )  # fmt: skip
    if earlier.exists() and secure != (state / "kafka" / "security").exists():
        kind = "without" if secure else "with"
        print(f"Bailiff did not start: the state in {state} is of a Kafka {kind} SECURE=1; use another STATE", file=sys.stderr)
        return 1

    def progress(text: str) -> None:
        print(f"• {text}", flush=True)

    kafka = SecureKafka(state / "kafka", port=plan.port, die_with_parent=False, progress=progress) if secure else None
    stack = Stack(state, plan, die_with_parent=False, progress=progress, kafka=kafka)
    try:
        stack.start()
    except START_ERRORS as fault:
        stack.close()
        print(f"Bailiff did not start: {fault}", file=sys.stderr)
        return 1
    except BaseException:
        stack.close()
        raise
    key = {"BAILIFF_KEY": str(operator_key(state))} if signs else {}
    exported = [f"{name}={shlex.quote(value)}" for name, value in {**stack.kafka_environment("operator"), **key}.items()]
    _private(state / "environment", "".join(f"export {each}\n" for each in exported))
    connect = f". {state}/environment; export" if secure else f"export {' '.join(exported)}"
    _private(state / "archive", stack.postgres.dsn + "\n")
    _private(state / "witness", stack.witness + "\n")
    addresses = {name: stack.address(name) for name in MODULES}
    write_scrape_file(state / "prometheus.yml", addresses)
    print(
        f"""
Bailiff is running. Console: {stack.console_link}
Kafka: {stack.kafka.bootstrap}; state and logs: {state}/

  {connect} PATH=$PWD/.venv/bin:$PATH
  bailiff submit --name train-1 --gpus 8 -- sleep 600     a training job on all GPUs
  bailiff submit --name serve-1 --gpus 4 --class inference --follow -- sleep 20
  bailiff list                                            running and pending jobs
  bailiff audit tail -f                                   decisions as they are made
  bailiff audit verify --archive $(cat {state}/archive)   verify the archived log in PostgreSQL
  bailiff audit verify --witnesses 1 --witness-key "$(cat {state}/witness)"     compare the log with what the witness has seen
  export BAILIFF_API={stack.api} BAILIFF_API_TOKEN_FILE={state}/state/{API_TOKEN_FILE}     let `bailiff` read from the archive
  curl -s -H "Authorization: Bearer $(cat $BAILIFF_API_TOKEN_FILE)" $BAILIFF_API/v1/pools     the HTTP API itself
  prometheus --config.file={state}/prometheus.yml         scrape every service; the addresses change at each `make up`

Metrics:
{metrics_lines(addresses)}

The link signs in to the console: whoever has it is its user.{_signature(signs)}
{_isolation(state)}
  make down                                               stop it; `make up` continues from its state"""
    )
    return 0


def _signature(signs: bool) -> str:
    return "\nBAILIFF_KEY is your key: requests that it signs are those of the operator " + user_name() + "." if signs else ""


def _isolation(state: Path) -> str:
    """A line where jobs can read what they should not."""
    reason = why_not_isolated()
    return (
        f"Jobs run as you and can read {state}, this token included: this machine does not permit to isolate them ({reason}).\n"
        if reason
        else ""
    )


def down(state: Path) -> int:
    """Stop what `up` started."""
    stopped = stop_recorded(state / "services")
    jobs = end_jobs(state / "state")
    stopped += stop_recorded(state / "postgres")
    stopped += stop_recorded(state / "kafka")
    print(f"stopped: {', '.join(stopped)}" if stopped else "nothing was running")
    if jobs:
        requeued = (
            "was stopped; `make up` requeues and restarts its job"
            if jobs == 1
            else "were stopped; `make up` requeues and restarts their jobs"
        )
        print(f"{count_text(jobs, 'running task')} {requeued}")
    return 0


def _private(file: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    file.touch(mode=0o600)
    file.write_text(text)


def _port(state: Path) -> int:
    """The Kafka port, the same at every start."""
    file = state / ADDRESS
    if file.exists():
        return int(json.loads(file.read_text())["port"])
    port = free_port()
    file.write_text(json.dumps({"port": port}))
    return port


def main() -> int:
    """Parse and run."""
    parser = argparse.ArgumentParser(prog="bailiff_devstack.updown")
    parser.add_argument("what", choices=["up", "down"])
    parser.add_argument("--state", type=Path, default=Path(".bailiff"))
    parser.add_argument("--gpus", default="8xH100-80GB")
    parser.add_argument("--secure", action="store_true")
    options = parser.parse_args()
    state = options.state.absolute()
    return up(state, options.gpus, secure=options.secure) if options.what == "up" else down(state)


if __name__ == "__main__":
    sys.exit(main())
