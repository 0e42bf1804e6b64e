"""The console's page as it comes from the service: what can be chosen, what would change, what was done."""

import shlex

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from registry.gates import GateSet
from registry.gates.threshold import WorstMalignantSensitivityGate
from registry.registry import Registry
from registry.signing_keys import KeySignatory, Signer
from serving.web.operator_page import Choice, promoted, read_choice
from tests.serving.conftest import DARK, MODEL, draw_bundle
from tests.serving.web.test_pages import Texts


def metrics(**found):
    """Test metrics of 100 malignant and 100 other pictures of each subgroup, so many of the former found."""
    rows = {
        name: {
            "n": 200,
            "n_malignant": 100,
            "n_other": 100,
            "accuracy": (many + 80) / 200,
            "malignant_sensitivity": many / 100,
            "malignant_specificity": 0.8,
        }
        for name, many in found.items()
    }
    return {"by_subgroup": rows}


@pytest.fixture
def olga(registry, tmp_path):
    """The registry as its operator uses it: versions 1 (global, good), 2 (dark, bad), 3 (dark, good)."""
    registry.add(
        [
            draw_bundle(metrics=metrics(light=90, dark=85)),
            draw_bundle(DARK, seed=1, metrics=metrics(dark=60)),
            draw_bundle(DARK, seed=2, metrics=metrics(dark=95)),
        ]
    )
    key = ec.generate_private_key(ec.SECP256R1())
    public = tmp_path / "olga.pub"
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    registry.add_person("olga", public, roles=["operator", "uploader"])
    signed = registry.signed_by(KeySignatory(Signer(key)))
    signed.set_gates(GateSet(gates=(WorstMalignantSensitivityGate(limit=0.8),)), reason="the board")
    return signed


@pytest.fixture
def console(olga, serve):
    """Reads the console; keywords are its query."""
    with serve() as service:
        yield lambda **query: Texts(service.client.get("/console", params=query).text)


def test_each_subgroup_shows_its_metrics_now_and_then_and_what_gates_say(olga, console):
    olga.promote(MODEL, [1, 3], to="production", reason="first", override_gates=True)
    page = console(choose=["2"])
    assert "skin-lesion, production: release 1 → versions 1, 2" in page.text
    assert "Refused by worst_malignant_sensitivity" in page.text
    assert "Loses: dark: sensitivity" in page.text
    assert "0.950 0.600 -0.350 worse" in page.text
    assert page.text.index("dark refused") < page.text.index("sensitivity 0.900")  # the darkest skin first
    assert "dermfed-registry promote skin-lesion 2 --to production" in page.text


def test_a_subgroup_may_be_left_without_a_version(olga, console):
    olga.promote(MODEL, [1, 3], to="production", reason="first", override_gates=True)
    page = console(choose=["without:dark"])
    assert "release 1 → versions 1" in page.text
    assert {"value": "without:dark", "selected": None} in page.all("option")
    assert not [one for one in page.all("option") if one.get("value") == "without:global"]
    assert page.words.index("global") < page.words.index("dark")


def test_what_runs_already_has_no_command(olga, console):
    olga.promote(MODEL, [1, 3], to="production", reason="first", override_gates=True)
    page = console(choose=["3"])
    assert "This is what runs already" in page.text
    assert "dermfed-registry promote" not in page.text


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"choose": ["3"]}, "no version for everybody"),
        ({"choose": ["77"]}, "77"),
        ({"choose": ["1"], "alias": "no alias/../"}, "no alias/../"),
    ],
)
def test_what_cannot_be_a_release_is_said_and_the_rest_shown(console, query, said):
    page = console(**query)
    assert "This cannot be promoted" in page.text
    assert said in page.text
    assert "What was done to skin-lesion" in page.text


def test_history_says_who_signed_and_what_stands_out(olga, console):
    olga.promote(MODEL, [1, 2], to="production", override_gates=True, reason="first")
    olga.withdraw(MODEL, [2], reason="it harms")
    page = console()
    assert "WITHDRAWN withdrawn version 2" in page.text
    assert "STOPPED stopped, production" in page.text
    assert "GATES OVERRIDDEN promoted versions 1, 2" in page.text
    assert "olga ( signed )" in page.text
    assert "tester ( not signed )" in page.text  # versions were added before the first person
    assert "Version 2 , withdrawn" in page.text
    options = [one["value"] for one in page.all("option") if "value" in one]
    assert ("3" in options, "2" in options) == (True, False)  # a withdrawn version cannot be chosen


@pytest.mark.parametrize(
    ("forged", "said"),
    [
        ("newest", "NOT SIGNED, though it says so: run dermfed-registry verify"),
        ("none", "signed"),
        (None, "signed, not checked"),
    ],
)
def test_a_forged_signature_stands_out(olga, serve, monkeypatch, forged, said):
    olga.add([draw_bundle(seed=3)])
    newest = olga.history(MODEL)[-1]
    found = None if forged is None else frozenset({newest.id} if forged == "newest" else ())
    monkeypatch.setattr(Registry, "forged", lambda _, events: found)
    with serve() as service:
        html = service.client.get("/console").text
    event = html[html.index('class="events history"') :].split("</li>")[0]
    assert f">{said}</span>" in event
    assert ('class="out"' in event) is (forged == "newest")


def test_words_of_others_are_never_markup(serve, registry):
    registry.add([draw_bundle(metrics=metrics(light=90))])
    registry.promote(MODEL, [1], to="staging", override_gates=True, reason="<script>alert(1)</script>")
    with serve() as service:
        text = service.client.get("/console", params={"choose": "1", "alias": "a"}).text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script>" not in text


def test_nothing_can_be_changed_from_it(olga, serve):
    before = olga.audit()
    with serve() as service:
        page = Texts(service.client.get("/console", params={"choose": ["1", "3"]}).text)
        assert {form["method"] for form in page.all("form")} == {"get"}
        for path in ("/console", "/v1/console/prepare", "/v1/console/act"):
            assert service.client.post(path, json={}).status_code in (404, 405)
    assert olga.audit() == before


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ([], Choice("a", "production")),
        ([("model", "b"), ("alias", " staging ")], Choice("b", "staging")),
        ([("model", "c")], Choice("a", "production")),
        ([("choose", "3"), ("choose", ""), ("choose", "3")], Choice("a", "production", (3,))),
        ([("choose", "without:very dark"), ("choose", "-1")], Choice("a", "production", (), ("very dark",))),
        ([("choose", "9" * 5000), ("choose", "7")], Choice("a", "production", (7,))),
        ([("choose", "²"), ("choose", "x")], Choice("a", "production")),
        ([("model", "b"), ("of", "a"), ("choose", "3")], Choice("b", "production")),
        ([("model", "b"), ("of", "b"), ("choose", "3")], Choice("b", "production", (3,))),
    ],
    ids=[
        *("nothing", "a model and an alias", "an unknown model", "a version twice", "a subgroup left out"),
        *("a number too long", "no numbers", "versions of another model", "versions of this model"),
    ],
)
def test_what_an_address_chooses(query, found):
    assert read_choice(query, ("a", "b"), None, "production") == found


def test_the_command_is_quoted_as_a_shell_takes_it():
    choice = Choice("a b", "production", (1, 3), ("dark; rm -rf /",))
    arguments = ["a b", "1", "3", "--to", "production", "--without", "dark; rm -rf /"]
    assert shlex.split(promoted(choice)) == arguments
