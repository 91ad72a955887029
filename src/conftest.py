"""Which modules cannot be imported here: those of an extra that has an environment of its own."""

import importlib.util

# `make test-integrations` has MLflow.
collect_ignore = [] if importlib.util.find_spec("mlflow") else ["dplan/mlflow.py"]
