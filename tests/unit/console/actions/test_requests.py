"""Requests to the console over HTTP: published with the actor's name, answered, or refused."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kits.http import TOKEN
from tests.unit.client.kit import request_id
from tests.unit.console.actions.kit import RequestService, published, running_console, story
from tests.unit.console.auth.kit import roles_file

from bailiff_core.records import facts
from bailiff_core.records.job_requests import PauseJob, SubmitJob
from bailiff_core.records.node_requests import DrainNode
from bailiff_core.records.pool_requests import ApplyPolicy

JOB = "name: new\nclass: train\nproject: vision\ngpus: 1\ncommand: [python, train.py]\nenv: {A: b}\n"


@pytest.mark.slow
async def test_each_action_is_published_with_the_actor_and_answered(tmp_path: Path) -> None:
    log_writer = story()
    log_writer.cycle(facts.NodeDrained(request=request_id("d"), node="gpu-02"))
    async with running_console(tmp_path, log_writer) as request_service:
        for request in (
            {"kind": "set-priority-class", "job": "train-9", "priority_class": "inference"},
            {"kind": "scale", "job": "train-9", "tasks": 2},
            {"kind": "pause", "job": "train-9", "reason": "bad data"},
            {"kind": "resume", "job": "train-9"},
            {"kind": "undrain", "node": "gpu-02"},
            {"kind": "evict", "job": "train-7"},
            {"kind": "cancel", "job": "train-8"},
            {"kind": "drain", "node": "gpu-01", "mode": "graceful", "deadline": "30m", "reason": "a fan"},
        ):
            answer = await request_service.posted("requests", **request)
            assert answer["accepted"] is True, (request, answer)
            assert answer["job"] == request.get("job", "")
            record = log_writer.records[answer["seq"]]
            assert record.data.request.id == answer["id"]
        rejected = await request_service.posted("requests", kind="migrate", job="train-7", node="gpu-02")
        assert (rejected["accepted"], rejected["code"]) == (False, "not-running")
        sent = published(request_service)
        assert len(sent) == 9
        assert {each.actor for each in sent} == {"ada"}
        assert sent[2].body == PauseJob(job="train-9", reason="bad data")
        assert sent[-2].body == DrainNode(node="gpu-01", deadline=30 * 60_000_000, reason="a fan")


@pytest.mark.slow
async def test_a_job_is_submitted_as_written(tmp_path: Path) -> None:
    async with running_console(tmp_path) as request_service:
        answer = await request_service.posted("requests", kind="submit", yaml=JOB)
        assert (answer["accepted"], answer["job"]) == (True, "new")
        (sent,) = published(request_service)
        assert isinstance(sent.body, SubmitJob)
        assert (sent.body.spec.command, sent.body.spec.env) == (("python", "train.py"), {"A": "b"})
        again = await request_service.posted("requests", kind="submit", yaml=JOB)
        assert (again["accepted"], again["code"]) == (False, "job-exists")
        assert "choose another name" in again["reason"]
        problem = await request_service.refused(400, "requests", kind="submit", yaml="gpus: many\ncommand: x\n")
        assert problem["errors"][0] | {"line": 1, "location": "gpus"} == problem["errors"][0]
        assert len(published(request_service)) == 2


@pytest.mark.slow
async def test_a_repeated_request_id_is_idempotent(tmp_path: Path) -> None:
    async with running_console(tmp_path) as request_service:
        request = {"kind": "pause", "job": "train-9", "id": "a-1_B"}
        first = await request_service.posted("requests", **request)
        again = await request_service.posted("requests", **request)
        assert first == again
        assert len(published(request_service)) == 1
        await request_service.refused(409, "requests", **{**request, "reason": "another"})
        for wrong in ("a b", "x" * 65, 7, None, "é"):
            await request_service.refused(400, "requests", **{**request, "id": wrong})


@pytest.mark.slow
async def test_without_admission_the_response_has_no_outcome_yet(tmp_path: Path) -> None:
    async with running_console(tmp_path) as request_service:
        request_service.bus.mute = True
        request_service.console.service.request_service._outcome_timeout = 0.05
        answer = await request_service.posted("requests", kind="pause", job="train-9")
        assert (answer["accepted"], answer["seq"]) == (None, None)
        assert len(published(request_service)) == 1


# --- roles


async def sign_in_as(request_service: RequestService, name: str) -> None:
    """Signs the same browser in as another user."""
    auth = request_service.console.service.auth
    auth.settings = auth.settings.model_copy(update={"console_user": name})
    await request_service.console.http.get("/auth/sign-in", params={"token": TOKEN})
    me = (await request_service.console.http.get("/api/me")).json()
    assert me["name"] == name
    request_service.headers = {"x-csrf-token": me["csrf"]}


OF_JOBS: dict[str, dict[str, Any]] = {
    "cancel": {},
    "pause": {},
    "resume": {},
    "migrate": {},
    "evict": {},
    "scale": {"tasks": 2},
    "set-priority-class": {"priority_class": "train"},
}


@pytest.mark.slow
async def test_each_action_for_each_role(tmp_path: Path) -> None:
    roles = roles_file(
        tmp_path,
        operators={"users": ["op"]},
        submitters={"vision": {"users": ["sue"]}, "research": {"users": ["rik"]}, "*": {"users": ["al"]}},
    )
    may = {"vic": set(), "sue": {"vision"}, "rik": {"vision"}, "al": {"vision", "speech"}, "op": {"vision", "speech", "nodes"}}
    async with running_console(tmp_path, console_roles=roles) as request_service:
        for name, allowed in may.items():
            await sign_in_as(request_service, name)
            for kind, fields in OF_JOBS.items():
                for job, project in (("train-7", "vision"), ("train-8", "speech")):
                    before = len(published(request_service))
                    found = await request_service.post("preview", {"kind": kind, "job": job, **fields})
                    barred = f"{name} may not {kind}" in found.text
                    assert (found.status_code, barred) == (200, project not in allowed), (name, kind, job)
                    if project not in allowed:
                        problem = await request_service.refused(403, "requests", kind=kind, job=job, **fields)
                        assert f"{name} may not {kind} a job of project {project}" in problem["detail"]
                        assert len(published(request_service)) == before
            for kind in ("drain", "undrain"):
                if "nodes" not in allowed:
                    await request_service.refused(403, "requests", kind=kind, node="gpu-01")
                    await request_service.refused(403, "requests", kind=kind, node="nowhere")
            for project in ("vision", "speech"):
                text = JOB.replace("project: vision", f"project: {project}").replace("new", f"{name}-{project}")
                answer = await request_service.post("requests", {"kind": "submit", "yaml": text})
                assert answer.status_code == (200 if project in allowed else 403), (name, project, answer.text)
            # every role may read, plan and run what-ifs
            assert (await request_service.posted("plan", yaml=JOB))["answer"]
            assert (await request_service.console.http.get("/api/pools/pool-a/policy")).status_code == 200


@pytest.mark.slow
async def test_a_submitter_of_one_project_need_not_name_it(tmp_path: Path) -> None:
    roles = roles_file(tmp_path, submitters={"vision": {"users": ["sue"]}})
    async with running_console(tmp_path, console_user="sue", console_roles=roles) as request_service:
        answer = await request_service.posted("requests", kind="submit", yaml=JOB.replace("project: vision\n", ""))
        assert answer["accepted"] is True
        assert request_service.log_writer.state.jobs["new"].project == "vision"


@pytest.mark.slow
async def test_a_viewer_cannot_tell_whether_a_job_exists(tmp_path: Path) -> None:
    roles = roles_file(tmp_path, operators={"users": ["op"]})
    async with running_console(tmp_path, console_user="vic", console_roles=roles) as request_service:
        await request_service.refused(403, "requests", kind="pause", job="nobody")
        await sign_in_as(request_service, "op")
        await request_service.refused(404, "requests", kind="pause", job="nobody")


@pytest.mark.slow
async def test_no_request_is_published_without_token_or_session(tmp_path: Path) -> None:
    async with running_console(tmp_path) as request_service:
        request_service.headers = {}
        for what in ("requests", "preview", "plan", "plan-policy", "what-if"):
            await request_service.refused(403, what, kind="pause", job="train-7")
        request_service.console.http.cookies.clear()
        for what in ("requests", "preview", "plan", "plan-policy", "what-if"):
            await request_service.refused(401, what, kind="pause", job="train-7")
        assert (await request_service.console.http.get("/api/pools")).status_code == 401
        assert published(request_service) == []


# --- reading


@pytest.mark.slow
async def test_the_policy_in_force_is_returned_as_yaml(tmp_path: Path) -> None:
    async with running_console(tmp_path) as request_service:
        found = (await request_service.console.http.get("/api/pools/pool-a/policy")).json()
        assert found["seq"] == request_service.log_writer.state.policy_revision
        planned = await request_service.posted("plan-policy", yaml=found["yaml"])
        assert (planned["errors"], planned["diff"]) == ([], [])


@pytest.mark.slow
async def test_an_unknown_pool_is_a_404(tmp_path: Path) -> None:
    async with running_console(tmp_path) as request_service:
        for what, body in (
            ("requests", {"kind": "pause", "job": "x"}),
            ("preview", {"kind": "pause", "job": "x"}),
            ("plan", {"yaml": JOB}),
        ):
            answer = await request_service.console.http.post(
                f"/api/pools/nowhere/{what}", json=body, headers=request_service.headers
            )
            assert answer.status_code == 404, answer.text


@pytest.mark.slow
async def test_a_policy_is_previewed_and_applied_by_an_operator_as_the_command_does_it(tmp_path: Path) -> None:
    async with running_console(tmp_path) as request_service:
        found = (await request_service.console.http.get("/api/pools/pool-a/policy")).json()
        text = found["yaml"].replace("  grace: 150s", "  grace: 151s")
        asked = {"kind": "policy", "yaml": text, "expected_revision": found["seq"]}
        previewed = await request_service.posted("preview", **asked)
        assert (previewed["errors"], len(previewed["sentences"])) == ([], 1)
        answer = await request_service.posted("requests", **asked, id="apply-1")
        assert answer["accepted"] is True, answer
        (sent,) = published(request_service)
        assert isinstance(sent.body, ApplyPolicy)
        assert (sent.actor, sent.body.expected_revision, sent.body.enforce) == ("ada", found["seq"], False)
        assert request_service.log_writer.state.rules.eviction.grace == 151_000_000
        # another policy is in force now: neither previewed as possible nor accepted
        stale = await request_service.posted("preview", **asked)
        assert "another policy" in stale["errors"][0]["detail"]
        # it is in force already, also for another operator who has just asked for the same: nothing is sent
        again = await request_service.posted("requests", **asked)
        assert (again["code"], again["accepted"], again["seq"]) == ("already-in-force", False, answer["seq"])
        assert len(published(request_service)) == 1
        assert (await request_service.posted("requests", **asked, id="apply-1"))["accepted"] is True  # a retry
        other = {**asked, "yaml": text.replace("151s", "152s")}
        assert (await request_service.posted("requests", **other))["code"] == "policy-changed"
        # what is no policy is not published
        for body in ({**asked, "yaml": "priority_classes: 7"}, {**asked, "expected_revision": "1"}, {**asked, "enforce": "no"}):
            await request_service.refused(400, "requests", **body)
        assert len(published(request_service)) == 2


@pytest.mark.slow
async def test_a_policy_that_locks_its_sender_out_is_applied_only_when_that_is_confirmed(tmp_path: Path) -> None:
    async with running_console(tmp_path) as request_service:
        found = (await request_service.console.http.get("/api/pools/pool-a/policy")).json()
        rules = {**yaml.safe_load(found["yaml"]), "identity": {"keys": {"a" * 43: "bob"}, "operators": ["bob"]}}
        asked = {"kind": "policy", "yaml": yaml.safe_dump(rules), "expected_revision": found["seq"]}
        (confirm,) = (await request_service.posted("preview", **asked))["errors"]
        assert confirm["location"] == "lose_permissions"
        refused = await request_service.refused(400, "requests", **asked)
        assert "You could no longer send the requests of operators." in refused["detail"]
        assert {error["location"] for error in refused["errors"]} == {"lose_permissions"}
        await request_service.refused(400, "requests", **asked, lose_permissions="yes")
        assert published(request_service) == []
        asked["lose_permissions"] = True
        assert (await request_service.posted("preview", **asked))["errors"] == []
        assert (await request_service.posted("requests", **asked))["accepted"] is True


@pytest.mark.slow
async def test_a_policy_is_for_operators(tmp_path: Path) -> None:
    roles = roles_file(tmp_path, submitters={"vision": {"users": ["sue"]}})
    async with running_console(tmp_path, console_user="sue", console_roles=roles) as it:
        found = (await it.console.http.get("/api/pools/pool-a/policy")).json()
        asked = {"kind": "policy", "yaml": found["yaml"], "expected_revision": found["seq"]}
        assert "operators only" in (await it.refused(403, "requests", **asked))["detail"]
        assert "operators only" in (await it.posted("preview", **asked))["errors"][0]["detail"]
        assert published(it) == []
