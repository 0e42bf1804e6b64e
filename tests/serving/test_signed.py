"""Where trusted keys are set, only what one of them has signed is served."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from registry.errors import KeyUnusable
from registry.signing_keys import Signer
from serving.releases import current_release
from serving.releases.current_release import CurrentRelease
from serving.settings import ServeSettings
from tests.serving.conftest import MODEL


@pytest.fixture
def signer():
    return Signer(ec.generate_private_key(ec.SECP256R1()))


@pytest.fixture
def trusted(signer, tmp_path):
    """The file of the signer's public key."""
    path = tmp_path / "board.pub"
    path.write_bytes(signer.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return path


def answering(service):
    return service.diagnose().json()["model"]["version"]


def test_a_release_that_is_not_signed_leaves_the_old_one_serving(
    serve, registry, promote, bundle, light, signer, trusted, monkeypatch
):
    monkeypatch.setattr(current_release, "RETRY_SECONDS", 0.2)
    promote(registry, bundle())
    registry.sign(MODEL, [1], signer)
    with serve(trusted_keys=(trusted,)) as service:
        assert answering(service) == 1
        promote(registry, bundle(seed=1), bundle(light))
        service.eventually(lambda: service.client.get("/readyz").json()["status"] == "degraded")
        ready = service.client.get("/readyz")
        (issue,) = ready.json()["troubles"]
        assert ready.status_code == 200
        assert "dermfed-registry sign skin-lesion 2 --key FILE" in issue
        assert answering(service) == 1
        registry.sign(MODEL, [2], signer)  # the version for light skin is still to be signed
        service.eventually(lambda: "version 3" in service.client.get("/readyz").json()["troubles"][0])
        assert answering(service) == 1
        registry.sign(MODEL, [3], signer)
        service.eventually(lambda: answering(service) == 2)
        assert service.client.get("/readyz").json()["status"] == "ready"


def test_from_the_start_nothing_is_served_that_is_not_signed(
    serve, registry, promote, bundle, trusted, problem
):
    promote(registry, bundle())
    registry.sign(MODEL, [1], Signer(ec.generate_private_key(ec.SECP256R1())))
    with serve(trusted_keys=(trusted,)) as service:
        for answer in (service.client.get("/readyz"), service.diagnose()):
            assert "signed by nobody who is trusted (unknown: " in problem(answer, 503)["detail"]
    with serve() as service:  # the control
        assert answering(service) == 1


def test_a_signature_that_was_altered_counts_for_nothing(
    serve, registry, promote, bundle, signer, trusted, places, problem
):
    promote(registry, bundle())
    (signature,) = registry.sign(MODEL, [1], signer)
    places.spoil(signature.object)
    with serve(trusted_keys=(trusted,)) as service:
        assert signature.object in problem(service.client.get("/readyz"), 503)["detail"]


def test_a_file_without_a_key_keeps_the_service_from_starting(registry, tmp_path):
    (tmp_path / "board.pub").write_text("hello")
    with pytest.raises(KeyUnusable):
        CurrentRelease(registry, ServeSettings(trusted_keys=(tmp_path / "board.pub",)))
