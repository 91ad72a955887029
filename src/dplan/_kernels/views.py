"""Views of arrays that compile soon: the checks in NumPy's slices and `reshape` take longer to compile than a loop."""

from collections.abc import Callable
from typing import Any, cast

from numba import types
from numba.core import imputils
from numba.core.errors import TypingError
from numba.extending import intrinsic
from numba.np import arrayobj
from numpy.typing import NDArray

_arrays: Any = arrayobj
_results: Any = imputils


def _matrix(_context: Any, array: Any, start: Any, n_rows: Any, n_columns: Any) -> Any:
    """Return elements of a C-contiguous array as a matrix, from a place in the flat array; places are not checked."""
    if array.layout != "C":
        raise TypingError(f"a C-contiguous array is needed, not {array}")
    view: Any = types.Array(array.dtype, 2, "C", readonly=not array.mutable)
    return view(array, types.intp, types.intp, types.intp), _generate


def _generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array, start, n_rows, n_columns = arguments
    whole = _arrays.make_array(signature.args[0])(context, builder, array)
    view = _arrays.make_array(signature.return_type)(context, builder)
    _arrays.populate_array(
        view,
        data=builder.gep(whole.data, [start]),
        shape=[n_rows, n_columns],
        strides=[builder.mul(n_columns, whole.itemsize), whole.itemsize],
        itemsize=whole.itemsize,
        meminfo=whole.meminfo,
    )
    return _results.impl_ret_borrowed(context, builder, signature.return_type, view._getvalue())


# It is called in kernels only, and numba adds the first argument.
matrix = cast(Callable[[NDArray[Any], int, int, int], NDArray[Any]], intrinsic(_matrix))
