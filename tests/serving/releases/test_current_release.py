import gc
import logging
import sqlite3
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from registry.bundle.manifest import OutOfDistribution
from registry.bundle.model import Gaussians
from registry.database.changes import point_alias
from registry.database.connection import writing
from registry.errors import DatabaseError, DatabaseLost, ObjectCorrupt
from registry.registry import Registry
from serving.inference.batcher import Batcher
from serving.metrics import Metrics
from serving.protocol.problems import InvalidParameter, NothingServed
from serving.releases import current_release
from serving.releases.current_release import REGISTRY, CurrentRelease
from serving.state import nothing_served, select_release
from tests.serving.releases.conftest import MODEL, bearer, version

GREY = np.full((1, 8, 8, 3), 128, np.uint8)


def answering(service):
    """The versions that answer where no tone is declared, and for light skin."""
    return tuple(version(service.diagnose(params=tone)) for tone in ({}, {"skin_tone": "1"}))


def status(service):
    return service.client.get("/readyz").json()["status"]


@pytest.fixture
def serve(serve):
    """A service that looks so often that it sees each promotion, and each moment without a registry."""
    return partial(serve, poll_seconds=0.05)


@pytest.fixture
def following(source, follow):
    return follow(source)


# Loading


def test_several_models_are_served_and_one_has_to_be_named(serve, registry, promote, bundle, problem):
    def name(**options):
        return service.diagnose(**options).json()["model"]["name"]

    promote(registry, bundle())
    with serve() as service:
        assert name() == MODEL
        promote(registry, bundle(model="nails"))
        service.eventually(lambda: len(service.client.get("/v1/models").json()["models"]) == 2)
        assert "nails, skin-lesion" in problem(service.diagnose(), 422)["detail"]
        assert name(params={"model": "nails"}) == "nails"
        problem(service.client.get("/v1/models/hair/card"), 404)
    with serve(default_model="nails") as service:
        assert name() == "nails"
        assert name(params={"model": MODEL}) == MODEL


def test_a_release_that_does_not_load_leaves_the_old_one_serving_until_it_does(
    serve, places, registry, promote, bundle, problem, monkeypatch, caplog
):
    monkeypatch.setattr(current_release, "RETRY_SECONDS", 0.2)
    first = bundle(weights=np.eye(3) / 40)
    spoilt = first.manifest.file.sha256
    promote(registry, first)
    promote(registry, bundle(seed=1))
    with serve() as service:
        assert answering(service) == (2, 2)
        places.spoil(spoilt)
        registry.rollback(MODEL, alias="production")
        service.eventually(lambda: status(service) == "degraded")
        ready = service.client.get("/readyz")
        assert ready.status_code == 200
        assert ready.json()["models"] == [MODEL]
        (issue,) = ready.json()["troubles"]
        assert spoilt in issue
        assert "model.onnx of version 1 of skin-lesion" in issue
        assert answering(service) == (2, 2)
        with serve() as restarted:
            assert restarted.client.get("/livez").status_code == 200
            assert spoilt in problem(restarted.client.get("/readyz"), 503)["detail"]
            assert spoilt in problem(restarted.diagnose(), 503)["detail"]
            registry.add([first])
            for one in (service, restarted):
                service.eventually(lambda one=one: answering(one) == (1, 1))
                whole = {"status": "ready", "models": [MODEL], "troubles": []}
                assert one.client.get("/readyz").json() == whole
    logged = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert [line.startswith("skin-lesion: ") and spoilt in line for line in logged] == [
        True,
        True,
    ]  # once each


