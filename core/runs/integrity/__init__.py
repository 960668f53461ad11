"""Damage on disk: checksums, whole files, full disks, repair, and clearing out what a crash left.

Folders enter; sentences that name what is damaged leave.
"""
