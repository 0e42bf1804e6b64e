"""A coordinator tells different hospitals different things about one sum.

Each view is sound by itself; what it gets from all together is not. Lists of survivors are confirmed by
signatures; what is asked and what is added up is part of what masks are made for, so that those of different
views do not cancel.
"""

from dataclasses import replace

import pytest
import torch

from tests.attacks.summing import THREE, asker, evaluate, hospitals, updates_of
from training.errors import QuorumError
from training.messages import Failure
from training.privacy.secagg import client as client_module
from training.privacy.secagg import messages, server
from training.privacy.secagg.arithmetic import Recovery, decode
from training.privacy.secagg.keys import Agreement, KeyPair, Signed, derive
from training.privacy.secagg.messages import (
    CONFIRM,
    KEY_SHARES,
    SELF_SHARES,
    UNMASK,
    ConfirmRequest,
    MaskedRequest,
    UnmaskRequest,
    masks_about,
    read_json,
    tensor_bytes_of,
    topic_of,
)
from training.privacy.secagg.server import SecureSum
from training.privacy.secagg.sums import read_masked_update, sum_answers

FIVE = ("ash", "birch", "cedar", "elm", "fir")
# Of whom each is told that they are gone: never itself, never so many that fewer than 3 of 5 are left.
GONE = {0: {2, 3}, 1: {3, 4}, 2: {3, 4}, 3: {2, 4}, 4: {2, 3}}
PAIR = (0, 1)  # whose sum this opens, where 3 of 5 had been promised


def until_masked(made, signed):
    """An honest beginning: keys, shares, masked numbers of all five."""
    requests = evaluate(made, FIVE, split="validation", ask="evaluate", round=1)
    held = [read_masked_update(each) for each in updates_of(asker(made)(requests))]
    summing = SecureSum(
        asker(made),
        requests[0],
        list(FIVE),
        [each.keys for each in held],
        3,
        signed=[each.signed for each in held],
        asked=topic_of(requests[0]).asked,
    )
    sealed = summing.shares()
    plan = MaskedRequest(
        **summing.common, present=tuple(range(5)), weight=1, total_weight=8, layout=tuple(held[0].layout)
    )
    kept = {}
    put = summing.put

    def noted(ask, asked):
        answers = put(ask, asked)
        kept.update(answers)
        return answers

    summing.put = noted
    summing.masked(sealed, plan, dict.fromkeys(FIVE, 1.0))
    summing.put = put
    return summing, plan, kept


def view(place):
    return tuple(sorted(set(range(5)) - GONE[place]))


def test_without_confirmation_it_opens_the_sum_of_two(tmp_path):
    made = hospitals(tmp_path, FIVE, signed=False)
    summing, plan, masked = until_masked(made, signed=False)
    self_shares = {place: {} for place in PAIR}
    key_shares = {place: {} for place in range(5) if place not in PAIR}
    for place in range(5):
        request = UnmaskRequest(**summing.common, survivors=view(place))
        [given] = summing.put(UNMASK, {place: ({}, request.model_dump())}).values()
        for row, of in enumerate(view(place)):
            if of in PAIR:
                self_shares[of][place] = tensor_bytes_of(given.tensors[SELF_SHARES][row])
        for row, of in enumerate(sorted(GONE[place])):
            key_shares[of][place] = tensor_bytes_of(given.tensors[KEY_SHARES][row])
    vectors = [server.FixedPointVector.from_tensors(masked[place].tensors) for place in PAIR]
    total = vectors[0]
    total.add(vectors[1])
    for place in PAIR:
        own = Recovery.of(self_shares[place], 3).secret(self_shares[place])
        total.subtract(total.mask(derive(own, summing.session, "self mask")))
    for place, shares in key_shares.items():
        key = Recovery.of(shares, 3).secret(shares)
        assert KeyPair.of(key).public == summing.public[place][:32]
        for other in PAIR:  # whose places are lower: they have added
            about = masks_about(summing.session, plan)
            total.subtract(total.mask(Agreement(key).with_(summing.public[other][:32], about, "pair mask")))
    found = decode(total, plan.layout, 8)["counts"]
    assert torch.equal(found, made["ash"].counts + made["birch"].counts)


