"""Requests from the page on a real Kafka with the real services: submit, preempt, and a class for some users only."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kits.console import ConsoleProcess
from tests.kits.signed_in import GROUPS, PATIENCE_S, POLL_S, Principal, signed_in
from tests.kits.system import POLICY, System

from bailiff.render.serializers.policy import policy_in_force
from bailiff_core.model.policy import Policy

pytestmark = pytest.mark.kafka

EIGHT = {"gpus": 8}
PROJECTS = [{"name": "vision", "quota": EIGHT}, {"name": "speech", "quota": EIGHT}]
RULES = Policy.model_validate({**POLICY.model_dump(mode="json"), "projects": PROJECTS}, strict=False)
JOB = "name: {name}\nproject: vision\nclass: {kind}\ngpus: 8\ngrace: 20s\nsim-run-for: 1h\n"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """One pool of one machine with eight GPUs."""
    with System(tmp_path_factory.mktemp("console-acting"), policy=RULES, pools={"pool-a": 1}) as made:
        yield made


def console_of(system: System, folder: Path) -> ConsoleProcess:
    roles = folder / "roles.yaml"
    header_set = {
        "submitters": {"vision": {"groups": ["vision-team"]}},
        "operators": {"users": ["op"]},
        "viewers": {"groups": ["staff"]},
    }
    roles.write_text(yaml.safe_dump(header_set))
    return ConsoleProcess(
        system.stack,
        BAILIFF_CONSOLE_SIGN_IN="header",
        BAILIFF_CONSOLE_URL="https://bailiff.example.org",
        BAILIFF_CONSOLE_PROXIES='["127.0.0.1"]',
        BAILIFF_CONSOLE_GROUPS_HEADER=GROUPS,
        BAILIFF_CONSOLE_ROLES=str(roles),
    )


async def test_requests_from_the_page_are_limited_by_permissions(system: System, tmp_path: Path) -> None:
    console = console_of(system, tmp_path)
    console.start()
    console.wait_ready()
    async with (
        system.watch("pool-a") as watch,
        signed_in(console, "sue", "vision-team") as sue,
        signed_in(console, "vic", "staff") as vic,
        signed_in(console, "op", "") as op,
    ):
        # submitted, accepted, running, and recorded with her name
        reply = await sue.accepted(kind="submit", yaml=JOB.format(name="train-1", kind="train"))
        await watch.until("train-1 runs", lambda _: watch.running("train-1"))
        assert watch.job("train-1").user == "sue"
        assert watch.entries[reply["seq"]].record.actor == "sue"
        # a read-only user gets 403, and nothing is published
        refused = await vic.ask("requests", kind="pause", job="train-1")
        assert refused.status_code == 403
        assert "vic may not pause a job of project vision" in refused.json()["detail"]
        assert (await sue.ask("requests", kind="drain", node="pool-a-0")).status_code == 403
        # nor may she open a shell in it
        refused = await vic.ask("jobs/train-1/shell", task=0)
        assert (refused.status_code, "vic may not attach to" in refused.json()["detail"]) == (403, True), refused.text
        # the preview matches the outcome
        serve = JOB.format(name="serve-1", kind="inference")
        planned = (await vic.ask("plan", yaml=serve)).json()
        assert planned["answer"]["outcome"] == "preempts"
        assert [each["job"] for each in planned["answer"]["decision"]["victims"]] == ["train-1"]
        await sue.accepted(kind="submit", yaml=serve)
        await watch.until("serve-1 has preempted it", lambda _: watch.running("serve-1"))
        paused = (await sue.ask("preview", kind="pause", job="serve-1")).json()
        assert ["train-1", "starts"] in [[row["job"], row["effect"]] for row in paused["affected"]]
        await sue.accepted(kind="pause", job="serve-1", reason="lunch")
        await watch.until("the victim runs again", lambda _: watch.running("train-1"))
        assert watch.job("serve-1").phase == "paused"
        assert await _rejected(sue) == ("already-paused", "serve-1 is paused already")
        # what-if with a policy that preempts nothing, computed in a separate process from Kafka
        await _what_if(vic, watch.state)
        await op.accepted(kind="drain", node="pool-a-0", mode="quick", reason="a fan")
        await watch.until("it is empty", lambda pool: not pool.nodes[0].allocated.slots)
        await op.accepted(kind="undrain", node="pool-a-0")


async def _rejected(principal: Principal) -> tuple[str, str]:
    reply = (await principal.ask("requests", kind="pause", job="serve-1")).json()
    assert reply["accepted"] is False
    return reply["code"], reply["reason"].partition(",")[0]


async def _what_if(principal: Principal, pool: Any) -> None:
    document = policy_in_force(pool)["policy"]
    document["preemption"]["actions"] = ["allocate"]
    begun = await principal.ask("what-if", yaml=yaml.safe_dump(document))
    assert begun.status_code == 202, begun.text
    address = f"/api/what-ifs/{begun.json()['id']}"
    async with asyncio.timeout(PATIENCE_S):
        reply = (await principal.http.get(address)).json()
        while reply["state"] in ("reading", "simulating"):
            await asyncio.sleep(POLL_S)
            reply = (await principal.http.get(address)).json()
    assert reply["state"] == "done", reply
    assert reply["result"]["pool"] == "pool-a"
    assert {run["label"] for run in reply["result"]["runs"]} == {"recorded", "simulated", "other"}
    assert "<svg" in (await principal.http.get(reply["report"])).text
