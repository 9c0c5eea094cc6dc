"""A view that starts from a local snapshot, where the log has lost the record that speaks for it."""

from pathlib import Path

from tests.log_builder import Story

from bailiff_bus.memory import MemoryCluster
from bailiff_bus.metrics import Metrics
from bailiff_bus.topics import AUDIT
from bailiff_bus.view import DomainView
from bailiff_core.engine import STATE_SCHEMA
from bailiff_core.fold.snapshot import state_digest
from bailiff_core.records.facts import StateDigest

from .virtual_time import run


def test_a_snapshot_whose_digest_was_cut_off_the_log_is_not_used(tmp_path: Path) -> None:
    async def main() -> None:
        story = Story()
        story.node("n1", gpus=8)
        before = len(story.wires)
        story.turn(StateDigest(schema_version=STATE_SCHEMA, digest=state_digest(story.pool)))
        cluster = MemoryCluster(lambda: 0)
        cluster.create_topics(domains=1)
        for wire in story.wires:
            cluster.store(AUDIT.name, 0, None, wire.headers, wire.value)

        def view() -> DomainView:
            return DomainView(cluster.client("one"), story.pool.domain, 0, Metrics(), snapshots=tmp_path)

        await view().catch_up()
        cluster.truncate(AUDIT.name, 0, before)
        after = view()
        await after.open()
        await after.catch_up()
        assert after.pool.seq == before - 1
        other = Story()
        other.node("n1", gpus=8)
        assert [wire.value for wire in other.wires] == [wire.value for wire in story.wires[:before]]
        other.submit("next", gpus=1)
        for wire in other.wires[before:]:
            cluster.store(AUDIT.name, 0, None, wire.headers, wire.value)
        await after.advance(1.0)
        assert "next" in after.pool.jobs

    run(main())
    assert list(tmp_path.iterdir()), "it keeps a snapshot of what the log confirmed"
