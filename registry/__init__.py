"""The model registry: versions, releases, gates, signatures and audit, and the bundle that a model is.

It imports no torch: a machine that serves or audits models installs it without the training half. Layers,
from the top; each imports those below it alone:

1. `cli`: the commands `dermfed-registry` and `dermfed-outcomes`.
2. `registry`: `Registry`, the one class that everything outside uses.
3. `releases`: adding, composing, comparing, promoting, rolling back; `audit`: verification of hash chain,
   tables and store; `archive`, `export_release`, `import_release`: a release as one file.
4. `outcomes`: post-deployment monitoring; `people`, `keys`: who may do what; `signed_versions`;
   `stored_bundles`: read back, lost, collected; `views`: cards, comparisons and tables, computed once and
   drawn in a terminal or as HTML.
5. `database`: tables, queries, and changes with their events; `gates`: what a release must pass; `names`;
   `store`: objects by digest; `signing_keys` and `attestation`, which need the extra `sign`.
6. `records`, `gate_report`, `errors`: what methods return and raise; `envelope`: a signature as it is stored.
7. `bundle`: the released model itself, shared with training and service; `environment`, `confined`,
   `strict_yaml`.
"""

# By this line dermfed/own_names.py knows that no other distribution wrote over this file.
