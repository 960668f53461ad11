"""What five papers claim, and whether it holds here: claims with their experiment and a rule fixed beforehand.

`claims` holds the claims, one record each, by paper. `measures` computes a claim's evidence from stored runs.
`rules` turn evidence into a verdict and read nothing else. `judging` does both; `training` trains what is missing;
`document` writes docs/findings.md.
"""
