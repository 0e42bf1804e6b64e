"""The console in headless Chromium: the keys are WebCrypto's, and never leave the page."""

import base64
import json

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from registry.bundle.manifest.schema import Subgroup
from tests.serving.conftest import MODEL, draw_bundle
from tests.serving.console.conftest import LONG, figures, text

pytestmark = pytest.mark.browser

SCREEN, PHONE = {"width": 1400, "height": 900}, {"width": 400, "height": 800}


@pytest.fixture
def tab(chromium, desk):
    """`tab(viewport, **options)`: a tab of a browser; `sent` is all that leaves it, `said` its complaints."""
    contexts = []

    def show(viewport=SCREEN, **options):
        context = chromium.new_context(viewport=viewport, base_url=desk.service.url, **options)
        contexts.append(context)
        tab = context.new_page()
        tab.sent, tab.said = [], []
        tab.on("request", lambda request: tab.sent.append((request.url, request.post_data or "")))
        tab.on("console", lambda message: tab.said.append(message.text))
        tab.on("pageerror", lambda error: tab.said.append(str(error)))
        tab.goto("/console")
        return tab

    yield show
    for context in contexts:
        context.close()


def take_key(page, file, state="Key sha256:"):
    page.set_input_files("#key", str(file))
    page.wait_for_function(
        "said => document.querySelector('#key-state').textContent.includes(said)", arg=state
    )


def choose(page, *values):
    for place, value in enumerate(values, 1):
        page.select_option(f"#choose-{place}", value)
    page.evaluate("document.querySelector('#compared')?.remove()")
    page.click("#compare")
    page.wait_for_selector("#compared")


def press(page, action, reason=None, alias=None):
    """Presses the button of an action; gives its form."""
    form = page.locator("form.act", has=page.locator(f"button[value={action}]"))
    if alias is not None:
        form = form.filter(has=page.locator(f"input[name=alias][value={alias}]"))
    if reason is not None:
        form.locator("input[name=reason]").fill(reason)
    page.evaluate("document.querySelector('#said').textContent = ''")
    form.locator(f"button[value={action}]").click()
    return form


def told(page):
    page.wait_for_function("() => !['', WAIT].includes(document.querySelector('#said').textContent)")
    return page.inner_text("#said")


def signed(page, action, reason=None, alias=None):
    press(page, action, reason, alias)
    page.wait_for_selector("dialog[open]")
    words = page.inner_text("dialog")
    page.click("#sign-yes")
    return words, told(page)


def test_a_release_is_refused_approved_by_another_promoted_and_taken_back(tab, desk):
    page = tab()
    take_key(page, desk.people("olga").file)
    choose(page, "1", "3")
    assert "Refused by approvals" in page.inner_text("#state")
    press(page, "promote", "first")
    assert "The registry refuses: " in told(page)
    assert page.input_value("form[aria-labelledby=promote-title] input[name=reason]") == "first"
    assert page.input_value("form[aria-labelledby=approve-title] input[name=reason]") == ""
    assert desk.registry.release(MODEL, "production") is None

    other = tab()
    take_key(other, desk.people("anna").file)
    choose(other, "1", "3")
    words, said = signed(other, "approve", "seen by the ward")
    assert "You sign, as anna (approver):" in words
    assert "approve versions 1, 3 of skin-lesion, alias production" in words
    assert "version 1 for global, sha256:" in words
    assert "reason: seen by the ward" in words
    assert said.startswith("Done: ")

    choose(page, "1", "3")
    assert "No gate refuses" in page.inner_text("#state")
    words, said = signed(page, "promote", "first")
    assert "GATES OVERRIDDEN" not in words
    assert "promoted versions 1, 3, production: release none -> 1" in said
    assert "Release 1: version 1 (global), version 3 (dark)" in page.inner_text("#state")
    assert page.evaluate("document.querySelector('#key').files.length") == 1  # the key is still there

    desk.vouch(2)
    choose(page, "", "2")
    page.check("#override")
    words, said = signed(page, "promote", "until March")
    assert "GATES OVERRIDDEN" in words
    assert "GATES OVERRIDDEN promoted version 2" in page.inner_text(".history")
    assert [one.number for one in desk.registry.release(MODEL, "production").versions] == [1, 2]

    _, said = signed(page, "roll-back", "complaints", alias="production")
    assert "rolled-back" in said
    assert [one.number for one in desk.registry.release(MODEL, "production").versions] == [1, 3]

    page.fill("#withdraw", "3")
    words, said = signed(page, "withdraw", "it harms")
    assert "withdraw version 3 of skin-lesion" in words
    assert "stop skin-lesion, alias production" in words
    assert "WITHDRAWN withdrawn version 3" in page.inner_text(".history")
    assert desk.registry.release(MODEL, "production") is None
    assert desk.registry.verify() == ()

    private = desk.people("olga").file.read_text().split("\n")[1]
    assert not [body for _, body in page.sent if private[:40] in body]
    assert all(url.startswith(desk.service.url) for url, _ in page.sent)
    assert set(page.said) == {"Failed to load resource: the server responded with a status of 409 (Conflict)"}


