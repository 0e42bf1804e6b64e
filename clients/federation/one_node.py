"""FLARE's components that let one node of a hospital in, and have both ends told of a second one.

`OneNode` is at the coordinator, `SecondNodeNews` at each hospital; both are in `local/resources.json`.
"""

import logging
import threading
import time
from pathlib import Path

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey, ProcessType, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.fuel.f3.cellnet.defs import MessagePropKey
from nvflare.fuel.f3.cellnet.defs import ReturnCode as CellReturnCode
from nvflare.fuel.f3.cellnet.utils import make_reply as cell_reply
from nvflare.fuel.f3.message import Message
from nvflare.private.defs import CellChannel, CellChannelTopic

from clients.federation.asking import PLACE, REFUSED
from clients.federation.news import NEWS, News
from clients.federation.places import Places

FILE = "places.json"  # in the server kit's `private`
TOPIC = "dermfed.second-node"
EVERY = 600.0  # seconds between two times that the same is told
SECONDS = 10.0  # for the news to reach a node
COORDINATOR, NODE = logging.getLogger("dermfed.coordinator"), logging.getLogger("dermfed.node")
TO_THE_NODE = (
    "another node with this hospital's kit asks the coordinator to be let in, and is kept out; this one goes "
    "on. One kit is for one node: stop the other, or this one"
)


class OneNode(FLComponent):  # type: ignore[misc]  # FLARE has no types
    """Answers nodes that ask to come in, and refuses registrations of a second one.

    Args:
        folder: the server kit's `private`.
    """

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = Path(folder)
        self._places: Places | None = None
        self._told: dict[str, float] = {}
        self._lock = threading.Lock()

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Stand before FLARE's registration as soon as it listens, in the node's process and in no job's."""
        if event_type != EventType.SYSTEM_BOOTSTRAP or self._places is not None:
            return
        server = fl_ctx.get_prop(FLContextKey.SITE_OBJ)
        self._places = Places(self._folder / FILE)
        server.cell.core_cell.add_incoming_request_filter(
            CellChannel.SERVER_MAIN, CellChannelTopic.Register, self._before_registration, server=server
        )

    def _before_registration(self, message: Message, server: object) -> Message | None:
        """A reply in place of FLARE's; None where FLARE is to register the node.

        The name is that of the connection's certificate, whatever the message says.
        """
        name, place = message.get_prop(MessagePropKey.COMMON_NAME), message.get_header(PLACE)
        assert self._places is not None, "set before this filter"
        with self._lock:
            heard = heard_of(server, name)
            if place is not None:
                reason = self._places.ask(name, str(place), heard)
            else:
                reason = self._places.register(name, heard)
        if reason:
            self._tell(name, reason, server)
            return cell_reply(CellReturnCode.UNAUTHENTICATED, error=f"{REFUSED}{reason}")
        return cell_reply(CellReturnCode.OK) if place is not None else None

    def _tell(self, name: str, reason: str, server: object) -> None:
        """Tell the console, whoever follows a run, and the node that is there."""
        now = time.monotonic()
        if now - self._told.get(name, -EVERY) < EVERY:
            return
        self._told[name] = now
        text = (
            f"{name}: a second node with the same kit wants to come in and is kept out ({reason}). The one "
            f"that is there goes on; have {name} stop one of the two"
        )
        COORDINATOR.info("%s", text)
        News(self._folder / NEWS).add(text)
        threading.Thread(target=send_news, args=(server, name), daemon=True, name=f"news-{name}").start()


class SecondNodeNews(FLComponent):  # type: ignore[misc]
    """Has a hospital's console say that there is a second node with its kit, when it is told so."""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Listen for it, in the node's process and in no job's."""
        if event_type == EventType.SYSTEM_START and fl_ctx.get_prop(FLContextKey.PROCESS_TYPE) in (
            None,
            ProcessType.CLIENT_PARENT,
        ):
            fl_ctx.get_engine().register_aux_message_handler(TOPIC, self._say)

    def _say(self, topic: str, request: Shareable, fl_ctx: FLContext) -> Shareable:
        NODE.info("%s", TO_THE_NODE)
        return make_reply(ReturnCode.OK)


def heard_of(server: object, name: str) -> float | None:
    """Seconds since the node that FLARE has under this name was heard of; None where it has none."""
    client = server.client_manager.name_to_clients.get(name)  # type: ignore[attr-defined]
    return None if client is None else time.time() - client.last_connect_time


def send_news(server: object, name: str) -> None:
    """Tell the node that is there; where it is not reached, its console says nothing."""
    engine = server.engine  # type: ignore[attr-defined]
    with engine.new_context() as fl_ctx:
        engine.send_aux_request([name], TOPIC, Shareable(), SECONDS, fl_ctx, optional=True)
