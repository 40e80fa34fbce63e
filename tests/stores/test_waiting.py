"""Tests of `headrace.stores.waiting`."""

import threading

from headrace.stores.waiting import is_over, wait, waits_end_with


def test_the_wait_of_a_thread_ends_when_its_work_is_cancelled():
    end, is_wanted, began = threading.Event(), [], threading.Event()

    def work():
        with waits_end_with(end):
            began.set()
            is_wanted.append(wait(600))
            assert is_over()

    thread = threading.Thread(target=work)
    thread.start()
    began.wait()
    end.set()
    thread.join(60)
    assert is_wanted == [False]
    assert wait(0)
    assert not is_over()
