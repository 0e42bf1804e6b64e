"""A node and a coordinator that leave all to FLARE, for controls.

A job process that is killed is not started again. A node does not ask whether there is another with its kit,
and the coordinator does not look.

Python itself loads this file in every process that has its folder on `PYTHONPATH`.
"""

import importlib.abc
import importlib.util
import sys


def no_restarts(module):
    module.RESTARTS = 0


def no_question(module):
    module.NodeProcess._let_in = lambda self: True


def no_look(module):
    module.OneNode.handle_event = lambda self, event_type, fl_ctx: None


CHANGES = {
    "clients.federation.job_launcher": no_restarts,
    "clients.federation.processes": no_question,
    "clients.federation.one_node": no_look,
}


class AfterImport(importlib.abc.MetaPathFinder):
    """Changes each of the modules as soon as it is imported."""

    def find_spec(self, name, path, target=None):
        change = CHANGES.pop(name, None)
        if change is None:
            return None
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            change(module)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, AfterImport())
