"""Who may do what: accepted authentication, keys and their holders, operators, and the permissions on jobs."""

from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field

from .document import Document, sort_by_name
from .privacy import PRIVATE

Subject = Literal["owner", "project-admin", "operator", "anyone"]
JobAction = Literal["cancel", "pause", "resume", "evict", "migrate", "scale", "set_priority_class", "logs", "attach", "spec"]
JOB_ACTIONS: tuple[JobAction, ...] = get_args(JobAction)
Auth = Literal["none", "acl", "signed"]
"""How a requester was verified; `none` is not: the name is only claimed."""
Names = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=256)], ...], Field(max_length=10_000)]
Subjects = tuple[Subject, ...]
RESPONSIBLE: Subjects = ("owner", "project-admin", "operator")


class SignIn(Document):
    """Who a person is, as vouched for by the service that the person signed in to.

    Attributes:
        issuer: Who authenticated the person: the URL of an OpenID provider; `header`: a reverse proxy; `local`: whoever has the
            console's token.
        subject: The person's id there.
    """

    issuer: Annotated[str, Field(min_length=1, max_length=512)]
    subject: Annotated[str, Field(min_length=1, max_length=256)]


class Permissions(Document):
    """Who may do what.

    `owner` is who submitted the job; `project-admin` an admin of its project or of a project above it; `operator` a user of
    `identity.operators`, or the holder of the root key; `anyone` everybody, verified or not. Whatever the table says, only a
    verified request changes the job of a verified owner.

    Attributes:
        submit: Submit to a project that names no submitters, or without a project.
        set_priority_class: Change the job's class.
        logs: Read the job's output.
        attach: Use the job's terminal and its ports.
        spec: Read the job's command and environment.
    """

    submit: tuple[Literal["project-admin", "operator", "anyone"], ...] = ("anyone",)
    cancel: Subjects = RESPONSIBLE
    pause: Subjects = RESPONSIBLE
    resume: Subjects = RESPONSIBLE
    evict: Subjects = RESPONSIBLE
    migrate: Subjects = RESPONSIBLE
    scale: Subjects = RESPONSIBLE
    set_priority_class: Subjects = RESPONSIBLE
    logs: Subjects = RESPONSIBLE
    attach: Subjects = ("owner", "operator")
    spec: Subjects = ("owner",)


class IdentityRules(Document):
    """Accepted authentication of requests. `none`: every client that can write to the topic.

    Users that are named here or in a project count only if their request is verified.

    Attributes:
        keys: Public keys by key id.
        operators: Users that may send operators' requests; empty: all users.
        class_users: Users that may submit to a priority class; a class that is not listed is open to all.
        sign_ins: Holders of keys that sign people in; with `console`, the user `console/ada` counts as `ada`.
    """

    TREATMENT = PRIVATE
    accept: tuple[Auth, ...] = ("none", "acl", "signed")
    keys: Annotated[dict[str, str], AfterValidator(sort_by_name)] = Field(default_factory=dict)
    operators: tuple[str, ...] = ()
    class_users: Annotated[dict[str, tuple[str, ...]], AfterValidator(sort_by_name)] = Field(default_factory=dict)
    sign_ins: Names = ()
    permissions: Permissions = Permissions.model_construct()


def is_verified(auth: str) -> bool:
    """Whether a signature or the topic's access list shows that a request is its actor's.

    Args:
        auth: As above, or empty.
    """
    return auth not in ("", "none")
