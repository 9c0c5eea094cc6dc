"""Admission: the only writer of a pool's audit log.

It turns inputs into facts (`request_handlers`), lets the core decide, appends both as one decision cycle, and then sends what
follows: starts of placed gangs, fences to nodes, dead letters for rejected inputs. It sends nothing for a record that is not
committed. It selects no victims and stops no tasks itself.
"""
