"""Have the processor fetch a row of a large matrix before it is needed.

Training reads rows at random places, and each of them would be waited for in turn.
"""

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np import arrayobj
from numpy.typing import NDArray

from dplan._kernels.compile import compiled_into_caller

_arrays: Any = arrayobj
_CACHE_LINE = 64  # bytes; where lines are longer, some are fetched twice, which is harmless


@compiled_into_caller
def fetch_row(rows: NDArray[Any], row: int) -> None:
    """Begin to fetch a row of a C-contiguous matrix; the place is not checked, and a wrong one does no harm."""
    for column in range(0, rows.shape[1], _CACHE_LINE // rows.itemsize):
        _fetch(rows, row, column)


def _fetch_one(_context: Any, rows: Any, row: Any, column: Any) -> Any:
    """Begin to fetch the cache line that contains a cell."""
    return types.void(rows, types.intp, types.intp), _generate


def _generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    rows, row, column = arguments
    matrix = _arrays.make_array(signature.args[0])(context, builder, rows)
    n_columns = builder.extract_value(matrix.shape, 1)
    cell = builder.gep(matrix.data, [builder.add(builder.mul(row, n_columns), column)])
    address = builder.bitcast(cell, ir.IntType(8).as_pointer())
    number = ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
    name = "llvm.prefetch." + ("p0" if str(address.type) == "ptr" else "p0i8")
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    builder.call(
        function, [address, number(0), number(3), number(1)]
    )  # for reading, into the nearest cache, data
    return context.get_dummy_value()


# It is called in kernels only, and numba adds the first argument.
_fetch = cast(Callable[[NDArray[Any], int, int], None], intrinsic(_fetch_one))
