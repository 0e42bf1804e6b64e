"""Weights are sent once: what a site holds is named, and the run ends with the same bytes."""

import json
from pathlib import Path

import pytest

from tests.training.engines.test_nvflare_same_weights import bytes_of
from training.engines.nvflare import registration
from training.engines.nvflare.payload import read_payload
from training.messages.message import tensor_bytes

ROUNDS = {"rounds": 2, "evaluate_on": "validation"}


def watched(there):
    """What goes down the line to each site: the question's header, and the bytes of the tensors with it."""
    sent = []
    for channel in there.channels.values():
        real = channel.ask

        def ask(header, body, seconds, alive, real=real):
            size = tensor_bytes(dict(read_payload(body).items()))
            sent.append((json.loads(header), size))
            return real(header, body, seconds, alive)

        channel.ask = ask
    return sent


def down(sent, what=None):
    return sum(size for head, size in sent if what in (None, head["ask"]))


@pytest.fixture
def old_sites(monkeypatch):
    """Sites of a version that holds nothing, and says nothing of it."""
    monkeypatch.setattr(registration, "HOLDS", "what no site says")


def test_a_model_goes_down_once_a_round(own_job, net, here, request):
    job = own_job(federate=ROUNDS)
    with_names, sent = net(job, "with"), []
    sent = watched(with_names)
    far = with_names.run()
    request.getfixturevalue("old_sites")
    without = net(job, "without")
    all_sent = watched(without)
    plain = without.run()
    assert bytes_of(far) == bytes_of(plain) == bytes_of(here(job))
    assert [line["bytes_down"] for line in with_names.metrics()] == [
        line["bytes_down"] for line in without.metrics()
    ], "the log tells what was asked, and not how it went"
    assert not any("named" in head for head, _ in all_sent), (
        "a site of before is told nothing that it refuses"
    )
    model = down(all_sent, "evaluate") // ROUNDS["rounds"]
    assert [down(all_sent, ask) // model for ask in ("fit", "evaluate", "test")] == [2, 2, 1]
    assert down(sent, "fit") == model, "of the first round; the second's came with the first evaluation"
    assert 1.99 * model < down(sent, "evaluate") <= 2 * model  # but for tensors that did not learn
    assert down(sent, "test") == 0, "that of the last evaluation"
    assert with_names.progress.getvalue().count("was named and not sent: they held it") == 1


@pytest.mark.parametrize("when", ["evaluate", "fit"])
def test_a_site_that_lost_its_weights_says_so_and_gets_them(own_job, net, here, when):
    job = own_job(federate=ROUNDS)
    there = net(job)
    sent, lost = watched(there), []
    for name in ("north", "east"):
        channel = there.channels[name]

        def prune(header, kept=channel.reception._kept):
            asked = json.loads(header)
            if asked["ask"] == when and asked.get("named"):
                lost.append(kept.remove())

        channel.before_ask = prune
    assert bytes_of(there.run()) == bytes_of(here(job))
    if when == "fit":
        assert lost == [True, True], "both, in the second round"
        again = [head["number"] for head, size in sent if head["ask"] == "fit" and size]
        whole = {number: [h["named"] == {} for h, _ in sent if h["number"] == number] for number in again}
        assert list(whole.values()).count([False, True]) == 2, "asked with names, and again without"


def test_a_site_that_says_it_holds_what_it_does_not_is_found_out(own_job, net, here):
    job = own_job(federate=ROUNDS)
    there = net(job)
    channel = there.channels["west"]

    def boast(header, answer):
        channel.reception._kept.remove()
        head = json.loads(answer[0])
        return json.dumps({**head, "holds": True}), answer[1]

    channel.after_ask = boast
    assert bytes_of(there.run()) == bytes_of(here(job))


def test_a_site_that_has_always_lost_everything_is_left_out_and_not_asked_for_ever(own_job, net):
    there = net(own_job(federate=ROUNDS, engine={"network": {"silence": 0.6}, "min_clients": 3}))
    channel, asked = there.channels["west"], []

    def lose(header, answer):
        head = json.loads(header)
        if head["ask"] != "fit":
            return answer
        asked.append(head["number"])
        told = json.loads(answer[0])
        stamp = {name: told[name] for name in head if name in told}
        return json.dumps({**stamp, "lost": True, "failure": "I lost it"}), b""

    channel.after_ask = lose
    there.run()
    assert max(map(asked.count, asked)) == 2
    assert all("west" in line["failures"] if "failures" in line else True for line in there.metrics())


def test_a_run_that_is_taken_up_again_sends_everything_once_more(own_job, net, here):
    job = own_job(federate=ROUNDS)
    there = net(job)
    ends = []

    def end(header):
        asked = json.loads(header)
        if (asked["ask"], asked["round"]) == ("fit", 2):
            ends.append(True)

    there.channels["north"].before_ask = end
    with pytest.raises(Exception, match="stopped"):
        there.run(stopped=lambda: bool(ends))
    there.connect(*there.channels)
    sent = watched(there)
    assert bytes_of(there.run()) == bytes_of(here(job))
    assert sent[0][0].get("named", {}) == {}
    assert down(sent, "fit") > 0


def test_masks_and_a_dismissal_end_the_same_with_and_without_names(own_job, net, request):
    job = own_job(
        federate=ROUNDS,
        privacy={"secure_aggregation": {"fewest": 3}},
    )
    first = net(job, "with")
    sent = watched(first)
    named = first.run(without=["west"])
    request.getfixturevalue("old_sites")
    plain = net(job, "without").run(without=["west"])
    assert bytes_of(named) == bytes_of(plain)
    assert any(head.get("named") for head, _ in sent)


def test_what_is_kept_is_gone_when_the_node_lets_go(own_job, net):
    there = net(own_job(federate=ROUNDS))
    there.run()
    for name, channel in there.channels.items():
        folder = there.folder / name / "weights"
        assert list(Path(folder).iterdir())
        channel.reception.close()
        assert not folder.exists()
