"""A withdrawn version answers no more, and a stopped alias answers nothing: whatever else is going on."""

import threading
from contextlib import nullcontext

import pytest

from registry.database.changes import point_alias
from registry.database.connection import writing
from registry.errors import DatabaseError, ObjectCorrupt
from registry.records import Standing
from serving.inference.batcher import Batcher
from serving.protocol.problems import InvalidParameter, NothingServed
from serving.releases import current_release
from serving.releases.current_release import CurrentRelease
from serving.settings import ServeSettings
from serving.state import nothing_served, select_release

MODEL = "skin-lesion"


class Source:
    """A registry whose bundles can be slow or broken, and that can fail as a whole."""

    def __init__(self, registry):
        self.registry = registry
        self.error = None
        self.broken = {}  # errors of bundles, by the version's number
        self.slow = set()  # numbers of versions whose bundles wait for `go`
        self.go = threading.Event()
        self.hides = False  # whether it is one of before, that knows no withdrawals

    def __getattr__(self, name):
        return getattr(self.registry, name)

    def standing(self, alias):
        if self.error:
            raise self.error
        return Standing(self.registry.current(alias)) if self.hides else self.registry.standing(alias)

    def bundle(self, version):
        if version.number in self.slow:
            assert self.go.wait(120)
        if version.number in self.broken:
            raise self.broken[version.number]
        return self.registry.bundle(version)


@pytest.fixture
def source(registry, promote, bundle):
    """A source with releases 1 and 2, of versions 1 and 2 for everybody; release 2 is current."""
    promote(registry, bundle())
    promote(registry, bundle(seed=1))
    return Source(registry)


@pytest.fixture
def following(source, monkeypatch):
    """What follows the source, polled by hand alone."""
    monkeypatch.setattr(CurrentRelease, "_poll_until_closed", lambda self: None)
    return CurrentRelease(source, ServeSettings())


def withdraw(source, *numbers):
    return source.registry.withdraw(MODEL, numbers, reason="secret: misses melanoma")


def test_it_is_dropped_at_the_next_poll_though_the_one_before_is_still_loading(following, source):
    bad = following.served.releases[MODEL].versions["global"].version
    assert (bad.number, following.may_answer(bad)) == (2, True)
    withdraw(source, 2)
    (before,) = following.poll()  # and nobody loads it, now or ever
    served = following.served
    assert served.releases == {}
    assert following.may_answer(bad) is False
    for _ in range(3):
        assert following.poll() == [before]
        assert following.served.releases == {}
        assert following.served_for(following.served.confirmed, MODEL) is following.served  # nobody waits
    with pytest.raises(NothingServed, match="withdrawn, and what takes its place is not loaded yet") as told:
        select_release(served, MODEL)
    assert "secret" not in told.value.detail + nothing_served(served, "production", in_full=True)
    following.load(before)
    assert following.poll() == []
    assert following.served.releases[MODEL].release == before
    assert following.served.silenced == {}


def test_one_that_takes_its_place_and_does_not_load_leaves_nothing_serving(following, source, monkeypatch):
    monkeypatch.setattr(current_release, "RETRY_SECONDS", 1e9)
    source.broken = {1: ObjectCorrupt("altered")}
    following.loader._loaded.clear()
    withdraw(source, 2)
    following.refresh()
    following.refresh()
    served = following.served
    assert (served.releases, set(served.silenced)) == ({}, {MODEL})
    assert "altered" in served.health_issues[MODEL]
    with pytest.raises(NothingServed):
        select_release(served, MODEL)


def test_a_registry_that_fails_afterwards_brings_it_not_back(following, source):
    bad = following.served.releases[MODEL].versions["global"].version
    withdraw(source, 2)
    following.poll()
    source.error = DatabaseError("gone")
    following.poll()
    assert (following.served.releases, following.may_answer(bad)) == ({}, False)
    source.error, source.hides = None, True
    following.poll()
    assert (following.served.releases, following.may_answer(bad)) == ({}, False)


