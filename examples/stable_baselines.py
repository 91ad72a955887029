"""Train the DQN of Stable-Baselines3 in DPLAN's environment and score held-out rows.

In a clone of the repository:

    pip install '.[gym]' stable-baselines3
    python examples/stable_baselines.py

The environment needs the agent's embedding: here, the last hidden layer of the Q-network that is being trained.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score
from stable_baselines3 import DQN

from dplan.datasets import scenario
from dplan.gym import AnomalyBiasedEnv


def train(X: NDArray[Any], y: NDArray[Any], n_steps: int = 20_000, seed: int = 0) -> DQN:
    """Train with the paper's settings, except that this DQN uses Adam and the Huber loss."""
    env = AnomalyBiasedEnv(X, y)
    model = DQN(
        "MlpPolicy",
        env,
        policy_kwargs={"net_arch": [20]},
        learning_rate=0.00025,
        buffer_size=100_000,
        learning_starts=10_000,
        batch_size=32,
        gamma=0.99,
        train_freq=1,
        target_update_interval=10_000,
        exploration_fraction=10_000 / n_steps,
        exploration_initial_eps=1.0,
        exploration_final_eps=0.1,
        seed=seed,
        device="cpu",
    )
    hidden = model.q_net.q_net[:-1]

    def embed(rows: NDArray[np.float32]) -> NDArray[np.float32]:
        with torch.no_grad():
            embedded: NDArray[np.float32] = hidden(torch.from_numpy(rows)).numpy()
        return embedded

    env.embed = embed
    model.learn(n_steps)
    return model


def anomaly_score(model: DQN, rows: NDArray[Any]) -> NDArray[np.float32]:
    """Return Q(s, anomalous) for rows that are scaled as in training."""
    with torch.no_grad():
        scores: NDArray[np.float32] = model.q_net(torch.from_numpy(rows.astype(np.float32)))[:, 1].numpy()
    return scores


def main() -> None:
    task = scenario("covertype-mini/cottonwood-v1", seed=0)
    scores = anomaly_score(train(task.X, task.y), task.X_test)
    for name, counted in [
        ("all", task.y_test > 0),
        ("known", task.known_mask),
        ("unknown", task.unknown_mask),
    ]:
        judged = counted | (task.y_test == 0)
        precision_recall = average_precision_score(counted[judged], scores[judged])
        roc = roc_auc_score(counted[judged], scores[judged])
        print(f"{name:8} AUC-PR {precision_recall:.3f}  AUC-ROC {roc:.3f}")


if __name__ == "__main__":
    main()
