import gc
import logging
import threading
import time
import weakref
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from registry.bundle.manifest import OutOfDistribution
from registry.bundle.model import Gaussians
from registry.errors import DatabaseError, ObjectCorrupt
from serving.metrics import Metrics
from serving.releases import current_release
from serving.releases.current_release import CurrentRelease
from serving.releases.loading import Loader
from serving.settings import ServeSettings

GREY = np.full((1, 8, 8, 3), 128, np.uint8)


class Source:
    """A registry that can be made to fail, to lie, and to take its time."""

    def __init__(self, registry):
        self.registry = registry
        self.error = None
        self.broken = {}  # errors of bundles, by the version's number
        self.slow = set()  # the numbers of versions whose bundles wait for `go`
        self.go = threading.Event()
        self.loading = threading.Event()
        self.loaded = []

    def __getattr__(self, name):
        return getattr(self.registry, name)

    def standing(self, alias):
        if self.error:
            raise self.error
        return self.registry.standing(alias)

    def bundle(self, version):
        if version.number in self.slow:
            self.loading.set()
            assert self.go.wait(120)
        if version.number in self.broken:
            raise self.broken[version.number]
        self.loaded.append(version.number)
        return self.registry.bundle(version)


@pytest.fixture
def source(registry, promote, bundle, light):
    """A source with a first release, of versions 1 (global) and 2 (light)."""
    promote(registry, bundle(), bundle(light))
    return Source(registry)


def test_a_release_is_loaded_with_the_prevalence_that_was_stated(registry, promote, bundle, light):
    promote(registry, bundle(), bundle(light))
    source = Source(registry)
    loader = Loader(source, None)
    (release,) = source.current().values()
    assert loader.load(release).prevalence == {}
    stated = {"prevalence": {"light": 0.12}, "override_gates": True, "reason": "t"}
    registry.promote(release.model, [1, 2], to="production", **stated)
    (release,) = source.current().values()
    assert loader.load(release).prevalence == {"light": 0.12}


@pytest.fixture
def following(source, monkeypatch):
    """What follows the source, polled by hand alone."""
    monkeypatch.setattr(CurrentRelease, "_poll_until_closed", lambda self: None)
    return CurrentRelease(source, ServeSettings())


@pytest.fixture
def later(monkeypatch):
    """`later.by`: so many seconds later than it did each request is taken to have begun."""
    shift, served_for = SimpleNamespace(by=0.0), CurrentRelease.served_for
    monkeypatch.setattr(
        CurrentRelease,
        "served_for",
        lambda current, began, model=None: served_for(current, began + shift.by, model),
    )
    return shift


def answering(service):
    """The versions that answer everybody, and those with light skin."""
    asked = [service.diagnose(params=tone).json() for tone in ({}, {"skin_tone": "1"})]
    return tuple(one["model"]["version"] if "model" in one else one["status"] for one in asked)


def test_several_models_are_served_and_one_has_to_be_named(serve, registry, promote, bundle, problem):
    promote(registry, bundle())
    with serve() as service:
        assert service.diagnose().json()["model"]["name"] == "skin-lesion"
        promote(registry, bundle(model="nails"))
        service.eventually(lambda: len(service.client.get("/v1/models").json()["models"]) == 2)
        assert "nails, skin-lesion" in problem(service.diagnose(), 422)["detail"]
        assert service.diagnose(params={"model": "nails"}).json()["model"]["name"] == "nails"
        problem(service.client.get("/v1/models/hair/card"), 404)
    with serve(default_model="nails") as service:
        assert service.diagnose().json()["model"]["name"] == "nails"
        assert service.diagnose(params={"model": "skin-lesion"}).json()["model"]["name"] == "skin-lesion"


