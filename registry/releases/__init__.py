"""Releases: from bundles to what an alias points to.

- `validate_bundle`, `add_bundles`: checking bundles, and adding them as versions.
- `probe`, `probe_child`: loading and asking a model in a process of its own, within limits.
- `compose`: the release that a promotion would make, and whether its versions fit together.
- `gate_inputs`, `gate_sets`: approvals and signatures that gates look at; the gate sets in force.
- `promote`: judging, promoting and approving; `compare`: the candidate beside the release that runs.
- `going_back`: rolling back, stopping and withdrawing; `withdrawn`: who must answer no more.
- `labels`: tags, notes, and finding versions.
"""
