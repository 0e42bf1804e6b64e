"""A canary in the service: who gets it, that nobody can choose it, and that nobody gets an error by it."""

import hashlib
import hmac
import io
from dataclasses import replace
from types import SimpleNamespace

import anyio
import numpy as np
import pytest
from PIL import Image

from registry.registry import Registry
from registry.releases.rollout import Share
from serving.http import diagnoses
from serving.metrics.metrics import Metrics
from serving.protocol.parameters import Parameters
from serving.releases import canary_releases
from serving.releases.canary_releases import CanaryReleases
from serving.releases.canary_share import place_of
from serving.releases.current_release import CurrentRelease
from serving.settings import ServeSettings

MODEL = "skin-lesion"
TO = {"to": "production", "override_gates": True, "reason": "a test"}
HALF = Share(0.5)
KEY = bytes(range(32))


def within(successes, n, share):
    """Whether so many of n are as a share gives them, but for once in some 16,000 times (4 sigma)."""
    return abs(successes - n * share) <= 4 * (n * share * (1 - share)) ** 0.5 + 1


def pictures(n, seed=0):
    """So many small pictures, no two alike."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        file = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (32, 24, 3), np.uint8)).save(file, "PNG")
        yield file.getvalue()


@pytest.fixture
def versions(registry, promote, bundle, dark):
    """Production is 1 for everybody and 2 for dark; 3 is for everybody, 4 for dark."""
    promote(registry, bundle(), bundle(dark))
    registry.add([bundle(seed=1), bundle(dark, seed=1)])
    return registry


def version(answer):
    assert answer.status_code == 200, answer.text
    return answer.json()["model"]["version"]


def counted(service, name):
    """The samples of a metric by its labels' values, in their order."""
    found = {}
    for line in service.client.get("/metrics").text.splitlines():
        if line.startswith(f"{name}{{"):
            labels, value = line.removeprefix(f"{name}{{").rsplit("} ", 1)
            found[tuple(one.split('"')[1] for one in labels.split(","))] = float(value)
    return found


def runs(service, share=None):
    """Waits until the service has a canary, of this share."""
    shares = lambda: set(counted(service, "dermfed_canary_share").values())  # noqa: E731
    service.eventually(lambda: bool(shares()) if share is None else shares() == {share})


# Who gets it


@pytest.mark.parametrize("share", [0.01, 0.05, 0.5, 0.9])
def test_the_share_is_right_and_a_picture_keeps_its_place(share):
    sent = [number.to_bytes(8) for number in range(20_000)]
    places = [place_of(KEY, one) for one in sent]
    assert within(sum(place < share for place in places), len(places), share)
    assert places == [place_of(KEY, one) for one in sent]
    assert min(places) >= 0
    assert max(places) < 1


def naive_place(key, content):
    """What a hash without a key would be: anybody can compute it."""
    return int.from_bytes(hashlib.sha256(content).digest()[:8]) / 2**64


@pytest.mark.parametrize(("place", "held"), [(naive_place, False), (place_of, True)], ids=["naive", "keyed"])
def test_who_knows_all_but_the_key_cannot_choose_the_version(place, held):
    """The attacker sends only what lies within the share by every hash that they can compute."""
    public = [b"", MODEL.encode(), b"production", b"sha256:" + b"0" * 64, b"dermfed canary 1: "]
    guesses = [naive_place, *(lambda _, one, key=key: place_of(key, one) for key in public)]
    guesses += [
        lambda _, one, key=key: int.from_bytes(hmac.digest(key, one, "sha256")[:8]) / 2**64 for key in public
    ]
    for guess in guesses:
        chosen = [one for n in range(8000) if guess(None, one := n.to_bytes(8)) < 0.05]
        got = sum(place(KEY, one) < 0.05 for one in chosen)
        if not held and guess is naive_place:
            assert got == len(chosen)  # the control: every one of them is answered by the canary
        else:
            assert within(got, len(chosen), 0.05)


