"""Releases: from bundles to what an alias points to.

- `add`: checking bundles, and adding them as versions.
- `probe`, `probe_child`: loading and asking a model in a process of its own, within limits.
- `compose`: the release that a promotion would make, and what gates are given of it.
- `compare`: it next to the release that runs.
- `promote`: judging, promoting and approving; `gate_sets`: the gate sets in force.
- `rollout`: a canary; `rollback`: rolling back, stopping and withdrawing.
- `labels`: tags, notes, withdrawn versions, and finding versions.
"""
