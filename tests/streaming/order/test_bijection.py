import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.streaming.order import bijection
from headrace.streaming.order.bijection import MAX_SIZE, mix, permute, unpermute


@given(st.integers(1, 3000), st.integers(0, 2**64 - 1))
def test_every_element_is_reached_once(size, key):
    assert np.array_equal(np.sort(permute(np.arange(size), size, key)), np.arange(size))


@pytest.mark.medium
@given(st.lists(st.tuples(st.integers(0, 99), st.integers(100, MAX_SIZE), st.integers(0, 2**64 - 1)), min_size=1))
def test_elements_of_many_domains_at_once_are_as_if_asked_alone(rows):
    index, size, key = (np.array(column, np.uint64) for column in zip(*rows, strict=True))
    together = permute(index, size, key)
    assert together.tolist() == [int(permute(*row)) for row in rows]
    assert (together >= 0).all()
    assert (together < size).all()


@given(st.lists(st.tuples(st.integers(1, MAX_SIZE), st.floats(0, 0.999), st.integers(0, 2**64 - 1)), min_size=1))
def test_the_index_of_an_image_is_found_without_enumeration(rows):
    sizes = np.array([size for size, _, _ in rows])
    index = np.array([int(size * part) for size, part, _ in rows])
    keys = np.array([key for _, _, key in rows], np.uint64)
    assert unpermute(permute(index, sizes, keys), sizes, keys).tolist() == index.tolist()


@pytest.mark.parametrize("size", [1, 2, 3, 63, 64, 65, 5000])
def test_the_inverse_of_a_whole_domain_is_exact_also_where_small_domains_end(size):
    assert unpermute(permute(np.arange(size), size, 7), size, 7).tolist() == list(range(size))


def test_a_domain_of_a_million_is_permuted_across_the_chunks_it_is_computed_in():
    image = permute(np.arange(1_000_000), 1_000_000, 7)
    assert np.array_equal(np.bincount(image), np.ones(1_000_000))


@pytest.mark.parametrize(
    ("size", "images"),
    [
        (63, [51, 53, 8, 26, 3, 5]),
        (64, [20, 41, 40, 25, 39, 21]),
        (65, [62, 49, 55, 1, 39, 33]),
        (MAX_SIZE, [2775535202302820, 2514498594084686, 162400037086262, 4262613350167486, 4288062146165880]),
    ],
)
def test_images_are_those_of_all_versions_also_where_small_domains_end(size, images):
    assert permute(np.arange(len(images)), size, 7).tolist() == images


def test_the_largest_domain_is_permuted_exactly_at_its_end():
    assert MAX_SIZE == 2**52
    ends = np.concatenate([np.arange(3), np.arange(MAX_SIZE - 3, MAX_SIZE)])
    images = permute(ends, MAX_SIZE, 7)
    assert len(set(images.tolist())) == 6
    assert ((images >= 0) & (images < MAX_SIZE)).all()


@pytest.mark.parametrize("key", [7, np.array([], np.uint64)])
def test_an_empty_domain_has_no_images_and_gives_no_warning(key):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert permute(np.arange(0), 0, key).tolist() == []


@pytest.mark.parametrize(("size", "num_computed"), [(1, 1), (2, 1), (63, 1), (64, 2)])
def test_orders_of_fewer_than_64_elements_are_computed_once(monkeypatch, size, num_computed):
    computed, compute = [], bijection._permute_part
    monkeypatch.setattr(bijection, "_permute_part", lambda *values: computed.append(values) or compute(*values))
    bijection._small_table.cache_clear()
    first, second = permute(np.arange(size), size, 7), permute(np.arange(size), size, 7)
    assert first.tolist() == second.tolist()
    assert len(computed) == num_computed


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_small_domains_take_all_their_orders_alike_often(size):
    keys = mix(11, np.arange(50_000))
    images = permute(np.arange(size), size, keys[:, None])
    _, counts = np.unique(images @ size ** np.arange(size), return_counts=True)
    assert len(counts) == math.factorial(size)
    assert _excess(counts) < 5


@pytest.mark.parametrize("size", [6, 7, 10, 16, 23, 32, 50, 63, 64, 100])
def test_pairs_of_images_are_uniform(size):
    keys = mix(12, np.arange(50_000))
    for first, second in [(0, 1), (0, size - 1), (size // 2, size // 2 + 1)]:
        cells = permute(first, size, keys) * size + permute(second, size, keys)
        counts = np.bincount(cells, minlength=size * size).reshape(size, size)
        assert _excess(counts[~np.eye(size, dtype=bool)]) < 5


def test_keys_depend_on_the_order_of_the_words_and_on_each_of_them():
    words = np.arange(200)
    keys = np.concatenate([mix(1, words), mix(2, words), mix(1, words, 300), mix(1, 300, words)])
    assert len(np.unique(keys)) == len(keys)


def _excess(counts):
    """Distance of chi-square above its mean for uniform counts, in standard deviations."""
    expected = counts.sum() / counts.size
    degrees = counts.size - 1
    return (((counts - expected) ** 2 / expected).sum() - degrees) / math.sqrt(2 * degrees)
