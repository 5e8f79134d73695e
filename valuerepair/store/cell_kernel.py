"""The loop over a statement's rows, compiled: it calls SQLite by the addresses of its functions.

Addresses are arguments, so that the compiled kernel can be cached: they are others in every process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from valuerepair.board.jit import kernel

# What sqlite3_step and sqlite3_column_type say (https://sqlite.org/c3ref): these numbers never change.
ROW, DONE = 100, 101
_INTEGER, _FLOAT, _NULL = 1, 2, 5
# Beside SQLite's own codes: a cell that is not of the kind asked for.
MISFIT = -1


def _call(result: Any, native: ir.Type, of_column: bool) -> Any:
    """How Numba calls a C function of a statement, or of a statement and the number of a column."""

    def called(address: Any, statement: Any, *column: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
            function = ir.FunctionType(native, [pointer, number] if of_column else [pointer])
            given = [builder.inttoptr(args[1], pointer), *(builder.trunc(arg, number) for arg in args[2:])]
            return builder.call(builder.inttoptr(args[0], function.as_pointer()), given)

        return result(*[types.int64] * (3 if of_column else 2)), codegen

    return called


_step, _kind = _call(types.int32, ir.IntType(32), False), _call(types.int32, ir.IntType(32), True)
_real, _integer = _call(types.float64, ir.DoubleType(), True), _call(types.int64, ir.IntType(64), True)


# Numba takes the number of arguments from these signatures.
def _step_of(typingctx: Any, address: Any, statement: Any) -> Any:
    return _step(address, statement)


def _kind_of(typingctx: Any, address: Any, statement: Any, column: Any) -> Any:
    return _kind(address, statement, column)


def _real_of(typingctx: Any, address: Any, statement: Any, column: Any) -> Any:
    return _real(address, statement, column)


def _integer_of(typingctx: Any, address: Any, statement: Any, column: Any) -> Any:
    return _integer(address, statement, column)


_Step = Callable[[int, int], int]
_Cell = Callable[[int, int, int], int]
step: _Step = cast(Any, intrinsic(_step_of))
kind_of_cell: _Cell = cast(Any, intrinsic(_kind_of))
real_cell: Callable[[int, int, int], float] = cast(Any, intrinsic(_real_of))
integer_cell: _Cell = cast(Any, intrinsic(_integer_of))


@kernel
def read_floats(addresses: NDArray[np.int64], statement: int, cells: NDArray[np.float64]) -> tuple[int, int]:
    """Steps through a statement until `cells` [columns, rows] are full: NaN for NULL.

    `addresses` [4] are those of sqlite3_step, _column_type, _column_double and _column_int64. Gives the number of rows
    filled, and the last code of step, or `MISFIT`.
    """
    for row in range(cells.shape[1]):
        code = step(addresses[0], statement)
        if code != ROW:
            return row, code
        for column in range(cells.shape[0]):
            kind = kind_of_cell(addresses[1], statement, column)
            if kind == _NULL:
                cells[column, row] = np.nan
            elif kind in (_FLOAT, _INTEGER):
                cells[column, row] = real_cell(addresses[2], statement, column)
            else:
                return row, MISFIT
    return cells.shape[1], ROW


@kernel
def read_integers(addresses: NDArray[np.int64], statement: int, cells: NDArray[np.int64]) -> tuple[int, int]:
    """`read_floats` of whole numbers, none of which may be missing."""
    for row in range(cells.shape[1]):
        code = step(addresses[0], statement)
        if code != ROW:
            return row, code
        for column in range(cells.shape[0]):
            if kind_of_cell(addresses[1], statement, column) != _INTEGER:
                return row, MISFIT
            cells[column, row] = integer_cell(addresses[3], statement, column)
    return cells.shape[1], ROW
