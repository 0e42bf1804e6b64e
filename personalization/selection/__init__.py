"""Epoch selection: which epoch of fine-tuning becomes each subgroup's model.

select.py  the choice, and what every allowed spread would cost
proof.py   what must be shown of a chosen epoch
"""
