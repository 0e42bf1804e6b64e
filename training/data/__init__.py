"""A client's pictures as training reads them, and the `data` block of a job.

- `dataset`: pictures, labels, subgroups and cases of one split; the protocol of a dataset, and views of one
- `cases`: which parts of a case are shown
- `folds`: which pictures a model of cross-fitting trains on; one picture of each patient
- `cells`: counts by class and subgroup, and which of them may be disclosed
- `settings`, `subgroups`: the `data` block
- `unused`: pictures that a job does not use
"""
