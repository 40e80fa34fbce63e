"""Tests of `headrace.streaming.batches.slots`."""

import numpy as np

from headrace.streaming.batches.slots import SlotAllocator


def test_memory_of_a_batch_that_was_given_up_is_free_again():
    slots = SlotAllocator()
    given_up = slots.empty((1 << 20,), np.uint8)
    sent = slots.empty((1 << 20,), np.uint8)
    slots.sent([slots.slot_of(sent.data)])
    assert slots.empty((1 << 20,), np.uint8).ctypes.data == given_up.ctypes.data
    assert len(slots.unseen()) == 2
