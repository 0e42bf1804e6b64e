"""What several members of a group come to, each in a thread, against sums by hand."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch
from torch.distributed import ReduceOp

from training.algorithms.share import Share
from training.engines.together import inherited_group
from training.engines.together.inherited_group import InheritedGroup, LostError, sockets_between

ADD = SimpleNamespace(reduceOp=ReduceOp.SUM)


@pytest.fixture
def group():
    """`group(count, silence=60)`: the members of a group; their sockets are closed in the end."""
    made = []

    def build(count, silence=60.0):
        ends = sockets_between(count)
        made.extend(socket for each in ends for socket in each.values())
        return [InheritedGroup(Share(rank, count), mine, silence) for rank, mine in enumerate(ends)]

    yield build
    for socket in made:
        socket.close()


def together(members, deed):
    """What `deed(rank, member)` gives at each, all at the same time."""
    with ThreadPoolExecutor(len(members)) as pool:
        futures = [pool.submit(deed, rank, member) for rank, member in enumerate(members)]
        return [future.result() for future in futures]


def drawn(rank, shape, dtype=torch.float32):
    values = torch.randn(shape, generator=torch.Generator().manual_seed(rank))
    return (100 * values).to(dtype)


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((7,), torch.float32), ((3, 4), torch.int32), ((), torch.float64), ((0, 5), torch.float32),
     ((1_500_000,), torch.float32), ((9,), torch.bfloat16)],
)  # fmt: skip
def test_all_have_the_sum_in_the_order_of_ranks_to_the_last_bit(group, count, shape, dtype):
    def add(rank, member):
        tensor = drawn(rank, shape, dtype)
        assert member.allreduce([tensor], ADD).get_future().value()[0] is tensor
        return tensor

    expected = drawn(0, shape, dtype)
    for rank in range(1, count):
        expected = expected + drawn(rank, shape, dtype)
    for found in together(group(count), add):
        assert found.dtype == dtype
        assert torch.equal(found, expected)


def test_tensors_of_any_layout_are_added_in_place(group):
    def add(rank, member):
        tensor = drawn(rank, (2, 3, 4, 5)).to(memory_format=torch.channels_last)
        member.allreduce([tensor, tensor[:, 1]], ADD)
        return tensor

    expected = sum(drawn(rank, (2, 3, 4, 5)) for rank in range(3))
    expected[:, 1] *= 3
    for found in together(group(3), add):
        assert found.is_contiguous(memory_format=torch.channels_last)
        assert torch.allclose(found, expected)


@pytest.mark.parametrize("root", [0, 1, 2])
def test_all_get_what_one_of_them_has(group, root):
    def take(rank, member):
        tensor = drawn(rank, (4,))
        member.broadcast([tensor], SimpleNamespace(rootRank=root))
        return tensor

    assert all(torch.equal(found, drawn(root, (4,))) for found in together(group(3), take))


def test_all_get_what_each_of_them_has(group):
    def gather(rank, member):
        places = [torch.zeros(4) for _ in range(3)]
        member.allgather([places], [drawn(rank, (4,))], None)
        return torch.stack(places)

    expected = torch.stack([drawn(rank, (4,)) for rank in range(3)])
    assert all(torch.equal(found, expected) for found in together(group(3), gather))


@pytest.mark.parametrize("size", [4, 4_000_000])  # what a socket takes at once, and what it does not
def test_one_that_is_gone_is_named_at_once(group, size):
    members = group(3)
    for socket in members[1]._sockets.values():
        socket.close()

    def add(rank, member):
        if rank == 0:
            member.allreduce([torch.zeros(size)], ADD)

    with pytest.raises(LostError, match="process 2 of 3 that train together is gone"):
        together(members, add)


@pytest.mark.parametrize("silent", [0, 1, 2])
def test_one_that_is_silent_is_named_by_whoever_tells_first(group, monkeypatch, silent):
    """The first hears nothing of it; the others hear nothing of the first, which waits, and wait longer."""
    monkeypatch.setattr(inherited_group, "LATER", 1.0)
    told = []

    def add(rank, member):
        if rank != silent:
            try:
                member.allreduce([torch.zeros(4_000_000)], ADD)
            except LostError as error:
                told.append(str(error))

    together(group(3, silence=0.3), add)
    assert f"process {silent + 1} of 3 that train together was waited for in vain" in told[0]
