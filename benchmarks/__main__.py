"""Run every benchmark; the exit code tells whether all bars hold."""

import sys

from benchmarks import agent, data, ensemble, rivals, runner, serving, startup, tables

results = [
    startup.run(),
    agent.run(),
    ensemble.run(),
    rivals.run(),
    data.run(),
    runner.run(),
    tables.run(),
    serving.run(),
]
sys.exit(0 if all(results) else 1)
