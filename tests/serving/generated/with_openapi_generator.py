"""Asks the service by what OpenAPI Generator made: `python this.py URL KEY FOLDER`, both clients on the path.

It makes a method for the first body alone: `generated` is made from the description as it is, whose first is
the form, and `generated_raw` with the picture itself first. Prints one JSON object: by what was asked, the
class of the answer and what is in it.
"""

import json
import sys
from pathlib import Path
from typing import Any

import generated
import generated_raw

URL, KEY, FOLDER = sys.argv[1], sys.argv[2], Path(sys.argv[3])
JPEG, PNG, DICOM = (f"picture.{suffix}" for suffix in ("jpg", "png", "dcm"))


def client(package: Any) -> Any:
    """What asks, of one of the two packages."""
    return package.DefaultApi(package.ApiClient(package.Configuration(host=URL, access_token=KEY)))


FORM, RAW = client(generated), client(generated_raw)


def file(name: str) -> tuple[str, bytes]:
    """A file of the folder, as one would send it."""
    return name, (FOLDER / name).read_bytes()


def ask(api: Any, **sent: Any) -> dict[str, Any]:
    """What is answered, and of which class it is."""
    package = generated if api is FORM else generated_raw
    try:
        answer = api.diagnose(**{"model": "skin-lesion", **sent})
    except package.ApiException as refused:
        answer = refused.data
    return {"class": type(answer).__name__, **json.loads(answer.to_json())}


TONE = {"skin_tone": "V", "top": 1}
print(
    json.dumps(
        {
            **{f"raw {name}": ask(RAW, body=file(name)[1], **TONE) for name in (JPEG, PNG, DICOM)},
            "form": ask(FORM, image=[file(JPEG)], skin_tone2="V", top2=1),
            "twice the same": ask(
                FORM,
                image=[file(JPEG)],
                skin_tone="5",
                skin_tone2="5",
                skin_tone_scale="fitzpatrick",
                skin_tone_scale2="fitzpatrick",
                model2="skin-lesion",
            ),
            "another scale in the form": ask(
                FORM, image=[file(JPEG)], skin_tone2="9", skin_tone_scale2="monk"
            ),
            "twice otherwise": ask(
                FORM, image=[file(JPEG)], skin_tone2="9", skin_tone_scale2="monk", skin_tone_scale="ddi"
            ),
            "case": ask(
                FORM,
                close_up=[file(JPEG), file(PNG)],
                dermoscopic=[file(DICOM)],
                model="cases",
                age="70",
                sex="male",
            ),
            "no picture": ask(RAW, body=file("text")[1]),
            "no such model": ask(FORM, image=[file(JPEG)], model="nails"),
            "models": sorted(one.name for one in FORM.list_models().models),
            "card": FORM.read_card("skin-lesion").name,
        }
    )
)
