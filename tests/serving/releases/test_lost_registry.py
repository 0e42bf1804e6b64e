"""A service whose registry is replaced, moved away, another's or set back while it runs."""

import sqlite3
from contextlib import closing
from types import SimpleNamespace

import pytest

from registry.errors import DatabaseError
from registry.registry import Registry
from serving.releases import current_release
from serving.releases.current_release import REGISTRY, CurrentRelease
from serving.settings import ServeSettings


def bearer(secret):
    return {"Authorization": f"Bearer {secret}"}


def copy_of(places, name="new.db"):
    """A copy of the database as its own backup makes it, as places of its own beside."""
    new = places.folder / name
    with (
        closing(sqlite3.connect(places.folder / "registry.db")) as source,
        closing(sqlite3.connect(new)) as to,
    ):
        source.backup(to)
    return new


def open_copy(places, new):
    return Registry.open(f"sqlite:///{new}", str(places.store), actor="tester")


def version(answer):
    return answer.json()["model"]["version"] if answer.status_code == 200 else answer.status_code


def test_a_file_in_the_place_of_the_registry_counts_at_once(serve, places, registry, promote, bundle):
    promote(registry, bundle())
    key, secret = registry.create_key("app")
    _, other = registry.create_key("other")
    with serve() as service:
        assert version(service.diagnose(headers=bearer(secret))) == 1
        new = copy_of(places)
        with open_copy(places, new) as opened:
            promote(opened, bundle(seed=1))
            opened.revoke_key(key.id)
        new.replace(places.folder / "registry.db")
        service.eventually(lambda: version(service.diagnose(headers=bearer(secret))) == 401)
        service.eventually(lambda: version(service.diagnose(headers=bearer(other))) == 2)
        ready = service.client.get("/readyz", headers=bearer(other)).json()
        assert (ready["status"], ready["troubles"]) == ("ready", [])  # it goes on from what was there


@pytest.fixture
def keyed(registry, promote, bundle):
    """A registry with a release and a key; gives the secret."""
    promote(registry, bundle())
    return registry.create_key("app")[1]


def test_a_registry_that_is_gone_answers_nothing_until_it_is_back(serve, places, keyed, problem):
    database, elsewhere = places.folder / "registry.db", places.folder / "elsewhere.db"
    with serve(max_age_seconds=0.2) as service:
        assert version(service.diagnose(headers=bearer(keyed))) == 1
        database.rename(elsewhere)
        service.eventually(lambda: version(service.diagnose(headers=bearer(keyed))) == 503)
        assert "is not there any more" in problem(service.diagnose(headers=bearer(keyed)), 503)["detail"]
        assert (
            "is not there any more"
            in problem(service.client.get("/readyz", headers=bearer(keyed)), 503)["detail"]
        )
        page = service.client.get("/operator", headers=bearer(keyed))
        assert page.status_code == 200
        assert "is not there any more" in page.text
        assert 'dermfed_troubles{alias="production",model=""} 1.0' in (
            service.client.get("/metrics", headers=bearer(keyed)).text
        )
        assert not database.exists()
        elsewhere.rename(database)
        service.eventually(lambda: version(service.diagnose(headers=bearer(keyed))) == 1)
        assert service.client.get("/readyz").json()["status"] == "ready"


def test_another_registry_in_its_place_is_not_served(
    serve, places, keyed, promote, bundle, problem, tmp_path
):
    with Registry.open(f"sqlite:///{tmp_path / 'other.db'}", str(tmp_path / "other")) as other:
        promote(other, bundle(seed=5))  # without keys: it would answer anybody on this machine
    with serve(max_age_seconds=0.2) as service:
        assert version(service.diagnose(headers=bearer(keyed))) == 1
        (tmp_path / "other.db").replace(places.folder / "registry.db")
        service.eventually(lambda: version(service.diagnose(headers=bearer(keyed))) == 503)
        assert (
            "another one is in its place" in problem(service.diagnose(headers=bearer(keyed)), 503)["detail"]
        )
        problem(service.diagnose(), 401)


