"""`kubectl bailiff`: the same questions as `bailiff`, with workloads named as in kubectl.

kubectl finds it as the program `kubectl-bailiff`. Objects are read with kubectl itself, so with the user's own rights; the bridge
has written the job's name and state to them. The log is read through the HTTP API, to which kubectl forwards a port,
unless a setting says where it is. It decides nothing, and changes nothing.
"""

import base64
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import orjson

from bailiff.cli.closed_pipe import until_its_reader_quits
from bailiff.render.plain_text import harmless_output

USAGE = """usage: kubectl bailiff queue [options of kubectl get]
       kubectl bailiff why KIND/NAME [-n NAMESPACE] [--context CONTEXT]
       kubectl bailiff explain KIND/NAME [-n NAMESPACE] [--context CONTEXT] [options of bailiff explain]
       kubectl bailiff receipt KIND/NAME [-n NAMESPACE] [--context CONTEXT] [options of bailiff audit receipt]
       kubectl bailiff prove KIND/NAME [-n NAMESPACE] [--context CONTEXT] [options of bailiff audit prove]
       kubectl bailiff plan JOBFILE [--context CONTEXT] [options of bailiff plan]

queue: what `kubectl get bailiffjobs` shows, by position. why: what the bridge last wrote about it. Both need only a kubeconfig.
explain: why it is pending or was preempted, from the log. receipt: a page that proves its latest preemption. prove: the record
that its state cites, with the path to its seal. plan: where one more job would run, and whom it would preempt.
KIND/NAME: a workload or one of its pods, as in job/train or pod/train-0-x7k2p.
"""
OF_KUBECTL = ("-n", "--namespace", "--context", "--kubeconfig")
JOB, STATUS, POOL = "bailiff.io/job", "bailiff.io/status", "bailiff.io/pool"
WHERE = ("BAILIFF_API", "BAILIFF_KAFKA__BOOTSTRAP", "BAILIFF_SETTINGS")
"""Settings that say where the log is read."""
API_NAMESPACE, API_POD, API_SECRET, API_PORT = "bailiff", "bailiff-api-0", "bailiff-api-token", 8620
"""As the chart names them, and its Role `bailiff-reader` permits."""
FORWARDS = re.compile(r"Forwarding from 127\.0\.0\.1:([0-9]+) ")
WORD = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
"""Of a kind, a group or a name. What an object says of its owner, whoever may write the object has written."""
MAX_OWNERS = 5
SERVING = ("Deployment", "ReplicaSet", "StatefulSet")
"""Kinds on which the bridge writes nothing: their pods say it."""
CITED = re.compile(r"\(([^()\s]+)#([0-9]+)\)$")


class NotOfBailiff(Exception):
    """The object is not in Bailiff, or cannot be read. Carries a sentence for people."""


def main() -> None:
    """The entry point of `kubectl-bailiff`."""
    until_its_reader_quits(_run)


def _run() -> None:
    arguments = sys.argv[1:]
    try:
        command = command_for(arguments)
        if command is None:
            sys.stderr.write(USAGE)
            sys.exit(2)
        if isinstance(command, str):
            sys.stdout.write(f"{harmless_output(command, colours=False)}\n")
            return
        with query_interface(_split(arguments)[0]):
            from bailiff.cli import main as bailiff

            sys.argv = ["bailiff", *command]
            bailiff()
    except NotOfBailiff as error:
        sys.stderr.write(f"error: {harmless_output(str(error), colours=False)}\n")
        sys.exit(1)


def command_for(arguments: Sequence[str]) -> list[str] | str | None:
    """The `bailiff` command that answers, or the answer itself. None: not a question that it knows."""
    match list(arguments):
        case ["queue", *options]:
            return _kubectl("get", "bailiffjobs.bailiff.io", "--sort-by={.status.position}", *options).rstrip("\n")
        case ["plan", file, *options]:
            return ["plan", "--live", file, *_split(options)[1]]
        case ["why" | "explain" | "receipt" | "prove" as question, reference, *options] if "/" in reference:
            return _about(question, reference, *_split(options))
    return None


def _about(question: str, reference: str, kubectl: Sequence[str], rest: Sequence[str]) -> list[str] | str:
    item = _workload(reference, kubectl)
    annotations, pool = item["metadata"].get("annotations") or {}, item["metadata"].get("labels", {}).get(POOL)
    if not pool:
        raise NotOfBailiff(f"{reference} has no label {POOL}: it is not in Bailiff")
    status = annotations.get(STATUS, "")
    if question == "why":
        return str(status or f"the bridge has written nothing to {reference} yet")
    if question == "prove":
        cited = CITED.search(status)
        if cited is None:
            raise NotOfBailiff(f"the state of {reference} cites no record{f': {status}' if status else ''}")
        return ["audit", "prove", cited[2], "--pool", cited[1], *rest]
    if JOB not in annotations:
        raise NotOfBailiff(f"{reference} has no job in Bailiff yet{f': {status}' if status else ''}")
    words = ["explain"] if question == "explain" else ["audit", "receipt"]
    return [*words, "--pool", pool, *rest, "--", annotations[JOB]]


