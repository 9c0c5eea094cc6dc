"""Generates the event reference from the registries: JSON Schemas, an AsyncAPI 3.0 document, Markdown pages.

    python -m bailiff_service.event_reference docs/events            write
    python -m bailiff_service.event_reference --check docs/events    list stale files

The input is the types, their docstrings and the topics; the output is reproducible.
"""
