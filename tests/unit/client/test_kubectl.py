"""`kubectl bailiff`: which question becomes which command, from what the bridge wrote to the objects."""

import os

import orjson
import pytest

from bailiff import kubectl

STATUS = "Pending: a.train-1 is pending: 2 GPUs are free (pool-a#17)"


def item(kind, name, *, owner=None, annotations=None, conditions=()):
    owners = [{"apiVersion": owner[0], "kind": owner[1], "name": owner[2], "controller": True}] if owner else []
    labels = {"bailiff.io/pool": "pool-a"}
    metadata = {"name": name, "namespace": "a", "labels": labels, "annotations": annotations or {}, "ownerReferences": owners}
    return {"kind": kind, "metadata": metadata, "status": {"conditions": list(conditions)}}


def replica(name, created):
    placed = {"type": "bailiff.io/Placed", "reason": "Placed", "message": f"{name} starts (pool-a#9)"}
    owner = ("apps/v1", "ReplicaSet", "web-7d")
    found = item("Pod", name, owner=owner, annotations={"bailiff.io/job": "a.web-7d"}, conditions=[placed])
    found["metadata"]["creationTimestamp"] = created
    return found


OBJECTS = {
    "job/train": item("Job", "train", annotations={"bailiff.io/job": "a.train-1", "bailiff.io/status": STATUS}),
    "job.batch/train": item("Job", "train", annotations={"bailiff.io/job": "a.train-1", "bailiff.io/status": STATUS}),
    "pod/train-0": item("Pod", "train-0", owner=("batch/v1", "Job", "train")),
    "pod/ring-0": item(
        "Pod",
        "ring-0",
        annotations={"bailiff.io/job": "a.ring-1"},
        conditions=[{"type": "bailiff.io/Placed", "reason": "Placed", "message": "task 0 starts on n1 (pool-a#9)"}],
    ),
    "job/new": item("Job", "new"),
    "deployment/web": item("Deployment", "web") | {"spec": {"selector": {"matchLabels": {"app": "web"}}}},
    "replicaset.apps/web-7d": item("ReplicaSet", "web-7d", owner=("apps/v1", "Deployment", "web")),
    "deployment.apps/web": item("Deployment", "web"),
    "pod/web-7d-a": replica("web-7d-a", "1"),
    "pods": {"items": [replica("web-7d-a", "1"), replica("web-7d-b", "2")]},
}


@pytest.fixture(autouse=True)
def calls(monkeypatch):
    """kubectl, played: it knows the objects above."""
    seen = []

    class Done:
        def __init__(self, command):
            found = OBJECTS.get(command[2])
            self.returncode, self.stdout = (0, orjson.dumps(found)) if found else (1, b"")
            self.stderr = b'Error from server (NotFound): jobs.batch "x" not found\n'

    def run(command, **_):
        seen.append(command)
        return Done(command)

    monkeypatch.setattr(kubectl.subprocess, "run", run)
    return seen


def test_a_workload_is_explained_by_its_job(calls):
    found = kubectl.command_for(["explain", "job/train", "-n", "a", "--all", "--context=prod"])
    assert found == ["explain", "--pool", "pool-a", "--all", "--", "a.train-1"]
    assert calls == [["kubectl", "get", "job/train", "-o", "json", "-n", "a", "--context=prod"]]


def test_a_pod_is_explained_by_its_workload():
    assert kubectl.command_for(["explain", "pod/train-0"]) == ["explain", "--pool", "pool-a", "--", "a.train-1"]


def test_a_deployment_is_explained_by_its_newest_pod_and_a_replica_by_itself(calls):
    assert kubectl.command_for(["explain", "deployment/web", "-n", "a"]) == ["explain", "--pool", "pool-a", "--", "a.web-7d"]
    assert ["kubectl", "get", "pods", "-o", "json", "--selector=app=web", "-n", "a"] in calls
    assert kubectl.command_for(["why", "deployment/web"]) == "Placed: web-7d-b starts (pool-a#9)"
    assert kubectl.command_for(["why", "pod/web-7d-a"]) == "Placed: web-7d-a starts (pool-a#9)"


def test_why_needs_nothing_but_kubectl():
    assert kubectl.command_for(["why", "pod/train-0"]) == STATUS
    assert kubectl.command_for(["why", "pod/ring-0"]) == "Placed: task 0 starts on n1 (pool-a#9)"
    assert kubectl.command_for(["why", "job/new"]) == "the bridge has written nothing to job/new yet"


def test_the_record_that_the_state_cites_is_proven():
    assert kubectl.command_for(["prove", "job/train", "--to", "p.json"]) == [
        "audit",
        "prove",
        "17",
        "--pool",
        "pool-a",
        "--to",
        "p.json",
    ]


def test_the_queue_is_what_kubectl_shows_in_its_order(monkeypatch):
    monkeypatch.setattr(kubectl, "_kubectl", lambda *words: f"{' '.join(words)}\n")
    assert kubectl.command_for(["queue", "-A"]) == "get bailiffjobs.bailiff.io --sort-by={.status.position} -A"


