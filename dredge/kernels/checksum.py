"""CRC-32C as tables store it: by the processor's instruction where it has one, else by eight lookups a word."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import Any

import llvmlite.binding  # type: ignore[import-untyped]
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from dredge.kernels.compiling import U64, jit
from dredge.kernels.memory import load8, load64

_HAS_CRC = bool(llvmlite.binding.get_host_cpu_features().get("sse4.2", False))


if _HAS_CRC:

    def _crc_intrinsic(name: str, crc_bits: int, data_bits: int) -> Any:
        def crc(_typing: Any, state: Any, data: Any) -> Any:
            def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
                state_type, data_type = ir.IntType(crc_bits), ir.IntType(data_bits)
                kind = ir.FunctionType(state_type, [state_type, data_type])
                function = builder.module.declare_intrinsic(name, fnty=kind)
                before = builder.trunc(arguments[0], state_type) if crc_bits < 64 else arguments[0]
                piece = builder.trunc(arguments[1], data_type) if data_bits < 64 else arguments[1]
                after = builder.call(function, [before, piece])
                return builder.zext(after, ir.IntType(64)) if crc_bits < 64 else after

            return types.uint64(types.uint64, types.uint64), generate

        return intrinsic(crc)

    _crc_word = _crc_intrinsic("llvm.x86.sse42.crc32.64.64", 64, 64)
    _crc_byte = _crc_intrinsic("llvm.x86.sse42.crc32.32.8", 32, 8)
else:

    def _crc_tables() -> Any:
        tables = np.zeros((8, 256), np.uint64)
        for index in range(256):
            value = index
            for _ in range(8):
                value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
            tables[0, index] = value
        for index in range(256):
            for row in range(1, 8):
                value = int(tables[row - 1, index])
                tables[row, index] = (value >> 8) ^ int(tables[0, value & 255])
        return tables

    _TABLES = _crc_tables()

    @jit
    def _crc_word(crc, word):
        word ^= crc
        result = U64(0)
        for at in range(8):
            result ^= _TABLES[7 - at, (word >> U64(8 * at)) & U64(255)]
        return result

    @jit
    def _crc_byte(crc, byte):
        return (crc >> U64(8)) ^ _TABLES[0, (crc ^ byte) & U64(255)]


@jit
def masked_crc(address, length):
    """The checksum of a block as it is stored: of its bytes and the type byte behind them."""
    crc = U64(0xFFFFFFFF)
    whole = length & ~7
    for at in range(0, whole, 8):
        crc = _crc_word(crc, load64(address + at))
    for at in range(whole, length):
        crc = _crc_byte(crc, U64(load8(address + at)))
    crc ^= U64(0xFFFFFFFF)
    return (((crc >> U64(15)) | (crc << U64(17))) + U64(0xA282EAD8)) & U64(0xFFFFFFFF)
