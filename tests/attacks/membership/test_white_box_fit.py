"""Logistic regression on white-box features: what it may see, and where log-odds of 0 are."""

from __future__ import annotations

import numpy as np
import pytest

from core.attacks.membership.white_box import fitted_log_odds


def test_notes_that_are_judged_do_not_scale_the_features():
    rng = np.random.default_rng(0)
    features, member = rng.normal(size=(60, 3)), np.arange(60) % 2 == 0
    fit = np.arange(60) < 30
    far = features.copy()
    far[45:] *= 100
    assert fitted_log_odds(far, member, fit)[:15] == pytest.approx(fitted_log_odds(features, member, fit)[:15])


def test_many_members_do_not_move_the_boundary():

    member = np.arange(400) < 320
    features = np.where(member, 1.0, -1.0)[:, None] + np.random.default_rng(0).normal(0, 1, (400, 1))
    odds = fitted_log_odds(np.vstack([features, [[0.0]]]), np.append(member, False), np.arange(401) < 400)
    assert abs(odds[0]) < 0.25  # between two groups of one spread: as likely a member as not
