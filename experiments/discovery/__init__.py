"""Simulated reviews: how many anomalies are found with how many verdicts."""
