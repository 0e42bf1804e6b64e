"""A hospital's job process that is killed is not started again: FLARE's own way, for a control.

Python itself loads this file in every process that has its folder on `PYTHONPATH`.
"""

import importlib.abc
import importlib.util
import sys

MODULE = "clients.federation.job_launcher"


class WithoutRestarts(importlib.abc.MetaPathFinder):
    """Changes the launcher as soon as it is imported."""

    def find_spec(self, name, path, target=None):
        if name != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            module.RESTARTS = 0

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, WithoutRestarts())
