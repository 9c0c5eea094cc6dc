"""The text of every record type, in one registry: its short line, its event's word and its fields.

    12:04:31 pool-a#118 preemption decided   train-7 → evict  for serve-2 (inference 125 > train 50), loses 3.1 GPU-min

One function per record type, by subject in files of their own; `entries.ENTRIES` collects them. `lines` renders short lines,
`bailiff.render.events` events, the console its timelines, all from the same entries. Times are UTC. Text from outside is
printed without control characters.
"""
