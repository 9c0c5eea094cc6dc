"""The chart as Helm renders it, without a cluster."""

import json
import re

import pytest
import yaml
from tests.kits.helm import (
    BOOTSTRAP,
    CHART,
    RELEASE,
    ROOT,
    VALUE_SETS,
    Object,
    containers,
    helm,
    of_kind,
    pod_templates,
    rendered,
)

from bailiff.security.kubernetes_keys import secret_names
from bailiff_bus.grants import PRINCIPALS
from bailiff_core.model.policy import Policy
from bailiff_node_agent.settings import NodeDeclaration

HOST_ACCESS, API_ONLY = "bailiff-node-agent", "bailiff-api-only-agent"
KUSTOMIZE = ROOT / "deploy/kustomize"


@pytest.mark.parametrize("settings", VALUE_SETS.values(), ids=VALUE_SETS)
def test_helm_finds_no_fault_in_the_chart(settings: tuple[str, ...]) -> None:
    words = [word for setting in (BOOTSTRAP, *settings) for word in ("--set", setting)]

    done = helm("lint", str(CHART), "--strict", *words)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("kafka.bootstrap=kafka", "kafka/bootstrap"),
        ("admission.replica=3", "replica"),
        ("admission.replicas=0", "replicas"),
        ("kafka.securityProtocol=TLS", "securityProtocol"),
        ("agents.namespace=Agents", "namespace"),
        ("console.env.sign_in=oidc", "sign_in"),
        ("agents.apiOnly.enabled=true", "agents/apiOnly/selector"),
    ],
)
def test_a_wrong_value_is_refused_and_named(setting: str, message: str) -> None:
    done = helm("template", RELEASE, str(CHART), "--set", BOOTSTRAP, "--set", setting)

    assert done.returncode != 0
    assert message in done.stderr


def test_without_an_address_of_kafka_nothing_is_installed() -> None:
    done = helm("template", RELEASE, str(CHART))

    assert done.returncode != 0
    assert "bootstrap" in done.stderr


@pytest.mark.parametrize("settings", VALUE_SETS.values(), ids=VALUE_SETS)
def test_every_container_is_restricted_and_has_requests_and_probes(settings: tuple[str, ...]) -> None:
    for name, template in pod_templates(rendered(settings)).items():
        pod = template["spec"]
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["enableServiceLinks"] is False  # BAILIFF_API_PORT=tcp://… is no setting
        if name != HOST_ACCESS:
            assert pod["securityContext"]["runAsNonRoot"] is True
            assert not pod.get("hostPID")
            assert not any("hostPath" in volume for volume in pod["volumes"])
        for container in containers(template):
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False
            assert security["readOnlyRootFilesystem"] is True
            assert security["capabilities"]["drop"] == ["ALL"]
            assert ("add" in security["capabilities"]) == (name == HOST_ACCESS)
            assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
            assert "memory" in container["resources"]["limits"]
        if any(port["name"] == "metrics" for port in pod["containers"][0].get("ports", [])):
            assert {"startupProbe", "livenessProbe", "readinessProbe"} <= pod["containers"][0].keys()


def test_only_pods_that_talk_to_the_api_server_have_a_token() -> None:
    with_token = {
        name for name, template in pod_templates(rendered()).items() if template["spec"]["automountServiceAccountToken"]
    }

    assert with_token == {"bailiff-node-agent", "bailiff-kubernetes-bridge", "bailiff-setup-1", "bailiff-cleanup"}


def test_each_service_account_is_one_service_s_own() -> None:
    accounts = [template["spec"]["serviceAccountName"] for template in pod_templates(rendered()).values()]

    assert len(accounts) == len(set(accounts))


def test_roles_name_every_resource_and_never_everything() -> None:
    for role in of_kind(rendered(VALUE_SETS["everything"]), "Role", "ClusterRole"):
        for rule in role["rules"]:
            assert "*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]]
            assert not {"escalate", "bind", "impersonate", "deletecollection"} & set(rule["verbs"])


