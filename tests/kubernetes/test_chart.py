"""The chart against a real API server: every object is valid, service accounts may do what the table grants and nothing else."""

import base64
import json
import re
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from tests.kits.helm import ROOT, VALUE_SETS, Object, of_kind, pod_templates, rendered
from tests.kits.kubernetes_cluster import Cluster

from bailiff_kubernetes.names import TASK_HASH

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]

CUSTOM = ("ServiceMonitor", "PodMonitor", "PrometheusRule")  # their definitions are not part of Kubernetes
OPERATOR = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
NOBODY = "no-such-account"  # has what Kubernetes grants to every service account, such as reviews of oneself
NODE, OTHER_NODE = "fake-1", "fake-2"
AGENTS = ("node-agent", "api-only-agent")
HOW_TO = ROOT / "docs/how-to"

# Namespace, resource, and verbs; `*` for the whole cluster. A name behind `/` is a subresource, one in brackets limits the names.
GRANTED: dict[str, set[tuple[str, str, str]]] = {
    "node-agent": {
        ("*", "nodes", "get list watch"),
        ("*", "pods", "delete get list patch watch"),
        ("*", "pods/status", "patch"),
        ("*", "placements.bailiff.io", "update"),
        ("*", "resourceslices.resource.k8s.io", "list watch"),
        ("jobs", "pods", "create"),
        ("jobs", "resourceclaims.resource.k8s.io", "create get patch"),
    },
    "api-only-agent": {
        ("*", "nodes", "get list watch"),
        ("*", "pods", "delete get list patch watch"),
        ("*", "pods/status", "patch"),
        ("*", "placements.bailiff.io", "update"),
        ("jobs", "pods", "create"),
    },
    "kubernetes-bridge": {
        ("*", "nodes", "get list patch watch"),
        ("*", "pods", "delete get list patch watch"),
        ("*", "pods/status", "patch"),
        ("*", "placements.bailiff.io", "update"),
        ("*", "jobs.batch", "get list patch watch"),
        ("*", "jobs.batch/status", "patch"),
        ("*", "replicasets.apps", "get list watch"),
        ("*", "statefulsets.apps", "get list watch"),
        ("*", "poddisruptionbudgets.policy", "get list watch"),
        ("*", "jobsets.jobset.x-k8s.io", "get list patch watch"),
        ("*", "trainjobs.trainer.kubeflow.org", "get list patch watch"),
        ("*", "pytorchjobs.kubeflow.org", "get list patch watch"),
        ("*", "rayjobs.ray.io", "get list patch watch"),
        ("*", "leaderworkersets.leaderworkerset.x-k8s.io", "get list patch watch"),
        ("*", "evictions.lifecycle.k8s.io", "get list watch"),
        ("*", "evictions.lifecycle.k8s.io/status", "patch"),
        ("*", "bailiffjobs.bailiff.io", "create get list patch watch"),
        ("*", "workflows.argoproj.io", "get list watch"),
        ("*", "cronworkflows.argoproj.io", "get list watch"),
        ("*", "trials.kubeflow.org", "get list watch"),
        ("*", "experiments.kubeflow.org", "get list watch"),
        ("*", "persistentvolumeclaims", "get list watch"),
        ("*", "resourcequotas", "get list watch"),
        ("*", "persistentvolumes", "get list watch"),
        ("*", "storageclasses.storage.k8s.io", "get list watch"),
        ("*", "events.events.k8s.io", "create"),
        ("system", "leases.coordination.k8s.io", "create"),
        ("system", "leases.coordination.k8s.io[kubernetes-bridge]", "get update"),
    },
    "setup": {
        *(
            ("system", f"statefulsets.apps[{name}]", "patch")
            for name in ("admission", "victim-selection", "eviction-executor", "auditor", "rollup", "console")
        ),
        ("agents", "configmaps", "create"),
        ("agents", "configmaps[root-public-key]", "update"),
        ("system", "secrets", "create"),
        *(
            ("system", f"secrets[{name}]", "get update")
            for name in (
                *("root-key", "operator-keys", "kubernetes-bridge-keys", "api-token", "admission-keys", "victim-selection-keys"),
                *("eviction-executor-keys", "auditor-keys", "rollup-keys", "console-keys"),
            )
        ),
    },
}