@pytest.mark.parametrize(
    "forged",
    [
        {"kind": "person-added"},
        {"kind": "withdrawn"},
        {"model": "other"},
        {"alias": "production"},
        {"versions": [1, 2]},
        {"overridden": True},
        {"reason": "another"},
        {"versions": []},
        {"details": {"members": [], "without": ["dark"]}},
    ],
    ids=str,
)
def test_a_service_that_asks_for_another_signature_gets_none(tab, desk, forged):
    page = tab()
    take_key(page, desk.people("anna").file)
    choose(page, "1", "3")
    page.fill("#alias", "staging")
    choose(page, "1", "3")

    def lie(route):
        found = route.fetch().json()
        said = {**json.loads(base64.b64decode(found["statements"][0])), **forged}
        route.fulfill(json={**found, "statements": [text(json.dumps(said).encode())]})

    page.route("**/v1/console/prepare", lie)
    press(page, "approve")
    assert "something else than you chose" in told(page)
    assert not [url for url, _ in page.sent if url.endswith("/act")]


@pytest.mark.parametrize("name", ["olga", "anna", "ben"], ids=["P-256", "P-384", "P-521"])
def test_keys_of_every_curve_sign(tab, desk, name):
    page = tab()
    take_key(page, desk.people(name).file, desk.people(name).fingerprint)
    choose(page, "1", "3")
    if name == "anna":
        _, said = signed(page, "approve")
    else:
        page.check("#override")
        _, said = signed(page, "promote", "now")
    assert said.startswith("Done: ")
    assert desk.registry.verify() == ()
    signer = desk.registry.signers(desk.registry.history(MODEL)[-1:])
    assert [one.name for one in signer.values()] == [name]


def test_the_key_cannot_be_taken_out_of_the_page_again(tab, desk):
    page = tab()
    take_key(page, desk.people("olga").file)
    assert page.evaluate("signer.key.extractable") is False
    assert page.evaluate("crypto.subtle.exportKey('pkcs8', signer.key).catch((error) => error.name)") == (
        "InvalidAccessError"
    )
    kept = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
    assert json.loads(kept) == [{}, {}, ""]


def test_files_that_cannot_sign_are_told_with_what_to_do(tab, desk, tmp_path):
    page = tab()
    key = desk.people("olga").key
    files = {
        "encrypted": (
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")),
            "openssl pkcs8 -topk8 -nocrypt",
        ),
        "older": (
            key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()),
            "openssl pkcs8 -topk8 -nocrypt",
        ),
        "public": (desk.people("olga").file.with_suffix(".pub").read_bytes(), "not the .pub beside it"),
        "damaged": (b"-----BEGIN PRIVATE KEY-----\nAAAAA\n-----END PRIVATE KEY-----\n", "no base64"),
        "other": (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "no key of P-256"),
    }
    for name, (content, said) in files.items():
        (tmp_path / name).write_bytes(content)
        take_key(page, tmp_path / name, said)
    choose(page, "1", "3")
    press(page, "approve")
    assert "Choose your private key above first" in told(page)
    assert page.said == []


