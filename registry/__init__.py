"""What a released model is (`registry.bundle`), and where released models are kept.

This room knows no torch: whoever serves or audits a model installs it without the training half.

- `registry`, `catalogue`, `records`, `errors`: what others use: the registry, reading it, what it answers
  with, what can go wrong.
- `gates`, `releases`, `intake`: the rules: which release is good enough, which is one at all, which
  bundle may become a version.
- `promotion`, `evidence`, `gate_sets`: asking the rules: composing a release, who stands for it, and which
  gates it must pass.
- `database`, `tables`, `migrate`, `queries`, `changes`: the database.
- `store`, `remote_store`, `stored`: the files of the models, in a folder or elsewhere.
- `adding`, `archive`, `collecting`: bundles in; releases out and in as one file; what is not needed away.
- `signing`, `diff`: who vouches for a version; what changed between two.
- `verification`: everything that can be found wrong.
- `cli`, `printing`: `dermfed-registry`.
"""
