"""A coordinator asks for the sum of three hospitals and for that of two, and subtracts.

Hospitals keep over whom the sums were that they let be unmasked, and take part in no other of the same
pictures.
"""

from itertools import pairwise

import pytest
import torch

from tests.attacks.summing import asker, evaluate, hospitals
from training.errors import QuorumError
from training.messages import Failure
from training.privacy.secagg import messages
from training.privacy.secagg.messages import MASKED, SHARE, UNMASK
from training.privacy.secagg.sums import CohortError, sum_answers

FOUR = ("ash", "birch", "cedar", "elm")
SIGNED = pytest.mark.parametrize("signed", [False, True])
ASKED = [
    {"split": "test", "stage": "0-federate"},
    {"split": "test", "stage": "1-export"},
    {"split": "test", "stage": "2-calibrate", "ask": "counts"},
]
AGAIN = [
    *pairwise(ASKED),
    (ASKED[0], ASKED[0]),
    (
        {"split": "calibration", "stage": "2-calibrate", "ask": "log_likelihoods"},
        {"split": "calibration", "stage": "2-calibrate", "ask": "truth"},
    ),
    (
        {"split": "validation", "ask": "evaluate", "round": 2},
        {"split": "validation", "ask": "evaluate", "round": 2},
    ),
]


def total(made, names, line=None, **request):
    sums, silent = sum_answers(line or asker(made), evaluate(made, names, **request), made["ash"].config)
    if silent:
        raise QuorumError("; ".join(each.reason for each in silent))
    return sums[0].tensors["counts"]


def everybodys(made, names):
    return sum(made[name].counts for name in names)


@pytest.mark.parametrize(("first", "second"), AGAIN)
@SIGNED
def test_who_keeps_nothing_can_be_subtracted(tmp_path, monkeypatch, first, second, signed):
    made = hospitals(tmp_path, FOUR, signed=signed)
    monkeypatch.setattr(messages, "entries", lambda client: {})
    difference = total(made, FOUR, **first) - total(made, FOUR[:3], **second)
    assert torch.equal(difference, made["elm"].counts)


@pytest.mark.parametrize(("first", "second"), AGAIN)
@pytest.mark.parametrize(("one", "other"), [(FOUR, FOUR[:3]), (FOUR[:3], FOUR)])
@SIGNED
def test_a_second_sum_is_over_the_same_or_not_at_all(tmp_path, first, second, one, other, signed):
    made = hospitals(tmp_path, FOUR, signed=signed)
    assert torch.equal(total(made, one, **first), everybodys(made, one))
    with pytest.raises(QuorumError, match=r"the sum of `\w+.*` over .* was unmasked in this run"):
        total(made, other, **second)
    assert torch.equal(total(made, one, **second), everybodys(made, one))


@SIGNED
def test_a_coordinator_that_does_not_listen_is_refused_by_every_hospital(tmp_path, monkeypatch, signed):
    """The coordinator's own half is not what stands against it."""
    from training.privacy.secagg import sums

    made = hospitals(tmp_path, FOUR, signed=signed)
    total(made, FOUR)
    monkeypatch.setattr(sums, "same_cohort", lambda topic, held, failures: list(held))
    heard = []

    def ask(requests):
        answers = asker(made)(requests)
        heard.extend(zip(requests, answers, strict=True))
        return answers

    with pytest.raises(QuorumError, match="would tell single hospitals' part by subtraction"):
        total(made, FOUR[:3], ask, stage="1-export")
    shared = [answer for request, answer in heard if request.ask == SHARE]
    assert len(shared) == 3
    assert all(isinstance(answer, Failure) for answer in shared)


def leaving(made, who, when):
    """A coordinator's line to hospitals of which some leave at a request."""
    gone = set()

    def ask(requests):
        gone.update(who if requests[0].ask == when else ())
        answers = asker(made)([each for each in requests if each.client not in gone])
        there = iter(answers)
        return [
            Failure(each.client, each.track, "no heartbeat") if each.client in gone else next(there)
            for each in requests
        ]

    return ask


