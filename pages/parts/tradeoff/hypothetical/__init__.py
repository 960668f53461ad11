"""Trainings that nobody ran, in numbers: takes settings from the page, gives ε, odds and the measured grid."""
