"""A coordinator that hands out keys of its own in place of two hospitals' learns all of the third's counts.

Unless keys are signed: then it has nothing to sign with, whatever it tries.
"""

import pytest
import torch

from tests.attacks.summing import (
    THREE,
    Anybody,
    authority,
    certified,
    evaluate,
    hospitals,
    identity,
    impersonate,
    key_of,
    new_key,
    updates_of,
)
from training.messages import Failure
from training.privacy.secagg.keys import Signed
from training.privacy.secagg.messages import SIGNATURE, read_json

ASH, *OTHERS = THREE


def test_without_signatures_it_learns_everything(tmp_path):
    made = hospitals(tmp_path, signed=False)
    (request,) = evaluate(made, [ASH])
    found = impersonate(made[ASH], request, OTHERS, lambda name, statement: None)
    assert torch.equal(found, made[ASH].counts)


def unsigned(made, name, statement):
    return None


def with_a_key_of_its_own(made, name, statement):
    """The hospital's certificate, which is no secret, and a signature with another key."""
    forged = identity(name, Anybody(), new_key()).sign(statement)
    return Signed(certificate=made[name].identity.sign(statement).certificate, signature=forged.signature)


def of_another_authority(made, name, statement):
    key = new_key()
    forged = identity(name, Anybody(), key).sign(statement)
    certificate = certified(name, key, authority("another"))
    return Signed(certificate=pem(certificate), signature=forged.signature)


def with_its_own_certificate(made, name, statement):
    """The coordinator's, which the authority did issue, to the coordinator's host."""
    key = key_of("coordinator.example")
    forged = identity(name, Anybody(), key).sign(statement)
    return Signed(certificate=pem(certified("coordinator.example", key)), signature=forged.signature)


def with_a_signature_of_other_keys(made, name, statement):
    """What the hospital did sign: keys of its own for the same request."""
    (request,) = evaluate(made, [name])
    (withheld,) = updates_of([made[name].answer(request)])
    return Signed.model_validate(read_json(withheld.tensors[SIGNATURE]))


def with_a_signature_of_another_run(made, name, statement):
    return identity(name, Anybody(), key_of(name), run="skin-0").sign(statement)


def pem(certificate):
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode()


@pytest.mark.parametrize(
    ("forge", "reason"),
    [
        (unsigned, "the keys of birch are not signed"),
        (with_a_key_of_its_own, "birch did not sign this"),
        (of_another_authority, "not one that the federation's authority issued"),
        (with_its_own_certificate, "made out to coordinator.example"),
        (with_a_signature_of_other_keys, "birch did not sign this"),
        (with_a_signature_of_another_run, "birch did not sign this"),
    ],
)
def test_with_signatures_it_learns_nothing(tmp_path, forge, reason):
    made = hospitals(tmp_path, signed=True)
    (request,) = evaluate(made, [ASH])
    found = impersonate(made[ASH], request, OTHERS, lambda name, said: forge(made, name, said))
    assert isinstance(found, str)
    assert reason in found


def test_what_would_have_to_be_stolen_is_enough(tmp_path):
    """The same attack with the hospitals' own keys succeeds: it is the signatures that stop it."""
    made = hospitals(tmp_path, signed=True)
    (request,) = evaluate(made, [ASH])
    found = impersonate(made[ASH], request, OTHERS, lambda name, said: made[name].identity.sign(said))
    assert torch.equal(found, made[ASH].counts)


def test_a_certificate_that_has_ended_is_refused(tmp_path, monkeypatch):
    from datetime import UTC, datetime, timedelta

    from training.privacy.secagg import keys as module

    made = hospitals(tmp_path, signed=True)
    (request,) = evaluate(made, [ASH])

    class Later(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(UTC) + timedelta(days=800)

    monkeypatch.setattr(module, "datetime", Later)
    found = impersonate(made[ASH], request, OTHERS, lambda name, said: made[name].identity.sign(said))
    assert isinstance(found, str)
    assert "and not now" in found


def test_a_hospital_without_signature_is_let_into_no_sum(tmp_path):
    """Not even by an honest coordinator: who signs sums with nobody who does not."""
    made = hospitals(tmp_path, signed=True)
    made["cedar"].identity = None
    requests = evaluate(made, THREE)
    answers = [made[each.client].answer(each) for each in requests]
    assert not any(isinstance(each, Failure) for each in answers)
    from tests.attacks.summing import asker
    from training.errors import QuorumError
    from training.privacy.secagg.sums import sum_answers

    with pytest.raises(QuorumError, match="the keys of cedar are not signed"):
        sum_answers(asker(made), requests, made[ASH].config)
