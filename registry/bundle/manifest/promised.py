"""What a manifest says of its model, in numbers."""

from registry.bundle.manifest.schema import BundleManifest
from registry.bundle.model_file.promise import Promise


def promise_of(manifest: BundleManifest) -> Promise:
    """What the model of this manifest takes and answers."""
    case, statistics = manifest.case, manifest.out_of_distribution
    return Promise(
        size=manifest.picture.size,
        classes=len(manifest.labels),
        features=None if statistics is None else statistics.features,
        slots=None if case is None else case.slots,
        kinds=0 if case is None else len(case.kinds),
        facts=tuple(
            (fact.low, fact.high) if fact.kind == "number" else (0, len(fact.values) - 1)
            for fact in (case.facts if case else ())
        ),
    )
