"""Several numbers at a time, for compiled code: what a vector register of the machine holds.

Left to itself, the compiler turns a loop over eight numbers into eight operations.  Here they are
one value: taken from an array, multiplied, added, put back.  Only for code compiled by Numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, models, overload, register_model
from numpy.typing import NDArray

__all__ = [
    "above",
    "aligned",
    "fill",
    "lanes",
    "larger",
    "largest",
    "load",
    "load_row",
    "magnitude",
    "minus",
    "minus_scaled",
    "pick",
    "plus",
    "plus_product",
    "plus_scaled",
    "store",
    "total",
]

REGISTER = 64  # bytes of a register; where the machine has shorter ones it takes two or four
# The product of an addition is not rounded first where the machine can do both at once.
FREE = ("contract", "reassoc", "nsz")


def lanes(dtype: np.dtype[Any]) -> int:
    """How many numbers of a type are worked on at once; a constant in compiled code."""
    return REGISTER // dtype.itemsize


def aligned(size: int, dtype: Any) -> NDArray[Any]:
    """Memory for numbers, from an address on that registers are filled from at once."""
    extra = lanes(np.dtype(dtype))
    memory = np.empty(size + extra, dtype)
    start = -memory.ctypes.data % REGISTER // memory.itemsize
    return memory[start : start + size]


@overload(lanes, inline="always", strict=False)
def _lanes(dtype: Any) -> Callable[..., int]:
    count = lanes(np.dtype(str(dtype.dtype)))
    return lambda dtype: count


# What is defined for the compiler takes one argument less than its definition.
_defined: Callable[[Callable[..., Any]], Callable[..., Any]] = intrinsic


class Lanes(types.Type):
    """As many numbers of one type as are worked on at once."""

    def __init__(self, dtype: types.Float) -> None:
        self.dtype = dtype
        self.count = lanes(np.dtype(str(dtype)))
        super().__init__(name=f"Lanes({dtype})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Lanes) -> None:
        element = manager.lookup(kind.dtype).get_value_type()
        super().__init__(manager, kind, ir.VectorType(element, kind.count))  # type: ignore[no-untyped-call]


def _place(context: Any, builder: Any, kind: Any, array: Any, start: Any) -> Any:
    """The address of the numbers of an array from ``start`` on."""
    data = context.make_array(kind)(context, builder, array).data
    vector = context.get_value_type(Lanes(kind.dtype))
    return builder.bitcast(builder.gep(data, [start]), vector.as_pointer())


def _start(context: Any, builder: Any, kind: Any, start: Any) -> Any:
    return context.cast(builder, start, kind, types.intp)


def _is_flat(kind: Any) -> bool:
    return isinstance(kind, types.Array) and kind.ndim == 1 and kind.layout == "C"


@_defined
def load(typing: Any, array: Any, start: Any) -> Any:
    """``array[start:start + lanes(array.dtype)]`` of a contiguous array."""
    if not (_is_flat(array) and isinstance(start, types.Integer)):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        at = _start(context, builder, signature.args[1], arguments[1])
        place = _place(context, builder, signature.args[0], arguments[0], at)
        return builder.load(place, align=np.dtype(str(array.dtype)).itemsize)

    return Lanes(array.dtype)(array, start), generate


@_defined
def load_row(typing: Any, array: Any, row: Any, start: Any) -> Any:
    """``array[row, start:start + lanes(array.dtype)]`` of a contiguous array of two dimensions."""
    if not (isinstance(array, types.Array) and array.ndim == 2 and array.layout == "C"):
        return None
    if not (isinstance(row, types.Integer) and isinstance(start, types.Integer)):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        row, start = (_start(context, builder, signature.args[k], arguments[k]) for k in (1, 2))
        shape = context.make_array(kind)(context, builder, arguments[0]).shape
        at = builder.add(builder.mul(row, builder.extract_value(shape, 1)), start)
        place = _place(context, builder, kind, arguments[0], at)
        return builder.load(place, align=np.dtype(str(array.dtype)).itemsize)

    return Lanes(array.dtype)(array, row, start), generate


@_defined
def pick(typing: Any, array: Any, index: Any) -> Any:
    """``array[index]`` of a contiguous array, where the index is not negative."""
    if not (_is_flat(array) and isinstance(index, types.Integer)):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        at = _start(context, builder, signature.args[1], arguments[1])
        return builder.load(builder.gep(data, [at]))

    return array.dtype(array, index), generate


@_defined
def store(typing: Any, array: Any, start: Any, x: Any) -> Any:
    """``array[start:start + lanes(array.dtype)] = x``."""
    if not (_is_flat(array) and array.mutable and x == Lanes(array.dtype)):
        return None
    if not isinstance(start, types.Integer):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        at = _start(context, builder, signature.args[1], arguments[1])
        place = _place(context, builder, signature.args[0], arguments[0], at)
        builder.store(arguments[2], place, align=np.dtype(str(array.dtype)).itemsize)
        return context.get_dummy_value()

    return types.void(array, start, x), generate


def _spread(builder: Any, scalar: Any, kind: Any) -> Any:
    """A number in every lane of a vector."""
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.IntType(32)(0))
    of_first = ir.Constant(ir.VectorType(ir.IntType(32), kind.count), [0] * kind.count)
    return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), of_first)


@_defined
def fill(typing: Any, value: Any) -> Any:
    """A number in every lane."""
    if not isinstance(value, types.Float):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _spread(builder, arguments[0], context.get_value_type(signature.return_type))

    return Lanes(value)(value), generate


@_defined
def plus_scaled(typing: Any, x: Any, factor: Any, y: Any) -> Any:
    """``x + factor y``."""
    if not (isinstance(x, Lanes) and y == x and factor == x.dtype):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        scaled = builder.fmul(
            _spread(builder, arguments[1], arguments[2].type), arguments[2], flags=FREE
        )
        return builder.fadd(arguments[0], scaled, flags=FREE)

    return x(x, factor, y), generate


@_defined
def minus_scaled(typing: Any, x: Any, factor: Any, y: Any) -> Any:
    """``x - factor y``, in the order in which it is written."""
    if not (isinstance(x, Lanes) and y == x and factor == x.dtype):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        factors = _spread(builder, arguments[1], arguments[2].type)
        scaled = builder.fmul(factors, arguments[2], flags=("contract",))
        return builder.fsub(arguments[0], scaled, flags=("contract",))

    return x(x, factor, y), generate


@_defined
def plus_product(typing: Any, x: Any, y: Any, z: Any) -> Any:
    """``x + y z``, lane by lane."""
    if not (isinstance(x, Lanes) and x == y == z):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        product = builder.fmul(arguments[1], arguments[2], flags=FREE)
        return builder.fadd(arguments[0], product, flags=FREE)

    return x(x, y, z), generate


def _by(operation: str) -> Callable[..., Any]:
    def define(typing: Any, x: Any, y: Any) -> Any:
        if not (isinstance(x, Lanes) and x == y):
            return None

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return getattr(builder, operation)(*arguments, flags=FREE)

        return x(x, y), generate

    return define


plus = _defined(_by("fadd"))
minus = _defined(_by("fsub"))


def _greater(builder: Any, x: Any, y: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", x, y), x, y)


@_defined
def larger(typing: Any, x: Any, y: Any) -> Any:
    """The larger of two, lane by lane."""
    if not (isinstance(x, Lanes) and x == y):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _greater(builder, *arguments)

    return x(x, y), generate


@_defined
def magnitude(typing: Any, x: Any) -> Any:
    """``|x|``, lane by lane."""
    if not isinstance(x, Lanes):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = arguments[0].type
        bits = ir.VectorType(ir.IntType(x.dtype.bitwidth), x.count)
        all_but_sign = ir.Constant(bits, [2 ** (x.dtype.bitwidth - 1) - 1] * x.count)
        return builder.bitcast(
            builder.and_(builder.bitcast(arguments[0], bits), all_but_sign), vector
        )

    return x(x), generate


@_defined
def above(typing: Any, x: Any, y: Any) -> Any:
    """Where ``|x| > y``: a bit for every lane, the first one lowest."""
    if not (isinstance(x, Lanes) and x == y):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        over = builder.fcmp_ordered(">", arguments[0], arguments[1])
        under = builder.fcmp_ordered(">", builder.fneg(arguments[0]), arguments[1])
        exceeds = builder.or_(over, under)
        bits = builder.bitcast(exceeds, ir.IntType(x.count))
        return builder.zext(bits, context.get_value_type(types.intp))

    return types.intp(x, y), generate


def _some(builder: Any, vector: Any, start: int, count: int) -> Any:
    """A few of the lanes."""
    which = ir.Constant(ir.VectorType(ir.IntType(32), count), list(range(start, start + count)))
    return builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), which)


def _by_halves(x: Any, join: Callable[[Any, Any, Any], Any]) -> Any:
    """One number of all: the first half joined with the other, and so on."""
    if not isinstance(x, Lanes):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = arguments[0]
        for half in (2**k for k in reversed(range(x.count.bit_length() - 1))):
            first, second = (_some(builder, whole, start, half) for start in (0, half))
            whole = join(builder, first, second)
        return builder.extract_element(whole, ir.IntType(32)(0))

    return x.dtype(x), generate


@_defined
def total(typing: Any, x: Any) -> Any:
    """The sum of the lanes."""
    return _by_halves(x, lambda builder, a, b: builder.fadd(a, b, flags=FREE))


@_defined
def largest(typing: Any, x: Any) -> Any:
    """The largest of the lanes."""
    return _by_halves(x, _greater)
