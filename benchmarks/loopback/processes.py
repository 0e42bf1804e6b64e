"""Processes by their whole family: a node is a command, FLARE's process, and one for each of its jobs."""

import signal
from collections.abc import Sequence
from contextlib import suppress

import psutil

JOB = ("runner_process", "worker_process")  # FLARE's programs of a job, at the coordinator and at a hospital


def family(pid: int) -> list[psutil.Process]:
    """A process and all that descends from it, the eldest first."""
    with suppress(psutil.NoSuchProcess):
        eldest = psutil.Process(pid)
        return [eldest, *eldest.children(recursive=True)]
    return []


def flare(pid: int) -> list[psutil.Process]:
    """FLARE's own process of a node."""
    return [each for each in family(pid)[1:] if not is_job(each)]


def jobs(pid: int) -> list[psutil.Process]:
    """The processes of a node's jobs."""
    return [each for each in family(pid)[1:] if is_job(each)]


def is_job(process: psutil.Process) -> bool:
    """Whether a process is one of a job's."""
    with suppress(psutil.NoSuchProcess):
        return any(word.endswith(JOB) for word in process.cmdline())
    return False


def send(members: Sequence[psutil.Process], number: signal.Signals) -> None:
    """Send a signal to each that is still there."""
    for member in members:
        with suppress(psutil.NoSuchProcess):
            member.send_signal(number)


def kill(members: Sequence[psutil.Process]) -> None:
    """Kill them as a power cut does, and wait until they are gone."""
    send(members, signal.SIGKILL)
    psutil.wait_procs(members, timeout=30)
