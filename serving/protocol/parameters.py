"""The parameters of a diagnosis request, read from the query and the form.

Facts about a patient are taken from the form alone: an address is written into the logs of every proxy on its
way. Which facts there are is the model's to say, so that a field of a form that is no parameter is kept until
the model is known.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from pydantic import BaseModel, Field

from registry.bundle.cases import KINDS, KNOWN, GivenCase, Kind, read_given, read_kind
from registry.bundle.diagnose import kinds_of
from registry.bundle.manifest import BundleManifest
from registry.bundle.skin_tone import SCALES, read_scale, read_tone
from registry.bundle.text import nearest
from serving.protocol.problems import InvalidParameter

FORMAT: Final = "_format"
"""A parameter of the query that says in which form the answer is to be; `serving.fhir` reads it."""

DEFAULT_SCALE: Final = "fitzpatrick"
MAX_TOP: Final = 1000

# Nothing that is valid is longer; what is longer need not be quoted whole.
_LONGEST = 200


class Asked(BaseModel):
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
    model: str = Field(description="The model to ask, where several are served.", examples=["skin-lesion"])
    top: Annotated[int, Field(ge=1, le=MAX_TOP)] | Literal[""] = Field(
        description="List only so many findings.", examples=[3]
    )
    image_kind: str = Field(
        description="Of what kind the picture `image` or the body is, where the model takes cases.",
        json_schema_extra={"enum": [*KINDS, "unknown", ""]},
        examples=["close-up"],
    )
    explain: Literal["true", "false", ""] = Field(
        description="With `true` the answer has a map of where in each picture the model looked, as "
        "`explanation`; one in FHIR has none.",
        examples=["true"],
    )


NAMES: Final = tuple(Asked.model_fields)


@dataclass(frozen=True)
class Parameters:
    """The validated parameters of a diagnosis request.

    Attributes:
        skin_tone: the declared tone as the scale spells it; None where none was declared.
        skin_tone_scale: its scale.
        model: the model asked for, if any.
        top: how many findings to list; None for all.
        image_kind: of what kind the picture `image` is; None where nobody said it.
        facts: what else the form says, by name: facts, if the model takes them.
        explain: whether a map of where the model looked is asked for.
    """

    skin_tone: str | None = None
    skin_tone_scale: str = DEFAULT_SCALE
    model: str | None = None
    top: int | None = None
    image_kind: Kind | None = None
    facts: Mapping[str, str] = field(default_factory=dict, repr=False)
    explain: bool = False


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
    )


def one_value_each(items: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The value of each name, without space around it; a name that is given again has to say the same.

    Programs that were generated from the description send a parameter in the query and in the form.

    Raises:
        InvalidParameter: two values of one name, of which nobody can say which is meant.
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
        facts: what the form says beside the parameters; an empty value counts as none.

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
