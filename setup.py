"""The wheel for workers: the package `core` with its data, and the shipped base models as `core/assets`.

Everything else is in pyproject.toml, which cannot name a package that lies outside its parent. The app's pages, the
demonstration runs and the benchmarks are not in the wheel.
"""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["core", "core.*"]), "core.assets"],
    package_dir={"core.assets": "assets"},
    package_data={
        "core": ["**/*.csv", "**/*.gz", "**/*.j2", "**/*.css", "**/*.json", "**/*.toml", "**/*.txt"],
        "core.assets": ["base/**/*"],
    },
    include_package_data=False,
)
