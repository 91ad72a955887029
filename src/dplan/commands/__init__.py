"""The commands for people with a table, one module each. They import what they need when they run."""
