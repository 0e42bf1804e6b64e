"""Texts of others in what is stored: no command and no page obeys them, whatever they hold.

The doors refuse most of them today; a registry may hold them from before, or from whoever wrote the
database.
"""

import json
import logging
import unicodedata

import pytest

from registry.bundle.folder import write_bundle
from registry.bundle.labels import Coding, Label
from registry.bundle.manifest import Lineage
from registry.errors import BundleRefused, InvalidName, ReleaseRefused
from registry.views.card import Entry, release_card
from registry.views.card_page import card_page
from serving.releases.current_release import CurrentRelease, ServedRelease, _describe_versions
from serving.web.operator_page import Seen, operator_page

pytestmark = pytest.mark.sqlite

MODEL = "skin-lesion"
NASTY = {
    "escape": "a\x1b[2Jb",
    "window title": "a\x1b]0;owned\x07b",
    "eight-bit escape": "a\x9b2Jb",
    "turned letters": "gpj.\u202eexe",
    "isolate": "a\u2066b\u2069c",
    "mark of direction": "a\u200fb",
    "newline": "a\nreason: forged",
    "carriage return": "a\r\x1bKforged",
    "line separator": "a\u2028forged",
    "no width": "dark\u200b",
    "joiner after Latin": "dark\u200d",
    "soft hyphen": "da\xadrk",
    "tag letters": "dark\U000e0041\U000e007f",
    "filler": "dark\u3164",
    "byte order mark": "\ufeffdark",
    "Cyrillic": "dаrk",
    "element": "<script>alert(1)</script>",
    "attribute": '" onload="x',
    "long": "a" * 100_000,
}
TOGETHER = {
    "all of them": " | ".join(text for name, text in NASTY.items() if name != "long"),
    "long": NASTY["long"],
}
COMMANDS = [
    ("list",), ("show", MODEL), ("show", MODEL, "--version", 2), ("card", MODEL), ("history", MODEL),
    ("gates", "show"), ("gates", "show", MODEL), ("gates", "check", MODEL, 1, 2, "--to", "staging"),
    ("diff", MODEL, 1, 2), ("verify",), ("audit",), ("keys", "list"),
    ("promote", MODEL, 3, "--to", "production"), ("approve", MODEL, 1, "--to", "staging"),
    ("export", MODEL, "--out", "x.dermfed"), ("gc", "--dry-run"), ("import", "nothing.dermfed"),
    ("keys", "rotate", "nobody"), ("rollback", MODEL, "--alias", "none"),
]  # fmt: skip
WHOLE = ("audit", "card")
"""Commands that write what programs read: nothing is left out of that."""


def obeyed(text):
    """Characters that whoever reads would not see but feel, or not see at all."""
    joiners = {"\u200c", "\u200d"}
    hidden = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
    return sorted(
        {
            hex(ord(one))
            for before, one in zip(f" {text}", text, strict=False)
            if one == "\u3164"
            or (
                unicodedata.category(one) in hidden
                and one != "\n"
                and not (one in joiners and before > "\u0590")
            )
        }
    )


