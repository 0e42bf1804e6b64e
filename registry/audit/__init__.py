"""Verification of a registry: the events' hash chain, their replay, and the integrity of tables and store.

- `log`: the audit log: events as stored, and whether their hash chain holds.
- `replay`: events replayed and compared with the tables.
- `integrity`: all checks together, those of the store too.
"""
