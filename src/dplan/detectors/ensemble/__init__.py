"""DPLANEnsemble: `ensemble` is the detector, `training` trains its members, `fitted` adds up their scores.

`members` says what kinds there are and what they weigh, `learners` how trees learn.
"""

from dplan.detectors.ensemble.ensemble import DPLANEnsemble as DPLANEnsemble
