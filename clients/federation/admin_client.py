"""The admin's client of the coordinator: submit a job, follow and stop it, fetch its results."""

import contextlib
import io
import logging
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from nvflare.apis.fl_exception import FLCommunicationError
from nvflare.fuel.flare_api.api_spec import (
    AuthenticationError,
    AuthorizationError,
    InternalError,
    InvalidJobDefinition,
    JobNotDone,
    JobNotFound,
    JobNotRunning,
    NoClientsAvailable,
    NoConnection,
    NoReply,
    SessionClosed,
)
from nvflare.fuel.flare_api.flare_api import Session, new_secure_session
from nvflare.fuel.hci.proto import MetaStatusValue

from clients.federation.errors import ConnectionLostError, FederationError
from clients.federation.kit import Kit
from clients.federation.status import SiteStatus, read_site_status
from registry.bundle.text import nearest

CONNECT_SECONDS = 15.0
FOLLOW = "follow"
RESULTS = "dermfed"
Reply = TypeVar("Reply")
# The connection is gone, or the coordinator answers as one that starts, ends or is overtaxed.
CONNECTION_LOST = (
    NoConnection,
    SessionClosed,
    FLCommunicationError,
    ConnectionError,
    TimeoutError,
    InternalError,
    NoReply,
    NoClientsAvailable,
)


