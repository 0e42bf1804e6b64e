"""Words and sentences that no page makes itself: problems, and the words of models, pictures and facts.

A new problem needs a line here, and a translation in each catalogue; a test names what is missing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from registry.bundle.message import Message


@dataclass(frozen=True)
class Told:
    """A kind of problem, as a page tells it.

    Attributes:
        title: the problem's own title.
        advice: what to do, for people whose language its detail is not in.
    """

    title: Message
    advice: Message


_AGAIN = Message("Try again in a moment.")
_ASK = Message("Ask whoever runs the service.")
_RELOAD = Message("Load the page again and look at what has changed.")

PROBLEMS: Final[Mapping[str, Told]] = {
    "internal": Told(Message("The service failed"), _ASK),
    "not-an-image": Told(
        Message("Not an image"),
        Message("Send the photograph as a JPEG, PNG or WebP file, as the camera made it."),
    ),
    "malformed-request": Told(Message("The request cannot be read"), Message("Send the form again.")),
    "unauthorized": Told(Message("An API key is needed"), _ASK),
    "forbidden": Told(Message("The API key is for something else"), _ASK),
    "cross-site": Told(Message("Sent by another site"), Message("Open the page of this service itself.")),
    "not-signed": Told(Message("Not signed by anybody who may do this"), _ASK),
    "not-found": Told(Message("Not found"), Message("Choose one of the models that the form lists.")),
    "refused": Told(Message("The registry refuses"), _ASK),
    "signed-for-another": Told(Message("Changed since it was signed"), _RELOAD),
    "too-large": Told(Message("The image is too large"), Message("Send a smaller copy of the picture.")),
    "unsupported-media-type": Told(
        Message("Unsupported media type"), Message("Send the photograph as a JPEG, PNG or WebP file.")
    ),
    "invalid-parameter": Told(
        Message("Invalid parameter"), Message("Look at what was entered, and send it again.")
    ),
    "too-many-requests": Told(Message("Too many requests"), Message("Wait a little, then ask again.")),
    "caller-gone": Told(Message("The caller went away"), _AGAIN),
    "no-model": Told(Message("No model can answer"), _AGAIN),
    "busy": Told(Message("Too many requests are waiting"), _AGAIN),
    "deadline": Told(
        Message("The time is over"), Message("Send the picture again, a smaller copy if need be.")
    ),
    "draining": Told(Message("The service is ending"), _AGAIN),
    "too-costly": Told(
        Message("The image takes too much to decode"),
        Message("Open the picture elsewhere, save it anew as JPEG, and send that."),
    ),
    "no-decoder": Told(Message("No picture can be decoded"), _AGAIN),
    "head-too-slow": Told(Message("The request came too slowly"), _AGAIN),
    "head-too-large": Told(Message("The head of the request is too large"), _ASK),
    "too-many-connections": Told(Message("Too many connections"), _AGAIN),
    "unknown-diagnosis": Told(Message("No such diagnosis"), Message("Look at the number of the answer.")),
    "nothing-kept": Told(Message("No diagnoses are kept"), _ASK),
    "outcome-known": Told(
        Message("Another outcome is known"), Message("Say that yours corrects it, or leave it.")
    ),
    "outcome-not-kept": Told(Message("The outcome cannot be kept"), _AGAIN),
}
"""Every problem by the end of its `type`."""

WORDS: Final = (
    # the kind of a disease
    *(Message("malignant"), Message("premalignant"), Message("benign"), Message("unknown")),
    # kinds of picture, and what is sent
    *(Message("close-up"), Message("dermoscopic"), Message("overview"), Message("picture"), Message("body")),
    # facts about a patient
    *(Message("age"), Message("sex"), Message("site"), Message("years"), Message("female"), Message("male")),
    *(Message("head neck"), Message("trunk"), Message("upper extremity"), Message("lower extremity")),
    *(Message("hand"), Message("foot"), Message("palms soles"), Message("oral genital")),
    # diseases, as data sets name them
    *(Message("Melanoma"), Message("Melanocytic nevus"), Message("Melanocytic naevus")),
    *(Message("Basal cell carcinoma"), Message("Actinic keratosis"), Message("Squamous cell carcinoma")),
    Message("Actinic keratosis or intraepithelial carcinoma"),
    Message("Squamous cell carcinoma or keratoacanthoma"),
    *(Message("Benign keratosis"), Message("Dermatofibroma"), Message("Vascular lesion")),
    *(Message("Malignant"), Message("Benign")),
)
"""Words that stand in bundles, and are said in the reader's language where they are known."""
