"""The database, the one owner of SQL.

- `tables`: the schema; `migrate`, `migrations`: bringing a database to it.
- `connection`: engines and transactions; `sqlite`, `postgresql`: what differs between the two.
- `queries`: reading rows; `changes`: writing them, each change with its event.
- `hash_chain`: the hash of an event over the one before; `event_facts`: what events record.
"""
