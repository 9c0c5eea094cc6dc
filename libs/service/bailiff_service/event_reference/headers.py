"""Descriptions of the headers of messages and audit records."""

HEADERS = {
    "ce_specversion": "`1.0`",
    "ce_id": "Chosen by the sender; `ce_source` and `ce_id` identify the message. A repeat has no effect.",
    "ce_source": "The sender.",
    "ce_type": "The type, as listed here.",
    "ce_time": "RFC 3339, UTC. Default: the broker's append time.",
    "ce_pool": "The pool. Readers use this header, not the partition.",
    "ce_subject": "Subject, informational only.",
    "ce_actor": "The requester: a login name, or an opaque id.",
    "ce_auth": "Authentication of the actor, as claimed by the sender: `none`, `acl`, `signed`. The log has the verified value.",
    "ce_keyid": "The public key that verifies the signature.",
    "ce_sig": "An Ed25519 signature (see `bailiff_log.signatures` for the bytes).",
    "traceparent": "W3C trace context.",
}


AUDIT_HEADERS = {
    "ce_specversion": "`1.0`",
    "ce_id": "`pool:seq`",
    "ce_source": "`/bailiff/<pool>/<writer>`",
    "ce_type": "The type, as listed here.",
    "ce_time": "Log time, RFC 3339 with six fractional digits; never decreases.",
    "ce_pool": "The pool of the log.",
    "ce_seq": "The position: gap-free from 0.",
    "ce_epoch": "Number of the writer incarnation.",
    "ce_cycle": "The decision cycle that the record belongs to.",
    "ce_cycleend": "`true` for the last record of a cycle.",
    "ce_prev": "SHA-256 of the previous record, in hex.",
    "ce_essential": "`true`: a reader that does not support the type must stop.",
    "ce_engine": "`release/digest/logic` of the engine.",
    "ce_policy": "The seq of the record that put the policy in force.",
    "ce_cause": "The cause: a seq, or `topic/partition/offset` of an input.",
    "ce_inputs": "Positions of inputs, where changed: `topic/partition=offset,...`, and ranges done ahead.",
    "ce_actor": "The requester: a login name, or an opaque id.",
    "ce_auth": "How the requester was authenticated: `none`, `acl` or `signed`.",
}


OPTIONAL = {"ce_time", "ce_subject", "ce_actor", "ce_auth", "ce_keyid", "ce_sig", "traceparent"}
AUDIT_OPTIONAL = {"ce_cause", "ce_inputs", "ce_actor", "ce_auth"}
