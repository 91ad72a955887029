"""The upper nodes of trees, arranged so that a row is compared with all of them instead of following a path.

Following a path is slow, because every step loads from a place that only the step before it tells. So the upper nodes
of a tree are compared with many rows at once, whether or not the path of a row leads there (QuickScorer: Lucchese et
al., 2015). The nodes and leaves below the top are its exits, numbered from left to right. A row that goes right at a
node cannot leave through the exits on its left: they are removed from the row's set of exits, which has one bit for
each. The first exit that remains is the row's. For most trees, every exit is a leaf; otherwise the path is followed
from there.
"""

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from dplan._kernels.product import LANES, call_on_lanes, in_all_lanes

Nodes = NDArray[np.int32]
Level = tuple[Nodes, NDArray[np.int64]]  # its inner nodes, and their trees

WORD = 32  # exits in one word of a set
_EVERY_EXIT = 2**WORD - 1
MANY = 4 * LANES  # rows that are compared at the same time

# Sizes of a top, in words, and what they cost, in comparisons: a word, and a level of the paths below.
_SIZES = (1, 2, 4, 8)
_COST_OF_WORD, _COST_OF_LEVEL = 16, 30


class Tops(NamedTuple):
    """The tops of all trees, tree by tree; within a tree word by word, the last one first."""

    words: NDArray[np.int64]  # (trees + 1): the first word of each tree
    starts: NDArray[np.int64]  # (words + 1): the first node that removes exits from each word
    features: NDArray[np.int32]  # the column that a node tests
    thresholds: NDArray[np.float32]  # up to this value a row goes left
    masks: NDArray[np.uint32]  # the exits that are not removed if a row goes right
    exits: NDArray[np.int32]  # (words, WORD): nodes below the top
    values: NDArray[np.float64]  # (words, WORD): of those that are leaves
    levels: NDArray[np.int64]  # (trees): from an exit down to the deepest leaf


