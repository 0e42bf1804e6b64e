"""The policy that AutoAugment found on ImageNet (Cubuk et al. 2019, appendix, the table of its sub-policies).

Some sub-policies stand there twice, and one step has probability 0. Magnitudes of operations without a range
are left out.
"""

from training.autoaugment.policy import Policy, Step

IMAGENET: Policy = (
    (Step("posterize", 0.4, 8), Step("rotate", 0.6, 9)),
    (Step("solarize", 0.6, 5), Step("auto-contrast", 0.6)),
    (Step("equalize", 0.8), Step("equalize", 0.6)),
    (Step("posterize", 0.6, 7), Step("posterize", 0.6, 6)),
    (Step("equalize", 0.4), Step("solarize", 0.2, 4)),
    (Step("equalize", 0.4), Step("rotate", 0.8, 8)),
    (Step("solarize", 0.6, 3), Step("equalize", 0.6)),
    (Step("posterize", 0.8, 5), Step("equalize", 1.0)),
    (Step("rotate", 0.2, 3), Step("solarize", 0.6, 8)),
    (Step("equalize", 0.6), Step("posterize", 0.4, 6)),
    (Step("rotate", 0.8, 8), Step("colour", 0.4, 0)),
    (Step("rotate", 0.4, 9), Step("equalize", 0.6)),
    (Step("equalize", 0.0), Step("equalize", 0.8)),
    (Step("invert", 0.6), Step("equalize", 1.0)),
    (Step("colour", 0.6, 4), Step("contrast", 1.0, 8)),
    (Step("rotate", 0.8, 8), Step("colour", 1.0, 2)),
    (Step("colour", 0.8, 8), Step("solarize", 0.8, 7)),
    (Step("sharpness", 0.4, 7), Step("invert", 0.6)),
    (Step("shear x", 0.6, 5), Step("equalize", 1.0)),
    (Step("colour", 0.4, 0), Step("equalize", 0.6)),
    (Step("equalize", 0.4), Step("solarize", 0.2, 4)),
    (Step("solarize", 0.6, 5), Step("auto-contrast", 0.6)),
    (Step("invert", 0.6), Step("equalize", 1.0)),
    (Step("colour", 0.6, 4), Step("contrast", 1.0, 8)),
    (Step("equalize", 0.8), Step("equalize", 0.6)),
)
