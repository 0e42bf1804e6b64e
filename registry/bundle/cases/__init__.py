"""Cases: one lesion with its pictures, each of a kind, and facts about the patient that may be missing.

- `kinds`, `facts`: the vocabulary, and how hospitals and apps spell it
- `given`: what is given of a case, checked against what a model takes
- `case_input`: which pictures and facts a model takes, and a case as the numbers it sees
- `patterns`: what a case has of them; a model is as sure as what it was given allows
"""
