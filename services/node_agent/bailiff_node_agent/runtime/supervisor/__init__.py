"""The small process that stands between the agent and one task, and outlives the agent.

Started with a control directory, the handle of its lock and the lease's file as arguments, and with the launch as JSON on
standard input, so that command and environment appear in no argument list and on no disk. It becomes the parent of everything the
task leaves behind (child subreaper), ends what outlives the main process, and writes `exit.json` only when the whole tree is
gone. It stays the agent's user where the task runs as another one: that one has a folder of its own for what lies between
job and node (`wall`), and nothing in the control directory.

It holds the lock on `<control>/lock` as long as it lives: a free lock means that there is no supervisor (any more).

The agent renews the node's lease on disk while Kafka hears it. When nobody does, this process stops the task by itself,
so that it is gone before the log gives the node up and runs the job elsewhere (log protocol §7). It keeps an eviction's
deadlines (`deadlines.json`), too, where the agent that set them is dead when they come.

It serves `<control>/socket`, where the job says how far it is. What it says is hostile input: it is checked and bounded,
and written to `<control>/said.jsonl` before it is answered, which the agent follows.

There is one beside every task: only the standard library may enter, without what is slow to start or large (pathlib), and
nothing is imported later than at its start, since an upgrade may change the files under it.
"""