@pytest.fixture
def of_four_features(bundle):
    """A bundle that loads, and could answer nothing: its manifest names another embedding than it has."""
    near = Gaussians(np.zeros((1, 4), np.float32), np.eye(4, dtype=np.float32))
    known = OutOfDistribution.of(near, ["MEL"], trained_on=9, rate=0.5, n=9, threshold_bin=1000)
    return bundle(out_of_distribution=known)


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(ObjectCorrupt("altered"), id="its file was altered"),
        pytest.param(MemoryError("altered"), id="there is no memory"),
        pytest.param(KeyError("altered"), id="of a bug"),
        pytest.param(None, id="its model cannot answer"),
    ],
)
def test_a_release_that_fails_is_left_alone_for_a_while(
    following, source, promote, bundle, monkeypatch, of_four_features, broken
):
    monkeypatch.setattr(current_release, "RETRY_SECONDS", 1e9)
    source.broken = {3: broken or of_four_features}
    promote(source.registry, bundle(seed=1))
    for _ in range(2):
        following.refresh()
        assert following.served.releases[MODEL].release.id == 1
        issue = following.served.health_issues[MODEL]
        assert "release 2 of skin-lesion" in issue
        assert ("altered" if broken else "4 features") in issue
        source.broken = {}
    assert following.served_for(following.served.confirmed) is following.served  # no request waits meanwhile
    monkeypatch.setattr(current_release, "RETRY_SECONDS", 0)
    following.refresh()
    assert following.served.releases[MODEL].release.id == 2
    assert following.served.health_issues == {}


def test_what_is_loaded_already_is_not_loaded_again(following, source, promote, bundle, light, dark):
    assert source.loaded == [1, 2]
    promote(source.registry, bundle(dark))
    following.refresh()
    before = following.served.releases[MODEL]
    following.refresh()
    assert source.loaded == [1, 2, 3]
    assert following.served.releases[MODEL] is before
    promote(source.registry, bundle(light, seed=1))
    following.refresh()
    assert source.loaded == [1, 2, 3, 4]
    after = following.served.releases[MODEL]
    assert after.versions["global"] is before.versions["global"]
    assert after.versions["dark"] is before.versions["dark"]
    assert after.versions["light"] is not before.versions["light"]


def test_a_replaced_release_is_freed_with_its_last_request(following, source, promote, bundle):
    before = following.served.releases[MODEL]
    model = weakref.ref(before.versions["global"].graph)
    promote(source.registry, bundle(seed=1))
    following.refresh()
    assert following.served.releases[MODEL].release.id == 2
    # A request that began before still has what it began with.
    assert before.versions["global"].graph.run(GREY).probabilities.shape == (1, 3)
    del before
    gc.collect()
    assert model() is None


def test_metrics_count_releases_and_loads(source, follow, promote, bundle):
    metrics = Metrics()
    following, production = follow(source, metrics), ("production", MODEL)

    def counted(name):
        return {tuple(labels.values()): value for labels, value in metrics.totals().named(name) if value}

    assert counted("dermfed_release_workers") == {(*production, "1"): 1}
    assert counted("dermfed_release_loads_total") == {(*production, "loaded"): 1}
    assert counted("dermfed_troubles") == {}
    source.broken = {3: ObjectCorrupt("altered")}
    promote(source.registry, bundle(seed=1))
    following.refresh()
    assert counted("dermfed_release_workers") == {(*production, "1"): 1}
    assert counted("dermfed_release_loads_total") == {(*production, "loaded"): 1, (*production, "failed"): 1}
    assert counted("dermfed_troubles") == {production: 1}
    promote(source.registry, bundle(seed=2))
    following.refresh()
    assert counted("dermfed_release_workers") == {(*production, "3"): 1}
    assert counted("dermfed_release_load_seconds_count") == {production: 2}
    assert counted("dermfed_troubles") == {}
    source.error = DatabaseError("gone")
    following.refresh()
    assert counted("dermfed_troubles") == {("production", ""): 1}
    assert counted("dermfed_release_workers") == {(*production, "3"): 1}


# While a release is loading


@pytest.fixture
def replace_slowly(source, promote, bundle):
    """Promotes version 3, which is being loaded until `source.go` is set."""

    def replace():
        source.slow = {3}
        promote(source.registry, bundle(seed=1))
        assert source.loading.wait(60)

    yield replace
    source.go.set()


def test_a_request_waits_for_what_replaced_a_stale_release(serve, source, replace_slowly, monkeypatch):
    shift, served_for = SimpleNamespace(by=-60.0), CurrentRelease.served_for

    def earlier(current, began, model=None):  # however long this machine takes, it was confirmed just now
        return served_for(current, began + shift.by, model)

    monkeypatch.setattr(CurrentRelease, "served_for", earlier)
    with serve(lambda: nullcontext(source), max_age_seconds=1) as service, ThreadPoolExecutor(1) as callers:
        replace_slowly()
        assert answering(service)[0] == 1
        shift.by = 0.0
        time.sleep(1.1)
        asking = callers.submit(answering, service)
        time.sleep(0.3)
        assert not asking.done()
        assert service.client.get("/livez").status_code == 200
        assert service.client.get("/readyz").status_code == 200
        source.go.set()
        assert asking.result(60) == (3, 2)


