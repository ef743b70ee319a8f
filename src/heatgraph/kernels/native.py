"""The compiled core: the module that was built for this processor's instruction set.

``apply`` and ``quadratic`` work on blocks of ``WIDTH`` columns, ``(n_blocks, n_nodes, WIDTH)``, of
double precision, or of twice as many of single precision, and on numbers of Chebyshev terms that
are multiples of ``TERMS``.  The NumPy lines that they equal are
in ``tests/kernels/test_native.py``.  They release the interpreter's lock, so that threads run them
side by side.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

MISSING = (
    "heatgraph's compiled core is missing. Install a wheel, or a C++17 compiler (Debian: "
    "`apt install g++`, macOS: `xcode-select --install`, Windows: Visual Studio Build Tools) and "
    "run `pip install .` again."
)


def levels() -> dict[int, ModuleType]:
    """The modules that were built and that this processor can run, by x86-64 level."""
    try:
        base = import_module("heatgraph.kernels._native_1")
    except ImportError as error:
        raise ImportError(MISSING) from error
    found = {1: base}
    for level in (3, 4):
        if level <= base.processor_level():
            try:
                found[level] = import_module(f"heatgraph.kernels._native_{level}")
            except ImportError:  # this compiler did not build it
                continue
    return found


LEVEL, _module = max(levels().items(), key=lambda item: item[0])
WIDTH: int = _module.WIDTH
TERMS: int = _module.TERMS
apply = _module.apply
divided_differences = _module.divided_differences
lasso = _module.lasso
minimise_model = _module.minimise_model
quadratic = _module.quadratic
