"""Whose job it is: ada's key submits one; others try to take it from her, on a real Kafka with the real services and the console.

Each attempt is on record as denied, with the rule that denies it; an admin of the project above and an operator may.
"""

from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest
from tests.kits.console import ConsoleProcess
from tests.kits.system import PATIENCE_S, POLICY, System

from bailiff.client.client import Client, Outcome
from bailiff_bus.kafka import KafkaBus
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.policy import Policy
from bailiff_core.records import job_requests
from bailiff_core.records.facts import InputRejected, JobPaused, JobSubmitted
from bailiff_core.records.node_requests import DrainNode
from bailiff_core.records.request import RequestBody
from bailiff_log.keys import key_id, make_private_key
from bailiff_log.request_verifier import RequestVerifier
from bailiff_log.signed_requests import signing_key

pytestmark = pytest.mark.kafka

JOB = "train-1"
ATTEMPTS: dict[str, RequestBody] = {
    "cancel": job_requests.CancelJob(job=JOB),
    "pause": job_requests.PauseJob(job=JOB),
    "resume": job_requests.ResumeJob(job=JOB),
    "evict": job_requests.EvictJob(job=JOB),
    "migrate": job_requests.MigrateJob(job=JOB),
    "scale": job_requests.ScaleJob(job=JOB, tasks=2),
    "set_priority_class": job_requests.SetPriorityClass(job=JOB, priority_class="build"),
}
PEOPLE = ("ada", "bob", "rita", "op", "console")
HEADER = "x-forwarded-user"


class People:
    """The keys of these people, and the policy that names them."""

    def __init__(self, folder: Path) -> None:
        self.files = {name: folder / f"{name}.key" for name in PEOPLE}
        self.keys = {name: make_private_key(file) for name, file in self.files.items()}
        projects = [{"name": "research", "admins": ["rita"]}, {"name": "vision", "parent": "research"}]
        identity = {"keys": {key_id(key): name for name, key in self.keys.items()}, "operators": ["op"], "sign_ins": ["console"]}
        data = {**POLICY.model_dump(mode="json"), "projects": projects, "identity": identity}
        self.policy = Policy.model_validate(data, strict=False)


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> People:
    return People(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory, people: People) -> Iterator[System]:
    with System(tmp_path_factory.mktemp("ownership"), policy=people.policy, pools={"pool-a": 1}) as made:
        yield made


