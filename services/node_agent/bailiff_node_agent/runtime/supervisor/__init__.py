"""The supervisor: a small process beside each task that outlives the agent.

Its arguments are the task folder, the handle of the task's lock and the lease file. It reads the launch as JSON from
standard input, so that command and environment appear in no argument list and on no disk. It becomes the parent of everything the
task leaves behind (child subreaper), kills what outlives the main process, and writes `exit.json` only when the whole process
tree is gone. It keeps the agent's user where the task runs as another one; that user owns only the control directory.

It holds the lock on `<task_dir>/lock` until it exits: a free lock means that the task has no supervisor.

The agent renews the node's lease on disk while Kafka receives its reports. Once the lease has expired, the supervisor stops the
task by itself, so that it is gone before the pool declares the node lost and runs the job elsewhere
(docs/reference/log-protocol-fences.md#leases). It also enforces an eviction's deadlines (`deadlines.json`) if the agent is down.

It serves `<control_dir>/socket`, where the job sends its messages. They are untrusted input: checked, limited, and written to
`<task_dir>/messages.jsonl`, which the agent reads, before they are answered.

There is one supervisor per task, so it must be small: the standard library only, without modules that are slow to import or
large (pathlib). Everything is imported at its start, since an upgrade may replace the files under it.
"""
