"""Traces: `published` says how the rows of a table become jobs, `catalogue` names the tables."""
