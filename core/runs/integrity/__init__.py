"""Damage on disk: checksums, complete files, full disks, repair, and removing what a crash left behind.

Input: folders. Output: sentences that name what is damaged.
"""