@pytest.mark.parametrize("honest", [0, 2, 3])
def test_with_confirmation_nobody_gives_shares_for_two_lists(tmp_path, honest):
    """So many confirm the true list, and the others that which they are told."""
    made = hospitals(tmp_path, FIVE, signed=True)
    summing, _, _ = until_masked(made, signed=True)
    everybody = tuple(range(5))
    views = {place: everybody if place < honest else view(place) for place in range(5)}
    signed = {}
    for place, survivors in views.items():
        request = ConfirmRequest(**summing.common, survivors=survivors)
        [given] = summing.put(CONFIRM, {place: ({}, request.model_dump())}).values()
        signed[place] = Signed.model_validate(read_json(given.tensors["withheld/signature"]))
    gave = []
    for place, own in views.items():
        for survivors in dict.fromkeys((own, *views.values())):
            agreed = tuple((each, signed[each]) for each in signed if views[each] == survivors)
            for confirmed in (agreed, tuple(signed.items()), agreed * 3):
                request = UnmaskRequest(**summing.common, survivors=survivors, confirmed=confirmed)
                if place in survivors and place not in {who for who, _ in gave}:
                    gave += [
                        (place, survivors)
                        for answer in summing.put(UNMASK, {place: ({}, request.model_dump())}).values()
                    ]
    # One list at most is opened, and of it everything or nothing.
    assert {survivors for _, survivors in gave} <= {everybody}
    assert (len(gave) > 0) == (honest >= 3)


def other_question(requests):
    """Ash is asked for its counts, all others for those of no subgroup."""
    return [
        each if each.client == "ash" else replace(each, options={**each.options, "subgroups": []})
        for each in requests
    ]


def test_hospitals_that_are_asked_different_things_do_not_add_up(tmp_path, monkeypatch):
    made = hospitals(tmp_path, signed=True)
    requests = other_question(evaluate(made, THREE))
    config = made["ash"].config
    with pytest.raises(QuorumError, match="birch did not sign this"):
        sum_answers(asker(made), requests, config)
    unsigned = hospitals(tmp_path / "unsigned", signed=False)
    with pytest.raises(QuorumError, match="of another session"):
        sum_answers(asker(unsigned), requests, config)

    monkeypatch.setattr(messages, "request_digest", lambda request: "")
    control = hospitals(tmp_path / "control", signed=True)
    sums, _ = sum_answers(asker(control), requests, config)
    assert torch.equal(sums[0].tensors["counts"], control["ash"].counts)


def test_other_models_are_other_questions():
    model = {"weights": torch.zeros(3), "count": torch.tensor(1)}
    (request,) = evaluate({}, ["ash"])
    asked = {topic_of(replace(request, tensors=model)).asked}
    asked.add(topic_of(replace(request, tensors={**model, "weights": torch.tensor([0.0, 0.0, 1e-30])})).asked)
    asked.add(topic_of(replace(request, tensors={**model, "more": torch.zeros(0)})).asked)
    asked.add(
        topic_of(
            replace(request, tensors={"weights": model["weights"].half(), "count": model["count"]})
        ).asked
    )
    asked.add(topic_of(request).asked)
    assert len(asked) == 5
    assert topic_of(replace(request, client="birch", tensors=model)).asked in asked


def hiding(made, key):
    """Ash is told of its counts, all others of something that they do not have."""

    def ask(requests):
        return asker(made)(
            [
                replace(each, options={**each.options, "layout": renamed(each.options["layout"])})
                if each.ask == "masked" and each.client != key
                else each
                for each in requests
            ]
        )

    return ask


def renamed(layout):
    return tuple({**entry, "name": "nothing"} for entry in layout)


def test_hospitals_that_are_told_of_different_sums_do_not_add_up(tmp_path, monkeypatch):
    made = hospitals(tmp_path, signed=True)
    config = made["ash"].config
    sums, _ = sum_answers(hiding(made, "ash"), evaluate(made, THREE), config)
    assert not torch.equal(sums[0].tensors["counts"], made["ash"].counts)
    assert sums[0].tensors["counts"].abs().min() > 1e4  # masks that nobody takes off

    for module in (client_module, server):
        monkeypatch.setattr(module, "masks_about", lambda session, request: session)
    control = hospitals(tmp_path / "control", signed=True)
    sums, _ = sum_answers(hiding(control, "ash"), evaluate(control, THREE), config)
    assert torch.equal(sums[0].tensors["counts"], control["ash"].counts)


def test_each_hospitals_counts_count_once(tmp_path):
    """A weight of 0 for all others would leave sums of likelihoods of one."""
    made = hospitals(tmp_path, signed=True)

    def weighing(requests):
        return asker(made)(
            [
                replace(each, options={**each.options, "weight": 0.0})
                if each.ask == "masked" and each.client != "ash"
                else each
                for each in requests
            ]
        )

    with pytest.raises(QuorumError, match="each with weight 1"):
        sum_answers(weighing, evaluate(made, THREE), made["ash"].config)
    assert not [each for each in asker(made)(evaluate(made, THREE)) if isinstance(each, Failure)]
