"""Views of arrays that compile in no time: NumPy's slices and `reshape` bring checks that take longer than a kernel."""

from typing import Any

from numba import types
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic
from numba.np import arrayobj


@intrinsic
def matrix(_context: Any, array: Any, start: Any, n_rows: Any, n_columns: Any) -> Any:
    """Return elements of a C-contiguous array as a matrix, from a place in the flat array; nothing is checked."""
    view = types.Array(array.dtype, 2, "C", readonly=not array.mutable)
    return view(array, types.intp, types.intp, types.intp), _matrix


def _matrix(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array, start, n_rows, n_columns = arguments
    whole = arrayobj.make_array(signature.args[0])(context, builder, array)
    view = arrayobj.make_array(signature.return_type)(context, builder)
    arrayobj.populate_array(
        view,
        data=builder.gep(whole.data, [start]),
        shape=[n_rows, n_columns],
        strides=[builder.mul(n_columns, whole.itemsize), whole.itemsize],
        itemsize=whole.itemsize,
        meminfo=whole.meminfo,
    )
    return impl_ret_borrowed(context, builder, signature.return_type, view._getvalue())