async def test_a_job_is_its_owners(system: System, people: People, tmp_path: Path) -> None:
    console = ConsoleProcess(
        system.stack,
        BAILIFF_CONSOLE_SIGN_IN="header",
        BAILIFF_CONSOLE_URL="https://bailiff.example.org",
        BAILIFF_CONSOLE_PROXIES='["127.0.0.1"]',
        BAILIFF_KEY=str(people.files["console"]),
        BAILIFF_ACTOR="console",
        BAILIFF_CONSOLE_ROLES=str(_everybody_submits(tmp_path)),
    )
    console.start()
    async with system.watch("pool-a") as watch, AsyncExitStack() as closing:
        bus = KafkaBus(system.stack.kafka.settings("operator"))
        closing.push_async_callback(bus.close)
        clients = {name: Client(bus, source=f"{name}-laptop", private_key=people.keys.get(name)) for name in (*people.keys, "")}
        for client in clients.values():
            closing.push_async_callback(_closed, client)

        async def ask(name: str, body: RequestBody, actor: str = "") -> Outcome:
            client = clients[name]
            outcome = await client.outcome_of(await client.request("pool-a", body, actor=actor), PATIENCE_S)
            assert outcome is not None
            return outcome

        demand = JobDemand(job=JOB, tasks=(TaskGroup(gpu_milli=1000),), project="vision")
        spec = JobSpec(command="sleep 600", env={"SECRET": "for the job alone"}, runtime="simulated")
        assert (await ask("ada", job_requests.SubmitJob(demand=demand, spec=spec))).accepted
        await watch.until_running(JOB)

        # bob's key, an unsigned client, one that claims to be ada, the console in carol's name
        for name, actor, rule in (
            ("bob", "", "permissions.{}"),
            ("", "dora", "verified-owner"),
            ("", "ada", "key-holder-name"),
            ("console", "console/carol", "permissions.{}"),
        ):
            for action, body in ATTEMPTS.items():
                outcome = await ask(name, body, actor)
                assert (outcome.accepted, outcome.code) == (False, "not-permitted")
                await watch.until("it is known", lambda _, seq=outcome.seq: len(watch.entries) > seq)
                record = watch.entries[outcome.seq].record
                assert isinstance(record.data, InputRejected)
                assert (record.data.rule, record.actor) == (rule.format(action), actor or name)
                assert signing_key(record) == (key_id(people.keys[name]) if name else "")
        assert not (await ask("ada", DrainNode(node="pool-a-0"))).accepted
        assert watch.running(JOB)

        console.wait_ready()
        await _carol_may_not(console)

        assert (await ask("rita", job_requests.PauseJob(job=JOB, reason="maintenance"))).accepted
        assert (await ask("op", job_requests.ResumeJob(job=JOB))).accepted
        await watch.until_running(JOB)
        await _ada_pauses_in_the_console(console)
        paused = await watch.record(JobPaused, reason="in the console")
        assert paused.request.vouched_by is not None
        assert (paused.request.vouched_by.issuer, paused.request.vouched_by.subject) == ("header", "ada")
        assert (await ask("ada", job_requests.CancelJob(job=JOB))).accepted

        await watch.until_ended(JOB, "cancelled")
        verifier = RequestVerifier("pool-a")
        for entry in watch.entries:
            verifier.take(entry.record)
        checked = verifier.result()
        assert (checked["signed"], checked["unsigned"], checked["faults"]) == (20, 14, [])
        submitted = next(each.record for each in watch.entries if isinstance(each.record.data, JobSubmitted))
        assert "for the job alone" not in submitted.request


async def _closed(client: Client) -> None:
    for projection in client._projections.values():
        await projection.close()


def _everybody_submits(folder: Path) -> Path:
    """In the console everybody may act on all jobs: what remains are the policy's permissions."""
    roles = folder / "roles.yaml"
    roles.write_text('{"submitters": {"*": {"users": ["ada", "carol"]}}}')
    return roles


async def _signed_in(http: httpx.AsyncClient) -> None:
    answer = await http.get("/auth/sign-in")
    http.headers["cookie"] = answer.headers["set-cookie"].partition(";")[0]
    http.headers["x-csrf-token"] = (await http.get("/api/me")).json()["csrf"]


def _browser(console: ConsoleProcess, name: str) -> httpx.AsyncClient:
    headers = {HEADER: name, "host": "bailiff.example.org", "x-forwarded-for": "203.0.113.1"}
    return httpx.AsyncClient(base_url=console.address, headers=headers, timeout=PATIENCE_S)


async def _carol_may_not(console: ConsoleProcess) -> None:
    """The console publishes nothing that admission would deny, shows no output, and says why."""
    async with _browser(console, "carol") as carol:
        await _signed_in(carol)
        permissions = (await carol.get(f"/api/pools/pool-a/jobs/{JOB}/permissions")).json()
        assert all(reason and "rule permissions." in reason for reason in permissions.values()), permissions
        refused = await carol.post("/api/pools/pool-a/requests", json={"kind": "cancel", "job": JOB})
        assert refused.status_code == 403
        assert "console/carol may not cancel train-1, a job of ada" in refused.json()["detail"]
        assert (await carol.get(f"/api/pools/pool-a/logs/{JOB}")).status_code == 403


async def _ada_pauses_in_the_console(console: ConsoleProcess) -> None:
    """The policy trusts the console's sign-in: there she is the ada whose key submitted."""
    async with _browser(console, "ada") as ada:
        await _signed_in(ada)
        permissions = (await ada.get(f"/api/pools/pool-a/jobs/{JOB}/permissions")).json()
        assert not any(permissions.values()), permissions
        body = {"kind": "pause", "job": JOB, "reason": "in the console"}
        answer = (await ada.post("/api/pools/pool-a/requests", json=body)).json()
        assert answer["accepted"], answer
