import json
import zipfile
from datetime import UTC, datetime, timedelta

import pytest

from registry import import_release
from registry.bundle.errors import BundleError
from registry.errors import ArchiveRefused, BundleRefused, DatabaseError, GateRefusal
from registry.import_release import read_release
from registry.signing_keys import Trust, trust_in_signer

pytestmark = pytest.mark.sqlite  # queries on both databases are asked elsewhere

MODEL = "skin-lesion"


@pytest.fixture
def signed(released, signer, file):
    """The file, with a signature of each version."""
    released.sign(MODEL, [1, 2], signer)
    released.export_release(MODEL, "production", file)
    return file


def kinds(registry):
    return [one.kind for one in registry.history(MODEL)]


def test_the_bundles_arrive_as_they_were_and_nothing_is_promoted(registry, file, pair):
    imported = registry.import_release(file)
    assert [registry.bundle(version) for version in imported.versions] == pair
    assert [one.number for one in imported.new] == [1, 2]
    assert (registry.aliases(MODEL), imported.promoted) == ({}, ())
    assert kinds(registry) == ["imported"]
    assert registry.verify() == ()


def test_history_tells_where_it_came_from(registry, released, file, places):
    imported = registry.import_release(file)
    (event,) = registry.history(MODEL)
    promotion = next(one for one in released.history(MODEL) if one.kind == "promoted")
    assert (event, event.actor, event.versions) == (imported.event, "tester", (1, 2))
    told = json.loads(places.object(imported.digest).read_bytes())
    assert event.details["origin"] == {
        "list": imported.digest,
        "alias": "production",
        "release": 1,
        "registry": told["registry"],
        "event": promotion.id,
        "key": None,
        "time": promotion.time.isoformat(timespec="microseconds"),
        "versions": [{"number": one.number, "digest": one.digest} for one in released.versions(MODEL)],
    }
    assert [one["kind"] for one in told["events"]] == ["added", "promoted"]


@pytest.mark.parametrize("harm", ["altered", "missing"])
def test_a_lost_list_is_found_and_the_same_import_puts_it_right(registry, file, places, harm):
    digest = registry.import_release(file).digest
    places.spoil(digest) if harm == "altered" else places.object(digest).unlink()
    (problem,) = registry.verify()
    assert problem.about == "release.json of the import of event 1"
    for part in (digest, harm, str(places.store), "`dermfed-registry import FILE`"):
        assert part in problem.text
    assert registry.import_release(file).event is None
    assert registry.verify() == ()


def test_it_is_promoted_where_told_through_the_gates(registry, file):
    imported = registry.import_release(file, to=["staging", "production"], reason="by courier")
    assert [(one.alias, one.reason) for one in imported.promoted] == [
        ("staging", "by courier"),
        ("production", "by courier"),
    ]
    assert all(one.gates.results for one in imported.promoted)
    assert registry.require_release(MODEL, "production").versions == imported.versions
    assert registry.import_release(file, to=["production"]).promoted == ()


def test_a_gate_that_refuses_leaves_the_versions_and_promotes_nothing(
    registry, sender, bundle, tested, tmp_path
):
    sender.add([bundle(None, tested(dark=0.5, light=0.9))])
    sender.promote(MODEL, [1], to="production", override_gates=True, reason="a try")
    path = tmp_path / "unfair.dermfed"
    sender.export_release(MODEL, "production", path)
    with pytest.raises(GateRefusal, match="spread"):
        registry.import_release(path, to=["production"])
    assert [one.number for one in registry.versions(MODEL)] == [1]
    assert (registry.aliases(MODEL), kinds(registry)) == ({}, ["imported"])


def test_an_import_that_fails_adds_nothing_and_works_afterwards(registry, file, monkeypatch):
    def fail(*_, **__):
        raise DatabaseError("the server went away")

    monkeypatch.setattr(import_release, "insert_event", fail)
    with pytest.raises(DatabaseError):
        registry.import_release(file)
    assert (registry.models(), registry.verify()) == ((), ())
    monkeypatch.undo()
    assert len(registry.import_release(file).new) == 2
    assert registry.verify() == ()


