"""One line per record, for people: when, where in the log, what happened, to whom, and what it means.

    12:04:31 pool-a#118 preemption decided  train-7 → evict  for serve-2 (inference 125 > train 50), loses 3.1 GPU-min

`lines.lines(record, pool)` is the plain form; `line.styled` the same for a terminal. What there is to say stands by subject, one
function per record type. Times are UTC. Text that came from outside is printed without control characters.
"""