@pytest.mark.parametrize("part", ["bundle.json", "model.onnx"])
def test_a_release_that_does_not_load_leaves_the_old_one_serving(
    serve, places, registry, promote, bundle, problem, monkeypatch, caplog, part
):
    monkeypatch.setattr(current_release, "RETRY_SECONDS", 0.2)
    first = bundle(weights=np.eye(3) / 40)
    promote(registry, first)
    promote(registry, bundle(seed=1))
    with serve() as service:
        assert answering(service) == (2, 2)
        assert service.client.get("/readyz").json()["status"] == "ready"
        spoilt = first.digest if part == "bundle.json" else first.manifest.file.sha256
        places.spoil(spoilt)
        registry.rollback("skin-lesion", alias="production")
        service.eventually(lambda: service.client.get("/readyz").json()["status"] == "degraded")
        ready = service.client.get("/readyz")
        assert ready.status_code == 200
        assert ready.json()["models"] == ["skin-lesion"]
        (health_issue,) = ready.json()["troubles"]
        assert spoilt in health_issue
        assert f"{part} of version 1 of skin-lesion" in health_issue
        assert answering(service) == (2, 2)
        with serve() as restarted:
            for answer in (
                restarted.client.get("/readyz"),
                restarted.diagnose(),
                restarted.client.get("/v1/models"),
            ):
                said = problem(answer, 503)["detail"]
                assert spoilt in said
                assert f"{part} of version 1 of skin-lesion" in said
            assert restarted.client.get("/livez").status_code == 200
            registry.add([first])
            for one in (service, restarted):
                service.eventually(lambda one=one: answering(one) == (1, 1))
                whole = {"status": "ready", "models": ["skin-lesion"], "troubles": []}
                assert one.client.get("/readyz").json() == whole
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert [line.startswith("skin-lesion: ") and spoilt in line for line in told] == [True, True]  # once each


def test_a_request_waits_for_what_replaced_a_stale_release(serve, source, promote, bundle, later):
    later.by = -60.0  # however long this machine takes, the release was confirmed a moment ago
    with serve(lambda: nullcontext(source), max_age_seconds=1) as service:
        source.slow = {3}
        promote(source.registry, bundle(seed=1))
        assert source.loading.wait(60)
        assert answering(service)[0] == 1
        later.by = 0.0
        time.sleep(1.1)
        got = []
        asking = threading.Thread(target=lambda: got.append(answering(service)))
        asking.start()
        asking.join(0.3)
        assert asking.is_alive()
        assert service.client.get("/livez").status_code == 200
        assert service.client.get("/readyz").status_code == 200
        source.go.set()
        asking.join(60)
        assert got == [(3, 2)]


def test_keys_count_while_a_release_is_being_loaded(serve, source, promote, bundle):
    with serve(lambda: nullcontext(source), max_age_seconds=0.5) as service:
        source.slow = {3}
        key, secret = source.registry.create_key("app")
        promote(source.registry, bundle(seed=1))
        assert source.loading.wait(60)
        assert service.client.get("/v1/models").status_code == 401
        time.sleep(0.6)
        got = []
        headers = {"Authorization": f"Bearer {secret}"}
        asking = threading.Thread(target=lambda: got.append(service.diagnose(headers=headers).status_code))
        asking.start()
        asking.join(0.1)
        assert asking.is_alive()  # the request is in, and waits for the release
        source.registry.revoke_key(key.id)
        source.go.set()
        asking.join(60)
        assert got == [401]  # it was good when the request came, and is not any more


def test_no_answer_mixes_two_releases(serve, registry, promote, bundle, light, picture):
    releases = [
        {one.number: one.digest for one in promote(registry, bundle(seed=n), bundle(light, seed=n)).versions}
        for n in range(2)
    ]
    sent, ended, wrong, seen = picture(), threading.Event(), [], set()
    with serve() as service:

        def ask():
            while not ended.is_set():
                (model,) = service.client.get("/v1/models").json()["models"]
                listed = {one["version"]: one["digest"] for one in model["versions"]}
                card = service.client.get("/v1/models/skin-lesion/card").json()
                shown = {one["version"]: one["digest"] for one in card["versions"]}
                answered = service.diagnose(sent, params={"skin_tone": "1"}).json()["model"]
                seen.add(answered["version"])
                if listed not in releases or shown not in releases:
                    wrong.append((listed, shown))
                if {**releases[0], **releases[1]}[answered["version"]] != answered["digest"]:
                    wrong.append(answered)

        asking = [threading.Thread(target=ask) for _ in range(3)]
        for thread in asking:
            thread.start()
        try:
            for n in range(8):
                numbers = list(releases[n % 2])
                registry.promote("skin-lesion", numbers, to="production", reason="t", override_gates=True)
                time.sleep(0.15)
                if n >= 6:  # those before came and went so soon that they may never have answered
                    service.eventually(lambda light=numbers[1]: light in seen)
        finally:
            ended.set()
            for thread in asking:
                thread.join()
    assert wrong == []
    assert seen == {2, 4}


