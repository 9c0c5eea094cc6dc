"""Who vouched for a node: the record that enrolled its key, and the one that permitted it. The whole log is read for it."""

from typing_extensions import TypedDict

from bailiff.render.serializers.times import moment
from bailiff_core.humanize import count_text, user_text
from bailiff_core.model.state import PoolState
from bailiff_core.records.facts import EnrolmentPermitted, NodeEnrolled
from bailiff_core.views import Moment

from .client import Client


class Enrolment(TypedDict):
    """How the key of a node was enrolled.

    Attributes:
        by: `certificate`: of the root key; `token` or `operator`: as `permitted_by` permitted.
        certificate_expires: After that it enrols nobody; the node, which is enrolled, goes on.
        permitted_by: Who permitted it; empty for a certificate.
        permit_seq: The record of the permit.
        max_devices: The most that it may say it has; None: as many as any node.
    """

    key: str
    by: str
    seq: int
    at: Moment | None
    certificate_expires: Moment | None
    permitted_by: str
    permit_seq: int | None
    max_devices: int | None


async def enrolment_of(client: Client, pool: str, state: PoolState, node: str) -> Enrolment | None:
    """How the key that the node has now was enrolled; None: it has none."""
    known = state.enrolled.get(node)
    found: Enrolment | None = None
    permits: dict[int, str] = {}
    if known is None:
        return None
    async for entry in client.follow(pool, on=False):
        record = entry.record
        if isinstance(record.data, EnrolmentPermitted) and record.data.node == node:
            permits[record.seq] = user_text(record.actor, record.actor_verified)
        elif isinstance(record.data, NodeEnrolled) and (record.data.node, record.data.key) == (node, known.key):
            fact = record.data
            found = {
                "key": fact.key,
                "by": fact.by,
                "seq": record.seq,
                "at": moment(record.time),
                "certificate_expires": moment(fact.certificate.expires) if fact.certificate is not None else None,
                "permitted_by": permits.get(fact.permitted_by, "") if fact.permitted_by is not None else "",
                "permit_seq": fact.permitted_by,
                "max_devices": known.max_devices,
            }
    return found


def enrolment_text(found: Enrolment) -> str:
    """`Enrolled by token (#12), which ada permitted (#11), with the key …`."""
    how = {"certificate": "a certificate of the root key", "token": "a token", "operator": "an operator's permit"}[found["by"]]
    until = f", which enrols until {found['certificate_expires']}" if found["certificate_expires"] else ""
    permit = f", permitted by {found['permitted_by'] or 'nobody named'} (#{found['permit_seq']})" if found["permit_seq"] else ""
    most = f" It has at most {count_text(found['max_devices'], 'GPU')}." if found["max_devices"] is not None else ""
    return f"Enrolled by {how} (#{found['seq']}){until}{permit}, with the key {found['key']}.{most}"
