"""Asks the service by what openapi-python-client made: `python this.py URL KEY FOLDER`, it being on the path.

Prints one JSON object: by what was asked, the class of the answer and what is in it.
"""

import json
import sys
from pathlib import Path
from typing import Any

from generated import AuthenticatedClient
from generated.api.default import diagnose, list_models, read_card
from generated.models import DiagnoseSkinToneScale, DiagnosisForm, DiagnosisFormSkinToneScale
from generated.types import File

URL, KEY, FOLDER = sys.argv[1], sys.argv[2], Path(sys.argv[3])
CLIENT = AuthenticatedClient(base_url=URL, token=KEY, httpx_args={"trust_env": False})
JPEG, PNG, DICOM = (f"picture.{suffix}" for suffix in ("jpg", "png", "dcm"))


def file(name: str) -> File:
    """A file of the folder, as one would send it."""
    return File(payload=(FOLDER / name).open("rb"), file_name=name)


def ask(**sent: Any) -> dict[str, Any]:
    """What is answered, and of which class it is."""
    answer = diagnose.sync(client=CLIENT, **sent)
    return {"class": type(answer).__name__, **answer.to_dict()}


def form(**fields: Any) -> DiagnosisForm:
    """A form for the model of single pictures."""
    return DiagnosisForm(**{"model": "skin-lesion", **fields})


SCALE, QUERY_SCALE = DiagnosisFormSkinToneScale, DiagnoseSkinToneScale
TONE = {"skin_tone": "V", "model": "skin-lesion", "top": 1}
print(
    json.dumps(
        {
            **{f"raw {name}": ask(body=file(name), **TONE) for name in (JPEG, PNG, DICOM)},
            "form": ask(body=form(image=[file(JPEG)], skin_tone="V", top=1)),
            "twice the same": ask(
                body=form(image=[file(JPEG)], skin_tone="5", skin_tone_scale=SCALE.FITZPATRICK),
                skin_tone="5",
                skin_tone_scale=QUERY_SCALE.FITZPATRICK,
            ),
            "another scale in the form": ask(
                body=form(image=[file(JPEG)], skin_tone="9", skin_tone_scale=SCALE.MONK)
            ),
            "twice otherwise": ask(
                body=form(image=[file(JPEG)], skin_tone="9", skin_tone_scale=SCALE.MONK),
                skin_tone_scale=QUERY_SCALE.DDI,
            ),
            "case": ask(
                body=DiagnosisForm(
                    close_up=[file(JPEG), file(PNG)],
                    dermoscopic=[file(DICOM)],
                    model="cases",
                    age="70",
                    sex="male",
                )
            ),
            "no picture": ask(body=file("text"), model="skin-lesion"),
            "no such model": ask(body=form(image=[file(JPEG)], model="nails")),
            "models": sorted(one.name for one in list_models.sync(client=CLIENT).models),
            "card": read_card.sync("skin-lesion", client=CLIENT).name,
        }
    )
)
