"""What the page shows of an answer: its head, its metrics, what it rests on, and where the model looked.

`report` says that the model is sure, and not that the lesion is harmless. So a reported malignancy is said
first and looks like a referral, and nothing at all looks like an all-clear.

A picture is a small copy of what the model saw, at its position in the picture that was sent: what was cut
off is grey. It is returned to its sender only, within the page.
"""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from registry.bundle.manifest import Guarantee
from registry.bundle.pictures.rule import Placement, frame_size, pixel_box
from serving.protocol.schemas import Diagnosis, MissingInput, headline, shown
from serving.web.rendering import NOT_KNOWN, percent, plain

_TITLES: Final[Mapping[str, str]] = {
    "report": "Report",
    "refer": "Refer",
    "retake": "Take another picture",
}
_SENTENCES: Final[Mapping[str, str]] = {
    "report": "The model is confident enough for this answer to be reported to a clinician.",
    "refer": "The model is not sure enough. A clinician has to see the lesion.",
    "retake": "This picture cannot be judged.",
}
_NO_DIAGNOSIS: Final = "The model is not sure enough of a diagnosis."
_NO_ALL_CLEAR: Final = "This is no all-clear: the model can be wrong. A clinician has to judge the lesion."
_SAYS_NOTHING: Final = "A referral says nothing about how dangerous the lesion is."

SERIOUS: Final = ("malignant", "premalignant")
"""The kinds of disease for which a report looks like a referral."""


@dataclass(frozen=True)
class Verdict:
    """The head of an answer.

    Attributes:
        triage: who has to see the lesion; None without triage.
        shown: what triage rests on, a sentence each.
        title: the decision, in a word or two.
        found: the disease that is reported, and how likely it is; None where none is.
        sentence: what the decision means.
        caution: what it does not mean; None where it cannot be misread.
        look: of which decision it has the look: what is ruled out looks like a report.
        serious: whether the lesion is urgent, or the answer reports, or leaves open, a disease that must
            not be overlooked.
    """

    triage: str | None
    shown: list[str]
    title: str
    found: str | None
    sentence: str
    caution: str | None
    look: str
    serious: bool


def verdict(diagnosis: Diagnosis) -> Verdict:
    """The head of an answer."""
    decision = diagnosis.decision
    triaged = diagnosis.triage is not None
    return Verdict(
        triage=headline(diagnosis),
        shown=shown(diagnosis),
        title=_TITLES[decision],
        found=_found(diagnosis) if decision == "report" else None,
        sentence=_NO_DIAGNOSIS if triaged and decision == "refer" else _SENTENCES[decision],
        caution=_caution(diagnosis),
        look="report" if diagnosis.triage == "ruled-out" else decision,
        serious=diagnosis.triage == "urgent" or (decision == "report" and _is_serious(diagnosis)),
    )


def _found(diagnosis: Diagnosis) -> str | None:
    if (sure := diagnosis.conclusion) is not None:
        return f"{sure.name[:1].upper()}{sure.name[1:]}, {percent(sure.probability)}"
    if not diagnosis.findings:
        return None
    first = diagnosis.findings[0]
    return f"Most likely: {first.name} ({first.malignancy}), {percent(first.probability)}"


def _is_serious(diagnosis: Diagnosis) -> bool:
    if diagnosis.conclusion is not None and diagnosis.conclusion.malignant:
        return True
    left_open = set(diagnosis.prediction_set.codes)
    first = diagnosis.findings[:1]
    return bool(diagnosis.malignancy.above) or any(
        one.malignancy in SERIOUS for one in diagnosis.findings if one in first or one.code in left_open
    )


def _caution(diagnosis: Diagnosis) -> str | None:
    if diagnosis.decision == "refer" and diagnosis.triage is None:
        return _SAYS_NOTHING
    if diagnosis.decision == "retake" or diagnosis.triage == "urgent":
        return None
    if diagnosis.decision == "refer":
        return _NO_ALL_CLEAR if diagnosis.triage == "ruled-out" else None
    if diagnosis.malignancy.above:
        return "The probability of malignancy reaches the working point: the lesion is suspicious."
    if diagnosis.conclusion is not None and diagnosis.conclusion.malignant:
        return "A malignant disease is concluded. A clinician has to see the lesion."
    if diagnosis.findings and diagnosis.findings[0].malignancy == "malignant":
        return "A malignant disease is reported. A clinician has to see the lesion."
    if diagnosis.findings and diagnosis.findings[0].malignancy == "premalignant":
        return "A premalignant disease is reported. A clinician has to see the lesion."
    if _is_serious(diagnosis):
        return "A malignant or premalignant disease is possible. A clinician has to judge the lesion."
    return _NO_ALL_CLEAR


@dataclass(frozen=True)
class Row:
    """One figure, as texts."""

    title: str
    text: str
    note: str


def figures(diagnosis: Diagnosis) -> list[Row]:
    """How probable a malignancy is, and the working point where there is one."""
    risk = diagnosis.malignancy
    n = NOT_KNOWN if risk.n is None else risk.n
    of_working_point = (
        ("Suspicious", risk.threshold, "or more: the working point"),
        ("Malignant ones found", risk.sensitivity, f"of {n} malignant test pictures, at the working point"),
        ("Others not suspicious", risk.specificity, "of the other test pictures, at the working point"),
    )
    return [
        Row("Malignant", percent(risk.probability), "probability, all malignant classes together"),
        *(Row(title, percent(share), note) for title, share, note in of_working_point if share is not None),
    ]


