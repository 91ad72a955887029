"""What the state machines share: how many steps they take, and a kill at any moment within this process."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, run_state_machine_as_test

_CALLS = ("fsync", "link", "rename", "replace")

steps = pytest.mark.parametrize("steps", [300, pytest.param(10_000, marks=pytest.mark.soak)])


class Machine(RuleBasedStateMachine):
    """A state machine that counts its steps."""

    taken = 0

    @invariant()
    def counted(self):
        type(self).taken += 1


def run(machine, steps, *, per_example=10, **attributes):
    """Take at least so many steps, in examples of about `per_example` or more; in `make test` always the same."""
    own = type(machine.__name__, (machine,), attributes)
    chosen = settings(
        max_examples=steps // per_example,
        stateful_step_count=40,
        deadline=None,
        derandomize=steps == 300,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(own, settings=chosen)
    assert own.taken >= steps


class Killed(BaseException):
    """The process would be dead now."""


@contextmanager
def killed_at(moment: int, folder: Path) -> Iterator[list[str]]:
    """End a block at the n-th call that changes what is on disk, and leave the folder as it is at this moment.

    Nothing that the block does afterwards, such as cleaning up, has an effect: a killed process does nothing. Yields
    the names of the files that were renamed. If the block ends before, it is not disturbed.
    """
    done: list[str] = []
    left = moment
    with TemporaryDirectory() as scratch, pytest.MonkeyPatch.context() as patched:
        then = Path(scratch) / "then"

        def wrapped(real):
            def call(*arguments, **options):
                nonlocal left
                left -= 1
                if left == 0:
                    shutil.copytree(folder, then, symlinks=True)
                if left <= 0:
                    raise Killed
                result = real(*arguments, **options)
                if len(arguments) > 1:
                    done.append(Path(arguments[1]).name)
                return result

            return call

        for name in _CALLS:
            patched.setattr(os, name, wrapped(getattr(os, name)))
        try:
            yield done
        except Killed:
            patched.undo()
            shutil.rmtree(folder)
            shutil.copytree(then, folder, symlinks=True)
