"""Releases: the registry is polled, and a new release is loaded whole before it answers.

- `current_release`: polls the registry and swaps releases.
- `same_history`: whether the registry only grew since the last poll.
- `loading`: loads the versions of a release, and warms them up.
- `card`: the model card of a loaded release.
"""
