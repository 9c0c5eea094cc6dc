"""The metrics of all services, and the alert rules that use them."""

from pathlib import Path
from typing import Any, get_args

import yaml

from bailiff_core.records import AUDIT_TYPES
from bailiff_rollup.eviction_times import JobStage, TaskStage
from bailiff_service import pool_metrics
from bailiff_service.metrics import METRICS, Metric

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "prometheus"
GROUPS: list[dict[str, Any]] = yaml.safe_load((FOLDER / "rules.yml").read_text())["groups"]
ALERTS = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
SERIES: dict[str, Metric] = {metric.name + suffix: metric for metric in METRICS for suffix in SUFFIXES[metric.kind]}
OF_PROMETHEUS = {"job", "instance", "le"}
KNOWN_VALUES = {
    "stage": {*pool_metrics.STAGES, *get_args(TaskStage), *get_args(JobStage)},
    "state": {*pool_metrics.NODE_STATES, *pool_metrics.DEVICE_STATES},
    "type": {kind.NAME for kind in AUDIT_TYPES.values()},
}
