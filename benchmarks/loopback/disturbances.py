"""What networks and people do to a federation, each with an end."""

import signal
from collections.abc import Callable
from dataclasses import dataclass

from .cable import DOWN, UP
from .federated import Federated
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


def power_cut(net: Federated, whom: str) -> None:
    """Everything ends at once."""
    net.kill(whom)


def start(net: Federated, whom: str) -> None:
    """Start a node again."""
    net.start(whom)


def kill_flare(net: Federated, whom: str) -> None:
    """FLARE's process alone ends; the command starts it again."""
    kill(flare(net.nodes[whom].pid))


def kill_job(net: Federated, whom: str) -> None:
    """The job's process alone ends, as where memory is short."""
    kill(jobs(net.nodes[whom].pid))


def kill_command(net: Federated, whom: str) -> None:
    """The command alone is killed, and started again while what it left is still there."""
    net.nodes[whom].kill()
    net.nodes[whom].wait()


def pause(net: Federated, whom: str) -> None:
    """A node stands still, its connections open."""
    send(family(net.nodes[whom].pid), signal.SIGSTOP)


def go_on(net: Federated, whom: str) -> None:
    """It continues as if nothing had been."""
    send(family(net.nodes[whom].pid), signal.SIGCONT)


def resume(net: Federated, whom: str) -> None:
    """Whoever sent the job takes the run up again."""
    net.resume()


def mend(net: Federated, whom: str) -> None:
    """The cable is whole again."""
    net.cables[whom].mend()


def kinds(heartbeat_timeout: float) -> tuple[list[Kind], list[Kind], list[Kind]]:
    """What can be done to a hospital, to the coordinator, and to whoever sends the job.

    Args:
        heartbeat_timeout: the job's `engine.network.heartbeat_timeout`; some disturbances last longer, some
            not.
    """
    long = {"shortest": 1.5 * heartbeat_timeout, "longest": 3 * heartbeat_timeout}
    offline = {"shortest": 1.0, "longest": 3 * heartbeat_timeout}
    at_hospital = [
        Kind("power cut", power_cut, start, **offline),
        Kind("FLARE's process killed", kill_flare),
        Kind("the job's process killed", kill_job),
        Kind("dermfed-node killed and started", kill_command, start),
        Kind("paused", pause, go_on, **long),
        Kind("connections reset", lambda net, whom: net.cables[whom].drop()),
        Kind("network cut", lambda net, whom: net.cables[whom].cut(), mend, **offline),
        Kind("nothing arrives from it", lambda net, whom: net.cables[whom].stall(UP), mend, **long),
        Kind("nothing arrives at it", lambda net, whom: net.cables[whom].stall(DOWN), mend, **long),
        Kind("network stands still", lambda net, whom: net.cables[whom].stall(UP, DOWN), mend, **long),
    ]
    at_coordinator = [
        Kind("power cut", power_cut, start, **offline),
        Kind("FLARE's process killed", kill_flare),
        Kind("the job's process killed", kill_job),
        Kind("dermfed-node killed and started", kill_command, start),
        Kind("paused", pause, go_on, **long),
    ]
    at_admin = [
        Kind("run.py killed and resumed", power_cut, resume, **offline),
        Kind("network cut", lambda net, whom: net.cables[whom].cut(), mend, **long),
        Kind("network stands still", lambda net, whom: net.cables[whom].stall(UP, DOWN), mend, **long),
    ]
    return at_hospital, at_coordinator, at_admin
