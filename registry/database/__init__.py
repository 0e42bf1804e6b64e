"""The database, the one owner of SQL.

- `tables`: the schema, the hash of an event over the one before, and what events record; `versions`: the
  migration that makes it.
- `connection`: engines for SQLite and PostgreSQL, transactions and migration.
- `queries`: reading rows; `changes`: writing them, each change with its event.
"""