def test_signatures_of_the_trusted_travel_along(registry, signed, signer):
    imported = registry.import_release(signed, trust=trust_in_signer(signer))
    assert [(one.number, one.identity) for one in imported.signatures] == [
        (1, signer.identity),
        (2, signer.identity),
    ]
    assert imported.left_out == ()
    for version in imported.versions:
        assert registry.require_signature(version, trust_in_signer(signer)) == signer.identity
    assert imported.event.details["signatures"] == [
        {"number": one.number, "object": one.object, "identity": one.identity} for one in imported.signatures
    ]
    assert registry.verify(trust_in_signer(signer)) == ()
    assert all(datetime.now(UTC) - one.created < timedelta(minutes=1) for one in imported.signatures)


@pytest.mark.parametrize("trust", [None, Trust({}, ())], ids=["nobody named", "others trusted"])
def test_signatures_of_nobody_who_is_trusted_are_left_out_and_can_follow(registry, signed, signer, trust):
    imported = registry.import_release(signed, trust=trust, allow_unsigned=True)
    assert (imported.signatures, len(imported.left_out)) == ((), 2)
    assert "trusted" in imported.left_out[0]
    assert [registry.signatures(one) for one in imported.versions] == [(), ()]
    again = registry.import_release(signed, trust=trust_in_signer(signer))
    assert (again.new, len(again.signatures)) == ((), 2)
    assert again.event.versions == ()
    assert registry.import_release(signed, trust=trust_in_signer(signer)).event is None
    assert kinds(registry) == ["imported", "imported"]
    assert registry.verify(trust_in_signer(signer)) == ()


def swap(first, second):
    first["signatures"], second["signatures"] = second["signatures"], first["signatures"]


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (
            lambda first, _: first["signatures"][0].update(identity="CN=the board"),
            "claims to be of CN=the board and is forged",
        ),
        (swap, "forged"),
        (lambda first, _: first["signatures"].append(first["signatures"][0]), "of version 1 is listed twice"),
    ],
    ids=["another identity", "other files", "twice"],
)
def test_a_signature_that_was_edited_is_refused(registry, signed, signer, reindex, edit, said):
    reindex(lambda record: edit(*record["versions"]))
    with pytest.raises(ArchiveRefused, match=said):
        registry.import_release(signed, trust=trust_in_signer(signer))
    assert registry.models() == ()


def test_an_altered_file_names_itself(file, repack):
    def alter(found):
        info, content = found[-1]
        found[-1] = (info, content[:-1] + bytes([content[-1] ^ 1]))

    repack(alter)
    with pytest.raises(ArchiveRefused, match=r"models/[0-9a-f]{64}\.onnx was altered"):
        read_release(file)