@dataclass(frozen=True)
class Chart:
    """The chart's accounts, rights and policies in the cluster, under names of the test's own."""

    cluster: Cluster
    release: str

    @property
    def settings(self) -> list[str]:
        places = [f"jobs.namespace={self.namespace('jobs')}", f"agents.namespace={self.namespace('agents')}"]
        return [*places, "agents.apiOnly.enabled=true", "agents.apiOnly.selector.type=virtual-kubelet"]

    def namespace(self, purpose: str) -> str:
        """system: of the services. agents, jobs: of those. elsewhere: a user's."""
        return f"{self.release}-{purpose}"

    def objects(self, *settings: str) -> list[Object]:
        return rendered([*self.settings, *settings], release=self.release, namespace=self.namespace("system"))

    def account(self, service: str) -> str:
        place = "agents" if service in AGENTS else "system"
        return f"system:serviceaccount:{self.namespace(place)}:{self.release}-{service}"

    def as_account(self, service: str, *arguments: str, stdin: str) -> Object:
        """kubectl as this service account, with the object on stdin; the answer as JSON."""
        groups = ("--as-group=system:serviceaccounts", "--as-group=system:authenticated")
        words = (*arguments, "--validate=false", "-f", "-", "-o", "json", f"--as={self.account(service)}", *groups)
        found: Object = json.loads(self.cluster.kubectl(*words, stdin=stdin))
        return found

    def rights(self, service: str, purpose: str) -> set[tuple[str, str]]:
        """What the API server says that the account may do in this namespace: resources and verbs."""
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": self.namespace(purpose)},
        }
        status = self.as_account(service, "create", stdin=json.dumps(review))["status"]
        assert not status["incomplete"], status
        return {
            (self._name(group, resource, name), " ".join(sorted(rule["verbs"])))
            for rule in status["resourceRules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for name in rule.get("resourceNames") or [""]
        }

    def _name(self, group: str, resource: str, name: str) -> str:
        plain, _, sub = resource.partition("/")
        limited = f"[{name.removeprefix(f'{self.release}-')}]" if name else ""
        return f"{plain}{f'.{group}' if group else ''}{f'/{sub}' if sub else ''}{limited}"


@pytest.fixture(scope="module")
def chart(kubernetes: Cluster) -> Iterator[Chart]:
    found = Chart(kubernetes, f"t{uuid.uuid4().hex[:8]}")
    for purpose, level in (("system", "restricted"), ("elsewhere", "restricted")):
        kubernetes.kubectl("create", "namespace", found.namespace(purpose))
        kubernetes.kubectl("label", "namespace", found.namespace(purpose), f"pod-security.kubernetes.io/enforce={level}")
    rights = of_kind(
        found.objects(),
        "Namespace",
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "ClusterRole",
        "ClusterRoleBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    )
    # The policies of the bridge have fixed names, and other tests have them in place.
    text = yaml.safe_dump_all(item for item in rights if item["metadata"]["name"].startswith(found.namespace("")[:-1]))
    kubernetes.kubectl("apply", "-f", "-", stdin=text)
    yield found
    kubernetes.kubectl("delete", "-f", "-", "--wait=false", "--ignore-not-found", stdin=text)
    kubernetes.kubectl("delete", "namespace", found.namespace("system"), found.namespace("elsewhere"), "--wait=false")


@pytest.mark.parametrize("settings", VALUE_SETS.values(), ids=VALUE_SETS)
def test_the_api_server_accepts_every_object_and_knows_every_field(chart: Chart, settings: tuple[str, ...]) -> None:
    objects = [found for found in chart.objects(*settings) if found["kind"] not in CUSTOM]

    answer = chart.cluster.kubectl(
        "apply",
        "--dry-run=server",
        "--validate=strict",
        "--server-side",
        "--force-conflicts",
        "-f",
        "-",
        stdin=yaml.safe_dump_all(objects),
    )

    assert answer.count("serverside-applied (server dry run)") == len(objects)


@pytest.fixture(scope="module")
def monitoring_definitions(kubernetes: Cluster) -> Iterator[None]:
    """The Prometheus operator's own definitions, from its Go module."""
    if shutil.which("go") is None:
        pytest.skip("no Go, and so no definitions of the Prometheus operator")
    done = subprocess.run(
        ["go", "mod", "download", "-json", OPERATOR], capture_output=True, text=True, check=False, timeout=300, cwd="/tmp"
    )
    if done.returncode:
        pytest.skip(f"{OPERATOR} is not to be had: {done.stdout[-300:]}{done.stderr[-300:]}")
    folder = Path(json.loads(done.stdout)["Dir"]) / "example/prometheus-operator-crd"
    names = ("servicemonitors", "podmonitors", "prometheusrules")
    files = [word for name in names for word in ("-f", str(folder / f"monitoring.coreos.com_{name}.yaml"))]
    kubernetes.kubectl("apply", "--server-side", *files)
    kubernetes.kubectl("wait", "--for=condition=Established", *files, "--timeout=60s")
    yield
    kubernetes.kubectl("delete", *files, "--wait=false")


@pytest.mark.usefixtures("monitoring_definitions")
def test_the_objects_for_prometheus_fit_the_operators_definitions(chart: Chart) -> None:
    objects = of_kind(chart.objects(*VALUE_SETS["everything"]), *CUSTOM)

    answer = chart.cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=yaml.safe_dump_all(objects))

    assert {found["kind"] for found in objects} == set(CUSTOM)
    assert answer.count("created (server dry run)") == len(objects)
    unknown = [{**objects[0], "spec": {**objects[0]["spec"], "endpoint": []}}]
    with pytest.raises(AssertionError, match="unknown field"):
        chart.cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=yaml.safe_dump_all(unknown))


