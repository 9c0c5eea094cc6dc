"""What stands in the headers of messages and of audit records."""

HEADERS = {
    "ce_specversion": "`1.0`",
    "ce_id": "The sender's own id; with `ce_source` it names the message. A repeat has no second effect.",
    "ce_source": "Who sent it.",
    "ce_type": "The type, as listed here.",
    "ce_time": "RFC 3339, UTC. Where it is left out, the broker's append time counts.",
    "ce_pool": "The pool. Readers go by this and never by the partition.",
    "ce_subject": "What it is about, for people.",
    "ce_actor": "The person behind it, an opaque id.",
    "ce_auth": "What vouches for the actor: `none`, `acl` or `signed`. A sender's word; the log holds what was found.",
    "ce_keyid": "The public key of the signature.",
    "ce_sig": "An Ed25519 signature (see `bailiff_log.signatures` for the bytes).",
    "traceparent": "W3C trace context.",
}


AUDIT_HEADERS = {
    "ce_specversion": "`1.0`",
    "ce_id": "`pool:seq`",
    "ce_source": "`/bailiff/<pool>/<writer>`",
    "ce_type": "The type, as listed here.",
    "ce_time": "Log time, RFC 3339 with six digits; it never goes back.",
    "ce_pool": "The pool whose log this is.",
    "ce_seq": "The position: gap-free from 0.",
    "ce_epoch": "Which writer incarnation.",
    "ce_cycle": "The decision turn that the record belongs to.",
    "ce_cycleend": "`true` for the last record of a turn.",
    "ce_prev": "SHA-256 of the record before, in hex.",
    "ce_essential": "`true`: a reader that does not know the type must stop.",
    "ce_engine": "`release/digest/logic` of the code that decided.",
    "ce_policy": "The seq of the record that brought the policy in force.",
    "ce_cause": "A seq, or `topic/partition/offset` of the input that led to it.",
    "ce_inputs": "Next offsets that changed: `topic/partition=offset,...`",
    "ce_actor": "The person who caused it.",
    "ce_auth": "What vouched for that: `none`, `acl` or `signed`.",
}


OPTIONAL = {"ce_time", "ce_subject", "ce_actor", "ce_auth", "ce_keyid", "ce_sig", "traceparent"}
AUDIT_OPTIONAL = {"ce_cause", "ce_inputs", "ce_actor", "ce_auth"}
