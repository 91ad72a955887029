"""The paper's published figures: AUC-PR and AUC-ROC per data set and method."""

# Table 3: DPLAN (Org) and its ablated variants.
ABLATION = {
    "hypothyroid": {
        "DPLAN": (0.490, 0.846),
        "ERew": (0.485, 0.844),
        "REnv": (0.119, 0.633),
        "DQN+": (0.443, 0.816),
    },
    "subnormal": {
        "DPLAN": (0.436, 0.821),
        "ERew": (0.447, 0.818),
        "REnv": (0.118, 0.624),
        "DQN+": (0.245, 0.758),
    },
    "cottonwood": {
        "DPLAN": (0.709, 0.923),
        "ERew": (0.722, 0.939),
        "REnv": (0.367, 0.807),
        "DQN+": (0.700, 0.937),
    },
    "douglas-fir": {
        "DPLAN": (0.776, 0.976),
        "ERew": (0.765, 0.975),
        "REnv": (0.300, 0.747),
        "DQN+": (0.752, 0.975),
    },
}
