"""Registry of the text of all record types: short line, event type, fields.

    12:04:31 pool-a#118 preemption decided   train-7 → evict  for serve-2 (inference 125 > train 50), loses 3.1 GPU-min

One function per record type, grouped by subject; `entries.ENTRIES` collects them. `lines` renders short lines,
`bailiff.render.events` events, the console its timelines, all from the same entries. Times are UTC. External text is
printed without control characters.
"""
