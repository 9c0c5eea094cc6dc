"""Grafana's dashboards ask for metrics that the services have, with labels and values that they have; so do the alert rules."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kits.log_builder import Story, policy
from tests.kits.metric_names import ALERTS, KNOWN_VALUES, OF_PROMETHEUS, SERIES, SUFFIXES

from bailiff_rollup.aggregates import Aggregates
from bailiff_rollup.exporter import RollupCollector
from bailiff_service.metrics import ROLLUP_METRICS, Metrics

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "grafana"
DASHBOARDS: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text()) for path in (FOLDER / "dashboards").glob("*.json")
}
NAMED = re.compile(r"\b(bailiff_\w+)(?:\{([^}]*)\})?")
JOBS = {f"bailiff-{name}" for name in ("admission", "victim-selection", "eviction-executor", "node-agent", "auditor", "rollup")}
ROLLUP_VALUES = {
    "action": {"preempt", "reclaim", "consolidate", "evict", "migrate"},
    "window": {"1m", "1h", "1d"},
    "kind": {"used", "idle", "requested", "quota", "limit", "fair_share", "available"},
    "percent": {"95", "99"},
    "job": JOBS,
}


def queries() -> list[tuple[str, str]]:
    """(where, PromQL) of every panel, variable and rule."""
    found = []
    for name, board in DASHBOARDS.items():
        for panel in board["panels"]:
            found += [(f"{name}: {panel['title']}", target["expr"]) for target in panel.get("targets", ())]
        found += [(f"{name}: ${entry['name']}", entry["query"]) for entry in board["templating"]["list"]]
    return found + [(name, rule["expr"]) for name, rule in ALERTS.items()]


QUERIES = queries()


@pytest.mark.parametrize(("where", "query"), QUERIES, ids=[f"{at}-{where}" for at, (where, _) in enumerate(QUERIES)])
def test_a_query_names_what_the_services_export(where: str, query: str) -> None:
    named = NAMED.findall(query)
    assert named or "up{" in query, where
    labels = set(OF_PROMETHEUS)
    for series, selector in named:
        metric = SERIES[series]
        labels |= set(metric.labels)
        for label, value in re.findall(r'(\w+)(?:=~|!~|!=|=)"([^"]*)"', selector):
            assert label in {*metric.labels, *OF_PROMETHEUS}, (where, series, label)
            known = KNOWN_VALUES.get(label, set()) | ROLLUP_VALUES.get(label, set())
            if known and "$" not in value and value != "bailiff-.+":
                assert set(value.split("|")) <= known, (where, label, value)
    for group in re.findall(r"\b(?:by|on|group_left|group_right|without) \(([^)]*)\)", query):
        assert {label for label in group.split(", ") if label} <= labels, (where, group)


def test_what_legends_show_is_what_their_queries_keep() -> None:
    for board in DASHBOARDS.values():
        for panel in board["panels"]:
            for target in panel.get("targets", ()):
                shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
                kept = {label for group in re.findall(r"\bby \(([^)]*)\)", target["expr"]) for label in group.split(", ")}
                assert shown <= kept, (panel["title"], shown - kept)


def test_prometheus_understands_every_query(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian and Ubuntu: the package prometheus)")
    panels = [query for where, query in QUERIES if not query.startswith("label_values")]
    rules = [
        {"record": f"panel:{at}", "expr": query.replace("$__rate_interval", "1m").replace("$pool", ".*")}
        for at, query in enumerate(panels)
    ]
    file = tmp_path / "panels.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run([promtool, "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_panels_and_dashboards_have_distinct_ids() -> None:
    assert len({board["uid"] for board in DASHBOARDS.values()}) == len(DASHBOARDS) == 2
    for board in DASHBOARDS.values():
        ids = [panel["id"] for panel in board["panels"]]
        assert len(ids) == len(set(ids))
        for panel in board["panels"]:
            assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24


def test_grafana_finds_prometheus_under_the_name_that_the_dashboards_use() -> None:
    (source,) = yaml.safe_load((FOLDER / "provisioning" / "datasources" / "prometheus.yml").read_text())["datasources"]
    used = {panel["datasource"]["uid"] for board in DASHBOARDS.values() for panel in board["panels"] if "datasource" in panel}
    assert used == {source["uid"]}
    compose = yaml.safe_load((ROOT / "deploy" / "compose" / "grafana.yml").read_text())["services"]["grafana"]
    mounts = dict(volume.removesuffix(":ro").split(":") for volume in compose["volumes"])
    assert mounts["./deploy/grafana/provisioning"] == "/etc/grafana/provisioning"
    (provider,) = yaml.safe_load((FOLDER / "provisioning" / "dashboards" / "bailiff.yml").read_text())["providers"]
    assert mounts["./deploy/grafana/dashboards"] == provider["options"]["path"]


def test_the_roll_up_exports_what_is_declared_of_it() -> None:
    train = {"name": "train", "value": 50, "preemptible": True, "global_default": True, "start_slo": {"p95": "5s"}}
    story = Story(policy(priority_classes=[train], projects=[{"name": "lab", "quota": {"gpus": 8}, "limit": {"gpus": 9}}]))
    story.submit("job", gpus=5, project="lab")
    aggregates = Aggregates()
    for key in (
        *(("evictions", "preempt", "priority"), ("again", "1h"), ("withdrawn",), ("lost", "drain"), ("saved",), ("used", "")),
        *(("idle", ""), ("entitled", "lab"), ("available",), ("submitted", "train"), ("waiting", "train")),
        *(("late", "train", "95"), ("start", "train", "5"), ("start-ms", "train")),
        *(("preemptions", "preempt", "priority"), ("stage", "save", "train", "60"), ("node-stage", "save", "n1", "60")),
    ):
        aggregates.add(*key, amount=1_000_000)
    for name in ("gpu", "busy", "memory", "memory-used"):
        aggregates.telemetry.totals[name, "lab"] = 1_000_000
    metrics = Metrics()
    metrics.registry.register(RollupCollector(lambda: {"pool-a": (aggregates, story.state)}))
    families = {family.name: family for family in metrics.registry.collect()}
    for metric in ROLLUP_METRICS:
        samples = families[metric.name].samples
        assert samples, metric.name
        for sample in samples:
            assert set(sample.labels) - {"le"} == set(metric.labels), metric.name
            assert sample.name.removeprefix(metric.name) in SUFFIXES[metric.kind]
    kinds = {sample.labels["kind"] for sample in families["bailiff_project_gpus"].samples}
    assert kinds == ROLLUP_VALUES["kind"]
