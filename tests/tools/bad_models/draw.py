"""Drawn numbers that are the same under every Python: random() and getrandbits() are the Mersenne twister's own, and what is
made of them is written here, because the rest of the module random may change."""
import random


class Draw:
    def __init__(self, seed):
        words = random.Random(seed)
        self.random, self.bits = words.random, words.getrandbits

    def uniform(self, low, high):
        return low + (high - low) * self.random()

    def randint(self, low, high):
        n = high - low + 1
        drawn = self.bits(n.bit_length())
        while drawn >= n:
            drawn = self.bits(n.bit_length())
        return low + drawn

    def randbytes(self, n):
        return self.bits(8 * n).to_bytes(n, "little")
