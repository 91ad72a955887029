"""The DPLAN agent, with one file per module of the paper's Figure 1.

`reference` is Algorithm 1 in plain NumPy, in the order of the paper: read it first. The others are the same algorithm,
compiled: `environment` has the observation sampling g and the external reward h, `intrinsic` the intrinsic reward f,
`network` the Q-network, and `training` combines them.
"""
