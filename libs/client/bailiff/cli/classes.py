"""`bailiff class list`: the priority classes of a pool."""

from .session import Session, command


@command("class list", names="priority_class")
async def list_classes(session: Session) -> None:
    """List priority classes, highest first, with their jobs. They are part of the policy: bailiff policy show"""
    from bailiff.render.serializers.policy import class_rows
    from bailiff.tables.policy import classes_table

    async with session.client() as client:
        rows = class_rows((await client.projection(session.pool)).state)
        session.show(rows, lambda: classes_table(rows))
