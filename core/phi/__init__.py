"""Protected health information in text: known patients' values by index, and anything shaped like PHI.

Takes text; returns spans with field, value and the patients they belong to.
"""
