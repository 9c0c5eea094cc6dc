"""`kubectl bailiff`: the same questions as `bailiff`, with workloads named as in kubectl.

kubectl finds it as the program `kubectl-bailiff`. Objects are read with kubectl itself, so with the user's own rights; the bridge
has written the job's name and state to them. It decides nothing, and changes nothing.
"""

import re
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import orjson

USAGE = """usage: kubectl bailiff why KIND/NAME [-n NAMESPACE] [--context CONTEXT]
       kubectl bailiff explain KIND/NAME [-n NAMESPACE] [--context CONTEXT] [options of bailiff explain]
       kubectl bailiff prove KIND/NAME [-n NAMESPACE] [--context CONTEXT] [options of bailiff audit prove]
       kubectl bailiff queue [options of bailiff list]

why: what the bridge last wrote about it, with kubectl's rights alone. explain: why it is pending or was preempted, from the log.
prove: the record that its state cites, with the path to its seal. queue: what runs and what is pending, in queue order.
KIND/NAME: a workload or one of its pods, as in job/train or pod/train-0-x7k2p.
"""
OF_KUBECTL = ("-n", "--namespace", "--context", "--kubeconfig")
JOB, STATUS, POOL = "bailiff.io/job", "bailiff.io/status", "bailiff.io/pool"
CITED = re.compile(r"\(([^()\s]+)#([0-9]+)\)$")


class NotOfBailiff(Exception):
    """The object is not in Bailiff, or cannot be read. Carries a sentence for people."""


def main() -> None:
    """The entry point of `kubectl-bailiff`."""
    try:
        command = command_for(sys.argv[1:])
    except NotOfBailiff as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(1)
    if command is None:
        sys.stderr.write(USAGE)
        sys.exit(2)
    if isinstance(command, str):
        sys.stdout.write(f"{command}\n")
        return
    from bailiff.cli import main as bailiff

    sys.argv = ["bailiff", *command]
    bailiff()


def command_for(arguments: Sequence[str]) -> list[str] | str | None:
    """The `bailiff` command that answers, or the answer itself. None: not a question that it knows."""
    match list(arguments):
        case ["queue", *options]:
            return ["list", *options]
        case ["why" | "explain" | "prove" as question, reference, *options] if "/" in reference:
            kubectl, rest = _split(options)
            item = _workload(reference, kubectl)
            annotations, pool = item["metadata"].get("annotations") or {}, item["metadata"].get("labels", {}).get(POOL)
            if not pool:
                raise NotOfBailiff(f"{reference} has no label {POOL}: it is not in Bailiff")
            status = annotations.get(STATUS, "")
            if question == "why":
                return str(status or f"the bridge has written nothing to {reference} yet")
            if question == "explain":
                if JOB not in annotations:
                    raise NotOfBailiff(f"{reference} has no job in Bailiff yet{f': {status}' if status else ''}")
                return ["explain", annotations[JOB], "--pool", pool, *rest]
            cited = CITED.search(status)
            if cited is None:
                raise NotOfBailiff(f"the state of {reference} cites no record{f': {status}' if status else ''}")
            return ["audit", "prove", cited[2], "--pool", cited[1], *rest]
    return None


def _split(options: Sequence[str]) -> tuple[list[str], list[str]]:
    """Options of kubectl, and all others."""
    kubectl: list[str] = []
    rest: list[str] = []
    wants_value = False
    for option in options:
        is_kubectl = wants_value or option.partition("=")[0] in OF_KUBECTL
        (kubectl if is_kubectl else rest).append(option)
        wants_value = not wants_value and option in OF_KUBECTL
    return kubectl, rest


def _workload(reference: str, kubectl: Sequence[str]) -> Any:
    """The object, or what owns it as far up as the bridge has written to: the Job of a pod, the JobSet of a Job."""
    item = _get(reference, kubectl)
    while STATUS not in (item["metadata"].get("annotations") or {}):
        owner = next((each for each in item["metadata"].get("ownerReferences") or [] if each.get("controller")), None)
        if owner is None:
            return _pod_status(item)
        group = owner["apiVersion"].partition("/")[0] if "/" in owner["apiVersion"] else ""
        kind = f"{owner['kind']}.{group}" if group else owner["kind"]
        item = _get(f"{kind.lower()}/{owner['name']}", ["-n", item["metadata"]["namespace"], *kubectl])
    return item


def _pod_status(item: Any) -> Any:
    """A pod of a pod group: its state is in its condition."""
    conditions = (item.get("status") or {}).get("conditions") or []
    placed = next((each for each in conditions if each.get("type") == "bailiff.io/Placed"), None)
    if placed is not None:
        line = f"{placed.get('reason')}: {placed.get('message')}"
        item["metadata"].setdefault("annotations", {})[STATUS] = line
    return item


def _get(reference: str, kubectl: Sequence[str]) -> Any:
    command = ["kubectl", "get", reference, "-o", "json", *kubectl]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        text = done.stderr.decode(errors="replace").strip().removeprefix("Error from server ")
        raise NotOfBailiff(text or f"cannot read {reference}")
    return orjson.loads(done.stdout)
