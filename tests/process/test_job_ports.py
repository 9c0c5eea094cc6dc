"""Sue opens her notebook in the browser: real Kafka, admission, agent, job and console; the test is her browser and its proxy.

Vic gets nowhere, the job gets nothing of the console's, and she learns what happened when her job is preempted.
"""

import asyncio
import sys
from pathlib import Path

import httpx
import pytest
import yaml
from tests.kits import port_job
from tests.kits.console import ConsoleProcess
from tests.kits.port_browser import PortBrowser, it_gets_what_it_needs_and_no_more, text_frame
from tests.kits.pty_program import PtyProgram
from tests.kits.signed_in import signed_in
from tests.kits.system import System

from bailiff_core.records.facts import AttachEnded, AttachGranted, AttachStarted
from bailiff_devstack.ports import free_port

pytestmark = [pytest.mark.kafka, pytest.mark.long]

JOB, AGENT = "notebook-1", "node-agent"


def console_of(system: System, folder: Path, port: int) -> ConsoleProcess:
    roles = folder / "roles.yaml"
    roles.write_text(yaml.safe_dump({"operators": {"users": ["sue"]}, "viewers": {"groups": ["staff"]}}))
    return ConsoleProcess(
        system.stack,
        BAILIFF_CONSOLE_SIGN_IN="header",
        BAILIFF_CONSOLE_URL="https://bailiff.example.org",
        BAILIFF_CONSOLE_PROXIES='["127.0.0.1"]',
        BAILIFF_CONSOLE_GROUPS_HEADER="x-forwarded-groups",
        BAILIFF_CONSOLE_ROLES=str(roles),
        BAILIFF_CONSOLE_JOBS_PORT=str(port),
        BAILIFF_CONSOLE_JOBS_URL="https://jobs.example.org",
    )


def env_of(system: System) -> dict[str, str]:
    return {**system.stack.kafka_environment("operator"), "BAILIFF_POOL": "pool-a", "BAILIFF_ACTOR": "sue"}


async def test_a_notebook_is_reached_through_the_console_by_its_people_only(battered: System, tmp_path: Path) -> None:
    port, jobs = free_port(), free_port()
    console = console_of(battered, tmp_path, jobs)
    console.start()
    console.wait_ready()
    way = f"/ports/pool-a/{JOB}/0/{port}"
    run = f"exec {sys.executable} {port_job.__file__}"
    async with battered.watch("pool-a") as watch, signed_in(console, "sue", "") as sue, signed_in(console, "vic", "staff") as vic:
        await watch.submit(JOB, run, gpus=1, ports=(port,), env={"BAILIFF_PORT": str(port)}, grace_s=1)
        await watch.until_running(JOB)

        refused = await vic.http.get(way)
        assert refused.status_code == 403
        assert "vic may not attach" in refused.json()["detail"]
        assert (await sue.http.get(f"/ports/pool-a/{JOB}/0/22")).status_code == 404
        assert not watch.facts(AttachGranted, job=JOB)

        answer = await sue.http.get(way)
        assert answer.status_code == 303, answer.text
        browser = PortBrowser(f"http://127.0.0.1:{jobs}", answer.headers["location"])
        assert browser.host.endswith(".jobs.example.org")
        assert (await browser.get()).status_code == 401
        entered = await browser.enter()
        assert (entered.status_code, entered.headers["location"]) == (303, "/")
        cookie = entered.headers["set-cookie"]
        assert cookie.startswith("__Host-bailiff-port=")
        assert "HttpOnly" in cookie
        assert "Secure" in cookie
        kept = browser.cookie
        assert (await browser.enter()).status_code == 403  # the link works once
        browser.cookie = kept

        async def served() -> bool:
            return (await browser.get()).status_code == 200

        await watch.until_true("the job listens", served)
        await it_gets_what_it_needs_and_no_more(browser, port)

        line, reader, writer = await browser.websocket()
        assert b" 101 " in line
        writer.write(text_frame("print(1)"))
        assert await asyncio.wait_for(reader.readexactly(2), 60) == b"\x81\x88"
        await watch.record(AttachStarted, job=JOB)
        grants = [(entry.record.actor, entry.record.data) for entry in watch.entries]
        ports = [(actor, data.port) for actor, data in grants if isinstance(data, AttachGranted)]
        assert ports == [("sue", port)]  # one for all of it

        local = free_port()
        forward = PtyProgram(("port-forward", JOB, "--local-port", str(local)), env_of(battered), rows=30, columns=100)
        forward.until(f"127.0.0.1:{local} leads to port {port}")
        async with httpx.AsyncClient(timeout=60) as http:
            assert (await http.get(f"http://127.0.0.1:{local}/")).json()["line"] == "GET / HTTP/1.1"

        battered.kill_and_restart(AGENT)
        assert await asyncio.wait_for(reader.read(), 60) is not None  # it has ended
        await watch.until_true("it is reached again after the agent's restart", served)
        async with httpx.AsyncClient(timeout=60) as http:
            assert (await http.get(f"http://127.0.0.1:{local}/")).status_code == 200
        await watch.record(AttachEnded, job=JOB, reason="agent-restarted")

        writer.close()
        _, reader, writer = await browser.websocket()
        await watch.submit("serve-all", gpus=8, kind="inference")
        await watch.until_running("serve-all")
        await asyncio.wait_for(reader.read(), 60)
        writer.close()
        gone = await browser.get("/lab", accept="text/html")
        assert gone.status_code == 503
        assert f"{JOB} is pending. This page continues when it runs." in gone.text
        assert 'http-equiv="refresh"' in gone.text
        await watch.cancel("serve-all")
        await watch.until_running(JOB)
        await watch.until_true("it is reached again after the preemption", served)

        await sue.http.post("/auth/sign-out", json={}, headers={"x-csrf-token": sue.token})
        assert (await browser.get()).status_code == 401
        await browser.close()
        await watch.cancel(JOB)
        await watch.until_ended(JOB, "cancelled")
        forward.until(f"{JOB} cancelled")
        assert forward.ended() == 0, forward.screen
        forward.close()
    console.kill()
