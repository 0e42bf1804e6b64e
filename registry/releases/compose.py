"""The release that a promotion would make, and what gates are given of it: signers and outcomes."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine

from registry.attestation import check_attestation
from registry.bundle.labels import GLOBAL
from registry.bundle.manifest import BundleManifest
from registry.bundle.skin_tone import canonical_tone
from registry.database.connection import reading
from registry.database.queries import active_people, last_move
from registry.envelope import TRUSTED_KEYS
from registry.environment import OUTCOMES, outcomes_url
from registry.errors import InvalidName, ReleaseRefused
from registry.gates.gate import SubgroupOutcomes
from registry.names import not_found
from registry.outcomes.alarms import Monitoring, monitor
from registry.outcomes.store import OutcomeStore
from registry.people import Action, action_digest
from registry.records import MOVES, Person, Release, Version
from registry.releases.add import alike_among, subgroup_names
from registry.signed_versions import check_version, signatures_of_version
from registry.store import Store

if TYPE_CHECKING:
    from registry.signing_keys import Trust


@dataclass(frozen=True)
class Candidate:
    """The release that a promotion would make.

    Attributes:
        model: the model's name.
        alias: under which alias.
        named: the versions that the promotion names.
        before: the release that the alias points to, if any.
        versions: `named`, and those of `before` whose subgroup is neither among them nor in `without`.
        without: the subgroups that lose their own version, so that the global one answers.
        prevalence: of malignancy at the place, by subgroup, as stated with it or with the release before.
        prevalence_before: as stated with the release before.
    """

    model: str
    alias: str
    named: tuple[Version, ...]
    before: Release | None
    versions: tuple[Version, ...]
    without: tuple[str, ...] = ()
    prevalence: Mapping[str, float] = field(default_factory=dict)
    prevalence_before: Mapping[str, float] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The named versions as messages describe them."""
        numbers = ", ".join(str(version.number) for version in self.named)
        named = f"version{'s' if len(self.named) > 1 else ''} {numbers} of {self.model}"
        if not self.without:
            return named
        without = f"without a version for {', '.join(self.without)}"
        return f"{named} {without}" if self.named else f"{self.model} {without}"

    def approval(
        self, connection: Connection, *, over_gates: bool = False, before: int | None = None
    ) -> Action:
        """What is approved: exactly its bundles under its alias; with `over_gates`, although gates refuse.

        An approval weighs a release against the one that runs. So one from before the alias last moved, or a
        canary next to it ended, is none, be it by a rollback of the very release that was approved. With
        `before`, as it was before the event of this id.
        """
        bundles = sorted(version.digest for version in self.versions)
        facts: dict[str, Any] = {"alias": self.alias, "bundles": bundles}
        numbers = [str(one.number) for one in self.named]
        more = [f"--without {quote(name)}" for name in self.without]
        if self.states_prevalence:
            facts["prevalence"] = dict(self.prevalence)
            more += [f"--prevalence {quote(f'{name}={of!r}')}" for name, of in self.prevalence.items()]
        command = " ".join(["dermfed-registry approve", self.model, *numbers, *more, "--to", self.alias])
        title = self.title
        if over_gates:
            facts, command = {**facts, "over_gates": True}, f"{command} --override-gates"
            title = f"overriding the gates for {title}"
        moved = last_move(connection, self.model, self.alias, (*MOVES, "canary-ended"), before=before)
        return Action(title, action_digest(facts), command, self.model, self.alias, moved)

    @property
    def changes_nothing(self) -> bool:
        """Whether the alias points to exactly these versions already, with this prevalence."""
        same = self.before is not None and self.before.versions == self.versions
        return same and not self.states_prevalence

    @property
    def states_prevalence(self) -> bool:
        """Whether another prevalence is stated than with the release before."""
        return self.prevalence != self.prevalence_before

    def subgroups(self, manifests: Mapping[int, BundleManifest]) -> list[str]:
        """Those that it answers for by themselves: of other people no tone is known.

        Args:
            manifests: of its versions, by number.
        """
        own = {one.subgroup.name for one in self.versions}
        tested = {
            each.name for one in manifests.values() for each in one.named_subgroups if one.subgroup.is_global
        }
        return sorted((own | tested) - {GLOBAL})


