"""Triage on its way through the service: to whoever asks, the log, the counts and the pages."""

import json
import re

import pytest

from tests.thresholds import triage

RED, GREEN, GREY = (200, 90, 30), (30, 200, 30), (120, 120, 120)
"""By the model for everybody: malignant, benign, and in between."""
WHY = "No lesion is ruled out for skin tone 5 (fitzpatrick): this version has not shown what would be missed."


@pytest.fixture
def served(serve, registry, promote, bundle, tmp_path):
    """A release of everybody with triage and of light skin without, with a decision log."""

    def start(light):
        promote(registry, bundle(triage=triage()), bundle(light))
        return serve(records=tmp_path / "records")

    return start


def test_triage_is_said_wherever_an_answer_is_read(served, picture, light, tmp_path):
    asked = (
        ("urgent", picture(colour=RED), {}, "Urgent: a clinician has to see this lesion before others"),
        ("routine", picture(colour=GREY), {}, "Routine: a clinician looks"),
        (
            "ruled-out",
            picture(colour=GREEN),
            {},
            "Ruled out: of 100 lesions of each kind of malignancy at most 8",
        ),
        ("routine", picture(colour=GREEN), {"skin_tone": "V"}, "Routine: a clinician looks"),
        (None, picture(colour=RED, size=(4, 4)), {}, "Take another picture"),
        (None, picture(colour=GREEN), {"skin_tone": "1"}, "Re"),
    )
    with served(light) as service:
        for level, content, tone, head in asked:
            told = service.diagnose(content, params=tone).json()
            assert told["triage"] == level, (tone, told["malignancy"])
            assert (told["triage_evidence"] is None) is (level is None)
            nothing = [one for one in told["warnings"] if one.startswith("No lesion is ruled out")]
            assert nothing == ([WHY] if tone == {"skin_tone": "V"} else [])
            shown = service.client.post(
                "/",
                files={"image": ("a.jpg", content)},
                data={"tone": "fitzpatrick " + tone.get("skin_tone", "")} if tone else {},
            ).text
            assert f'<h2 id="answer" tabindex="-1">{head}' in shown
        assert told["triage_evidence"] is None
        service.eventually(lambda: "fitzpatrick 5" in service.client.get("/operator").text)
        counted = service.client.get("/metrics").text
        operator = service.client.get("/operator").text
    lines = [
        json.loads(one) for file in (tmp_path / "records").iterdir() for one in file.read_text().splitlines()
    ]
    assert [one["triage"] for one in lines if one.get("confidence")] == [
        one[0] for one in asked for _ in range(2)
    ]
    for level, subgroup, n in (
        ("urgent", "undeclared", 2),
        ("routine", "undeclared", 2),
        ("ruled-out", "undeclared", 2),
        ("routine", "fitzpatrick 5", 2),
    ):
        labels = f'model="skin-lesion",subgroup="{subgroup}",triage="{level}",version="1"'
        assert f"dermfed_triage_total{{{labels}}} {n}.0" in counted
    # Of eight answers without a tone two were urgent, two ruled out, two routine and two retaken.
    row = '<tr><th scope="row">undeclared</th><td class="number">1</td><td class="number">8</td>'
    shares = re.findall(r">(\d+ %)<", operator.partition(row)[2].partition("</tr>")[0])
    assert shares[:3] == ["25 %"] * 3


def test_evidence_is_what_the_bundle_says(served, picture, light):
    with served(light) as service:
        told = service.diagnose(picture(colour=RED)).json()["triage_evidence"]
    assert told == {
        "guarantee": "global",
        "basis": "split",
        "confidence": 0.95,
        "missed": {"limit": 0.1, "kinds": [{"kind": "Melanoma", "n": 113, "missed": 4, "high": 0.08}]},
        "false_alarms": {"limit": 0.1, "n": 512, "seen": 38, "high": pytest.approx(0.0961, abs=1e-4)},
        "predictive": None,
    }
