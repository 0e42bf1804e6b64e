"""Setting up FLARE's side of a job's process that takes the place of one that was killed.

FLARE's coordinator sets up a site once, by a task whose parts are about calls from this site to others. A
hospital's process calls nobody, so that the task can be done again without the coordinator.
"""

from nvflare.apis.client import from_dict
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.job_def import JobMetaKey
from nvflare.apis.shareable import Shareable
from nvflare.collab.runtime.defs import SETUP_TASK_NAME, SyncKey
from nvflare.fuel.f3.cellnet.fqcn import FQCN

from training.errors import EngineError


def set_up_again(fl_ctx: FLContext) -> None:
    """Do FLARE's setup task of this site again; after it, the coordinator's calls are answered.

    Args:
        fl_ctx: of FLARE's event that the job starts.

    Raises:
        EngineError: FLARE refuses.
    """
    runner = fl_ctx.get_prop(FLContextKey.RUNNER)
    clients = [from_dict(each) for each in fl_ctx.get_prop(FLContextKey.JOB_META)[JobMetaKey.JOB_CLIENTS]]
    task = Shareable(
        {
            SyncKey.COLLAB_INTERFACE: {},
            SyncKey.CLIENT_INTERFACES: {client.name: {} for client in clients},
            SyncKey.SERVER_FQCN: FQCN.join([FQCN.ROOT_SERVER, fl_ctx.get_job_id()]),
        }
    )
    reply = runner.find_executor(SETUP_TASK_NAME).execute(
        SETUP_TASK_NAME, task, fl_ctx, runner.run_abort_signal
    )
    if reply.get_return_code() != ReturnCode.OK:
        raise EngineError(f"FLARE does not set this process up again: {reply.get_return_code()}")
