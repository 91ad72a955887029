"""Compiled arithmetic that several rooms use: networks, forests, trees, neighbours."""
