"""Shared by test_memory_file and the tests beside it."""

import threading


def on_new_thread(work):
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]
