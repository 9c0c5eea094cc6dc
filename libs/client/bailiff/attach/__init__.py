"""Attaching to a task: the grant, the connection to its agent, the person's own terminal. It decides nothing about who may."""
