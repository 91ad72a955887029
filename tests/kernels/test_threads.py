"""One BLAS thread, in whatever thread the kernels run."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from dplan._kernels.threads import single_threaded_blas


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def limited():
    with single_threaded_blas():
        return blas_threads()


@pytest.fixture
def two_threads():
    np.dot(np.ones((2, 2)), np.ones((2, 2)))
    with threadpool_limits(2, user_api="blas"):
        yield


@pytest.mark.usefixtures("two_threads")
def test_the_limit_holds_in_every_thread_and_is_restored():
    assert limited() == {1}
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(limited).result() == {1}
    assert limited() == {1}
    assert blas_threads() == {2}


@pytest.mark.usefixtures("two_threads")
def test_overlapping_blocks_share_the_limit():
    entered, may_leave = threading.Event(), threading.Event()

    def stay_inside():
        with single_threaded_blas():
            entered.set()
            may_leave.wait(600)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(stay_inside)
        entered.wait(600)
        assert limited() == {1}
        assert blas_threads() == {1}  # the other thread is still inside
        may_leave.set()
        first.result()
    assert blas_threads() == {2}
