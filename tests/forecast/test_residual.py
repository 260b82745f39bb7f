"""The autoregression on what the rhythm leaves over."""

from __future__ import annotations

import numpy as np

from inferdoc.forecast.combine import burg, corrections


def ar_line(count: int, seed: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    line = np.zeros(count)
    for i in range(2, count):
        line[i] = 0.6 * line[i - 1] + 0.25 * line[i - 2] + rng.normal()
    return line


def test_burg_agrees_with_statsmodels() -> None:
    from statsmodels.regression.linear_model import burg as reference

    line = ar_line(2000)
    for order in (1, 2, 12):
        expected, _ = reference(line, order=order, demean=False)
        assert np.allclose(burg(line, order), expected, atol=1e-9)


def test_a_line_without_variance_gives_no_coefficients() -> None:
    assert burg(np.zeros(50), 3).tolist() == [0, 0, 0]


def test_the_correction_uses_older_errors_only_and_fades() -> None:
    past = ar_line(10 * 288)[::-1].reshape(10, 288)[:, ::-1].copy()
    now, then = corrections(past, 5.0)
    assert abs(now[-1]) < 0.05 < abs(now[0])
    assert (then[9] == 0).all()
    left = np.abs(past[:-1] - then[:-1])[:, :6].mean()
    assert left < np.abs(past[:-1])[:, :6].mean()


def test_unknown_errors_count_as_none() -> None:
    past = np.full((5, 288), np.nan)
    now, then = corrections(past, 5.0)
    assert not now.any() and not then.any()