def test_a_receipt_is_of_the_workloads_job():
    found = kubectl.command_for(["receipt", "pod/train-0", "-n", "a", "--to", "r.html"])
    assert found == ["audit", "receipt", "--pool", "pool-a", "--to", "r.html", "--", "a.train-1"]


def test_a_job_file_is_tried_in_the_live_pool():
    found = kubectl.command_for(["plan", "job.yaml", "--context=prod", "--pool", "b"])
    assert found == ["plan", "--live", "job.yaml", "--pool", "b"]


FORWARDING = """#!/bin/sh
case "$1" in
get) [ "$*" = "get secret bailiff-api-token -o json --context=prod -n bailiff" ] && echo '{"data": {"token": "c2VzYW1l"}}' ;;
port-forward) echo $$ > "$0.pid"; echo "Forwarding from 127.0.0.1:4711 -> 8620"; exec sleep 1000 ;;
esac
"""
REFUSING = """#!/bin/sh
[ "$1" = get ] && echo '{"data": {"token": "c2VzYW1l"}}' && exit
echo 'Error from server (Forbidden): pods "bailiff-api-0" is forbidden' >&2; exit 1
"""


@pytest.fixture
def no_settings(monkeypatch):
    monkeypatch.undo()  # a real program instead of the one that is played
    for name in (*kubectl.WHERE, "BAILIFF_API_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(kubectl.sys, "argv", ["kubectl-bailiff"])


def program(text, folder, monkeypatch):
    path = folder / "kubectl"
    path.write_text(text)
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return path


@pytest.mark.usefixtures("no_settings")
def test_the_log_is_read_through_a_port_that_kubectl_forwards_meanwhile(tmp_path, monkeypatch):
    path = program(FORWARDING, tmp_path, monkeypatch)
    with kubectl.query_interface(["-n", "team-a", "--context=prod"]):
        assert (os.environ["BAILIFF_API"], os.environ["BAILIFF_API_TOKEN"]) == ("http://127.0.0.1:4711", "sesame")
        pid = int(path.with_name("kubectl.pid").read_text())
    assert "BAILIFF_API" not in os.environ
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.usefixtures("no_settings")
def test_who_may_not_reach_it_is_told_so(tmp_path, monkeypatch):
    program(REFUSING, tmp_path, monkeypatch)
    with pytest.raises(kubectl.NotOfBailiff, match="forbidden"), kubectl.query_interface([]):
        pass


@pytest.mark.usefixtures("no_settings")
def test_a_setting_that_says_where_the_log_is_holds(tmp_path, monkeypatch):
    program(REFUSING, tmp_path, monkeypatch)
    monkeypatch.setenv("BAILIFF_API", "http://127.0.0.1:1")
    with kubectl.query_interface([]):
        assert os.environ["BAILIFF_API"] == "http://127.0.0.1:1"


@pytest.mark.parametrize("arguments", [[], ["explain"], ["explain", "train"], ["delete", "job/train"]])
def test_other_arguments(arguments):
    assert kubectl.command_for(arguments) is None


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["explain", "job/x"], "NotFound"),
        (["explain", "job/new"], "no job in Bailiff yet"),
        (["prove", "job/new"], "cites no record"),
    ],
)
def test_what_cannot_be_answered(arguments, reason):
    with pytest.raises(kubectl.NotOfBailiff, match=reason):
        kubectl.command_for(arguments)


@pytest.mark.parametrize(
    ("owner", "said"),
    [
        (("v1", "--filename=http://elsewhere", "x"), "has no kind or name"),
        (("batch/v1", "Job", "../secrets"), "has no kind or name"),
        (("v1", "Pod", "loop"), "has more than 5 owners"),
    ],
)
def test_owners_that_an_object_invents_are_not_followed(calls, monkeypatch, owner, said):
    """Whoever may write a pod's object says who owns it."""
    monkeypatch.setitem(OBJECTS, "pod/loop", item("Pod", "loop", owner=owner))
    with pytest.raises(kubectl.NotOfBailiff, match=said):
        kubectl.command_for(["why", "pod/loop"])
    assert {tuple(command[:3]) for command in calls} == {("kubectl", "get", "pod/loop")}
    assert len(calls) <= 1 + kubectl.MAX_OWNERS


def test_what_an_object_says_cannot_move_the_terminals_cursor(monkeypatch, capsys):
    annotations = {"bailiff.io/status": "Running\x1b[2J\x1b]0;you\x07"}
    monkeypatch.setitem(OBJECTS, "job/train", item("Job", "train", annotations=annotations))
    monkeypatch.setattr(kubectl.sys, "argv", ["kubectl-bailiff", "why", "job/train"])
    with pytest.raises(SystemExit):
        kubectl.main()
    assert "\x1b" not in capsys.readouterr().out
