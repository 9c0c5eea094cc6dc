"""The alert rules say what they mean, about metrics that there are, and docs/reference/alerts.md explains each."""

import os
import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml
from tests.kits.metric_names import ALERTS, FOLDER, KNOWN_VALUES, OF_PROMETHEUS, ROOT, SERIES

TESTS: list[dict[str, Any]] = yaml.safe_load((FOLDER / "tests.yml").read_text())["tests"]
SELECTOR = re.compile(r"\b(bailiff_\w+)(?:\{([^}]*)\})?")


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed (Debian and Ubuntu: the package prometheus)")
    return found


@pytest.mark.parametrize("arguments", [("check", "rules", "rules.yml"), ("test", "rules", "tests.yml")], ids=" ".join)
@pytest.mark.slow
def test_promtool_agrees(promtool: str, arguments: tuple[str, ...]) -> None:
    env = {**os.environ, "GOGC": "800"}  # its garbage collector would take half of the time
    done = subprocess.run([promtool, *arguments], cwd=FOLDER, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_is_seen_to_fire_and_to_stay_quiet(alert: str) -> None:
    checks = [check for test in TESTS for check in test["alert_rule_test"] if check["alertname"] == alert]
    assert any(check.get("exp_alerts") for check in checks)
    assert any(not check.get("exp_alerts") for check in checks)


@pytest.mark.parametrize("alert", ALERTS)
def test_every_metric_of_an_alert_is_one_of_the_services_with_these_labels(alert: str) -> None:
    expression = ALERTS[alert]["expr"]
    named = SELECTOR.findall(expression)
    assert named or "up{" in expression
    for series, selector in named:
        metric = SERIES[series]
        for label, values in re.findall(r'(\w+)(?:=~?|!=)"([^"]*)"', selector):
            assert label in {*metric.labels, *OF_PROMETHEUS}, (series, label)
            if label in KNOWN_VALUES:
                assert set(values.split("|")) <= KNOWN_VALUES[label], (series, label)
    for labels in re.findall(r"\bby \(([^)]*)\)", expression):
        assert set(labels.split(", ")) <= {label for series, _ in named for label in SERIES[series].labels} | OF_PROMETHEUS


def test_the_reference_explains_every_alert() -> None:
    page = (ROOT / "docs/reference/alerts.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `(Bailiff\w+)` \| (\w+) \|", page, re.MULTILINE))
    assert listed == {name: rule["labels"]["severity"] for name, rule in ALERTS.items()}


def test_every_series_of_the_tests_is_one_of_the_services() -> None:
    series = {item["series"].partition("{")[0] for test in TESTS for item in test["input_series"]}
    assert series - {"up"} <= SERIES.keys()


def test_prometheus_scrapes_every_service_by_the_name_that_the_rules_use() -> None:
    scraped = {entry["job_name"] for entry in yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"]}
    asked = {name for rule in ALERTS.values() for name in re.findall(r'job!?="(bailiff-[a-z-]+)"', rule["expr"])}
    assert asked <= scraped
    services = (
        "admission",
        "victim-selection",
        "eviction-executor",
        "node-agent",
        "auditor",
        "api",
        "rollup",
        "console",
        "witness",
    )
    assert scraped == {f"bailiff-{name}" for name in services}
