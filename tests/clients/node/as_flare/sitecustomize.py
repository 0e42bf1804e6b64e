"""A node and a coordinator that leave all to FLARE, for controls.

A job process that is killed is not started again.

Python itself loads this file in every process that has its folder on `PYTHONPATH`.
"""

import importlib.abc
import importlib.util
import sys


def no_restarts(module):
    module.RESTARTS = 0


CHANGES = {
    "clients.federation.job_launcher": no_restarts,
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
