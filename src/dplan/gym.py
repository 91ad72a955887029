"""DPLAN's simulation environment as a Gymnasium environment, for other reinforcement-learning libraries.

It uses the functions that train `dplan.DPLAN`, so the same random draws give the same rewards and observations.
Importing this module registers it as ``dplan/AnomalyBiased-v0``. It needs ``gymnasium``.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplan._kernels.forest import grow, isolation_scores, new_forest
from dplan._kernels.scaling import arrange, column_scale
from dplan.agent.environment import (
    SAMPLERS,
    STRETCH_ROWS,
    World,
    draw_next,
    draw_stretch,
    external_reward,
    is_checked,
    is_labelled,
    proximate,
    random_unlabelled,
    ring_order,
)
from dplan.agent.intrinsic import RESCALING_ROWS, rescale
from dplan.arrays import Float32s
from dplan.detectors._checks import check_choice, check_flag, check_integer, check_labels, check_number
from dplan.detectors._rows import checked_share
from dplan.exceptions import needs

try:
    import gymnasium
    from gymnasium import spaces
except ModuleNotFoundError as error:
    raise needs("dplan.gym", "gymnasium") from error

Embed = Callable[[Float32s], NDArray[np.floating]]

ID = "dplan/AnomalyBiased-v0"


class AnomalyBiasedEnv(gymnasium.Env[Float32s, np.int64]):
    """Show rows of a table to an agent that calls each one normal or anomalous.

    Observation
        One row of the table, its columns scaled to [0, 1]: ``Box(0, 1, (n_columns,), float32)``. Half of the rows
        shown are labelled anomalies, drawn uniformly. The others are unlabelled: of a random subsample, the one
        nearest to the last row in the agent's embedding if it was called anomalous, else the farthest (Eq. 3). If
        there are checked normal rows, some of the unlabelled rows are replaced by them.
    Action
        ``Discrete(2)``: 0 calls the row normal, 1 calls it anomalous.
    Reward
        External (Eq. 4): 1 for a labelled anomaly called anomalous, 0 for an unlabelled row called normal, else -1.
        Plus intrinsic (Eq. 5), regardless of the action: how easily an isolation forest isolates the row in the agent's
        embedding, in [0, 1]. Both are given for the row that was acted on. A checked normal row is rewarded like an
        unlabelled one, without the intrinsic reward.
    Episode end
        After `episode_steps` steps the episode terminates.
    Info
        ``row``, the index in X of the row shown; ``labelled``, whether it is a labelled anomaly; ``checked``, whether
        it was checked and is normal; and from `step` also ``external_reward`` and ``intrinsic_reward``.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns)
        Labelled and unlabelled rows.
    y : array-like of shape (n_rows,)
        0 for an unlabelled row, k ≥ 1 for a labelled anomaly, -1 for a row that was checked and is normal.
    embed : callable or None, default=None
        The agent's embedding: takes rows (n, n_columns), returns (n, width). It is called at every step, so it may
        change while the agent learns. If None, the rows themselves are used. It can also be set later: ``env.embed =
        …``.
    labelled_probability, subsample_size, episode_steps, novelty_update_steps : float, int, int, int
        As in `dplan.DPLAN`.
    sampler, intrinsic_reward, n_trees, tree_size : str, bool, int, int
        As in `dplan.DPLAN`.

    Examples
    --------
    >>> import numpy as np
    >>> from dplan.gym import AnomalyBiasedEnv
    >>> X = np.random.default_rng(0).random((500, 3))
    >>> y = np.repeat([1, 0], [20, 480])
    >>> env = AnomalyBiasedEnv(X, y)
    >>> observation, info = env.reset(seed=0)
    >>> observation, reward, terminated, truncated, info = env.step(1)
    >>> observation.shape, info["external_reward"]
    ((3,), -1.0)
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own form

    def __init__(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        embed: Embed | None = None,
        labelled_probability: float = 0.5,
        subsample_size: int = 1_000,
        episode_steps: int = 2_000,
        novelty_update_steps: int = 2_000,
        sampler: str = "proximity",
        intrinsic_reward: bool = True,
        n_trees: int = 100,
        tree_size: int = 256,
    ) -> None:
        check_number("labelled_probability", labelled_probability, "[0, 1]")
        for name, value in (
            ("subsample_size", subsample_size),
            ("episode_steps", episode_steps),
            ("novelty_update_steps", novelty_update_steps),
            ("n_trees", n_trees),
        ):
            check_integer(name, value, 1)
        check_integer("tree_size", tree_size, 2)
        check_choice("sampler", sampler, SAMPLERS)
        check_flag("intrinsic_reward", intrinsic_reward)
        table = np.asarray(X, dtype=np.float64)
        if table.ndim != 2 or not np.isfinite(table).all():
            raise ValueError("X must be a 2-D array of finite numbers.")
        labels = check_labels(y, len(table))
        labelled, unlabelled, checked = (
            np.flatnonzero(found) for found in (labels > 0, labels == 0, labels < 0)
        )
        if not len(labelled) or not len(unlabelled):
            raise ValueError(
                "y must have labelled anomalies (k >= 1) and unlabelled rows (0), got "
                f"{len(labelled)} labelled and {len(unlabelled)} unlabelled rows."
            )

        # The order of the rows is not part of an episode's randomness, so its seed is fixed.
        shuffle = np.random.default_rng(0)
        self._order = ring_order(labelled, unlabelled, max(subsample_size, tree_size), shuffle, checked)
        self.world = World(
            rows=arrange(table, self._order, column_scale(table)),
            n_labelled=len(labelled),
            n_unlabelled=len(unlabelled),
            window=min(subsample_size, len(unlabelled)),
            stretch=min(STRETCH_ROWS, len(unlabelled)),
            labelled_probability=float(labelled_probability),
            sampler=SAMPLERS[sampler],
            n_checked=len(checked),
            checked_probability=(1 - float(labelled_probability))
            * checked_share(np.ones(len(labelled)), np.ones(len(checked))),
        )
        self.embed: Embed = embed if embed is not None else _identity
        self.observation_space = spaces.Box(0.0, 1.0, (table.shape[1],), np.float32)
        self.action_space = spaces.Discrete(2)
        self._episode_steps = episode_steps
        self._novelty_update_steps = novelty_update_steps
        self._intrinsic = intrinsic_reward
        self._n_trees, self._tree_size = n_trees, min(tree_size, len(unlabelled))
        self._novelty: Float32s | None = None  # r^i per row

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float32s, dict[str, Any]]:
        """Start an episode at a random unlabelled row; with a seed, also reset the intrinsic reward."""
        super().reset(seed=seed)
        if self._intrinsic and (seed is not None or self._novelty is None):
            self._refresh_novelty()
            self._steps_since_refresh = 0
        self._step = 0
        self._stretch_start = draw_stretch(self.world, self.np_random)
        self._row = random_unlabelled(self.world, self.np_random)
        return self._observation(), self._info()

    def step(self, action: np.int64) -> tuple[Float32s, float, bool, bool, dict[str, Any]]:
        """Apply the action to the current row, and return the next one."""
        row = self._row
        external = external_reward(is_labelled(self.world, row), int(action))
        intrinsic = 0.0
        if self._novelty is not None and not is_checked(self.world, row):
            intrinsic = float(self._novelty[row])
        self._row = self._next_row(row, int(action))
        self._step += 1
        if self._intrinsic:
            self._steps_since_refresh += 1
            if self._steps_since_refresh == self._novelty_update_steps:
                self._refresh_novelty()
                self._steps_since_refresh = 0
        info = {**self._info(), "external_reward": external, "intrinsic_reward": intrinsic}
        return self._observation(), external + intrinsic, self._step >= self._episode_steps, False, info

    def _observation(self) -> Float32s:
        observation: Float32s = self.world.rows[self._row].copy()
        return observation

    def _info(self) -> dict[str, Any]:
        return {
            "row": int(self._order[self._row]),
            "labelled": bool(is_labelled(self.world, self._row)),
            "checked": bool(is_checked(self.world, self._row)),
        }

    def _next_row(self, row: int, action: int) -> int:
        found, is_window = draw_next(self.world, self._stretch_start, self.np_random)
        if not is_window:
            return found
        embedded_row = self._embed(self.world.rows[row : row + 1])[0]
        window = self._embed(self.world.rows[found : found + self.world.window])
        return proximate(self.world, row, action, found, embedded_row, window)

    def _embed(self, rows: Float32s) -> Float32s:
        embedded = np.ascontiguousarray(self.embed(rows), dtype=np.float32)
        if embedded.ndim != 2 or len(embedded) != len(rows):
            raise ValueError(
                f"embed must return one row per input row; got an array of shape {embedded.shape} for {len(rows)} rows."
            )
        return embedded

    def _refresh_novelty(self) -> None:
        """Grow a forest in the current embedding θ̂^e, and store the reward of every row until the next refresh."""
        world, forest = self.world, new_forest(self._n_trees, self._tree_size)
        for tree in range(self._n_trees):
            start = random_unlabelled(world, self.np_random)
            grow(forest, tree, self._embed(world.rows[start : start + self._tree_size]), self.np_random)
        pieces = range(0, world.n_labelled + world.n_unlabelled, RESCALING_ROWS)
        scores = np.concatenate(
            [isolation_scores(forest, self._embed(world.rows[i : i + RESCALING_ROWS])) for i in pieces]
        )[: world.n_labelled + world.n_unlabelled]
        reference = scores[world.n_labelled : world.n_labelled + RESCALING_ROWS]
        self._novelty = rescale(scores, np.array([reference.min(), reference.max()]))


def _identity(rows: Float32s) -> NDArray[np.floating]:
    return rows


gymnasium.register(id=ID, entry_point="dplan.gym:AnomalyBiasedEnv")
