"""Admission: the only writer of a domain's audit log.

It turns what comes in on topics into facts (`intake`), lets the core decide, appends both as one turn, and then does
what the state owes: starts of placed gangs, fences to nodes, dead letters for what was refused. Nothing leaves it for
a record that is not committed. It chooses no victim and stops no job itself.
"""