def compose(
    model: str, alias: str, named: Sequence[Version], before: Release | None, without: Sequence[str] = ()
) -> Candidate:
    """Composes a candidate: the `named` versions replace those of `before` for the same subgroups.

    Args:
        model: the model's name.
        alias: under which alias.
        named: the versions to promote.
        before: the release that the alias points to.
        without: subgroups whose version in `before` is left out.

    Raises:
        NotFound: `before` has no version for a subgroup that is to be left out.
        ReleaseRefused: no version is named and none left out, two are named for one subgroup, or the global
            one is to be left out.
    """
    if not named and not without:
        raise ReleaseRefused(f"no version of {model} is named; name at least one, such as 1")
    chosen: dict[str, Version] = {}
    for version in named:
        other = chosen.setdefault(version.subgroup.name, version)
        if other != version:
            raise ReleaseRefused(
                f"versions {other.number} and {version.number} of {model} are both for "
                f"{version.subgroup.name}; name one version for each subgroup"
            )
    carried = {} if before is None else {one.subgroup.name: one for one in before.versions}
    for name in dict.fromkeys(without):
        _check_left_out(model, name, chosen, carried)
        del carried[name]
    versions = tuple({**carried, **chosen}.values())
    return Candidate(
        model,
        alias,
        tuple(chosen.values()),
        before,
        Release(0, model, versions).versions,
        tuple(dict.fromkeys(without)),
    )


def _check_left_out(
    model: str, name: str, chosen: Mapping[str, Version], carried: Mapping[str, Version]
) -> None:
    if name == GLOBAL:
        raise ReleaseRefused(
            f"a release of {model} cannot be without its version for everybody ({GLOBAL}), which answers "
            "whoever has none of their own; promote another, or `dermfed-registry stop` the alias"
        )
    if name in chosen:
        raise ReleaseRefused(
            f"version {chosen[name].number} of {model} is for {name}, which is to be without a version; "
            "name the version or leave the subgroup out, not both"
        )
    if name not in carried:
        own = [one for one in carried if one != GLOBAL]
        raise not_found("subgroup", name, own, of=f" with a version of its own in the release of {model}")


def check_integrity(candidate: Candidate, manifests: Mapping[int, BundleManifest]) -> None:
    """Checks that the versions of a candidate fit together; nothing overrides this.

    Args:
        candidate: the release.
        manifests: the manifest of each of its versions, by number.

    Raises:
        NotFound: a prevalence is stated for a subgroup that it does not know.
        ReleaseRefused: no version is global, two are for the same skin tone, their labels
            differ, or two subgroups have names that look alike.
    """
    _one_for_everybody(candidate)
    _each_tone_once(candidate)
    _same_labels(candidate, manifests)
    _names_apart(candidate, manifests)
    known = candidate.subgroups(manifests)
    for name in candidate.prevalence if candidate.states_prevalence else ():
        if name not in known:
            raise not_found("subgroup", name, known, of=f" that {candidate.title} would answer for")


def check_prevalence(prevalence: Mapping[str, float]) -> None:
    """Checks a stated prevalence, by subgroup.

    Raises:
        InvalidName: one is no share.
    """
    for name, share in prevalence.items():
        if not 0 < share < 1:
            raise InvalidName(
                f"the prevalence {share:g} for {name} is not between 0 and 1; state the share of lesions at "
                "the place that are malignant, such as 0.08"
            )


def _one_for_everybody(candidate: Candidate) -> None:
    if not any(version.subgroup.is_global for version in candidate.versions):
        named = ", ".join(f"{one.number} ({one.subgroup.name})" for one in candidate.versions)
        why, else_ = (
            (", as nothing runs under this alias", ", or name the alias that is meant")
            if candidate.before is None
            else ("", "")
        )
        raise ReleaseRefused(
            f"the release of {candidate.model} would have no version for everybody, only {named}{why}; "
            f"promote a global version together with these, or before them{else_}"
        )


def _each_tone_once(candidate: Candidate) -> None:
    owners: dict[tuple[str, str], Version] = {}
    for version in candidate.versions:
        declared = [(scale, tone) for scale, tones in version.subgroup.by_scale.items() for tone in tones]
        for scale, tone in dict.fromkeys(declared):
            other = owners.setdefault((scale, canonical_tone(tone, scale)), version)
            if other != version:
                raise ReleaseRefused(
                    f"versions {other.number} ({other.subgroup.name}) and {version.number} "
                    f"({version.subgroup.name}) of {candidate.model} both claim the skin tone {tone!r} "
                    f"of the scale {scale!r}; a tone belongs to one subgroup of a release"
                )


