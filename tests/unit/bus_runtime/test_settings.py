"""Settings come from defaults, a file and the environment, and each error is one sentence."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from bailiff_bus.kafka_settings import KafkaSettings, secret_of
from bailiff_service.settings import PoolDeclaration, ServiceSettings, SettingsError, load_settings, read_pools


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BAILIFF_SETTINGS", raising=False)


def file(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def faults() -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load_settings(ServiceSettings)
    return caught.value.sentences


def test_a_service_starts_without_any_setting() -> None:
    settings = load_settings(ServiceSettings)
    assert settings.kafka == KafkaSettings()
    assert settings.kafka.bootstrap == "127.0.0.1:9092"
    assert (settings.http_host, settings.http_port) == ("127.0.0.1", 0)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("s.toml", 'log_level = "debug"\ninstance = "file"\n[kafka]\nbootstrap = "kafka:9092"\nusername = "u"\n'),
        ("s.yaml", "log_level: debug\ninstance: file\nkafka:\n  bootstrap: kafka:9092\n  username: u\n"),
    ],
)
def test_arguments_override_the_environment_and_that_overrides_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    monkeypatch.setenv("BAILIFF_SETTINGS", str(file(tmp_path, name, text)))
    monkeypatch.setenv("BAILIFF_KAFKA__SECURITY_PROTOCOL", "SASL_PLAINTEXT")
    monkeypatch.setenv("BAILIFF_KAFKA__SASL_MECHANISM", "PLAIN")
    monkeypatch.setenv("BAILIFF_KAFKA__PASSWORD", "hunter2")
    monkeypatch.setenv("BAILIFF_INSTANCE", "environment")
    monkeypatch.setenv("BAILIFF_HTTP_PORT", "8080")
    settings = load_settings(ServiceSettings, http_port=9090)
    assert settings.log_level == "debug"
    assert settings.instance == "environment"
    assert settings.http_port == 9090
    assert (settings.kafka.bootstrap, settings.kafka.username) == ("kafka:9092", "u")
    assert settings.kafka.password is not None
    assert settings.kafka.password.get_secret_value() == "hunter2"
    assert "hunter2" not in repr(settings)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("HTTP_PORT", "eighty", 'http_port (BAILIFF_HTTP_PORT): expected a whole number, found "eighty"'),
        ("HTTP_PORT", "70000", 'http_port (BAILIFF_HTTP_PORT): expected a whole number ≤ 65535, found "70000"'),
        ("LOG_FORMAT", "xml", "log_format (BAILIFF_LOG_FORMAT): expected 'json' or 'console', found \"xml\""),
        ("KAFKA__PORT", "1", 'kafka.port (BAILIFF_KAFKA__PORT): expected no such field, found "1"'),
        ("KAFKA__SECURITY_PROTOCOL", "SASL_SSL", "SASL_SSL needs sasl_mechanism, username and password"),
        ("KAFKA__PASSWORD", "hunter2", "password: unused, as security_protocol is PLAINTEXT"),
        ("KAFKA", "hunter2", "environment: error parsing value for field"),
    ],
)
def test_a_wrong_setting_is_named_as_in_the_file_and_as_in_the_environment(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, sentence: str
) -> None:
    monkeypatch.setenv(f"BAILIFF_{name}", value)
    (fault,) = faults()
    assert sentence in fault
    assert "hunter2" not in fault


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("s.toml", "a = ", "not TOML"),
        ("s.yaml", "a: [", "not YAML"),
        ("s.yaml", "log_levle: debug\n", "log_levle (BAILIFF_LOG_LEVLE): expected no such field"),
        ("s.yaml", "instance: a\ninstance: b\n", "s.yaml:2: instance occurs twice"),
        ("s.yaml", "kafka:\n  password: 12345678\n", "kafka.password (BAILIFF_KAFKA__PASSWORD): expected text"),
        ("s.yaml", "- a\n", "expected names and values"),
        ("s.ini", "", "expected a file that ends in .toml, .yaml or .yml, found s.ini"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, sentence: str) -> None:
    monkeypatch.setenv("BAILIFF_SETTINGS", str(file(tmp_path, name, text)))
    (fault,) = faults()
    assert sentence in fault
    assert "12345678" not in fault


def test_a_file_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAILIFF_SETTINGS", str(tmp_path / "s.toml"))
    (fault,) = faults()
    assert fault.endswith("s.toml: cannot be read: No such file or directory")


def test_an_empty_secret_is_none() -> None:
    assert [secret_of(setting) for setting in (None, SecretStr(""), SecretStr("hunter2"))] == [None, None, "hunter2"]


def test_an_empty_file_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAILIFF_SETTINGS", str(file(tmp_path, "s.yaml", "")))
    assert load_settings(ServiceSettings).log_level == "info"


POOLS = """\
pools:
  - name: a100
    partition: 0
    description: the old machines
  - name: h100
    partition: 1
"""


def test_pools_are_declared_in_a_file(tmp_path: Path) -> None:
    assert read_pools(file(tmp_path, "pools.yaml", POOLS)) == (
        PoolDeclaration(name="a100", partition=0, description="the old machines"),
        PoolDeclaration(name="h100", partition=1),
    )


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("partition: 1", "partition: -1", "pools.yaml:6: pools.1.partition: expected a whole number ≥ 0, found -1"),
        ("partition: 1", "partition: 0", "pools.yaml:6: pools.1.partition: 0 is already used by pool a100"),
        ("name: h100", "name: a100", "pools.yaml:5: pools.1.name: a100 is already used by pool a100"),
        ("name: h100", "name: H 100", "pools.yaml:5: pools.1.name: expected a name of at most 63"),
        ("partition: 1", "size: 1", "pools.yaml:5: pools.1.partition: expected a value, found nothing"),
        ("    partition: 1", "", "pools.yaml:5: pools.1.partition: expected a value, found nothing"),
        ("pools:", "pool:", "pools.yaml:1: pools: expected a value, found nothing"),
        ("partition: 1", "name: x", "pools.yaml:6: name occurs twice"),
        ("    description", "   description", "pools.yaml:4: not YAML"),
        (POOLS, "", "pools.yaml:1: data: expected an object, found null"),
        (POOLS, "pools: []", "pools.yaml:1: pools: expected at least 1 entry, found a list of 0"),
        (POOLS, "!!python/name:os.system", "not YAML"),
        (POOLS, "a: 2027-13-45", "unreadable YAML"),
    ],
)
def test_a_wrong_declaration_is_named_with_its_line(tmp_path: Path, before: str, after: str, sentence: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_pools(file(tmp_path, "pools.yaml", POOLS.replace(before, after)))
    assert sentence in str(caught.value)
