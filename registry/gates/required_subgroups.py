"""The gates on who was in the data: `required_subgroups`, and `tones` for each skin tone of a subgroup.

`required_subgroups`: each of them was tested on at least `malignant` malignant pictures.

Groups seem equal where nothing malignant was tested in any of them, and one that is in no test seems to fare
like the others: both are refused here. Asked for are `subgroups`; where none is named, those that the tests
of the release name, and those that they call absent. Where they name none, all test pictures count as
`global`.

A bundle that does not tell how many were malignant is refused, and has to be tested again.
Where every label says that it is not malignant the gate does not apply; where some say nothing it refuses.

A name is not enough: a subgroup called `dark` over light tones would stand for it. `tones` says over which
tones a subgroup is, at least; where the running release has one of the same name, it has to be over the same.

`tones` asks by scale value, since a subgroup of four tones may have seen three: of every tone that a subgroup
names, calibration and test have so many patients, by the bundle's `patients_by_tone`. A bundle that does not
tell them is refused.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from registry.bundle.labels import ClaimedTone
from registry.bundle.manifest import BundleManifest
from registry.bundle.metrics.patient import PatientFigures
from registry.bundle.skin_tone import canonical_tone
from registry.gate_report import OVERRIDE, GateFinding, GateResult, worst_of
from registry.gates.gate import Case, GateConfig, for_everybody, for_patients
from registry.gates.threshold import counted, without_malignant


class RequiredSubgroupsGate(GateConfig):
    """Who must be in the test, and with how many malignant pictures."""

    name: Literal["required_subgroups"] = "required_subgroups"
    malignant: int = Field(ge=1)  # malignant test pictures of each subgroup
    subgroups: tuple[str, ...] = ()  # those asked for; none: all that the tests name
    tones: Mapping[str, Mapping[str, tuple[str, ...]]] = Field(default_factory=dict)  # by subgroup and scale

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        asked = (
            ", ".join(dict.fromkeys([*self.subgroups, *self.tones])) or "every subgroup that the tests name"
        )
        return f"malignant test pictures of {asked}: at least {self.malignant} each"

    def judge(self, case: Case) -> GateResult:
        """What the gate says of a release."""
        none = "so there are no malignant pictures to test on"
        if (said := without_malignant(self.name, case.manifests, self.malignant, none)) is not None:
            return said
        if (said := self._other_tones(case)) is not None:
            return said
        rows = for_patients(case.manifests)
        names = tuple(dict.fromkeys([*self.subgroups, *self.tones])) or tuple(counted(case.manifests))
        findings = tuple(self._finding(name, rows.get(name)) for name in names)
        few = [one for one in findings if one.verdict == "refused"]
        if few:
            named = ", ".join(one.subgroup for one in few)
            detail = (
                f"there are {', '.join(map(_said, few))}; at least {self.malignant} of each are asked for. "
                f"Test on more malignant pictures of {named}{_anew(few)}, {OVERRIDE}"
            )
        else:
            fewest = min(findings, key=lambda one: one.value or 0.0)
            detail = f"the fewest are {_said(fewest)}; at least {self.malignant} of each are asked for"
        known = [one.value for one in findings if one.value is not None]
        return GateResult(
            gate=self.name,
            verdict=worst_of(findings),
            value=min(known) if known else None,
            limit=self.malignant,
            untested=tuple(one.subgroup for one in findings if not one.value),
            findings=findings,
            detail=detail,
        )

    def _other_tones(self, case: Case) -> GateResult | None:
        """The refusal of subgroups called as those asked for that are over other tones; None without."""
        known, before = tones_by_name(case.manifests), tones_by_name(case.running) if case.running else {}
        other: dict[str, str] = {}
        for name, scales in self.tones.items():
            asked = _pairs(scales)
            if not asked <= known.get(name, frozenset()):
                other[name] = f"{_named(known.get(name))}, and is asked for over {_named(asked)}"
        for name, tones in before.items():
            if name in known and name not in other and known[name] != tones:
                other[name] = f"{_named(known[name])}, and over {_named(tones)} in the running release"
        if not other:
            return None
        said = "; ".join(f"subgroup {name} is over {told}" for name, told in other.items())
        return GateResult(
            gate=self.name,
            verdict="refused",
            limit=self.malignant,
            findings=tuple(
                GateFinding(subgroup=name, measure="skin tones", verdict="refused", note=f"over {told}")
                for name, told in other.items()
            ),
            detail=f"{said}. Call it by another name, or test on these tones, {OVERRIDE}",
        )

    def _finding(self, name: str, row: PatientFigures | None) -> GateFinding:
        n = 0 if row is None else row.n_malignant
        note = "never tested" if row is None else "never counted" if n is None else ""
        return GateFinding(
            subgroup=name,
            measure="malignant test pictures",
            value=n,
            bound="at least",
            limit=self.malignant,
            verdict="refused" if n is None or n < self.malignant else "passed",
            note=note,
        )


class TonesGate(GateConfig):
    """How many patients of every skin tone that a subgroup names calibration and test must have."""

    name: Literal["tones"] = "tones"
    patients: int = Field(10, ge=1)  # of each tone, in the calibration and in the test

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        return (
            f"patients of every skin tone that a subgroup names: at least {self.patients} in its "
            "calibration, and as many in its test"
        )

    def judge(self, case: Case) -> GateResult:
        """What the gate says of a release."""
        own = {one.subgroup.name for one in case.manifests if not one.subgroup.is_global}
        claims = {
            (one.subgroup, one.scale, one.tone): (one, manifest)
            for manifest in case.manifests
            for one in manifest.claimed_tones
            if not (manifest.subgroup.is_global and one.subgroup in own)
        }
        if not claims:
            return GateResult(
                gate=self.name,
                verdict="not applicable",
                limit=self.patients,
                detail="no subgroup of the release names a skin tone",
            )
        findings = tuple(
            self._finding(one, part, n)
            for one, _ in claims.values()
            for part, n in (("calibration", one.calibration), ("test", one.test))
        )
        silent = sorted({one.subgroup.name for _, one in claims.values() if one.patients_by_tone is None})
        few = [one for one, _ in claims.values() if min(one.calibration or 0, one.test or 0) < self.patients]
        if silent:
            detail = (
                f"the bundle of {', '.join(silent)} does not tell how many patients of each skin tone stand "
                "behind calibration and test (patients_by_tone). Train it again with this dermfed, "
                f"{OVERRIDE}"
            )
        elif few:
            named = ", ".join(f"{one.called} in {one.subgroup}" for one in few)
            detail = (
                f"fewer than {self.patients} patients, as far as hospitals may tell of them, are in "
                f"calibration or test of skin tone {named}. Leave these tones out of data.subgroups or bring "
                f"more patients, and train again, {OVERRIDE}"
            )
        else:
            detail = f"every skin tone has at least {self.patients} patients in calibration and test"
        known = [one.value for one in findings if one.value is not None]
        return GateResult(
            gate=self.name,
            verdict=worst_of(findings),
            value=min(known) if known else None,
            limit=self.patients,
            untested=tuple(dict.fromkeys(one.subgroup for one in few)),
            findings=findings,
            detail=detail,
        )

    def _finding(self, one: ClaimedTone, part: str, n: int | None) -> GateFinding:
        return GateFinding(
            subgroup=one.subgroup,
            measure=f"patients of skin tone {one.called} in {part}",
            value=n,
            bound="at least",
            limit=self.patients,
            verdict="refused" if n is None or n < self.patients else "passed",
            note="too few to tell, or none" if n is None else "",
        )


Tones = frozenset[tuple[str, str]]
"""Scales and tones, each tone as its scale writes it."""


def tones_by_name(manifests: Sequence[BundleManifest]) -> dict[str, Tones]:
    """The tones of each subgroup of a release: of a version of its own, else as the global test has them."""
    tested = {one.name: one for one in for_everybody(manifests).named_subgroups}
    own = {one.subgroup.name: one.subgroup for one in manifests}
    return {name: _pairs(one.by_scale) for name, one in {**tested, **own}.items() if not one.is_global}


def _pairs(scales: Mapping[str, Sequence[str]]) -> Tones:
    return frozenset((scale, canonical_tone(tone, scale)) for scale in scales for tone in scales[scale])


def _named(tones: Tones | None) -> str:
    if not tones:
        return "no tones that the bundle tells"
    scales = sorted({scale for scale, _ in tones})
    return " or ".join(
        f"{', '.join(sorted(tone for own, tone in tones if own == scale))} ({scale})" for scale in scales
    )


def _said(finding: GateFinding) -> str:
    if finding.value is None:
        return f"malignant test pictures of {finding.subgroup} that were never counted"
    return f"{finding.value:.0f} malignant test pictures of {finding.subgroup}"


def _anew(few: list[GateFinding]) -> str:
    """What helps where a bundle does not tell."""
    return " (they were not counted: test again)" if any(one.value is None for one in few) else ""