def test_an_older_copy_is_served_and_told_and_brings_no_key_back(
    serve, places, registry, promote, bundle, problem
):
    promote(registry, bundle())
    key, revoked = registry.create_key("app")
    _, good = registry.create_key("good")
    older = copy_of(places)
    registry.revoke_key(key.id)
    _, newest = registry.create_key("newest")
    promote(registry, bundle(seed=1))
    with serve() as service:
        assert version(service.diagnose(headers=bearer(good))) == 2
        problem(service.diagnose(headers=bearer(revoked)), 401)
        older.replace(places.folder / "registry.db")
        service.eventually(lambda: version(service.diagnose(headers=bearer(good))) == 1)
        problem(service.diagnose(headers=bearer(revoked)), 401)
        problem(service.diagnose(headers=bearer(newest)), 401)
        ready = service.client.get("/readyz", headers=bearer(good)).json()
        assert ready["status"] == "degraded"
        assert "the registry was set back" in ready["troubles"][0]
        assert "the registry was set back" in service.client.get("/operator", headers=bearer(good)).text


def test_an_older_copy_without_keys_does_not_open_the_service(
    serve, places, registry, promote, bundle, problem
):
    promote(registry, bundle())
    older = copy_of(places)
    _, secret = registry.create_key("app")
    with serve() as service:
        problem(service.diagnose(), 401)
        older.replace(places.folder / "registry.db")
        service.eventually(lambda: service.diagnose(headers=bearer(secret)).status_code == 401)
        problem(service.diagnose(), 401)


class Source:
    """A registry that can be lost and can fail."""

    def __init__(self, registry):
        self.registry = registry
        self.error = None

    def __getattr__(self, name):
        if self.error is not None:
            raise self.error
        return getattr(self.registry, name)

    def standing(self, alias):
        if self.error is not None:
            raise self.error
        return self.registry.standing(alias)


@pytest.fixture
def clock(monkeypatch):
    """A clock of what follows the registry alone, which stands still until it is moved; seconds."""
    now = SimpleNamespace(at=1000.0)
    monkeypatch.setattr(current_release, "time", SimpleNamespace(monotonic=lambda: now.at))
    return now


@pytest.fixture
def following(registry, promote, bundle, monkeypatch, clock):
    promote(registry, bundle())
    registry.create_key("app")
    monkeypatch.setattr(CurrentRelease, "_poll_until_closed", lambda self: None)
    return CurrentRelease(Source(registry), ServeSettings())


def lose(following, error=None):
    from registry.errors import DatabaseLost

    following._source.error = error or DatabaseLost("the database is not there any more")


@pytest.mark.parametrize(("error", "answers"), [(None, False), (DatabaseError("the disk is slow"), True)])
def test_one_that_is_lost_ends_and_one_that_fails_goes_on(following, clock, error, answers):
    lose(following, error)
    following.poll()
    clock.at += 1.9
    following.poll()
    assert list(following.served.releases) == ["skin-lesion"]  # it may be back within two seconds
    assert REGISTRY in following.served.health_issues
    clock.at += 0.2
    following.poll()
    assert bool(following.served.releases) is answers
    assert following.served_for(clock.at) is not None  # nobody waits to be told
    assert following.served.keys  # who operates it may still look
    clock.at += current_release.LOOK_SECONDS
    following.poll()
    assert (following.served.keys is None) is not answers


def test_what_was_computed_when_it_was_lost_does_not_leave(following, clock):
    loaded = following.served.releases["skin-lesion"].versions["global"]
    assert following.may_answer(loaded.version)
    lose(following)
    following.poll()
    clock.at += 2.1
    following.poll()
    assert following.may_answer(loaded.version) is None
    assert following.served.lost is not None
