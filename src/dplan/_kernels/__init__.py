"""Compiled arithmetic that several subpackages use: networks, forests, trees, neighbours."""
