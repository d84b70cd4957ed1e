"""Quantized LLaMA models in memory that is known beforehand: the C library libcria, without a compiler.

    import cria
    with cria.Model("model.cria") as model:
        print(model.chat("hello"))

docs/python.md has the rest.
"""
from ._errors import BusyError, CancelledError, CriaError, SchemaError
from ._model import Model, run_tools
from ._native import VERSION as __version__
from ._results import Answer, Call, FloatArray, LayerKind, MemoryPlan, ModelInfo, Stream
from ._structs import Status

__all__ = ["Answer", "BusyError", "Call", "CancelledError", "CriaError", "FloatArray", "LayerKind", "MemoryPlan", "Model", "ModelInfo",
           "SchemaError", "Status", "Stream", "run_tools", "__version__"]
