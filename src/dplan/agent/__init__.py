"""DPLAN's inside, one file per module of the paper's Figure 1.

`environment` holds the observation sampling g and the external reward h, `intrinsic` the intrinsic reward f,
`network` the Q-network, and `training` puts them together as Algorithm 1.
"""
