"""What a released model is (`registry.bundle`), and where released models are kept.

This room knows no torch: whoever serves or audits a model installs it without the training half.

- `registry`, `records`, `errors`: what others use: the registry, what it answers with, what can go wrong.
- `gates`, `releases`, `intake`: the rules: which release is fair enough, which is one at all, which
  bundle may become a version.
- `database`, `tables`, `migrate`, `queries`, `changes`: the database.
- `store`, `stored`: the files of the models.
- `verification`: everything that can be found wrong.
- `cli`, `printing`: `dermfed-registry`.
"""
