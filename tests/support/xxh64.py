"""XXH64 in plain Python, slow and independent: what the compiled hashes are held against."""

from __future__ import annotations


def xxh64(data: bytes, seed: int) -> int:
    """XXH64 from its specification, number by number."""
    mask = (1 << 64) - 1
    p1, p2, p3, p4, p5 = (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )

    def rotate(x: int, r: int) -> int:
        return (x << r | x >> (64 - r)) & mask

    def step(acc: int, lane: int) -> int:
        return rotate((acc + lane * p2) & mask, 31) * p1 & mask

    at, size = 0, len(data)
    if size >= 32:
        lanes = [(seed + p1 + p2) & mask, (seed + p2) & mask, seed, (seed - p1) & mask]
        while at + 32 <= size:
            for i in range(4):
                lanes[i] = step(lanes[i], int.from_bytes(data[at : at + 8], "little"))
                at += 8
        acc = sum(rotate(lane, r) for lane, r in zip(lanes, (1, 7, 12, 18), strict=True)) & mask
        for lane in lanes:
            acc = ((acc ^ step(0, lane)) * p1 + p4) & mask
    else:
        acc = (seed + p5) & mask
    acc = (acc + size) & mask
    while at + 8 <= size:
        acc = (rotate(acc ^ step(0, int.from_bytes(data[at : at + 8], "little")), 27) * p1 + p4) & mask
        at += 8
    if at + 4 <= size:
        acc = (rotate(acc ^ int.from_bytes(data[at : at + 4], "little") * p1 & mask, 23) * p2 + p3) & mask
        at += 4
    for byte in data[at:]:
        acc = rotate(acc ^ byte * p5 & mask, 11) * p1 & mask
    acc = (acc ^ acc >> 33) * p2 & mask
    acc = (acc ^ acc >> 29) * p3 & mask
    return acc ^ acc >> 32


def content_hash(size: int, etag: str) -> int:
    """The hash of an object's content: of its ETag, with its size as the seed."""
    return xxh64(etag.encode(), size % (1 << 64))
