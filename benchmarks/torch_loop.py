"""Algorithm 1 as one would first write it in eager PyTorch, to compare with: row-number replay, |S| rows gathered.

The learning follows DPLAN's defaults; the intrinsic reward comes from scikit-learn's isolation forest, refitted every
episode on the embedding of the unlabelled rows.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import IsolationForest
from torch import nn


def train(
    table: NDArray[np.float32], labels: NDArray[np.int64], n_steps: int = 20_000, seed: int = 0
) -> nn.Module:
    """Train a Q-network with one hidden layer of 20 units and return it."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    rows = torch.from_numpy(table)
    labelled, unlabelled = np.flatnonzero(labels), np.flatnonzero(labels == 0)
    first = nn.Linear(table.shape[1], 20)
    body = nn.Sequential(first, nn.ReLU())
    network = nn.Sequential(body, nn.Linear(20, 2))
    target = nn.Sequential(nn.Sequential(nn.Linear(table.shape[1], 20), nn.ReLU()), nn.Linear(20, 2))
    for weights in target.parameters():
        nn.init.zeros_(weights)
    optimizer = torch.optim.RMSprop(network.parameters(), lr=0.00025, alpha=0.95, eps=0.01)
    memory = []
    row = int(rng.choice(unlabelled))
    rewards = np.zeros(len(table))
    for step in range(n_steps):
        if step % 2_000 == 0:
            row = int(rng.choice(unlabelled))
            with torch.no_grad():
                embedded = body(rows).numpy()
            forest = IsolationForest(random_state=seed).fit(embedded[unlabelled])
            scores = -forest.score_samples(embedded)
            low, high = scores[unlabelled].min(), scores[unlabelled].max()
            rewards = np.clip((scores - low) / (high - low), 0, 1)
        with torch.no_grad():
            if rng.random() < max(0.1, 1 - 0.9 * step / 10_000):
                action = int(rng.integers(2))
            else:
                action = int(network(rows[row]).argmax())
            if rng.random() < 0.5:
                following = int(rng.choice(labelled))
            else:
                subsample = unlabelled[rng.integers(len(unlabelled), size=1_000)]
                distances = torch.linalg.norm(body(rows[subsample]) - body(rows[row]), dim=1)
                following = int(subsample[int(distances.argmin() if action else distances.argmax())])
        known = labels[row] > 0
        external = 1.0 if known and action else 0.0 if not known and not action else -1.0
        memory.append((row, action, external + rewards[row], following, step % 2_000 == 1_999))
        if step >= 10_000:
            batch = [memory[i] for i in rng.integers(len(memory), size=32)]
            states, actions, gains, nexts, ends = (np.array(column) for column in zip(*batch, strict=True))
            with torch.no_grad():
                future = target(rows[nexts]).max(dim=1).values
                wanted = torch.from_numpy(gains).float() + 0.99 * future * torch.from_numpy(~ends)
            values = network(rows[states]).gather(1, torch.from_numpy(actions)[:, None])[:, 0]
            loss = 0.5 * ((values - wanted) ** 2).mean() + 0.01 * (first.weight**2).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if (step + 1) % 10_000 == 0:
            target.load_state_dict(network.state_dict())
        row = following
    return network
