"""The commands `dermfed-registry` and `dermfed-outcomes`.

- `app`: the console script `dermfed-registry`; `common`: its groups, shared options, and exit codes.
- `versions`: adding, listing, showing, comparing and fetching versions; cards, tags and notes.
- `releases`: promoting, canaries, rolling back, withdrawing, gates and approvals.
- `audit`: verification, history's chain, signatures, archives, garbage collection.
- `people`: people and API keys; `outcomes`: outcomes and alarms.
"""
