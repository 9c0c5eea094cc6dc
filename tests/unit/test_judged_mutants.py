"""What `judged.yaml` calls equivalent is in the core still: else `make mutants` stops before it tries any."""

import pytest
from tests.mutants.__main__ import judged_mutants


@pytest.mark.slow
def test_every_judged_mutant_names_a_change_of_the_core() -> None:
    assert judged_mutants()
