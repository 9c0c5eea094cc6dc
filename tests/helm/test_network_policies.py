"""Each pod's network policy permits exactly what its settings make it connect to, and to nobody else where peers are known."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import yaml
from tests.kits.helm import RELEASE, ROOT, Object, containers, of_kind, pod_templates, rendered

from bailiff_bus.grants import PRINCIPALS

ARCHIVE, KAFKA, API_SERVER, ATTACH, HTTP = 5432, 9092, (443, 6443), 8650, "http"
NAMES = "kafka.bootstrap=main-kafka-bootstrap.kafka.svc:9092\\,10.1.2.3:9092\\,b-0.brokers.streams.svc.cluster.local:9092"
DNS = [
    {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}},
    {"ipBlock": {"cidr": "169.254.20.10/32"}},
]
CASES: dict[str, tuple[str, ...] | None] = {
    "deploy/kustomize": None,
    "defaults": (),
    "everything": (
        *("console.env.BAILIFF_OIDC_ISSUER=https://login.example/realm", "console.env.BAILIFF_CONSOLE_JOBS_PORT=8641"),
        *(
            "auditor.env.BAILIFF_OTLP_ENDPOINT=http://collector.monitoring:4318",
            f"agents.env.BAILIFF_ATTACH_LISTEN=0.0.0.0:{ATTACH}",
        ),
        *("agents.apiOnly.enabled=true", "agents.apiOnly.selector.type=virtual-kubelet"),
    ),
    "no archive": ("archive.enabled=false",),
}


def objects_of(settings: tuple[str, ...] | None) -> list[Object]:
    """The committed file of kustomize, or the chart."""
    if settings is None:
        return [found for found in yaml.safe_load_all((ROOT / "deploy/kustomize/bailiff.yaml").read_text()) if found]
    return rendered(settings)


def policies(objects: Iterable[Object]) -> dict[str, Object]:
    return {found["metadata"]["name"]: found["spec"] for found in of_kind(objects, "NetworkPolicy")}


def connects_to(template: Object, tokens: dict[str, bool]) -> Iterator[int | str]:
    """The ports that a pod's settings make it connect to, besides DNS. tokens: which accounts have one for the API server."""
    every = containers(template)
    variables = {each["name"] for container in every for each in container.get("env", [])}
    shared = {each.get("configMapRef", {}).get("name") for container in every for each in container.get("envFrom", [])}
    if f"{RELEASE}-kafka" in shared:
        yield KAFKA
    if "BAILIFF_POSTGRES" in variables:
        yield ARCHIVE
    if "BAILIFF_API" in variables:
        yield HTTP
    if "BAILIFF_OIDC_ISSUER" in variables:
        yield 443
    if "BAILIFF_OTLP_ENDPOINT" in variables:
        yield 4318
    spec = template["spec"]
    if spec.get("automountServiceAccountToken", tokens[spec["serviceAccountName"]]):
        yield from API_SERVER


def selected(service: str) -> dict[str, Any]:
    labels = {"app.kubernetes.io/instance": RELEASE, "app.kubernetes.io/name": f"{RELEASE}-{service}"}
    return {"podSelector": {"matchLabels": labels}}


def ports(rules: list[dict[str, Any]]) -> list[int | str]:
    return [each["port"] for rule in rules for each in rule["ports"]]


@pytest.mark.parametrize("settings", CASES.values(), ids=CASES)
def test_a_pod_may_connect_to_what_its_settings_name_and_to_no_other_port(settings: tuple[str, ...] | None) -> None:
    objects = objects_of(settings)
    found, attaches = policies(objects), "BAILIFF_ATTACH_LISTEN" in str(settings)
    accounts = of_kind(objects, "ServiceAccount")
    tokens = {each["metadata"]["name"]: each.get("automountServiceAccountToken", True) for each in accounts}
    seen = 0
    for name, template in pod_templates(objects).items():
        if template["spec"].get("hostNetwork") or name not in found:
            continue
        seen += 1
        (dns, *rest) = found[name]["egress"]
        assert dns == {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}], "to": DNS}
        expected = [*connects_to(template, tokens)]
        if attaches and name in (f"{RELEASE}-console", f"{RELEASE}-toolbox"):
            expected.append(ATTACH)
        assert sorted(map(str, ports(rest))) == sorted(map(str, expected)), name
        role = name.removeprefix(f"{RELEASE}-")
        if role in PRINCIPALS:
            assert KAFKA in expected, f"{role} has rights in Kafka"
    assert seen >= 6
    assert found[f"{RELEASE}-default-deny"]["policyTypes"] == ["Ingress", "Egress"]
    assert not {"ingress", "egress"} & found[f"{RELEASE}-default-deny"].keys()


@pytest.mark.parametrize("settings", CASES.values(), ids=CASES)
def test_only_the_named_may_connect_to_a_pod(settings: tuple[str, ...] | None) -> None:
    console, api = selected("console"), selected("api")
    monitoring = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    for name, policy in policies(objects_of(settings)).items():
        if name.endswith("default-deny"):
            continue
        expected = [] if name.endswith(("setup", "toolbox")) else [{"from": [monitoring], "ports": [{"port": "metrics"}]}]
        if name == f"{RELEASE}-api":
            expected.append({"from": [console], "ports": [{"port": "http"}]})
        assert policy["ingress"] == expected, name
        inside = [rule for rule in policy["egress"] if rule["ports"] == [{"port": "http"}]]
        assert inside == ([{"to": [api], "ports": [{"port": "http"}]}] if ports(inside) else [])


def test_kafka_is_where_its_addresses_say() -> None:
    for policy in policies(rendered((NAMES,))).values():
        for rule in policy.get("egress", ()):
            if ports([rule]) == [KAFKA]:
                assert rule["to"] == [
                    {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kafka"}}},
                    {"ipBlock": {"cidr": "10.1.2.3/32"}},
                    {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "streams"}}},
                ]
    named = policies(rendered(("kafka.bootstrap=kafka.example.org:9092\\,10.1.2.3:9092",)))
    assert {"ports": [{"port": KAFKA}]} in named[f"{RELEASE}-admission"]["egress"], "a name of the world's DNS may be anywhere"
    given = policies(rendered(("networkPolicies.kafkaTo[0].ipBlock.cidr=10.9.0.0/16",)))
    assert {"ports": [{"port": KAFKA}], "to": [{"ipBlock": {"cidr": "10.9.0.0/16"}}]} in given[f"{RELEASE}-admission"]["egress"]


@pytest.mark.parametrize("purpose", ["postgresqlTo", "apiServerTo", "nodesTo"])
def test_each_purpose_can_be_limited_to_its_peers(purpose: str) -> None:
    peer = {"ipBlock": {"cidr": "10.9.0.0/16"}}
    settings = (f"networkPolicies.{purpose}[0].ipBlock.cidr=10.9.0.0/16", f"agents.env.BAILIFF_ATTACH_LISTEN=0.0.0.0:{ATTACH}")
    of_purpose = {"postgresqlTo": {ARCHIVE}, "apiServerTo": {*API_SERVER}, "nodesTo": {ATTACH}}[purpose]
    rules = [rule for policy in policies(rendered(settings)).values() for rule in policy.get("egress", ())]
    limited = [rule for rule in rules if {*ports([rule])} == of_purpose]
    assert limited
    assert all(rule["to"] == [peer] for rule in limited)
