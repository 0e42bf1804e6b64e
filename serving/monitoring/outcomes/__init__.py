"""Answers that are kept so that their outcomes can be given, where an operator names a database for them.

- `kept`: what is kept of an answer.
- `keeping`: a thread that writes them, some together.
"""
