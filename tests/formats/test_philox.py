"""Known answers of Philox-4x32-10, and which word each element takes."""

from __future__ import annotations

import pytest

from mixprec.formats import philox_4x32_10, random_bits

ONES = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [  # Random123's kat_vectors
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ONES, ONES, ONES, ONES), (ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_known_answers(counter: tuple[int, int, int, int], key: tuple[int, int], answer: tuple[int, int, int, int]):
    assert philox_4x32_10(counter, key) == answer


@pytest.mark.parametrize(
    ("index", "block", "word"),
    [(0, 0, 0), (7, 7, 0), (8, 0, 1), (31, 7, 3), (32, 8, 0), (41, 9, 1), (2**40 + 5, 2**38 + 5, 0)],
)
def test_an_element_takes_its_word(index: int, block: int, word: int):
    seed, offset = 0x0123456789ABCDEF, 0xFEDCBA9876543210
    counter = (block & ONES, block >> 32, 0x76543210, 0xFEDCBA98)
    assert random_bits(seed, offset, index) == philox_4x32_10(counter, (0x89ABCDEF, 0x01234567))[word]


def test_no_two_elements_share_bits():
    assert len({random_bits(1, 2, index) for index in range(4096)}) >= 4095


def test_a_negative_seed_is_its_twos_complement():
    assert random_bits(-1, -2, 3) == random_bits(2**64 - 1, 2**64 - 2, 3)


def test_a_negative_index_is_refused():
    with pytest.raises(ValueError, match="index is -1"):
        random_bits(0, 0, -1)
