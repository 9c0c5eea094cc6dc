"""Untrusted input to the console: refused with a reason, never a server error."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from tests.unit.console.actions.kit import RequestService, running_console, story, task_result

from bailiff_console.actions.request_parser import parse_request
from bailiff_console.actions.worker_tasks import PolicyPlan
from bailiff_service.problems import ApiError

SEEDS = 50
JOB = {"name": "new", "project": "vision", "gpus": 1, "command": "x"}
ODD_VALUES: list[Any] = [
    *(None, True, 0, -1, 1.5, 10**30, 2**63, "", "x", "x" * 5000, "\x00", "\x1b[31m", "<script>alert(1)</script>", "a\nb"),
    *("é" * 100, [], {}, [[]], {"a": {"b": []}}, ["x"] * 500, "1e999999999", "-1", "NaN", "30m", "*", "../.."),
    *("0x" + "f" * 2000, ".inf", "9" * 4400),
]
FIELDS = [
    *("kind", "job", "node", "reason", "tasks", "min_tasks", "group", "priority_class", "mode", "deadline", "yaml", "id", "x"),
    "__proto__",
]
KINDS = [
    *("submit", "cancel", "pause", "resume", "migrate", "evict", "scale", "set-priority-class", "drain", "undrain", "apply"),
    *(None, 7),
]


def random_body(rng: random.Random) -> dict[str, Any]:
    body = {name: rng.choice([*ODD_VALUES, "train-7", "gpu-01", 2, "train"]) for name in rng.sample(FIELDS, rng.randint(0, 6))}
    return {"kind": rng.choice(KINDS), **body} if rng.random() < 0.9 else body


def random_job(rng: random.Random) -> str:
    fields = [
        *JOB,
        *("tasks", "memory", "cpu", "fraction", "env", "grace", "groups", "sub-groups", "topology", "labels", "sim-run-for"),
        "user",
    ]
    document = {**JOB, **{rng.choice(fields): rng.choice(ODD_VALUES) for _ in range(rng.randint(1, 4))}}
    text = json.dumps(document)
    if rng.random() < 0.3:
        at = rng.randrange(len(text))
        text = (
            text[:at]
            + rng.choice(["[", "{", "&a ", "*a", "!!python/object:os.system ", "\t", "\x00", "'", ": ", "- "])
            + text[at:]
        )
    return text


BROKEN = [
    *(b"", b"{", b"[]", b"null", b'"x"', b"1" * 5000, b"{" * 100_000, b"[" * 100_000, b'{"kind": NaN}', b"\xff\xfe"),
    *(b'{"kind": "\\ud800"}', b'{"kind":"pause","job":"\\ud800"}', b'{"kind":"pause"}'),
    *(b'{"kind":"pause","job":"a","job":"b","x":1}', b'{"kind":"pause","job":7}', b'{"kind":"scale","job":"a","tasks":1e400}'),
    *(b'{"kind":"scale","job":"a","tasks":' + b"9" * 5000 + b"}", b"\x00", b'{"kind":["pause"]}', b'{"kind":{"a":1}}'),
    *(b'{"kind":"drain","node":"n","deadline":5}', b'{"kind":"drain","node":"n","mode":"now"}'),
    *(b'{"kind":"pause","job":"' + b"a" * 200 + b'"}', b'{"kind":"pause","job":"A B"}'),
    b'{"kind":"pause","job":"a","reason":"' + b"r" * 1001 + b'"}',
]


@pytest.mark.parametrize("raw", BROKEN, ids=range(len(BROKEN)))
def test_invalid_requests_are_a_400_with_a_reason(raw: bytes) -> None:
    with pytest.raises(ApiError) as refused:
        parse_request(raw)
    assert refused.value.status == 400
    assert refused.value.detail
    assert len(refused.value.detail) < 3000


def test_an_unknown_field_is_reported_with_the_nearest_name() -> None:
    with pytest.raises(ApiError) as refused:
        parse_request(b'{"kind":"pause","job":"a","reson":"x"}')
    assert [each.to_data() for each in refused.value.errors] == [
        {"location": "reson", "detail": "no such field; did you mean reason?"}
    ]


async def check_response(request_service: RequestService, what: str, content: bytes, at: Any) -> None:
    headers = {**request_service.headers, "content-type": "application/json"}
    answer = await request_service.console.http.post(f"/api/pools/pool-a/{what}", content=content, headers=headers)
    assert answer.status_code < 500, (at, what, content[:500], answer.text)
    assert "text/html" not in answer.headers["content-type"]
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.slow
async def test_random_requests_never_cause_a_server_error(tmp_path: Path) -> None:
    """Sends the requests over HTTP."""
    async with running_console(tmp_path) as request_service:
        rng = random.Random(7)
        for seed in range(SEEDS // 2):
            what = rng.choice(["requests", "preview", "plan", "plan-policy", "what-if"])
            body = random_body(rng)
            if what.startswith("plan"):
                body = {
                    "yaml": rng.choice([*ODD_VALUES, random_job(rng), random_job(rng)]),
                    **({"x": 1} if rng.random() < 0.1 else {}),
                }
            await check_response(request_service, what, json.dumps(body).encode(), seed)
        for at, raw in enumerate(BROKEN):
            await check_response(request_service, "requests", raw, at)
            await check_response(request_service, "plan", raw, at)
        sound = await request_service.posted("preview", kind="pause", job="train-7")
        assert sound["sentences"]


def test_random_jobs_and_policies_are_answered_or_have_errors() -> None:
    log_writer = story()
    rng = random.Random(8)
    policy = {"priority_classes": [{"name": "a", "value": 1, "global_default": True}]}
    for _ in range(SEEDS):
        found = task_result(log_writer, "plan", yaml=random_job(rng), project=None)
        assert found["errors"] or found["answer"]
        text = json.dumps({**policy, rng.choice(["projects", "eviction", "preemption", "identity", "x"]): rng.choice(ODD_VALUES)})
        assert set(task_result(log_writer, "plan-policy", yaml=text)) == set(PolicyPlan.__annotations__)


@pytest.mark.parametrize(
    "text",
    [
        *("[" * 60_000, "{a: " * 20_000, "- " * 30_000, "\n".join(" " * at + "a:" for at in range(300)), "a: &a [x]\nb: *a\n"),
        *("&a [*a]", "name: !!python/object:os.system x", "x: " + "9" * 60_000, "a: !!bool maybe", "a: !!timestamp x"),
        "a: !!int ''",
    ],
)
def test_deep_or_expanding_yaml_is_rejected(text: str) -> None:
    log_writer = story()
    for question in ("plan", "plan-policy", "job"):
        found = task_result(log_writer, question, yaml=text, project=None)
        assert found["errors"]
        assert found["errors"][0]["line"] >= 1


@pytest.mark.slow
async def test_texts_have_a_maximum_size(tmp_path: Path) -> None:
    async with running_console(tmp_path) as request_service:
        for what, body in (
            ("requests", {"kind": "submit", "yaml": "x" * 70_000}),
            ("preview", {"kind": "submit", "yaml": "x" * 70_000}),
            ("plan", {"yaml": "x" * 70_000}),
            ("plan-policy", {"yaml": "x" * 300_000}),
            ("what-if", {"yaml": "x" * 300_000}),
            ("plan", {"yaml": "x" * 1_100_000}),
        ):
            await request_service.refused(413, what, **body)
