"""The database, the one owner of SQL.

- `tables`: the schema, the hash of an event over the one before, and what events record; `versions`: the
  migration that makes it.
- `connection`: engines, transactions and migration; `sqlite`, `postgresql`: what differs between the two.
- `queries`: reading rows; `changes`: writing them, each change with its event.
"""
