"""What of a case is missing that would make the answer surer, by the figures of calibration.

Every pattern that was calibrated says how many classes its prediction sets had and how many of its cases were
reported. One more kind of picture, or the facts that are missing, would help where the pattern with them had
smaller sets or more reports, and was behind in neither. Differences of less than a twentieth of a class and
half a per cent are none.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from registry.bundle.cases.given import GivenCase
from registry.bundle.cases.kinds import UNKNOWN_KIND
from registry.bundle.cases.patterns import Pattern
from registry.bundle.manifest.schema import BundleManifest


@dataclass(frozen=True)
class Help:
    """Something that is missing, and by how much its pattern was surer in calibration.

    Attributes:
        missing: one kind of picture, or names of facts.
        fewer_classes: by which the mean prediction set was smaller.
        more_reported: by which the share reported was larger.
    """

    missing: tuple[str, ...]
    fewer_classes: float
    more_reported: float

    def to_json(self) -> dict[str, Any]:
        """As JSON of the service's interface."""
        return {
            "missing": list(self.missing),
            "fewer_classes": self.fewer_classes,
            "more_reported": self.more_reported,
        }


def would_help(given: GivenCase, manifest: BundleManifest) -> tuple[Help, ...]:
    """What would help, that which spares most classes first.

    Nothing is compared with pictures of unknown kind: to say what they are comes first, which `decide` warns
    of.

    Args:
        given: what is given of the case.
        manifest: of the model that answers it.
    """
    size, reported = _figures(manifest, given.pattern)
    found = []
    for missing, pattern in _one_more(given):
        if manifest.rules_of(pattern) is None:
            continue
        size_with, reported_with = _figures(manifest, pattern)
        one = Help(missing, round(size - size_with, 1) + 0.0, round(reported_with - reported, 2) + 0.0)
        gains = one.fewer_classes, one.more_reported
        if min(gains) >= 0 and max(gains) > 0:
            found.append(one)
    return tuple(sorted(found, key=lambda one: (-one.fewer_classes, -one.more_reported)))


def _figures(manifest: BundleManifest, pattern: Pattern) -> tuple[float, float]:
    """The mean size of a prediction set and the share reported; every class and none where not known."""
    rules = manifest.rules_of(pattern)
    if rules is None:
        return float(len(manifest.labels)), 0.0
    size = len(manifest.labels) if rules.set_size is None else rules.set_size
    return float(size), rules.reported or 0.0


def _one_more(given: GivenCase) -> Iterator[tuple[tuple[str, ...], Pattern]]:
    """Each thing that is missing, with the pattern that the case would have with it."""
    case, pattern = given.case, given.pattern
    if len(given.kinds) < case.slots and UNKNOWN_KIND not in pattern.kinds:
        for kind in case.kinds:
            if kind not in pattern.kinds:
                yield (kind,), Pattern(kinds=(*pattern.kinds, kind), facts=pattern.facts)
    unknown = tuple(name for name, off in zip(case.fact_names, np.isnan(given.context), strict=True) if off)
    if unknown:
        yield unknown, Pattern(kinds=pattern.kinds, facts="all")
