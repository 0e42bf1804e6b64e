"""Loading the versions of a release from the registry, each verified and warmed up.

A version is loaded once in a process, however many releases hold it and under whichever alias: one that
answers already, for production or as a candidate, is taken over. It is freed when the last release and
the last request that use it have ended.
"""

import ctypes
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import numpy as np

from registry.bundle.cases import read_given
from registry.bundle.decision import decide
from registry.bundle.diagnose import Question, ask
from registry.bundle.labels import Subgroup
from registry.bundle.manifest import BundleManifest
from registry.bundle.text import shown
from registry.records import Release, Version
from registry.registry import Registry
from registry.views.card import Entry, release_card
from registry.views.card_page import card_page as page
from serving.inference.device import Device
from serving.inference.predictor import LoadedVersion
from serving.protocol.documents import Card

if TYPE_CHECKING:  # signing needs an extra
    from registry.signing_keys import Trust

log = logging.getLogger("dermfed.serve")


@dataclass(frozen=True)
class LoadedRelease:
    """A release whose versions are all loaded, by subgroup.

    Attributes:
        release: the release.
        versions: by the name of their subgroup.
        prevalence: of malignancy at the place, by subgroup, where it was stated with the release.
    """

    release: Release
    versions: Mapping[str, LoadedVersion]
    prevalence: Mapping[str, float] = field(default_factory=dict)

    @property
    def manifests(self) -> dict[str, BundleManifest]:
        """The manifest of each version, by the name of its subgroup."""
        return {name: loaded.manifest for name, loaded in self.versions.items()}

    @property
    def subgroups(self) -> dict[str, Subgroup]:
        """The subgroup of each version, by name."""
        return {name: loaded.version.subgroup for name, loaded in self.versions.items()}


class Loader:
    """Loads releases, sharing versions that are loaded already; safe to share between threads."""

    def __init__(self, source: Registry, trust: "Trust | None", device: Device | None = None) -> None:
        """Keeps the registry and the trust; nothing is loaded yet.

        Args:
            source: the registry.
            trust: the keys of which one must have signed each version; None asks for no signature.
            device: loads models; by default one thread of the processor.
        """
        self._source = source
        self._trust = trust
        self._device = device
        # What is loaded somewhere in this process; what nobody uses any more is not in it.
        self._loaded: WeakValueDictionary[tuple[str, int, str], LoadedVersion] = WeakValueDictionary()

    def load(self, release: Release) -> LoadedRelease:
        """Loads every version of a release.

        Raises:
            RegistryError, BundleError: a version cannot be read, is not signed, or cannot answer.
        """
        loaded = LoadedRelease(
            release,
            {version.subgroup.name: self._version(version) for version in release.versions},
            self._source.prevalence(release),
        )
        release_freed_memory()
        return loaded

    def _version(self, version: Version) -> LoadedVersion:
        key = version.model, version.number, version.digest
        if (known := self._loaded.get(key)) is not None:
            return known
        if self._trust is not None:
            who = self._source.require_signature(version, self._trust)
            log.info("version %d of %s is signed by %s", version.number, version.model, shown(who))
        loaded = LoadedVersion.of(version, self._source.bundle(version), self._device)
        warm_up(loaded)
        self._loaded[key] = loaded
        return loaded


def release_freed_memory() -> None:
    """Gives memory back to the system that loading has freed: of each model, twice its size."""
    with suppress(OSError, AttributeError):  # a C library without it
        ctypes.CDLL(None).malloc_trim(0)


def warm_up(loaded: LoadedVersion) -> None:
    """Warms a version up: runs its model and decides on a grey picture, so that a broken one fails here.

    A model of cases also gets a case with every fact and as many kinds of picture as it takes.

    Raises:
        GraphError: the model cannot run, or does not answer what its manifest says.
    """
    for question in _grey_questions(loaded.manifest):
        outputs = ask(loaded.graph, [question])
        pattern = question.given.pattern if question.given else None
        decide(outputs.probabilities[0], loaded.manifest, pattern=pattern, embedding=outputs.embedding[0])


def _grey_questions(manifest: BundleManifest) -> list[Question]:
    """A grey picture; for a model of cases also a case with every fact and each kind of picture it takes."""
    grey = np.full((1, manifest.picture.size, manifest.picture.size, 3), 128, dtype=np.uint8)
    if manifest.case is None:
        return [Question(grey)]
    case = manifest.case
    kinds = case.kinds[: case.slots] or (None,)
    facts = {fact.name: fact.write(fact.low if fact.kind == "number" else 0.0) or "" for fact in case.facts}
    whole = Question(np.repeat(grey, len(kinds), axis=0), read_given(case, kinds, facts))
    return [Question(grey, read_given(case, [None], {})), whole]


def card(loaded: LoadedRelease, alias: str) -> Card:
    """The model card of a loaded release, its global version first."""
    entries = [Entry.of(one.version, one.manifest) for one in loaded.versions.values()]
    return Card.model_validate(release_card(entries, release=loaded.release, alias=alias))


def card_page(shown: Card) -> str:
    """The HTML page of a model card, which loads nothing from elsewhere."""
    return page(shown.model_dump(mode="json"))
