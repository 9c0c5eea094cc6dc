"""Message types of all topics but the audit log: requests, proposals, progress, node commands, node reports.

Each type is a frozen, versioned document; `envelope` wraps it in CloudEvents. Audit records are in `bailiff_core.records`, and
beside them the requests that lead to them. The modules are imported here, since each registers its types in `MESSAGE_TYPES`.
"""

from bailiff_core.records import job_requests, node_requests, pool_requests  # noqa: F401

from . import (  # noqa: F401
    commands,
    dead_letters,
    devices,
    progress,
    proposals,
    reports,
    rollups,
    seals,
    spec_copies,
    telemetry,
)
