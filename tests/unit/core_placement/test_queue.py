"""The queue's order."""

import pytest
from tests.builders import Sketch

from bailiff_core.fold.pending_queue import dequeue, enqueue


def test_priority_first_then_the_older_and_a_requeued_job_gets_its_old_place() -> None:
    sketch = Sketch()
    first = sketch.job("z-first")
    sketch.job("a-second")
    sketch.job("urgent", priority=75)
    sketch.job("b-twin", seq=9)
    sketch.job("a-twin", seq=9)
    order = ["urgent", "z-first", "a-second", "a-twin", "b-twin"]
    assert sketch.state.queue == order
    dequeue(sketch.state, first)
    with pytest.raises(ValueError, match="z-first does not wait"):
        dequeue(sketch.state, first)
    assert sketch.state.queue == [name for name in order if name != "z-first"]
    enqueue(sketch.state, first)
    assert sketch.state.queue == order