@pytest.mark.parametrize(
    "service",
    ["admission", "victim-selection", "eviction-executor", "auditor", "api", "rollup", "console", "witness", "toolbox", *GRANTED],
)
def test_a_service_account_may_do_what_the_table_grants_and_nothing_else(chart: Chart, service: str) -> None:
    granted = GRANTED.get(service, set())
    for purpose in ("system", "agents", "jobs", "elsewhere"):
        expected = {(resource, allowed) for place, resource, allowed in granted if place in {"*", purpose}}

        assert chart.rights(service, purpose) - chart.rights(NOBODY, purpose) == expected, (
            f"{service} in the namespace of {purpose}"
        )


def test_pods_of_all_services_are_admitted_where_pod_security_is_restricted(chart: Chart) -> None:
    for name, template in pod_templates(chart.objects()).items():
        if name.endswith("api-only-agent"):  # nothing of it needs the privileges of its namespace
            _try_pod(chart, "system", name, {**template, "spec": {**template["spec"], "serviceAccountName": "default"}})
        elif not name.endswith("node-agent"):
            _try_pod(chart, "system", name, template)


def test_the_agents_pod_is_admitted_in_its_own_namespace_and_refused_where_pod_security_is_restricted(chart: Chart) -> None:
    name = f"{chart.release}-node-agent"
    template = pod_templates(chart.objects())[name]

    _try_pod(chart, "agents", name, template)
    with pytest.raises(AssertionError, match="violates PodSecurity"):
        _try_pod(chart, "system", name, {**template, "spec": {**template["spec"], "serviceAccountName": "default"}})


def _try_pod(chart: Chart, purpose: str, name: str, template: Object) -> None:
    spec = dict(template["spec"])
    spec.setdefault("volumes", [])
    mounted = {mount["name"] for container in spec["containers"] for mount in container.get("volumeMounts", [])}
    claims = mounted - {volume["name"] for volume in spec["volumes"]}  # made by a StatefulSet for each pod
    spec["volumes"] = [*spec["volumes"], *({"name": claim, "emptyDir": {}} for claim in claims)]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    chart.cluster.kubectl("create", "--dry-run=server", "-n", chart.namespace(purpose), "-f", "-", stdin=json.dumps(pod))


