"""The model registry: versions, releases, gates, signatures and audit, and the bundle that a model is.

This room knows no torch: whoever serves or audits a model installs it without the training half.

- `registry`, `marking`, `catalogue`: writing to and reading from a registry; `errors`.
- `records`, `comparison`: what they return.
- `bundle`: the released model itself, shared with training and the service.
- `releases`: validating bundles, composing releases, promotion, rollback and approvals.
- `gates`: what a release must pass; `gate_report`: their verdicts.
- `outcomes`: post-deployment monitoring: outcomes, metrics of them, and alarms.
- `database`: tables, migrations, queries and the hash chain of events; `store`: the objects, by digest.
- `audit`: verification: the hash chain, and the integrity of tables and store.
- `archive`: export and import of a release as one file; `signing`: signatures; `keys`: API keys.
- `card`: model cards; `diff`: what changed between two versions.
- `cli`: `dermfed-registry`; `rendering`: records as text and tables.
- `environment`, `names`, `own_version`: defaults, valid names, our own version.
"""

# By this line dermfed/own_names.py knows that no other distribution wrote over this file.
