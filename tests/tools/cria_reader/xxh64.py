"""XXH64 with seed 0, from its specification."""
import struct

MASK = (1 << 64) - 1
P1, P2, P3, P4, P5 = (11400714785074694791, 14029467366897019727, 1609587929392839161, 9650029242287828579,
                      2870177450012600261)
STRIPE = 32


def rotate(x, n):
    return ((x << n) | (x >> (64 - n))) & MASK


def mix(lane, value):
    return rotate((lane + value * P2) & MASK, 31) * P1 & MASK


def stripes(data):
    """The four lanes over all whole stripes. Written out, because everything that is read goes through here."""
    a, b, c, d = (P1 + P2) & MASK, P2, 0, -P1 & MASK
    p1, p2, mask = P1, P2, MASK
    for w, x, y, z in struct.iter_unpack("<4Q", data):
        a = (a + w * p2) & mask
        b = (b + x * p2) & mask
        c = (c + y * p2) & mask
        d = (d + z * p2) & mask
        a = ((a << 31) | (a >> 33)) * p1 & mask
        b = ((b << 31) | (b >> 33)) * p1 & mask
        c = ((c << 31) | (c >> 33)) * p1 & mask
        d = ((d << 31) | (d >> 33)) * p1 & mask
    return a, b, c, d


def xxh64(data):
    data = bytes(data)
    n = len(data)
    at = n - n % STRIPE
    if at:
        lanes = stripes(data[:at])
        h = sum(rotate(lane, r) for lane, r in zip(lanes, (1, 7, 12, 18))) & MASK
        for lane in lanes:
            h = ((h ^ mix(0, lane)) * P1 + P4) & MASK
    else:
        h = P5
    h = (h + n) & MASK
    while at + 8 <= n:
        h = (rotate(h ^ mix(0, struct.unpack_from("<Q", data, at)[0]), 27) * P1 + P4) & MASK
        at += 8
    if at + 4 <= n:
        h = (rotate(h ^ (struct.unpack_from("<I", data, at)[0] * P1 & MASK), 23) * P2 + P3) & MASK
        at += 4
    for byte in data[at:]:
        h = rotate(h ^ (byte * P5 & MASK), 11) * P1 & MASK
    h = (h ^ (h >> 33)) * P2 & MASK
    h = (h ^ (h >> 29)) * P3 & MASK
    return h ^ (h >> 32)
