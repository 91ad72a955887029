"""Run every benchmark; the exit code tells whether all bars hold."""

import sys

from benchmarks import (
    agent,
    data,
    ensemble,
    kinds,
    review,
    rivals,
    runner,
    serving,
    startup,
    tables,
    verdicts,
)

PARTS = (startup, agent, ensemble, verdicts, kinds, rivals, data, runner, tables, serving, review)
results = [part.run() for part in PARTS]
sys.exit(0 if all(results) else 1)
