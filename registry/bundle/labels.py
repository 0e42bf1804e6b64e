"""Whom and what a model is about: its labels, the subgroups of skin tones, and the patients behind each tone.

Labels are the classes of a model, in the order of its outputs. The systems of codes of classes, and their
short names:

| short name | system | as FHIR names it |
| --- | --- | --- |
| `icd10` | ICD-10 of the World Health Organization | `http://hl7.org/fhir/sid/icd-10` |
| `icd10cm` | ICD-10-CM, the modification of the United States | `http://hl7.org/fhir/sid/icd-10-cm` |
| `snomed` | SNOMED CT | `http://snomed.info/sct` |

A subgroup is of skin tones that were declared on one scale, or on several.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from registry.bundle.frozen import Frozen
from registry.bundle.skin_tone import canonical_tone

Malignancy = Literal["malignant", "premalignant", "benign", "unknown"]


class Coding(Frozen):
    """What a class is called in another system.

    Attributes:
        system: the system's URI, as FHIR names it.
        version: its edition; None if unknown.
        code: the code there.
        display: the name that the system gives the code; the name of the class if unknown.
        certain: whether published lists agree on the code; else a terminologist has to look first.
    """

    system: str = Field(min_length=1)
    version: str | None = None
    code: str = Field(min_length=1)
    display: str = Field(min_length=1)
    certain: bool = False


class Label(Frozen):
    """One class of a model.

    Attributes:
        code: the short code in a model's answers (`MEL`).
        name: the name a clinician reads (`Melanoma`).
        malignancy: whether it is malignant. Only `malignant` counts towards the malignancy probability; a
            data set that treats a premalignant class as malignant labels it so.
        codings: codes of the class in other systems, see above.
        kind: of a malignant class, the kind of malignancy it is counted with; None for one of its own.
        group: the group of diagnoses that it is concluded with where it is not sure which; None for none.
    """

    code: str = Field(min_length=1)
    name: str = Field(min_length=1)
    malignancy: Malignancy = "unknown"
    codings: tuple[Coding, ...] = ()
    kind: str | None = Field(None, min_length=1)
    group: str | None = Field(None, min_length=1)

    @model_validator(mode="after")
    def _kind_of_malignancy(self) -> "Label":
        if self.kind is not None and self.malignancy != "malignant":
            raise ValueError(
                f"{self.code} is {self.malignancy} and has the kind of malignancy {self.kind!r}; only "
                "malignant classes have one"
            )
        return self


def malignant_classes(labels: Sequence[Label]) -> NDArray[np.bool_]:
    """Which classes are malignant, `(classes,)`.

    Premalignant classes are not (actinic keratosis is treated, but is no cancer yet), and neither
    are classes of unknown kind; a decision warns where a class of unknown kind leaves a doubt.
    """
    return np.array([label.malignancy == "malignant" for label in labels], dtype=np.bool_)


def kinds_of(labels: Sequence[Label]) -> tuple[str, ...]:
    """The kinds of malignancy of some classes, in their order, each once."""
    malignant = (label for label in labels if label.malignancy == "malignant")
    return tuple(dict.fromkeys(label.kind or label.name for label in malignant))


def kind_of_each(labels: Sequence[Label]) -> NDArray[np.int64]:
    """The place of each class in `kinds_of`, `(classes,)`; -1 of one that is not malignant."""
    kinds = kinds_of(labels)
    of_each = [
        kinds.index(label.kind or label.name) if label.malignancy == "malignant" else -1 for label in labels
    ]
    return np.array(of_each, dtype=np.int64)


ICD10: Final = "http://hl7.org/fhir/sid/icd-10"
ICD10_CM: Final = "http://hl7.org/fhir/sid/icd-10-cm"
SNOMED_CT: Final = "http://snomed.info/sct"

SYSTEMS: Final[Mapping[str, str]] = {"icd10": ICD10, "icd10cm": ICD10_CM, "snomed": SNOMED_CT}
"""The URI of the system behind each short name."""


def short(codings: tuple[Coding, ...]) -> dict[str, str]:
    """The codes by the short names of their systems."""
    return {key: one.code for key, system in SYSTEMS.items() for one in codings if one.system == system}


Counted = Literal["calibration", "test"]
"""The parts of the data whose patients a bundle counts by skin tone."""

Patients = Annotated[int, Field(ge=1)]

GLOBAL = "global"
"""The subgroup of the model that answers for everybody."""

UNDECLARED: Final = "undeclared"
"""The name, in figures, of the pictures of no declared subgroup."""


class Subgroup(Frozen):
    """The subgroup that a model is for.

    Attributes:
        name: the subgroup's name; `global` is the global model.
        scale: the scale of the skin tones below; None for the global model, and for one of several scales.
        values: the declared skin tones that are this subgroup; empty for the global model, and for one of
            several scales.
        tones: of a subgroup of several scales the declared skin tones that are it, by scale; else empty, and
            then not written.
    """

    name: str = Field(GLOBAL, min_length=1)
    scale: str | None = None
    values: tuple[str, ...] = ()
    tones: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)

    @classmethod
    def of_tones(cls, name: str, tones: Mapping[str, Sequence[str]]) -> "Subgroup":
        """The subgroup of these values of one scale or of several."""
        if len(tones) == 1:
            ((scale, values),) = tones.items()
            return cls(name=name, scale=scale, values=tuple(values))
        return cls(name=name, tones={scale: tuple(values) for scale, values in tones.items()})

    @property
    def is_global(self) -> bool:
        """Whether it is the global model."""
        return self.name == GLOBAL

    @property
    def by_scale(self) -> Mapping[str, tuple[str, ...]]:
        """The declared skin tones that are this subgroup, by scale: of one scale, of several, or none."""
        return self.tones if self.scale is None else {self.scale: self.values}

    @property
    def described(self) -> str:
        """Its skin tones as sentences name them: `5, 6 (fitzpatrick) or 0, 1 (milk10k)`."""
        return " or ".join(f"{', '.join(values)} ({scale})" for scale, values in self.by_scale.items())

    def covers(self, skin_tone: str | None, scale: str | None) -> bool:
        """Whether a tone declared on a scale is this subgroup's; `V` and `5` are one Fitzpatrick type.

        It is one on any scale that the subgroup names; no tone is converted from one to another.
        """
        if skin_tone is None or scale is None:
            return False
        known = {canonical_tone(value, scale) for value in self.by_scale.get(scale, ())}
        return canonical_tone(skin_tone, scale) in known

    def __hash__(self) -> int:
        """By all fields, of which a mapping has no hash of its own."""
        return hash((self.name, self.scale, self.values, tuple(sorted(self.tones.items()))))

    @model_validator(mode="after")
    def _tones_unless_global(self) -> "Subgroup":
        if self.is_global and (self.scale is not None or self.values or self.tones):
            raise ValueError(f"the `{GLOBAL}` model is for everybody; it has no scale and no values")
        if not self.is_global and not self.tones and (self.scale is None or not self.values):
            raise ValueError(f"subgroup {self.name} needs the scale and the values of its skin tones")
        if self.tones and (self.scale is not None or self.values):
            raise ValueError(
                f"subgroup {self.name} has `tones` for several scales, and `scale` and `values` for one; a "
                "bundle names either"
            )
        if self.tones and (len(self.tones) < 2 or not all(self.tones.values())):
            raise ValueError(
                f"the `tones` of subgroup {self.name} are values of two scales or more; those of "
                "one scale are its `scale` and `values`"
            )
        return self

    @model_serializer(mode="wrap")
    def _one_scale_is_written_as_ever(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        plain: dict[str, Any] = handler(self)
        for name in ("scale", "values") if self.tones else ("tones",):
            plain.pop(name, None)
        return plain


class TonePatients(Frozen):
    """How many patients of each skin tone a subgroup's calibration and test rest on, by scale and tone.

    A tone without a number is not represented: no hospital had enough patients of it to tell of, or none had
    any. Numbers are lower bounds: a hospital with too few patients of a tone is not in them, and one whose
    number would give away another tells that it has at least the least number.

    Attributes:
        calibration: the patients that temperature and thresholds rest on.
        test: the patients that the test figures rest on.
    """

    calibration: Mapping[str, Mapping[str, Patients]] = Field(default_factory=dict)
    test: Mapping[str, Mapping[str, Patients]] = Field(default_factory=dict)

    def count(self, part: Counted, skin_tone: str, scale: str) -> int | None:
        """The patients of a declared tone behind a part; None where it is not represented."""
        counts = self.calibration if part == "calibration" else self.test
        return counts.get(scale, {}).get(canonical_tone(skin_tone, scale))

    def of(self, subgroup: Subgroup) -> "TonePatients":
        """The numbers of the tones of one subgroup."""

        def own(counts: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
            kept = {
                scale: {tone: n for tone, n in counts.get(scale, {}).items() if subgroup.covers(tone, scale)}
                for scale in subgroup.by_scale
            }
            return {scale: tones for scale, tones in kept.items() if tones}

        return TonePatients(calibration=own(self.calibration), test=own(self.test))


@dataclass(frozen=True)
class ClaimedTone:
    """A skin tone that a subgroup is for, with the patients behind it; None where it is not represented.

    Attributes:
        subgroup: the subgroup's name.
        scale: the scale of the tone.
        tone: as the scale spells it.
        calibration: patients of the tone in the calibration.
        test: patients of the tone in the test.
    """

    subgroup: str
    scale: str
    tone: str
    calibration: int | None
    test: int | None

    @property
    def called(self) -> str:
        """The tone as sentences name it: `6 (fitzpatrick)`."""
        return f"{self.tone} ({self.scale})"


def claimed_tones(subgroups: Iterable[Subgroup], counted: TonePatients | None) -> tuple[ClaimedTone, ...]:
    """Every tone of some subgroups, each with its patients."""
    counted = counted or TonePatients()
    return tuple(
        ClaimedTone(
            subgroup.name,
            scale,
            canonical_tone(tone, scale),
            counted.count("calibration", tone, scale),
            counted.count("test", tone, scale),
        )
        for subgroup in subgroups
        for scale, tones in subgroup.by_scale.items()
        for tone in tones
    )
