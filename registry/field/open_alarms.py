"""Which versions have an alarm: a promise that was broken in the field."""

from collections.abc import Callable

from registry.bundle.manifest.schema import BundleManifest
from registry.field.report import field_report
from registry.outcomes.store import OutcomeStore


def open_alarms(
    store: OutcomeStore, model: str, manifest_of: Callable[[int], BundleManifest | None]
) -> dict[int, tuple[str, ...]]:
    """The broken promises of each version of a model that has broken any, a sentence each, by its number.

    Arguments and errors are as of `field_report`.
    """
    found: dict[int, tuple[str, ...]] = {}
    for one in field_report(store, model, manifest_of):
        for kept in one.alarms:
            promise = kept.promise
            said = (
                f"version {one.version} promises {one.subgroup} a {promise.what} of {promise.least:.2f}, and "
                f"outcomes speak against it since {kept.broken_on}"
            )
            found[one.version] = (*found.get(one.version, ()), said)
    return found
