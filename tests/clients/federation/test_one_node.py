"""FLARE's registration, and what stands before it: by the name in the certificate, and told once."""

import time
from types import SimpleNamespace

import pytest
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, MessagePropKey, ReturnCode
from nvflare.fuel.f3.message import Message
from nvflare.private.defs import CellChannel, CellChannelTopic

from clients.federation import one_node
from clients.federation.asking import PLACE, REFUSED
from clients.federation.news import NEWS, News
from clients.federation.one_node import OneNode
from clients.federation.site_policy import hospital_resources, server_resources

HERE, THERE = "here", "there"


@pytest.fixture
def coordinator(tmp_path, monkeypatch):
    """FLARE's server as far as this looks at it; its filter, and who was told."""
    told, filters = [], []
    monkeypatch.setattr(one_node, "send_news", lambda server, name: told.append(name))
    add = lambda *place, **fixed: filters.append((*place, fixed))  # noqa: E731
    server = SimpleNamespace(
        cell=SimpleNamespace(core_cell=SimpleNamespace(add_incoming_request_filter=add)),
        client_manager=SimpleNamespace(name_to_clients={}),
    )
    fl_ctx = FLContext()
    fl_ctx.set_prop(FLContextKey.SITE_OBJ, server, private=True)
    made = OneNode(str(tmp_path))
    made.handle_event(EventType.SYSTEM_BOOTSTRAP, fl_ctx)
    [(channel, topic, look, fixed)] = filters
    assert (channel, topic) == (CellChannel.SERVER_MAIN, CellChannelTopic.Register)

    def ask(name, place=None):
        message = Message({} if place is None else {PLACE: place}, None)
        message.set_prop(MessagePropKey.COMMON_NAME, name)
        message.set_header(MessageHeaderKey.ORIGIN, "whoever.it-says")
        return look(message, **fixed)

    def register(name):
        assert ask(name) is None, "FLARE goes on with it"
        server.client_manager.name_to_clients[name] = SimpleNamespace(last_connect_time=time.time())

    return ask, register, told


def test_a_second_node_is_refused_and_told_of_once(coordinator, tmp_path):
    ask, register, told = coordinator
    news = News(tmp_path / NEWS)
    assert ask("north", HERE).get_header(MessageHeaderKey.RETURN_CODE) == ReturnCode.OK
    register("north")
    for _ in range(3):
        reply = ask("north", THERE)
        assert reply.get_header(MessageHeaderKey.RETURN_CODE) == ReturnCode.UNAUTHENTICATED
        reason = reply.get_header(MessageHeaderKey.ERROR)
        assert reason.startswith(f"{REFUSED}another node of north was heard")
    assert ask("north").get_header(MessageHeaderKey.RETURN_CODE) == ReturnCode.UNAUTHENTICATED
    [text] = news.new()
    assert text.startswith("north: a second node with the same kit wants to come in and is kept out")
    assert told == ["north"]


def test_one_that_comes_again_and_another_hospital_are_let_in(coordinator):
    ask, register, told = coordinator
    for name in ("north", "north", "south"):
        assert ask(name, HERE).get_header(MessageHeaderKey.RETURN_CODE) == ReturnCode.OK
        register(name)
    assert told == []


def test_both_sides_have_their_component(tmp_path):
    paths = [
        each["path"]
        for resources in (hospital_resources(), server_resources(tmp_path))
        for each in resources["components"]
    ]
    for name in ("SecondNodeNews", "OneNode"):
        assert f"{one_node.__name__}.{name}" in paths
        assert hasattr(one_node, name)
