"""Sums over processes of one machine, by sockets that they inherited: a backend of `torch.distributed`.

torch's own backend for processors, gloo, listens on a port, and takes whoever connects first and says a small
number for the process that it waits for: another user of the machine could read gradients, or give in others.
These sockets have no address. Nobody has an end of one but the processes that were started with it.

The first process has a socket to each other one. It adds up what they have, in the order of their ranks, and
gives all of them the result, so that all go on with the same bytes.
"""

import socket
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._C._distributed_c10d import _create_work_from_future  # type: ignore[attr-defined]
from torch.distributed import ProcessGroup, ReduceOp

from training.algorithms.share import Share

Sockets = Mapping[int, socket.socket]  # by the rank of whom each leads to
FIRST = 0
LATER = 10.0  # seconds that the others wait longer than the first, which knows who is missing


class LostError(RuntimeError):
    """Another of the processes is gone, or was waited for in vain."""


def sockets_between(count: int) -> list[Sockets]:
    """What each of so many processes is to inherit; all of them are open here, too."""
    pairs = {rank: socket.socketpair() for rank in range(1, count)}
    first = {rank: ours for rank, (ours, _) in pairs.items()}
    return [first, *({FIRST: theirs} for _, theirs in pairs.values())]


class InheritedGroup(ProcessGroup):
    """Processes that add up tensors; as much of a process group as `DistributedDataParallel` asks for.

    Args:
        share: which of them this is.
        sockets: to the others.
        silence: seconds after which one that is waited for is taken to be gone.
    """

    def __init__(self, share: Share, sockets: Sockets, silence: float) -> None:
        super().__init__(share.rank, share.of)  # type: ignore[call-arg]  # one from Python has no store
        self._share, self._sockets = share, dict(sorted(sockets.items()))
        self._silence = silence if share.rank == FIRST else silence + LATER
        for each in self._sockets.values():
            each.settimeout(self._silence)

    def allreduce(  # type: ignore[override]  # torch has it called in this way alone
        self, tensors: Sequence[Tensor], opts: Any
    ) -> Any:
        """Put the sum of all processes' tensors in the place of each, one after another."""
        assert opts.reduceOp == ReduceOp.SUM, "nothing else is asked for"
        for tensor in tensors:
            if self._share.rank == FIRST:
                for rank in self._sockets:
                    other = torch.empty_like(tensor)
                    self._receive(other, rank)
                    tensor.detach().add_(other)
            else:
                self._send(tensor, FIRST)
            self._spread(tensor, FIRST)
        return done(tensors)

    def broadcast(  # type: ignore[override]  # torch has it called in this way alone
        self, tensors: Sequence[Tensor], opts: Any
    ) -> Any:
        """Put one process's tensors in the place of all others'."""
        for tensor in tensors:
            self._spread(tensor, opts.rootRank)
        return done(tensors)

    def allgather(  # type: ignore[override]
        self, found: Sequence[Sequence[Tensor]], tensors: Sequence[Tensor], opts: Any
    ) -> Any:
        """Put each process's tensor in its place of a list that all have."""
        for places, tensor in zip(found, tensors, strict=True):
            places[self._share.rank].detach().copy_(tensor)
            for rank, place in enumerate(places):
                self._spread(place, rank)
        return done([place for places in found for place in places])

    def getBackendName(self) -> str:  # noqa: N802 - torch's name
        """How torch calls it in its log."""
        return "inherited"

    def _spread(self, tensor: Tensor, root: int) -> None:
        """Give all what one of them has, by way of the first."""
        if self._share.rank == root != FIRST:
            self._send(tensor, FIRST)
        elif self._share.rank != FIRST:
            self._receive(tensor, FIRST)
        else:
            if root != FIRST:
                self._receive(tensor, root)
            for rank in self._sockets:
                if rank != root:
                    self._send(tensor, rank)

    def _send(self, tensor: Tensor, rank: int) -> None:
        try:
            self._sockets[rank].sendall(bytes_of(tensor.detach().contiguous()))
        except OSError as error:
            raise self._lost(rank, error) from error

    def _receive(self, tensor: Tensor, rank: int) -> None:
        into = tensor.detach() if tensor.is_contiguous() else torch.empty_like(tensor).contiguous()
        rest = bytes_of(into)
        try:
            while rest:
                count = self._sockets[rank].recv_into(rest)
                if not count:
                    raise ConnectionResetError("nothing more comes")
                rest = rest[count:]
        except OSError as error:
            raise self._lost(rank, error) from error
        if into.data_ptr() != tensor.data_ptr():
            tensor.detach().copy_(into)

    def _lost(self, rank: int, error: OSError) -> LostError:
        name = Share(rank, self._share.of)
        if isinstance(error, TimeoutError):
            return LostError(f"{name} that train together was waited for in vain, for {self._silence:g} s")
        return LostError(f"{name} that train together is gone ({error})")


def bytes_of(tensor: Tensor) -> memoryview:
    """The memory of a contiguous tensor on the processor."""
    content: Any = tensor.view(-1).view(torch.uint8).numpy()
    return memoryview(content)


def done(tensors: Sequence[Tensor]) -> Any:
    """How torch is told that tensors are there."""
    future: torch.futures.Future[list[Tensor]] = torch.futures.Future()
    future.set_result(list(tensors))
    return _create_work_from_future(future)
