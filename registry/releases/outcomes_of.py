"""What became of patients, as gates are shown it, from the database that `DERMFED_OUTCOMES_URL` names."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from sqlalchemy import Engine

from registry.alarms.look import Look, look
from registry.bundle.manifest.schema import BundleManifest
from registry.environment import OUTCOMES, outcomes_url
from registry.errors import DatabaseError, InvalidName
from registry.field.report import SubgroupInField
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
    engine: Engine,
    model: str,
    candidate: Mapping[int, BundleManifest],
    running: Mapping[int, BundleManifest],
    other: Callable[[int], BundleManifest | None],
) -> Outcomes:
    """How two releases do in the field.

    An alarm that is open counts, whatever the database says now.

    Args:
        engine: of the registry.
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
            found = look(engine, store, model, lambda number: known.get(number) or other(number))
    except (DatabaseError, InvalidName) as error:
        return Outcomes(unread=str(error))
    return Outcomes(_by_version(found, candidate), _by_version(found, running))


def _by_version(found: Look, manifests: Mapping[int, BundleManifest]) -> dict[str, tuple[InField, ...]]:
    return {
        manifest.subgroup.name: tuple(_of_version(found, number)) for number, manifest in manifests.items()
    }


def _of_version(found: Look, number: int) -> Iterator[InField]:
    """How a version does with each subgroup, those too of which nothing but an alarm is left."""
    broken: dict[str, list[str]] = {}
    for one in found.open:
        if one.version == number:
            told = f"{one.of} of {one.least:.2f} or more, since {one.day}"
            broken.setdefault(one.subgroup, []).append(told)
    for seen in found.report:
        if seen.version == number:
            yield _told(seen, tuple(broken.pop(seen.subgroup, ())))
    for subgroup, promises in sorted(broken.items()):
        yield InField(subgroup, 0, None, tuple(promises))


def _told(one: SubgroupInField, broken: tuple[str, ...]) -> InField:
    sensitivity = one.figures.sensitivity
    known = not np.isnan(sensitivity.value)
    ends = (float(sensitivity.low), float(sensitivity.high)) if known else None
    return InField(one.subgroup, one.figures.malignant, ends, broken)
