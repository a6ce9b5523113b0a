"""Estimators are shallow: few bases, and parameters with which each is typically used."""

from every_model import over_estimators


@over_estimators
def test_typical_parameters_are_parameters_of_the_estimator_and_not_its_defaults(estimator):
    defaults = estimator().get_params(deep=False)
    for choice in estimator._typical:
        assert set(choice) <= set(defaults)
        assert all(defaults[name] != value for name, value in choice.items())
