"""Model files: the container, what a model file holds, and writing a file whole or not at all."""
