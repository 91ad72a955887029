from .explanation import Explanation as Explanation
from .explanation import effects as effects
