"""Every scenario of the YAML files beside this one (README.md says how they are written)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.scenarios.story import Story

HERE = Path(__file__).parent


def scenarios() -> Iterator[Any]:
    """One parameter per scenario, named by theme and title."""
    for file in sorted(HERE.glob("*.yaml")):
        document = yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
        for scenario in document["scenarios"]:
            yield pytest.param(scenario, id=f"{file.stem}: {scenario['title']}")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("scenario", list(scenarios()))
def test_scenario(scenario: dict[str, Any]) -> None:
    """What the title says."""
    Story(scenario).play()


def test_every_title_is_unique() -> None:
    titles = [param.id for param in scenarios()]
    assert len(titles) == len(set(titles))
