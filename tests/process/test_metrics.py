"""Scraped metrics of the services, and that the alert rules query no others."""

import re
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.kits.system import System

from bailiff_service.metrics import ROLLUP_METRICS

pytestmark = pytest.mark.kafka

RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "rules.yml"
CONTROL = ("admission", "victim-selection", "eviction-executor")
SHOW = ("admission", "eviction-executor")


async def test_the_services_export_what_the_alert_rules_query(system: System) -> None:
    async with system.watch("pool-a") as watch:
        await watch.submit("leaving", f"trap : TERM; {watch.until_signalled()}", gpus=8)
        await watch.until_running("leaving")
        await watch.submit("urgent", watch.until_signalled(), gpus=4, kind="inference")
        await watch.until("the victim got TERM", lambda pool: pool.jobs["leaving"].tasks[0].term_sent)

        async def stage_exported() -> bool:
            return all([await system.metric(name, "bailiff_open_evictions", pool="pool-a", stage="term-sent") for name in SHOW])

        await watch.until_true("admission and executor export the stage", stage_exported)
        assert await system.metric("admission", "bailiff_open_evictions", pool="pool-a") == 1
        assert await system.metric("admission", "bailiff_nodes", pool="pool-a", state="ready") == 1
        assert await system.metric("admission", "bailiff_devices", pool="pool-a", state="healthy") == 8
        assert await system.metric("admission", "bailiff_records_appended_total", pool="pool-a", type="PreemptionDecided") >= 1

        async def measured() -> bool:
            pages = [await system.get(name, "/metrics") for name in CONTROL]
            return all('bailiff_log_lag{pool="pool-a"}' in text for _, text in pages)

        await watch.until_true("every control service exports its lag", measured)
        found = set()
        for name in system.services:
            _, text = await system.get(name, "/metrics")
            assert "bailiff_ready 1.0" in text
            for family in text_string_to_metric_families(text):
                found |= {family.name, *(sample.name for sample in family.samples)}
                found |= {f"{family.name}_total"} if family.type == "counter" else set()
        groups = yaml.safe_load(RULES.read_text())["groups"]
        queried = {name for group in groups for rule in group["rules"] for name in re.findall(r"\bbailiff_\w+", rule["expr"])}
        of_rollup = {name for name in queried if name.startswith(tuple(metric.name for metric in ROLLUP_METRICS))}
        assert queried - of_rollup <= found  # the roll-up does not run here; tests/unit/rollup tests its metrics

        watch.let_finish("leaving")
        watch.let_finish("urgent")
        await watch.until_ended("urgent")
        await watch.until_ended("leaving")

        async def over() -> bool:
            return not any([await system.metric(name, "bailiff_open_evictions", pool="pool-a") for name in SHOW])

        await watch.until_true("no eviction is open", over)