def added(name):
    return lambda found: found.append((zipfile.ZipInfo(name), b"evil"))


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found.pop(1),
        lambda found: found.pop(),
        *map(added, (f"models/{'0' * 64}.onnx", "../../etc/cron.d/x", "/etc/passwd", "models/")),
    ],
)
def test_a_file_that_was_left_out_or_added_is_refused(file, repack, change):
    repack(change)
    with pytest.raises(ArchiveRefused, match=r"does not hold the files that its release\.json names"):
        read_release(file)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("model_size", 7, "does not hold the files"),
        ("size", 7, "does not hold the files"),
        ("size", 2**40, "less than or equal"),
        ("digest", "sha256:../../etc/passwd", "pattern"),
        ("subgroup", "light", "tells of other versions"),
        ("number", 3, "in the order of their numbers"),
        ("number", 2, "listed once each"),
        ("smuggled", 1, "Extra inputs"),
    ],
)
def test_a_list_that_was_edited_is_refused(file, reindex, key, value, said):
    reindex(lambda record: record["versions"][0].update({key: value}))
    with pytest.raises(ArchiveRefused, match=said):
        read_release(file)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda record: record["events"][1].update(actor="somebody"), "events.1.actor: Extra inputs"),
        (lambda record: record["events"].reverse(), "not in their order"),
        (lambda record: record["events"].append(record["events"][1]), "not in their order, each once"),
        (lambda record: record.update(registry="of mine"), "registry: String should match"),
        (lambda record: record["events"].pop(1), "no event .* promoted to production"),
        (lambda record: record.update(alias="staging"), "no event .* promoted to staging"),
        (lambda record: record.update(release=2), "no event .* tells that release 2"),
        (lambda record: record.update(model="another"), "says of version 1: another for global"),
        (lambda record: record["gates"].update(results=[]), "another gate report"),
        (lambda record: record.update(gates=None), "another gate report"),
        (lambda record: record.update(format=2, code_version="9.1"), "with dermfed 9.1, which wrote it"),
        (lambda record: record.update(format="1"), "format"),
        (lambda record: record.update(versions=[]), "versions"),
        (lambda record: record["events"][0].update(id=float("nan")), "events.0.id"),
        (lambda record: record["events"][1].update(id=2**70), "events.1.id"),
        (lambda record: record["events"][1].update(key="of the board"), "events.1.key"),
        (lambda record: record["events"][1].update(time="yesterday"), "events.1.time"),
        (lambda record: record.clear(), "Field required"),
    ],
)
def test_a_history_that_was_edited_is_refused(file, reindex, edit, said):
    reindex(edit)
    with pytest.raises(ArchiveRefused, match=said):
        read_release(file)


def test_a_model_that_is_too_large_here_is_refused_unread(file, monkeypatch):
    monkeypatch.setattr("registry.releases.add.check_size.__defaults__", (10,))
    monkeypatch.setattr(import_release, "model_file", None)  # whatever reads one
    with pytest.raises(BundleRefused, match=r"version 1 in release\.json has \d+ bytes; allowed are 10"):
        read_release(file)


def test_a_manifest_of_another_model_is_refused(sender, released, bundle, tmp_path, monkeypatch):
    """The sender lies about which model it is, and all of its digests fit."""
    from registry import export_release
    from registry.archive import PackedVersion

    def lie(**facts):
        return PackedVersion(**{**facts, "subgroup": "global" if facts["number"] == 2 else "dark"})

    monkeypatch.setattr(export_release, "PackedVersion", lie)
    monkeypatch.setattr(export_release, "check_events", lambda index: None)
    monkeypatch.setattr(
        import_release, "read_index", lambda text: export_release.ReleaseIndex(**json.loads(text))
    )
    path = tmp_path / "lie.dermfed"
    released.export_release(MODEL, "production", path)
    with pytest.raises(ArchiveRefused, match=r"version 1: skin-lesion for dark.*says skin-lesion for global"):
        read_release(path)


def test_any_changed_byte_of_what_is_held_is_refused(file):
    """Of the headers, which zip writes twice, a change may be harmless: what arrives never differs."""
    whole = file.read_bytes()
    expected = read_release(file)
    with zipfile.ZipFile(file) as archive:
        starts = {one.header_offset + 30 + len(one.filename): one.file_size for one in archive.infolist()}
    held = {position for start, size in starts.items() for position in range(start, start + size)}
    headers = set(range(len(whole))) - held
    for position in sorted({*headers, *range(0, len(whole), 41)}):
        changed = bytearray(whole)
        changed[position] ^= 0x10
        file.write_bytes(changed)
        try:
            assert read_release(file) == expected
        except (ArchiveRefused, BundleError):
            continue
        assert position not in held


def test_any_cut_is_refused(file):
    whole = file.read_bytes()
    for length in [*range(0, len(whole), 97), len(whole) - 1]:
        file.write_bytes(whole[:length])
        with pytest.raises(ArchiveRefused):
            read_release(file)
