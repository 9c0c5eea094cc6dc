"""The actions: allocate, migrate, and the preemption requests and decisions of consolidate, reclaim and preempt.

Each action is a generator of decisions. Each decision that it yields is enacted on the state before the generator resumes.
"""