@pytest.mark.long
def test_it_answers_its_share_and_the_same_picture_alike_also_after_a_restart(versions, serve):
    versions.promote(MODEL, [3], **TO, share=Share(0.3))
    sent = list(pictures(150))
    with serve() as service:
        runs(service, 0.3)
        got = [version(service.diagnose(one, "image/png")) for one in sent]
        assert set(got) == {1, 3}
        assert within(got.count(3), len(got), 0.3)
        (key,) = {one.key for one in versions.canaries(MODEL).values()}
        assert got == [3 if place_of(key, one) < 0.3 else 1 for one in sent]
        # Another id, form, field or scale of the same picture, as a caller may choose them: no other version.
        for one, answered in zip(sent[:20], got, strict=False):
            headers = {"X-Request-Id": "a" * 32, "Idempotency-Key": hashlib.sha256(one).hexdigest()}
            assert version(service.diagnose(one, "image/png", headers=headers)) == answered
            asked = {"top": "2", "skin_tone": "I"}
            form = service.form(asked, {"image": ("another.png", one, "image/png")})
            assert version(form) == answered
        answered = counted(service, "dermfed_canary_requests_total")
        (release,) = {one.release.id for one in versions.canaries(MODEL).values()}
        by = {labels[0]: value for labels, value in answered.items()}
        assert by["canary"] + by["production"] == 150 + 40
        assert within(by["canary"], 190, 0.3)
        assert {labels[2] for labels in answered} == {str(release)}
        drift = counted(service, "dermfed_decisions_total")
        assert {labels[3] for labels in drift} >= {"1", "3"}
    with serve() as service:
        assert [version(service.diagnose(one, "image/png")) for one in sent[:40]] == got[:40]
        versions.promote(MODEL, [3], **TO, share=Share(0.7))
        runs(service, 0.7)
        raised = [version(service.diagnose(one, "image/png")) for one in sent[:40]]
        assert all(now == 3 for now, before in zip(raised, got, strict=False) if before == 3)
        assert raised.count(3) > got[:40].count(3)


def test_one_of_a_subgroup_answers_its_share_of_them_and_nobody_else(versions, serve):
    versions.promote(MODEL, [3, 4], **TO, share=Share(0.5, "dark"))
    sent = list(pictures(24))
    with serve() as service:
        runs(service)
        by_tone = {
            tone: {version(service.diagnose(one, "image/png", params=declared)) for one in sent}
            for tone, declared in {
                "V": {"skin_tone": "V"},
                "1": {"skin_tone": "1"},
                "none": {},
                "other": {"skin_tone": "9", "skin_tone_scale": "monk"},
            }.items()
        }
        assert by_tone == {"V": {2, 4}, "1": {1}, "none": {1}, "other": {1}}


def test_it_answers_beside_the_release_that_it_was_weighed_against_alone(versions):
    """Where that has not been loaded, what answers in its place is none that the gates compared."""
    versions.promote(MODEL, [3], **TO, share=Share(0.999))
    settings, metrics = ServeSettings(records=None), Metrics()
    current = CurrentRelease(versions, settings, metrics)
    canaries = CanaryReleases(settings, metrics, current)
    try:
        production, content = current.served.releases[MODEL], next(pictures(1))

        def chosen(served):
            asked = canaries.choose, served, production, [content], Parameters()
            return anyio.run(*asked).release.versions[0].number

        assert chosen(current.served) == 3
        (canary,) = current.served.canaries.values()
        other = replace(canary, beside=canary.beside + 7)
        assert chosen(replace(current.served, canaries={MODEL: other})) == 1
        assert chosen(replace(current.served, canaries={})) == 1

        # What has ended is held while production is loading, which may be what it has become.
        canaries._stop.set()
        canaries._thread.join()
        canaries._current = SimpleNamespace(served=current.served, loader=current.loader)
        canaries._look()
        for loading, held in (({MODEL: 0.0}, 1), ({}, 0)):
            canaries._current.served = replace(current.served, canaries={}, loading=loading)
            canaries._look()
            assert len(canaries._held) == held
    finally:
        canaries.close()
        current.close()


# What is in its way


