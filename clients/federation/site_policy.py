"""A site's FLARE policy: which classes a job may name, who is authorised to do what, where stores lie.

A job brings no code: it names the entry points below, and each side runs what it installed. Nothing is sent
to anybody else: no logs to the coordinator, no reports of use to anyone.
"""

from pathlib import Path
from typing import Any

from clients.federation.logs import MARK

COORDINATOR = "training.coordinator.Coordinator"
HOSPITAL = "clients.node.hospital.Hospital"
CONTROLLER = "nvflare.collab.runtime.controller.CollabController"
EXECUTOR = "nvflare.collab.runtime.executor.CollabExecutor"
# Loggers whose lines are on the node's console: all of ours, so that no picture is left out in silence.
CONSOLE_LOGGERS = ("dermfed", "clients", "personalization", "registry", "training")
SYNC_SECONDS = 300  # for a hospital's process to start and report before the job gives it up
NEVER = 1_000_000  # attempts to schedule a job: whoever sent it decides when to give up, not the server

AUTHORIZATION: dict[str, Any] = {
    "format_version": "1.0",
    "permissions": {
        "lead": {
            "submit_job": "any",
            "clone_job": "none",
            "manage_job": "any",
            "download_job": "any",
            "view": "any",
            "app_command": "any",
            "operate": "none",
            "disable_client": "any",
            "enable_client": "any",
            "shell_commands": "none",
            "byoc": "none",
            "server-predeployed-flwr": "none",
        }
    },
}


def hospital_resources() -> dict[str, Any]:
    """`local/resources.json` of a hospital."""
    return {
        "format_version": 2,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": [HOSPITAL, EXECUTOR],
        "allow_log_streaming": False,
        "client": {"retry_timeout": 30, "compression": "Gzip"},
        "components": [
            component(
                "resource_manager",
                "nvflare.app_common.resource_managers.passthrough_resource_manager.PassthroughResourceManager",
            ),
            component(
                "resource_consumer",
                "nvflare.app_common.resource_consumers.gpu_resource_consumer.GPUResourceConsumer",
            ),
            component(
                "process_launcher",
                "nvflare.app_common.job_launcher.client_process_launcher.ClientProcessJobLauncher",
            ),
        ],
    }


def server_resources(private: Path) -> dict[str, Any]:
    """`local/resources.json` of the coordinator, with its stores in `private`."""
    storage = "nvflare.app_common.storages.filesystem_storage.FilesystemStorage"
    return {
        "format_version": 2,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": [COORDINATOR, CONTROLLER],
        "servers": [
            {
                "admin_storage": "transfer",
                "max_num_clients": 1000,
                "heart_beat_timeout": 60,
                "admin_timeout": 10.0,
                "download_job_url": "http://127.0.0.1/",
            }
        ],
        "snapshot_persistor": {
            "path": "nvflare.app_common.state_persistors.storage_state_persistor.StorageStatePersistor",
            "args": {
                "uri_root": "/",
                "storage": {
                    "path": storage,
                    "args": {"root_dir": str(private / "snapshots"), "uri_root": "/"},
                },
            },
        },
        "components": [
            component(
                "job_scheduler",
                "nvflare.app_common.job_schedulers.job_scheduler.DefaultJobScheduler",
                max_jobs=1,
                max_schedule_count=NEVER,
                min_schedule_interval=1.0,
                max_schedule_interval=5.0,
            ),
            component(
                "job_manager",
                "nvflare.apis.impl.job_def_manager.SimpleJobDefManager",
                uri_root=str(private / "jobs"),
                job_store_id="job_store",
            ),
            component("job_store", storage),
            component(
                "process_launcher",
                "nvflare.app_common.job_launcher.server_process_launcher.ServerProcessJobLauncher",
            ),
        ],
    }


def component(name: str, path: str, **arguments: Any) -> dict[str, Any]:
    """One entry of FLARE's list of components."""
    return {"id": name, "path": path, "args": arguments}


def log_settings() -> dict[str, Any]:
    """`local/log_config.json`: all that FLARE says in `log.txt`; on standard output a line an event of ours.

    The traces of errors are in `log.txt` alone.
    """
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "base": {
                "()": "nvflare.fuel.utils.log_utils.BaseFormatter",
                "fmt": "%(asctime)s - %(name)s - %(levelname)s - %(fl_ctx)s - %(message)s",
            },
            "ours": {
                "()": "clients.federation.logs.WithoutTraces",
                "fmt": "%(asctime)s" + MARK + "%(message)s",
                "datefmt": "%Y-%m-%d %H:%M:%S",
            },
        },
        "handlers": {
            "ourHandler": {
                "class": "logging.StreamHandler",
                "level": "INFO",
                "formatter": "ours",
                "stream": "ext://sys.stdout",
            },
            "logFileHandler": {
                "class": "logging.handlers.RotatingFileHandler",
                "level": "INFO",
                "formatter": "base",
                "filename": "log.txt",
                "mode": "a",
                "maxBytes": 20971520,
                "backupCount": 10,
            },
        },
        "loggers": {
            "root": {"level": "INFO", "handlers": ["logFileHandler"]},
            **{name: {"level": "INFO", "handlers": ["ourHandler"]} for name in CONSOLE_LOGGERS},
        },
    }
