"""A coordinator wants one hospital's counts out of a sum in which each masks with a few others.

It sees who holds whose shares, says of whom it likes that they have left, and some hospitals help it.
"""

import pytest
import torch

from tests.attacks.alone import Attack
from tests.training.updates.conftest import Federation, bare_client
from training.errors import MessageError, TrainingError
from training.updates.secure_aggregation import client as client_module
from training.updates.secure_aggregation import guards
from training.updates.secure_aggregation.circle import Circle, circle_of
from training.updates.secure_aggregation.kept import MASK_KEY, MASKS, kept_in
from training.updates.secure_aggregation.messages import (
    KEY_SHARES,
    MASKED,
    SELF_SHARES,
    UNMASK,
    MaskedQuestion,
    UnmaskQuestion,
    tensor_bytes_of,
)
from training.updates.secure_aggregation.neighbourhoods import neighbourhood
from training.updates.settings import SecureAggregationConfig

HOSPITALS = 50
CONFIG = SecureAggregationConfig.model_validate({"sparse": {"corrupted": 0.05, "leaving": 0.05}})
FOUND = neighbourhood(HOSPITALS, 0.05, 0.05, 3)
K, T, C_MAX = FOUND.holders, FOUND.threshold, FOUND.helpers
VICTIM = 20


@pytest.fixture
def made():
    random = torch.Generator().manual_seed(0)
    values = {
        f"c{number}": {"counts": torch.randint(0, 900, (2, 3), generator=random, dtype=torch.int32)}
        for number in range(HOSPITALS)
    }
    return Federation(values, CONFIG)


def begin(made, circle=None):
    return Attack.begin(made.ask, made.withheld(), CONFIG, circle)


def open_it(made, attack, told, helpers=()):
    """As `Attack.alone`, with mask keys that helpers kept."""
    names = attack.summing.clients
    attack.lent = {
        place: tensor_bytes_of(
            kept_in(bare_client(names[place], made.store), attack.summing.about, "fit", MASKS)[MASK_KEY]
        )
        for place in helpers
    }
    return attack.alone(VICTIM, told, helpers)


def counts(made):
    return made.values[f"c{VICTIM}"]["counts"]


def without_the_guard(monkeypatch):
    for module in (client_module, guards):
        monkeypatch.setattr(module, "require_holders", lambda *arguments: None)


@pytest.mark.parametrize("told", [0, 1, K - T])
def test_a_hospital_masks_with_enough_of_those_that_it_drew_or_not_at_all(made, told):
    attack = begin(made)
    with pytest.raises(TrainingError, match=rf"{told} of the {K} clients that hold its shares are left"):
        open_it(made, attack, attack.holders(VICTIM)[:told])


@pytest.mark.parametrize("told", [0, K - T])
def test_without_that_it_is_alone(made, monkeypatch, told):
    without_the_guard(monkeypatch)
    attack = begin(made)
    assert torch.equal(open_it(made, attack, attack.holders(VICTIM)[:told]), counts(made))


@pytest.mark.parametrize("helpers", [0, C_MAX])
def test_those_that_it_masked_with_and_those_that_open_it_meet(made, helpers):
    """It is told of as few holders as it bears, and the others are too few to take its own mask off.

    They may be fewer still: among those that are said to have left are some of their own holders, by chance.
    """
    attack = begin(made)
    holders = attack.holders(VICTIM)
    fewer = "|".join(str(shares) for shares in range(K - T + helpers + 1))
    with pytest.raises(MessageError, match=rf"^({fewer}) shares of a secret came, {T} are needed"):
        open_it(made, attack, holders[:T], holders[:helpers])


def test_more_helpers_than_the_job_allows_for_open_it(made):
    """The control: the bound is where it is said to be."""
    attack = begin(made)
    holders = attack.holders(VICTIM)
    assert torch.equal(open_it(made, attack, holders[:T], holders[: 2 * T - K]), counts(made))


