"""Stories whose invariants are checked after every cycle, and whose log is replayed at the end."""

from collections.abc import Callable, Iterator

import pytest
from tests.kits.core_invariants import check_pool
from tests.kits.log_builder import Story

from bailiff_core.model.policy import DEFAULT_POLICY, Policy


@pytest.fixture
def tell() -> Iterator[Callable[..., Story]]:
    """Starts a story, with the given policy if any."""
    stories: list[Story] = []

    def begin(rules: Policy = DEFAULT_POLICY) -> Story:
        stories.append(Story(rules, check=check_pool))
        return stories[-1]

    yield begin
    for story in stories:
        story.holds()


@pytest.fixture
def story(tell: Callable[..., Story]) -> Story:
    """A story under the default policy."""
    return tell()
