"""What is done to which node and when: drawn from a seed, and carried out as the rounds go by."""

import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from time import monotonic, sleep

from .federated import ADMIN, DOWN, SERVER, UP, Federated
from .processes import family, flare, jobs, kill, send

Deed = Callable[[Federated, str], None]


@dataclass(frozen=True)
class Kind:
    """A kind of disturbance.

    Attributes:
        name: in the table.
        do: begins it, at one kit.
        undo: ends it; nothing where it mends itself.
        shortest, longest: seconds between the two.
    """

    name: str
    do: Deed
    undo: Deed | None = None
    shortest: float = 0
    longest: float = 0


def kill_command(net: Federated, whom: str) -> None:
    """The command alone is killed; it is started again while what it left is still there."""
    net.nodes[whom].kill()
    net.nodes[whom].wait()


def kinds(heartbeat_timeout: float) -> tuple[list[Kind], list[Kind], list[Kind]]:
    """What can be done to a hospital, to the coordinator, and to whoever sends the job.

    Args:
        heartbeat_timeout: the job's `engine.network.heartbeat_timeout`; some disturbances last longer, some
            not.
    """
    long = {"shortest": 1.5 * heartbeat_timeout, "longest": 3 * heartbeat_timeout}
    offline = {"shortest": 1.0, "longest": 3 * heartbeat_timeout}

    def start(net: Federated, whom: str) -> None:
        net.start(whom)

    def mend(net: Federated, whom: str) -> None:
        net.cables[whom].mend()

    # At any node: everything ends; FLARE's process alone, which the command starts again; the job's process
    # alone, as where memory is short; the command alone; the node stands still.
    at_node = [
        Kind("power cut", lambda net, whom: net.kill(whom), start, **offline),
        Kind("FLARE's process killed", lambda net, whom: kill(flare(net.nodes[whom].pid))),
        Kind("the job's process killed", lambda net, whom: kill(jobs(net.nodes[whom].pid))),
        Kind("dermfed-node killed and started", kill_command, start),
        Kind(
            "paused",
            lambda net, whom: send(family(net.nodes[whom].pid), signal.SIGSTOP),
            lambda net, whom: send(family(net.nodes[whom].pid), signal.SIGCONT),
            **long,
        ),
    ]
    at_hospital = [
        *at_node,
        Kind("connections reset", lambda net, whom: net.cables[whom].drop()),
        Kind("network cut", lambda net, whom: net.cables[whom].cut(), mend, **offline),
        Kind("nothing arrives from it", lambda net, whom: net.cables[whom].stall(UP), mend, **long),
        Kind("nothing arrives at it", lambda net, whom: net.cables[whom].stall(DOWN), mend, **long),
        Kind("network stands still", lambda net, whom: net.cables[whom].stall(UP, DOWN), mend, **long),
    ]
    at_admin = [
        Kind(
            "run.py killed and resumed",
            lambda net, whom: net.kill(whom),
            lambda net, _: net.resume(),
            **offline,
        ),
        Kind("network cut", lambda net, whom: net.cables[whom].cut(), mend, **long),
        Kind("network stands still", lambda net, whom: net.cables[whom].stall(UP, DOWN), mend, **long),
    ]
    return at_hospital, at_node, at_admin


LOOK = 0.1  # seconds between looks at how far the run is
POWER_CUTS = 3  # of the coordinator


@dataclass(frozen=True)
class Disturbance:
    """One disturbance of a schedule.

    Attributes:
        kind: what is done.
        whom: the kit; whoever sends the job is `admin`.
        after: the rounds that must be done before.
        wait: seconds after that.
        seconds: how long it lasts.
    """

    kind: Kind
    whom: str
    after: int
    wait: float
    seconds: float


@dataclass(frozen=True)
class Done:
    """A disturbance that was.

    Attributes:
        what: see `Disturbance`.
        at: when it began.
        rounds: how many rounds were done then.
    """

    what: Disturbance
    at: float
    rounds: int


def schedule(hospitals: Sequence[str], heartbeat_timeout: float, rounds: int, seed: int) -> list[Disturbance]:
    """Every kind at least once, in an order, at moments and at hospitals drawn from the seed.

    Args:
        hospitals: of the federation.
        heartbeat_timeout: see `kinds`.
        rounds: of the job; disturbances are spread over them.
        seed: of the draws.
    """
    random = Random(seed)
    hospital, coordinator, admin = kinds(heartbeat_timeout)
    deeds = [(kind, random.choice(hospitals)) for kind in hospital]
    deeds += [(kind, SERVER) for kind in coordinator]
    deeds += [(kind, SERVER) for kind in coordinator if kind.name == "power cut"] * (POWER_CUTS - 1)
    deeds += [(kind, ADMIN) for kind in admin]
    random.shuffle(deeds)
    return [
        Disturbance(
            kind,
            whom,
            after=1 + place * (rounds - 2) // len(deeds),
            wait=random.uniform(0, 2),
            seconds=random.uniform(kind.shortest, kind.longest),
        )
        for place, (kind, whom) in enumerate(deeds)
    ]


@dataclass
class Trouble:
    """Carries a schedule out, beside the run.

    Attributes:
        net: the federation.
        plan: the schedule.
        rounds: tells how many rounds are done.
        say: takes a line for whoever watches.
        done: what was done.
        busy: whom something is being done to.
    """

    net: Federated
    plan: Sequence[Disturbance]
    rounds: Callable[[], int]
    say: Callable[[str], None] = print
    done: list[Done] = field(default_factory=list)
    _under_way: list[threading.Thread] = field(default_factory=list)
    busy: set[str] = field(default_factory=set)
    _one: dict[str, threading.Lock] = field(default_factory=dict)

    def make(self, over: Callable[[], bool]) -> None:
        """Carry out what is due, until all is done or the run is over; then mend what is broken.

        A kit is disturbed in one way at a time; several may be at once.
        """
        for each in self.plan:
            while self.rounds() < each.after and not over():
                sleep(LOOK)
            sleep(each.wait)
            lock = self._one.setdefault(each.whom, threading.Lock())
            with lock:  # of a disturbance that lasts
                pass
            if over():
                break
            ready = threading.Event()
            thread = threading.Thread(target=self._disturb, args=(each, lock, ready))
            self._under_way.append(thread)
            thread.start()
            ready.wait()
        for thread in self._under_way:
            thread.join()

    def _disturb(self, each: Disturbance, lock: threading.Lock, ready: threading.Event) -> None:
        with lock:
            self.busy.add(each.whom)
            ready.set()
            self.done.append(Done(each, monotonic(), self.rounds()))
            self.say(f"round {self.rounds()}: {each.whom}: {each.kind.name}, {each.seconds:.1f} s")
            each.kind.do(self.net, each.whom)
            if each.kind.undo is not None:
                sleep(each.seconds)
                each.kind.undo(self.net, each.whom)
                self.say(f"round {self.rounds()}: {each.whom}: end of {each.kind.name}")
            self.busy.discard(each.whom)
