"""The parameters of a diagnosis request, and which version of a release answers for the declared skin tone.

Facts about a patient are taken from the form alone: an address is written into the logs of every proxy on its
way. Which facts there are is the model's to say, so that a field of a form that is no parameter is kept until
the model is known.

| declared | route | who answers |
| --- | --- | --- |
| no tone | `unknown-tone` | global |
| a tone of which the calibration had too few patients, or none | `unknown-tone` | global |
| a tone on a scale that no subgroup of the release names | `other-scale` | global |
| another tone that belongs to no subgroup with a version | `no-model-for-subgroup` | global |
| a tone of a subgroup with a version | `declared` | the subgroup's |

A subgroup may name values of several scales: a tone declared on any of them is its own. Scales are never
converted into each other.

A subgroup's version answers for the tones that its calibration has seen, by the bundle's numbers of patients
(`patients_by_tone`): its metrics were not measured on any other tone of the subgroup. Such a route has the
reason `tone-not-represented`; the reasons of all other routes have the names of the routes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, get_args

from pydantic import Field

from registry.bundle.cases import KINDS, KNOWN, GivenCase, Kind, read_given, read_kind
from registry.bundle.diagnose import kinds_of
from registry.bundle.labels import GLOBAL, UNDECLARED, Subgroup
from registry.bundle.manifest import BundleManifest
from registry.bundle.skin_tone import SCALES, read_scale, read_tone
from registry.bundle.text import nearest
from serving.protocol.fields import Described
from serving.protocol.problems import InvalidParameter

FORMAT: Final = "_format"
"""A parameter of the query that says in which form the answer is to be; read in `negotiation`."""

DEFAULT_SCALE: Final = "fitzpatrick"
MAX_TOP: Final = 1000

# Nothing that is valid is longer; what is longer need not be quoted whole.
_LONGEST = 200


class Asked(Described):
    """How the parameters are described; `read_parameters` reads them.

    No parameter has a `default`: generated clients would send it in the query against what their users put
    into the form.
    """

    skin_tone: str = Field(
        description="The declared skin tone ({}; fitzpatrick also I to VI).".format(
            "; ".join(f"{name}: {', '.join(values)}" for name, values in SCALES.items())
        ),
        examples=["V"],
    )
    skin_tone_scale: str = Field(
        description=f"The scale it is declared on, {DEFAULT_SCALE} where none is named; scales are never "
        "converted.",
        json_schema_extra={"enum": [*SCALES, ""]},
        examples=["fitzpatrick"],
    )
    model: str = Field(examples=["skin-lesion"])
    """The model to ask, where several are served."""
    top: Annotated[int, Field(ge=1, le=MAX_TOP)] | Literal[""] = Field(examples=[3])
    """List only so many findings."""
    image_kind: str = Field(json_schema_extra={"enum": [*KINDS, "unknown", ""]}, examples=["close-up"])
    """Of what kind the picture `image` or the body is, where the model takes cases."""
    frame: str = Field(json_schema_extra={"pattern": "^([1-9][0-9]{0,8}|all)?$"}, examples=["1"])
    """Of a DICOM file that holds several frames the one that is meant, from 1 on; or `all`: each is a picture
    of the lesion, where the model takes cases."""
    explain: Literal["true", "false", ""] = Field(examples=["true"])
    """With `true` the answer has a map of where in each picture the model looked, as `explanation`; one in
    FHIR has none."""


NAMES: Final = tuple(Asked.model_fields)
ALL_FRAMES: Final = 0
"""In place of a frame's number: each frame is a picture of the lesion."""


@dataclass(frozen=True)
class Parameters:
    """The validated parameters of a diagnosis request.

    Attributes:
        skin_tone: the declared tone as the scale spells it; None where none was declared.
        skin_tone_scale: its scale.
        model: the model asked for, if any.
        top: how many findings to list; None for all.
        image_kind: of what kind the picture `image` is; None where it was not sent.
        facts: what else the form says, by name: facts, if the model takes them.
        explain: whether a map of where the model looked is asked for.
        frame: of a file that holds several the one that is meant; `ALL_FRAMES` for each.
    """

    skin_tone: str | None = None
    skin_tone_scale: str = DEFAULT_SCALE
    model: str | None = None
    top: int | None = None
    image_kind: Kind | None = None
    facts: Mapping[str, str] = field(default_factory=dict, repr=False)
    explain: bool = False
    frame: int | None = None


def read_parameters(query: Sequence[tuple[str, str]], form: Mapping[str, str]) -> Parameters:
    """Reads and validates the parameters of a request; an empty value counts as none.

    Raises:
        InvalidParameter: an unknown name in the query, two values of one name, or one that is not allowed.
    """
    given = {name: value[:_LONGEST] for name, value in one_value_each([*query, *form.items()]).items()}
    for name, _ in query:
        if name in KNOWN:
            raise InvalidParameter(
                f"`{name}` is a fact about a patient, which an address would leave in logs; send it as a "
                "field of a form"
            )
        if name not in (*NAMES, FORMAT):
            raise _unknown(name, NAMES)
    tone, scale = _tone(given.get("skin_tone", ""), given.get("skin_tone_scale", ""))
    try:
        kind = read_kind(given.get("image_kind", ""))
    except ValueError as error:
        raise InvalidParameter(f"`image_kind`: {error}") from error
    facts = {name: value for name, value in given.items() if name not in (*NAMES, FORMAT)}
    return Parameters(
        tone,
        scale,
        given.get("model") or None,
        _top(given.get("top", "")),
        kind,
        facts,
        _explain(given.get("explain", "")),
        _frame(given.get("frame", "")),
    )


