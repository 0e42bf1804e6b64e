"""The few system calls that a worker may make: what decoding needs, and nothing that reaches beyond it.

The filter is libseccomp's, by pyseccomp; libseccomp.so.2 comes with the system. A call that is not on the
list fails as if it were not permitted, and one that only an attacker would make ends the process.
"""

import errno
import mmap
from typing import Any, Final

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
