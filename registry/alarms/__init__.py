"""Alarms of the field: kept in the chain of events until somebody closes them.

The chain is what tells whether an alarm is open: no correction of an outcome closes one.

- `told`: alarms as events tell them.
- `look`: figures of the field with all alarms, those that history does not know yet among them.
- `telling`: alarms into the chain, and out of it with a reason.
"""
