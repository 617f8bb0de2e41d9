"""The version of what the JSON files of a run hold; apart from the fields, because planning needs no more of them."""

SCHEMA = 1
"""The version that is written, and the newest that is read: of records, of the environment and of the resolved spec."""