def test_what_is_loaded_already_is_not_loaded_again(following, source, promote, bundle, light, dark):
    assert source.loaded == [1, 2]
    promote(source.registry, bundle(dark))
    following.refresh()
    assert source.loaded == [1, 2, 3]
    before = following.served.releases["skin-lesion"]
    following.refresh()
    assert source.loaded == [1, 2, 3]
    assert following.served.releases["skin-lesion"] is before
    promote(source.registry, bundle(light, seed=1))
    following.refresh()
    assert source.loaded == [1, 2, 3, 4]
    after = following.served.releases["skin-lesion"]
    assert after.versions["global"] is before.versions["global"]
    assert after.versions["dark"] is before.versions["dark"]
    assert after.versions["light"] is not before.versions["light"]


@pytest.mark.parametrize("error", [DatabaseError("the disk is gone"), OSError("gone"), ValueError("a bug")])
def test_while_the_registry_fails_the_old_release_goes_on(serve, source, promote, bundle, error, caplog):
    with serve(lambda: nullcontext(source), max_age_seconds=0.2) as service:
        source.error = error
        service.eventually(lambda: service.client.get("/readyz").json()["status"] == "degraded")
        time.sleep(0.4)
        assert answering(service) == (1, 2)
        assert service.client.get("/readyz").json()["troubles"] == [f"the registry cannot be read: {error}"]
        promote(source.registry, bundle(seed=1))
        source.error = None
        service.eventually(lambda: answering(service) == (3, 2))
        assert service.client.get("/readyz").json()["troubles"] == []
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.getMessage() for record in errors] == [f"the registry: {error}"]
    assert (errors[0].exc_info is None) == (not isinstance(error, ValueError))


def test_a_registry_that_fails_from_the_start_lets_nobody_in(serve, source, problem):
    source.error = DatabaseError("the disk is gone")
    with serve(lambda: nullcontext(source)) as service:
        # Who asks cannot be known either.
        assert "the service's log says why" in problem(service.client.get("/readyz"), 503)["detail"]
        assert "no key can be checked" in problem(service.diagnose(), 503)["detail"]
        assert service.client.get("/livez").status_code == 200
        source.error = None
        service.eventually(lambda: answering(service) == (1, 2))


def test_a_moments_failure_does_not_confirm_a_release_that_is_being_replaced(
    following, source, promote, bundle, monkeypatch
):
    monkeypatch.setattr(current_release, "SILENT_SECONDS", 1e9)
    newer = promote(source.registry, bundle(seed=1))
    assert following.poll() == [newer]  # it has yet to be loaded
    replaced = following.served.confirmed_for("skin-lesion")
    source.error = DatabaseError("locked")
    following.poll()
    assert following.served.confirmed_for("skin-lesion") == replaced
    monkeypatch.setattr(current_release, "SILENT_SECONDS", 0.0)
    following.poll()  # nobody can say any more what is current: the old one is better than none
    assert following.served.confirmed_for("skin-lesion") > replaced


@pytest.mark.parametrize("error", [ObjectCorrupt("altered"), MemoryError("too much"), KeyError("a bug")])
def test_a_release_that_fails_is_left_alone_for_a_while(
    following, source, promote, bundle, monkeypatch, error
):
    monkeypatch.setattr(current_release, "RETRY_SECONDS", 1e9)
    source.broken = {3: error}
    promote(source.registry, bundle(seed=1))
    following.refresh()
    assert following.served.releases["skin-lesion"].release.id == 1
    assert "release 2 of skin-lesion" in following.served.health_issues["skin-lesion"]
    source.broken = {}
    following.refresh()
    assert following.served.releases["skin-lesion"].release.id == 1
    assert "release 2 of skin-lesion" in following.served.health_issues["skin-lesion"]
    assert following.served_for(following.served.confirmed) is following.served  # nobody waits meanwhile
    monkeypatch.setattr(current_release, "RETRY_SECONDS", 0)
    following.refresh()
    assert following.served.releases["skin-lesion"].release.id == 2
    assert following.served.health_issues == {}


def test_a_state_is_for_those_who_began_soon_after_it_was_confirmed(following):
    confirmed = following.served.confirmed
    assert following.served_for(confirmed + 2.0) is following.served
    assert following.served_for(confirmed + 2.01) is None
    assert following.served_for(confirmed - 5) is following.served


