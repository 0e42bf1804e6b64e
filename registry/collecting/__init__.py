"""Removing from the store what nothing refers to.

- `garbage`: what that is, and removing it while others add.
- `command`: `dermfed-registry gc`.
"""