def one_value_each(items: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The value of each name, without space around it; a name that is repeated must have the same value.

    Clients generated from the OpenAPI description send a parameter in the query and in the form.

    Raises:
        InvalidParameter: a name has two different values.
    """
    given: dict[str, str] = {}
    for name, value in items:
        if given.setdefault(name, value.strip()) != value.strip():
            raise InvalidParameter(f"`{name[:_LONGEST]}` is given twice, with two values; give it once")
    return given


def read_case(
    manifest: BundleManifest,
    pictures: Sequence[bytes],
    kinds: Sequence[Kind | None],
    facts: Mapping[str, str],
) -> GivenCase | None:
    """What is given of a case, as the model takes it; None for a model of single pictures.

    Args:
        manifest: of the version that answers.
        pictures: the bytes of each.
        kinds: of the pictures, as far as the sender says it.
        facts: the form's fields that are not parameters; an empty value counts as none.

    Raises:
        InvalidParameter: the model does not take it.
    """
    case = manifest.case
    names = (*NAMES, *(case.fact_names if case else ()))
    for name in facts:
        if name not in names and name not in KNOWN:
            raise _unknown(name, names)
    try:
        return read_given(
            case, kinds_of(pictures, kinds, case), {name: value for name, value in facts.items() if value}
        )
    except ValueError as error:
        raise InvalidParameter(str(error)) from error


def _unknown(name: str, names: Sequence[str]) -> InvalidParameter:
    shown = name[:_LONGEST]
    hint = nearest(shown, names)
    return InvalidParameter(f"there is no parameter `{shown}`; {hint}")


def _tone(tone: str, scale: str) -> tuple[str | None, str]:
    try:
        name = read_scale(scale or DEFAULT_SCALE)
        return (read_tone(tone, name) if tone else None), name
    except ValueError as error:
        raise InvalidParameter(str(error)) from error


def _top(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= MAX_TOP):
        raise InvalidParameter(f"`top` is {text[:40]!r}; it is a whole number from 1 to {MAX_TOP}")
    return int(text)


def _explain(text: str) -> bool:
    said = {"": False, "false": False, "true": True}
    if text.lower() not in said:
        raise InvalidParameter(f"`explain` is {text[:40]!r}; it is `true` or `false`")
    return said[text.lower()]


def _frame(text: str) -> int | None:
    if text in ("", "all"):
        return ALL_FRAMES if text else None
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) < 10**9):
        raise InvalidParameter(f"`frame` is {text[:40]!r}; it is a whole number from 1 on, or `all`")
    return int(text)


Route = Literal["declared", "unknown-tone", "other-scale", "no-model-for-subgroup"]
ROUTES: tuple[Route, ...] = get_args(Route)

RouteReason = Literal[
    "declared", "unknown-tone", "other-scale", "no-model-for-subgroup", "tone-not-represented"
]
ROUTE_REASONS: tuple[RouteReason, ...] = get_args(RouteReason)
"""Why a route was taken: the code of a diagnosis's last reason."""


@dataclass(frozen=True)
class Routed:
    """The subgroup whose version answers, and why."""

    subgroup: str
    reason: RouteReason

    @property
    def route(self) -> Route:
        """By which route."""
        return route_of(self.reason)


def route_of(reason: RouteReason) -> Route:
    """The route that has this reason."""
    return "unknown-tone" if reason == "tone-not-represented" else reason


def select_subgroup(versions: Mapping[str, BundleManifest], skin_tone: str | None, scale: str) -> Routed:
    """Selects the subgroup whose version of a release answers for a declared tone.

    Args:
        versions: the manifest of each version of the release, by its subgroup; `global` is always there.
        skin_tone: the declared tone, if any.
        scale: the scale it is declared on.
    """
    if skin_tone is None:
        return Routed(GLOBAL, "unknown-tone")
    own = {name: one for name, one in versions.items() if not one.subgroup.is_global}
    for name, manifest in own.items():
        if manifest.subgroup.covers(skin_tone, scale):
            represented = manifest.represents(manifest.subgroup, skin_tone, scale)
            return Routed(name, "declared") if represented else Routed(GLOBAL, "tone-not-represented")
    everybody = versions[GLOBAL]
    named = (*everybody.named_subgroups, *(manifest.subgroup for manifest in own.values()))
    if not any(subgroup.by_scale for subgroup in named):
        return Routed(GLOBAL, "no-model-for-subgroup")
    if all(scale not in subgroup.by_scale for subgroup in named):
        return Routed(GLOBAL, "other-scale")
    counted = everybody.patients_by_tone
    if counted is None or counted.count("calibration", skin_tone, scale) is None:
        return Routed(GLOBAL, "tone-not-represented")
    return Routed(GLOBAL, "no-model-for-subgroup")


def subgroup_of(
    versions: Mapping[str, Subgroup], everybody: BundleManifest, skin_tone: str | None, scale: str
) -> str:
    """The subgroup of a declared tone, as metrics and canaries call it: one of a closed list.

    The subgroup of a version of the release that is for this tone; else the subgroup that the global model
    was tested on; else the tone itself, with its scale.
    """
    if skin_tone is None:
        return UNDECLARED
    tested = everybody.reference.by_subgroup if everybody.reference else ()
    for subgroup in (*versions.values(), *(one.subgroup for one in tested)):
        if subgroup.covers(skin_tone, scale):
            return subgroup.name
    return f"{scale} {skin_tone}"