def test_a_threshold_of_half_would_be_too_low(made, monkeypatch):
    """The control: with t = k/2 nobody has to help."""
    low = Circle(True, K, K // 2)
    for module in (client_module, guards):
        monkeypatch.setattr(module, "circle_of", lambda clients, config: low)
    attack = begin(made, low)
    holders = attack.holders(VICTIM)
    assert torch.equal(open_it(made, attack, holders[: K // 2]), counts(made))


def test_a_hospital_whose_holders_somebody_else_chose_is_alone(made, monkeypatch):
    """The control: were holders the coordinator's choice, it would choose those that help it."""
    drawn = Circle.draw
    helpers = list(range(K))

    def chosen(self, clients, me):
        return helpers if me == VICTIM else drawn(self, clients, me)

    monkeypatch.setattr(Circle, "draw", chosen)
    attack = begin(made)
    assert torch.equal(open_it(made, attack, helpers, helpers), counts(made))


def test_nobody_but_a_hospital_chooses_its_holders(made):
    """What the coordinator has sent before they are drawn does not tell which, nor how many help it."""
    seen = [set(begin(made).holders(VICTIM)) for _ in range(3)]
    assert len({frozenset(each) for each in seen}) == 3
    assert all(len(each) == K and VICTIM not in each for each in seen)


def test_shares_of_somebody_who_did_not_draw_it_are_refused(made):
    """Who is said to have drawn the victim, and has not, has sealed nothing for it."""
    attack = begin(made)
    sharing = attack.summing.sharing
    stranger = next(p for p in range(HOSPITALS) if p != VICTIM and VICTIM not in sharing.rows[p])
    real = attack.masked_by

    def forged(place, plan, victim):
        tensors, options = real(place, plan, victim)
        if victim:
            options["senders"] = (stranger,)
            tensors = {"sealed": torch.frombuffer(bytearray(attack.sealed[stranger][0]), dtype=torch.uint8)}
            tensors["sealed"] = tensors["sealed"].reshape(1, -1)
        return tensors, options

    attack.masked_by = forged
    with pytest.raises(TrainingError, match="cannot be opened"):
        open_it(made, attack, attack.holders(VICTIM))


@pytest.mark.parametrize("threshold", [T, K // 2])
def test_holders_that_are_told_different_things_do_not_give_both_secrets(made, monkeypatch, threshold):
    """Half are told that the victim is there, half that it left; the control has a threshold of half."""
    circle = Circle(True, K, threshold)
    for module in (client_module, guards):
        monkeypatch.setattr(module, "circle_of", lambda clients, config: circle)
    attack = begin(made, circle)
    summing = attack.summing
    everybody = tuple(range(HOSPITALS))
    plan = MaskedQuestion(
        **summing.common, present=everybody, weight=1, total_weight=64, layout=attack.layout
    )
    attack.put(MASKED, {place: attack.masked_by(place, plan, False) for place in everybody}, VICTIM)
    without = tuple(place for place in everybody if place != VICTIM)
    holders = attack.holders(VICTIM)
    secrets = [{}, {}]
    for number, holder in enumerate(holders):
        survivors, gone = (everybody, ()) if number < K // 2 + 1 else (without, (VICTIM,))
        question = UnmaskQuestion(**summing.common, survivors=survivors).model_dump()
        [given] = attack.put(UNMASK, {holder: ({}, question)}).values()
        secrets[0][holder] = summing.held(given, SELF_SHARES, summing.sharing.senders(holder, survivors))
        secrets[1][holder] = summing.held(given, KEY_SHARES, summing.sharing.senders(holder, gone))
    found = []
    for given in secrets:
        try:
            found.append(summing.sharing.secret(VICTIM, given, summing.clients))
        except MessageError:
            continue
    assert len(found) == (0 if threshold == T else 2)


def test_the_settings_are_those_of_the_bound():
    assert circle_of([f"c{n}" for n in range(HOSPITALS)], CONFIG) == Circle(True, K, T)
    assert CONFIG.fewest - 1 <= 2 * T - K - C_MAX
