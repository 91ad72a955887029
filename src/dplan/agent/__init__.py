"""The DPLAN agent, with one file per module of the paper's Figure 1.

`environment` has the observation sampling g and the external reward h, `intrinsic` the intrinsic reward f, `network`
the Q-network, and `training` combines them as in Algorithm 1.
"""
