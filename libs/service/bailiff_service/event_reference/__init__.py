"""Writes the event reference from the registries: JSON Schemas, an AsyncAPI 3.0 document, pages for people.

    python -m bailiff_service.event_reference docs/events            write
    python -m bailiff_service.event_reference --check docs/events    name the files that are not what they should be

Everything comes from the types, their docstrings and the topics; the output is the same on every machine.
"""
