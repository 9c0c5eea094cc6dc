"""Who may do what: accepted authentication, keys and their holders, operators, and the permissions on jobs."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from .document import Document, sort_by_name

Subject = Literal["owner", "project-admin", "operator", "anyone"]
JobAction = Literal["cancel", "pause", "resume", "evict", "migrate", "scale", "set_class", "logs", "attach", "spec"]
JOB_ACTIONS: tuple[JobAction, ...] = (
    "cancel", "pause", "resume", "evict", "migrate", "scale", "set_class", "logs", "attach", "spec",
)  # fmt: skip
Names = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=256)], ...], Field(max_length=10_000)]
Subjects = tuple[Subject, ...]
RESPONSIBLE: Subjects = ("owner", "project-admin", "operator")


class SignIn(Document):
    """Who a person is, as vouched for by the service that the person signed in to.

    issuer: who authenticated the person: the URL of an OpenID provider; `header`: a reverse proxy; `local`: whoever has the
    console's token. subject: the person's id there.
    """

    issuer: Annotated[str, Field(min_length=1, max_length=512)]
    subject: Annotated[str, Field(min_length=1, max_length=256)]


class Permissions(Document):
    """Who may do what. owner: who submitted the job. project-admin: the admins of its project and of those above it.

    operator: `identity.operators`, and the holder of the root key. anyone: everybody, verified or not. Whatever the table says,
    nobody changes a verified owner's job by a request that is not verified.
    submit: who may submit to a project that names no submitters, or without a project. set_class: change the priority class.
    logs: read the job's output. attach: use its terminal and its ports. spec: read its command and environment.
    """

    submit: tuple[Literal["project-admin", "operator", "anyone"], ...] = ("anyone",)
    cancel: Subjects = RESPONSIBLE
    pause: Subjects = RESPONSIBLE
    resume: Subjects = RESPONSIBLE
    evict: Subjects = RESPONSIBLE
    migrate: Subjects = RESPONSIBLE
    scale: Subjects = RESPONSIBLE
    set_class: Subjects = RESPONSIBLE
    logs: Subjects = RESPONSIBLE
    attach: Subjects = ("owner", "operator")
    spec: Subjects = ("owner",)


class IdentityRules(Document):
    """Accepted authentication of requests. `none`: every client that can write to the topic.

    keys: public keys by key id. operators: users that may send operators' requests; empty: all users.
    class_users: users that may submit to a priority class; a class that is not listed is open to all.
    sign_ins: holders of keys that sign people in; with `console`, the user `console/ada` counts as `ada`.
    Users that are named here or in a project count only if their request is verified.
    """

    accept: tuple[Literal["none", "acl", "signed"], ...] = ("none", "acl", "signed")
    keys: Annotated[dict[str, str], AfterValidator(sort_by_name)] = Field(default_factory=dict)
    operators: tuple[str, ...] = ()
    class_users: Annotated[dict[str, tuple[str, ...]], AfterValidator(sort_by_name)] = Field(default_factory=dict)
    sign_ins: Names = ()
    permissions: Permissions = Permissions()