def test_a_key_that_is_revoked_while_its_request_waits_is_refused(serve, source, replace_slowly):
    with serve(lambda: nullcontext(source), max_age_seconds=0.5) as service, ThreadPoolExecutor(1) as callers:
        key, secret = source.registry.create_key("app")
        replace_slowly()
        assert service.client.get("/v1/models").status_code == 401
        time.sleep(0.6)
        asking = callers.submit(service.diagnose, headers=bearer(secret))
        time.sleep(0.1)
        assert not asking.done()  # the request is in, and waits for the release
        source.registry.revoke_key(key.id)
        source.go.set()
        assert asking.result(60).status_code == 401


def test_other_models_do_not_wait_for_one_that_is_loading(serve, source, replace_slowly, promote, bundle):
    promote(source.registry, bundle(model="nails"))
    with serve(lambda: nullcontext(source), max_age_seconds=0.2) as service:
        replace_slowly()
        time.sleep(0.3)
        nails = {"model": "nails"}
        assert version(service.diagnose(params=nails)) == 1
        promote(source.registry, bundle(model="nails", seed=1))
        service.eventually(lambda: version(service.diagnose(params=nails)) == 2)
        assert not source.go.is_set()  # the first model is still being loaded
        source.go.set()


def test_no_answer_mixes_two_releases(serve, registry, promote, bundle, light, picture):
    releases = [
        {one.number: one.digest for one in promote(registry, bundle(seed=n), bundle(light, seed=n)).versions}
        for n in range(2)
    ]
    sent, ended, wrong, seen = picture(), threading.Event(), [], set()
    with serve() as service, ThreadPoolExecutor(3) as callers:

        def ask():
            while not ended.is_set():
                (model,) = service.client.get("/v1/models").json()["models"]
                card = service.client.get("/v1/models/skin-lesion/card").json()
                for shown in (model, card):
                    found = {one["version"]: one["digest"] for one in shown["versions"]}
                    wrong.extend([] if found in releases else [found])
                answered = service.diagnose(sent, params={"skin_tone": "1"}).json()["model"]
                seen.add(answered["version"])
                if {**releases[0], **releases[1]}[answered["version"]] != answered["digest"]:
                    wrong.append(answered)

        asking = [callers.submit(ask) for _ in range(3)]
        try:
            for n in range(8):
                numbers = list(releases[n % 2])
                registry.promote(MODEL, numbers, to="production", reason="t", override_gates=True)
                time.sleep(0.15)
                if n >= 6:  # those before came and went so soon that they may never have answered
                    service.eventually(lambda light=numbers[1]: light in seen)
        finally:
            ended.set()
        for one in asking:
            one.result(60)
    assert wrong == []
    assert seen == {2, 4}


def test_a_state_is_for_those_who_began_soon_after_it_was_confirmed(following):
    confirmed = following.served.confirmed
    assert following.served_for(confirmed + 2.0) is following.served
    assert following.served_for(confirmed + 2.01) is None
    assert following.served_for(confirmed - 5) is following.served


# While the registry cannot be read


@pytest.mark.parametrize("error", [DatabaseError("the disk is gone"), OSError("gone"), ValueError("a bug")])
def test_while_the_registry_fails_the_old_release_goes_on(serve, source, promote, bundle, error, caplog):
    with serve(lambda: nullcontext(source), max_age_seconds=0.2) as service:
        source.error = error
        service.eventually(lambda: status(service) == "degraded")
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


def test_a_registry_that_does_not_answer_at_all_leaves_the_old_release_serving(
    serve, source, promote, bundle, monkeypatch
):
    monkeypatch.setattr(current_release, "SILENT_SECONDS", 0.5)
    hanging, go, standing = threading.Event(), threading.Event(), source.standing

    def hang(alias):
        hanging.set()
        assert go.wait(120)
        return standing(alias)

    with serve(lambda: nullcontext(source), max_age_seconds=0.2) as service:
        source.standing = hang
        assert hanging.wait(60)
        service.eventually(lambda: status(service) == "degraded")
        (issue,) = service.client.get("/readyz").json()["troubles"]
        assert "the registry cannot be read: it has not answered for" in issue
        assert answering(service) == (1, 2)
        promote(source.registry, bundle(seed=1))
        source.standing = standing
        go.set()
        service.eventually(lambda: answering(service) == (3, 2))
        service.eventually(lambda: status(service) == "ready")


