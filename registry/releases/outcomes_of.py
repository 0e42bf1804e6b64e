"""What became of patients, as gates are shown it, from the database that `DERMFED_OUTCOMES_URL` names."""

from collections.abc import Callable, Mapping, Sequence
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
    model: str,
    candidate: Mapping[int, BundleManifest],
    running: Mapping[int, BundleManifest],
    other: Callable[[int], BundleManifest | None],
) -> Outcomes:
    """How two releases do in the field.

    Args:
        model: the model's name.
        candidate: the manifests of the release that would result, by number.
        running: those of the one that runs.
        other: gives that of any other version: all that answer share how often one may be accused.
    """
    url = outcomes_url(None)
    if url is None:
        return Outcomes(unread=f"{OUTCOMES} names no database")
    known = {**running, **candidate}
    try:
        with OutcomeStore.open(url, create=False) as store:
            found = field_report(store, model, lambda number: known.get(number) or other(number))
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
