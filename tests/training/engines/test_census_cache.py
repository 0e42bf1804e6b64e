import torch

from training.data.unused import Unused
from training.engines.flare import CensusCache
from training.messages import Broadcast, reply
from training.rounds.census import CENSUS, unused_in

QUESTION = Broadcast("north side", CENSUS, 0, CENSUS)


def test_a_kept_answer_tells_what_is_not_used_as_the_first_one_did(tmp_path):
    unused = Unused(3, 0, 2, 0, listed=9, undeclared={"scale monk": 1})
    answer = reply(QUESTION, tensors={CENSUS: torch.arange(4)}, scalars=unused.scalars())
    CensusCache(tmp_path).keep(QUESTION, answer)
    known = CensusCache(tmp_path).known(QUESTION)
    assert torch.equal(known.tensors[CENSUS], torch.arange(4))
    assert unused_in(known) == unused


def test_numbers_that_are_gone_or_damaged_are_asked_for_again(tmp_path):
    cache = CensusCache(tmp_path)
    cache.keep(QUESTION, reply(QUESTION, tensors={CENSUS: torch.arange(4)}, scalars={"unused.listed": 1.0}))
    numbers = next(tmp_path.glob("*.json"))
    numbers.write_text("{")
    assert cache.known(QUESTION) is None
    numbers.unlink()
    assert cache.known(QUESTION) is None