def test_nothing_is_done_where_nobody_agrees_or_something_changed_meanwhile(tab, desk):
    page = tab()
    take_key(page, desk.people("olga").file)
    choose(page, "1", "3")
    page.check("#override")
    press(page, "promote", "now")
    page.wait_for_selector("dialog[open]")
    page.keyboard.press("Escape")
    assert told(page) == "Nothing was done."
    press(page, "promote")
    page.wait_for_selector("dialog[open]")
    desk.set_other_gates()
    page.click("#sign-yes")
    assert "Changed since it was signed" in told(page)
    assert desk.registry.release(MODEL, "production") is None
    assert "set 1 for all models -> set 2" in page.inner_text(".history")


def test_what_needs_a_reason_asks_for_one(tab, desk):
    desk.vouch(1)
    desk.registry.signed_by(desk.people("olga").signatory).promote(
        MODEL, [1], to="production", reason="now", override_gates=True
    )
    page = tab()
    take_key(page, desk.people("olga").file)
    press(page, "stop", alias="production")
    assert page.evaluate("document.activeElement.name") == "reason"
    assert not page.locator("dialog[open]").count()
    _, said = signed(page, "stop", "it harms", alias="production")
    assert "stopped" in said
    assert "it points to nothing" in page.inner_text("#state")
    press(page, "roll-back", alias="production")  # back to what ran before the stop, and without a reason
    page.wait_for_selector("dialog[open]")
    assert "without a reason" in page.inner_text("dialog")


def test_where_the_browser_signs_nothing_the_page_says_so(chromium, desk):
    context = chromium.new_context()
    page = context.new_page()
    page.add_init_script("Object.defineProperty(Crypto.prototype, 'subtle', {value: undefined})")
    page.goto(f"{desk.service.url}/console")
    assert "only over https, or on localhost" in page.inner_text("#key-state")
    take_key(page, desk.people("olga").file, "only over https")
    context.close()


def test_it_compares_without_a_script(tab):
    page = tab(java_script_enabled=False)
    page.select_option("#choose-1", "1")
    page.click("#compare")
    assert "nothing runs → versions 1" in page.inner_text("#compared")
    assert "Signing needs JavaScript" in page.content()


@pytest.mark.parametrize("viewport", [SCREEN, PHONE], ids=["screen", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_and_a_phone_does_not_scroll_the_page(tab, desk, viewport, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    long = Subgroup(name=LONG, scale="monk", values=("10",))
    desk.registry.signed_by(desk.people("olga").signatory).add(
        [draw_bundle(long, metrics=figures(**{LONG: 90}))]
    )
    page = tab(viewport, color_scheme=scheme, bypass_csp=True)  # axe itself is a script
    take_key(page, desk.people("olga").file)
    desk.vouch(1, 4, 2)
    choose(page, "1", "4", "2")
    found = axe.run(page).response["violations"]
    assert page.evaluate("document.scrollingElement.scrollWidth") <= viewport["width"]
    page.check("#override")
    press(page, "promote", "a reason that goes on for long " * 10)
    page.wait_for_selector("dialog[open]")
    assert page.evaluate("document.scrollingElement.scrollWidth") <= viewport["width"]
    assert page.evaluate("document.querySelector('dialog').scrollWidth") <= viewport["width"]
    found += axe.run(page).response["violations"]
    page.click("#sign-yes")
    told(page)
    found += axe.run(page).response["violations"]
    grave = [one for one in found if one["impact"] in ("serious", "critical")]
    assert not grave, "\n".join(
        f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]}" for one in grave
    )


def test_a_keyboard_signs(tab, desk):
    page = tab()
    take_key(page, desk.people("anna").file)
    choose(page, "1", "3")
    assert page.evaluate("document.activeElement.id") == "compared"
    page.focus("button[value=approve]")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")
    assert page.evaluate("document.activeElement.id") == "sign-title"
    for _ in range(2):
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "sign-yes"
    page.keyboard.press("Enter")
    assert told(page).startswith("Done: ")
    assert page.evaluate("document.activeElement.id") == "said"