@pytest.mark.parametrize("when", [SHARE, MASKED])
@SIGNED
def test_test_counts_are_of_all_or_of_nobody(tmp_path, when, signed):
    """Had the sum of those that stayed been unmasked, the one after it would tell of who left."""
    made = hospitals(tmp_path, FOUR, signed=signed)
    with pytest.raises(QuorumError, match=r"elm: .*no heartbeat.*Nothing was unmasked"):
        total(made, FOUR, leaving(made, {"elm"}, when))
    assert torch.equal(total(made, FOUR), everybodys(made, FOUR))


@SIGNED
def test_hospitals_themselves_refuse_a_part_of_it(tmp_path, monkeypatch, signed):
    from training.privacy.secagg.server import SecureSum

    made = hospitals(tmp_path, FOUR, signed=signed)
    monkeypatch.setattr(SecureSum, "whole", False, raising=False)
    real = SecureSum.enough
    monkeypatch.setattr(
        SecureSum,
        "enough",
        lambda self, ask, found, **rest: real(self, ask, found, all_of_them=False),
    )
    with pytest.raises(QuorumError, match=r"is summed over all that began it or not at all, and elm left"):
        total(made, FOUR, leaving(made, {"elm"}, MASKED))


@SIGNED
def test_who_left_a_round_is_not_added_when_the_round_is_done_again(tmp_path, signed):
    """A run that was killed after its validation counts: they are asked again, of those that they were of."""
    made = hospitals(tmp_path, FOUR, signed=signed)
    asked = {"split": "validation", "ask": "evaluate", "round": 3}
    requests = evaluate(made, FOUR, **asked)
    config = made["ash"].config
    [first], silent = sum_answers(leaving(made, {"elm"}, MASKED), requests, config)
    assert [each.client for each in silent] == ["elm"]
    assert torch.equal(first.tensors["counts"], everybodys(made, FOUR[:3]))
    [again], silent = sum_answers(asker(made), requests, config)
    assert torch.equal(again.tensors["counts"], first.tensors["counts"])
    assert [each.client for each in silent] == ["elm"]
    assert "over ash, birch, cedar was unmasked" in silent[0].reason
    with pytest.raises(CohortError, match=r"without cedar and with elm.*Bring cedar back"):
        sum_answers(asker(made), [each for each in requests if each.client != "cedar"], config)


@SIGNED
def test_a_sum_that_was_never_unmasked_binds_nobody(tmp_path, signed):
    made = hospitals(tmp_path, FOUR, signed=signed)
    with pytest.raises(QuorumError):
        total(made, FOUR, leaving(made, {"ash", "birch"}, UNMASK))
    # cedar and elm have given shares, which are fewer than were needed, and stay with these four
    with pytest.raises(QuorumError, match="Bring ash back"):
        total(made, FOUR[1:])
    assert torch.equal(total(made, FOUR), everybodys(made, FOUR))


def test_an_earlier_round_does_not_make_a_hospital_forget_a_later_one(tmp_path):
    made = hospitals(tmp_path, FOUR, signed=False)
    for round_ in (1, 2, 3, 4, 1):
        total(made, FOUR, split="validation", ask="evaluate", round=round_)
    for round_ in (1, 2, 3, 4):
        with pytest.raises(QuorumError, match="without elm"):
            total(made, FOUR[:3], split="validation", ask="evaluate", round=round_)


def test_rounds_may_be_of_others(tmp_path):
    made = hospitals(tmp_path, FOUR, signed=False)
    total(made, FOUR, split="validation", ask="evaluate", round=1)
    found = total(made, FOUR[1:], split="validation", ask="evaluate", round=2)
    assert torch.equal(found, everybodys(made, FOUR[1:]))
