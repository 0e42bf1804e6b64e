"""What is broken, where and how, is told in the log and to operators, and to no other caller."""

import re
import threading
from contextlib import nullcontext

import pytest

from registry.errors import DatabaseError
from serving.web.rendering import ASSETS
from tests.serving.conftest import MODEL, WEIGHTS, draw_bundle, encode, paint, release

HOST = "postgresql://db.ward-7.hospital.example:5432/registry"
FORESEEN_BY_NOBODY = "an object at 0x7f00 of /srv/models/hidden"
SCOPES = ("diagnose", "read", "operate")


class Source:
    """A registry that can be broken before a bundle is read."""

    def __init__(self, registry):
        self.registry = registry
        self.go = threading.Event()  # until then bundles are waited for
        self.error = None  # of whatever asks what is current
        self.bundle_error = None

    def __getattr__(self, name):
        return getattr(self.registry, name)

    def standing(self, alias):
        if self.error:
            raise self.error
        return self.registry.standing(alias)

    def bundle(self, version):
        assert self.go.wait(60)
        if self.bundle_error:
            raise self.bundle_error
        return self.registry.bundle(version)


def object_of(places, digest):
    name = digest.removeprefix("sha256:")
    return places.store / "objects" / name[:2] / name


def missing(source, places, bundle):
    object_of(places, bundle.manifest.file.sha256).unlink()


def altered(source, places, bundle):
    places.spoil(bundle.manifest.file.sha256)


def altered_manifest(source, places, bundle):
    places.spoil(bundle.digest)


def no_file(source, places, bundle):
    path = object_of(places, bundle.manifest.file.sha256)
    path.unlink()
    path.mkdir()  # nobody may read a folder as a file, whoever runs this


def no_permission(source, places, bundle):
    source.bundle_error = PermissionError(13, "Permission denied", str(object_of(places, bundle.digest)))


def nobody_foresaw_it(source, places, bundle):
    source.bundle_error = RuntimeError(FORESEEN_BY_NOBODY)


def database_gone(source, places, bundle):
    """The object is missing already; the database goes once that has been noticed."""
    missing(source, places, bundle)


BREAKS = {
    one.__name__: one
    for one in (
        *(missing, altered, altered_manifest, no_file, no_permission, nobody_foresaw_it),
        database_gone,
    )
}


def answers(service, secret):
    """Everything that may be asked for with a key, as a program and as a browser, by what was asked."""
    bearer = {"Authorization": f"Bearer {secret}"} if secret else {}
    picture = {"image": ("a.jpg", encode(paint()), "image/jpeg")}
    paths = (
        *("/", "/operator", "/console", "/livez", "/readyz", "/metrics", "/openapi.json", "/docs"),
        *("/v1/models", f"/v1/models/{MODEL}/card", "/v1/models/other/card", "/healthz", "/nowhere"),
    )
    found = {f"GET {name}": service.client.get(f"/assets/{name}", headers=bearer) for name in ASSETS}
    for accept in ("application/json", "text/html"):
        headers = {**bearer, "Accept": accept}
        for path in paths:
            found[f"GET {path} {accept}"] = service.client.get(path, headers=headers)
        for model in ("", MODEL, "other"):
            named = {"params": {"model": model}, "headers": headers}
            found[f"POST /v1/diagnoses {model} {accept}"] = service.diagnose(**named)
            found[f"POST form {model} {accept}"] = service.form({}, **named)
            found[f"POST / {model} {accept}"] = service.client.post("/", files=picture, **named)
        for step in ("prepare", "act"):
            path = f"/v1/console/{step}"
            found[f"POST {path} {accept}"] = service.client.post(path, json={}, headers=headers)
    return found


def said(answer):
    return answer.text + "".join(f"\n{name}: {value}" for name, value in answer.headers.items())


def hidden(places, *bundles):
    """What no caller may be told: folders, hosts, digests of objects, and the words of an exception."""
    digests = {one.digest for one in bundles} | {one.manifest.file.sha256 for one in bundles}
    return re.compile(
        "|".join(
            [
                *map(re.escape, (str(places.folder), places.url, "ward-7", "/srv/models", "0x7f00")),
                *(re.escape(digest.removeprefix("sha256:")) for digest in digests),
                *("Errno", "Permission denied", "directory", "Traceback", r"\.py\b", "RuntimeError"),
            ]
        )
    )


@pytest.fixture
def source(registry):
    return Source(registry)


@pytest.fixture
def keys(registry):
    """A key of each scope, one of all, none, and one that there never was; by name."""
    made = {scope: registry.create_key(scope, scopes=[scope])[1] for scope in SCOPES}
    everything = registry.create_key("all", scopes=SCOPES)[1]
    return {**made, "all": everything, "none": "", "wrong": "dermfed-wrong"}


@pytest.mark.parametrize("runs", ["nothing runs", "the one before runs"])
@pytest.mark.parametrize("broken", BREAKS)
def test_callers_are_told_what_to_do_and_operators_what_is_broken(
    serve, source, places, keys, caplog, broken, runs
):
    bundle = draw_bundle(weights=2 * WEIGHTS["global"])
    serving = 503 if runs == "nothing runs" else 200
    if serving == 200:  # its digest is no secret: answers name it
        release(source.registry, draw_bundle())
        source.go.set()
    with serve(lambda: nullcontext(source), requests_per_minute=0) as service:
        operating = {"Authorization": f"Bearer {keys['all']}"}
        assert service.diagnose(headers=operating).status_code == serving
        source.go.clear()
        release(source.registry, bundle)
        BREAKS[broken](source, places, bundle)
        source.go.set()
        secret = hidden(places, bundle)
        service.eventually(lambda: secret.search(service.client.get("/readyz", headers=operating).text))
        if broken == "database_gone":
            source.error = DatabaseError(f"{HOST} cannot be reached: Permission denied")
            service.eventually(lambda: HOST in service.client.get("/readyz", headers=operating).text)
        assert service.diagnose(headers=operating).status_code == serving
        for name, key in keys.items():
            for asked, answer in answers(service, key).items():
                found = secret.search(said(answer))
                assert found is None or name in ("operate", "all"), (name, asked, found)
                assert answer.status_code != 500, (name, asked)
        # Controls: it is there to be seen, and the log has it.
        for name in ("operate", "all"):
            for path in ("/readyz", "/operator"):
                told = service.client.get(path, headers={"Authorization": f"Bearer {keys[name]}"})
                assert secret.search(told.text), (name, path)
        if serving == 503:
            assert secret.search(service.diagnose(headers=operating).json()["detail"])
            for name in ("diagnose", "read"):
                path = {"diagnose": "/", "read": "/v1/models"}[name]
                told = service.client.get(path, headers={"Authorization": f"Bearer {keys[name]}"})
                assert told.status_code == 503
                assert "the service's log says why" in told.json()["detail"]
        assert secret.search(caplog.text)
