"""The exchange of a secure sum: what the coordinator sees, who may leave when, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from training.errors import QuorumError
from training.messages import Broadcast, Failure
from training.privacy.secagg.arithmetic import Entry, power_of_two
from training.privacy.secagg.messages import KEY_SHARES, KEYS, MASKED, SELF_SHARES, SHARE, UNMASK

CLIENTS = 5


def exact(federation, clients, name, weights=None):
    return sum(
        (1.0 if weights is None else weights[client]) * federation.values[client][name].double()
        for client in clients
    )


def assert_sum(federation, summed, clients):
    assert list(summed.clients) == clients
    assert summed.tensors["counts"].tolist() == exact(federation, clients, "counts").long().tolist()
    for name in ("weights", "sums"):
        np.testing.assert_allclose(summed.tensors[name], exact(federation, clients, name), atol=1e-6)


def test_all_stay(federation):
    made = federation(CLIENTS)
    assert_sum(made, made.sum(), list(made.values))


def test_weights_count(federation):
    made = federation(3)
    weights = {"c0": 0.5, "c1": 0.3, "c2": 0.2}
    values = {name: {"weights": held["weights"]} for name, held in made.values.items()}
    made = replace(made, values=values)
    layout = [Entry.of("weights", values["c0"]["weights"], 64.0)]
    summed = made.sum(weights=weights, layout=layout)
    tolerance = layout[0].tolerance(3, power_of_two(1.0))
    np.testing.assert_allclose(
        summed.tensors["weights"], exact(made, weights, "weights", weights), atol=tolerance, rtol=0
    )


@pytest.mark.parametrize("asked", [SHARE, MASKED, UNMASK])
@pytest.mark.parametrize("who", [["c0"], ["c4"], ["c1", "c3"]])
def test_clients_that_leave_cost_no_more_than_their_own_part(federation, asked, who):
    made = federation(CLIENTS, leaves=dict.fromkeys(who, asked))
    summed = made.sum()
    # Whoever gave its masked numbers is in the sum, even if it is gone when masks are taken off.
    stayed = list(made.values) if asked == UNMASK else [name for name in made.values if name not in who]
    assert_sum(made, summed, stayed)
    assert [failure.client for failure in summed.failures] == who
    assert all(f"left the secure sum at `{asked}`" in failure.reason for failure in summed.failures)


@pytest.mark.parametrize("asked", [SHARE, MASKED, UNMASK])
def test_below_the_threshold_nothing_is_unmasked(federation, asked):
    made = federation(CLIENTS, leaves=dict.fromkeys(["c0", "c1", "c2"], asked))
    with pytest.raises(
        QuorumError, match=rf"2 clients are there after `{asked}`, 3 are needed.*c0: .*no heartbeat"
    ):
        made.sum()
    given = [update for update in made.seen if update.ask == UNMASK]
    assert len(given) <= 2
    if asked != UNMASK:
        assert not given


def test_every_masked_update_alone_is_uniform(federation):
    made = federation(4, size=60_000)
    made.sum()
    masked = [update for update in made.seen if update.ask == MASKED]
    assert len(masked) == 4
    for update in masked:
        observed = np.bincount(update.tensors["narrow"].numpy().view(np.uint8), minlength=256)
        expected = observed.sum() / 256
        statistic = ((observed - expected) ** 2 / expected).sum()
        # Both tails: too even would be as wrong as too uneven. 1 of 10^6 sound runs fails.
        assert chi2.ppf(1e-7, 255) < statistic < chi2.ppf(1 - 1e-7, 255)
        held = made.values[update.client]["weights"].double().numpy()
        assert abs(np.corrcoef(update.tensors["narrow"][:60_000].numpy(), held)[0, 1]) < 0.03


def test_no_two_clients_masked_updates_add_up_to_their_sum(federation):
    # Pair masks of c0 and c1 cancel in their sum; those with the others and both self masks do not.
    made = federation(4, size=20_000)
    made.sum()
    masked = {update.client: update for update in made.seen if update.ask == MASKED}
    both = sum(masked[name].tensors["narrow"].numpy().view(np.uint32) for name in ("c0", "c1"))
    observed = np.bincount(np.ascontiguousarray(both).view(np.uint8), minlength=256)
    expected = observed.sum() / 256
    assert ((observed - expected) ** 2 / expected).sum() < chi2.ppf(1 - 1e-7, 255)


def test_the_coordinator_never_gets_both_secrets_of_a_client(federation):
    made = federation(CLIENTS, leaves={"c2": MASKED})
    made.sum()
    for update in (update for update in made.seen if update.ask == UNMASK):
        assert update.tensors[SELF_SHARES].shape == (4, 66)
        assert update.tensors[KEY_SHARES].shape == (1, 66)


def test_masks_are_fresh_in_every_round(federation):
    made = federation(3)
    first = made.sum(1)
    second = made.sum(2)
    assert_sum(made, second, list(made.values))
    torch.testing.assert_close(first.tensors["weights"], second.tensors["weights"], rtol=0, atol=0)
    masked = [update.tensors["narrow"] for update in made.seen if update.ask == MASKED]
    assert not any(torch.equal(masked[place], masked[place + 3]) for place in range(3))


def questions_of(made, ask):
    """The first request of a kind as it was put in a sum that went well."""
    put = []

    def note(broadcast):
        put.append(broadcast)
        return broadcast

    made.tamper = note
    return put, lambda: next(broadcast for broadcast in put if broadcast.ask == ask)


@pytest.mark.parametrize("ask", [SHARE, MASKED, UNMASK])
def test_a_question_that_comes_again_is_refused(federation, ask):
    made = federation(3)
    _, of_kind = questions_of(made, ask)
    made.sum()
    (again,) = made.ask([of_kind()])
    assert isinstance(again, Failure)
    assert "came where nothing was awaited" in again.reason


def test_a_client_refuses_to_unmask_too_few(federation):
    made = federation(CLIENTS)

    def fewer(broadcast: Broadcast) -> Broadcast:
        return (
            replace(broadcast, options={**broadcast.options, "survivors": (0, 1)})
            if broadcast.ask == UNMASK
            else broadcast
        )

    made.tamper = fewer
    with pytest.raises(QuorumError, match=r"2 clients are left of this sum|has others than before"):
        made.sum()
    assert not [update for update in made.seen if update.ask == UNMASK]


def test_a_client_refuses_a_list_without_itself_or_with_its_key_changed(federation):
    for change, reason in (
        (
            lambda b: replace(b, options={**b.options, "clients": ("x", *b.options["clients"][1:])}),
            "not among",
        ),
        (lambda b: replace(b, tensors={KEYS: b.tensors[KEYS].flip(0)}), "its own key was changed"),
        (lambda b: replace(b, tensors={KEYS: b.tensors[KEYS][:1].expand(3, 64)}), "same key|own key"),
    ):
        made = federation(3)
        made.tamper = lambda b, change=change: change(b) if b.ask == SHARE else b
        with pytest.raises(QuorumError, match=reason):
            made.sum()


def test_shares_that_were_changed_on_their_way_are_noticed(federation):
    made = federation(3)

    def change(broadcast: Broadcast) -> Broadcast:
        if broadcast.ask != MASKED or broadcast.client != "c1":
            return broadcast
        sealed = broadcast.tensors["sealed"].clone()
        sealed[0, 40] ^= 1
        return replace(broadcast, tensors={"sealed": sealed})

    made.tamper = change
    with pytest.raises(QuorumError, match="cannot be opened"):
        made.sum()


def test_the_servers_own_client_hides_nobody(federation):
    made = federation(3)
    made.values = {"server": made.values["c0"], "c1": made.values["c1"], "c2": made.values["c2"]}
    with pytest.raises(QuorumError, match=r"\(2 hospitals\)"):
        made.sum()


def test_other_shapes_are_refused_and_the_others_go_on(federation):
    made = federation(4)
    made.values = {**made.values, "c3": {**made.values["c3"], "counts": torch.zeros(3, dtype=torch.int32)}}
    summed = made.sum()
    assert_sum(made, summed, ["c0", "c1", "c2"])
    assert "withholds counts as int32 (3,)" in summed.failures[0].reason


def test_secrets_are_forgotten_when_the_sum_is_over(federation):
    made = federation(3)
    made.sum()
    for rounds in made.store.kept.values():
        for state in rounds.values():
            assert set(state.tensors) <= {"phase"} or set(state.tensors) == {"entries"}
