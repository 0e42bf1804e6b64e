"""A client's pictures as training reads them, and the `data` block of a job.

- `dataset`: pictures, labels and subgroups of one split; the protocol of a dataset
- `cases`, `patterns`: lesions with their pictures and facts, and what of them is shown
- `view`, `of_patients`: views of a dataset, such as one with a picture of each patient
- `subgroups`, `intersections`, `small_cells`: parts of a client's pictures, and which may be disclosed
- `settings`, `subgroup_settings`: the `data` block
"""
