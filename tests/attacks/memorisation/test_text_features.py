from __future__ import annotations

from core.attacks.memorisation.text_features import features


def test_features_by_hand():
    training = [[1, 1, 1, 2, 2, 3], [1, 2, 9]]
    found = features(["BP 140/90, pain*", "a"], [[1, 2, 3, 3, 9], [1]], training)
    assert found.iloc[0].to_dict() == {
        "digits": 5,
        "tokens": 5,
        "others": 3,
        "rarest": 1,
        "second_rarest": 1,
        "third_rarest": 3,
    }
    assert found.iloc[1][["rarest", "second_rarest", "third_rarest"]].tolist() == [4, 4, 4]
    assert features([""], [[]], training).iloc[0].sum() == 0
