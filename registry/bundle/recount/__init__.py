"""Recounting: whether the figures of a manifest follow from its counts, and are possible at all.

A bundle has no confusion matrix. It holds the recall and the specificity of each class on so many pictures,
from which the sums of the matrix follow; histograms of confidence over all and over right answers; and the
figures of subgroups, which add up to all pictures. What follows from these is computed again, by the
functions of `metrics` that the run used, and compared.

- `recount`: all of it; `problem`: what is found, and the numbers that are compared.
- `possible`: figures that no pictures have, whatever the counts.
- `classes`: figures of all pictures from those of the classes.
- `by_histograms`: accuracy and calibration from histograms, and what they leave possible of the rest.
- `parts`: subgroups and all pictures; `between`: fairness.
- `narrowest`: intervals that are narrower than any number of lesions makes them.

What does not follow, such as the AUROC of a class, is held within the range that the histograms leave.
Whoever changes figures, classes, histograms and subgroups alike is not found here: a signature of those who
measured tells that (`manifest.attestation`).
"""

from registry.bundle.recount.possible import Problem, Recounted
from registry.bundle.recount.recount import recount

__all__ = ["Problem", "Recounted", "recount"]
