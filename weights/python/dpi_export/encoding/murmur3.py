"""MurmurHash3 of 32 bits, in plain Python."""


def murmur3_32(data, seed=0):
    """MurmurHash3_x86_32, unsigned."""
    mask, h = 0xFFFFFFFF, seed & 0xFFFFFFFF

    def mix(k):
        k = k * 0xCC9E2D51 & mask
        return (k << 15 | k >> 17) * 0x1B873593 & mask

    whole = len(data) & ~3
    for i in range(0, whole, 4):
        h ^= mix(int.from_bytes(data[i:i + 4], "little"))
        h = (h << 13 | h >> 19) & mask
        h = (h * 5 + 0xE6546B64) & mask
    if len(data) > whole:
        h ^= mix(int.from_bytes(data[whole:], "little"))
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & mask
    h = (h ^ h >> 13) * 0xC2B2AE35 & mask
    return h ^ h >> 16
