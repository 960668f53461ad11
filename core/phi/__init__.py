"""Protected health information in text: known patients' values by index, and anything shaped like PHI.

Text enters; spans with field, value and the patients they belong to leave.
"""
