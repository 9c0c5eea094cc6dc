"""`make up` and `make down`: the system of the demo, left running, with its state in one folder."""

import argparse
import json
import sys
from pathlib import Path

from .identity import stop_recorded
from .jobs import end_jobs
from .ports import free_port
from .stack import CANNOT_START, Plan, Stack

ADDRESS = "kafka.json"


def up(state: Path, gpus: str) -> int:
    """Start everything and print how to use it."""
    state.mkdir(parents=True, exist_ok=True)
    plan = Plan(
        nodes=[{"name": "node-1", "domain": "pool-a", "gpus": gpus}],
        port=_port(state), archive=True, api=True, rollup=True, console=True,
    )  # fmt: skip
    stack = Stack(state, plan, die_with_parent=False, progress=lambda text: print(f"• {text}", flush=True))
    try:
        stack.start()
    except CANNOT_START as fault:
        stack.close()
        print(f"Bailiff could not start: {fault}", file=sys.stderr)
        return 1
    except BaseException:
        stack.close()
        raise
    (state / "environment").write_text(f"export BAILIFF_KAFKA__BOOTSTRAP={stack.kafka.bootstrap}\n")
    _private(state / "archive", stack.postgres.dsn + "\n")
    print(
        f"""
Bailiff runs. Its page: {stack.console}
Kafka: {stack.kafka.bootstrap}; state and logs: {state}/

  export BAILIFF_KAFKA__BOOTSTRAP={stack.kafka.bootstrap} PATH=$PWD/.venv/bin:$PATH
  bailiff submit --name train-1 --gpus 8 -- sleep 600     a training job on all GPUs
  bailiff submit --name serve-1 --gpus 4 --class inference --follow -- sleep 20
  bailiff list                                            who runs, who waits
  bailiff audit tail -f                                   every decision as it is made
  bailiff audit verify --archive $(cat {state}/archive)   the same log in PostgreSQL, checked by itself
  curl -s {stack.api}/v1/domains                  the archive over HTTP; BAILIFF_API={stack.api} lets `bailiff` read there

  make down                                               end it; `make up` goes on from its state"""
    )
    return 0


def down(state: Path) -> int:
    """End what `up` started."""
    ended = stop_recorded(state / "services")
    jobs = end_jobs(state / "state")
    ended += stop_recorded(state / "postgres")
    ended += stop_recorded(state / "kafka")
    print(f"ended: {', '.join(ended)}" if ended else "nothing was running")
    if jobs:
        print(f"{jobs} running tasks were ended, too; `make up` queues and starts their jobs again")
    return 0


def _private(file: Path, text: str) -> None:
    """A file that only its owner may read."""
    file.touch(mode=0o600)
    file.write_text(text)


def _port(state: Path) -> int:
    """The same Kafka port at every start, so that clients find it again."""
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
    options = parser.parse_args()
    state = options.state.absolute()
    return up(state, options.gpus) if options.what == "up" else down(state)


if __name__ == "__main__":
    sys.exit(main())