def test_a_registry_that_fails_from_the_start_lets_no_caller_in(serve, source, problem):
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
    before = following.served.confirmed_for(MODEL)
    source.error = DatabaseError("locked")
    following.poll()
    assert following.served.confirmed_for(MODEL) == before
    monkeypatch.setattr(current_release, "SILENT_SECONDS", 0.0)
    following.poll()  # what is current cannot be known any more: the old one is better than none
    assert following.served.confirmed_for(MODEL) > before


# A registry that is replaced, moved away, another's or set back


@pytest.fixture
def keyed(registry, promote, bundle):
    """The headers of a caller with a key, for a registry with a release."""
    promote(registry, bundle())
    return bearer(registry.create_key("app")[1])


def copy_of(places):
    """A copy of the database, as its own backup makes it."""
    new = places.folder / "new.db"
    with closing(sqlite3.connect(places.folder / "registry.db")) as old, closing(sqlite3.connect(new)) as to:
        old.backup(to)
    return new


def test_a_file_in_the_place_of_the_registry_counts_at_once(serve, places, registry, promote, bundle, keyed):
    key, secret = registry.create_key("other")
    with serve() as service:
        assert version(service.diagnose(headers=bearer(secret))) == 1
        new = copy_of(places)
        with Registry.open(f"sqlite:///{new}", str(places.store), actor="tester") as opened:
            promote(opened, bundle(seed=1))
            opened.revoke_key(key.id)
        new.replace(places.folder / "registry.db")
        service.eventually(lambda: version(service.diagnose(headers=bearer(secret))) == 401)
        service.eventually(lambda: version(service.diagnose(headers=keyed)) == 2)
        ready = service.client.get("/readyz", headers=keyed).json()
        assert (ready["status"], ready["troubles"]) == ("ready", [])  # it goes on from what was there


def test_a_registry_that_is_gone_answers_nothing_until_it_is_back(serve, places, keyed, problem):
    database, elsewhere = places.folder / "registry.db", places.folder / "elsewhere.db"
    with serve(max_age_seconds=0.2) as service:

        def get(path):
            return service.client.get(path, headers=keyed)

        assert version(service.diagnose(headers=keyed)) == 1
        database.rename(elsewhere)
        service.eventually(lambda: version(service.diagnose(headers=keyed)) == 503)
        gone = "is not there any more"
        assert gone in problem(service.diagnose(headers=keyed), 503)["detail"]
        assert gone in problem(get("/readyz"), 503)["detail"]
        assert get("/operator").status_code == 200
        assert gone in get("/operator").text
        assert 'dermfed_troubles{alias="production",model=""} 1.0' in get("/metrics").text
        assert not database.exists()
        elsewhere.rename(database)
        service.eventually(lambda: version(service.diagnose(headers=keyed)) == 1)
        assert status(service) == "ready"


def test_another_registry_in_its_place_is_not_served(
    serve, places, keyed, promote, bundle, problem, tmp_path
):
    with Registry.open(f"sqlite:///{tmp_path / 'other.db'}", str(tmp_path / "other")) as other:
        promote(other, bundle(seed=5))  # without keys: it would answer any caller on this machine
    with serve(max_age_seconds=0.2) as service:
        assert version(service.diagnose(headers=keyed)) == 1
        (tmp_path / "other.db").replace(places.folder / "registry.db")
        service.eventually(lambda: version(service.diagnose(headers=keyed)) == 503)
        assert "another one is in its place" in problem(service.diagnose(headers=keyed), 503)["detail"]
        problem(service.diagnose(), 401)