def test_the_workloads_of_the_guides_are_valid(chart: Chart) -> None:
    texts = [(HOW_TO / page).read_text() for page in ("install-kubernetes.md", "migrate-kubernetes.md")]
    blocks = [block for text in texts for block in re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]
    ours = [item for block in blocks for item in yaml.safe_load_all(block) if _is_labelled(item)]

    answer = chart.cluster.kubectl(
        "apply", "--dry-run=server", "--validate=strict", "-n", chart.namespace("jobs"), "-f", "-", stdin=yaml.safe_dump_all(ours)
    )

    assert answer.count("created (server dry run)") == len(ours) == 4


def _is_labelled(item: Object) -> bool:
    return "bailiff.io/pool" in item.get("metadata", {}).get("labels", {})


class Agent:
    """What somebody can do who has stolen a node agent's token."""

    def __init__(self, chart: Chart, node: str) -> None:
        self._chart = chart
        self._namespace = chart.namespace("agents")
        self.pod = f"agent-{node}"
        account = f"{chart.release}-node-agent"
        spec = {
            "serviceAccountName": account,
            "nodeName": node,
            "containers": [{"name": "agent", "image": "localhost/busybox:1"}],
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": self.pod}, "spec": spec}
        chart.cluster.kubectl("create", "-n", self._namespace, "-f", "-", stdin=json.dumps(pod))
        bound = ("--bound-object-kind=Pod", f"--bound-object-name={self.pod}")
        token = chart.cluster.kubectl("create", "token", account, "-n", self._namespace, *bound).strip()
        self._config = json.loads(chart.cluster.kubectl("config", "view", "--raw", "-o", "json"))
        self._config["users"][0]["user"] = {"token": token}

    def patch_status(self, path: str, patch: Object) -> str:
        """The API server's answer; kubectl would read the status first, which an agent may not."""
        cluster = self._config["clusters"][0]["cluster"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        request = urllib.request.Request(
            f"{cluster['server']}{path}/status",
            json.dumps(patch).encode(),
            method="PATCH",
            headers={
                "authorization": f"Bearer {self._config['users'][0]['user']['token']}",
                "content-type": "application/strategic-merge-patch+json",
            },
        )
        try:
            with urllib.request.urlopen(request, context=ssl.create_default_context(cadata=authority)) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            return error.read().decode()

    def kubectl(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """kubectl with the token and without the administrator's certificate."""
        program = "kubectl" if self._chart.cluster.programs is None else str(self._chart.cluster.programs / "kubectl")
        command = [program, "--kubeconfig=/dev/fd/3", *arguments]
        return subprocess.run(
            ["bash", "-c", 'exec 3<<<"$CONFIG"; exec "$@"', "-", *command],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            input=stdin,
            env={"CONFIG": json.dumps(self._config), "PATH": "/usr/bin:/bin"},
        )


@pytest.fixture
def agent(chart: Chart, kubernetes: Cluster) -> Iterator[Agent]:
    if {NODE, OTHER_NODE} - set(kubernetes.fake_nodes):
        pytest.skip("needs two nodes that are played")
    found = Agent(chart, NODE)
    yield found
    kubernetes.kubectl("delete", "pod", found.pod, "-n", chart.namespace("agents"), "--grace-period=1")


def _task(name: str, node: str, *, pinned: bool = True) -> str:
    match = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [match]}]}}
    place = {"affinity": {"nodeAffinity": required}} if pinned else {"nodeName": node}
    spec = {**place, "containers": [{"name": "task", "image": "localhost/busybox:1"}]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def test_an_agent_starts_and_ends_pods_of_its_own_node_only(chart: Chart, agent: Agent) -> None:
    jobs = chart.namespace("jobs")

    own = agent.kubectl("create", "-n", jobs, "-f", "-", stdin=_task("own", NODE))
    others = agent.kubectl("create", "-n", jobs, "-f", "-", stdin=_task("other", OTHER_NODE))
    bound = agent.kubectl("create", "-n", jobs, "-f", "-", stdin=_task("bound", OTHER_NODE, pinned=False))
    anywhere = agent.kubectl("create", "-n", jobs, "-f", "-", stdin=_task("anywhere", "", pinned=False))

    assert own.returncode == 0, own.stderr
    for refused in (others, bound, anywhere):
        assert "may not change pods of other nodes" in refused.stderr

    chart.cluster.kubectl("create", "-n", jobs, "-f", "-", stdin=_task("victim", OTHER_NODE))
    ending = agent.kubectl("delete", "pod", "victim", "-n", jobs)
    patching = agent.kubectl(
        "patch", "pod", "victim", "-n", jobs, "-p", '{"metadata": {"annotations": {"bailiff.io/notice": "{}"}}}'
    )
    condition = {"status": {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}}

    for refused in (ending, patching):
        assert "may not change pods of other nodes" in refused.stderr
    assert "may not change pods of other nodes" in agent.patch_status(f"/api/v1/namespaces/{jobs}/pods/victim", condition)
    assert '"kind":"Pod"' in agent.patch_status(f"/api/v1/namespaces/{jobs}/pods/own", condition)
    assert agent.kubectl("delete", "pod", "own", "-n", jobs).returncode == 0


def test_an_agent_adds_owners_to_a_claim_and_changes_nothing_else_of_it(chart: Chart, agent: Agent) -> None:
    """The claim of a shared GPU, which pods of another node own as well."""
    jobs, name = chart.namespace("jobs"), "bailiff-gpu-shared"
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "theirs", "uid": "0b5c3b84-0000-0000-0000-000000000001"}
    chart.cluster.kubectl("create", "-n", jobs, "-f", "-", stdin=_task("theirs", OTHER_NODE))
    owner["uid"] = chart.cluster.get("pod", "theirs", "-n", jobs)["metadata"]["uid"]
    own = {**owner, "name": "own", "uid": "0b5c3b84-0000-0000-0000-000000000002"}
    request = {"name": "gpus", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "finalizers": ["bailiff.io/test"], "ownerReferences": [owner]},
        "spec": {"devices": {"requests": [request]}},
    }
    chart.cluster.kubectl("create", "-n", jobs, "-f", "-", stdin=json.dumps(claim))

    def patch(metadata: Object, form: str = "merge") -> str:
        done = agent.kubectl(
            "patch",
            "resourceclaim",
            name,
            "-n",
            jobs,
            f"--type={form}",
            "-p",
            json.dumps({"metadata": metadata}),
            "--dry-run=server",
        )
        return "" if done.returncode == 0 else done.stderr

    assert patch({"ownerReferences": [own]}, "strategic") == ""
    for refused in (
        {"ownerReferences": [own]},
        {"ownerReferences": None},
        {"finalizers": None},
        {"labels": {"a": "b"}},
        {"annotations": {"a": "b"}},
    ):
        assert "may add a pod to the owners of a claim, and change nothing else" in patch(refused), refused
    chart.cluster.kubectl("patch", "resourceclaim", name, "-n", jobs, "--type=merge", "-p", '{"metadata": {"finalizers": null}}')


def test_an_agents_token_that_names_no_node_is_good_for_nothing_that_changes(chart: Chart) -> None:
    with pytest.raises(AssertionError, match="names no node"):
        chart.as_account("node-agent", "create", "-n", chart.namespace("jobs"), stdin=_task("own", NODE))


def test_the_agent_of_many_nodes_changes_tasks_and_no_other_pods(chart: Chart) -> None:
    task = json.loads(_task("task", OTHER_NODE))
    task["metadata"]["labels"] = {TASK_HASH: "h"}
    where = ("-n", chart.namespace("jobs"), "--dry-run=server")

    assert chart.as_account("api-only-agent", "create", *where, stdin=json.dumps(task))["kind"] == "Pod"
    with pytest.raises(AssertionError, match="may change only pods that are tasks"):
        chart.as_account("api-only-agent", "create", *where, stdin=_task("other", OTHER_NODE))
    chart.cluster.kubectl("create", "-n", chart.namespace("jobs"), "-f", "-", stdin=_task("of-others", OTHER_NODE))
    with pytest.raises(AssertionError, match="may change only pods that are tasks"):
        chart.cluster.kubectl("delete", "pod", "of-others", *where, f"--as={chart.account('api-only-agent')}")
