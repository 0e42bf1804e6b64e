"""The launcher of a hospital's job processes: one that is killed is started again, and no other site's is.

FLARE ends a job at every site when the process of one ends. It learns of that from the node at this site,
which waits for the process; so the node goes on waiting, for a new one, and FLARE hears of nothing. What the
new process needs to go on where the first one was is in `clients.node.rejoin`.
"""

import logging
import signal
import threading
from collections.abc import Callable

from nvflare.apis.fl_context import FLContext
from nvflare.apis.job_launcher_spec import JobHandleSpec, JobReturnCode
from nvflare.app_common.job_launcher.client_process_launcher import ClientProcessJobLauncher
from nvflare.app_common.job_launcher.process_launcher import ProcessHandle

LOGGER = logging.getLogger("dermfed.node")
RESTARTS = 5  # of one job's process; then the job ends, and whoever follows the run takes it up everywhere


class RestartedProcess(JobHandleSpec):  # type: ignore[misc]  # FLARE has no types
    """A job's process, and those that took its place; to FLARE they are one.

    A process that a signal ended is replaced: the kernel ends one so where memory runs out. One that ended by
    itself is not, whatever its exit code: it has said what there was to say.

    Args:
        launch: starts a process.
        say: takes one line for whoever watches the node.
    """

    def __init__(self, launch: Callable[[], ProcessHandle], say: Callable[[str], None]) -> None:
        super().__init__()
        self._launch = launch
        self._say = say
        self._lock = threading.Lock()
        self._stopped = False
        self._restarts = 0
        self._process = launch()

    def wait(self) -> None:
        """Wait until the last of the processes has ended."""
        while True:
            process = self._process
            process.wait()
            code = process.adapter.poll()
            with self._lock:
                if self._stopped or code is None or code >= 0:
                    return
                ended = f"the job's process was ended by {name_of(-code)}, as where memory runs out"
                if self._restarts == RESTARTS:
                    self._say(f"{ended}; it was the last of {RESTARTS + 1}, and the job ends at all sites")
                    return
                self._restarts += 1
                self._say(
                    f"{ended}; it is started again ({self._restarts} of {RESTARTS}), and the job goes on"
                )
                self._process = self._launch()

    def poll(self) -> str | int:
        """FLARE's code of how the last process ended, or that it runs."""
        code: str | int = self._process.poll() if self._process else JobReturnCode.UNKNOWN
        return code

    def terminate(self) -> None:
        """End the process for good."""
        with self._lock:
            self._stopped = True
            self._process.terminate()


class JobLauncher(ClientProcessJobLauncher):  # type: ignore[misc]
    """Launches the process of each job at a hospital; a component of `local/resources.json`."""

    def launch_job(self, job_meta: dict[str, object], fl_ctx: FLContext) -> JobHandleSpec:
        """A job's process, which is replaced where it is killed."""

        def launch() -> ProcessHandle:
            return super(JobLauncher, self).launch_job(job_meta, fl_ctx)

        return RestartedProcess(launch, lambda text: LOGGER.info("%s", text))


def name_of(number: int) -> str:
    """A signal's name, e.g. SIGKILL."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
