"""The keys of an installation on Kubernetes: made once, kept in Secrets, and continued from them."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from bailiff.cli import app
from bailiff.security import kubernetes_keys as keys
from bailiff_core.model.policy import Policy
from bailiff_log.credentials import CERTIFICATE, read_credentials

pytestmark = pytest.mark.slow  # each test makes all keys of a pool

DAY = 86_400_000_000
NOW = 20_000 * DAY
POLICY = "priority_classes: [{name: train, value: 50, preemptible: true, global_default: true}]\n"


def made(folder: Path, *, now: int = NOW, replicas: int = 2) -> dict[str, dict[str, str]]:
    """The data of each Secret after one run."""
    keys.complete(folder, "bailiff", {"admission": replicas}, POLICY, now)
    return {secret["metadata"]["name"]: secret["data"] for secret in keys.secrets(folder, "bailiff", "bailiff")}


def continued(folder: Path, data: dict[str, dict[str, str]]) -> None:
    """A folder from Secrets, as the setup Job makes it."""
    for part, name in keys.secret_names("bailiff").items():
        keys.restore(folder, "bailiff", part, data.get(name, {}))


def test_each_replica_has_credentials_of_its_own_from_one_root_key(tmp_path: Path) -> None:
    made(tmp_path)

    first, second = (read_credentials(tmp_path / "admission" / f"bailiff-admission-{ordinal}") for ordinal in (0, 1))
    assert first.root_key == second.root_key == (tmp_path / "root.pub").read_text().strip()
    assert first.private_key != second.private_key
    assert first.certificate.role == "admission"
    assert second.certificate.name == "bailiff-admission-1"


def test_another_run_from_the_secrets_changes_nothing(tmp_path: Path) -> None:
    before = made(tmp_path / "first")

    continued(tmp_path / "second", before)

    assert made(tmp_path / "second") == before


def test_more_replicas_get_keys_and_the_others_keep_theirs(tmp_path: Path) -> None:
    before = made(tmp_path / "first")
    continued(tmp_path / "second", before)

    after = made(tmp_path / "second", replicas=3)

    assert before["bailiff-admission-keys"].items() < after["bailiff-admission-keys"].items()
    assert "bailiff-admission-2.key" in after["bailiff-admission-keys"]


@pytest.mark.parametrize("written", range(1, 10))
def test_a_run_that_was_cut_off_anywhere_is_completed_without_a_contradiction(tmp_path: Path, written: int) -> None:
    before = made(tmp_path / "first")
    continued(tmp_path / "second", dict(list(before.items())[:written]))  # in the order of writing

    after = made(tmp_path / "second")

    assert {name: after[name] for name in list(before)[:written]} == dict(list(before.items())[:written])
    policy = Policy.model_validate(yaml.safe_load((tmp_path / "second/admission/policy.yaml").read_text()), strict=False)
    operator = CliRunner().invoke(app, ["key", "show", str(tmp_path / "second/operator/operator.key")]).output.split()[1]
    assert policy.identity.keys[operator] == "operator"
    for folder in (tmp_path / "second").glob("*/bailiff-*"):
        assert read_credentials(folder).root_key == (tmp_path / "second/root.pub").read_text().strip()


def test_certificates_are_renewed_when_half_of_their_time_is_over_and_keys_stay(tmp_path: Path) -> None:
    before = made(tmp_path)["bailiff-auditor-keys"]

    early = made(tmp_path, now=NOW + 100 * DAY)["bailiff-auditor-keys"]
    late = made(tmp_path, now=NOW + 200 * DAY)["bailiff-auditor-keys"]

    assert early == before
    changed = {key for key in before if late[key] != before[key]}
    assert changed == {f"bailiff-auditor-0.{CERTIFICATE}"}


def test_the_first_policy_names_operator_console_and_bridge_unless_it_says_who(tmp_path: Path) -> None:
    made(tmp_path)
    given = tmp_path / "given"
    keys.complete(given, "bailiff", {}, "identity: {operators: [ada]}\n", NOW)

    policy: Any = yaml.safe_load((tmp_path / "admission/policy.yaml").read_text())
    assert set(policy["identity"]["keys"].values()) == {"operator", "console", "kubernetes-bridge"}
    assert policy["identity"]["operators"] == ["operator"]
    assert policy["kubernetes"]["bridges"] == ["kubernetes-bridge"]
    assert yaml.safe_load((given / "admission/policy.yaml").read_text())["identity"] == {"operators": ["ada"]}


def test_only_their_owner_can_read_the_private_keys(tmp_path: Path) -> None:
    made(tmp_path)

    private = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix in {".key", ""} and path.name != "root.pub"]
    assert len(private) > 10
    assert {oct(path.stat().st_mode & 0o777) for path in private} == {"0o600"}


def test_the_command_prints_all_secrets_but_that_of_the_root_key(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["security", "kubernetes", str(tmp_path), "--namespace", "gpus", "--replicas", "admission=2"])

    objects = list(yaml.safe_load_all(done.output))
    names = {item["metadata"]["name"] for item in objects}
    assert names == set(keys.secret_names("bailiff").values()) - {"bailiff-root-key"} | {"bailiff-root-public-key"}
    assert {item["metadata"]["namespace"] for item in objects} == {"gpus", "bailiff-agents"}
    assert (tmp_path / "root-key/root.key").exists()
    policy = Policy.model_validate(yaml.safe_load((tmp_path / "admission/policy.yaml").read_text()), strict=False)
    assert "inference" in {each.name for each in policy.priority_classes}


def test_outside_of_a_cluster_the_command_says_that_it_is_not_in_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    done = CliRunner().invoke(app, ["security", "kubernetes", str(tmp_path), "--in-cluster"])

    assert done.exit_code == 2
    assert "not in a pod" in done.output


def test_replicas_without_a_number_are_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["security", "kubernetes", str(tmp_path), "--replicas", "admission"])

    assert done.exit_code == 2
    assert "ROLE=NUMBER" in done.output


def test_services_whose_certificates_were_renewed_are_restarted_and_no_others(tmp_path: Path) -> None:
    before = made(tmp_path / "first")
    continued(tmp_path / "second", before)
    keys.complete(tmp_path / "second", "bailiff", {"admission": 2}, POLICY, NOW + DAY)
    same = [*keys.secrets(tmp_path / "second", "bailiff", "bailiff")]
    assert keys.renewed(before, same, "bailiff") == {}

    keys.complete(tmp_path / "second", "bailiff", {"admission": 2}, POLICY, NOW + 200 * DAY)
    later = [*keys.secrets(tmp_path / "second", "bailiff", "bailiff")]
    assert keys.renewed(before, later, "bailiff").keys() == {f"bailiff-{role}" for role in keys.CERTIFIED}
    assert keys.renewed({}, later, "bailiff") == {}, "what is new at the first installation needs no restart"
