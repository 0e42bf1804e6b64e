"""Epoch selection: which epoch of fine-tuning becomes each subgroup's model.

candidates.py  epochs on disk until one is chosen
select.py      the choice
frontier.py    what every allowed spread would cost
"""