def test_one_that_cannot_be_loaded_takes_no_answer_and_is_told(versions, places, serve, monkeypatch):
    monkeypatch.setattr(canary_releases, "RETRY_SECONDS", 0.2)
    versions.promote(MODEL, [3], **TO, share=HALF)
    damaged = versions.version(MODEL, 3).digest
    places.spoil(damaged)
    with serve() as service:
        got = [version(service.diagnose(one, "image/png")) for one in pictures(40)]
        assert set(got) == {1}
        ready = service.client.get("/readyz").json()
        assert ready["status"] == "degraded"
        (told,) = ready["troubles"]
        assert told.startswith("canary: release ")
        assert "cannot be served" in told
        by = {labels[0]: n for labels, n in counted(service, "dermfed_canary_requests_total").items()}
        assert set(by) == {"not-loaded", "production"}
        assert by["not-loaded"] + by["production"] == 40
        assert counted(service, "dermfed_troubles")["production/canary", MODEL] == 1
        assert ("production/canary", MODEL, "2") not in counted(service, "dermfed_release_workers")
        assert "It answers nobody in this worker" in service.client.get("/operator").text
        assert "canary" not in service.client.get("/v1/models").json()["models"][0]
        places.spoil(damaged)  # and back: it is tried again
        service.eventually(lambda: service.client.get("/readyz").json()["status"] == "ready")
        assert 3 in {version(service.diagnose(one, "image/png")) for one in pictures(40)}


def test_where_it_fails_with_a_picture_production_answers(versions, serve, monkeypatch):
    versions.promote(MODEL, [3], **TO, share=HALF)
    build = diagnoses.build_diagnosis

    def fails(loaded, *arguments, **options):
        if loaded.version.number == 3:
            raise RuntimeError("a canary that cannot")
        return build(loaded, *arguments, **options)

    monkeypatch.setattr(diagnoses, "build_diagnosis", fails)
    with serve() as service:
        runs(service)
        assert {version(service.diagnose(one, "image/png")) for one in pictures(40)} == {1}
        by = {labels[0]: n for labels, n in counted(service, "dermfed_canary_requests_total").items()}
        assert set(by) == {"failed", "production"}
        assert by["failed"] > 5
        # The control: production that fails is an error.
        monkeypatch.setattr(diagnoses, "build_diagnosis", lambda *_, **__: 1 / 0)
        assert service.diagnose().status_code == 500


def test_what_is_no_picture_is_refused_once(versions, serve, problem):
    versions.promote(MODEL, [3], **TO, share=Share(0.999))
    with serve() as service:
        runs(service)
        problem(service.diagnose(b"no picture"), 400)
        assert ("failed",) not in {one[:1] for one in counted(service, "dermfed_canary_requests_total")}


def test_a_withdrawn_one_and_one_of_a_registry_that_cannot_be_read_answer_nobody(
    versions, serve, monkeypatch
):
    versions.promote(MODEL, [3], **TO, share=HALF)
    sent = list(pictures(30))
    with serve() as service:
        runs(service)
        assert {version(service.diagnose(one, "image/png")) for one in sent} == {1, 3}
        standing = Registry.standing

        def broken(*_):
            raise OSError("no disk")

        monkeypatch.setattr(Registry, "standing", broken)
        service.eventually(lambda: service.client.get("/readyz").json()["status"] == "degraded")
        assert {version(service.diagnose(one, "image/png")) for one in sent} == {1}
        monkeypatch.setattr(Registry, "standing", standing)
        service.eventually(lambda: 3 in {version(service.diagnose(one, "image/png")) for one in sent})
        versions.withdraw(MODEL, [3], reason="misses melanoma")
        service.eventually(lambda: not counted(service, "dermfed_canary_share"))
        assert {version(service.diagnose(one, "image/png")) for one in sent} == {1}


# What it becomes


def test_in_full_it_is_production_and_is_not_loaded_again(versions, serve, monkeypatch):
    versions.promote(MODEL, [3], **TO, share=HALF)
    read = []
    fetch = Registry.bundle
    monkeypatch.setattr(Registry, "bundle", lambda self, one: read.append(one.number) or fetch(self, one))
    with serve() as service:
        runs(service)
        assert sorted(read) == [1, 2, 3]  # the version for dark is in both, and loaded once
        versions.promote(MODEL, [3], **TO)
        (release,) = versions.current().values()
        served = lambda: counted(service, "dermfed_release_workers")  # noqa: E731
        service.eventually(lambda: served() == {("production", MODEL, str(release.id)): 1})
        assert {version(service.diagnose(one, "image/png")) for one in pictures(20)} == {3}
        assert sorted(read) == [1, 2, 3]