def test_a_replaced_release_is_freed_with_its_last_request(following, source, promote, bundle, light):
    before = following.served.releases["skin-lesion"]
    kept, model = before.versions["light"], weakref.ref(before.versions["global"].graph)
    promote(source.registry, bundle(seed=1))
    following.refresh()
    assert following.served.releases["skin-lesion"].release.id == 2
    # A request that began before still has what it began with; light skin's version is in both releases.
    assert before.versions["global"].graph.run(GREY).probabilities.shape == (1, 3)
    assert following.served.releases["skin-lesion"].versions["light"] is kept
    del before
    gc.collect()
    assert model() is None


def test_other_models_do_not_wait_for_one_that_is_loading(serve, source, promote, bundle):
    promote(source.registry, bundle(model="nails"))
    with serve(lambda: nullcontext(source), max_age_seconds=0.2) as service:
        source.slow = {3}
        promote(source.registry, bundle(seed=1))
        assert source.loading.wait(60)
        time.sleep(0.3)
        nails = {"model": "nails"}
        assert service.diagnose(params=nails).json()["model"]["version"] == 1
        promote(source.registry, bundle(model="nails", seed=1))
        service.eventually(lambda: service.diagnose(params=nails).json()["model"]["version"] == 2)
        assert not source.go.is_set()  # the first model is still being loaded
        source.go.set()


def test_a_registry_that_does_not_answer_at_all_leaves_the_old_release_serving(
    serve, source, promote, bundle, monkeypatch
):
    monkeypatch.setattr(current_release, "SILENT_SECONDS", 0.5)
    hanging, go = threading.Event(), threading.Event()
    standing = source.standing

    def hang(alias):
        hanging.set()
        assert go.wait(120)
        return standing(alias)

    with serve(lambda: nullcontext(source), max_age_seconds=0.2) as service:
        source.standing = hang
        assert hanging.wait(60)
        service.eventually(lambda: service.client.get("/readyz").json()["status"] == "degraded")
        (health_issue,) = service.client.get("/readyz").json()["troubles"]
        assert "the registry cannot be read: it has not answered for" in health_issue
        assert answering(service) == (1, 2)
        promote(source.registry, bundle(seed=1))
        source.standing = standing
        go.set()
        service.eventually(lambda: answering(service) == (3, 2))
        service.eventually(lambda: service.client.get("/readyz").json()["status"] == "ready")


def test_a_model_that_cannot_answer_is_not_put_in_place(following, source, promote, bundle):
    """It loads, and every request would fail: its manifest speaks of another embedding than it has."""
    promote(source.registry, bundle(seed=1))
    known = OutOfDistribution.of(
        Gaussians(np.zeros((1, 4), np.float32), np.eye(4, dtype=np.float32)),
        ["MEL"],
        trained_on=9,
        rate=0.5,
        n=9,
        threshold_bin=1000,
    )
    sound, source.bundle = source.bundle, lambda version: bundle(out_of_distribution=known)
    following.refresh()
    assert following.served.releases["skin-lesion"].release.id == 1
    assert "4 features" in following.served.health_issues["skin-lesion"]
    source.bundle = sound
    following._failed.clear()
    following.refresh()
    assert following.served.releases["skin-lesion"].release.id == 2


def test_metrics_tell_of_releases(source, promote, bundle, monkeypatch):
    monkeypatch.setattr(CurrentRelease, "_poll_until_closed", lambda self: None)
    metrics = Metrics()
    following = CurrentRelease(source, ServeSettings(), metrics)

    def told(name):
        found = {tuple(labels.values()): value for labels, value in metrics.totals().named(name) if value}
        return dict(sorted(found.items()))

    production = ("production", "skin-lesion")
    assert told("dermfed_release_workers") == {(*production, "1"): 1}
    assert told("dermfed_release_loads_total") == {(*production, "loaded"): 1}
    assert told("dermfed_troubles") == {}
    source.broken = {3: ObjectCorrupt("altered")}
    promote(source.registry, bundle(seed=1))
    following.refresh()
    assert told("dermfed_release_workers") == {(*production, "1"): 1}
    assert told("dermfed_release_loads_total") == {(*production, "loaded"): 1, (*production, "failed"): 1}
    assert told("dermfed_troubles") == {production: 1}
    promote(source.registry, bundle(seed=2))
    following.refresh()
    assert told("dermfed_release_workers") == {(*production, "3"): 1}
    assert told("dermfed_release_load_seconds_count") == {production: 2}
    assert told("dermfed_troubles") == {}
    source.error = DatabaseError("gone")
    following.refresh()
    assert told("dermfed_troubles") == {("production", ""): 1}
    assert told("dermfed_release_workers") == {(*production, "3"): 1}
