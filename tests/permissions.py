"""Permissions that bind root too, so that no test of them has to be skipped in a container."""

import ctypes
import os
import subprocess
import sys
from typing import Any


def obey_permissions() -> None:
    """Let permissions bind root as they bind everybody else, from the next exec on."""
    if sys.platform == "linux" and os.getuid() == 0:
        for capability in (1, 2):  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
            assert ctypes.CDLL(None).prctl(24, capability, 0, 0, 0) == 0  # PR_CAPBSET_DROP


def run_bound(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run Python in a process that permissions bind."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=obey_permissions,
        **options,
    )
