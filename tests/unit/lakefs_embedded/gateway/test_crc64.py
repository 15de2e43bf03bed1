"""The fast CRC equals the plain one, however the bytes are cut."""

from __future__ import annotations

from lakefs_embedded.gateway.crc64 import crc64_nvme

POLYNOMIAL = 0x9A6C9329AC4BC9B5


def plain(data: bytes) -> int:
    register = (1 << 64) - 1
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = (register >> 1) ^ (POLYNOMIAL if register & 1 else 0)
    return register ^ ((1 << 64) - 1)


def test_the_check_value_of_the_specification() -> None:
    assert crc64_nvme(b"123456789") == 0xAE8B14860A799888
    assert crc64_nvme(b"") == 0
