"""Every request that changes the pool is remembered, so that its repeat has no effect."""

from typing import Any

import pytest
from tests.builders import Sketch, group
from tests.log_builder import digest

from bailiff_core.fold.log import request_key
from bailiff_core.fold.registry import FOLDS
from bailiff_core.model.certificate import RootKeyChange
from bailiff_core.model.demand import JobDemand
from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_core.records import facts

REQUEST = facts.RequestId(source="laptop", id="r-1", digest=digest("r-1"))
KEY = "1" * 42 + "A"
JOB, NODE = {"job": "job"}, {"node": "a"}
REQUESTS: dict[type[facts.Fact], dict[str, Any]] = {
    facts.PolicyApplied: {"policy": DEFAULT_POLICY},
    facts.LogTruncated: {"epoch": 1, "seq": 1},
    facts.AttachGranted: {**JOB, **NODE, "attempt": 1, "task": 0, "client_certificate": ""},
    facts.DeviceClearRequested: {**NODE, "device": "a-0", "reason": "repaired"},
    facts.JobScaled: {**JOB, "tasks": 2},
    facts.JobSpecGranted: {**JOB, "encryption_key": KEY},
    facts.JobSubmitted: {"demand": JobDemand(job="new", tasks=(group(),)), "spec_digest": digest("new")},
    facts.JobPriorityClassChanged: {**JOB, "priority_class": "train"},
    facts.JobCancelled: JOB,
    facts.KeyRevoked: {"key": KEY},
    facts.RootKeyChanged: {"change": RootKeyChange(identity="0" * 64, key=KEY, signature="5" * 85 + "A")},
    facts.EnrolmentPermitted: {**NODE, "expires": 1},
    facts.NodeReplaced: {**NODE, "machine_id": "m-2"},
    facts.NodeReturned: {},
    facts.JobEvictionRequested: JOB,
    facts.JobMigrationRequested: JOB,
    facts.JobPaused: JOB,
    facts.JobResumed: JOB,
    facts.NodeDrained: NODE,
    facts.NodeUndrained: NODE,
}


def test_the_table_has_every_request() -> None:
    asked = [kind for kind in FOLDS if issubclass(kind, facts.Fact) and "request" in kind.model_fields]
    assert {kind.__name__ for kind in asked} == {kind.__name__ for kind in REQUESTS}


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.__name__)
def test_a_request_is_remembered(kind: type[facts.Fact]) -> None:
    sketch = Sketch()
    sketch.node("a")
    sketch.job("job")
    state = sketch.state
    state.seq = 7
    FOLDS[kind](state, kind.model_construct(request=REQUEST, **REQUESTS[kind]))
    (seen,) = state.requests.items()
    assert (seen[0], seen[1].digest, seen[1].seen_at, seen[1].seq) == (request_key("laptop", "r-1"), REQUEST.digest, state.now, 7)