def tops(
    roots: Nodes,
    children: Nodes,
    features: Nodes,
    thresholds: NDArray[np.float32],
    values: NDArray[np.float64],
) -> Tops:
    """Take the inner nodes of each tree level by level, as many as pay.

    Examples
    --------
    >>> children = np.array([[1, 4], [2, 3], [2, 2], [3, 3], [4, 4]], dtype=np.int32)
    >>> features, thresholds, values = np.arange(5, dtype=np.int32), np.ones(5, np.float32), np.arange(5.0)
    >>> top = tops(np.zeros(1, np.int32), children, features, thresholds, values)
    >>> top.features, [f"{mask:b}"[-3:] for mask in top.masks], top.exits[0, :3]
    (array([0, 1], dtype=int32), ['100', '110'], array([2, 3, 4], dtype=int32))
    """
    levels, n_levels = _levels(roots, children)
    size, below = _sizes(levels, n_levels)
    chosen = _first_nodes(levels, WORD * size - 1)
    n_exits, first = np.ones(len(children), np.int64), np.zeros(len(children), np.int64)
    for nodes, _ in reversed(chosen):
        n_exits[nodes] = n_exits[children[nodes]].sum(axis=1)
    words = np.append(0, np.cumsum(-(-n_exits[roots] // WORD)))
    exits = np.zeros(WORD * words[-1], dtype=np.int32)
    last_word = words[1:] - 1  # which has the first exits
    exits[WORD * last_word] = roots
    for nodes, tree_of in chosen:
        left, right = children[nodes].T
        first[left], first[right] = first[nodes], first[nodes] + n_exits[left]
        for child in (left, right):  # if it is in the top as well, the next level replaces it
            exits[WORD * (last_word[tree_of] - first[child] // WORD) + first[child] % WORD] = child

    nodes, tree_of = (np.concatenate(parts) for parts in zip(*chosen, strict=True))
    removed_to = first[nodes] + n_exits[children[nodes, 0]]
    found = []  # a node may remove exits from several words
    for word in range(max(_SIZES)):
        begin, end = (np.clip(place - WORD * word, 0, WORD) for place in (first[nodes], removed_to))
        masks = _EVERY_EXIT & ~((1 << end) - (1 << begin))
        some = begin < end
        found.append((last_word[tree_of[some]] - word, nodes[some], masks[some].astype(np.uint32)))
    word_of, nodes, masks = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.argsort(word_of, kind="stable")
    nodes, masks = nodes[order], masks[order]
    return Tops(
        words=words,
        starts=np.append(0, np.cumsum(np.bincount(word_of, minlength=words[-1]))),
        features=features[nodes],
        thresholds=thresholds[nodes],
        masks=masks,
        exits=exits.reshape(-1, WORD),
        values=values[exits].reshape(-1, WORD),
        levels=below,
    )


def _levels(roots: Nodes, children: Nodes) -> tuple[list[Level], NDArray[np.int64]]:
    """Return the inner nodes of each level of all trees, from left to right, and the number of levels of each tree."""
    levels = []
    nodes, tree_of = roots, np.arange(len(roots))
    n_levels = np.zeros(len(roots), dtype=np.int64)
    while True:
        is_inner = children[nodes, 0] != nodes
        inner, tree_of = nodes[is_inner], tree_of[is_inner]
        levels.append((inner, tree_of))
        if len(inner) == 0:
            return levels, n_levels
        n_levels[tree_of] += 1
        nodes, tree_of = children[inner].ravel(), np.repeat(tree_of, 2)


def _sizes(levels: list[Level], n_levels: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the size of the top of each tree that costs least, in words, and the levels that are left below it."""
    counts = np.stack([np.bincount(tree_of, minlength=len(n_levels)) for _, tree_of in levels])
    until = counts.cumsum(axis=0)
    below = np.stack([n_levels - ((until < WORD * size) & (counts > 0)).sum(axis=0) for size in _SIZES])
    sizes = np.array(_SIZES)[:, None]
    n_nodes = np.minimum(until[-1], WORD * sizes - 1)
    cost = n_nodes + _COST_OF_WORD * (n_nodes // WORD + 1) + _COST_OF_LEVEL * below
    best = cost.argmin(axis=0)
    return np.array(_SIZES)[best], np.take_along_axis(below, best[None], axis=0)[0]


def _first_nodes(levels: list[Level], limits: NDArray[np.int64]) -> list[Level]:
    """Return the first inner nodes of each tree, level by level."""
    n_before = np.zeros(len(limits), dtype=np.int64)
    chosen = []
    for nodes, tree_of in levels:
        place = np.arange(len(nodes)) - np.searchsorted(tree_of, tree_of)
        some = n_before[tree_of] + place < limits[tree_of]
        chosen.append((nodes[some], tree_of[some]))
        n_before += np.bincount(tree_of, minlength=len(limits))
    return chosen


def _first_exits(n_vectors: int) -> Any:
    """Return a function that compares some rows with the nodes of a word, and stores the place of each row's exit.

    A place is stored only if an exit of this word remains. The function takes the addresses of the features, thresholds
    and masks of the nodes, and the number of nodes; the address of the rows in the first column, and the distance from
    one column to the next; the place of the word's first exit; and the address of the result. It is written as LLVM
    instructions, so that a row's exits stay in a register until the last node.
    """

    @intrinsic
    def find(
        _context: Any,
        features: Any,
        thresholds: Any,
        masks: Any,
        n: Any,
        columns: Any,
        length: Any,
        place: Any,
        out: Any,
    ) -> Any:
        return types.void(features, thresholds, masks, n, columns, length, types.int32, out), generate

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        whole, bits, number = ir.IntType(64), ir.IntType(32), ir.FloatType()
        numbers, sets = ir.VectorType(number, LANES), ir.VectorType(bits, LANES)
        features, thresholds, masks, n, columns, length, place, out = arguments
        features, masks = (builder.inttoptr(address, bits.as_pointer()) for address in (features, masks))
        thresholds, columns = (
            builder.inttoptr(address, number.as_pointer()) for address in (thresholds, columns)
        )
        every = sets([_EVERY_EXIT] * LANES)
        before = builder.block
        loop, end = builder.append_basic_block(), builder.append_basic_block()
        builder.cbranch(builder.icmp_signed(">", n, whole(0)), loop, end)

        builder.position_at_end(loop)
        i = builder.phi(whole)
        left = [builder.phi(sets) for _ in range(n_vectors)]
        feature, threshold, mask = (
            builder.load(builder.gep(array, [i]), align=4) for array in (features, thresholds, masks)
        )
        column = builder.gep(columns, [builder.mul(builder.zext(feature, whole), length)])
        thresholds, masks = in_all_lanes(builder, numbers, threshold), in_all_lanes(builder, sets, mask)
        kept = []
        for k, own in enumerate(left):
            address = builder.bitcast(builder.gep(column, [whole(LANES * k)]), numbers.as_pointer())
            goes_right = builder.fcmp_ordered(">", builder.load(address, align=4), thresholds)
            kept.append(builder.and_(own, builder.select(goes_right, masks, every)))
        following = builder.add(i, whole(1))
        i.add_incoming(whole(0), before)
        i.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", following, n), loop, end)

        builder.position_at_end(end)
        results = [builder.phi(sets) for _ in left]
        for phis in (left, results):
            for phi, after in zip(phis, kept, strict=True):
                phi.add_incoming(every, before)
                phi.add_incoming(after, loop)
        out = builder.inttoptr(out, sets.as_pointer())
        places = in_all_lanes(builder, sets, place)
        for k, result in enumerate(results):
            address = builder.gep(out, [whole(k)])
            lowest_bit = call_on_lanes(builder, "cttz", sets, result, ir.IntType(1)(0))
            found = builder.add(places, lowest_bit)
            is_left = builder.icmp_unsigned("!=", result, sets([0] * LANES))
            builder.store(builder.select(is_left, found, builder.load(address, align=4)), address, align=4)
        return context.get_dummy_value()

    return find


exits_of_many, exits_of_few = _first_exits(MANY // LANES), _first_exits(1)