def test_the_setup_may_touch_its_own_secrets_only() -> None:
    (role,) = (found for found in of_kind(rendered(), "Role") if found["metadata"]["name"] == "bailiff-setup")
    (named,) = [rule["resourceNames"] for rule in role["rules"] if "resourceNames" in rule]

    assert set(named) == set(secret_names(RELEASE).values())


def test_every_user_of_kafka_that_the_chart_names_exists() -> None:
    prefix = "bailiff-"
    users = {
        variable["value"]
        for template in pod_templates(rendered(VALUE_SETS["Strimzi with passwords"])).values()
        for container in containers(template)
        for variable in container.get("env", [])
        if variable["name"] == "BAILIFF_KAFKA__USERNAME"
    }

    assert users <= {f"{prefix}{role}" for role in PRINCIPALS}
    assert {"bailiff-admission", "bailiff-node-agent", "bailiff-operator"} <= users


def test_every_selector_finds_the_pods_that_it_is_for() -> None:
    objects = rendered(VALUE_SETS["everything"])
    labels = [template["metadata"]["labels"] for template in pod_templates(objects).values()]
    selectors = [found["spec"]["selector"] for found in of_kind(objects, "Service")]
    selectors += [found["spec"]["podSelector"]["matchLabels"] for found in of_kind(objects, "NetworkPolicy")]
    selectors += [found["spec"]["selector"]["matchLabels"] for found in of_kind(objects, "PodDisruptionBudget")]

    for selector in selectors:
        assert any(selector.items() <= found.items() for found in labels), selector


def test_every_pod_with_the_pod_network_has_a_network_policy_of_its_own() -> None:
    objects = rendered()
    policies = [found["spec"]["podSelector"]["matchLabels"] for found in of_kind(objects, "NetworkPolicy")]

    for name, template in pod_templates(objects).items():
        matching = [policy for policy in policies if policy.items() <= template["metadata"]["labels"].items()]
        other_place = name in {HOST_ACCESS, "bailiff-cleanup"}  # another namespace; after the policies are gone
        assert other_place or len(matching) == 2, name  # default-deny, and its own


def test_the_agent_of_many_nodes_is_one_process_with_its_own_keys_and_policy() -> None:
    objects = rendered(VALUE_SETS["no agent on any node"])
    assert not of_kind(objects, "DaemonSet")
    (agent,) = [found for found in of_kind(objects, "StatefulSet") if found["metadata"]["name"] == API_ONLY]
    assert agent["spec"]["replicas"] == 1
    (container,) = agent["spec"]["template"]["spec"]["containers"]
    variables = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert variables["BAILIFF_KUBERNETES__API_ONLY"] == "true"
    (nodes,) = json.loads(variables["BAILIFF_NODES"])
    assert NodeDeclaration.model_validate_json(json.dumps(nodes)).selector == {"type": "virtual-kubelet"}
    policies = [found for found in of_kind(objects, "NetworkPolicy") if found["metadata"]["name"] == API_ONLY]
    assert [found["metadata"]["namespace"] for found in policies] == [agent["metadata"]["namespace"]] == ["bailiff-agents"]


def test_a_node_cannot_have_two_agents() -> None:
    settings = ("agents.apiOnly.enabled=true", "agents.apiOnly.selector.gpus=yes", "agents.nodeSelector.gpus=yes")
    label = "agents.nodeSelector.nvidia\\.com/gpu\\.present=null"
    words = [word for setting in (BOOTSTRAP, *settings, label) for word in ("--set", setting)]

    done = helm("template", RELEASE, str(CHART), *words)

    assert done.returncode != 0
    assert "a node has one agent" in done.stderr


def test_the_dashboards_and_alerts_are_those_of_deploy() -> None:
    objects = rendered(VALUE_SETS["everything"])
    boards = {
        key: text for found in of_kind(objects, "ConfigMap") for key, text in found["data"].items() if key.endswith(".json")
    }
    (rules,) = of_kind(objects, "PrometheusRule")

    files = {path.name: json.loads(path.read_text()) for path in (ROOT / "deploy/grafana/dashboards").glob("*.json")}
    assert {name: json.loads(text) for name, text in boards.items()} == files
    assert rules["spec"] == yaml.safe_load((ROOT / "deploy/prometheus/rules.yml").read_text())