def _same_labels(candidate: Candidate, manifests: Mapping[int, BundleManifest]) -> None:
    first = candidate.versions[0]
    expected = [label.code for label in manifests[first.number].labels]
    for version in candidate.versions[1:]:
        codes = [label.code for label in manifests[version.number].labels]
        if codes != expected:
            raise ReleaseRefused(
                f"version {version.number} ({version.subgroup.name}) of {candidate.model} answers "
                f"{', '.join(codes)}, and version {first.number} ({first.subgroup.name}) answers "
                f"{', '.join(expected)}; all versions of a release have the same labels in the same order"
            )


def _names_apart(candidate: Candidate, manifests: Mapping[int, BundleManifest]) -> None:
    named = {name: one for one in candidate.versions for name in subgroup_names(manifests[one.number])}
    if pair := alike_among(list(named)):
        first, second = (f"{name!a} (version {named[name].number})" for name in pair)
        raise ReleaseRefused(
            f"the release of {candidate.model} would name the subgroups {first} and {second}, which look "
            "alike, and gates would judge each by itself; give them one name, or names that nobody takes for "
            "each other"
        )


def measurers(manifests: Sequence[BundleManifest]) -> dict[str, str]:
    """The fingerprint of the key that has signed the figures of each version, by the name of its subgroup.

    Only where the signature holds; whose key it is, the gate says.

    Raises:
        KeyUnusable: there is a signature, and the extra `sign` is missing.
    """
    return {
        one.subgroup.name: one.attestation.fingerprint
        for one in manifests
        if one.attestation is not None and check_attestation(one) == "signed"
    }


def signers(engine: Engine, store: Store, versions: Sequence[Version]) -> dict[str, tuple[str, ...]]:
    """The proven signers of each version of a release, by the name of its subgroup.

    Proven by the keys that `DERMFED_TRUSTED_KEYS` names and those of the people whom the registry knows: a
    certificate with any name can be made by anybody.

    Raises:
        KeyUnusable: a file holds no key.
        StoreError: a version's manifest is missing or altered.
    """
    with reading(engine) as connection:
        people = active_people(connection)
        signed = {one.number for one in versions if signatures_of_version(connection, one)}
    proven = {}
    for version in versions:
        checked = check_version(engine, store, version, _trust(people)) if version.number in signed else ()
        # Of a trusted key the key alone, not what a certificate around it says.
        valid = (one.identity for _, one in checked if one.verdict == "valid" and one.identity)
        proven[version.subgroup.name] = tuple(dict.fromkeys(valid))
    return proven


def _trust(people: Mapping[str, Person]) -> "Trust":
    from registry.signing_keys import read_public_key, read_trust, trust_in_keys  # it needs an extra

    files = [Path(file) for file in os.environ.get(TRUSTED_KEYS, "").split(os.pathsep) if file]
    keys = [
        read_public_key(one.public_key.encode(), f"the registry, of {one.name},") for one in people.values()
    ]
    return trust_in_keys(keys, read_trust(files) if files else None)


def outcomes_by_version(
    engine: Engine, model: str, numbers: Iterable[int], manifest_of: Callable[[int], BundleManifest | None]
) -> dict[int, tuple[SubgroupOutcomes, ...]]:
    """How these versions do in the field, by number: each of their subgroups, those of an open alarm too.

    `manifest_of` gives the manifest of any version: all that answer share the rate of false alarms.

    Raises:
        DatabaseError: outcomes cannot be read.
        InvalidName: no database of outcomes is named, or by no address.
    """
    url = outcomes_url(None)
    if url is None:
        raise InvalidName(f"{OUTCOMES} names no database")
    with OutcomeStore.open(url, create=False) as store:
        found = monitor(engine, store, model, manifest_of)
    return {number: tuple(_of_version(found, number)) for number in numbers}


def _of_version(found: Monitoring, number: int) -> Iterator[SubgroupOutcomes]:
    """How a version does with each subgroup, those too of which nothing but an alarm is left."""
    broken: dict[str, list[str]] = {}
    for one in found.open:
        if one.version == number:
            said = f"{one.of} of {one.least:.2f} or more, since {one.day}"
            broken.setdefault(one.subgroup, []).append(said)
    for seen in found.subgroups:
        if seen.version == number and seen.metrics is not None:
            share = seen.metrics.sensitivity.corrected
            ends = None if share.value is None else share.interval
            missed = tuple(broken.pop(seen.subgroup, ()))
            yield SubgroupOutcomes(seen.subgroup, seen.malignant or 0, ends, missed)
    for subgroup, alarms in sorted(broken.items()):
        yield SubgroupOutcomes(subgroup, 0, None, tuple(alarms))
