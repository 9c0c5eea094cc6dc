"""`bailiff security` without Kafka: commands, Strimzi's users, certificates, and the compose file."""

import re
import shlex
import stat
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID
from pydantic import ValidationError
from typer.testing import CliRunner

from bailiff.cli import app
from bailiff.security.certificates import BROKER, SUPERUSER, issue
from bailiff_bus.grants import CLUSTER, PRINCIPALS, Grant, Operation, writers
from bailiff_bus.kafka_settings import KafkaSettings
from bailiff_bus.topics import AUDIT, TOPICS

ROOT = Path(__file__).parents[3]
OPERATIONS = {operation.title: operation for operation in Operation}
TABLE = {(principal.name, grant) for principal in PRINCIPALS.values() for grant in principal.grants()}


def output(*arguments: str) -> str:
    """Standard output of `bailiff security` with these arguments; it must succeed."""
    result = CliRunner().invoke(app, ["security", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_only_admission_may_write_the_audit_log() -> None:
    assert writers(AUDIT) == ("admission",)


def test_every_topic_has_a_writer_and_a_reader() -> None:
    assert [topic.name for topic in TOPICS.values() if not writers(topic)] == []
    read = {topic.name for principal in PRINCIPALS.values() for topic in principal.reads}
    assert read == TOPICS.keys()


def test_the_commands_of_kafkas_tools_grant_the_table() -> None:
    lines = output("commands", "--kafka", "k:9092", "--command-config", "my admin.properties").splitlines()
    calls = [shlex.split(line) for line in lines if not line.startswith("#")]
    assert {tuple(call[1:5]) for call in calls} == {("--bootstrap-server", "k:9092", "--command-config", "my admin.properties")}
    assert {grant for call in calls if call[0] == "kafka-acls.sh" for grant in granted(call)} == TABLE
    users = [call for call in calls if call[0] == "kafka-configs.sh"]
    assert {call[call.index("--entity-name") + 1] for call in users} == {principal.name for principal in PRINCIPALS.values()}
    assert re.search(r'password=\$VICTIM_SELECTION_PASSWORD\]"$', "\n".join(lines), re.MULTILINE)


def granted(call: list[str]) -> Iterator[tuple[str, Grant]]:
    """The grants of one call of kafka-acls.sh."""
    options = list(pairwise(call))
    (user,) = [value for option, value in options if option == "--allow-principal"]
    for operation in [OPERATIONS[value] for option, value in options if option == "--operation"]:
        for resource in ("topic", "group"):
            for name in [value for option, value in options if option == f"--{resource}"]:
                yield user.removeprefix("User:"), Grant(resource, name, operation)  # type: ignore[arg-type]
        if "--cluster" in call:
            yield user.removeprefix("User:"), Grant("cluster", CLUSTER, operation)


def test_strimzis_users_have_the_table() -> None:
    documents = list(yaml.safe_load_all(output("strimzi", "--cluster", "main", "--authentication", "tls")))
    found = {
        (user["metadata"]["name"], Grant(rule["resource"]["type"], rule["resource"].get("name", CLUSTER), OPERATIONS[operation]))
        for user in documents
        for rule in user["spec"]["authorization"]["acls"]
        for operation in rule["operations"]
    }
    assert found == TABLE
    assert {user["metadata"]["labels"]["strimzi.io/cluster"] for user in documents} == {"main"}
    assert {user["spec"]["authentication"]["type"] for user in documents} == {"tls"}


def test_one_role_and_another_name() -> None:
    text = output("commands", "rollup", "--authentication", "tls", "--user", "User:CN={name}")
    assert "User:CN=bailiff-rollup" in text
    assert "kafka-configs.sh" not in text
    assert "bailiff-admission" not in text
    refused = CliRunner().invoke(app, ["security", "commands", "--user", "User:all"])
    assert refused.exit_code != 0


def test_certificates_name_the_users_and_renewal_keeps_the_authority(tmp_path: Path) -> None:
    assert issue(tmp_path, ["kafka", "10.0.0.1"])
    assert issue(tmp_path, ["kafka"]) == []
    ca, before = (tmp_path / "ca.pem").read_bytes(), (tmp_path / "admission.pem").read_bytes()
    assert "ca.pem" not in issue(tmp_path, ["kafka", "10.0.0.1"], renew=True)
    assert (tmp_path / "ca.pem").read_bytes() == ca
    assert (tmp_path / "admission.pem").read_bytes() != before
    for name in (BROKER, SUPERUSER, *PRINCIPALS):
        certificate = x509.load_pem_x509_certificate((tmp_path / f"{name}.pem").read_bytes())
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(ca))
        (common,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        assert common.value == f"bailiff-{name}"
    keys = [*tmp_path.glob("*.key"), *tmp_path.glob("*.chain.pem")]
    assert {stat.S_IMODE(file.stat().st_mode) for file in keys} == {0o600}
    hosts = x509.load_pem_x509_certificate((tmp_path / "broker.pem").read_bytes()).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert [str(each.value) for each in hosts.value] == ["kafka", "10.0.0.1"]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"certfile": "c.pem"}, "certfile"),
        ({"cafile": "c.pem", "security_protocol": "SASL_PLAINTEXT"}, "SASL_PLAINTEXT"),
        ({"security_protocol": "SSL", "keyfile": "k.pem"}, "certfile"),
        ({"security_protocol": "SSL", "key_password": "secret"}, "certfile"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(given: dict[str, Any], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        KafkaSettings.model_validate(given)


def test_settings_for_a_child_process_have_the_secrets_and_no_other_dump_has() -> None:
    settings = KafkaSettings.model_validate({"security_protocol": "SSL", "certfile": "c.pem", "key_password": "secret"})
    assert KafkaSettings.model_validate(settings.with_secrets()) == settings
    assert "secret" not in settings.model_dump_json() + repr(settings)


def test_in_the_compose_form_every_service_has_its_own_users_certificate() -> None:
    """Each service of the plain form that connects to Kafka sees the folder of its own user, and no other."""
    plain = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    secure = yaml.safe_load((ROOT / "deploy" / "compose" / "secure.yml").read_text())["services"]
    connected = {name for name, service in plain.items() if "BAILIFF_KAFKA__BOOTSTRAP" in service.get("environment", {})}
    assert {"admission", "console", "topics"} <= connected
    folders = {name: [each["volume"]["subpath"] for each in secure[name]["volumes"]] for name in connected}
    assert folders == {name: ["operator" if name == "topics" else name] for name in connected}
    assert {role for (role,) in folders.values()} <= PRINCIPALS.keys()
    for name in connected:
        assert secure[name]["environment"]["BAILIFF_KAFKA__SECURITY_PROTOCOL"] == "SSL"
    assert secure["kafka"]["environment"]["KAFKA_SUPER_USERS"] == f"User:bailiff-{BROKER};User:bailiff-{SUPERUSER}"
