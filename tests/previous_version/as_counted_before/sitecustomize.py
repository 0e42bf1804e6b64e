"""What the version before did otherwise: what `privacy.min_count` counted, and how a head began.

It counted pictures held, and not patients drawn.

Python itself loads this file in every process that has its folder on `PYTHONPATH`. The stored runs have
subgroups with pictures enough and patients too few, whose losses stay at the hospital by now, so that rules
that weigh by losses come to other weights. A head was drawn where one begins at zero now: runs that were
stopped while they pre-trained, and had no head yet, come to another. With this, all else that makes the
weights is held to theirs.
"""

from training.algorithms.objectives.components.subgroup_losses import SubgroupLosses
from training.data.dataset import Examples
from training.models import build

told = Examples.identities.fget
Examples.identities = property(lambda examples: told(examples)[:, [0, 0]])
Examples.people = property(lambda examples: told(examples)[:, 0])
SubgroupLosses.drawn = property(lambda losses: losses._examples)
build.zero_head = lambda model: None
