"""Inspecting a manifest before a job: errors, counts, leaks between splits, and skin tones.

check.py            all problems of a manifest and its pictures
describe.py         counts by label, subgroup and split
near_duplicates.py  the same picture under two names, and keeping such pictures together
tone_angles.py      the skin's typology angle in each picture
tone_check.py       declared tones against these angles
"""