def test_the_policy_is_the_one_of_the_other_installations() -> None:
    (configuration,) = [found for found in of_kind(rendered(), "ConfigMap") if "policy.yaml" in found["data"]]

    for name in ("policy.yaml", "pools.yaml"):
        assert yaml.safe_load(configuration["data"][name]) == yaml.safe_load((ROOT / "deploy" / name).read_text())


def test_the_bridge_has_the_rights_and_policies_of_deploy_kubernetes() -> None:
    objects = rendered()
    rights = yaml.safe_load_all((ROOT / "deploy/kubernetes/bridge-rbac.yaml").read_text())
    names = ("admission-policies.yaml", "bailiff-jobs.yaml", "foreign-gpus.yaml")
    files = [(ROOT / "deploy/kubernetes" / name).read_text() for name in names]
    policies = [policy for file in files for policy in yaml.safe_load_all(file)]

    for wanted in of_kind(rights, "Role", "ClusterRole"):
        (found,) = (role for role in of_kind(objects, wanted["kind"]) if role["metadata"]["name"] == wanted["metadata"]["name"])
        assert sorted(map(str, _single(found["rules"]))) == sorted(map(str, _single(wanted["rules"])))
    assert all(policy in objects for policy in policies if policy)


def test_pods_in_no_pool_are_refused_the_chosen_gpus_outside_of_the_chosen_namespaces() -> None:
    objects = rendered(("agents.gpuResource=amd.com/gpu", "bridge.foreignGpus.namespaces={tests}"))
    (policy, binding) = [found for found in objects if found["metadata"]["name"] == "bailiff-foreign-gpus"]
    assert "startsWith('amd.com/')" in str(policy["spec"]["variables"])
    assert "nvidia" not in str(policy)
    assert {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["tests"]} in binding["spec"]["matchResources"][
        "namespaceSelector"
    ]["matchExpressions"]
    free = rendered(("bridge.foreignGpus.refuse=false",))
    assert not [found for found in free if found["metadata"]["name"] == "bailiff-foreign-gpus"]


def _single(rules: list[Object]) -> list[Object]:
    """The same rules with one resource each."""
    return [{**rule, "resources": [resource], "verbs": sorted(rule["verbs"])} for rule in rules for resource in rule["resources"]]


@pytest.mark.parametrize("page", ["migrate-kubernetes.md"])
def test_the_policies_of_the_guides_are_valid(page: str) -> None:
    blocks = re.findall(
        r"^<!-- example: policy -->\n```yaml\n(.*?)^```$", (ROOT / "docs/how-to" / page).read_text(), re.MULTILINE | re.DOTALL
    )

    assert len(blocks) == 2
    for block in blocks:
        assert Policy.model_validate(yaml.safe_load(block), strict=False).projects


def test_the_values_for_strimzi_fit_its_example() -> None:
    examples = ROOT / "deploy/helm/examples"
    values = yaml.safe_load((examples / "values-strimzi.yaml").read_text())["kafka"]
    (cluster,) = of_kind(yaml.safe_load_all((examples / "strimzi.yaml").read_text()), "Kafka")
    (listener,) = cluster["spec"]["kafka"]["listeners"]
    name = cluster["metadata"]["name"]

    assert values["bootstrap"] == f"{name}-kafka-bootstrap.bailiff.svc:{listener['port']}"
    assert values["saslMechanism"].lower() == listener["authentication"]["type"]
    assert values["caSecret"]["name"] == f"{name}-cluster-ca-cert"
    done = helm("template", RELEASE, str(CHART), "-f", str(examples / "values-strimzi.yaml"))
    assert done.returncode == 0, done.stderr


def test_kustomize_has_what_the_chart_renders_but_for_helms_hooks() -> None:
    made = [found for found in yaml.safe_load_all((KUSTOMIZE / "bailiff.yaml").read_text()) if found]

    assert made == [found for found in rendered() if "helm.sh/hook" not in found["metadata"].get("annotations", {})], (
        "run: make kustomize"
    )
