"""Ports of jobs in the browser: an authenticated reverse proxy, with an origin of its own for each port of each task.

A job's pages are hostile: their scripts must reach neither the console nor another job's port in the name of whoever opens
them. So each port has a host name of its own below the one that is set for jobs, with a cookie of its own, and the console's
cookies never reach it.
"""
