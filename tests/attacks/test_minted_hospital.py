"""A coordinator holds the federation's authority: it can make hospitals that there are not, and keys for
those that there are. A node knows the names of its own kit, and each hospital by the key with which it first
summed.
"""

import pytest
import torch

from clients.node.identity import read_known
from tests.attacks.summing import (
    THREE,
    Anybody,
    asker,
    certified,
    evaluate,
    hospitals,
    identity,
    impersonate,
    key_of,
    new_key,
)
from training.errors import MessageError
from training.privacy.secagg.keys import fingerprint
from training.privacy.secagg.sums import sum_answers

ASH, *OTHERS = THREE
GHOSTS = ("ghost", "wraith")


def minted(name, statement):
    """Signed with a key and a certificate that the authority made a moment ago."""
    return identity(name, Anybody(), key_of(f"minted {name}")).sign(statement)


def have_summed(made, round_=1):
    requests = evaluate(made, THREE, split="validation", ask="evaluate", round=round_)
    sums, silent = sum_answers(asker(made), requests, made[ASH].config)
    assert not silent
    return sums[0].tensors["counts"]


@pytest.mark.parametrize("names", [GHOSTS, OTHERS])
def test_whoever_knows_nobody_is_alone_among_ghosts(tmp_path, names):
    made = hospitals(tmp_path, signed=True)
    made[ASH].identity = identity(ASH, Anybody())
    (request,) = evaluate(made, [ASH])
    assert torch.equal(impersonate(made[ASH], request, names, minted), made[ASH].counts)


def test_a_name_that_is_not_in_its_kit_is_refused(tmp_path):
    made = hospitals(tmp_path, signed=True)
    (request,) = evaluate(made, [ASH])
    found = impersonate(made[ASH], request, GHOSTS, minted)
    assert isinstance(found, str)
    assert "ghost is in a sum and not in federation.yaml of this kit (ash, birch, cedar)" in found
    assert fingerprint(key_of("minted ghost").public_key()) in found


def test_one_ghost_among_hospitals_is_refused_too(tmp_path):
    made = hospitals(tmp_path, signed=True)
    (request,) = evaluate(made, [ASH])

    def sign(name, statement):
        return minted(name, statement) if name == "ghost" else made[name].identity.sign(statement)

    found = impersonate(made[ASH], request, (*OTHERS, "ghost"), sign)
    assert isinstance(found, str)
    assert "ghost is in a sum" in found


def test_another_key_than_before_is_refused(tmp_path):
    made = hospitals(tmp_path, signed=True)
    have_summed(made)
    (request,) = evaluate(made, [ASH])
    found = impersonate(made[ASH], request, OTHERS, minted)
    assert isinstance(found, str)
    for name in OTHERS[:1]:
        assert fingerprint(key_of(f"minted {name}").public_key()) in found
        assert f"was known by {fingerprint(key_of(name).public_key())}" in found


def test_one_key_is_not_two_hospitals(tmp_path):
    made = hospitals(tmp_path, signed=True)
    (request,) = evaluate(made, [ASH])
    key = key_of("minted for both")
    found = impersonate(
        made[ASH], request, OTHERS, lambda name, said: identity(name, Anybody(), key).sign(said)
    )
    assert isinstance(found, str)
    assert "birch and cedar sign with the same key" in found


def test_what_is_left_is_the_first_time_and_it_is_told(tmp_path):
    """A hospital that has summed with nobody yet believes the authority; its log says whom to ask what."""
    made = hospitals(tmp_path, signed=True)
    (request,) = evaluate(made, [ASH])
    assert torch.equal(impersonate(made[ASH], request, OTHERS, minted), made[ASH].counts)
    told = "\n".join(made[ASH].said)
    for name in OTHERS:
        assert f"{name} for the first time, known from now on by its key" in told
        assert fingerprint(key_of(f"minted {name}").public_key()) in told
    with pytest.raises(MessageError, match="signs with the key"):
        made[ASH].identity.known.require({name: fingerprint(key_of(name).public_key()) for name in OTHERS})


def test_a_renewed_certificate_keeps_its_key_and_is_known(tmp_path):
    made = hospitals(tmp_path, signed=True)
    have_summed(made)
    before = read_known(tmp_path / f"{ASH}.json")
    assert sorted(before) == sorted(THREE)
    from dataclasses import replace

    for name in THREE:
        renewed = certified(name, key_of(name))
        assert renewed != made[name].identity.certificate
        made[name].identity = replace(made[name].identity, certificate=renewed)
    have_summed(made, round_=2)
    assert read_known(tmp_path / f"{ASH}.json") == before


def test_a_hospital_that_made_a_new_key_is_let_in_by_hand(tmp_path):
    made = hospitals(tmp_path, signed=True)
    have_summed(made)
    made["birch"].identity = identity("birch", made["birch"].identity.known, new_key())
    path = tmp_path / "birch.json"
    path.unlink()
    from training.errors import QuorumError

    with pytest.raises(QuorumError, match="birch signs with the key"):
        have_summed(made, round_=2)
    for name in (ASH, "cedar"):
        known = read_known(tmp_path / f"{name}.json")
        (tmp_path / f"{name}.json").write_text(
            __import__("json").dumps({each: found for each, found in known.items() if each != "birch"})
        )
    assert torch.equal(have_summed(made, round_=3), sum(each.counts for each in made.values()))
