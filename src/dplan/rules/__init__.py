"""Rules about rows: conditions on the columns of a table that people can read and databases can run."""
