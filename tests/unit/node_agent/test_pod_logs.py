"""The log of a pod that has ended is whole, also if the API server does not answer at once."""

from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from bailiff_kubernetes import Api, ApiError, NotFound, TooManyRequests, Unreachable
from bailiff_node_agent.runtime.kubernetes import log_follower
from bailiff_node_agent.runtime.kubernetes.log_follower import LogFollower

LINES = [b"2026-12-01T00:00:00.%09dZ step %d\n" % (at, at) for at in range(1, 5)]


class Server:
    """Answers each request for the log with the next of `answers`: so many of its lines, and then the error if there is one."""

    def __init__(self, *answers: tuple[int, ApiError | None]) -> None:
        self.answers = list(answers)

    async def lines(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        shown, error = self.answers.pop(0)
        for line in LINES[:shown]:
            yield line
        if error is not None:
            raise error


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_follower, "PAUSES_S", (0.0, 0.0, 0.0))


def follower(server: Server, folder: Path) -> LogFollower:
    return LogFollower(cast(Api, cast(Any, server)), "team-a", "train-1", "main", folder / "log")


@pytest.mark.parametrize("error", [Unreachable("no answer"), TooManyRequests("retry later"), ApiError("no such container yet")])
async def test_the_end_of_a_log_is_read_again_after_a_refusal_and_no_line_twice(tmp_path: Path, error: ApiError) -> None:
    server = Server((0, error), (2, error), (4, None))
    assert await follower(server, tmp_path).finish() is None
    assert (tmp_path / "log").read_text() == "step 1\nstep 2\nstep 3\nstep 4\n"


async def test_a_log_whose_end_never_comes_does_not_hold_up_the_exit_and_says_why(tmp_path: Path) -> None:
    server = Server(*[(3, Unreachable("no answer"))] * 4, (4, None))
    problem = await follower(server, tmp_path).finish()
    assert str(problem) == "no answer"
    assert (tmp_path / "log").read_text() == "step 1\nstep 2\nstep 3\n"


async def test_a_pod_that_is_gone_is_asked_once(tmp_path: Path) -> None:
    server = Server((0, NotFound("gone")), (4, None))
    assert isinstance(await follower(server, tmp_path).finish(), NotFound)
    assert len(server.answers) == 1
