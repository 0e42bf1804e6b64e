"""Inspecting a manifest before a job: errors, counts, leaks between splits, and skin tones.

check.py            all problems of a manifest and its pictures; pictures that are not there, or in no line
describe.py         counts by label, subgroup and split
quality.py          counts, what is missing and broken, what to do, and the page of it
near_duplicates.py  the same picture under two names: keeping such together, and notes before a job runs
tones.py            the skin's typology angle in each picture, and declared tones against these angles
"""
