"""Victim selection: who must go, and the proof that nobody cheaper would do.

It follows the audit log and answers the selection that is out, on the state at the end of the turn that opened it. It
changes nothing by itself: its answer is a proposal, which admission checks on the state as it is by then.
"""