def test_an_older_copy_is_served_and_reported_and_brings_no_key_back(
    serve, places, registry, promote, bundle, keyed
):
    key, revoked = registry.create_key("other")
    older = copy_of(places)
    registry.revoke_key(key.id)
    _, newest = registry.create_key("newest")
    promote(registry, bundle(seed=1))
    with serve() as service:
        assert version(service.diagnose(headers=keyed)) == 2
        assert version(service.diagnose(headers=bearer(revoked))) == 401
        older.replace(places.folder / "registry.db")
        service.eventually(lambda: version(service.diagnose(headers=keyed)) == 1)
        assert version(service.diagnose(headers=bearer(revoked))) == 401
        assert version(service.diagnose(headers=bearer(newest))) == 401
        ready = service.client.get("/readyz", headers=keyed).json()
        assert ready["status"] == "degraded"
        assert "the registry was set back" in ready["troubles"][0]
        (hidden,) = service.client.get("/readyz").json()["troubles"]
        assert hidden.startswith("1 trouble")  # without a key that may operate
        assert "the registry was set back" in service.client.get("/operator", headers=keyed).text


def test_an_older_copy_without_keys_does_not_open_the_service(serve, places, registry, promote, bundle):
    promote(registry, bundle())
    older = copy_of(places)
    _, secret = registry.create_key("app")
    with serve() as service:
        assert version(service.diagnose()) == 401
        older.replace(places.folder / "registry.db")
        service.eventually(lambda: version(service.diagnose(headers=bearer(secret))) == 401)
        assert version(service.diagnose()) == 401


@pytest.fixture
def clock(monkeypatch):
    """A clock of what follows the registry alone, which stands still until it is moved; seconds."""
    now = SimpleNamespace(at=1000.0)
    monkeypatch.setattr(current_release, "time", SimpleNamespace(monotonic=lambda: now.at))
    return now


@pytest.mark.parametrize(
    ("error", "answers"),
    [
        pytest.param(DatabaseLost("it is not there"), False, id="one that is lost ends"),
        pytest.param(DatabaseError("the disk is slow"), True, id="one that fails goes on"),
    ],
)
def test_two_seconds_later_a_lost_registry_answers_nothing(clock, source, follow, error, answers):
    source.registry.create_key("app")
    following = follow(source)
    loaded = following.served.releases[MODEL].versions["global"].version
    assert following.may_answer(loaded)
    source.error = error
    following.poll()
    clock.at += 1.9
    following.poll()
    assert list(following.served.releases) == [MODEL]  # it may be back within two seconds
    assert REGISTRY in following.served.health_issues
    clock.at += 0.2
    following.poll()
    assert bool(following.served.releases) is answers
    assert bool(following.may_answer(loaded)) is answers  # nor what was computed when it was lost
    assert following.served_for(clock.at) is not None  # no request waits to be refused
    assert following.served.keys  # an operator may still look
    clock.at += current_release.LOOK_SECONDS
    following.poll()
    assert (following.served.keys is None) is not answers


# A withdrawn version, and a stopped alias


def withdraw(source, *numbers):
    return source.registry.withdraw(MODEL, numbers, reason="secret: misses melanoma")


def test_it_is_dropped_at_the_next_poll_though_the_one_before_is_still_loading(replaced, follow):
    following = follow(replaced)
    bad = following.served.releases[MODEL].versions["global"].version
    assert (bad.number, following.may_answer(bad)) == (3, True)
    withdraw(replaced, 3)
    (before,) = following.poll()  # and nothing loads it, now or ever
    served = following.served
    assert served.releases == {}
    assert following.may_answer(bad) is False
    for _ in range(3):
        assert following.poll() == [before]
        assert following.served.releases == {}
        assert following.served_for(following.served.confirmed, MODEL) is following.served  # no request waits
    with pytest.raises(
        NothingServed, match="withdrawn, and what takes its place is not loaded yet"
    ) as raised:
        select_release(served, MODEL)
    assert "secret" not in raised.value.detail + nothing_served(served, "production", in_full=True)
    following.load(before)
    assert following.poll() == []
    assert following.served.releases[MODEL].release == before
    assert following.served.silenced == {}


def test_one_that_takes_its_place_and_does_not_load_leaves_nothing_serving(replaced, follow, monkeypatch):
    monkeypatch.setattr(current_release, "RETRY_SECONDS", 1e9)
    following = follow(replaced)
    replaced.broken = {1: ObjectCorrupt("altered")}
    following.loader._loaded.clear()
    withdraw(replaced, 3)
    following.refresh()
    following.refresh()
    served = following.served
    assert (served.releases, set(served.silenced)) == ({}, {MODEL})
    assert "altered" in served.health_issues[MODEL]
    with pytest.raises(NothingServed):
        select_release(served, MODEL)


