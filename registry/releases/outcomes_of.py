"""What became of patients, as gates are shown it, from the database that `DERMFED_OUTCOMES_URL` names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from registry.bundle.manifest.schema import BundleManifest
from registry.environment import OUTCOMES, outcomes_url
from registry.errors import DatabaseError, InvalidName
from registry.field.report import SubgroupInField, field_report
from registry.gates.case import InField
from registry.outcomes.store import OutcomeStore


@dataclass(frozen=True)
class Outcomes:
    """How the versions of two releases do in the field, each by the name of its subgroup.

    Attributes:
        candidate: of the release that would result.
        running: of the one that runs.
        unread: why it cannot be read; empty where it can.
    """

    candidate: Mapping[str, tuple[InField, ...]] = field(default_factory=dict)
    running: Mapping[str, tuple[InField, ...]] = field(default_factory=dict)
    unread: str = ""


def outcomes_of(
    model: str, candidate: Mapping[int, BundleManifest], running: Mapping[int, BundleManifest]
) -> Outcomes:
    """How two releases do in the field, each given by the manifests of its versions, by number."""
    url = outcomes_url(None)
    if url is None:
        return Outcomes(unread=f"{OUTCOMES} names no database")
    try:
        store = OutcomeStore.open(url)
        try:
            found = field_report(store, model, {**running, **candidate})
        finally:
            store.close()
    except (DatabaseError, InvalidName) as error:
        return Outcomes(unread=str(error))
    return Outcomes(_by_version(found, candidate), _by_version(found, running))


def _by_version(
    found: Sequence[SubgroupInField], manifests: Mapping[int, BundleManifest]
) -> dict[str, tuple[InField, ...]]:
    return {
        manifest.subgroup.name: tuple(_told(one) for one in found if one.version == number)
        for number, manifest in manifests.items()
    }


def _told(one: SubgroupInField) -> InField:
    sensitivity = one.figures.sensitivity
    known = not np.isnan(sensitivity.value)
    return InField(
        one.subgroup,
        one.figures.malignant,
        (float(sensitivity.low), float(sensitivity.high)) if known else None,
        tuple(
            f"{kept.promise.what} of {kept.promise.least:.2f} or more, since {kept.broken_on}"
            for kept in one.alarms
        ),
    )
