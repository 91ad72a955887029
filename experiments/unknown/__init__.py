"""Anomalies of classes without labels."""
