"""The rules of a manifest: limits that no calibration lesions could show."""

import numpy as np

from registry.bundle.manifest.schema import BundleManifest, PatternCalibration
from registry.bundle.metrics.exact import exact_low
from registry.bundle.recount.problem import LOOSE, Findings


def check_rules(manifest: BundleManifest, findings: Findings) -> None:
    """Checks the working points and referral rules, of the manifest and of its patterns."""
    named: dict[str, BundleManifest | PatternCalibration] = {"": manifest}
    named |= {f"patterns.{one.pattern.name}.": one for one in manifest.patterns}
    for place, of in named.items():
        point, rule = of.working_point, of.abstention
        if point is not None:
            n = np.array(float(point.n))
            most = float(exact_low(n, n, 2 * point.level - 1))
            if point.sensitivity_low > most + LOOSE:
                findings.refuse(
                    f"{place}working_point.sensitivity_low",
                    point.sensitivity_low,
                    f"{point.n} malignant lesions, all of them found, show {most:.4g} at most",
                )
        if rule.risk is not None and rule.risk_high is not None and rule.risk_high < rule.risk - LOOSE:
            findings.refuse(
                f"{place}abstention.risk_high", rule.risk_high, f"the risk itself is {rule.risk:.4g}"
            )
    for one in manifest.patterns:
        if one.set_size is not None and one.set_size > len(manifest.labels) + LOOSE:
            findings.refuse(
                f"patterns.{one.pattern.name}.set_size",
                one.set_size,
                f"there are {len(manifest.labels)} classes",
            )