class AdminClient:
    """An admin session with the coordinator, reopened when the connection was lost.

    Args:
        kit: the admin's.
    """

    def __init__(self, kit: Kit) -> None:
        logging.getLogger().addHandler(logging.NullHandler())  # FLARE prints every lost packet
        self._kit = kit
        self._session: Session | None = None

    def submit(self, folder: Path) -> str:
        """Send a FLARE job; returns its id."""
        return self._in_session(lambda session: str(session.submit_job(str(folder))))

    def state(self, job: str) -> str:
        """A FLARE job's state, e.g. RUNNING, or empty where the coordinator does not have it any more."""

        def ask(session: Session) -> str:
            try:
                return str(session.get_job_meta(job).get("status", ""))
            except JobNotFound:
                return ""

        return self._in_session(ask)

    def follow(self, job: str, start: int, known: Mapping[str, Any]) -> Mapping[str, Any]:
        """The lines that a running job has printed since `start`, and its log beyond what is `known`.

        Nothing where it is not running yet, or any more.
        """

        def ask(session: Session) -> Mapping[str, Any]:
            try:
                reply: Mapping[str, Any] = session.do_app_command(
                    job, FOLLOW, {"from": start, "known": dict(known)}
                )
            except (JobNotRunning, NoReply, InternalError):
                return {}
            return reply

        return self._in_session(ask)

    def connected(self) -> tuple[str, ...]:
        """The hospitals that are connected."""
        return self._in_session(
            lambda session: tuple(sorted(client.name for client in session.get_connected_client_list()))
        )

    def jobs_at(self, names: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
        """The FLARE jobs that run at hospitals that are connected; one that does not reply is absent.

        FLARE lists a hospital that was killed as connected until its heartbeats are missed, for a minute.
        """

        def ask(session: Session) -> dict[str, tuple[str, ...]]:
            jobs: dict[str, tuple[str, ...]] = {}
            for entry in session.get_client_job_status(list(names)) or []:
                name, status = str(entry.get("client_name")), entry.get("status")
                if status in (MetaStatusValue.NO_REPLY, MetaStatusValue.ERROR):
                    continue
                known = jobs.get(name, ())
                jobs[name] = (*known, str(entry["job_id"])) if entry.get("job_id") else known
            return jobs

        return self._in_session(ask) if names else {}

    def change(self, name: str, how: Literal["disable", "enable"]) -> SiteStatus:
        """Have the coordinator let a hospital in no more, and drop it, or let it in again.

        Raises:
            FederationError: the coordinator does not do so, and nothing has changed.
        """

        def ask(session: Session) -> SiteStatus:
            change = session.disable_client if how == "disable" else session.enable_client
            try:
                return read_site_status(name, change(name))
            except InternalError as error:
                raise FederationError(
                    f"the coordinator did not do so: {error}; nothing has changed. Its log says more "
                    "(kits/server/log.txt); it may have no room on its disk"
                ) from error

        return self._in_session(ask)

    def stop(self, job: str) -> None:
        """Abort a FLARE job; what it has done stays at the coordinator."""
        with contextlib.suppress(JobNotRunning, JobNotFound):
            self._in_session(lambda session: str(session.abort_job(job)))

    def forget(self, job: str) -> None:
        """Delete a FLARE job that has ended from the coordinator's store; one that has not stays."""
        with contextlib.suppress(JobNotFound, JobNotDone):
            self._in_session(lambda session: session.delete_job(job))

    def fetch(self, job: str, out: Path) -> None:
        """Download the results of a FLARE job into `out`."""
        downloaded = Path(self._in_session(lambda session: str(session.download_job_result(job))))
        found = next((path for path in downloaded.rglob(RESULTS) if path.is_dir()), None)
        if found is not None:
            out.mkdir(parents=True, exist_ok=True)
            shutil.copytree(found, out, dirs_exist_ok=True)
        shutil.rmtree(downloaded, ignore_errors=True)

    def close(self) -> None:
        """Close the session."""
        if self._session is not None:
            with contextlib.suppress(Exception), silence():
                self._session.close()
            self._session = None

    def _in_session(self, ask: Callable[[Session], Reply]) -> Reply:
        """Call `ask` with an open session.

        Raises:
            ConnectionLostError: the coordinator is not reached.
            FederationError: it refuses this kit.
        """
        try:
            with silence():
                if self._session is None:
                    self._session = new_secure_session(
                        self._kit.facts.identity, str(self._kit.path), timeout=CONNECT_SECONDS
                    )
                return ask(self._session)
        except (AuthenticationError, AuthorizationError) as error:
            raise FederationError(
                f"the coordinator refuses {self._kit.path}: {error}; was the kit made by the same "
                "`dermfed-node provision` as the coordinator's?"
            ) from error
        except InvalidJobDefinition as error:
            raise FederationError(f"FLARE takes no such job: {error}") from error
        except CONNECTION_LOST as error:
            self.close()
            address = self._kit.federation.coordinator
            raise ConnectionLostError(
                f"the coordinator at {address.host}:{address.port} is not reached: {error}; is "
                "`dermfed-node start --kit kits/server` running there, and the port open?"
            ) from error


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Discard what FLARE prints."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield


def change_site_status(kit: Kit, name: str, how: Literal["disable", "enable"], *, left: bool) -> SiteStatus:
    """Tell the coordinator to let a hospital in no more, or again.

    Args:
        kit: the admin's.
        name: the hospital's.
        how: which of both.
        left: whether the name may be in no federation file any more.

    Raises:
        FederationError: there is no such hospital, or the coordinator is not reached or does not do so.
    """
    if name not in kit.federation.names and not left:
        # FLARE takes any name: a misspelt one would be disabled, and the hospital that was meant would not.
        raise FederationError(
            f"there is no hospital {name!r} in the federation; {nearest(name, list(kit.federation.names))}. "
            "One that was taken out of the federation file is named with --left"
        )
    admin = AdminClient(kit)
    try:
        return admin.change(name, how)
    finally:
        admin.close()


def in_words(standing: SiteStatus) -> str:
    """A hospital's status in sentences, for the user who changed it."""
    name = standing.hospital
    if standing.state == "enabled":
        if not standing.changed:
            return f"{name} was not disabled; nothing has changed"
        return (
            f"{name} is let in again, and so is everybody who has a key and certificate in its name. If its "
            f"kit was stolen, disable {name} again and let the hospital come back under another name"
        )
    was = "" if standing.changed else " It was disabled before."
    there = "It was connected and is dropped" if standing.disconnected else "It was not connected"
    return (
        f"{name} is disabled: no certificate in its name is let in, also after a restart of the coordinator."
        f"{was} {there}. In a run under way it is a site that is offline; --resume --without {name} takes it "
        "out of the run for good"
    )
