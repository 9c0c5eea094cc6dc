"""Fixture: a pool with a job in every phase."""

import pytest
from tests.kits.log_builder import Story


@pytest.fixture
def story() -> Story:
    """n1 runs `low`; `done` has ended; nothing else has happened."""
    story = Story()
    story.node("n1", gpus=8)
    story.node("n2", gpus=8)
    story.runs("low", gpus=4, tasks=2)
    story.runs("done", gpus=1)
    story.ends("done", 0)
    return story
