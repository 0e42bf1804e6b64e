"""Composes the release that a promotion would make, and checks that its versions fit together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from registry.bundle.manifest.schema import GLOBAL, BundleManifest
from registry.bundle.skin_tone.scales import canonical_tone
from registry.errors import ReleaseRefused
from registry.names import not_found
from registry.people.approvals import action_digest
from registry.records import Release, Version
from registry.releases.validate_bundle import alike_among, subgroup_names


@dataclass(frozen=True)
class Candidate:
    """The release that a promotion would make.

    Attributes:
        model: the model's name.
        named: the versions that the promotion names.
        before: the release that the alias points to, if any.
        versions: `named`, and those of `before` whose subgroup is neither among them nor in `without`.
        without: the subgroups that lose their own version, so that the global one answers.
    """

    model: str
    named: tuple[Version, ...]
    before: Release | None
    versions: tuple[Version, ...]
    without: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The named versions as messages describe them."""
        numbers = ", ".join(str(version.number) for version in self.named)
        named = f"version{'s' if len(self.named) > 1 else ''} {numbers} of {self.model}"
        if not self.without:
            return named
        without = f"without a version for {', '.join(self.without)}"
        return f"{named} {without}" if self.named else f"{self.model} {without}"

    def digest(self, alias: str, *, over_gates: bool = False) -> str:
        """The digest that an approval is for: of the bundles of the whole release, and the alias.

        With `over_gates`, that of the same although gates refuse it.
        """
        named: dict[str, Any] = {
            "alias": alias,
            "bundles": sorted(version.digest for version in self.versions),
        }
        return action_digest({**named, "over_gates": True} if over_gates else named)

    @property
    def changes_nothing(self) -> bool:
        """Whether the alias points to exactly these versions already."""
        return self.before is not None and self.before.versions == self.versions


def compose(
    model: str, named: Sequence[Version], before: Release | None, without: Sequence[str] = ()
) -> Candidate:
    """Composes a candidate: the `named` versions replace those of `before` for the same subgroups.

    Args:
        model: the model's name.
        named: the versions to promote.
        before: the release that the alias points to.
        without: subgroups whose version in `before` is left out.

    Raises:
        NotFound: `before` has no version for a subgroup that is to be left out.
        ReleaseRefused: no version is named and none left out, two are named for one subgroup, or the one
            for everybody is to be left out.
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
        ReleaseRefused: no version is for everybody, two are for the same skin tone, their labels
            differ, or two subgroups have names that look alike.
    """
    _one_for_everybody(candidate)
    _each_tone_once(candidate)
    _same_labels(candidate, manifests)
    _names_apart(candidate, manifests)


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
