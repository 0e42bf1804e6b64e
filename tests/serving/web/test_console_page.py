"""The console's page as it comes from the service: what can be chosen, what would change, what was done."""

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography", reason="signing needs the extra sign")

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from registry.gates import GateSet
from registry.gates.approval import ApprovalsGate
from registry.gates.threshold import WorstMalignantSensitivityGate
from registry.registry import Registry
from registry.signing.keys import KeySignatory
from serving.web.console_page import Choice, promoted, read_choice
from tests.serving.conftest import DARK, MODEL, Places, Service, draw_bundle, running
from tests.serving.web.test_pages import Texts

CURVES = {"olga": ec.SECP256R1(), "anna": ec.SECP384R1(), "ben": ec.SECP521R1(), "eve": ec.SECP256R1()}
ROLES = {"olga": ["operator", "uploader"], "anna": ["approver"], "ben": ["operator"]}


def figures(**found: int) -> dict[str, Any]:
    """Test figures of 100 malignant and 100 other pictures of each subgroup, so many of the former found."""
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


@dataclass(frozen=True)
class Somebody:
    """A person with a private key in PKCS 8, and a browser."""

    name: str
    key: ec.EllipticCurvePrivateKey
    folder: Path

    @property
    def file(self) -> Path:
        """The private key's file."""
        return self.folder / f"{self.name}.key"

    @property
    def signatory(self) -> KeySignatory:
        """Who signs with a file, as commands do."""
        return KeySignatory.read(self.file, None)

    def write(self) -> Path:
        """Writes both files; gives the public one."""
        self.file.write_bytes(self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        public = self.folder / f"{self.name}.pub"
        public.write_bytes(
            self.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        )
        return public


@dataclass(frozen=True)
class Desk:
    """The service, the registry behind it, and people before it."""

    registry: Registry
    service: Service
    people: Callable[[str], Somebody]

    def vouch(self, *numbers: int, alias: str = "production") -> None:
        """Has Anna approve that these versions are promoted although gates refuse, as the command does."""
        anna = self.registry.signed_by(self.people("anna").signatory)
        anna.approve(MODEL, numbers, to=alias, override_gates=True)

    @property
    def olga(self) -> Registry:
        """The registry as its operator uses it."""
        return self.registry.signed_by(self.people("olga").signatory)


@pytest.fixture
def people(tmp_path: Path) -> Callable[[str], Somebody]:
    """People by name, each with a key of another curve."""
    made: dict[str, Somebody] = {}

    def of(name: str) -> Somebody:
        if name not in made:
            made[name] = Somebody(name, ec.generate_private_key(CURVES[name]), tmp_path)
            made[name].write()
        return made[name]

    return of


def know(registry: Registry, people: Callable[[str], Somebody], *names: str) -> None:
    """Registers people, Olga first."""
    for name in names:
        vouching = registry.signed_by(people("olga").signatory) if registry.people() else registry
        vouching.add_person(name, people(name).file.with_suffix(".pub"), roles=ROLES[name])


@pytest.fixture
def desk(places: Places, people: Callable[[str], Somebody]) -> Iterator[Desk]:
    """Versions 1 (global, good), 2 (dark, bad), 3 (dark, good); an approval is asked for; nothing runs."""
    with desk_over(places, people) as opened:
        yield opened


@contextmanager
def desk_over(places: Places, people: Callable[[str], Somebody]) -> Iterator[Desk]:
    """The same, over these places."""
    with places.open() as registry:
        registry.add(
            [
                draw_bundle(metrics=figures(light=90, dark=85)),
                draw_bundle(DARK, seed=1, metrics=figures(dark=60)),
                draw_bundle(DARK, seed=2, metrics=figures(dark=95)),
            ]
        )
        know(registry, people, "olga", "anna", "ben")
        gates = GateSet(gates=(WorstMalignantSensitivityGate(limit=0.8), ApprovalsGate(people=1)))
        registry.signed_by(people("olga").signatory).set_gates(gates, reason="the board")
        with running(places.open) as service:
            desk = Desk(registry, service, people)
            desk.vouch(1, 2)
            desk.vouch(1, 3)
            yield desk


def shown(desk, **query):
    return Texts(desk.service.client.get("/console", params=query).text)


def test_each_subgroup_shows_its_figures_now_and_then_and_what_gates_say(desk):
    desk.registry.signed_by(desk.people("olga").signatory).promote(
        MODEL, [1, 3], to="production", reason="first", override_gates=True
    )
    page = shown(desk, choose=["2"])
    assert "skin-lesion, production: release 1 → versions 1, 2" in page.text
    assert "Refused by worst_malignant_sensitivity, approvals" in page.text
    assert "Loses: dark: sensitivity" in page.text
    assert "0.950" in page.text
    assert "0.600" in page.text
    assert "-0.350 worse" in page.text
    assert page.text.index("dark refused") < page.text.index("sensitivity 0.900")  # the darkest skin first
    assert "dermfed-registry promote skin-lesion 2 --to production" in page.text
    left_out = shown(desk, choose=["without:dark"])
    assert "release 1 → versions 1" in left_out.text
    assert {"value": "without:dark", "selected": None} in left_out.all("option")
    same = shown(desk, choose=["3"])
    assert "This is what runs already" in same.text
    assert "dermfed-registry promote" not in same.text


def test_what_cannot_be_a_release_is_told_and_the_rest_shown(desk):
    page = shown(desk, choose=["3"])
    assert "This cannot be promoted" in page.text
    assert "no version for everybody" in page.text
    assert "What was done to skin-lesion" in page.text
    assert "77" in shown(desk, choose=["77"]).text
    assert desk.service.client.get("/console", params={"alias": "no alias/../"}).status_code == 200


def test_history_tells_who_signed_and_what_stands_out(desk):
    desk.olga.promote(MODEL, [1, 3], to="production", override_gates=True, reason="first")
    desk.olga.withdraw(MODEL, [3], reason="it harms")
    page = shown(desk)
    assert "WITHDRAWN withdrawn version 3" in page.text
    assert "STOPPED stopped, production" in page.text
    assert "GATES OVERRIDDEN promoted versions 1, 3" in page.text
    assert "olga ( signed )" in page.text
    assert "tester ( not signed )" in page.text  # versions were added before anybody was known
    assert "Version 3 , withdrawn" in page.text
    options = [one["value"] for one in page.all("option") if "value" in one]
    assert "2" in options
    assert "3" not in options  # nobody can choose it any more


@pytest.mark.parametrize(
    ("forged", "said"),
    [
        ("newest", "NOT SIGNED, though it says so: run dermfed-registry verify"),
        ("none", "signed"),
        (None, "signed, not checked"),
    ],
)
def test_an_event_that_only_says_to_be_signed_is_told_apart(desk, monkeypatch, forged, said):
    newest = desk.registry.history(MODEL)[-1]  # an approval, by which nothing was overridden
    found = None if forged is None else frozenset({newest.id} if forged == "newest" else ())
    monkeypatch.setattr(Registry, "forged", lambda _, events: found)
    html = desk.service.client.get("/console").text
    event = html[html.index('class="events history"') :].split("</li>")[0]
    assert f">{said}</span>" in event
    assert ('class="out"' in event) is (forged == "newest")


def test_words_of_others_are_never_markup(places, registry):
    registry.add([draw_bundle(metrics=figures(light=90))])
    registry.promote(MODEL, [1], to="staging", override_gates=True, reason="<script>alert(1)</script>")
    with running(places.open) as service:
        text = service.client.get("/console", params={"choose": "1", "alias": "a"}).text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script>" not in text


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
)
def test_what_an_address_chooses(query, found):
    assert read_choice(query, ("a", "b"), None, "production") == found


def test_nothing_can_be_changed_from_it(desk):
    before = desk.registry.audit()
    assert {form["method"] for form in shown(desk, choose=["1", "3"]).all("form")} == {"get"}
    for path in ("/console", "/v1/console/prepare", "/v1/console/act"):
        assert desk.service.client.post(path, json={}).status_code in (404, 405)
    assert desk.registry.audit() == before


def test_the_command_it_shows_is_what_a_shell_takes():
    choice = Choice("a b", "production", (1, 3), ("dark; rm -rf /",))
    assert shlex.split(promoted(choice)) == [
        *("a b", "1", "3", "--to", "production"),
        *("--without", "dark; rm -rf /"),
    ]
