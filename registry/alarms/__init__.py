"""Alarms of the field: kept in the chain of events until closed, and what they may do by themselves.

The chain is what tells whether an alarm is open, and which database of outcomes is the model's: neither a
correction nor another database closes one.

- `told`: alarms as events tell them.
- `database`: which database of outcomes a registry knows a model's by.
- `look`: figures of the field with all alarms, those of nobody's telling too.
- `telling`: alarms into the chain, and out of it with a reason.
- `acting`: aliases that go back by themselves, where an operator allowed it.
"""
