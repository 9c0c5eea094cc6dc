"""The private parts of jobs: written to `bailiff.job-specs` before the record that names them, erased some time after.

The audit log holds SHA-256(salt ‖ spec) only; the salt lies with the spec here.
"""

import json
from collections.abc import Awaitable
from dataclasses import dataclass

from bailiff_admission.intake.requests import digest_of_spec
from bailiff_bus import topics
from bailiff_bus.logs import logger
from bailiff_bus.messages import JobSpec
from bailiff_bus.port import Bus, Producer, Receipt
from bailiff_core.canonical import canonical_json
from bailiff_core.model.pool import ENDED, Pool


@dataclass(frozen=True, slots=True)
class StoredSpec:
    """A spec with its salt (hex) and their digest."""

    spec: JobSpec
    salt: str
    digest: str


class JobSpecs:
    """The specs of one domain's jobs, by job."""

    def __init__(self, domain: str) -> None:
        self._domain = domain
        self._specs: dict[str, StoredSpec] = {}

    def get(self, job: str) -> StoredSpec | None:
        """The job's spec, if it was not erased."""
        return self._specs.get(job)

    async def load(self, bus: Bus) -> None:
        """Read the whole topic; the newest per job counts."""
        spans = await bus.spans(topics.JOB_SPECS.name)
        reader = await bus.reader([(topics.JOB_SPECS.name, partition, span.begin) for partition, span in spans.items()])
        try:
            left = {partition: span.end for partition, span in spans.items() if span.end > span.begin}
            while left:
                for message in await reader.read():
                    self._take(message.key, message.value)
                left = {
                    partition: end for partition, end in left.items() if reader.position(topics.JOB_SPECS.name, partition) < end
                }
        finally:
            await reader.close()

    def _take(self, key: bytes | None, value: bytes) -> None:
        domain, _, job = (key or b"").decode(errors="replace").partition("/")
        if domain != self._domain or not job:
            return
        if not value:
            self._specs.pop(job, None)
            return
        try:
            stored = json.loads(value)
            spec = JobSpec.model_validate_json(json.dumps(stored["spec"]))
            salt = bytes.fromhex(stored["salt"])
        except (ValueError, KeyError, TypeError) as error:
            logger(domain=self._domain).warning("a job spec that nobody can read was skipped", job=job, why=type(error).__name__)
            return
        self._specs[job] = StoredSpec(spec, salt.hex(), digest_of_spec(salt, spec.to_data()))

    async def store(self, producer: Producer, job: str, spec: JobSpec, salt: bytes) -> tuple[str, Awaitable[Receipt]]:
        """Send the spec; its digest, and what to await before the record that holds it may be appended."""
        stored = StoredSpec(spec, salt.hex(), digest_of_spec(salt, spec.to_data()))
        self._specs[job] = stored
        value = canonical_json({"salt": stored.salt, "spec": spec.to_data()})
        key = f"{self._domain}/{job}".encode()
        return stored.digest, await producer.send(topics.JOB_SPECS.name, value, key=key)

    async def erase_old(self, producer: Producer, pool: Pool) -> int:
        """Tombstones for jobs that ended long enough ago, or that the log does not know. Returns how many."""
        kept = pool.rules.retention.job_specs
        old = []
        for name in self._specs:
            job = pool.jobs.get(name)
            if job is None or (job.phase in ENDED and pool.now - (job.ended_at or 0) >= kept):
                old.append(name)
        for name in old:
            await (await producer.send(topics.JOB_SPECS.name, b"", key=f"{self._domain}/{name}".encode()))
            del self._specs[name]
        return len(old)