def test_a_registry_that_fails_afterwards_brings_it_not_back(replaced, follow):
    following = follow(replaced)
    bad = following.served.releases[MODEL].versions["global"].version
    withdraw(replaced, 3)
    following.poll()
    replaced.error = DatabaseError("gone")
    following.poll()
    assert (following.served.releases, following.may_answer(bad)) == ({}, False)
    replaced.error, replaced.hides = None, True
    following.poll()
    assert (following.served.releases, following.may_answer(bad)) == ({}, False)


def test_an_alias_that_still_points_to_it_is_not_followed(replaced, follow):
    withdraw(replaced, 3)
    with writing(replaced.registry._engine) as connection:  # past all that checks it
        point_alias(connection, MODEL, "production", 2)
    served = follow(replaced).served
    assert served.releases == {}
    assert "release 2 of skin-lesion holds version 3, which was withdrawn" in served.health_issues[MODEL]


def test_other_models_go_on_without_the_withdrawn_one(replaced, follow, promote, bundle):
    promote(replaced.registry, bundle(model="nails"))
    following = follow(replaced)
    withdraw(replaced, 3)
    following.poll()
    served = following.served
    assert list(served.releases) == ["nails"]
    assert following.served_for(served.confirmed) is served
    assert select_release(served, "nails").release.model == "nails"
    with pytest.raises(NothingServed):
        select_release(served, MODEL)
    with pytest.raises(InvalidParameter, match="nails, skin-lesion"):
        select_release(served, None)  # a request that named none is not answered by another model now


def test_an_answer_waits_for_a_registry_that_is_behind_and_not_for_a_silent_one(
    replaced, follow, monkeypatch
):
    following = follow(replaced)
    loaded = following.served.releases[MODEL].versions["global"].version
    monkeypatch.setattr(current_release, "WITHDRAWN_SECONDS", -1.0)  # what it said is always too long ago
    assert following.may_answer(loaded) is None
    monkeypatch.setattr(current_release, "SILENT_SECONDS", -1.0)
    assert following.may_answer(loaded) is True
    withdraw(replaced, 3)
    following.poll()
    assert following.may_answer(loaded) is False


def test_a_request_on_its_way_is_not_answered_by_it(serve, replaced, problem, monkeypatch):
    inside, go, show = threading.Event(), threading.Event(), Batcher._show

    def held(batcher, graph, batch):
        inside.set()
        assert go.wait(60)
        show(batcher, graph, batch)

    with serve(lambda: nullcontext(replaced)) as service, ThreadPoolExecutor(1) as callers:
        assert version(service.diagnose()) == 3
        monkeypatch.setattr(Batcher, "_show", held)
        asking = callers.submit(service.diagnose)
        assert inside.wait(60)
        replaced.slow = {1}
        withdraw(replaced, 3)
        service.eventually(lambda: service.client.get("/readyz").status_code == 503)
        go.set()
        answer = asking.result(60)
        detail = problem(answer, 503)["detail"]
        assert "was withdrawn; ask again" in detail
        assert "secret" not in detail
        assert answer.headers["retry-after"] == "1"
        assert "withdrawn" in problem(service.diagnose(), 503)["detail"]
        replaced.go.set()
        service.eventually(lambda: service.client.get("/readyz").status_code == 200)
        assert version(service.diagnose()) == 1


def test_a_stopped_model_says_so_and_comes_back(serve, replaced, problem):
    with serve(lambda: nullcontext(replaced)) as service:
        replaced.registry.stop(MODEL, alias="production", reason="secret")
        service.eventually(lambda: service.client.get("/readyz").status_code == 503)
        for answer in (
            service.diagnose(),
            service.diagnose(params={"model": MODEL}),
            service.client.get("/v1/models"),
            service.client.get(f"/v1/models/{MODEL}/card"),
        ):
            assert problem(answer, 503)["detail"] == current_release.STOPPED.format(model=MODEL)
            assert answer.headers["retry-after"] == "5"
        replaced.registry.rollback(MODEL, alias="production")
        service.eventually(lambda: service.client.get("/readyz").status_code == 200)
        assert version(service.diagnose()) == 3