@contextmanager
def query_interface(kubectl: Sequence[str]) -> Iterator[None]:
    """Where nothing says where the log is: the HTTP API of the cluster, through a port that kubectl forwards meanwhile.

    Args:
        kubectl: Its options that say which cluster.
    """
    if any(name in os.environ for name in WHERE) or any(word.partition("=")[0] in ("--kafka", "--settings") for word in sys.argv):
        yield
        return
    where = [*_without_namespace(kubectl), "-n", API_NAMESPACE]
    secret = orjson.loads(_kubectl("get", "secret", API_SECRET, "-o", "json", *where))
    command = ["kubectl", "port-forward", f"pod/{API_POD}", f":{API_PORT}", "--address=127.0.0.1", *where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as forwarding:
        try:
            assert forwarding.stdout is not None
            assert forwarding.stderr is not None
            found = FORWARDS.match(forwarding.stdout.readline())
            if found is None:
                raise NotOfBailiff(forwarding.stderr.readline().strip() or f"kubectl does not forward a port to {API_POD}")
            os.environ["BAILIFF_API"] = f"http://127.0.0.1:{found[1]}"
            os.environ["BAILIFF_API_TOKEN"] = base64.b64decode(secret["data"]["token"]).decode()
            yield
        finally:
            forwarding.terminate()
            os.environ.pop("BAILIFF_API", None)
            os.environ.pop("BAILIFF_API_TOKEN", None)


def _without_namespace(kubectl: Sequence[str]) -> list[str]:
    kept: list[str] = []
    skips = False
    for option in kubectl:
        if skips or option.partition("=")[0] in ("-n", "--namespace"):
            skips = not skips and "=" not in option
            continue
        kept.append(option)
    return kept


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
    """The object, or what owns it as far up as the bridge has written to: the Job of a pod, the JobSet of a Job.

    Where it has written to none, its pod; of those of a Deployment the newest.
    """
    item = _get(reference, kubectl)
    if item.get("kind") in SERVING:
        item = _newest_pod(item, kubectl)
    pod = item
    for _ in range(MAX_OWNERS):
        if STATUS in (item["metadata"].get("annotations") or {}):
            return item
        owner = next((each for each in item["metadata"].get("ownerReferences") or [] if each.get("controller")), None)
        if owner is None:
            return _pod_status(pod)
        group = owner["apiVersion"].partition("/")[0] if "/" in owner["apiVersion"] else ""
        kind = (f"{owner['kind']}.{group}" if group else owner["kind"]).lower()
        if not (WORD.fullmatch(kind) and WORD.fullmatch(owner["name"])):
            raise NotOfBailiff(f"the owner of {reference} has no kind or name: {kind}/{owner['name']}")
        item = _get(f"{kind}/{owner['name']}", ["-n", item["metadata"]["namespace"], *kubectl])
    raise NotOfBailiff(f"{reference} has more than {MAX_OWNERS} owners, one above the other")


def _newest_pod(item: Any, kubectl: Sequence[str]) -> Any:
    labels = ",".join(f"{key}={value}" for key, value in (item["spec"]["selector"].get("matchLabels") or {}).items())
    found = orjson.loads(_kubectl("get", "pods", "-o", "json", f"--selector={labels}", *kubectl))["items"]
    if not found:
        raise NotOfBailiff(f"{item['kind'].lower()}/{item['metadata']['name']} has no pods")
    return max(found, key=lambda each: each["metadata"]["creationTimestamp"])


def _pod_status(item: Any) -> Any:
    """A pod of a pod group, or of a Deployment: its state is in its condition."""
    conditions = (item.get("status") or {}).get("conditions") or []
    placed = next((each for each in conditions if each.get("type") == "bailiff.io/Placed"), None)
    if placed is not None:
        line = f"{placed.get('reason')}: {placed.get('message')}"
        item["metadata"].setdefault("annotations", {})[STATUS] = line
    return item


def _get(reference: str, kubectl: Sequence[str]) -> Any:
    return orjson.loads(_kubectl("get", reference, "-o", "json", *kubectl))


def _kubectl(*arguments: str) -> str:
    done = subprocess.run(["kubectl", *arguments], capture_output=True, check=False)
    if done.returncode:
        text = done.stderr.decode(errors="replace").strip().removeprefix("Error from server ")
        raise NotOfBailiff(text or f"cannot read {' '.join(arguments[:2])}")
    return done.stdout.decode(errors="replace")
