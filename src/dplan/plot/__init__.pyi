from .ranking import precision_recall as precision_recall
from .ranking import scores as scores
from .ranking import threshold as threshold
from .reviews import review as review
from .rows import drift as drift
from .rows import effects as effects
from .rows import map as map
