"""What schemathesis cannot read in `/openapi.json`: real pictures, and what goes together in a valid request.

Valid requests are made valid: a tone is one of its scale, a parameter is given once, and a model of single
pictures is sent one and no facts. Invalid ones stay.
"""

from io import BytesIO
from typing import Any

import schemathesis
from hypothesis import strategies as st
from PIL import Image
from schemathesis.generation import GenerationMode

from registry.bundle.skin_tone import SCALES
from serving.http.upload import BYTES, FIELD, KINDS
from serving.protocol.parameters import NAMES
from tests.dicom_files import dicom_file, noise
from tests.heif_files import heic


def picture(form: str, colour: tuple[int, int, int], size: tuple[int, int]) -> bytes:
    file = BytesIO()
    Image.new("RGB", size, colour).save(file, form)
    return file.getvalue()


channels = st.integers(0, 255)
pictures = {
    form: st.builds(
        picture,
        st.just(form),
        st.tuples(channels, channels, channels),
        st.tuples(st.integers(1, 40), st.integers(1, 40)),
    )
    for form in ("JPEG", "PNG", "WEBP", "AVIF")
}
for form, drawn in pictures.items():
    schemathesis.openapi.media_type(f"image/{form.lower()}", drawn)

schemathesis.openapi.media_type(BYTES, st.one_of(*pictures.values()))
for name in ("image/heic", "image/heif"):
    schemathesis.openapi.media_type(name, st.sampled_from([heic(), heic(6)]))
schemathesis.openapi.media_type("application/dicom", st.just(dicom_file(noise(9, 7, 3))))


@schemathesis.hook
def map_case(context: Any, case: Any) -> Any:
    """Makes a request that is meant to be valid one that is."""
    if case.operation.label != "POST /v1/diagnoses" or case.meta.generation.mode != GenerationMode.POSITIVE:
        return case
    form = case.body if isinstance(case.body, dict) else {}
    if form:
        sent = next(name for name in KINDS if name in form)
        content, types = form[sent], case.multipart_content_types or {}
        for name in [name for name in form if name not in NAMES]:
            del form[name]
        form[FIELD] = content[:1] if isinstance(content, list) else [content]
        if sent in types:
            types[FIELD] = types[sent]
    for place in (form, case.query):
        place.pop("image_kind", None)
        place.pop("frame", None)  # of a file that holds several
    for name in [name for name in form if name in case.query]:
        del case.query[name]
    places = [form, case.query]
    scale = next((place["skin_tone_scale"] for place in places if "skin_tone_scale" in place), "fitzpatrick")
    for place in places:
        if place.get("skin_tone"):
            tones = SCALES[scale or "fitzpatrick"]
            place["skin_tone"] = tones[len(place["skin_tone"]) % len(tones)]
    return case
