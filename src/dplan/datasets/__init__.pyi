from .loading import Dataset as Dataset
from .loading import data_home as data_home
from .loading import load as load
from .registry import ScenarioId as ScenarioId
from .registry import scenario_id as scenario_id
from .registry import scenarios as scenarios
from .tasks import Task as Task
from .tasks import scenario as scenario
