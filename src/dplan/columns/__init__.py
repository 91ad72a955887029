"""Understand the columns of a table: how the text of each column becomes numbers, dates, flags or levels.

`proposing` proposes a meaning from a sample of the values, `deciding` checks it over all rows of the training table,
and `meaning` stores the decision and reads all later rows by it; `given` is for people who know better. There is
one module per kind of value: `numbers`, `moments` (dates, times, durations) and `texts`.
"""
