"""What is broken, where and how, is in the log and disclosed to operators, and to no other caller."""

import re
import threading
from contextlib import nullcontext

import pytest

from registry.errors import DatabaseError
from serving.web.rendering import ASSETS
from tests.serving.conftest import MODEL, WEIGHTS, draw_bundle, encode, paint, release
from tests.thorough import mostly_long

HOST = "postgresql://db.ward-7.hospital.example:5432/registry"
UNFORESEEN = "an object at 0x7f00 of /srv/models/hidden"
GONE = "the model is missing, then the database is gone"
SCOPES = ("diagnose", "read", "operate")


class Source:
    """A registry that can be broken before a bundle is read."""

    def __init__(self, registry):
        self.registry = registry
        self.go = threading.Event()  # until then bundles are waited for
        self.error = None  # of what is current
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


def model_file(places, bundle):
    name = bundle.manifest.file.sha256.removeprefix("sha256:")
    return places.store / "objects" / name[:2] / name


def remove(source, places, bundle):
    model_file(places, bundle).unlink()


def put_a_folder_in_its_place(source, places, bundle):
    remove(source, places, bundle)
    model_file(places, bundle).mkdir()


def refuse_permission(source, places, bundle):
    source.bundle_error = PermissionError(13, "Permission denied", str(model_file(places, bundle)))


def fail(source, places, bundle):
    source.bundle_error = RuntimeError(UNFORESEEN)


BREAKS = {
    "the model is missing": remove,
    "the model is altered": lambda source, places, bundle: places.spoil(bundle.manifest.file.sha256),
    "the manifest is altered": lambda source, places, bundle: places.spoil(bundle.digest),
    "the model is a folder": put_a_folder_in_its_place,
    "the model may not be read": refuse_permission,
    "an unforeseen error": fail,
    GONE: remove,
}


def answers(service, secret):
    """All that may be asked for with a key, as a program and as a browser, by what was asked."""
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
        for path in ("/v1/console/prepare", "/v1/console/act"):
            found[f"POST {path} {accept}"] = service.client.post(path, json={}, headers=headers)
    return found


def hidden(places, bundle):
    """What no caller may see: folders, hosts, digests of objects, and the words of an exception."""
    digests = (bundle.digest, bundle.manifest.file.sha256)
    literal = (
        *(str(places.folder), places.url, "ward-7", "/srv/models", "0x7f00"),
        *(digest.removeprefix("sha256:") for digest in digests),
        *("Errno", "Permission denied", "directory", "Traceback", "RuntimeError"),
    )
    return re.compile("|".join([*map(re.escape, literal), r"\.py\b"]))


@pytest.mark.parametrize(
    ("broken", "running"),
    mostly_long(
        [*((broken, False) for broken in BREAKS), ("the manifest is altered", True), (GONE, True)],
        *((GONE, False), ("the model is a folder", False), ("an unforeseen error", False)),
        *(("the manifest is altered", True), (GONE, True)),
    ),
)
def test_operators_see_what_is_broken_and_other_callers_what_to_do(
    serve, registry, places, caplog, broken, running
):
    source, bundle = Source(registry), draw_bundle(weights=2 * WEIGHTS["global"])
    secret, status = hidden(places, bundle), 200 if running else 503
    keys = {scope: registry.create_key(scope, scopes=[scope])[1] for scope in SCOPES}
    keys |= {"all": registry.create_key("all", scopes=SCOPES)[1], "none": "", "wrong": "dermfed-wrong"}
    if running:
        release(registry, draw_bundle())
        source.go.set()
    with serve(lambda: nullcontext(source), requests_per_minute=0) as service:

        def read(path, key):
            return service.client.get(path, headers={"Authorization": f"Bearer {keys[key]}"})

        assert service.diagnose(headers={"Authorization": f"Bearer {keys['all']}"}).status_code == status
        source.go.clear()
        release(registry, bundle)
        BREAKS[broken](source, places, bundle)
        source.go.set()
        service.eventually(lambda: secret.search(read("/readyz", "all").text))
        if broken == GONE:
            source.error = DatabaseError(f"{HOST} cannot be reached: Permission denied")
            service.eventually(lambda: HOST in read("/readyz", "all").text)
        for name, key in keys.items():
            for asked, answer in answers(service, key).items():
                said = answer.text + "".join(f"\n{field}: {value}" for field, value in answer.headers.items())
                found = secret.search(said)
                assert found is None or name in ("operate", "all"), (name, asked, found)
                assert answer.status_code != 500, (name, asked)
        # Controls: it is there to be seen, and the log has it.
        for name in ("operate", "all"):
            for path in ("/readyz", "/operator"):
                assert secret.search(read(path, name).text), (name, path)
        answer = service.diagnose(headers={"Authorization": f"Bearer {keys['all']}"})
        assert answer.status_code == status
        if not running:
            assert secret.search(answer.json()["detail"])
            for name, path in (("diagnose", "/"), ("read", "/v1/models")):
                refused = read(path, name)
                assert refused.status_code == 503
                assert "the service's log says why" in refused.json()["detail"]
        assert secret.search(caplog.text)
