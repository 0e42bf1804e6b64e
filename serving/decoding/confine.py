"""Takes from this process all that decoding does not need; there is no way back.

What is left are the few system calls that decoding makes, and nothing that reaches beyond it. The filter is
libseccomp's, by pyseccomp; libseccomp.so.2 comes with the system. A call that is not on the list fails as if
it were not permitted, and one that only an attacker would make ends the process.
"""

import ctypes
import errno
import mmap
import os
import signal
import sys
from pathlib import Path
from typing import Any, Final

from registry.confined import limit

_PDEATHSIG, _NO_NEW_PRIVILEGES = 1, 38  # of prctl
_MOST_OPEN: Final = 4096  # the lowest free one is always taken, and a template has a handful
_PAGES: Final = Path("/proc/self/statm")

_libc: Final = ctypes.CDLL(None, use_errno=True)


def die_with_parent(parent: int) -> None:
    """Ends this process with the one that forked it.

    Args:
        parent: its id, as it was before the fork.
    """
    _libc.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(0)


def close_others(kept: int) -> None:
    """Closes every descriptor from `kept` on, and puts an empty file in place of the first three."""
    empty = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(empty, standard)
    os.closerange(kept, _MOST_OPEN)


def confine(memory: int, rules: Any) -> None:
    """Limits memory, files and privileges, and last the system calls.

    Args:
        memory: bytes of address space that may be taken besides what is there.
        rules: a filter of system calls; None where the system has none.
    """
    there = int(_PAGES.read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    limit({"RLIMIT_AS": there + memory, "RLIMIT_CORE": 0, "RLIMIT_FSIZE": 0, "RLIMIT_NOFILE": 0})
    _libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if rules is not None:
        rules.load()


ALLOWED: Final = (
    "read", "recvfrom", "recvmsg", "poll", "ppoll", "munmap", "mremap", "madvise", "brk", "futex", "exit",
    "exit_group", "rt_sigreturn", "rt_sigprocmask", "sigaltstack", "restart_syscall", "clock_gettime",
    "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time", "getrandom", "getpid", "gettid",
    "sched_yield", "sched_getaffinity", "set_robust_list", "rseq", "close", "lseek", "getrusage", "times",
)  # fmt: skip
"""Calls with whatever they are given: on memory of its own, clocks, waiting, and reading what is open."""

ENDING: Final = (
    "socket", "socketpair", "connect", "bind", "listen", "accept", "accept4", "execve", "execveat", "fork",
    "vfork", "ptrace", "process_vm_readv", "process_vm_writev", "kill", "tkill", "pidfd_open",
    "pidfd_send_signal", "pidfd_getfd", "io_uring_setup", "bpf", "userfaultfd", "mount", "unshare", "setns",
    "chroot", "pivot_root", "init_module", "finit_module", "kexec_load", "keyctl", "add_key", "request_key",
    "perf_event_open", "open_by_handle_at", "memfd_create", "shmget", "shmat",
)  # fmt: skip
"""Calls that end the process: no decoder makes them."""

_CLONE_THREAD, _CLONE_VM = 0x10000, 0x100


class NoFilterError(Exception):
    """There is no filter of system calls on this system; the text says what is missing."""


def build_filter(line: int) -> Any:
    """Builds the filter; its `load` holds for the process that calls it, for good.

    Args:
        line: the one descriptor that may be written to.

    Raises:
        NoFilterError: libseccomp or pyseccomp is not there, or the kernel has no filters.
    """
    try:
        import pyseccomp as seccomp
    except (ImportError, RuntimeError, OSError) as error:
        raise NoFilterError(f"{error}; install libseccomp (Debian: libseccomp2)") from error
    known = seccomp.Arg
    try:
        rules = seccomp.SyscallFilter(seccomp.ERRNO(errno.EPERM))
        for name in ENDING:
            _add(rules, seccomp.KILL_PROCESS, name)
        for name in ALLOWED:
            _add(rules, seccomp.ALLOW, name)
        for name in ("write", "sendto"):
            _add(rules, seccomp.ALLOW, name, known(0, seccomp.EQ, line))
        # Memory of its own alone, and none that is both written and run.
        private = mmap.MAP_ANONYMOUS
        not_run = known(2, seccomp.MASKED_EQ, mmap.PROT_EXEC, 0)
        _add(rules, seccomp.ALLOW, "mmap", not_run, known(3, seccomp.MASKED_EQ, private, private))
        _add(rules, seccomp.ALLOW, "mprotect", not_run)
        # A decoder's threads, and no processes. Who calls `clone3` is told that there is only `clone`.
        thread = _CLONE_THREAD | _CLONE_VM
        _add(rules, seccomp.ALLOW, "clone", known(0, seccomp.MASKED_EQ, thread, thread))
        _add(rules, seccomp.KILL_PROCESS, "clone", known(0, seccomp.MASKED_EQ, _CLONE_THREAD, 0))
        _add(rules, seccomp.ERRNO(errno.ENOSYS), "clone3")
    except OSError as error:
        raise NoFilterError(f"the filter cannot be built: {error}") from error
    return rules


def _add(rules: Any, action: int, name: str, *arguments: Any) -> None:
    try:
        rules.add_rule(action, name, *arguments)
    except OSError as error:
        if error.errno not in (errno.EDOM, errno.EFAULT, errno.EINVAL):
            raise  # those three: this processor, or this libseccomp, has no such call
