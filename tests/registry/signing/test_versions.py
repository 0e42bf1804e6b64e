import pytest

from registry.errors import ObjectCorrupt, SignatureRefused
from registry.signing_keys import Signer, Trust, hint_of, trust_in_signer

pytestmark = pytest.mark.sqlite  # queries on both databases are asked elsewhere

MODEL = "skin-lesion"


@pytest.fixture
def signer(key):
    return Signer(key())


@pytest.fixture
def two(registry, bundle, dark):
    return registry.add([bundle(), bundle(dark)])


def said(problems):
    """What is wrong with signatures alone."""
    return [one for one in problems if one.about.startswith("signature ")]


def test_a_signature_is_kept_told_and_valid(registry, two, signer, places):
    made = registry.sign(MODEL, [1, 2], signer)
    assert [(one.model, one.number, one.identity) for one in made] == [
        (MODEL, 1, signer.identity),
        (MODEL, 2, signer.identity),
    ]
    assert [registry.signatures(version) for version in two] == [(made[0],), (made[1],)]
    for version, one in zip(two, made, strict=True):
        assert places.object(one.object).is_file()
        assert registry.require_signature(version, trust_in_signer(signer)) == signer.identity
    event = registry.history(MODEL)[-1]
    assert (event.kind, event.versions, event.actor) == ("signed", (1, 2), "tester")
    assert event.details["signatures"] == [
        {"number": one.number, "object": one.object, "identity": one.identity} for one in made
    ]
    assert registry.verify() == ()
    assert registry.verify(trust_in_signer(signer)) == ()


def test_a_certificate_comes_beside_the_bare_key(registry, two, key, certificate):
    private = key()
    bare, named = Signer(private), Signer(private, certificate(private, "Model board"))
    registry.sign(MODEL, [1], bare)
    assert [one.identity for one in registry.sign(MODEL, [1], named)] == ["CN=Model board"]
    assert len(registry.signatures(two[0])) == 2
    assert registry.verify(trust_in_signer(bare)) == ()


def test_nobody_signs_what_was_altered(registry, two, signer, places, bundle):
    places.spoil(bundle().manifest.file.sha256)
    with pytest.raises(ObjectCorrupt, match=r"model\.onnx of version 2"):
        registry.sign(MODEL, [2, 1], signer)
    assert [registry.signatures(version) for version in two] == [(), ()]


def test_a_version_that_nobody_signed_is_refused_with_the_way_out(registry, two, signer):
    with pytest.raises(SignatureRefused, match="it has no signature") as caught:
        registry.require_signature(two[0], trust_in_signer(signer))
    assert "dermfed-registry sign skin-lesion 1 --key FILE" in str(caught.value)


def test_a_signature_of_a_stranger_is_refused_and_named(registry, two, signer, key):
    registry.sign(MODEL, [1], signer)
    (made,) = registry.signatures(two[0])
    trust = trust_in_signer(Signer(key()))
    with pytest.raises(SignatureRefused, match="unknown: the key whose PEM text has sha256 "):
        registry.require_signature(two[0], trust)
    (problem,) = registry.verify(trust)
    assert problem.about == f"signature {made.object} of version 1 of {MODEL}"
    assert hint_of(signer.key.public_key()) in problem.text
    assert registry.verify() == ()


def test_one_valid_signature_among_others_is_enough(registry, two, signer, key):
    registry.sign(MODEL, [1], Signer(key()))
    registry.sign(MODEL, [1], signer)
    assert registry.require_signature(two[0], trust_in_signer(signer)) == signer.identity


def test_the_signature_of_another_version_is_forged(registry, two, signer, places):
    registry.sign(MODEL, [1], signer)
    places.tamper("UPDATE signatures SET version_id = (SELECT id FROM versions WHERE number = 2)")
    with pytest.raises(SignatureRefused, match="forged: it is over other files"):
        registry.require_signature(two[1], trust_in_signer(signer))
    for trust in (None, trust_in_signer(signer)):
        (problem,) = said(registry.verify(trust))
        assert "of version 2" in problem.about
        assert "forged: it is over other files" in problem.text


def test_a_name_that_is_not_the_signers_is_forged(registry, two, signer, places):
    registry.sign(MODEL, [1], signer)
    places.tamper("UPDATE signatures SET identity = 'CN=Chief physician'")
    (problem,) = said(registry.verify(trust_in_signer(signer)))
    assert "CN=Chief physician" in problem.text
    assert signer.identity in problem.text


@pytest.mark.parametrize("loss", ["altered", "missing"])
def test_a_signature_whose_bytes_are_gone_counts_for_nothing_and_can_be_made_anew(
    registry, two, signer, places, loss
):
    (made,) = registry.sign(MODEL, [1], signer)
    if loss == "altered":
        places.spoil(made.object)
    else:
        places.object(made.object).unlink()
    with pytest.raises(SignatureRefused, match=made.object):
        registry.require_signature(two[0], trust_in_signer(signer))
    (problem,) = said(registry.verify())
    assert made.object in problem.text
    assert registry.sign(MODEL, [1], signer) != (made,)
    assert registry.require_signature(two[0], trust_in_signer(signer)) == signer.identity


def test_bytes_that_are_no_signature_are_found_without_any_key(registry, two, signer, places, bundle):
    registry.sign(MODEL, [1], signer)
    places.tamper(f"UPDATE signatures SET object = '{bundle().digest}'")
    (problem,) = said(registry.verify())
    assert "it is no signature" in problem.text


def test_trust_in_nobody_finds_every_signature_unknown(registry, two, signer):
    registry.sign(MODEL, [1, 2], signer)
    assert len(registry.verify(Trust({}, ()))) == 2