_KINDS: Final[Mapping[str, str]] = {
    "close-up": "a close-up",
    "dermoscopic": "a dermoscopic picture",
    "overview": "an overview",
    "unknown": "a picture of which nobody said the kind",
}

_PROMISES: Final[Mapping[Guarantee, str]] = {
    "subgroup": (
        "Such lists hold the right answer for {coverage} of {what}; that is promised for people with the "
        "declared skin tone."
    ),
    "global": (
        "Such lists hold the right answer for {coverage} of {what}; that is promised over all skin tones "
        "together, not for each of them."
    ),
    "none": (
        "Nothing is promised for this list: too few pictures to calibrate on, or a skin tone it was not "
        "calibrated on."
    ),
}


def promise(diagnosis: Diagnosis) -> list[str]:
    """What is promised for the list of what is possible, and on how many lesions that rests."""
    found = diagnosis.prediction_set
    what = "pictures" if diagnosis.inputs is None else "lesions"
    said = [_PROMISES[found.guarantee].format(coverage=percent(found.coverage), what=what)]
    if found.calibration_n:
        lesions = "lesion" if found.calibration_n == 1 else "lesions"
        said.append(f"It was calibrated on {found.calibration_n} {lesions}.")
    return said


def given(diagnosis: Diagnosis) -> list[str]:
    """What was used of a case, an item each; nothing where the model takes single pictures."""
    if diagnosis.inputs is None:
        return []
    inputs = diagnosis.inputs
    return [
        *(_KINDS.get(kind, kind) for kind in inputs.pictures),
        *(f"{plain(name)}: {plain(value)}" for name, value in inputs.facts.items()),
    ]


def helpful(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """What would help, with what it brought in calibration."""
    return [
        (" and ".join([_KINDS.get(name, plain(name)) for name in one.missing]), " and ".join(_brought(one)))
        for one in diagnosis.would_help
    ]


def _brought(one: MissingInput) -> list[str]:
    said = []
    if one.fewer_classes:
        said.append(f"{one.fewer_classes:g} fewer classes were possible")
    if one.more_reported:
        said.append(f"{100 * one.more_reported:.0f} more of 100 lesions were reported")
    return said


_GREY: Final = (128, 128, 128)
_LONGEST: Final = 256  # pixels of the longer side
_QUALITY: Final = 85  # of the JPEG

_PLACES: Final = (
    ("upper left", "upper middle", "upper right"),
    ("middle left", "middle", "middle right"),
    ("lower left", "lower middle", "lower right"),
)
"""Where in a picture something is, in rows and columns of three."""


@dataclass(frozen=True)
class Looked:
    """One picture and its map.

    Attributes:
        picture: its address, `data:` with the picture itself.
        overlay: that of the map.
        width: of both as they are shown, in pixels.
        height: likewise.
        strongest: where the map is strongest; None where it is nowhere.
    """

    picture: str
    overlay: str
    width: int
    height: int
    strongest: str | None


def looked_at(diagnosis: Diagnosis, pixels: NDArray[np.uint8], where: Sequence[Placement]) -> list[Looked]:
    """Each picture with its map; empty where there are no maps.

    Args:
        diagnosis: the answer.
        pixels: what the model saw, `(pictures, size, size, 3)`.
        where: where it lies in each picture.
    """
    if diagnosis.explanation is None:
        return []
    shown = []
    for one, seen, place in zip(diagnosis.explanation.maps, pixels, where, strict=False):
        width, height = frame_size(place, _LONGEST)
        content = base64.b64encode(_seen(seen, place)).decode()
        shown.append(
            Looked(
                f"data:image/jpeg;base64,{content}",
                f"data:image/png;base64,{one.png}",
                width,
                height,
                _strongest(np.array(one.grid), place),
            )
        )
    return shown


def _seen(pixels: NDArray[np.uint8], where: Placement) -> bytes:
    """What the model saw, as a JPEG of the whole picture's shape."""
    size = frame_size(where, _LONGEST)
    left, upper, right, lower = pixel_box(where, size)
    frame = Image.new("RGB", size, _GREY)
    frame.paste(Image.fromarray(pixels).resize((right - left, lower - upper)), (left, upper))
    file = io.BytesIO()
    frame.save(file, format="JPEG", quality=_QUALITY)
    return file.getvalue()


def _strongest(grid: NDArray[np.float64], where: Placement) -> str | None:
    """In which ninth of the whole picture the middle of the strongest cell is."""
    if not grid.any():
        return None
    row, column = np.unravel_index(int(grid.argmax()), grid.shape)
    left, upper, right, lower = where.box
    across = left + (right - left) * (int(column) + 0.5) / grid.shape[1]
    down = upper + (lower - upper) * (int(row) + 0.5) / grid.shape[0]
    return _PLACES[min(int(3 * down), 2)][min(int(3 * across), 2)]
