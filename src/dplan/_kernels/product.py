"""Forward passes for scoring, with sums in a fixed order, many at a time: the innermost loop of all scoring.

The score of a row must not depend on the other rows. BLAS does not guarantee that: the order of its sums depends on the
shape of the product, on the position of the row and on the processor. So scoring multiplies here instead. Each result
is one sum over the columns, from first to last,

    sum = round(sum + a_i · b_i)   for i = 0, 1, …

with one rounding per column (a fused multiply-add). The lanes of a vector register contain different *results*, never
parts of one sum, and rows that are processed together only share what is loaded. This is written as LLVM instructions
without fast-math flags: IEEE 754 defines their result to the last bit, and no compiler pass may reorder them. A row
therefore has the same result alone and in any block, at any position, in any thread, and on every processor with fused
multiply-add (x86-64 since 2013, all arm64), with any BLAS library. Older processors round the product and the sum
separately: their last bits differ, but are still the same for a row among any other rows.

These networks are so narrow that this is as fast as OpenBLAS; `make bench` shows the ratio.
Training uses `dplan._kernels.perceptron`, which multiplies with BLAS and may round differently.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from dplan._kernels.compile import compiled_exactly
from dplan._kernels.perceptron import Sizes, biases, kernel
from dplan.arrays import Float32s

LANES = 16  # results that are summed at the same time: a register of AVX-512, two of AVX2, four of NEON

NO_SHIFT, NO_FLOOR = np.zeros(LANES, dtype=np.float32), np.float32(-np.inf)


def tile(n_left: int, nearest: bool = False) -> Any:
    """Return a function that sums over i, for some rows of `left` and for all lanes of `right`.

    The sums are of ``left[r, i] * right[i, lane]``, start at ``shift[lane]`` and are clipped below at `floor`. With
    `nearest`, they are of ``(left[r, i] - right[i, lane])**2`` instead, and of these and the result so far, only the
    smallest is kept. The function takes the address of `left` and the length of its rows; the address of `right`
    (n, LANES), and n; the address of `shift`; `floor`; and the address of the result, which is (n_left, LANES), or
    (LANES) with `nearest`, and the length of its rows. All values are float32.
    """

    @intrinsic
    def add_up(
        _context: Any,
        left: Any,
        left_length: Any,
        right: Any,
        n: Any,
        shift: Any,
        floor: Any,
        out: Any,
        out_length: Any,
    ) -> Any:
        return types.void(left, left_length, right, n, shift, types.float32, out, out_length), generate

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        number, whole = ir.FloatType(), ir.IntType(64)
        vector = ir.VectorType(number, LANES)
        left, left_length, right, n, shift, floor, out, out_length = arguments
        left, out = (builder.inttoptr(address, number.as_pointer()) for address in (left, out))
        right, shift = (builder.inttoptr(address, vector.as_pointer()) for address in (right, shift))
        rows = [builder.gep(left, [builder.mul(left_length, whole(r))]) for r in range(n_left)]
        first = builder.load(shift, align=4)
        floors = in_all_lanes(builder, vector, floor)
        before = builder.block
        loop, end = builder.append_basic_block(), builder.append_basic_block()
        builder.cbranch(builder.icmp_signed(">", n, whole(0)), loop, end)

        builder.position_at_end(loop)
        i = builder.phi(whole)
        sums = [builder.phi(vector) for _ in rows]
        b = builder.load(builder.gep(right, [i]), align=4)
        added = []
        for row, total in zip(rows, sums, strict=True):
            a = in_all_lanes(builder, vector, builder.load(builder.gep(row, [i]), align=4))
            factors = (builder.fsub(b, a),) * 2 if nearest else (a, b)
            added.append(_multiply_add(builder, *factors, total))
        following = builder.add(i, whole(1))
        i.add_incoming(whole(0), before)
        i.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", following, n), loop, end)

        builder.position_at_end(end)
        results = [builder.phi(vector) for _ in rows]
        for phis in (sums, results):
            for phi, after in zip(phis, added, strict=True):
                phi.add_incoming(first, before)
                phi.add_incoming(after, loop)
        if nearest:
            place = builder.bitcast(out, vector.as_pointer())
            lowest = builder.load(place, align=4)
            for result in results:
                lowest = builder.select(builder.fcmp_ordered("<", result, lowest), result, lowest)
            builder.store(lowest, place, align=4)
            return context.get_dummy_value()
        for r, result in enumerate(results):
            # Written so that NaN stays NaN: a diverged network must not look like a dead one.
            raised = builder.select(builder.fcmp_ordered("<", result, floors), floors, result)
            place = builder.gep(out, [builder.mul(out_length, whole(r))])
            builder.store(raised, builder.bitcast(place, vector.as_pointer()), align=4)
        return context.get_dummy_value()

    return add_up


def in_all_lanes(builder: Any, vector: Any, value: Any) -> Any:
    """Return a vector of one value."""
    undefined, index = ir.Constant(vector, ir.Undefined), ir.IntType(32)
    first = builder.insert_element(undefined, value, index(0))
    return builder.shuffle_vector(first, undefined, ir.VectorType(index, LANES)([0] * LANES))


def rounds_once() -> bool:
    """Return whether the processor has fused multiply-add; in software, it would be a hundred times slower."""
    triple, features = _target()
    return not triple.startswith("x86_64") or "+fma" in features


def has_wide_registers() -> bool:
    """Return whether all lanes fit into one register, so that there are registers for eight rows of `left`."""
    return "+avx512f" in _target()[1]


def _target() -> tuple[str, list[str]]:
    triple, _, features = cpu_target.target_context.codegen().magic_tuple()
    return triple, features.split(",")


def _multiply_add(builder: Any, first: Any, second: Any, total: Any) -> Any:
    if not rounds_once():
        return builder.fadd(total, builder.fmul(first, second))
    return call_on_lanes(builder, "fma", total.type, first, second, total)


def call_on_lanes(builder: Any, name: str, vector: Any, *arguments: Any) -> Any:
    """Call an LLVM intrinsic that returns a vector."""
    full_name = f"llvm.{name}.v{LANES}{vector.element.intrinsic_name}"
    kinds = [argument.type for argument in arguments]
    function = builder.module.globals.get(full_name) or ir.Function(
        builder.module, ir.FunctionType(vector, kinds), full_name
    )
    return builder.call(function, arguments)


_ROWS = 6  # with LANES sums each, these fill the registers of AVX2 and those of NEON

_many_rows, _one_row = tile(_ROWS), tile(1)


def outputs(theta: Float32s, sizes: Sizes, rows: Float32s) -> Float32s:
    """Return a network's outputs, like `perceptron.outputs` except for rounding.

    Examples
    --------
    >>> from dplan._kernels import perceptron
    >>> sizes, rng = perceptron.layer_sizes(3, (2,), 1), np.random.default_rng(0)
    >>> theta, rows = perceptron.glorot_uniform(sizes, rng), rng.random((100, 3), dtype=np.float32)
    >>> bool((outputs(theta, sizes, rows)[7] == outputs(theta, sizes, rows[7:8])[0]).all())
    True
    """
    return propagate(theta, sizes, np.ascontiguousarray(rows), len(sizes) - 2)


def represent(theta: Float32s, sizes: Sizes, rows: Float32s) -> Float32s:
    """Return the outputs after ReLU, for networks whose last layer is the learned representation."""
    return propagate(theta, sizes, np.ascontiguousarray(rows), len(sizes) - 1)


def affine(rows: Float32s, weights: Float32s, shift: Float32s) -> Float32s:
    """Return ``rows @ weights + shift``.

    Examples
    --------
    >>> rows, weights = np.eye(2, dtype=np.float32), np.array([[1], [2]], dtype=np.float32)
    >>> affine(rows, weights, np.array([10], dtype=np.float32)).tolist()
    [[11.0], [12.0]]
    """
    theta = np.concatenate([weights.ravel(), shift])
    return propagate(theta, np.array(weights.shape), np.ascontiguousarray(rows), 0)


@compiled_exactly
def propagate(theta: Float32s, sizes: Sizes, rows: Float32s, n_rectified: int) -> Float32s:
    """Return the output of the last layer; the first `n_rectified` layers use ReLU. Rows must be contiguous."""
    n_rows = len(rows)
    for layer in range(len(sizes) - 1):
        weights, shift = kernel(theta, sizes, layer), biases(theta, sizes, layer)
        length, (n_inputs, n_units) = rows.shape[1], weights.shape  # rows are padded after the first layer
        if length < n_inputs:
            raise ValueError("rows have fewer columns than the network has inputs")
        # The weights of LANES units at a time, and then their biases, each padded with zeros.
        n_panels = (n_units + LANES - 1) // LANES
        panels = np.zeros((n_panels * (n_inputs + 1), LANES), dtype=np.float32)
        for unit in range(n_units):
            first, lane = unit // LANES * (n_inputs + 1), unit % LANES
            for i in range(n_inputs):
                panels[first + i, lane] = weights[i, unit]
            panels[first + n_inputs, lane] = shift[unit]
        out = np.empty((n_rows, n_panels * LANES), dtype=np.float32)
        floor = np.float32(0 if layer < n_rectified else -np.inf)
        start = 0
        while start < n_rows:
            left, many = rows.ctypes.data + 4 * start * length, start + _ROWS <= n_rows
            for panel in range(n_panels):
                right = panels.ctypes.data + 4 * LANES * panel * (n_inputs + 1)
                own_shift = right + 4 * LANES * n_inputs
                place = out.ctypes.data + 4 * LANES * (start * n_panels + panel)
                if many:
                    _many_rows(left, length, right, n_inputs, own_shift, floor, place, n_panels * LANES)
                else:
                    _one_row(left, length, right, n_inputs, own_shift, floor, place, n_panels * LANES)
            start += _ROWS if many else 1
        rows = out
    return rows[:, : sizes[-1]]
