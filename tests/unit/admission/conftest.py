"""Fixture: a pool with a job in every phase."""

import pytest
from tests.kits.log_builder import Story
from tests.kits.story_script import play


@pytest.fixture
def story() -> Story:
    """n1 runs `low`; `done` has ended; nothing else has happened."""
    return play("node n1: 8 gpus; node n2: 8 gpus; runs low: 2 x 4 gpus; runs done: 1 gpu; ends done 0")
