"""Verification of a registry: the events' hash chain, and the integrity of tables and store.

- `log`: the audit log: events as stored, and whether their hash chain holds.
- `tables`: what decides who answers, compared with the last event that tells of it.
- `integrity`: all checks together, those of the store too.
"""
