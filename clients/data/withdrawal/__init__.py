"""A patient withdraws: the manifest without the pictures, in which nothing else of a job moves.

linked.py      the rows that go with a patient
withdraw.py    the manifest that is left, and what is held against the one of before
"""
