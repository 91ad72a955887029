"""From rows to scores, alerts and reasons: one scorer, and the commands that pass tables and streams through it."""