@pytest.fixture
def holding(registry, places, bundle, dark, light, monkeypatch, tmp_path):
    """Puts a text wherever a registry may hold one of others, as a forger did."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("registry.releases.add.check_counts", lambda *_: None)

    def put(text):
        lineage = Lineage(job="sha256:" + "0" * 64, recipe=text, data={text: text}, seed=1, code_version=text)
        row = {"n": 50, "accuracy": 0.8}
        labels = tuple(
            Label(code=code, name=text, codings=(Coding(system=text, code=text, display=text),))
            for code in ("A", "B", "C")
        )
        parts = {"lineage": lineage, "labels": labels}
        registry.add(
            [
                bundle(None, {"by_subgroup": {"dark": row, "light": row}}, **parts),
                bundle(dark, {"absent": [text]}, **parts),
                bundle(light, **parts),
            ]
        )
        registry.set_gates(registry.gates().gates, reason="first", model=MODEL)
        registry.promote(MODEL, [1, 2], to="production", override_gates=True, reason="first")
        registry.create_key("ward")
        told = f"CAST(x'{text.encode().hex()}' AS TEXT)"
        places.tamper(
            f"UPDATE events SET actor = {told}, reason = {told}, host = {told}",
            f"UPDATE versions SET subgroup = {told} WHERE number = 2",
            f"UPDATE release_members SET subgroup = {told} WHERE subgroup = 'dark'",
            f"UPDATE gate_sets SET actor = {told}",
            f"UPDATE api_keys SET name = {told}",
            f"INSERT INTO signatures SELECT id, digest, {told}, created FROM versions",
        )

    return put


def said(command, arguments):
    ended = command(*arguments)
    return ended.out + ended.err


@pytest.mark.parametrize("text", TOGETHER.values(), ids=TOGETHER)
def test_no_command_obeys_what_is_stored(command, holding, text):
    holding(text)
    answers = {arguments: said(command, arguments) for arguments in COMMANDS}
    assert {one: found for one, answer in answers.items() if (found := obeyed(answer))} == {}
    if len(text) > 1000:
        shown = {one: max(map(len, answer.splitlines() or [""])) for one, answer in answers.items()}
        assert {one: length for one, length in shown.items() if length > 6000 and one[0] not in WHOLE} == {}
        assert "100,000 characters" in answers["history", MODEL]
        assert answers["history", MODEL].count("promoted version") == 1  # what stands behind is still seen
        # Programs are told the whole text.
        assert json.loads(command("history", MODEL, "--json").out)[0]["actor"] == text


def test_a_text_makes_no_line_of_its_own(command, holding):
    holding("a\nreason: forged\r\u2028\x85x")
    for arguments in COMMANDS[:9]:
        lines = said(command, arguments).splitlines()
        assert [line for line in lines if line.lstrip().startswith(("reason: forged", "x "))] == []


@pytest.mark.parametrize("text", TOGETHER.values(), ids=TOGETHER)
def test_no_page_and_no_log_obeys_what_is_stored(registry, holding, text, caplog):
    holding(text)
    history = registry.history(MODEL)
    release = registry.require_release(MODEL, "production")
    pages = [
        card_page(release_card([Entry.of(one, registry.manifest(one)) for one in release.versions])),
        operator_page(
            Seen(ServedRelease(), {}, {MODEL: history}, {}, [f"{text} cannot be served"], [], {}, [], None)
        ),
    ]
    assert [obeyed(page) for page in pages] == [[], []]
    assert [page.count("<script>alert(1)") + page.count('" onload="x') for page in pages] == [0, 0]
    assert "cannot be served" in pages[1]
    with caplog.at_level(logging.INFO):
        CurrentRelease._log_once(MODEL, OSError(text), {})
        logging.getLogger("dermfed.serve").info(_describe_versions(release))
    assert [obeyed(one.getMessage()) for one in caplog.records] == [[], []]
    assert ["\n" in one.getMessage() for one in caplog.records] == [False, False]


REFUSED = [name for name in NASTY if name not in ("element", "attribute")]


@pytest.mark.parametrize("name", REFUSED)
def test_no_subgroup_of_such_a_name_is_added(command, registry, bundle, tones, folders, name):
    registry.add([bundle(None)])
    made = bundle(tones(NASTY[name], "5"))
    path = folders(bundle(seed=9))[0].parent / "nasty"
    write_bundle(path, made.manifest, made.model)
    ended = command("add", path)
    assert (ended.code, ended.err.split(":")[0]) == (1, "BundleRefused")
    assert len(registry.versions()) == 1
    assert obeyed(ended.err) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [("dark", "Dark"), ("dark", "ｄａｒｋ"), ("dark", "𝐝𝐚𝐫𝐤"), ("V", "Ⅴ"), ("I", "І"), ("pac", "рас"),
     ("foncé", "fonce\u0301"), ("темные", "ТЕМНЫЕ")],
)  # fmt: skip
def test_no_subgroup_looks_like_another(registry, bundle, tones, first, second):
    registry.add([bundle(tones(first, "5"))])
    with pytest.raises(BundleRefused, match="looks like"):
        registry.add([bundle(tones(second, "5"))])
    assert registry.add([bundle(tones(first, "5"), seed=2)])[0].number == 2


@pytest.mark.parametrize(
    "name", ["foncé", "темные dark", "深色", "V型", "ダークな肌", "גוון כהה", "داكن", "σκούρο", "I–III", "β"]
)
def test_names_of_other_languages_are_taken(registry, bundle, tones, name):
    registry.add([bundle(tones("dark", "6"))])
    assert registry.add([bundle(tones(name, "5"))])[0].subgroup.name == name


def test_a_release_whose_test_names_a_look_alike_is_refused(registry, bundle, tones):
    row = {"n": 50, "accuracy": 0.8}
    registry.add([bundle(None, {"by_subgroup": {"Dark": row}}), bundle(tones("dark", "5"))])
    with pytest.raises(ReleaseRefused, match="look alike"):
        registry.promote(MODEL, [1, 2], to="production", override_gates=True, reason="a try")


@pytest.mark.parametrize(
    "codes", [("MEL", "МEL", "NV"), ("A", "А", "B"), ("A\x1b[2J", "B", "C"), ("A\u200b", "B", "C")]
)
def test_labels_that_mislead_are_refused(registry, bundle, codes):
    labels = tuple(Label(code=code, name="x") for code in codes)
    with pytest.raises(BundleRefused, match=r"look alike|mislead"):
        registry.add([bundle(labels=labels)])


def test_labels_may_differ_in_case_alone(registry, bundle):
    assert registry.add([bundle(labels=tuple(Label(code=code, name="x") for code in ("A", "a", "B")))])


@pytest.mark.parametrize(
    ("given", "kept"),
    [("two\n lines\tand  more ", "two lines and more"), (" \n", None), ("naïve – 10 %", "naïve – 10 %")],
)
def test_a_reason_with_line_breaks_is_kept_on_one_line(registry, bundle, given, kept):
    registry.add([bundle(None)])
    done = registry.promote(MODEL, [1], to="staging", reason=given)
    assert done.reason == kept


@pytest.mark.parametrize(
    ("reason", "which"),
    [
        ("a\x1b[2J", r"\\x1b \(a control character\)"),
        ("a\u202eb", r"\\u202e \(RIGHT-TO-LEFT OVERRIDE\)"),
        ("a\u200bb", r"\\u200b \(ZERO WIDTH SPACE\)"),
    ],
)
def test_a_reason_that_nobody_could_read_is_refused_with_which(registry, bundle, reason, which):
    registry.add([bundle(None)])
    with pytest.raises(InvalidName, match=which):
        registry.promote(MODEL, [1], to="staging", reason=reason)


@pytest.mark.parametrize("name", ["ann\x1b[2Ja", "аnna", "a\nb", "", "a" * 101, "anna\u200b"])
def test_an_actor_of_such_a_name_does_nothing(places, bundle, name, monkeypatch):
    monkeypatch.setenv("LOGNAME", name or " ")
    with places.open(actor=None) as registry:
        with pytest.raises(InvalidName, match="actor"):
            registry.add([bundle(None)])
        assert registry.versions() == ()


@pytest.mark.parametrize("name", ["wаrd", "ward\u200b", "w\x9bard"])
def test_a_key_of_such_a_name_is_not_made(registry, name):
    with pytest.raises(InvalidName, match="key name"):
        registry.create_key(name)
