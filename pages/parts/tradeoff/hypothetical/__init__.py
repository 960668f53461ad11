"""Trainings in numbers, without running them: takes settings from the page, gives ε, odds and the measured grid."""
