"""Inspecting a manifest before a job: errors, counts, leaks between splits, and skin tones.

check.py            all problems of a manifest and its pictures
presence.py         pictures that lines name and are not there, and those that no line names
describe.py         counts by label, subgroup and split
hospitals.py        what a column of hospitals is called
quality.py          counts, what is missing and broken, and what to do; quality_page.py, its page
near_duplicates.py  the same picture under two names, and keeping such pictures together
leak_notes.py       what a job is told of them before it runs
tone_angles.py      the skin's typology angle in each picture
tone_check.py       declared tones against these angles
"""
