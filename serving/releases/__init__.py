"""Releases: the registry is polled, and a new release is loaded whole before it answers.

- `current_release`: polls the registry, notices one that was set back, and swaps releases.
- `loading`: loads the versions of a release, and warms them up; its model card.
- `rollout`: a canary next to production, which answers a share of the requests or is compared on one.
"""