def test_an_alias_that_still_points_to_it_is_not_followed(source, monkeypatch):
    """As where somebody wrote into the database."""
    monkeypatch.setattr(CurrentRelease, "_poll_until_closed", lambda self: None)
    withdraw(source, 2)
    with writing(source.registry._engine) as connection:
        point_alias(connection, MODEL, "production", 2)
    following = CurrentRelease(source, ServeSettings())
    assert following.served.releases == {}
    assert (
        "release 2 of skin-lesion holds version 2, which was withdrawn"
        in following.served.health_issues[MODEL]
    )


def test_other_models_go_on(following, source, promote, bundle):
    promote(source.registry, bundle(model="nails"))
    following.refresh()
    withdraw(source, 2)
    following.poll()
    served = following.served
    assert list(served.releases) == ["nails"]
    assert following.served_for(served.confirmed) is served
    assert select_release(served, "nails").release.model == "nails"
    with pytest.raises(NothingServed):
        select_release(served, MODEL)
    with pytest.raises(InvalidParameter, match="nails, skin-lesion"):
        select_release(served, None)  # who named none is not answered by another model now


def test_an_answer_waits_for_a_registry_that_is_behind_and_a_silent_one_is_not_waited_for(
    following, source, monkeypatch
):
    version = following.served.releases[MODEL].versions["global"].version
    monkeypatch.setattr(current_release, "WITHDRAWN_SECONDS", -1.0)  # whatever was told is too long ago
    assert following.may_answer(version) is None
    monkeypatch.setattr(current_release, "SILENT_SECONDS", -1.0)
    assert following.may_answer(version) is True
    withdraw(source, 2)
    following.poll()
    assert following.may_answer(version) is False


def test_a_request_on_its_way_is_not_answered_by_it(serve, source, problem, monkeypatch):
    inside, go = threading.Event(), threading.Event()
    show = Batcher._show

    def held(batcher, graph, batch):
        inside.set()
        assert go.wait(60)
        show(batcher, graph, batch)

    with serve(lambda: nullcontext(source), poll_seconds=0.05) as service:
        assert service.diagnose().json()["model"]["version"] == 2
        monkeypatch.setattr(Batcher, "_show", held)
        got = []
        asking = threading.Thread(target=lambda: got.append(service.diagnose()))
        asking.start()
        assert inside.wait(60)
        source.slow = {1}
        withdraw(source, 2)
        service.eventually(lambda: service.client.get("/readyz").status_code == 503)
        go.set()
        asking.join(60)
        told = problem(got[0], 503)["detail"]
        assert "was withdrawn; ask again" in told
        assert got[0].headers["retry-after"] == "1"
        assert "secret" not in told
        assert "withdrawn" in problem(service.diagnose(), 503)["detail"]
        source.go.set()
        service.eventually(lambda: service.client.get("/readyz").status_code == 200)
        assert service.diagnose().json()["model"]["version"] == 1


def test_a_stopped_model_says_so_and_comes_back(serve, source, problem):
    with serve(lambda: nullcontext(source), poll_seconds=0.05) as service:
        source.registry.stop(MODEL, alias="production", reason="secret")
        service.eventually(lambda: service.client.get("/readyz").status_code == 503)
        for answer in (
            service.diagnose(),
            service.diagnose(params={"model": MODEL}),
            service.client.get("/v1/models"),
            service.client.get(f"/v1/models/{MODEL}/card"),
        ):
            told = problem(answer, 503)
            assert told["detail"] == current_release.STOPPED.format(model=MODEL)
            assert answer.headers["retry-after"] == "5"
        source.registry.rollback(MODEL, alias="production")
        service.eventually(lambda: service.client.get("/readyz").status_code == 200)
        assert service.diagnose().json()["model"]["version"] == 2
